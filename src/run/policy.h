/* Policies: what can be added to an engine that makes plans and runs them. A policy is a row of
 * policies.def with a state of its own, which the engine keeps for it and does not look into;
 * an engine whose options do not ask for it has none (null). Every function may be null. They are
 * called in the order of the list, those that end something in the reverse order.
 *
 * The engine's phases: create, prepare, plan, open, start; then runs; stop, destroy. After a
 * failure stop and destroy are called whatever was called before. */
#ifndef QN_RUN_POLICY_H
#define QN_RUN_POLICY_H

#include "run/engine.h"

struct qn_saved_program;

typedef struct qn_policy {
    const char *name;

    /* ---- making an engine ---- */

    qn_status (*create)(qn_engine *engine); /* with options and kernels; before its programs */
    /* A training program's graph is built, and not planned; its number is the first such. */
    qn_status (*build)(qn_engine *engine, qn_program *program);
    /* Takes what has to be held before the plans are made. */
    qn_status (*prepare)(qn_engine *engine);
    /* A device that works in the host's memory, which then gives it; null: none. */
    const qn_machine_device *(*sharer)(const qn_engine *engine);
    /* Bytes of the budget that it will hold, and that nobody counts yet. */
    size_t (*reserve)(const qn_engine *engine);
    /* Whether it makes the usual plan of programs, and then does, instead of the engine. */
    bool (*plans)(const qn_engine *engine);
    qn_status (*plan)(qn_engine *engine, qn_program *program);
    /* Of the one that plans, within total_bytes of a budget: as qn_budget_plan_find; and whether a
     * plan keeps within it, with an arena of at most arena_bytes. Null: as the engine does it. */
    qn_status (*find)(qn_engine *engine, const qn_program *program, size_t total_bytes,
                      const qn_budget_options *options, qn_budget_plan *found, size_t *least);
    bool (*fits)(const qn_engine *engine, const qn_plan *plan, size_t arena_bytes,
                 size_t total_bytes);
    /* Likewise: takes a plan that was saved. */
    qn_status (*restore)(qn_engine *engine, const struct qn_saved_program *saved,
                         qn_program *program);
    /* Adds what a search for plans within a budget may use to its options; gives about how many
     * bytes open would then take. 0: it offers nothing. */
    size_t (*offer)(const qn_engine *engine, qn_budget_options *options);
    /* Bytes that open will take for the plans that there are now. */
    size_t (*open_bytes)(const qn_engine *engine);
    /* Bytes of a memory of its own, for which the budget holds as well. */
    size_t (*other_bytes)(const qn_engine *engine);
    /* Whether it measures operations of whole batches, which are thus better not split. */
    bool (*times_batches)(const qn_engine *engine);
    qn_status (*open)(qn_engine *engine); /* plans and executors are there */
    /* Takes the arena, if it is its own; sets *is_taken. */
    qn_status (*take_arena)(qn_engine *engine, bool *is_taken);
    qn_status (*start)(qn_engine *engine); /* the engine could run now */

    /* ---- runs ---- */

    /* Before the inputs of a run are bound; after a batch of training that has succeeded. */
    qn_status (*begin_run)(qn_engine *engine, int program);
    void (*end_run)(qn_engine *engine, int program);
    /* Where a run is recorded while nobody else watches the engine; null: nowhere. */
    const qn_watch *(*watch)(const qn_engine *engine, int program);
    /* Whether it runs a program instead of the engine, and runs it. The last one that does. */
    bool (*runs)(const qn_engine *engine, int program);
    qn_status (*run)(qn_engine *engine, int program, uint64_t step, const qn_watch *watch);
    /* Batches that one run of a training program stands for. */
    int (*batches)(const qn_engine *engine);
    /* After the last batch of a step, before the update of all of them. */
    qn_status (*finish_step)(qn_engine *engine);
    /* A step has failed: parameters become what they were before it. */
    void (*undo_step)(qn_engine *engine);
    /* Somebody is about to look at what the tensors hold, and may change it. */
    qn_status (*fetch)(qn_engine *engine);

    /* ---- the end ---- */

    void (*stop)(qn_engine *engine);    /* before programs, stores and arenas are released */
    void (*destroy)(qn_engine *engine); /* after them */
} qn_policy;

/* The rows of policies.def, by number (run/engine.h); null: left out of this build. */
extern const qn_policy *const qn_policy_rows[QN_POLICIES];

/* All rows, for the engine. */
qn_status qn_policies_create(qn_engine *engine);
qn_status qn_policies_build(qn_engine *engine, qn_program *program);
qn_status qn_policies_prepare(qn_engine *engine);
const qn_machine_device *qn_policies_sharer(const qn_engine *engine);
size_t qn_policies_reserve(const qn_engine *engine);
const qn_policy *qn_policies_that_plans(const qn_engine *engine);
size_t qn_policies_offer(const qn_engine *engine, qn_budget_options *options);
size_t qn_policies_open_bytes(const qn_engine *engine);
size_t qn_policies_other_bytes(const qn_engine *engine);
bool qn_policies_time_batches(const qn_engine *engine);
qn_status qn_policies_open(qn_engine *engine);
qn_status qn_policies_take_arena(qn_engine *engine, bool *is_taken);
qn_status qn_policies_start(qn_engine *engine);
qn_status qn_policies_begin_run(qn_engine *engine, int program);
void qn_policies_end_run(qn_engine *engine, int program);
const qn_watch *qn_policies_watch(const qn_engine *engine, int program);
const qn_policy *qn_policies_that_runs(const qn_engine *engine, int program);
int qn_policies_batches(const qn_engine *engine);
qn_status qn_policies_finish_step(qn_engine *engine);
bool qn_policies_can_undo(const qn_engine *engine);
void qn_policies_undo_step(qn_engine *engine);
qn_status qn_policies_fetch(qn_engine *engine);
void qn_policies_stop(qn_engine *engine);
void qn_policies_destroy(qn_engine *engine);

#endif
