/* What a classifier took samples for, by class: scores, a CSV file, an HTML report. */
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

/* The name of a class, or its number, in text. */
const char *qn_confusion_name(const qn_confusion *confusion, int class, char text[24]);

/* The class that samples of one were taken for most often, wrongly; -1: none were. */
int qn_confusion_most_wrong(const qn_confusion *confusion, int class);

/* A row a class, a column for what its samples were taken for, names in the first of both. */
qn_status qn_confusion_write_csv(const qn_confusion *confusion, const char *path);

/* One page: figures, the matrix as a picture, a table of the classes. metrics as they were
 * measured. */
qn_status qn_confusion_write_html(const qn_allocator *allocator, const qn_confusion *confusion,
                                  const char *title, const qn_metrics *metrics, const char *path);

#endif
