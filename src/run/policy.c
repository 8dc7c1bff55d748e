/* Calls of all policies. See policy.h. */
#include "run/policy.h"

#include "base/status.h"

/* The next row that has a function, from *i on; null: none. */
#define NEXT(i, function)                                                                          \
    for (; i < QN_POLICIES; i++)                                                                   \
        if (qn_policy_rows[i] && qn_policy_rows[i]->function)

/* The same backwards. */
#define NEXT_BACKWARDS(i, function)                                                                \
    for (; i >= 0; i--)                                                                            \
        if (qn_policy_rows[i] && qn_policy_rows[i]->function)

/* ---- making an engine ---- */

qn_status qn_policies_create(qn_engine *e) {
    int i = 0;
    NEXT(i, create)
    QN_TRY(qn_policy_rows[i]->create(e));
    return QN_OK;
}

qn_status qn_policies_build(qn_engine *e, qn_program *p) {
    int i = 0;
    NEXT(i, build)
    QN_TRY(qn_policy_rows[i]->build(e, p));
    return QN_OK;
}

qn_status qn_policies_prepare(qn_engine *e) {
    int i = 0;
    NEXT(i, prepare)
    QN_TRY(qn_policy_rows[i]->prepare(e));
    return QN_OK;
}

const qn_machine_device *qn_policies_sharer(const qn_engine *e) {
    const qn_machine_device *device = NULL;
    int i = 0;
    NEXT(i, sharer)
    device = device ? device : qn_policy_rows[i]->sharer(e);
    return device;
}

size_t qn_policies_reserve(const qn_engine *e) {
    size_t bytes = 0;
    int i = 0;
    NEXT(i, reserve)
    bytes += qn_policy_rows[i]->reserve(e);
    return bytes;
}

const qn_policy *qn_policies_that_plans(const qn_engine *e) {
    int i = 0;
    NEXT(i, plans) {
        if (qn_policy_rows[i]->plans(e))
            return qn_policy_rows[i];
    }
    return NULL;
}

size_t qn_policies_offer(const qn_engine *e, qn_budget_options *options) {
    size_t bytes = 0;
    int i = 0;
    NEXT(i, offer)
    bytes += qn_policy_rows[i]->offer(e, options);
    return bytes;
}

size_t qn_policies_open_bytes(const qn_engine *e) {
    size_t bytes = 0;
    int i = 0;
    NEXT(i, open_bytes)
    bytes += qn_policy_rows[i]->open_bytes(e);
    return bytes;
}

/* The budget holds for each memory, so the fullest one counts. */
size_t qn_policies_other_bytes(const qn_engine *e) {
    size_t most = 0;
    int i = 0;
    NEXT(i, other_bytes) {
        const size_t bytes = qn_policy_rows[i]->other_bytes(e);
        most = bytes > most ? bytes : most;
    }
    return most;
}

bool qn_policies_time_batches(const qn_engine *e) {
    bool do_time = false;
    int i = 0;
    NEXT(i, times_batches)
    do_time = do_time || qn_policy_rows[i]->times_batches(e);
    return do_time;
}

qn_status qn_policies_open(qn_engine *e) {
    int i = 0;
    NEXT(i, open)
    QN_TRY(qn_policy_rows[i]->open(e));
    return QN_OK;
}

qn_status qn_policies_take_arena(qn_engine *e, bool *is_taken) {
    int i = 0;
    *is_taken = false;
    NEXT(i, take_arena)
    QN_TRY(qn_policy_rows[i]->take_arena(e, is_taken));
    return QN_OK;
}

qn_status qn_policies_start(qn_engine *e) {
    int i = 0;
    NEXT(i, start)
    QN_TRY(qn_policy_rows[i]->start(e));
    return QN_OK;
}

/* ---- runs ---- */

qn_status qn_policies_begin_run(qn_engine *e, int program) {
    int i = QN_POLICIES - 1;
    NEXT_BACKWARDS(i, begin_run)
    QN_TRY(qn_policy_rows[i]->begin_run(e, program));
    return QN_OK;
}

void qn_policies_end_run(qn_engine *e, int program) {
    int i = 0;
    NEXT(i, end_run)
    qn_policy_rows[i]->end_run(e, program);
}

const qn_watch *qn_policies_watch(const qn_engine *e, int program) {
    const qn_watch *watch = NULL;
    int i = 0;
    NEXT(i, watch)
    watch = watch ? watch : qn_policy_rows[i]->watch(e, program);
    return watch;
}

const qn_policy *qn_policies_that_runs(const qn_engine *e, int program) {
    int i = QN_POLICIES - 1;
    NEXT_BACKWARDS(i, runs) {
        if (qn_policy_rows[i]->runs(e, program))
            return qn_policy_rows[i];
    }
    return NULL;
}

int qn_policies_batches(const qn_engine *e) {
    int n = 1, i = 0;
    NEXT(i, batches)
    n *= qn_policy_rows[i]->batches(e);
    return n;
}

qn_status qn_policies_finish_step(qn_engine *e) {
    int i = 0;
    NEXT(i, finish_step)
    QN_TRY(qn_policy_rows[i]->finish_step(e));
    return QN_OK;
}

bool qn_policies_can_undo(const qn_engine *e) {
    bool can = false;
    int i = 0;
    NEXT(i, undo_step)
    can = can || e->policies[i];
    return can;
}

void qn_policies_undo_step(qn_engine *e) {
    int i = 0;
    NEXT(i, undo_step) {
        if (e->policies[i])
            qn_policy_rows[i]->undo_step(e);
    }
}

qn_status qn_policies_fetch(qn_engine *e) {
    int i = 0;
    NEXT(i, fetch)
    QN_TRY(qn_policy_rows[i]->fetch(e));
    return QN_OK;
}

/* ---- the end ---- */

void qn_policies_stop(qn_engine *e) {
    int i = QN_POLICIES - 1;
    NEXT_BACKWARDS(i, stop)
    qn_policy_rows[i]->stop(e);
}

void qn_policies_destroy(qn_engine *e) {
    int i = QN_POLICIES - 1;
    NEXT_BACKWARDS(i, destroy)
    qn_policy_rows[i]->destroy(e);
}
