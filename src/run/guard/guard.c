/* See guard.h. */
#include "run/guard/guard.h"

#include "base/status.h"
#include "device/cpu/cpu.h"
#include "tensor/number.h"

#include <stdio.h>
#include <string.h>

/* ---- what is changed ---- */

/* The value from outside whose storage an output takes over; less than 0: none. */
static int32_t changed_value(const qn_graph *graph, const qn_node *node, int output) {
    int32_t v = node->outputs[output].id;
    if (v < 0 || graph->values[v]->overwrites < 0)
        return -1;
    while (graph->values[v]->overwrites >= 0)
        v = graph->values[v]->overwrites;
    return v;
}

/* A parameter that a step changes, and that no gradient does: a running mean. */
static bool is_kept(const qn_value_info *info) {
    return info->kind == QN_KIND_PARAMETER && !info->trainable;
}

static bool is_listed(const qn_guard *guard, int tensor) {
    bool is = false;
    for (int i = 0; i < guard->n; i++)
        is |= guard->kept[i].tensor == tensor;
    return is;
}

static void list_changed(qn_engine *e, const qn_graph *graph, const qn_node *node) {
    qn_guard *guard = &e->guard;
    for (int i = 0; i < node->n_outputs; i++) {
        const int32_t v = changed_value(graph, node, i);
        if (v < 0 || !is_kept(graph->values[v]))
            continue;
        const qn_stored_tensor *found = qn_store_find(&e->store, graph->values[v]->name);
        const int tensor = found ? (int)(found - e->store.tensors) : -1;
        if (!found || is_listed(guard, tensor))
            continue;
        guard->kept[guard->n++] = (qn_guarded){tensor, guard->bytes};
        guard->bytes += found->bytes;
    }
}

/* Copies of more than a part of the parameters would be memory that nobody asked for. */
static bool is_cheap(const qn_engine *e) {
    enum { PART = 8 };
    return e->guard.bytes <= e->store.bytes / PART;
}

/* Ranks undo their steps themselves. */
static bool ranks_undo(const qn_engine *e) {
    return e->options.ranks && e->options.update.accumulate > 1;
}

qn_status qn_guard_create(qn_engine *e) {
    qn_guard *guard = &e->guard;
    guard->capacity = (size_t)e->store.n_tensors;
    QN_TRY(qn_allocate(&e->allocator, guard->capacity, sizeof *guard->kept, &guard->kept));
    for (int i = 0; i < e->n_programs; i++) {
        const qn_program *p = &e->programs[i];
        for (int n = 0; p->training && n < p->graph->n_nodes; n++)
            list_changed(e, p->graph, p->graph->nodes[n]);
    }
    guard->is_on = is_cheap(e) && !ranks_undo(e);
    guard->is_unseen = true;
    if (!guard->is_on) {
        guard->n = 0;
        guard->bytes = 0;
    }
    const bool has_steps = guard->is_on && e->options.update.accumulate > 1;
    e->memory.planned_bytes += e->options.plan_only ? (1 + has_steps) * guard->bytes : 0;
    if (e->options.plan_only)
        return QN_OK;
    QN_TRY(qn_allocate_unset(&e->allocator, 1, guard->bytes, &guard->copies));
    return has_steps ? qn_allocate_unset(&e->allocator, 1, guard->bytes, &guard->step_copies)
                     : QN_OK;
}

void qn_guard_destroy(qn_engine *e) {
    qn_release(&e->allocator, e->guard.kept, e->guard.capacity, sizeof *e->guard.kept);
    qn_release(&e->allocator, e->guard.copies, 1, e->guard.copies ? e->guard.bytes : 0);
    qn_release(&e->allocator, e->guard.step_copies, 1, e->guard.step_copies ? e->guard.bytes : 0);
}

/* ---- where a plan changes what ---- */

static bool is_change(const qn_graph *graph, const qn_node *node) {
    bool is = false;
    for (int i = 0; i < node->n_outputs; i++) {
        const int32_t v = changed_value(graph, node, i);
        is |= v >= 0 && graph->values[v]->producer < 0 && !is_kept(graph->values[v]);
    }
    return is;
}

