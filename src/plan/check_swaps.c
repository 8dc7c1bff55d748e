/* The invariants of plan.h that are about the swap file, proven by going through the steps with a
 * note of what becomes of every place in it. That the memory of a value is its own until it is
 * stored, and that of a copy from the load on, is proven with all other memory (check.c): the step
 * that waits reads both. */
#include "base/status.h"
#include "plan/plan.h"

/* What a place holds, as the steps so far left it. */
typedef enum content { NOTHING, BEING_WRITTEN, HELD } content;

typedef struct place {
    content content;
    int32_t value;     /* that it holds */
    int32_t n_loading; /* copies on their way */
} place;

typedef struct replay {
    const qn_plan *plan;
    const qn_graph *graph;
    place *places;     /* (n_swapped) */
    int32_t *place_of; /* (n_nodes): of those that have run and swap; else -1 */
} replay;

static qn_status fail(const replay *r, int32_t step, const char *why) {
    return qn_fail(QN_ERROR_ARGUMENT, "plan: step %d (%s) %s", step,
                   r->graph->nodes[r->plan->steps[step].node]->name, why);
}

static qn_status check_places(const qn_plan *plan) {
    for (int32_t i = 0; i < plan->n_swapped; i++) {
        const qn_swapped *a = &plan->swapped[i];
        if (a->offset % QN_SWAP_BLOCK || a->bytes % QN_SWAP_BLOCK || a->offset > plan->swap_bytes ||
            a->bytes > plan->swap_bytes - a->offset)
            return qn_fail(QN_ERROR_ARGUMENT,
                           "plan: swapped %d at %zu with %zu bytes leaves the file of %zu or its "
                           "blocks",
                           i, a->offset, a->bytes, plan->swap_bytes);
        for (int32_t j = 0; j < i; j++) {
            const qn_swapped *b = &plan->swapped[j];
            if (a->first <= b->last && b->first <= a->last && a->offset < b->offset + b->bytes &&
                b->offset < a->offset + a->bytes)
                return qn_fail(QN_ERROR_ARGUMENT,
                               "plan: swapped %d and %d share bytes of the file in step %d", j, i,
                               a->first > b->first ? a->first : b->first);
        }
    }
    return QN_OK;
}

/* The node that made an input, if it swaps in this way; or -1. */
static int32_t find_maker(const replay *r, const qn_node *node, int input, qn_swapping swapping) {
    const qn_value_info *info = qn_graph_value(r->graph, node->inputs[input]);
    const int32_t maker = info ? info->producer : -1;
    return maker >= 0 && r->graph->nodes[maker]->op->swapping == swapping ? maker : -1;
}

/* Whether an input comes from a node that swaps in this way at a place. */
static bool goes_on(const replay *r, const qn_node *node, int input, qn_swapping swapping,
                    const place *p) {
    const int32_t maker = find_maker(r, node, input, swapping);
    return maker >= 0 && r->place_of[maker] == p - r->places;
}

/* What is loading is read by the node that waits for it alone. */
static qn_status check_readers(const replay *r, int32_t step, const qn_node *node) {
    for (int i = 0; i < node->n_inputs; i++) {
        if (node->op->swapping == QN_SWAPPING_LOADED ||
            find_maker(r, node, i, QN_SWAPPING_LOAD) < 0)
            continue;
        return qn_fail(QN_ERROR_ARGUMENT, "plan: step %d (%s) reads %s, which is loading", step,
                       node->name, qn_graph_value(r->graph, node->inputs[i])->name);
    }
    return QN_OK;
}

static qn_status check_store(const replay *r, int32_t step, const qn_node *node, place *p) {
    const qn_tensor tensor = qn_graph_tensor(r->graph, node->inputs[0]);
    if (p->content != NOTHING)
        return fail(r, step, "stores where something is");
    if (qn_tensor_bytes(tensor) > r->plan->swapped[r->plan->steps[step].swapped].bytes)
        return fail(r, step, "stores more than its place holds");
    *p = (place){.content = BEING_WRITTEN, .value = node->inputs[0].id};
    return QN_OK;
}

