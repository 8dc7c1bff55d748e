/* The best measured result so far, stored in the pairs of checkpoints. */
#ifndef QN_TASKS_BEST_H
#define QN_TASKS_BEST_H

#include "quern/training.h"

/* From the pairs of a checkpoint; null: none. */
void qn_best_read(qn_best *best, const qn_metadata *pairs);

/* Notes what was measured at a step, and keeps it in pairs (which may be null): *is_better. A
 * measurement of another split or metric than before begins anew. */
qn_status qn_best_note(qn_best *best, qn_split split, const qn_metric *metric, int64_t step,
                       qn_metadata *pairs, bool *is_better);

#endif