static int32_t step_of(const qn_program *p, qn_value value) {
    const qn_value seen = qn_graph_unview(p->graph, value);
    const int32_t producer = p->graph->values[seen.id]->producer;
    int32_t s = 0;
    while (s < p->plan->n_steps && p->plan->steps[s].node != producer)
        s++;
    return s;
}

/* Whether updates of a node of the plan look at their numbers, on the CPU. */
static bool looks(const qn_program *p, const qn_step *step) {
    const qn_node *node = p->graph->nodes[step->node];
    const bool is_update = node->op->overwrites[0] > 0;
    const bool is_on_cpu = !p->plan->lanes || p->plan->lanes->lanes[step->lane].device == 0;
    return !is_update || (node->op->finite_inputs != 0 && is_on_cpu);
}

/* Whether all that an update looks at is made before a step of the plan. */
static bool is_ready(const qn_program *p, const qn_node *node, int32_t first_change) {
    bool is = true;
    for (int i = 0; i < node->n_inputs; i++) {
        const bool is_looked_at = node->inputs[i].id >= 0 && (node->op->finite_inputs >> i & 1);
        if (is_looked_at && p->graph->values[node->inputs[i].id]->producer >= 0)
            is &= step_of(p, node->inputs[i]) < first_change;
    }
    return is;
}

static qn_guard_marks marks_of(const qn_program *p) {
    const qn_plan *plan = p->plan;
    qn_guard_marks marks = {.counts = true, .can_try = true, .are_ready = true};
    while (marks.first_change < plan->n_steps &&
           !is_change(p->graph, p->graph->nodes[plan->steps[marks.first_change].node]))
        marks.first_change++;
    for (int32_t s = 0; s < plan->n_steps; s++) {
        const qn_node *node = p->graph->nodes[plan->steps[s].node];
        marks.counts &= looks(p, &plan->steps[s]);
        marks.can_try &= !node->op->runs_once;
        marks.are_ready &= s < marks.first_change || is_ready(p, node, marks.first_change);
    }
    marks.can_try &= marks.counts;
    marks.loss_end = p->n_losses > 0 ? step_of(p, p->losses[0]) + 1 : 0;
    return marks;
}

void qn_guard_mark(qn_engine *e, const qn_program *p) {
    if (p->training && p != &e->update)
        qn_executor_set_marks(p->executor, marks_of(p));
    if (p == &e->update || (p->training && !ranks_undo(e)))
        qn_executor_check_updates(p->executor, &e->guard.check);
}

bool qn_guard_covers(const qn_engine *e, const qn_program *p) {
    const qn_guard_marks marks = qn_executor_get_marks(p->executor);
    return e->guard.is_on && marks.loss_end > 0 && marks.loss_end <= marks.first_change;
}

/* ---- copies ---- */

static void keep(const qn_engine *e, char *copies) {
    for (int i = 0; i < e->guard.n; i++) {
        const qn_stored_tensor *from = &e->store.tensors[e->guard.kept[i].tensor];
        memcpy(copies + e->guard.kept[i].at, from->data, from->bytes);
    }
}

static void put_back(const qn_engine *e, const char *copies) {
    for (int i = 0; i < e->guard.n; i++) {
        const qn_stored_tensor *to = &e->store.tensors[e->guard.kept[i].tensor];
        memcpy(to->data, copies + e->guard.kept[i].at, to->bytes);
    }
}

/* All batches of the step. */
static void give_up_step(qn_engine *e) {
    if (e->guard.step_copies)
        put_back(e, e->guard.step_copies);
    for (int i = 0; i < e->sums.n_tensors; i++)
        memset(e->sums.tensors[i].data, 0, e->sums.tensors[i].bytes);
    e->run.n_accumulated = 0;
}

/* ---- what was found ---- */

bool qn_guard_are_finite(const qn_engine *e) {
    bool are = true;
    for (int i = 0; are && i < e->store.n_tensors; i++) {
        const qn_stored_tensor *t = &e->store.tensors[i];
        const int64_t n = qn_shape_count(t->shape);
        if (t->trainable && (t->dtype == QN_F32 || t->dtype == QN_F64))
            are = qn_numbers_find_bad(t->dtype, t->data, n, false) == n;
    }
    return are;
}

