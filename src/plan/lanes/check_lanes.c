/* See check_lanes.h. */
#include "plan/lanes/check_lanes.h"

#include "base/status.h"
#include "plan/lanes/clocks.h"

#include <string.h>

struct qn_lane_check {
    const qn_plan *plan;
    const qn_graph *graph;
    qn_clocks clocks;
    int32_t *written; /* (n_values): step that made it, or -1 */
    int32_t *read;    /* (n_values, n_lanes): last step of the lane that read it, or -1 */
    int32_t *first;   /* (n_storages, n_lanes): first step of the lane that uses it, or -1 */
    int32_t *last;    /* (n_storages, n_lanes) */
    bool *is_result;  /* (n_storages): a result of the graph is in it, to be read after the run */
};

static size_t row(const qn_lane_check *c, int32_t i) {
    return (size_t)i * (size_t)c->plan->lanes->n_lanes;
}

/* ---- waits ---- */

static qn_status check_waits(const qn_plan *plan, const qn_graph *graph) {
    for (int32_t s = 0; s < plan->n_steps; s++) {
        const qn_step *step = &plan->steps[s];
        const int32_t end =
            s + 1 < plan->n_steps ? plan->steps[s + 1].first_wait : plan->lanes->n_waits;
        const char *name = graph->nodes[step->node]->name;
        if (step->lane < 0 || step->lane >= plan->lanes->n_lanes || step->first_wait < 0 ||
            step->first_wait > end || end > plan->lanes->n_waits)
            return qn_fail(QN_ERROR_ARGUMENT,
                           "plan: step %d (%s) has no valid lane or list of waits", s, name);
        if (plan->lanes->are_cores &&
            (step->n_threads < 1 || step->lane + step->n_threads > plan->lanes->n_lanes))
            return qn_fail(QN_ERROR_ARGUMENT,
                           "plan: step %d (%s) uses %d cores from %d on; there are %d", s, name,
                           step->n_threads, step->lane, plan->lanes->n_lanes);
        for (int32_t i = step->first_wait; i < end; i++) {
            const int32_t before = plan->lanes->waits[i];
            if (before < 0 || before >= s || plan->steps[before].lane == step->lane)
                return qn_fail(QN_ERROR_ARGUMENT,
                               "plan: step %d (%s) waits for step %d, which is not an earlier step "
                               "of another lane",
                               s, name, before);
        }
    }
    return QN_OK;
}

/* ---- memory that is used again ---- */

static void use(const qn_lane_check *c, int32_t storage, int32_t step) {
    if (storage < 0 || storage >= c->plan->n_storages)
        return; /* the replay refuses it */
    const size_t at = row(c, storage) + (size_t)c->plan->steps[step].lane;
    c->first[at] = c->first[at] < 0 ? step : c->first[at];
    c->last[at] = step;
}

static void find_uses(const qn_lane_check *c) {
    const qn_placement *placements = c->plan->placements;
    for (int32_t s = 0; s < c->plan->n_steps; s++) {
        const qn_node *node = c->graph->nodes[c->plan->steps[s].node];
        for (int i = 0; i < node->n_inputs; i++) {
            if (node->inputs[i].id >= 0)
                use(c, placements[node->inputs[i].id].storage, s);
        }
        for (int i = 0; i < node->n_outputs; i++)
            use(c, placements[node->outputs[i].id].storage, s);
        use(c, c->plan->steps[s].workspace, s);
    }
    for (int v = 0; v < c->graph->n_values; v++) {
        const int32_t storage = placements[v].storage;
        if (c->graph->values[v]->is_result && storage >= 0 && storage < c->plan->n_storages)
            c->is_result[storage] = true;
    }
}

