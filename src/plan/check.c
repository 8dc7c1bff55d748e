/* Proves the invariants of plan.h for one plan by walking its steps and tracking which values are
 * intact in their storages. It uses nothing of how the plan was made, only what the graph says of
 * its operators: which rows may be strided, what is done in place, and which columns of one value
 * are another value. */
#include "base/status.h"
#include "plan/lanes/check_lanes.h"
#include "plan/region.h"

/* ---- storages ---- */

static qn_status check_storage(const qn_plan *plan, const qn_graph *graph, int32_t i) {
    const qn_storage *a = &plan->storages[i];
    const int n_further = plan->lanes ? plan->lanes->n_further : 0;
    if (a->space < 0 || a->space > n_further)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "plan: storage %d (%s) is in memory space %d, but there are %d", i,
                       qn_plan_name_of(plan, graph, i), a->space, n_further + 1);
    if (a->first < 0 || a->last < a->first || a->last > plan->n_steps)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "plan: storage %d (%s) has the lifetime [%d, %d], but there are %d steps", i,
                       qn_plan_name_of(plan, graph, i), a->first, a->last, plan->n_steps);
    if (a->is_bound)
        return QN_OK;
    const qn_arena_need arena = qn_plan_arena(plan, a->space);
    if (a->offset % arena.alignment || a->bytes % arena.alignment || a->offset > arena.bytes ||
        a->bytes > arena.bytes - a->offset)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "plan: storage %d (%s) at offset %zu with %zu bytes is misaligned or "
                       "exceeds the arena of %zu bytes",
                       i, qn_plan_name_of(plan, graph, i), a->offset, a->bytes, arena.bytes);
    for (int32_t j = 0; j < i; j++) {
        const qn_storage *b = &plan->storages[j];
        bool meets =
            !b->is_bound && a->space == b->space && a->first <= b->last && b->first <= a->last;
        if (meets && a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes)
            return qn_fail(
                QN_ERROR_ARGUMENT,
                "plan: storages %d (%s) and %d (%s) overlap and are both alive in step %d", j,
                qn_plan_name_of(plan, graph, j), i, qn_plan_name_of(plan, graph, i),
                a->first > b->first ? a->first : b->first);
    }
    return QN_OK;
}

/* Values from outside lie in memory that is given, in the space that the graph says. */
static qn_status check_sources(const qn_plan *plan, const qn_graph *graph) {
    for (int v = 0; v < graph->n_values; v++) {
        const int32_t storage = plan->placements[v].storage;
        const qn_value_info *info = graph->values[v];
        if (info->producer >= 0 || storage < 0 || storage >= plan->n_storages ||
            !plan->storages[storage].is_bound || plan->storages[storage].space == info->space)
            continue;
        return qn_fail(QN_ERROR_ARGUMENT, "plan: %s is given in memory space %d, but bound in %d",
                       info->name, info->space, plan->storages[storage].space);
    }
    return QN_OK;
}

/* ---- the steps, one by one ---- */

enum { UNWRITTEN = -1 };

typedef struct replay {
    const qn_plan *plan;
    const qn_graph *graph;
    int32_t *head; /* (n_storages): a value that lies whole in it, or -1 */
    int32_t *next; /* (n_values): another one in the same storage, or -1 */
    int32_t
        *fate; /* (n_values): itself while it is whole, the value written over it, or UNWRITTEN */
    qn_lane_check *lanes; /* null: one lane, or only which values are held is asked */
} replay;

static qn_region region_at(const replay *r, int32_t value) {
    return qn_region_of(r->plan, r->graph, value);
}

static bool is_strided(const qn_region *a) {
    return (a->step != a->row && a->rows > 1) || a->offset % QN_ALIGNMENT;
}

static bool has_row_strides(const qn_placement *placement, qn_shape shape) {
    const int rank = shape.rank;
    if (rank > 0 && placement->strides[rank - 1] != 1)
        return false;
    if (rank > 1 && placement->strides[rank - 2] < shape.dims[rank - 1])
        return false;
    for (int i = 0; i < rank - 2; i++) {
        if (placement->strides[i] != placement->strides[i + 1] * shape.dims[i + 1])
            return false;
    }
    return true;
}

/* can_be_apart: what the operator says of this operand. */
static qn_status check_use(const replay *r, int32_t step, int32_t value, bool can_be_apart) {
    const qn_value_info *info = r->graph->values[value];
    const qn_placement *placement = &r->plan->placements[value];
    if (placement->storage < 0 || placement->storage >= r->plan->n_storages)
        return qn_fail(QN_ERROR_ARGUMENT, "plan: step %d uses %s, which has no storage", step,
                       info->name);
    const qn_storage *storage = &r->plan->storages[placement->storage];
    if (step < storage->first || step > storage->last)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "plan: step %d uses %s, which is alive only from step %d to %d", step,
                       info->name, storage->first, storage->last);
    if (!has_row_strides(placement, info->tensor.shape))
        return qn_fail(QN_ERROR_ARGUMENT, "plan: the strides of %s do not describe rows",
                       info->name);
    const qn_region place = region_at(r, value);
    if (place.offset > storage->bytes || qn_region_end(&place) > storage->bytes)
        return qn_fail(QN_ERROR_ARGUMENT, "plan: %s exceeds its storage", info->name);
    if (is_strided(&place) && !can_be_apart)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "plan: step %d uses %s, whose rows are not contiguous, but the operator "
                       "needs them contiguous",
                       step, info->name);
    return QN_OK;
}