static bool are_moderate(const qn_engine *e) {
    bool are = true;
    for (int i = 0; are && i < e->store.n_tensors; i++) {
        const qn_stored_tensor *t = &e->store.tensors[i];
        if (t->trainable && (t->dtype == QN_F32 || t->dtype == QN_F64))
            are = qn_numbers_are_moderate(t->dtype, t->data, qn_shape_count(t->shape));
    }
    return are;
}

static bool is_bad(const qn_engine *e) {
    return __atomic_load_n(&e->guard.check.is_bad, __ATOMIC_ACQUIRE) != 0;
}

static qn_status fail_gradient(const qn_engine *e, const char *of, size_t length,
                               const char *says) {
    return qn_fail(QN_ERROR_NUMERIC,
                   "step %lld: the gradient of %.*s is not finite%s; lower the learning rate (set "
                   "to %g, at this step %g), or clip gradients",
                   (long long)e->run.steps + 1, (int)length, of, says, e->options.update.rate,
                   qn_engine_rate(e));
}

/* Node "NAME.update" updates NAME. */
static qn_status fail_node(const qn_engine *e) {
    const char *node = e->guard.check.node, *point = strrchr(node, '.');
    return fail_gradient(e, node, point ? (size_t)(point - node) : strlen(node),
                         ", though the loss is");
}

static qn_status check_found(const qn_engine *e, const qn_program *p) {
    for (int i = 0; i < p->n_losses; i++)
        QN_TRY(qn_engine_check_loss(e, p, i));
    return is_bad(e) ? fail_node(e) : QN_OK;
}

/* What was trained may be of no use since the step before. */
static qn_status refuse(const qn_engine *e, bool is_changed) {
    char text[512];
    snprintf(text, sizeof text, "%s", qn_error_message());
    if (!qn_guard_are_finite(e))
        return qn_fail(QN_ERROR_NUMERIC,
                       "%s; parameters are not finite any more: continue from a checkpoint", text);
    return is_changed
               ? qn_fail(QN_ERROR_NUMERIC, "%s", text)
               : qn_fail(QN_ERROR_NUMERIC,
                         "%s; or leave a sample out that is too large; nothing was changed", text);
}

/* ---- running ---- */

/* The whole batch without its updates. */
static qn_status try_out(qn_engine *e, const qn_program *p, uint64_t step) {
    qn_finite_check *check = &e->guard.check;
    check->is_trial = true;
    qn_status status = qn_executor_run(p->executor, e->options.seed, step, NULL);
    put_back(e, e->guard.copies);
    if (status == QN_OK)
        status = check_found(e, p);
    *check = (qn_finite_check){.is_large = check->is_large};
    return status;
}

static bool can_try(const qn_engine *e, const qn_program *p) {
    return e->guard.is_on && qn_executor_get_marks(p->executor).can_try;
}

qn_status qn_guard_begin(qn_engine *e, const qn_program *p, uint64_t step) {
    qn_guard *guard = &e->guard;
    const bool is_doubtful = guard->has_large_inputs || guard->has_large_gradients ||
                             (guard->is_unseen && !are_moderate(e));
    guard->check = (qn_finite_check){.is_bad = 0};
    guard->is_unseen = false;
    guard->is_undecided = true;
    keep(e, guard->copies);
    if (guard->step_copies && e->run.n_accumulated == 0)
        keep(e, guard->step_copies);
    if (is_doubtful && can_try(e, p))
        QN_TRY(try_out(e, p, step));
    guard->is_undecided = false;
    return QN_OK;
}

static qn_status run_to(qn_engine *e, const qn_program *p, int32_t *next, int32_t end,
                        const int *stop, uint64_t step, const qn_watch *watch) {
    QN_TRY(qn_executor_run_from(p->executor, next, end, stop, e->options.seed, step, watch));
    return *next < end ? qn_fail(QN_ERROR_INTERRUPTED, "stopped between two operations") : QN_OK;
}

static bool is_loss_large(const qn_engine *e, const qn_program *p) {
    return !qn_numbers_are_moderate(e->options.real, qn_executor_get(p->executor, p->losses[0]), 1);
}

