/* See adapt.h: what has run, what is held, which step of the new plan corresponds to the current
 * step of the old one, and what must be recomputed. */
#include "run/rebudget/adapt.h"

#include "base/status.h"
#include "plan/budget/budget.h"
#include "run/rebudget/adapt_state.h"

#include <float.h>
#include <string.h>

static int32_t root(const qn_graph *graph, int32_t value) {
    return qn_graph_unview(graph, (qn_value){value}).id;
}

qn_move qn_adapt_rows(const qn_variant *version, int32_t value) {
    const qn_placement *placement = &version->plan->placements[value];
    const qn_tensor tensor = version->graph->values[value]->tensor;
    const size_t size = qn_dtype_bytes(tensor.dtype);
    const int rank = tensor.shape.rank;
    const size_t columns = rank > 0 ? (size_t)tensor.shape.dims[rank - 1] : 1;
    const qn_rows_at at = {version->plan->storages[placement->storage].offset + placement->offset,
                           (size_t)qn_placement_step(placement, tensor.shape) * size};
    return (qn_move){.from = at,
                     .to = at,
                     .rows = (size_t)qn_shape_count(tensor.shape) / columns,
                     .row = columns * size};
}

bool qn_adapt_is_bound(const qn_variant *version, int32_t value) {
    const int32_t storage = version->plan->placements[value].storage;
    return storage >= 0 && version->plan->storages[storage].is_bound;
}

/* ---- uses ---- */

static qn_status allocate_uses(const qn_adapt_state *a, const qn_variant *variant, qn_uses *uses) {
    const size_t n = (size_t)variant->graph->n_values;
    QN_TRY(qn_allocate(a->options->allocator, n, sizeof *uses->made_at, &uses->made_at));
    return qn_allocate(a->options->allocator, n, sizeof *uses->last_use, &uses->last_use);
}

static void release_uses(const qn_adapt_state *a, const qn_variant *variant, qn_uses *uses) {
    const size_t n = (size_t)variant->graph->n_values;
    qn_release(a->options->allocator, uses->made_at, n, sizeof *uses->made_at);
    qn_release(a->options->allocator, uses->last_use, n, sizeof *uses->last_use);
}

static void note_uses(const qn_variant *variant, qn_uses *uses) {
    for (int v = 0; v < variant->graph->n_values; v++)
        uses->last_use[v] = uses->made_at[v] = -1;
    for (int32_t s = 0; s < variant->plan->n_steps; s++) {
        const qn_node *node = variant->graph->nodes[variant->plan->steps[s].node];
        for (int i = 0; i < node->n_inputs; i++) {
            if (node->inputs[i].id >= 0)
                uses->last_use[root(variant->graph, node->inputs[i].id)] = s;
        }
        for (int i = 0; i < node->n_outputs; i++)
            uses->made_at[node->outputs[i].id] = s;
    }
    for (int v = 0; v < variant->graph->n_values; v++) {
        if (variant->graph->values[v]->is_result)
            uses->last_use[root(variant->graph, v)] = variant->plan->n_steps;
    }
}

/* Whether a value that is made before a step is read from it on. */
static bool is_needed_at(const qn_uses *uses, int32_t value, int32_t step) {
    return uses->made_at[value] >= 0 && uses->made_at[value] < step &&
           uses->last_use[value] >= step;
}

/* ---- what has run and what is held ---- */

static void note_done(qn_adapt_state *a) {
    const qn_variant *from = &a->options->from;
    for (int n = 0; n < a->base->n_nodes; n++)
        a->turn[n] = -1;
    for (int32_t s = 0; s < a->options->step; s++) {
        const int32_t node = from->origins->node_of[from->plan->steps[s].node];
        if (node < 0 || a->turn[node] >= 0)
            continue;
        a->turn[node] = a->n_done;
        a->done[a->n_done++] = node;
    }
    for (int v = 0; v < a->base->n_values; v++) {
        const qn_value_info *info = a->base->values[v];
        if (info->overwrites >= 0 && a->turn[info->producer] >= 0)
            a->is_stale[root(a->base, info->overwrites)] = true;
    }
}

/* Whether bytes of a storage that is no longer alive may hold something else. */
static bool is_reused(const qn_plan *plan, int32_t storage, int32_t step) {
    const qn_storage *s = &plan->storages[storage];
    for (int32_t i = 0; s->last < step && i < plan->n_storages; i++) {
        const qn_storage *t = &plan->storages[i];
        if (!t->is_bound && t->space == s->space && t->first > s->last && t->first < step &&
            t->offset < s->offset + s->bytes && s->offset < t->offset + t->bytes)
            return true;
    }
    return false;
}