static bool is_held(const replay *r, int32_t value) {
    const int32_t whole = qn_graph_unview(r->graph, (qn_value){value}).id;
    const qn_region a = region_at(r, value), b = region_at(r, whole);
    return r->fate[whole] == whole && a.storage == b.storage && a.offset == b.offset &&
           (a.step == b.step || (!is_strided(&a) && !is_strided(&b)));
}

static qn_status check_reads(const replay *r, int32_t step, const qn_node *node) {
    for (int i = 0; i < node->n_inputs; i++) {
        int32_t value = node->inputs[i].id;
        if (value < 0)
            continue;
        QN_TRY(check_use(r, step, value, qn_plan_reads_strided(r->graph, node, i)));
        if (is_held(r, value)) {
            QN_TRY(qn_lane_check_read(r->lanes, step, value));
            continue;
        }
        const int32_t fate = r->fate[qn_graph_unview(r->graph, (qn_value){value}).id];
        return qn_fail(QN_ERROR_ARGUMENT, "plan: step %d (%s) reads %s, but its storage holds %s",
                       step, node->name, r->graph->values[value]->name,
                       fate < 0 ? "nothing" : r->graph->values[fate]->name);
    }
    return QN_OK;
}

/* Whether an output may be written over an input that the node reads. */
static bool may_replace(const replay *r, const qn_node *node, int output, int input) {
    const qn_region to = region_at(r, node->outputs[output].id);
    const qn_region from = region_at(r, node->inputs[input].id);
    const qn_value_info *info = qn_graph_value(r->graph, node->outputs[output]);
    const bool is_named = (output == 0 && input < 32 && node->op->in_place >> input & 1) ||
                          (info->overwrites >= 0 && info->overwrites == node->inputs[input].id);
    return is_named && qn_regions_are_equal(&to, &from);
}

/* A node writes these bytes of an output: what lay there is gone. */
static qn_status overwrite(const replay *r, int32_t step, const qn_node *node, int output,
                           const qn_region *written) {
    for (int i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i].id < 0)
            continue;
        const qn_region from = region_at(r, node->inputs[i].id);
        if (qn_regions_overlap(written, &from) && !may_replace(r, node, output, i))
            return qn_fail(QN_ERROR_ARGUMENT, "plan: step %d (%s) writes %s over its input %s",
                           step, node->name, qn_graph_value(r->graph, node->outputs[output])->name,
                           qn_graph_value(r->graph, node->inputs[i])->name);
    }
    for (int32_t *at = &r->head[written->storage]; *at >= 0;) {
        const int32_t value = *at;
        const qn_region held = region_at(r, value);
        if (!qn_regions_overlap(written, &held)) {
            at = &r->next[value];
            continue;
        }
        QN_TRY(qn_lane_check_overwrite(r->lanes, step, value));
        r->fate[value] = node->outputs[output].id;
        *at = r->next[value];
    }
    return QN_OK;
}

static void hold(const replay *r, int32_t value) {
    const int32_t storage = r->plan->placements[value].storage;
    r->fate[value] = value;
    r->next[value] = r->head[storage];
    r->head[storage] = value;
}

/* What an operator that joins or slices writes: each piece that does not lie at its place already.
 */
static qn_status write_columns(const replay *r, int32_t step, const qn_node *node) {
    const int n_pieces = node->op->joins_columns ? node->n_inputs : 1;
    for (int i = 0; i < n_pieces; i++) {
        const qn_columns c = qn_plan_columns(r->graph, node, i);
        const qn_region place = qn_region_of_columns(r->plan, r->graph, &c),
                        is = region_at(r, c.inner);
        if (qn_regions_are_equal(&place, &is))
            continue;
        QN_TRY(overwrite(r, step, node, 0, node->op->joins_columns ? &place : &is));
    }
    return QN_OK;
}

static qn_status check_writes(const replay *r, int32_t step, const qn_node *node) {
    for (int i = 0; i < node->n_outputs; i++)
        QN_TRY(check_use(r, step, node->outputs[i].id, qn_plan_writes_strided(r->graph, node, i)));
    if (qn_plan_columns(r->graph, node, 0).inner >= 0) {
        QN_TRY(write_columns(r, step, node));
        hold(r, node->outputs[0].id);
        return QN_OK;
    }
    for (int i = 0; i < node->n_outputs; i++) {
        const qn_region to = region_at(r, node->outputs[i].id);
        for (int j = 0; j < i; j++) {
            const qn_region other = region_at(r, node->outputs[j].id);
            if (qn_regions_overlap(&to, &other))
                return qn_fail(QN_ERROR_ARGUMENT, "plan: outputs %d and %d of %s overlap", j, i,
                               node->name);
        }
        QN_TRY(overwrite(r, step, node, i, &to));
        hold(r, node->outputs[i].id);
    }
    return QN_OK;
}

