/* See cut.h. The back is what depends on the value; all else is the front, also what nothing reads
 * (the running statistics of batch normalisation). */
#include "passes/cut.h"

#include "base/status.h"
#include "passes/copy.h"

#include <string.h>

/* By value: whether it is the one of the cut, or depends on it. In the graph's memory; null when
 * that is out. */
static bool *find_back(const qn_graph *graph, qn_value value) {
    qn_arena *arena = &((qn_graph *)(uintptr_t)graph)->arena;
    bool *depends = qn_arena_allocate(arena, (size_t)graph->n_values + 1, sizeof *depends);
    if (!depends)
        return NULL;
    depends[value.id] = true;
    for (int i = 0; i < graph->n_nodes; i++) {
        const qn_node *node = graph->nodes[i];
        bool is_back = false;
        for (int j = 0; j < node->n_inputs; j++)
            is_back |= node->inputs[j].id >= 0 && depends[node->inputs[j].id];
        for (int j = 0; is_back && j < node->n_outputs; j++)
            depends[node->outputs[j].id] = true;
    }
    return depends;
}

static bool is_of_back(const qn_graph *graph, const bool *depends, qn_value value,
                       const qn_node *node) {
    const int32_t producer = graph->values[value.id]->producer;
    const bool makes_it = producer >= 0 && graph->nodes[producer] == node;
    return !makes_it && node->n_outputs > 0 && depends[node->outputs[0].id];
}

static bool is_constant(const qn_value_info *info) {
    return info->producer < 0 &&
           strncmp(info->name, QN_CONSTANT_PREFIX, strlen(QN_CONSTANT_PREFIX)) == 0;
}

/* By value: whether a node of the front (back false) or of the back reads it. */
static void mark_read(const qn_graph *graph, const bool *depends, qn_value value, bool back,
                      bool *is_read) {
    for (int i = 0; i < graph->n_nodes; i++) {
        const qn_node *node = graph->nodes[i];
        for (int j = 0; j < node->n_inputs; j++) {
            if (node->inputs[j].id >= 0 && is_of_back(graph, depends, value, node) == back)
                is_read[node->inputs[j].id] = true;
        }
    }
}

bool qn_cut_is_possible(const qn_graph *graph, qn_value value, qn_value output) {
    qn_arena *arena = &((qn_graph *)(uintptr_t)graph)->arena;
    const qn_value_info *info = qn_graph_value(graph, value);
    const size_t n = (size_t)graph->n_values + 1;
    if (!info || info->producer < 0 || info->overwrites >= 0 || info->tensor.shape.rank < 2 ||
        !qn_dtype_is_real(info->tensor.dtype) || value.id == output.id)
        return false;
    bool *depends = find_back(graph, value);
    bool *front = qn_arena_allocate(arena, n, sizeof *front);
    bool *back = qn_arena_allocate(arena, n, sizeof *back);
    if (!depends || !front || !back || !depends[output.id])
        return false;
    mark_read(graph, depends, value, false, front);
    mark_read(graph, depends, value, true, back);
    for (int v = 0; v < graph->n_values; v++) {
        const qn_value_info *other = graph->values[v];
        const bool is_source = other->producer < 0 && other->kind != QN_KIND_INPUT;
        if (back[v] && v != value.id && !depends[v] &&
            !(is_source && (!front[v] || is_constant(other))))
            return false;
    }
    return true;
}

/* Copies the nodes of one half, and what they read from outside when it is first read. */
static void copy_half(const qn_graph *from, const bool *depends, qn_value value, bool back,
                      qn_graph *to, qn_value *values) {
    for (int i = 0; i < from->n_nodes; i++) {
        const qn_node *node = from->nodes[i];
        if (is_of_back(from, depends, value, node) != back)
            continue;
        for (int j = 0; j < node->n_inputs; j++) {
            const int32_t v = node->inputs[j].id;
            if (v >= 0 && values[v].id < 0 && from->values[v]->producer < 0)
                values[v] = qn_copy_source(to, from->values[v]);
        }
        if (!qn_copy_node(to, from, node, node->name, node->attributes, values))
            return;
    }
}

/* Where the copies of values are, all unknown. */
static qn_value *begin(const qn_graph *from, qn_value value, qn_graph *to, bool **depends) {
    qn_value *values = qn_arena_allocate(&to->arena, (size_t)from->n_values + 1, sizeof *values);
    *depends = find_back(from, value);
    if (!values || !*depends) {
        qn_graph_fail(to, QN_ERROR_MEMORY, "cut: %s", qn_error_message());
        return NULL;
    }
    for (int v = 0; v < from->n_values; v++)
        values[v] = QN_NO_VALUE;
    return values;
}

qn_value qn_cut_front(const qn_graph *from, qn_value value, qn_graph *to) {
    bool *depends;
    qn_value *values = begin(from, value, to, &depends);
    if (!values)
        return QN_NO_VALUE;
    copy_half(from, depends, value, false, to, values);
    return values[value.id];
}

qn_value qn_cut_back(const qn_graph *from, qn_value value, qn_value output, qn_value input,
                     qn_graph *to) {
    bool *depends;
    qn_value *values = begin(from, value, to, &depends);
    if (!values)
        return QN_NO_VALUE;
    values[value.id] = input;
    copy_half(from, depends, value, true, to, values);
    return values[output.id];
}
