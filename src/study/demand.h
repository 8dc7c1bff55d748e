/* The memory that a training step of a model will need, from its plan: nothing runs, and memory of
 * that size is not allocated. */
#ifndef QN_STUDY_DEMAND_H
#define QN_STUDY_DEMAND_H

#include "study/cell.h"

/* n_threads 0: the processors available. */
qn_status qn_demand_find(const qn_allocator *allocator, const qn_model *model, int64_t batch,
                         int n_threads, qn_demand *demand);

#endif
