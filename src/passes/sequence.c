/* Sequences as lists, and the proof that a sequence can run; see sequence.h. */
#include "passes/sequence.h"

#include "base/status.h"
#include "os/heap.h"

void qn_sequence_init(qn_sequence *sequence, const qn_allocator *allocator) {
    *sequence = (qn_sequence){.allocator = qn_allocator_or_default(allocator)};
}

void qn_sequence_deinit(qn_sequence *sequence) {
    qn_release(sequence->allocator, sequence->items, sequence->capacity, sizeof *sequence->items);
    *sequence = (qn_sequence){.allocator = sequence->allocator};
}

qn_status qn_sequence_add(qn_sequence *sequence, qn_action action, int32_t id) {
    QN_TRY(qn_grow(sequence->allocator, &sequence->items, &sequence->capacity, sequence->n + 1,
                   sizeof *sequence->items));
    sequence->items[sequence->n++] = (qn_item){action, id};
    return QN_OK;
}

const char *qn_action_name(qn_action action) {
    static const char *const names[QN_ACTION_COUNT] = {
        [QN_ACTION_RUN] = "run",   [QN_ACTION_STORE] = "store",   [QN_ACTION_STORED] = "stored",
        [QN_ACTION_LOAD] = "load", [QN_ACTION_LOADED] = "loaded",
    };
    return (unsigned)action < QN_ACTION_COUNT ? names[action] : "unknown";
}

/* ---- the check ---- */

/* The file's view of a value. */
typedef enum swap_state { NOT_STORED, STORING, IN_FILE, LOADING } swap_state;

/* What is known after the items so far; by value of the graph. */
typedef struct replay {
    const qn_graph *graph;
    size_t item;       /* at hand */
    bool *has_run;     /* (n_nodes) */
    bool *is_made;     /* (n_values): has a copy, or comes from outside */
    bool *is_replaced; /* (n_values): something has written over it */
    swap_state *swaps; /* (n_values) */
} replay;

static bool is_update(const qn_graph *graph, const qn_node *node) {
    for (int i = 0; i < node->n_outputs; i++) {
        if (graph->values[node->outputs[i].id]->overwrites >= 0)
            return true;
    }
    return false;
}

static qn_status check_input(const replay *r, const qn_node *node, qn_value input) {
    const int32_t v = qn_graph_unview(r->graph, input).id;
    const char *name = r->graph->values[v]->name;
    if (!r->is_made[v])
        return qn_fail(QN_ERROR_ARGUMENT, "sequence: item %zu: %s reads %s, which is not made yet",
                       r->item, node->name, name);
    if (r->is_replaced[v])
        return qn_fail(QN_ERROR_ARGUMENT, "sequence: item %zu: %s reads %s after its update",
                       r->item, node->name, name);
    if (r->swaps[v] == LOADING)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "sequence: item %zu: %s reads %s while it is being loaded", r->item,
                       node->name, name);
    return QN_OK;
}

static qn_status check_output(const replay *r, const qn_node *node, qn_value output) {
    const swap_state state = r->swaps[output.id];
    if (state == STORING || state == LOADING)
        return qn_fail(QN_ERROR_ARGUMENT, "sequence: item %zu: %s makes %s while it is being %s",
                       r->item, node->name, r->graph->values[output.id]->name,
                       state == STORING ? "stored" : "loaded");
    return QN_OK;
}

static qn_status check_run(replay *r, int32_t id) {
    if (id < 0 || id >= r->graph->n_nodes)
        return qn_fail(QN_ERROR_ARGUMENT, "sequence: item %zu: the graph has no node %d", r->item,
                       id);
    const qn_node *node = r->graph->nodes[id];
    if (node->op->is_view)
        return qn_fail(QN_ERROR_ARGUMENT, "sequence: item %zu: %s is a view, made where it is read",
                       r->item, node->name);
    if (r->has_run[id] && is_update(r->graph, node))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "sequence: item %zu: %s updates in place, and runs a second time", r->item,
                       node->name);
    for (int i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i].id >= 0)
            QN_TRY(check_input(r, node, node->inputs[i]));
    }
    for (int i = 0; i < node->n_outputs; i++) {
        const int32_t output = node->outputs[i].id, old = r->graph->values[output]->overwrites;
        QN_TRY(check_output(r, node, node->outputs[i]));
        r->is_made[output] = true;
        if (old >= 0)
            r->is_replaced[old] = true;
    }
    r->has_run[id] = true;
    return QN_OK;
}

