/* See sparse.h. */
#include "passes/sparse.h"

#include "base/decimal.h"
#include "base/patterns.h"
#include "base/status.h"
#include "ops/ops.h"
#include "passes/copy.h"
#include "passes/layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const qn_part_choices[QN_PART_CHOICES] = {"largest", "smallest", "first"};

/* ---- the text ---- */

/* "NAME=VALUE": the pattern becomes what is before the last sign; the value what is behind it. */
static bool split(qn_pattern *part, char value[64]) {
    size_t n = part->bytes;
    while (n > 0 && part->text[n - 1] != '=')
        n--;
    if (n < 2 || part->bytes - n == 0 || part->bytes - n >= 64)
        return false;
    memcpy(value, part->text + n, part->bytes - n);
    value[part->bytes - n] = 0;
    part->bytes = n - 1;
    return true;
}

static bool read_count(const char *text, int *count) {
    char *end;
    const long n = strtol(text, &end, 10);
    if (end == text || *end || n < 0 || n > 10000)
        return false;
    *count = (int)n;
    return true;
}

static bool read_choice(const char *text, qn_part_choice *by) {
    for (int i = 0; i < QN_PART_CHOICES; i++) {
        if (strcmp(text, qn_part_choices[i]) == 0) {
            *by = (qn_part_choice)i;
            return true;
        }
    }
    return false;
}

static bool read_part(const char *text, double *x) {
    char *end;
    *x = qn_decimal_read(text, &end);
    return end != text && !*end && *x > 0 && *x <= 1;
}

/* One of the words, or a part; fails where the value is none. */
static bool read_pair(qn_pattern name, const char *value, qn_sparse *s, bool *is_part) {
    double x;
    *is_part = false;
    if (qn_pattern_is(name, "weights"))
        return read_count(value, &s->weights);
    if (qn_pattern_is(name, "biases"))
        return read_count(value, &s->biases);
    if (qn_pattern_is(name, "channels"))
        return read_choice(value, &s->by);
    *is_part = true;
    return read_part(value, &x);
}

qn_status qn_sparse_read(const char *text, qn_sparse *sparse) {
    qn_sparse s = {.is_used = text != NULL, .biases = -1, .parts = text};
    qn_pattern pair;
    bool is_part, has_parts = false;
    char value[64];
    for (const char *rest = text; qn_pattern_next(&rest, &pair);) {
        const qn_pattern whole = pair;
        if (!split(&pair, value) || !read_pair(pair, value, &s, &is_part))
            return qn_fail(QN_ERROR_ARGUMENT,
                           "update: \"%.*s\" is none of weights=N, biases=N, channels=largest, "
                           "smallest or first, and LAYER=X, where X is more than 0 and at most 1",
                           (int)whole.bytes, whole.text);
        has_parts |= is_part;
    }
    if (text && s.weights == 0 && s.biases <= 0 && !has_parts)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "update: nothing would be trained; weights=1 trains the last layer");
    *sparse = s;
    return QN_OK;
}

/* ---- which parameters ---- */

typedef struct selection {
    qn_graph *graph;
    const qn_sparse *sparse;
    qn_layers layers;
    bool *was_trainable; /* (values) */
    int biases;          /* of so many last layers */
} selection;

/* The value of a layer's weight or bias, if that is a parameter from outside; -1: it is not. */
static int32_t parameter_at(const qn_graph *graph, const qn_node *node, int i) {
    const int32_t v = i < node->n_inputs ? node->inputs[i].id : -1;
    return v >= 0 && graph->values[v]->producer < 0 && graph->values[v]->kind == QN_KIND_PARAMETER
               ? v
               : -1;
}

static int32_t weight_of(const qn_graph *graph, const qn_node *node) {
    return node->op->is_linear ? parameter_at(graph, node, 1) : -1;
}

/* What the parts say of a weight; 0: nothing. */
static double part_of(const selection *s, int32_t weight) {
    const char *rest = s->sparse->parts;
    double found = 0, x;
    qn_pattern pair;
    char value[64];
    qn_sparse unused;
    bool is_part;
    while (qn_pattern_next(&rest, &pair)) {
        if (split(&pair, value) && read_pair(pair, value, &unused, &is_part) && is_part &&
            read_part(value, &x) && qn_layers_match(&s->layers, pair, weight))
            found = x;
    }
    return found;
}

/* The axis of a weight along which parts of it are: input channels, or, of a depthwise convolution,
 * the first one; -1: it has none. */
static int axis_of_parts(const qn_graph *graph, const qn_node *node) {
    const qn_shape x = qn_graph_shape(graph, node->inputs[0]);
    const qn_shape w = qn_graph_shape(graph, node->inputs[1]);
    const int64_t channels = x.dims[x.rank - 1];
    if (!node->op->trains_parts)
        return -1;
    if (w.dims[w.rank - 1] == channels)
        return w.rank - 1;
    return w.dims[w.rank - 1] == 1 && w.dims[0] == channels ? 0 : -1;
}

