/* See layers.h. */
#include "passes/layers.h"

#include "base/status.h"
#include "passes/tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The parameter that an input of a node is, through views; -1: none. */
static int parameter_at(const qn_graph *graph, const qn_node *node, int i) {
    if (node->inputs[i].id < 0)
        return -1;
    const qn_value v = qn_graph_unview(graph, node->inputs[i]);
    return v.id >= 0 && qn_parameter_of(graph, v) ? v.id : -1;
}

/* A gradient that reads a weight again is no layer. */
static bool reads_new_weight(const qn_layers *l, const qn_node *node) {
    for (int i = 0; i < node->n_inputs; i++) {
        const int v = parameter_at(l->graph, node, i);
        if (v >= 0 && l->readers[v] < 0 && l->graph->values[v]->tensor.shape.rank > 1)
            return true;
    }
    return false;
}

qn_status qn_layers_find(qn_graph *graph, qn_layers *layers) {
    const size_t n_values = (size_t)graph->n_values + 1;
    *layers = (qn_layers){.graph = graph};
    layers->readers = qn_arena_allocate(&graph->arena, n_values, sizeof *layers->readers);
    layers->positions = qn_arena_allocate(&graph->arena, n_values, sizeof *layers->positions);
    if (!layers->readers || !layers->positions)
        return QN_ERROR_MEMORY;
    for (size_t v = 0; v < n_values; v++)
        layers->readers[v] = -1;
    for (int n = 0; n < graph->n_nodes; n++) {
        const qn_node *node = graph->nodes[n];
        layers->n += reads_new_weight(layers, node);
        for (int i = 0; i < node->n_inputs; i++) {
            const int v = parameter_at(graph, node, i);
            if (v < 0 || layers->readers[v] >= 0)
                continue;
            layers->readers[v] = n;
            layers->positions[v] = layers->n;
        }
    }
    return QN_OK;
}

/* "#3", "#1-10", "#5-" */
static bool parse_range(qn_pattern pattern, int *first, int *last) {
    char text[32], *end;
    if (pattern.bytes < 2 || pattern.bytes >= sizeof text || pattern.text[0] != '#')
        return false;
    snprintf(text, sizeof text, "%.*s", (int)pattern.bytes - 1, pattern.text + 1);
    *first = *last = (int)strtol(text, &end, 10);
    if (end == text)
        return false;
    if (*end == '-')
        *last = end[1] ? (int)strtol(end + 1, &end, 10) : (end++, INT32_MAX);
    return !*end;
}

static bool matches_node(qn_pattern pattern, const char *name) {
    if (qn_pattern_matches(pattern, name))
        return true;
    for (const char *slash = strchr(name, '/'); slash; slash = strchr(slash + 1, '/')) {
        if (qn_pattern_matches(pattern, slash + 1))
            return true;
    }
    return false;
}

bool qn_layers_match(const qn_layers *layers, qn_pattern pattern, int value) {
    int first, last;
    if (qn_pattern_matches(pattern, layers->graph->values[value]->name))
        return true;
    const int reader = layers->readers[value], position = layers->positions[value];
    if (reader < 0)
        return false;
    if (parse_range(pattern, &first, &last))
        return position >= first && position <= last;
    return matches_node(pattern, layers->graph->nodes[reader]->name);
}