/* The state that an item of swapping needs, and the one that it leaves. */
static qn_status check_swap(replay *r, const qn_item *item) {
    static const swap_state before[] = {[QN_ACTION_STORE] = NOT_STORED,
                                        [QN_ACTION_STORED] = STORING,
                                        [QN_ACTION_LOAD] = IN_FILE,
                                        [QN_ACTION_LOADED] = LOADING};
    static const swap_state after[] = {[QN_ACTION_STORE] = STORING,
                                       [QN_ACTION_STORED] = IN_FILE,
                                       [QN_ACTION_LOAD] = LOADING,
                                       [QN_ACTION_LOADED] = IN_FILE};
    if (item->id < 0 || item->id >= r->graph->n_values)
        return qn_fail(QN_ERROR_ARGUMENT, "sequence: item %zu: the graph has no value %d", r->item,
                       item->id);
    const qn_value_info *info = r->graph->values[item->id];
    if (info->producer < 0 || info->overwrites >= 0 || r->graph->nodes[info->producer]->op->is_view)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "sequence: item %zu: %s is not a value of its own, so it cannot be swapped",
                       r->item, info->name);
    if (!r->is_made[item->id])
        return qn_fail(QN_ERROR_ARGUMENT, "sequence: item %zu: %s of %s, which is not made yet",
                       r->item, qn_action_name(item->action), info->name);
    if (r->swaps[item->id] != before[item->action])
        return qn_fail(QN_ERROR_ARGUMENT,
                       "sequence: item %zu: %s of %s is not in the order store, stored, load, "
                       "loaded",
                       r->item, qn_action_name(item->action), info->name);
    r->swaps[item->id] = after[item->action];
    return QN_OK;
}

static qn_status check_end(const replay *r) {
    const qn_graph *graph = r->graph;
    for (int n = 0; n < graph->n_nodes; n++) {
        if (!r->has_run[n] && is_update(graph, graph->nodes[n]))
            return qn_fail(QN_ERROR_ARGUMENT, "sequence: the update %s never runs",
                           graph->nodes[n]->name);
    }
    for (int v = 0; v < graph->n_values; v++) {
        const qn_value_info *info = graph->values[v];
        if (info->is_result && !r->is_made[qn_graph_unview(graph, (qn_value){v}).id])
            return qn_fail(QN_ERROR_ARGUMENT, "sequence: the result %s is never made", info->name);
        if (r->swaps[v] == STORING || r->swaps[v] == LOADING)
            return qn_fail(QN_ERROR_ARGUMENT, "sequence: %s is never waited for to be %s",
                           info->name, r->swaps[v] == STORING ? "stored" : "loaded");
    }
    return QN_OK;
}

static qn_status check_items(const qn_sequence *sequence, replay *r) {
    for (int v = 0; v < r->graph->n_values; v++)
        r->is_made[v] = r->graph->values[v]->producer < 0;
    for (r->item = 0; r->item < sequence->n; r->item++) {
        const qn_item *item = &sequence->items[r->item];
        if ((unsigned)item->action >= QN_ACTION_COUNT)
            return qn_fail(QN_ERROR_ARGUMENT, "sequence: item %zu: there is no action %d", r->item,
                           (int)item->action);
        QN_TRY(item->action == QN_ACTION_RUN ? check_run(r, item->id) : check_swap(r, item));
    }
    return check_end(r);
}

qn_status qn_sequence_check(const qn_sequence *sequence, const qn_graph *graph) {
    const size_t n_nodes = (size_t)graph->n_nodes + 1, n_values = (size_t)graph->n_values + 1;
    qn_arena scratch;
    qn_arena_init(&scratch, sequence->allocator);
    replay r = {
        .graph = graph,
        .has_run = qn_arena_allocate(&scratch, n_nodes, sizeof *r.has_run),
        .is_made = qn_arena_allocate(&scratch, n_values, sizeof *r.is_made),
        .is_replaced = qn_arena_allocate(&scratch, n_values, sizeof *r.is_replaced),
        .swaps = qn_arena_allocate(&scratch, n_values, sizeof *r.swaps),
    };
    qn_status status = QN_ERROR_MEMORY;
    if (r.has_run && r.is_made && r.is_replaced && r.swaps)
        status = check_items(sequence, &r);
    qn_arena_deinit(&scratch);
    return status;
}