/* Whether a value is there: where a switch came to the plan, what was not needed then never was. */
static bool is_there(const qn_adapt_state *a, const qn_uses *uses, int32_t value) {
    const qn_variant *from = &a->options->from;
    if (root(from->graph, value) != value || uses->made_at[value] < 0 ||
        qn_adapt_is_bound(from, value))
        return false;
    if (uses->made_at[value] < a->options->entered &&
        !is_needed_at(uses, value, a->options->entered))
        return false;
    return !is_reused(from->plan, from->plan->placements[value].storage, a->options->step);
}

static void note_held(qn_adapt_state *a, const qn_uses *uses, const bool *is_whole) {
    const qn_variant *from = &a->options->from;
    for (int v = 0; v < a->base->n_values; v++)
        a->held[v] = -1;
    for (int v = 0; v < from->graph->n_values; v++) {
        const int32_t value = from->origins->value_of[v];
        if (value >= 0 && is_whole[v] && is_there(a, uses, v))
            a->held[value] = v;
    }
}

static qn_status find_held(qn_adapt_state *a) {
    const qn_variant *from = &a->options->from;
    const size_t n = (size_t)from->graph->n_values;
    bool *is_whole;
    qn_uses uses = {0};
    QN_TRY(qn_allocate(a->options->allocator, n, sizeof *is_whole, &is_whole));
    qn_status status = allocate_uses(a, from, &uses);
    if (status == QN_OK)
        status = qn_plan_held(from->plan, from->graph, a->options->step, is_whole);
    if (status == QN_OK) {
        note_uses(from, &uses);
        note_held(a, &uses, is_whole);
    }
    release_uses(a, from, &uses);
    qn_release(a->options->allocator, is_whole, n, sizeof *is_whole);
    return status;
}

/* ---- what the new plan needs ---- */

/* Whether all bytes of one value are also another's in the new plan: part of a whole, say, whose
 * bytes both are there. Of two in the same place, only the earlier one is in the other. */
static bool lies_in(const qn_variant *version, int32_t inner, int32_t outer) {
    if (inner == outer ||
        version->plan->placements[inner].storage != version->plan->placements[outer].storage)
        return false;
    const qn_move a = qn_adapt_rows(version, inner), b = qn_adapt_rows(version, outer);
    const size_t a_end = a.from.offset + qn_move_extent(&a, &a.from);
    const size_t b_end = b.from.offset + qn_move_extent(&b, &b.from);
    if (a.from.offset < b.from.offset || a_end > b_end)
        return false;
    const bool is_equal = a.from.offset == b.from.offset && a.row == b.row && a.rows == b.rows;
    if (is_equal && inner > outer)
        return false;
    const bool is_dense = b.rows == 1 || b.from.step == b.row;
    return is_dense || (a.from.step == b.from.step &&
                        (a.from.offset - b.from.offset) % b.from.step + a.row <= b.row);
}

static bool is_in_wanted(const qn_adapt_state *a, int32_t value) {
    for (int v = 0; v < a->base->n_values; v++) {
        if (a->wanted[v] >= 0 && lies_in(&a->options->to, value, a->wanted[v]))
            return true;
    }
    return false;
}

/* Whether something of what the plan needs at a step should be in another memory space then. */
static bool is_elsewhere(const qn_adapt_state *a, int32_t step) {
    const qn_variant *to = &a->options->to;
    for (int32_t i = 0; i < to->plan->n_storages; i++) {
        const qn_storage *s = &to->plan->storages[i];
        if (s->space != 0 && s->first < step && s->last >= step)
            return true;
    }
    return false;
}

static void note_wanted(qn_adapt_state *a, int32_t step) {
    const qn_variant *to = &a->options->to;
    a->to_step = step;
    for (int v = 0; v < a->base->n_values; v++)
        a->wanted[v] = -1;
    for (int v = 0; v < to->graph->n_values; v++) {
        const int32_t value = to->origins->value_of[v];
        if (value >= 0 && is_needed_at(&a->uses, v, step) && !qn_adapt_is_bound(to, v))
            a->wanted[value] = v;
    }
    for (int v = 0; v < a->base->n_values; v++) {
        if (a->wanted[v] >= 0 && is_in_wanted(a, a->wanted[v]))
            a->wanted[v] = -1;
    }
}

/* ---- what is made again ---- */

/* All rows of what from's plan holds lie one behind the other, at an offset that any operator
 * takes. */
