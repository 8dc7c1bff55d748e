/* The quality of labels for a stream with known and new classes. */
#ifndef QN_LABEL_SCORE_H
#define QN_LABEL_SCORE_H

#include <stdbool.h>
#include <stdint.h>

/* Counts by class and by what the sample was taken for. */
typedef struct qn_label_score {
    int64_t n_known, n_new;
    int64_t known_as_new, new_as_known, known_as_other;
} qn_label_score;

/* Adds a sample: its class, and the known class that it was taken for, or -1 for new. n_known: the
 * classes below it are known. Which new class it was taken for makes no difference. */
void qn_label_score_add(qn_label_score *score, int n_known, int class, int taken_for);

/* In per cent: of new samples, those taken for known ones; of known ones, those taken for new; the
 * mean of both; all mistakes of all samples. Of no samples: 0. */
double qn_label_missed_new(const qn_label_score *score);
double qn_label_false_new(const qn_label_score *score);
double qn_label_balanced(const qn_label_score *score);
double qn_label_error(const qn_label_score *score);

#endif
