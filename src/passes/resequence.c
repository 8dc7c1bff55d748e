/* Builds the graph that a sequence describes; see sequence.h. Every item copies its node; a table
 * gives the latest copy of each value, which the next reader gets. A view is copied when it is read
 * and the value it shows has a newer copy. */
#include "base/status.h"
#include "ops/ops.h"
#include "passes/copy.h"
#include "passes/sequence.h"

#include <string.h>

typedef struct resequencing {
    const qn_graph *from;
    qn_graph *to;
    int swap_space;
    qn_value *latest; /* (from's values): latest copy, or QN_NO_VALUE */
    qn_value *first;  /* (from's values) */
    int32_t *n_runs;  /* (from's nodes): copies so far */
    qn_value *stored; /* (from's values): what is in the swap space */
    /* By node and value of to; their own lists, since views' copies cannot be counted beforehand.
     */
    size_t node_capacity, item_capacity, value_capacity;
    int32_t *node_of, *item_of, *value_of;
} resequencing;

static const char *copy_name(resequencing *r, const qn_node *node, int32_t n_runs) {
    qn_arena *arena = &r->to->arena;
    const char *name = node->name;
    if (n_runs > 0)
        name = qn_arena_format(arena, "%s.again", node->name);
    for (int32_t i = n_runs; name && n_runs > 0; i++) {
        if (i > 1)
            name = qn_arena_format(arena, "%s.again%d", node->name, i);
        if (!name || (qn_graph_find(r->from, name).id < 0 && qn_graph_find(r->to, name).id < 0))
            break;
    }
    if (!name)
        qn_graph_fail(r->to, QN_ERROR_MEMORY, "sequence: %s", qn_error_message());
    return name;
}

/* Grows the lists to what to holds; what is new in them belongs to no item. */
static qn_status note_nodes(resequencing *r, int32_t node, int32_t item) {
    const qn_allocator *a = r->to->allocator;
    const size_t n_nodes = (size_t)r->to->n_nodes, n_values = (size_t)r->to->n_values;
    QN_TRY(qn_grow(a, &r->node_of, &r->node_capacity, n_nodes, sizeof *r->node_of));
    QN_TRY(qn_grow(a, &r->item_of, &r->item_capacity, n_nodes, sizeof *r->item_of));
    QN_TRY(qn_grow(a, &r->value_of, &r->value_capacity, n_values, sizeof *r->value_of));
    r->node_of[n_nodes - 1] = node;
    r->item_of[n_nodes - 1] = item;
    return QN_OK;
}

static qn_status copy_node(resequencing *r, int32_t id, int32_t item) {
    const qn_node *node = r->from->nodes[id];
    const char *name = copy_name(r, node, r->n_runs[id]++);
    const qn_node *copy =
        name ? qn_copy_node(r->to, r->from, node, name, node->attributes, r->latest) : NULL;
    if (!copy)
        return qn_graph_finish(r->to);
    r->to->nodes[r->to->n_nodes - 1]->key = node->key;
    QN_TRY(note_nodes(r, id, item));
    for (int i = 0; i < node->n_outputs; i++) {
        const int32_t v = node->outputs[i].id;
        r->value_of[copy->outputs[i].id] = v;
        if (r->first[v].id < 0)
            r->first[v] = copy->outputs[i];
    }
    return QN_OK;
}

/* Makes the latest copy of a value current: it is one, unless it is a view. */
static qn_status refresh(resequencing *r, qn_value v) {
    const int32_t producer = r->from->values[v.id]->producer;
    if (producer < 0 || !r->from->nodes[producer]->op->is_view)
        return QN_OK;
    const qn_value base = r->from->nodes[producer]->inputs[0], copy = r->latest[v.id];
    QN_TRY(refresh(r, base));
    if (copy.id >= 0) {
        const qn_node *shown = r->to->nodes[r->to->values[copy.id]->producer];
        if (shown->inputs[0].id == r->latest[base.id].id)
            return QN_OK;
    }
    return copy_node(r, producer, -1);
}

/* "NAME.store", and so on; with a number where it goes to the file several times. */
static const char *swap_name(resequencing *r, const qn_item *item) {
    const char *name = qn_arena_format(&r->to->arena, "%s.%s", r->from->values[item->id]->name,
                                       qn_action_name(item->action));
    return name ? qn_graph_unique(r->to, name, false) : NULL;
}

/* Adds the node of an item of swapping. */
static void add_swap(resequencing *r, const qn_item *item, const char *name) {
    const int32_t v = item->id;
    switch (item->action) {
    case QN_ACTION_STORE:
        r->stored[v] = qn_op_copy(r->to, name, r->latest[v], r->swap_space);
        break;
    case QN_ACTION_STORED:
        qn_op_wait(r->to, name, r->stored[v]);
        break;
    case QN_ACTION_LOAD:
        r->latest[v] = qn_op_copy(r->to, name, r->stored[v], 0);
        break;
    default:
        qn_op_wait(r->to, name, r->latest[v]);
    }
}