static bool is_dense(const qn_variant *version, int32_t value) {
    const qn_move rows = qn_adapt_rows(version, value);
    return (rows.rows == 1 || rows.from.step == rows.row) && rows.from.offset % QN_ALIGNMENT == 0;
}

bool qn_adapt_can_read(const qn_adapt_state *a, const qn_node *node, int input) {
    const int32_t value = node->inputs[input].id, whole = root(a->base, value);
    if (a->held[whole] < 0)
        return false;
    return is_dense(&a->options->from, a->held[whole]) ||
           (whole == value && qn_plan_reads_strided(a->base, node, input));
}

static bool updates(const qn_graph *graph, const qn_node *node) {
    for (int i = 0; i < node->n_outputs; i++) {
        if (qn_graph_value(graph, node->outputs[i])->overwrites >= 0)
            return true;
    }
    return false;
}

/* Has a value made again. */
static qn_status make_again(qn_adapt_state *a, int32_t value) {
    const int32_t node = a->base->values[value]->producer;
    if (a->is_again[node])
        return QN_OK;
    if (a->turn[node] < 0 || updates(a->base, a->base->nodes[node]))
        return qn_fail(QN_ERROR_UNSUPPORTED, "%s cannot be recomputed",
                       a->base->values[value]->name);
    a->is_again[node] = true;
    a->again_ns += a->options->node_ns[node];
    return QN_OK;
}

static qn_status want_input(qn_adapt_state *a, const qn_node *node, int input) {
    const int32_t value = root(a->base, node->inputs[input].id);
    const qn_variant *from = &a->options->from;
    if (qn_adapt_is_bound(from, from->origins->first[value].id)) {
        if (!a->is_stale[value])
            return QN_OK;
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "%s cannot be recomputed: it reads %s, which has been updated", node->name,
                       a->base->values[value]->name);
    }
    if (qn_adapt_can_read(a, node, input))
        return QN_OK;
    return make_again(a, value);
}

/* From what is wanted and not held back to what is held: inputs of a node ran before it. */
static qn_status find_again(qn_adapt_state *a) {
    if (is_elsewhere(a, a->to_step))
        return qn_fail(QN_ERROR_UNSUPPORTED, "values are swapped out at step %d of the new plan",
                       a->to_step);
    memset(a->is_again, 0, (size_t)a->base->n_nodes * sizeof *a->is_again);
    a->again_ns = 0;
    for (int v = 0; v < a->base->n_values; v++) {
        if (a->wanted[v] >= 0 && a->held[v] < 0)
            QN_TRY(make_again(a, v));
    }
    for (int32_t i = a->n_done - 1; i >= 0; i--) {
        const qn_node *node = a->base->nodes[a->done[i]];
        for (int input = 0; a->is_again[a->done[i]] && input < node->n_inputs; input++) {
            if (node->inputs[input].id >= 0)
                QN_TRY(want_input(a, node, input));
        }
    }
    return QN_OK;
}

/* ---- where the new plan goes on ---- */

static double step_ns(const qn_adapt_state *a, const qn_variant *variant, int32_t step) {
    const int32_t node = variant->origins->node_of[variant->plan->steps[step].node];
    return node < 0 ? 0 : a->options->node_ns[node];
}

bool qn_adapt_runs_again(const qn_variant *variant, int32_t step) {
    const int32_t node = variant->plan->steps[step].node;
    if (variant->origins->node_of[node] < 0)
        return false;
    const qn_value output = variant->graph->nodes[node]->outputs[0];
    return variant->origins->first[variant->origins->value_of[output.id]].id != output.id;
}

/* Of nodes that a plan runs again from a step on. */
static double find_rest(const qn_adapt_state *a, const qn_variant *variant, int32_t step) {
    double ns = 0;
    for (int32_t s = step; s < variant->plan->n_steps; s++)
        ns += qn_adapt_runs_again(variant, s) ? step_ns(a, variant, s) : 0;
    return ns;
}

/* The steps that stand where the old plan is: from *first on, where all has run that had run, to
 * *end, where something new runs. */
static qn_status find_steps(const qn_adapt_state *a, int32_t *first, int32_t *end) {
    const qn_variant *to = &a->options->to;
    int32_t n_seen = 0;
    *first = 0;
    for (int32_t s = 0; s < to->plan->n_steps; s++) {
        const int32_t node = to->origins->node_of[to->plan->steps[s].node];
        if (node < 0 || qn_adapt_runs_again(to, s))
            continue;
        if (n_seen == a->n_done) {
            *end = s;
            return QN_OK;
        }
        if (a->turn[node] < 0)
            return qn_fail(QN_ERROR_UNSUPPORTED, "%s has not run yet", a->base->nodes[node]->name);
        n_seen++;
        *first = s + 1;
    }
    *end = to->plan->n_steps;
    return QN_OK;
}

