/* Finds the fastest tilings of an engine's products on this machine (kernels/tilings.h) when its
 * plans are made: in their own arena, before it holds anything, with the real operations. Tilings
 * have equal bits and need no more workspace than the fixed rules, so neither results nor plans
 * depend on what is found, or on how busy the machine was. */
#ifndef QN_RUN_TUNING_TUNER_H
#define QN_RUN_TUNING_TUNER_H

#include "kernels/tilings.h"
#include "run/engine.h"

/* A product as a step of a program. */
typedef struct qn_tuned_step {
    uint64_t key;
    unsigned kinds;
    int32_t step;
    int program;
    double estimate_ns; /* as planning has it: the longest come first */
} qn_tuned_step;

/* Invariants: tilings.n <= capacity; n_steps <= step_capacity; the steps' keys differ. */
typedef struct qn_tuner {
    qn_kernels kernels; /* the engine's, with these tilings */
    qn_tilings tilings;
    qn_tiling_trial trial;
    size_t capacity; /* of tilings.entries */
    size_t n_steps, step_capacity;
    qn_tuned_step *steps; /* null but while it runs */
    qn_kernel_tuning_use use;
} qn_tuner;

/* Of an engine whose options ask for it; null: for doubles, for plans alone and on the reference
 * kernels there is nothing to tune. Before planning it reads what was kept, and takes the memory
 * that tuning needs, so that it is in the budget; where that would be more than a small part of it,
 * nothing is tuned. Then it measures what is not known, and keeps it. */
static inline qn_tuner *qn_tuner_of(const qn_engine *engine) {
    return engine->policies[QN_POLICY_TUNER];
}

/* Reads so much of the arena, on all threads, that little of what a product reads stays in their
 * own caches, as after other operations of a step; else nothing would speak for fetching ahead. */
void qn_tuner_sweep(const qn_engine *engine);

#endif
