/* Low-rank adapters (Hu et al. 2021, section 4.1): a layer y = W x becomes y + alpha / rank * B A
 * x. The parameters are named after the layer's weight, "NAME.lora_a.weight" (rank, C) and
 * "NAME.lora_b.weight" (K, rank), as 1x1 filters if W is one; the nodes are named after the layer.
 * Leaves out the dropout on x that some implementations have. */
#include "passes/tune.h"
#include "quern/ops.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 1024 };

static const void *find_attribute(const qn_node *node, const char *name) {
    for (const qn_attribute *a = node->op->attributes; a && a->name; a++) {
        if (strcmp(a->name, name) == 0)
            return (const char *)node->attributes + a->offset;
    }
    return NULL;
}

/* Whether a linear layer takes each position by itself: it has no window, or one of a single
 * position. */
static bool is_pointwise(const qn_node *node, qn_shape filter) {
    const qn_window *w = find_attribute(node, "window");
    const int *groups = find_attribute(node, "groups");
    return !w || (filter.dims[1] == 1 && filter.dims[2] == 1 && *groups == 1 && w->pad_top == 0 &&
                  w->pad_left == 0 && w->pad_bottom == 0 && w->pad_right == 0);
}

bool qn_can_adapt(const qn_graph *graph, const qn_node *node) {
    if (!node->op->is_linear)
        return false;
    const qn_value_info *weight = qn_parameter_of(graph, node->inputs[1]);
    return weight && is_pointwise(node, weight->tensor.shape);
}

/* Its place in the graph, where an earlier call of the layer has made it. */
static qn_value add_parameter(qn_graph *graph, const char *weight, char side, qn_shape shape,
                              qn_initial initial) {
    char name[NAME_BYTES];
    size_t n = strlen(weight);
    if (n > 7 && strcmp(weight + n - 7, ".weight") == 0)
        n -= 7;
    snprintf(name, sizeof name, "%.*s.lora_%c.weight", (int)n, weight, side);
    const qn_value found = qn_graph_find(graph, name);
    return found.id >= 0 ? qn_graph_latest(graph, found)
                         : qn_parameter(graph, name, shape, initial, true);
}

qn_value qn_add_adapter(qn_graph *graph, const qn_node *node, const qn_value_info *weight,
                        qn_value x, qn_value y, const qn_tuning *tuning) {
    const int64_t rank = tuning->lora_rank;
    const double alpha = tuning->lora_alpha > 0 ? tuning->lora_alpha : (double)rank;
    const qn_window *window = find_attribute(node, "window");
    qn_shape a_shape = weight->tensor.shape, b_shape = a_shape;
    /* Not of the weight, which may be held as blocks. */
    const qn_shape x_shape = qn_graph_shape(graph, x);
    const int64_t columns = x_shape.dims[x_shape.rank - 1];
    char names[4][NAME_BYTES];
    static const char *const words[] = {"lora_a", "lora_scale", "lora_b", "lora"};
    for (int i = 0; i < 4; i++)
        snprintf(names[i], sizeof names[i], "%s.%s", node->name, words[i]);
    a_shape.dims[a_shape.rank - 1] = columns;
    a_shape.dims[0] = b_shape.dims[b_shape.rank - 1] = rank;
    const qn_value a = add_parameter(graph, weight->name, 'a', a_shape,
                                     (qn_initial){QN_INITIAL_NORMAL, 1 / sqrt((double)columns)});
    const qn_value b =
        add_parameter(graph, weight->name, 'b', b_shape, (qn_initial){QN_INITIAL_ZERO, 0});
    x = window ? qn_conv2d(graph, names[0], x, a, QN_NO_VALUE, *window, 1)
               : qn_linear(graph, names[0], x, a, QN_NO_VALUE);
    x = qn_scale(graph, names[1], x, alpha / (double)rank);
    x = window ? qn_conv2d(graph, names[2], x, b, QN_NO_VALUE, (qn_window){0}, 1)
               : qn_linear(graph, names[2], x, b, QN_NO_VALUE);
    return qn_add(graph, names[3], y, x);
}