/* The cheapest of the steps at which the new plan can go on; a later one, when more has been made
 * again, may need less that is gone. */
static qn_status choose_step(qn_adapt_state *a, qn_adapt *found) {
    const qn_variant *to = &a->options->to;
    int32_t first = 0, end = 0, best = -1;
    double ahead_ns = 0, best_ns = DBL_MAX;
    QN_TRY(find_steps(a, &first, &end));
    for (int32_t s = 0; s < end; s++) {
        found->whole_ns += step_ns(a, to, s);
        ahead_ns += s < first ? 0 : step_ns(a, to, s);
    }
    qn_status status = QN_OK;
    for (int32_t s = first; s <= end; s++) {
        note_wanted(a, s);
        const qn_status possible = find_again(a);
        if (possible == QN_OK && a->again_ns + ahead_ns < best_ns) {
            best = s;
            best_ns = a->again_ns + ahead_ns;
        }
        status = possible == QN_OK ? status : possible;
        if (s < end)
            ahead_ns -= step_ns(a, to, s);
    }
    if (best < 0)
        return status;
    note_wanted(a, best);
    found->to_step = best;
    found->again_ns = best_ns;
    found->rest_ns = find_rest(a, to, end);
    found->stay_ns = find_rest(a, &a->options->from, a->options->step);
    return find_again(a);
}

/* ---- all of it ---- */

static qn_status allocate_all(qn_adapt_state *a) {
    const qn_allocator *allocator = a->options->allocator;
    const size_t n_nodes = (size_t)a->base->n_nodes, n_values = (size_t)a->base->n_values;
    QN_TRY(qn_allocate(allocator, n_nodes, sizeof *a->done, &a->done));
    QN_TRY(qn_allocate(allocator, n_nodes, sizeof *a->turn, &a->turn));
    QN_TRY(qn_allocate(allocator, n_nodes, sizeof *a->is_again, &a->is_again));
    QN_TRY(qn_allocate(allocator, n_values, sizeof *a->is_stale, &a->is_stale));
    QN_TRY(qn_allocate(allocator, n_values, sizeof *a->held, &a->held));
    QN_TRY(qn_allocate(allocator, n_values, sizeof *a->wanted, &a->wanted));
    return allocate_uses(a, &a->options->to, &a->uses);
}

static void release_all(qn_adapt_state *a) {
    const qn_allocator *allocator = a->options->allocator;
    const size_t n_nodes = (size_t)a->base->n_nodes, n_values = (size_t)a->base->n_values;
    qn_release(allocator, a->done, n_nodes, sizeof *a->done);
    qn_release(allocator, a->turn, n_nodes, sizeof *a->turn);
    qn_release(allocator, a->is_again, n_nodes, sizeof *a->is_again);
    qn_release(allocator, a->is_stale, n_values, sizeof *a->is_stale);
    qn_release(allocator, a->held, n_values, sizeof *a->held);
    qn_release(allocator, a->wanted, n_values, sizeof *a->wanted);
    release_uses(a, &a->options->to, &a->uses);
}

static qn_status find(qn_adapt_state *a, bool and_place, qn_adapt *found) {
    QN_TRY(allocate_all(a));
    note_done(a);
    note_uses(&a->options->to, &a->uses);
    QN_TRY(find_held(a));
    QN_TRY(choose_step(a, found));
    if (!and_place)
        return QN_OK;
    QN_TRY(qn_adapting_place(a, found));
    found->move_ns =
        2 * (double)(found->gather.bytes + found->place.bytes) / qn_speed_typical(1).bytes_per_ns;
    return QN_OK;
}

bool qn_adapt_is_worth_it(const qn_adapt *adapt) {
    return adapt->again_ns + adapt->rest_ns + adapt->move_ns <= adapt->stay_ns;
}

static qn_status start(const qn_adapt_options *options, bool and_place, qn_adapt *found) {
    qn_adapt_state a = {.options = options, .base = options->base};
    *found = (qn_adapt){.allocator = options->allocator};
    found->gather.allocator = found->place.allocator = options->allocator;
    const qn_status status = find(&a, and_place, found);
    release_all(&a);
    if (status != QN_OK)
        qn_adapt_deinit(found);
    return status;
}

qn_status qn_adapt_find(const qn_adapt_options *options, qn_adapt *found) {
    return start(options, true, found);
}

qn_status qn_adapt_estimate(const qn_adapt_options *options, qn_adapt *found) {
    return start(options, false, found);
}
