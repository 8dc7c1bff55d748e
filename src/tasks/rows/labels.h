/* Measures of several labels for each sample: mean average precision, F1, and for each label the
 * threshold of its chance at which its F1 is best. Chances are counted in QN_LABEL_BINS steps, so
 * that memory does not grow with the samples. */
#ifndef QN_TASKS_ROWS_LABELS_H
#define QN_TASKS_ROWS_LABELS_H

#include "base/memory.h"
#include "quern/data.h"
#include "quern/task.h"

enum { QN_LABEL_BINS = 4096 };

/* Setting under which a checkpoint keeps thresholds. */
#define QN_LABEL_THRESHOLDS "label_thresholds"

typedef struct qn_label_counts {
    int n_labels;
    int64_t n;                        /* samples */
    int64_t (*has)[2][QN_LABEL_BINS]; /* (n_labels) samples without and with the label, by chance */
} qn_label_counts;

qn_status qn_label_counts_init(qn_label_counts *counts, const qn_allocator *allocator,
                               int n_labels);
void qn_label_counts_deinit(qn_label_counts *counts, const qn_allocator *allocator);
void qn_label_counts_clear(qn_label_counts *counts);

/* Adds n samples: chances and labels, 0 or 1, (n, n_labels). */
void qn_label_counts_add(qn_label_counts *counts, const float *chances, const float *labels,
                         int64_t n);

/* Average precision of a label: the mean of the precisions at each sample that has it, the most
 * likely first; of equal chances together. NaN where no sample has it. */
double qn_label_precision(const qn_label_counts *counts, int label);

/* The threshold at which a label's F1 is best; 0.5 where no sample has it. */
double qn_label_threshold(const qn_label_counts *counts, int label);

/* F1 of a label at a threshold; 0 where nothing is right. */
double qn_label_f1(const qn_label_counts *counts, int label, double threshold);

/* The metrics accuracy (of single labels, at 0.5), f1 (mean of the labels' at their thresholds) and
 * map. thresholds null: 0.5. */
void qn_label_report(const qn_label_counts *counts, const double *thresholds, qn_metrics *metrics);

/* Tells the average precision, F1 and threshold of each label. */
void qn_label_tell(const qn_label_counts *counts, const double *thresholds, const qn_table *table,
                   const qn_log *log);

/* Thresholds as a setting keeps them, and back; what is no list of n numbers of 0 to 1 is 0.5. */
void qn_label_thresholds_read(const char *text, int n, double *thresholds);
qn_status qn_label_thresholds_write(qn_arena *arena, const double *thresholds, int n,
                                    const char **text);

#endif