static qn_status select_part(selection *s, const qn_node *node, int32_t weight, double x) {
    qn_value_info *info = s->graph->values[weight];
    const int axis = axis_of_parts(s->graph, node);
    info->trainable = s->was_trainable[weight];
    if (x >= 1)
        return QN_OK;
    if (axis < 0)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "update: %s is trained whole or not at all; parts are of linear layers and "
                       "convolutions, without groups or depthwise",
                       info->name);
    const int64_t all = info->tensor.shape.dims[axis], n = (int64_t)floor((double)all * x);
    info->part = (qn_weight_part){.n = n == all ? 0
                                       : n > 0  ? n
                                                : 1,
                                  .axis = axis,
                                  .by = s->sparse->by};
    return QN_OK;
}

/* Weights, from the last layer on. */
static qn_status select_weights(selection *s) {
    const qn_graph *graph = s->graph;
    int layer = 0, first = 0;
    for (int n = graph->n_nodes - 1; n >= 0; n--) {
        const int32_t weight = weight_of(graph, graph->nodes[n]);
        if (weight < 0)
            continue;
        const double part = part_of(s, weight);
        if (part > 0 || layer < s->sparse->weights) {
            QN_TRY(select_part(s, graph->nodes[n], weight, part > 0 ? part : 1));
            first = layer + 1;
        }
        layer++;
    }
    s->biases = s->sparse->biases < 0 ? first : s->sparse->biases;
    return QN_OK;
}

static void train(const selection *s, const qn_node *node, int i) {
    const int32_t v = parameter_at(s->graph, node, i);
    if (v >= 0)
        s->graph->values[v]->trainable = s->was_trainable[v];
}

static void select_biases(const selection *s) {
    int layer = 0;
    for (int n = s->graph->n_nodes - 1; n >= 0 && layer < s->biases; n--) {
        const qn_node *node = s->graph->nodes[n];
        const bool is_layer = weight_of(s->graph, node) >= 0;
        if (node->op->is_norm)
            train(s, node, 1);
        if (node->op->is_norm || is_layer)
            train(s, node, 2);
        layer += is_layer;
    }
}

static qn_status check_patterns(const selection *s) {
    const char *rest = s->sparse->parts;
    qn_pattern pair;
    char value[64];
    qn_sparse unused;
    bool is_part;
    while (qn_pattern_next(&rest, &pair)) {
        bool fits = false;
        if (!split(&pair, value) || !read_pair(pair, value, &unused, &is_part) || !is_part)
            continue;
        for (int n = 0; n < s->graph->n_nodes && !fits; n++) {
            const int32_t weight = weight_of(s->graph, s->graph->nodes[n]);
            fits = weight >= 0 && qn_layers_match(&s->layers, pair, weight);
        }
        if (!fits)
            return qn_fail(QN_ERROR_ARGUMENT,
                           "update: \"%.*s\" fits no layer; quern models MODEL lists them",
                           (int)pair.bytes, pair.text);
    }
    return QN_OK;
}

qn_status qn_sparse_select(qn_graph *graph, const qn_sparse *sparse) {
    selection s = {.graph = graph, .sparse = sparse};
    QN_TRY(qn_layers_find(graph, &s.layers));
    QN_TRY(check_patterns(&s));
    s.was_trainable =
        qn_arena_allocate(&graph->arena, (size_t)graph->n_values + 1, sizeof *s.was_trainable);
    if (!s.was_trainable)
        return QN_ERROR_MEMORY;
    for (int v = 0; v < graph->n_values; v++) {
        qn_value_info *info = graph->values[v];
        s.was_trainable[v] = info->trainable;
        if (info->producer < 0 && info->kind == QN_KIND_PARAMETER)
            info->trainable = false;
    }
    QN_TRY(select_weights(&s));
    select_biases(&s);
    return QN_OK;
}

/* ---- what is kept ---- */

bool qn_sparse_has_parts(const qn_graph *graph) {
    for (int v = 0; v < graph->n_values; v++) {
        if (graph->values[v]->part.n > 0)
            return true;
    }
    return false;
}

static void copy_node(const qn_graph *from, const qn_node *node, qn_graph *to, qn_value *values) {
    const qn_node *copy = qn_copy_node(to, from, node, node->name, node->attributes, values);
    for (int i = 0; copy && i < node->n_outputs; i++)
        to->values[copy->outputs[i].id]->is_result = from->values[node->outputs[i].id]->is_result;
    if (copy && weight_of(to, copy) >= 0)
        qn_part_keep(to, copy);
}

qn_status qn_sparse_keep(const qn_graph *graph, qn_graph **made, const qn_value **values) {
    qn_graph *to;
    QN_TRY(qn_copy_begin(graph, &to));
    qn_value *copied = qn_arena_allocate(&to->arena, (size_t)graph->n_values + 1, sizeof *copied);
    qn_status status = copied ? QN_OK : QN_ERROR_MEMORY;
    for (int v = 0; v < graph->n_values && status == QN_OK && to->status == QN_OK; v++) {
        const qn_value_info *info = graph->values[v];
        if (info->producer < 0)
            copied[v] = qn_copy_source(to, info);
        else if (info->output == 0)
            copy_node(graph, graph->nodes[info->producer], to, copied);
    }
    if (status == QN_OK) {
        qn_copy_results(to, graph, copied);
        status = qn_graph_finish(to);
    }
    if (status != QN_OK) {
        qn_graph_destroy(to);
        return status;
    }
    *made = to;
    *values = copied;
    return QN_OK;
}