/* All uses of a happen before all uses of b. */
static bool is_over_before(const qn_lane_check *c, int32_t a, int32_t b) {
    for (int from = 0; from < c->plan->lanes->n_lanes; from++) {
        for (int to = 0; to < c->plan->lanes->n_lanes; to++) {
            const int32_t last = c->last[row(c, a) + (size_t)from];
            const int32_t first = c->first[row(c, b) + (size_t)to];
            if (last >= 0 && first >= 0 && !qn_clocks_is_before(&c->clocks, last, first))
                return false;
        }
    }
    return true;
}

static qn_status check_pair(const qn_lane_check *c, int32_t i, int32_t j) {
    const qn_storage *a = &c->plan->storages[i], *b = &c->plan->storages[j];
    if (a->is_bound || b->is_bound || a->space != b->space || a->offset >= b->offset + b->bytes ||
        b->offset >= a->offset + a->bytes)
        return QN_OK;
    if ((is_over_before(c, i, j) && !c->is_result[i]) ||
        (is_over_before(c, j, i) && !c->is_result[j]))
        return QN_OK;
    return qn_fail(
        QN_ERROR_ARGUMENT,
        "plan: storages %d (%s) and %d (%s) overlap, and neither ends before the other begins", i,
        qn_plan_name_of(c->plan, c->graph, i), j, qn_plan_name_of(c->plan, c->graph, j));
}

static qn_status check_storages(const qn_lane_check *c) {
    find_uses(c);
    for (int32_t i = 0; i < c->plan->n_storages; i++) {
        for (int32_t j = 0; j < i; j++)
            QN_TRY(check_pair(c, i, j));
    }
    return QN_OK;
}

/* ---- making ---- */

static qn_status allocate_all(qn_lane_check *c) {
    const qn_allocator *a = c->plan->allocator;
    const size_t n_values = (size_t)c->graph->n_values, n_lanes = (size_t)c->plan->lanes->n_lanes;
    const size_t n_storages = (size_t)c->plan->n_storages;
    QN_TRY(qn_allocate(a, n_values, sizeof *c->written, &c->written));
    QN_TRY(qn_allocate(a, n_values, n_lanes * sizeof *c->read, &c->read));
    QN_TRY(qn_allocate(a, n_storages, n_lanes * sizeof *c->first, &c->first));
    QN_TRY(qn_allocate(a, n_storages, n_lanes * sizeof *c->last, &c->last));
    QN_TRY(qn_allocate(a, n_storages, sizeof *c->is_result, &c->is_result));
    memset(c->is_result, 0, n_storages * sizeof *c->is_result);
    memset(c->written, -1, n_values * sizeof *c->written);
    memset(c->read, -1, n_values * n_lanes * sizeof *c->read);
    memset(c->first, -1, n_storages * n_lanes * sizeof *c->first);
    memset(c->last, -1, n_storages * n_lanes * sizeof *c->last);
    return qn_clocks_of(&c->clocks, c->plan);
}

qn_status qn_lane_check_create(const qn_plan *plan, const qn_graph *graph, qn_lane_check **check) {
    qn_lane_check *made;
    *check = NULL;
    if (!plan->lanes)
        return QN_OK;
    QN_TRY(check_waits(plan, graph));
    QN_TRY(qn_allocate(plan->allocator, 1, sizeof *made, &made));
    *made = (qn_lane_check){.plan = plan, .graph = graph};
    qn_status status = allocate_all(made);
    if (status == QN_OK)
        status = check_storages(made);
    if (status != QN_OK) {
        qn_lane_check_destroy(made);
        return status;
    }
    *check = made;
    return QN_OK;
}

void qn_lane_check_destroy(qn_lane_check *c) {
    if (!c)
        return;
    const qn_allocator *a = c->plan->allocator;
    const size_t n_values = (size_t)c->graph->n_values, n_lanes = (size_t)c->plan->lanes->n_lanes;
    const size_t n_storages = (size_t)c->plan->n_storages;
    qn_release(a, c->written, n_values, sizeof *c->written);
    qn_release(a, c->read, n_values, n_lanes * sizeof *c->read);
    qn_release(a, c->first, n_storages, n_lanes * sizeof *c->first);
    qn_release(a, c->last, n_storages, n_lanes * sizeof *c->last);
    qn_release(a, c->is_result, n_storages, sizeof *c->is_result);
    if (c->clocks.allocator)
        qn_clocks_deinit(&c->clocks);
    qn_release(a, c, 1, sizeof *c);
}

