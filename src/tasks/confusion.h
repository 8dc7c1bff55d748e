/* Counts the predicted classes for the samples of each class, in memory allocated once and
 * proportional to the samples, not to the square of the classes: a list of cells to which every
 * sample is appended, and whose equal cells are merged when it is full. The result does not depend
 * on the order.
 *     most_cells <= cells <= n_samples, where most_cells = min(n_classes^2, n_samples) */
#ifndef QN_TASKS_CONFUSION_H
#define QN_TASKS_CONFUSION_H

#include "quern/task.h"

typedef struct qn_confusion_counts qn_confusion_counts;

/* For evaluations of most_samples samples at most. */
qn_status qn_confusion_counts_create(const qn_allocator *allocator, int n_classes,
                                     int64_t most_samples, qn_confusion_counts **counts);
void qn_confusion_counts_destroy(qn_confusion_counts *counts);

/* Forgets all samples. */
void qn_confusion_counts_clear(qn_confusion_counts *counts);

/* A sample of a class that was taken for one, both from 0 to n_classes - 1. */
void qn_confusion_counts_add(qn_confusion_counts *counts, int32_t actual, int32_t taken);

/* Fills n_cells, cells and classes, which stay valid until the counts change. */
void qn_confusion_counts_finish(qn_confusion_counts *counts, qn_confusion *confusion);

#endif