static qn_status swap(resequencing *r, const qn_item *item, int32_t index) {
    const char *name = swap_name(r, item);
    if (!name)
        return QN_ERROR_MEMORY;
    add_swap(r, item, name);
    QN_TRY(qn_graph_finish(r->to));
    QN_TRY(note_nodes(r, -1, index));
    const qn_node *node = r->to->nodes[r->to->n_nodes - 1];
    r->value_of[node->outputs[0].id] = item->action == QN_ACTION_LOAD ? item->id : -1;
    if (!node->op->is_wait)
        r->to->values[node->outputs[0].id]->kind = r->from->values[item->id]->kind;
    return QN_OK;
}

static qn_status add_item(resequencing *r, const qn_item *item, int32_t index) {
    if (item->action != QN_ACTION_RUN)
        return swap(r, item, index);
    const qn_node *node = r->from->nodes[item->id];
    for (int i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i].id >= 0)
            QN_TRY(refresh(r, node->inputs[i]));
    }
    return copy_node(r, item->id, index);
}

static qn_status copy_sources(resequencing *r) {
    for (int v = 0; v < r->from->n_values; v++) {
        r->latest[v] = r->first[v] = QN_NO_VALUE;
        if (r->from->values[v]->producer >= 0)
            continue;
        r->latest[v] = r->first[v] = qn_copy_source(r->to, r->from->values[v]);
        QN_TRY(qn_graph_finish(r->to));
        QN_TRY(qn_grow(r->to->allocator, &r->value_of, &r->value_capacity, (size_t)r->to->n_values,
                       sizeof *r->value_of));
        r->value_of[r->to->n_values - 1] = v;
    }
    return QN_OK;
}

static qn_status mark_results(resequencing *r) {
    for (int v = 0; v < r->from->n_values; v++) {
        if (!r->from->values[v]->is_result)
            continue;
        QN_TRY(refresh(r, (qn_value){v}));
        r->to->values[r->latest[v].id]->is_result = true;
    }
    qn_copy_results(r->to, r->from, r->latest);
    return QN_OK;
}

static qn_status keep_list(qn_arena *arena, const int32_t *list, int n, int32_t **kept) {
    *kept = qn_arena_allocate(arena, (size_t)n + 1, sizeof **kept);
    if (!*kept)
        return QN_ERROR_MEMORY;
    if (n > 0)
        memcpy(*kept, list, (size_t)n * sizeof *list);
    return QN_OK;
}

static qn_status keep_origins(const resequencing *r, qn_origins *origins) {
    qn_arena *arena = &r->to->arena;
    *origins = (qn_origins){.first = r->first, .last = r->latest};
    QN_TRY(keep_list(arena, r->node_of, r->to->n_nodes, &origins->node_of));
    QN_TRY(keep_list(arena, r->item_of, r->to->n_nodes, &origins->item_of));
    return keep_list(arena, r->value_of, r->to->n_values, &origins->value_of);
}

static qn_status make(resequencing *r, const qn_sequence *sequence, qn_origins *origins) {
    qn_arena *arena = &r->to->arena;
    const size_t n_values = (size_t)r->from->n_values + 1, n_nodes = (size_t)r->from->n_nodes + 1;
    r->latest = qn_arena_allocate(arena, n_values, sizeof *r->latest);
    r->first = qn_arena_allocate(arena, n_values, sizeof *r->first);
    r->n_runs = qn_arena_allocate(arena, n_nodes, sizeof *r->n_runs);
    r->stored = qn_arena_allocate(arena, n_values, sizeof *r->stored);
    if (!r->latest || !r->first || !r->n_runs || !r->stored)
        return QN_ERROR_MEMORY;
    QN_TRY(copy_sources(r));
    for (size_t i = 0; i < sequence->n; i++)
        QN_TRY(add_item(r, &sequence->items[i], (int32_t)i));
    QN_TRY(mark_results(r));
    QN_TRY(qn_graph_finish(r->to));
    return keep_origins(r, origins);
}

static qn_status check_space(const qn_sequence *sequence, int swap_space) {
    for (size_t i = 0; i < sequence->n && swap_space <= 0; i++) {
        if (sequence->items[i].action != QN_ACTION_RUN)
            return qn_fail(QN_ERROR_ARGUMENT, "sequence: item %zu swaps, and there is no disk", i);
    }
    return QN_OK;
}

qn_status qn_resequence(const qn_graph *graph, const qn_sequence *sequence, int swap_space,
                        qn_graph **made, qn_origins *origins) {
    resequencing r = {.from = graph, .swap_space = swap_space};
    qn_origins found;
    QN_TRY(qn_sequence_check(sequence, graph));
    QN_TRY(check_space(sequence, swap_space));
    QN_TRY(qn_copy_begin(graph, &r.to));
    const qn_status status = make(&r, sequence, &found);
    qn_release(graph->allocator, r.node_of, r.node_capacity, sizeof *r.node_of);
    qn_release(graph->allocator, r.item_of, r.item_capacity, sizeof *r.item_of);
    qn_release(graph->allocator, r.value_of, r.value_capacity, sizeof *r.value_of);
    if (status != QN_OK) {
        qn_graph_destroy(r.to);
        return status;
    }
    *made = r.to;
    *origins = found;
    return QN_OK;
}
