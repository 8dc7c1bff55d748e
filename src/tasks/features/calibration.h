/* Whether chances are honest: the expected calibration error (Guo et al. 2017, section 2) of
 * answers in 15 bins of their chance, and how many of the answers that are sure enough are
 * right. */
#ifndef QN_TASKS_FEATURES_CALIBRATION_H
#define QN_TASKS_FEATURES_CALIBRATION_H

#include <stdbool.h>
#include <stdint.h>

enum { QN_CALIBRATION_BINS = 15 };

/* All zero but unsure: no answers yet. */
typedef struct qn_calibration {
    double unsure; /* an answer of less chance is unsure */
    double chance[QN_CALIBRATION_BINS], right[QN_CALIBRATION_BINS]; /* sums */
    int64_t n, n_sure, n_sure_right;
} qn_calibration;

void qn_calibration_add(qn_calibration *calibration, double chance, bool is_right);

/* sum over bins |right - chance| / n; 0 of no answers. */
double qn_calibration_error(const qn_calibration *calibration);

#endif
