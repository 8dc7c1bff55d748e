/* The predictions of a classifier by class: scores, a CSV file, an HTML report. With more classes
 * than `most`, the whole matrix would be an unreadable file of gigabytes; then the `most` most
 * confused pairs of classes are shown, and the `most` classes with the most wrong samples. */
#ifndef QN_REPORT_CONFUSION_H
#define QN_REPORT_CONFUSION_H

#include "quern/task.h"

/* Of a class: precision = right / taken for it, recall = right / samples of it, F1 = their harmonic
 * mean; NaN where there is nothing to divide by, F1 also where both are 0. */
typedef struct qn_class_scores {
    int64_t n_samples, n_taken, n_right;
    double precision, recall, f1;
} qn_class_scores;

qn_class_scores qn_confusion_scores(const qn_confusion *confusion, int class);

/* Mean F1 of the classes that have samples; one without a right answer counts 0. */
double qn_confusion_macro_f1(const qn_confusion *confusion);

/* Balanced accuracy: the mean recall of the classes that have samples (Brodersen et al., "The
 * balanced accuracy and its posterior distribution", ICPR 2010). Always answering one of n classes
 * gives 1 / n, however many samples it has. */
double qn_confusion_balanced_accuracy(const qn_confusion *confusion);

/* The name of a class, or its number, in text. */
const char *qn_confusion_name(const qn_confusion *confusion, int class, char text[24]);

/* The cell of what samples of a class were taken for most often, wrongly; null: none were. */
const qn_confusion_cell *qn_confusion_most_wrong(const qn_confusion *confusion, int class);

/* The counts of a class's row one by one: *cell begins as the class's first_cell. */
int64_t qn_confusion_next(const qn_confusion *confusion, int class, int taken, int64_t *cell);

/* ---- the most confused ---- */

/* Of the cells, or of the classes: which, and the wrong samples of it. */
typedef struct qn_confusion_rank {
    int64_t index, n_wrong;
} qn_confusion_rank;

/* At most `most` of those that have wrong samples, most first, equals in their order; n_all counts
 * all of them. */
typedef struct qn_confusion_ranking {
    int64_t n, n_all;
    qn_confusion_rank *ranks; /* (n) */
} qn_confusion_ranking;

qn_status qn_confusion_rank_pairs(const qn_allocator *allocator, const qn_confusion *confusion,
                                  int64_t most, qn_confusion_ranking *ranking);
qn_status qn_confusion_rank_classes(const qn_allocator *allocator, const qn_confusion *confusion,
                                    int64_t most, qn_confusion_ranking *ranking);
void qn_confusion_ranking_deinit(const qn_allocator *allocator, qn_confusion_ranking *ranking);

/* ---- files ---- */

/* A row a class, a column for what its samples were taken for, names in the first of both; of more
 * than `most` classes a row for each of the most confused pairs. */
qn_status qn_confusion_write_csv(const qn_allocator *allocator, const qn_confusion *confusion,
                                 int64_t most, const char *path);

/* One page: figures, the matrix as a picture or the most confused pairs as a table, a table of the
 * classes. metrics as they were measured, with n_threads threads. */
qn_status qn_confusion_write_html(const qn_allocator *allocator, const qn_confusion *confusion,
                                  int64_t most, const char *title, int n_threads,
                                  const qn_metrics *metrics, const char *path);

#endif