/* ---- steps ---- */

static const char *name_at(const qn_lane_check *c, int32_t step) {
    return c->graph->nodes[c->plan->steps[step].node]->name;
}

static qn_status check_space(const qn_lane_check *c, int32_t step, int32_t value, int space) {
    const int32_t storage = c->plan->placements[value].storage;
    if (storage < 0 || storage >= c->plan->n_storages || /* the replay refuses it */
        c->plan->storages[storage].space == space)
        return QN_OK;
    return qn_fail(
        QN_ERROR_ARGUMENT, "plan: step %d (%s) uses %s, which is in memory space %d, not %d", step,
        name_at(c, step), c->graph->values[value]->name, c->plan->storages[storage].space, space);
}

static qn_status check_update(const qn_lane_check *c, int32_t step) {
    for (int32_t s = 0; s < c->plan->n_steps; s++) {
        if (c->plan->lanes->lanes[c->plan->steps[s].lane].can_be_lost &&
            !qn_clocks_is_before(&c->clocks, s, step))
            return qn_fail(
                QN_ERROR_ARGUMENT,
                "plan: step %d (%s) updates before step %d (%s), whose device can be lost", step,
                name_at(c, step), s, name_at(c, s));
    }
    return QN_OK;
}

qn_status qn_lane_check_step(qn_lane_check *c, int32_t step) {
    if (!c)
        return QN_OK;
    const qn_node *node = c->graph->nodes[c->plan->steps[step].node];
    const int space = c->plan->lanes->lanes[c->plan->steps[step].lane].space;
    for (int i = 0; i < node->n_inputs && !node->op->output_space; i++) {
        if (node->inputs[i].id >= 0)
            QN_TRY(check_space(c, step, node->inputs[i].id, space));
    }
    for (int i = 0; i < node->n_outputs; i++) {
        const int32_t value = node->outputs[i].id;
        c->written[value] = step;
        QN_TRY(
            check_space(c, step, value,
                        node->op->output_space ? node->op->output_space(node->attributes) : space));
        if (c->graph->values[value]->overwrites >= 0)
            QN_TRY(check_update(c, step));
    }
    return QN_OK;
}

qn_status qn_lane_check_read(qn_lane_check *c, int32_t step, int32_t value) {
    if (!c)
        return QN_OK;
    const int32_t whole = qn_graph_unview(c->graph, (qn_value){value}).id;
    const int32_t written = c->written[whole];
    c->read[row(c, whole) + (size_t)c->plan->steps[step].lane] = step;
    if (written < 0 || qn_clocks_is_before(&c->clocks, written, step))
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT, "plan: step %d (%s) reads %s, which step %d may write later",
                   step, name_at(c, step), c->graph->values[value]->name, written);
}

qn_status qn_lane_check_overwrite(qn_lane_check *c, int32_t step, int32_t value) {
    if (!c)
        return QN_OK;
    const int32_t written = c->written[value];
    if (written >= 0 && written != step && !qn_clocks_is_before(&c->clocks, written, step))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "plan: step %d (%s) overwrites %s, which step %d may write later", step,
                       name_at(c, step), c->graph->values[value]->name, written);
    for (int lane = 0; lane < c->plan->lanes->n_lanes; lane++) {
        const int32_t reader = c->read[row(c, value) + (size_t)lane];
        if (reader >= 0 && reader != step && !qn_clocks_is_before(&c->clocks, reader, step))
            return qn_fail(QN_ERROR_ARGUMENT,
                           "plan: step %d (%s) overwrites %s, which step %d may read later", step,
                           name_at(c, step), c->graph->values[value]->name, reader);
    }
    return QN_OK;
}
