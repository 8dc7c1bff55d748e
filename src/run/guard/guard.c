/* See guard.h. */
#include "run/guard/guard.h"

#include "base/status.h"
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

qn_status qn_guard_create(qn_engine *e) {
    qn_guard *guard = &e->guard;
    guard->capacity = (size_t)e->store.n_tensors;
    QN_TRY(qn_allocate(&e->allocator, guard->capacity, sizeof *guard->kept, &guard->kept));
    for (int i = 0; i < e->n_programs; i++) {
        const qn_program *p = &e->programs[i];
        for (int n = 0; p->training && n < p->graph->n_nodes; n++)
            list_changed(e, p->graph, p->graph->nodes[n]);
    }
    guard->is_on = is_cheap(e);
    if (!guard->is_on) {
        guard->n = 0;
        guard->bytes = 0;
    }
    if (!e->options.plan_only)
        return qn_allocate_unset(&e->allocator, 1, guard->bytes, &guard->copies);
    e->memory.planned_bytes += guard->bytes;
    return QN_OK;
}

void qn_guard_destroy(qn_engine *e) {
    qn_release(&e->allocator, e->guard.kept, e->guard.capacity, sizeof *e->guard.kept);
    qn_release(&e->allocator, e->guard.copies, 1, e->guard.copies ? e->guard.bytes : 0);
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

void qn_guard_mark(const qn_engine *e, qn_program *p) {
    qn_guard_marks marks = {0};
    if (p->training && p->n_losses > 0 && e->guard.is_on) {
        marks.first_change = 0;
        while (marks.first_change < p->plan->n_steps &&
               !is_change(p->graph, p->graph->nodes[p->plan->steps[marks.first_change].node]))
            marks.first_change++;
        marks.loss_end = step_of(p, p->losses[0]) + 1;
    }
    qn_executor_set_marks(p->executor, marks);
}

bool qn_guard_covers(const qn_engine *e, const qn_program *p) {
    const qn_guard_marks marks = qn_executor_get_marks(p->executor);
    return e->guard.is_on && marks.loss_end > 0 && marks.loss_end <= marks.first_change;
}

/* ---- running ---- */

static void keep(const qn_engine *e) {
    for (int i = 0; i < e->guard.n; i++) {
        const qn_stored_tensor *from = &e->store.tensors[e->guard.kept[i].tensor];
        memcpy(e->guard.copies + e->guard.kept[i].at, from->data, from->bytes);
    }
}

static void put_back(const qn_engine *e) {
    for (int i = 0; i < e->guard.n; i++) {
        const qn_stored_tensor *to = &e->store.tensors[e->guard.kept[i].tensor];
        memcpy(to->data, e->guard.copies + e->guard.kept[i].at, to->bytes);
    }
}

static qn_status run_to(qn_engine *e, const qn_program *p, int32_t *next, int32_t end,
                        const int *stop, uint64_t step, const qn_watch *watch) {
    QN_TRY(qn_executor_run_from(p->executor, next, end, stop, e->options.seed, step, watch));
    return *next < end ? qn_fail(QN_ERROR_INTERRUPTED, "stopped between two operations") : QN_OK;
}

/* The parts before the updates. */
static qn_status try_step(qn_engine *e, const qn_program *p, int32_t *next, uint64_t step,
                          const qn_watch *watch) {
    const qn_guard_marks marks = qn_executor_get_marks(p->executor);
    /* Running means of the batches before it are not put back. */
    const int *stop = e->run.n_accumulated == 0 || e->run.may_spoil ? e->run.stop : NULL;
    QN_TRY(run_to(e, p, next, marks.loss_end, stop, step, watch));
    QN_TRY(qn_engine_check_loss(e, p, 0));
    return run_to(e, p, next, marks.first_change, stop, step, watch);
}

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

/* What was trained may be of no use since the step before. */
static qn_status refuse(const qn_engine *e) {
    char text[512];
    snprintf(text, sizeof text, "%s", qn_error_message());
    return qn_fail(QN_ERROR_NUMERIC, "%s; %s", text,
                   qn_guard_are_finite(e)
                       ? "or leave a sample out that is too large; nothing was changed"
                       : "parameters are not finite any more: continue from a checkpoint");
}

qn_status qn_guard_run(qn_engine *e, const qn_program *p, uint64_t step, const qn_watch *watch,
                       bool *is_changed) {
    int32_t next = 0;
    keep(e);
    const qn_status status = try_step(e, p, &next, step, watch);
    const qn_status lent = status == QN_OK ? qn_program_check_lent(p) : status;
    *is_changed = status != QN_ERROR_NUMERIC && status != QN_ERROR_INTERRUPTED &&
                  (status != QN_OK || lent == QN_OK);
    if (!*is_changed)
        put_back(e);
    if (status == QN_ERROR_NUMERIC)
        return refuse(e);
    QN_TRY(lent);
    return run_to(e, p, &next, p->plan->n_steps, e->run.may_spoil ? e->run.stop : NULL, step,
                  watch);
}
