/* The weight of each class in the training loss, as the setting "class-weights" says. */
#ifndef QN_TASKS_CLASS_WEIGHTS_H
#define QN_TASKS_CLASS_WEIGHTS_H

#include "tasks/tasks.h"

/* Fills weights (n) as text says: "balanced" (samples / (classes * samples of the class), 0 for a
 * class without samples), numbers with commas between, or a file with a line "NAME,WEIGHT" for each
 * class, or a number a line in the classes' order. Class names are those of the source. */
qn_status qn_class_weights_find(const qn_allocator *allocator, const qn_data_source *source,
                                const char *text, int n, double *weights);

#endif