/* No operand of the step may lie in its workspace. */
static qn_status check_workspace(const replay *r, int32_t step, const qn_node *node) {
    const int32_t workspace = r->plan->steps[step].workspace;
    if (workspace < 0)
        return QN_OK;
    bool is_good = workspace < r->plan->n_storages && !r->plan->storages[workspace].is_bound &&
                   r->plan->storages[workspace].first <= step &&
                   r->plan->storages[workspace].last >= step;
    for (int i = 0; i < node->n_inputs; i++) {
        const int32_t value = node->inputs[i].id;
        is_good = is_good && (value < 0 || r->plan->placements[value].storage != workspace);
    }
    for (int i = 0; i < node->n_outputs; i++)
        is_good = is_good && r->plan->placements[node->outputs[i].id].storage != workspace;
    return is_good ? QN_OK
                   : qn_fail(QN_ERROR_ARGUMENT, "plan: step %d (%s) has no workspace of its own",
                             step, node->name);
}

/* Results, and what is given from outside: itself or its last update. */
static qn_status check_end(const replay *r) {
    for (int v = 0; v < r->graph->n_values; v++) {
        const qn_value_info *info = r->graph->values[v];
        const bool is_outside = info->producer < 0 || info->overwrites >= 0;
        if (!info->is_result && (!is_outside || info->is_overwritten))
            continue;
        QN_TRY(check_use(r, r->plan->n_steps, v, false));
        if (!is_held(r, v))
            return qn_fail(QN_ERROR_ARGUMENT, "plan: the result %s is overwritten before the end",
                           info->name);
    }
    return QN_OK;
}

/* Goes through the first n_steps. */
static qn_status check_steps(const replay *r, int32_t n_steps) {
    for (int32_t i = 0; i < r->plan->n_storages; i++)
        r->head[i] = -1;
    for (int v = 0; v < r->graph->n_values; v++) {
        r->fate[v] = UNWRITTEN;
        if (r->graph->values[v]->producer < 0 && r->plan->placements[v].storage >= 0)
            hold(r, v);
    }
    for (int32_t s = 0; s < n_steps; s++) {
        const qn_node *node = r->graph->nodes[r->plan->steps[s].node];
        QN_TRY(qn_lane_check_step(r->lanes, s));
        QN_TRY(check_reads(r, s, node));
        QN_TRY(check_writes(r, s, node));
        QN_TRY(check_workspace(r, s, node));
    }
    return QN_OK;
}

static qn_status allocate_replay(replay *r) {
    const qn_allocator *a = r->plan->allocator;
    const size_t n_storages = (size_t)r->plan->n_storages, n_values = (size_t)r->graph->n_values;
    QN_TRY(qn_allocate(a, n_storages, sizeof *r->head, &r->head));
    QN_TRY(qn_allocate(a, n_values, sizeof *r->next, &r->next));
    return qn_allocate(a, n_values, sizeof *r->fate, &r->fate);
}

static void release_replay(replay *r) {
    const qn_allocator *a = r->plan->allocator;
    const size_t n_storages = (size_t)r->plan->n_storages, n_values = (size_t)r->graph->n_values;
    qn_release(a, r->head, n_storages, sizeof *r->head);
    qn_release(a, r->next, n_values, sizeof *r->next);
    qn_release(a, r->fate, n_values, sizeof *r->fate);
}

qn_status qn_plan_held(const qn_plan *plan, const qn_graph *graph, int32_t step, bool *is_held) {
    replay r = {.plan = plan, .graph = graph};
    qn_status status = allocate_replay(&r);
    if (status == QN_OK)
        status = check_steps(&r, step);
    for (int v = 0; status == QN_OK && v < graph->n_values; v++)
        is_held[v] = r.fate[v] == v;
    release_replay(&r);
    return status;
}

qn_status qn_plan_check(const qn_plan *plan, const qn_graph *graph) {
    if (plan->n_values != graph->n_values)
        return qn_fail(QN_ERROR_ARGUMENT, "plan: made for %d values, but the graph has %d",
                       plan->n_values, graph->n_values);
    if (plan->lower_bound_bytes > plan->arena_bytes)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "plan: %zu bytes are alive at once, but the arena has %zu",
                       plan->lower_bound_bytes, plan->arena_bytes);
    for (int32_t i = 0; i < plan->n_storages; i++)
        QN_TRY(check_storage(plan, graph, i));
    QN_TRY(check_sources(plan, graph));
    replay r = {.plan = plan, .graph = graph};
    qn_status status = allocate_replay(&r);
    if (status == QN_OK)
        status = qn_lane_check_create(plan, graph, &r.lanes);
    if (status == QN_OK)
        status = check_steps(&r, plan->n_steps);
    if (status == QN_OK)
        status = check_end(&r);
    qn_lane_check_destroy(r.lanes);
    release_replay(&r);
    return status;
}