/* All updates look before the first one changes anything. */
static qn_status look_ahead(qn_engine *e, const qn_program *p, int32_t next) {
    qn_finite_check *check = &e->guard.check;
    check->is_trial = true;
    for (int32_t s = next; s < p->plan->n_steps; s++) {
        const qn_call *call = qn_executor_get_call(p->executor, s);
        if (call->finite)
            (void)qn_cpu_may_change(call);
    }
    check->is_trial = false;
    check->is_over = true;
    return is_bad(e) ? fail_node(e) : QN_OK;
}

/* The parts before the updates. */
static qn_status try_step(qn_engine *e, const qn_program *p, int32_t *next, uint64_t step,
                          const qn_watch *watch) {
    const qn_guard_marks marks = qn_executor_get_marks(p->executor);
    /* Running means of the batches before it are not put back. */
    const int *stop = e->run.n_accumulated == 0 || e->run.may_spoil ? e->run.stop : NULL;
    QN_TRY(run_to(e, p, next, marks.loss_end, stop, step, watch));
    QN_TRY(qn_engine_check_loss(e, p, 0));
    if (is_loss_large(e, p) && marks.can_try) {
        put_back(e, e->guard.copies);
        QN_TRY(try_out(e, p, step));
        *next = 0;
        QN_TRY(run_to(e, p, next, marks.loss_end, stop, step, watch));
    }
    QN_TRY(run_to(e, p, next, marks.first_change, stop, step, watch));
    return marks.are_ready ? look_ahead(e, p, *next) : QN_OK;
}

qn_status qn_guard_run(qn_engine *e, const qn_program *p, uint64_t step, const qn_watch *watch) {
    int32_t next = 0;
    e->guard.is_undecided = true;
    QN_TRY(try_step(e, p, &next, step, watch));
    QN_TRY(qn_program_check_lent(p));
    e->guard.is_undecided = false;
    return run_to(e, p, &next, p->plan->n_steps, e->run.may_spoil ? e->run.stop : NULL, step,
                  watch);
}

qn_status qn_guard_end(qn_engine *e, const qn_program *p, qn_status status, bool *is_changed) {
    qn_guard *guard = &e->guard;
    /* A device that was lost may have left no executor. */
    const bool is_counted =
        guard->is_on && p->executor && qn_executor_get_marks(p->executor).counts;
    guard->has_large_gradients = guard->check.is_large;
    if (status == QN_OK)
        status = check_found(e, p);
    *is_changed = status == QN_OK || !(guard->is_undecided || is_counted) ||
                  (!guard->is_undecided && guard->check.n_changes > 0);
    if (!*is_changed)
        put_back(e, guard->copies);
    else if (status == QN_ERROR_NUMERIC && is_counted && e->options.update.accumulate > 1) {
        give_up_step(e); /* its updates are of sums */
        *is_changed = false;
    }
    return status == QN_ERROR_NUMERIC ? refuse(e, *is_changed) : status;
}

/* What is wrong with the sums has been said. Parameters are as before the step; running statistics
 * are put back where there are copies. */
static qn_status refuse_sums(qn_engine *e) {
    const bool is_changed = !e->guard.is_on && !ranks_undo(e);
    give_up_step(e);
    e->run.is_spoiled = is_changed;
    return refuse(e, is_changed);
}

qn_status qn_guard_check_sums(qn_engine *e) {
    const size_t prefix = strlen("gradient_sum.");
    /* All sums are looked at here; the factor that clips them is made of them by the update. */
    e->guard.check = (qn_finite_check){.is_over = e->options.update.clip_norm == 0};
    for (int i = 0; i < e->sums.n_tensors; i++) {
        const qn_stored_tensor *t = &e->sums.tensors[i];
        const int64_t n = qn_shape_count(t->shape);
        if (qn_numbers_find_bad(t->dtype, t->data, n, false) == n)
            continue;
        (void)fail_gradient(e, t->name + prefix, strlen(t->name + prefix),
                            ", summed over the batches of the step");
        return refuse_sums(e);
    }
    return QN_OK;
}

qn_status qn_guard_check_update(qn_engine *e) {
    if (!is_bad(e))
        return QN_OK;
    (void)fail_node(e); /* the factor is every update's: none was made */
    return refuse_sums(e);
}