static qn_status check_stored(const replay *r, int32_t step, const qn_node *node, place *p) {
    if (p->content != BEING_WRITTEN || p->value != node->inputs[0].id ||
        !goes_on(r, node, 1, QN_SWAPPING_STORE, p))
        return fail(r, step, "waits for what is not being stored");
    p->content = HELD;
    return QN_OK;
}

static qn_status check_load(const replay *r, int32_t step, const qn_node *node, place *p) {
    if (p->content != HELD || !goes_on(r, node, 0, QN_SWAPPING_STORED, p))
        return fail(r, step, "loads what is not stored");
    const qn_tensor held = r->graph->values[p->value]->tensor;
    const qn_tensor copy = qn_graph_tensor(r->graph, node->outputs[0]);
    if (held.dtype != copy.dtype || !qn_shape_equal(held.shape, copy.shape))
        return fail(r, step, "loads another tensor than was stored");
    p->n_loading++;
    return QN_OK;
}

static qn_status check_loaded(const replay *r, int32_t step, const qn_node *node, place *p) {
    const int32_t load = find_maker(r, node, 1, QN_SWAPPING_LOAD);
    if (p->n_loading < 1 || !goes_on(r, node, 1, QN_SWAPPING_LOAD, p) ||
        r->graph->nodes[load]->outputs[0].id != node->inputs[0].id)
        return fail(r, step, "waits for what is not loading");
    p->n_loading--;
    return QN_OK;
}

static qn_status check_step(const replay *r, int32_t step) {
    const qn_node *node = r->graph->nodes[r->plan->steps[step].node];
    const int32_t swapped = r->plan->steps[step].swapped;
    const qn_swapping swapping = node->op->swapping;
    QN_TRY(check_readers(r, step, node));
    if ((swapping == QN_SWAPPING_NONE) != (swapped == -1) || swapped < -1 ||
        swapped >= r->plan->n_swapped)
        return fail(r, step, "has no place in the swap file, or needs none");
    r->place_of[r->plan->steps[step].node] = swapped;
    if (swapping == QN_SWAPPING_NONE)
        return QN_OK;
    if (step < r->plan->swapped[swapped].first || step > r->plan->swapped[swapped].last)
        return fail(r, step, "swaps outside of its place's time");
    place *p = &r->places[swapped];
    return swapping == QN_SWAPPING_STORE    ? check_store(r, step, node, p)
           : swapping == QN_SWAPPING_STORED ? check_stored(r, step, node, p)
           : swapping == QN_SWAPPING_LOAD   ? check_load(r, step, node, p)
                                            : check_loaded(r, step, node, p);
}

static qn_status check_all(const replay *r) {
    QN_TRY(check_places(r->plan));
    for (int32_t s = 0; s < r->plan->n_steps; s++)
        QN_TRY(check_step(r, s));
    for (int32_t i = 0; i < r->plan->n_swapped; i++) {
        if (r->places[i].content == BEING_WRITTEN || r->places[i].n_loading > 0)
            return qn_fail(QN_ERROR_ARGUMENT, "plan: nothing waits for %s to be swapped",
                           r->graph->values[r->places[i].value]->name);
    }
    return QN_OK;
}

qn_status qn_plan_check_swaps(const qn_plan *plan, const qn_graph *graph) {
    const qn_allocator *a = plan->allocator;
    const size_t n_swapped = (size_t)plan->n_swapped, n_nodes = (size_t)graph->n_nodes;
    replay r = {.plan = plan, .graph = graph};
    qn_status status = qn_allocate(a, n_swapped, sizeof *r.places, &r.places);
    if (status == QN_OK)
        status = qn_allocate(a, n_nodes, sizeof *r.place_of, &r.place_of);
    for (size_t n = 0; status == QN_OK && n < n_nodes; n++)
        r.place_of[n] = -1;
    if (status == QN_OK)
        status = check_all(&r);
    qn_release(a, r.places, n_swapped, sizeof *r.places);
    qn_release(a, r.place_of, n_nodes, sizeof *r.place_of);
    return status;
}
