/* Gradients of several processes for one step (os/ranks.h). The batches that are accumulated for a
 * step are dealt out to the ranks in turn; each rank runs one at a time. Their gradients are added
 * in the order of the batches, element by element, by the rank that owns the element: what one
 * process computes, which adds them in that order too. Messages leave while the backward pass goes
 * on, a group of parameters at a time. What nodes change in place during a batch (running
 * statistics of batch norm) is done again for all ranks' batches in their order.
 *
 * Guarantees: parameters, state and sums have the bits of one process; after a failure before the
 * update they are those before the step. */
#ifndef QN_RUN_RANKS_REDUCER_H
#define QN_RUN_RANKS_REDUCER_H

#include "os/ranks.h"
#include "run/engine.h"

typedef struct qn_reducer qn_reducer;

#ifdef QN_WITH_MPI

/* Memory of the one for an engine whose programs are built: an upper bound. */
size_t qn_reducer_bytes(const qn_engine *engine);

/* For an engine that has been planned. QN_ERROR_UNSUPPORTED, QN_ERROR_ARGUMENT: it cannot be shared
 * by its ranks so. */
qn_status qn_reducer_create(qn_engine *engine, qn_reducer **reducer);
void qn_reducer_destroy(qn_reducer *reducer);

/* Runs the training program on this rank's next batch; the ranks' gradients are then added. step:
 * the number of the first rank's batch. */
qn_status qn_reducer_run(qn_reducer *reducer, uint64_t step, const qn_watch *watch);

/* After the last batch of a step: every rank gets all sums. */
qn_status qn_reducer_finish(qn_reducer *reducer);

/* Puts back what the batches of a step have changed so far. */
void qn_reducer_undo(qn_reducer *reducer);

#else

static inline size_t qn_reducer_bytes(const qn_engine *engine) {
    (void)engine;
    return 0;
}
static inline qn_status qn_reducer_create(qn_engine *engine, qn_reducer **reducer) {
    (void)engine;
    (void)reducer;
    return QN_ERROR_UNSUPPORTED;
}
static inline void qn_reducer_destroy(qn_reducer *reducer) {
    (void)reducer;
}
static inline qn_status qn_reducer_run(qn_reducer *reducer, uint64_t step, const qn_watch *watch) {
    (void)reducer;
    (void)step;
    (void)watch;
    return QN_ERROR_UNSUPPORTED;
}
static inline qn_status qn_reducer_finish(qn_reducer *reducer) {
    (void)reducer;
    return QN_ERROR_UNSUPPORTED;
}
static inline void qn_reducer_undo(qn_reducer *reducer) {
    (void)reducer;
}

#endif
#endif
