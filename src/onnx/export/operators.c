/* How nodes of the graph are written as nodes of ONNX, an operator a row of the list at the end.
 * What ONNX has no operator for is written as several, of which the last has the node's name. */
#include "onnx/export/export.h"
#include "ops/ops.h"
#include "quern/ops.h"
#include "tensor/tensor.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The node's output in an order. */
static const char *result(qn_onnx_exporter *e, const qn_node *node, qn_onnx_order order) {
    return qn_onnx_call_it(e, node->outputs[0], order, NULL);
}

static qn_shape shape_of(const qn_onnx_exporter *e, qn_value value) {
    return qn_graph_shape(qn_onnx_exporter_graph(e), value);
}

/* One node from inputs, all in one order. */
static qn_onnx_node *put(qn_onnx_exporter *e, const qn_node *node, const char *type, int n_inputs,
                         qn_onnx_order order) {
    const char *inputs[5];
    for (int i = 0; i < n_inputs && i < 5; i++)
        inputs[i] = qn_onnx_name(e, node->inputs[i], order);
    return qn_onnx_put(e, type, node->name, inputs, n_inputs, result(e, node, order));
}

/* ---- element by element ---- */

/* Operators that are the same under another name. */
static void write_unary(qn_onnx_exporter *e, const qn_node *node) {
    static const char *const types[][2] = {
        {"relu", "Relu"},
        {"tanh", "Tanh"},
        {"sigmoid", "Sigmoid"},
        {"stop_gradient", "Identity"}, /* and wrap_index */
    };
    int i = 0;
    while (i < 3 && strcmp(types[i][0], node->op->name) != 0)
        i++;
    put(e, node, types[i][1], 1, qn_onnx_order_of(e, node->inputs[0]));
}

/* A node of input 0 and numbers. */
static void put_with(qn_onnx_exporter *e, const qn_node *node, const char *type, const char *number,
                     const char *further) {
    const qn_onnx_order order = qn_onnx_order_of(e, node->inputs[0]);
    const char *inputs[] = {qn_onnx_name(e, node->inputs[0], order), number, further};
    qn_onnx_put(e, type, node->name, inputs, further ? 3 : 2, result(e, node, order));
}

static void write_relu6(qn_onnx_exporter *e, const qn_node *node) {
    put_with(e, node, "Clip", qn_onnx_number(e, QN_ONNX_FLOAT, 0),
             qn_onnx_number(e, QN_ONNX_FLOAT, 6));
}

static void write_leaky_relu(qn_onnx_exporter *e, const qn_node *node) {
    const qn_activation *a = qn_onnx_field(node, "activation");
    qn_onnx_put_float(e, put(e, node, "LeakyRelu", 1, qn_onnx_order_of(e, node->inputs[0])),
                      "alpha", a->slope);
}

/* The ratio in double, so that it comes back as it is. */
static void write_dropout(qn_onnx_exporter *e, const qn_node *node) {
    const double *rate = qn_onnx_field(node, "rate");
    put_with(e, node, "Dropout", qn_onnx_number(e, QN_ONNX_DOUBLE, *rate), NULL);
}

static void write_scale(qn_onnx_exporter *e, const qn_node *node) {
    const double *factor = qn_onnx_field(node, "factor");
    put_with(e, node, "Mul", qn_onnx_number(e, QN_ONNX_FLOAT, *factor), NULL);
}

/* x * (erf(x / sqrt(2)) + 1) * 0.5 */
static void write_gelu(qn_onnx_exporter *e, const qn_node *node) {
    const qn_onnx_order order = qn_onnx_order_of(e, node->inputs[0]);
    const char *x = qn_onnx_name(e, node->inputs[0], order);
    const struct {
        const char *type, *suffix, *with;
    } steps[] = {{"Div", "divided", qn_onnx_number(e, QN_ONNX_FLOAT, sqrt(2))},
                 {"Erf", "erf", NULL},
                 {"Add", "added", qn_onnx_number(e, QN_ONNX_FLOAT, 1)},
                 {"Mul", "multiplied", x}};
    const char *at = x;
    for (int i = 0; i < 4; i++) {
        const char *name = qn_onnx_part(e, node, steps[i].suffix);
        qn_onnx_put(e, steps[i].type, name, (const char *[]){at, steps[i].with},
                    steps[i].with ? 2 : 1, name);
        at = name;
    }
    qn_onnx_put(e, "Mul", node->name, (const char *[]){at, qn_onnx_number(e, QN_ONNX_FLOAT, 0.5)},
                2, result(e, node, order));
}

/* Channels second where one of the values is. */
static qn_onnx_order common_order(const qn_onnx_exporter *e, const qn_node *node) {
    for (int i = 0; i < node->n_inputs; i++) {
        if (qn_onnx_order_of(e, node->inputs[i]) == QN_ONNX_CHANNELS_SECOND)
            return QN_ONNX_CHANNELS_SECOND;
    }
    return QN_ONNX_PLAIN;
}

static void write_add(qn_onnx_exporter *e, const qn_node *node) {
    put(e, node, "Add", 2, common_order(e, node));
}

static void write_multiply(qn_onnx_exporter *e, const qn_node *node) {
    put(e, node, "Mul", 2, common_order(e, node));
}

/* min(max(a x + b, least), most) as up to three nodes. */
static void write_line(qn_onnx_exporter *e, const qn_node *node, const qn_function *f) {
    const bool is_clipped = isfinite(f->least) || isfinite(f->most);
    const struct {
        bool is_there;
        const char *type;
        double number, more;
    } steps[] = {{f->a != 1, "Mul", f->a, 0},
                 {f->b != 0 || (f->a == 1 && !is_clipped), "Add", f->b, 0},
                 {is_clipped, "Clip", fmax(f->least, -FLT_MAX), fmin(f->most, FLT_MAX)}};
    const qn_onnx_order order = qn_onnx_order_of(e, node->inputs[0]);
    const char *x = qn_onnx_name(e, node->inputs[0], order);
    int last = 2;
    while (last > 0 && !steps[last].is_there)
        last--;
    for (int i = 0; i <= last; i++) {
        const char *name = i == last ? node->name : qn_onnx_part(e, node, steps[i].type);
        if (!steps[i].is_there)
            continue;
        const char *inputs[] = {x, qn_onnx_number(e, QN_ONNX_FLOAT, steps[i].number),
                                qn_onnx_number(e, QN_ONNX_FLOAT, steps[i].more)};
        x = i == last ? result(e, node, order) : name;
        qn_onnx_put(e, steps[i].type, name, inputs, i == 2 ? 3 : 2, x);
    }
}

static void write_function(qn_onnx_exporter *e, const qn_node *node) {
    const qn_function *f = node->attributes;
    const qn_onnx_order order = qn_onnx_order_of(e, node->inputs[0]);
    if (f->kind == QN_FUNCTION_LINE && f->least == 0 && f->most == 1) {
        qn_onnx_node *to = put(e, node, "HardSigmoid", 1, order);
        qn_onnx_put_float(e, to, "alpha", f->a);
        qn_onnx_put_float(e, to, "beta", f->b);
    } else if (f->kind == QN_FUNCTION_LINE) {
        write_line(e, node, f);
    } else if (f->kind == QN_FUNCTION_POWER) {
        put_with(e, node, "Pow", qn_onnx_number(e, QN_ONNX_FLOAT, f->a), NULL);
    } else if (f->kind == QN_FUNCTION_ELU) {
        qn_onnx_node *to = put(e, node, f->b == 1 ? "Elu" : "Selu", 1, order);
        qn_onnx_put_float(e, to, "alpha", f->a);
        if (f->b != 1)
            qn_onnx_put_float(e, to, "gamma", f->b);
    } else if (qn_function_onnx(f->kind)) {
        put(e, node, qn_function_onnx(f->kind), 1, order);
    } else {
        qn_onnx_export_fail(e, QN_ERROR_UNSUPPORTED, "nothing in ONNX is written for a function");
    }
}

/* The order in which operands are broadcast: channels second only where all have the same axes. */
static qn_onnx_order broadcast_order(const qn_onnx_exporter *e, const qn_node *node) {
    const int rank = shape_of(e, node->outputs[0]).rank;
    for (int i = 0; i < node->n_inputs; i++) {
        const int own = shape_of(e, node->inputs[i]).rank;
        if (own != rank && own != 0)
            return QN_ONNX_PLAIN;
    }
    return common_order(e, node);
}

/* Comparisons are numbers here, and bools there. */
static void write_combine(qn_onnx_exporter *e, const qn_node *node) {
    static const char *const types[] = {
        [QN_COMBINE_ADD] = "Add",    [QN_COMBINE_SUBTRACT] = "Sub", [QN_COMBINE_MULTIPLY] = "Mul",
        [QN_COMBINE_DIVIDE] = "Div", [QN_COMBINE_POWER] = "Pow",    [QN_COMBINE_LEAST] = "Min",
        [QN_COMBINE_MOST] = "Max",   [QN_COMBINE_SLOPE] = "PRelu",  [QN_COMBINE_EQUAL] = "Equal",
        [QN_COMBINE_LESS] = "Less"};
    const int kind = *(const int *)qn_onnx_field(node, "kind");
    const qn_onnx_order order = broadcast_order(e, node);
    if (kind < QN_COMBINE_EQUAL) {
        put(e, node, types[kind], 2, order);
        return;
    }
    const char *is_so = qn_onnx_part(e, node, "is_so");
    const char *inputs[] = {qn_onnx_name(e, node->inputs[0], order),
                            qn_onnx_name(e, node->inputs[1], order)};
    qn_onnx_put(e, types[kind], is_so, inputs, 2, is_so);
    qn_onnx_put_int(e, qn_onnx_put(e, "Cast", node->name, &is_so, 1, result(e, node, order)), "to",
                    QN_ONNX_FLOAT);
}

static void write_where(qn_onnx_exporter *e, const qn_node *node) {
    const qn_onnx_order order = broadcast_order(e, node);
    const char *is_so = qn_onnx_part(e, node, "is_so");
    const char *inputs[] = {qn_onnx_name(e, node->inputs[0], order)};
    qn_onnx_put_int(e, qn_onnx_put(e, "Cast", is_so, inputs, 1, is_so), "to", QN_ONNX_BOOL);
    const char *chosen[] = {is_so, qn_onnx_name(e, node->inputs[1], order),
                            qn_onnx_name(e, node->inputs[2], order)};
    qn_onnx_put(e, "Where", node->name, chosen, 3, result(e, node, order));
}

/* The element type that a cast makes; 0: opset 17 has none. */
static int type_of(qn_dtype dtype) {
    static const int types[] = {
        [QN_F32] = QN_ONNX_FLOAT,
        [QN_F64] = QN_ONNX_FLOAT,
        [QN_I32] = QN_ONNX_INT32,
        [QN_U8] = QN_ONNX_UINT8,
        [QN_U16] = QN_ONNX_UINT16,
        [QN_I8] = QN_ONNX_INT8,
        [QN_I16] = QN_ONNX_INT16,
        [QN_F16] = QN_ONNX_FLOAT16,
        [QN_BF16] = QN_ONNX_BFLOAT16,
        [QN_F8E4M3] = 0,
        [QN_F8E5M2] = 0,
    };
    return types[dtype];
}

static void write_cast(qn_onnx_exporter *e, const qn_node *node) {
    const qn_dtype dtype = (qn_dtype) * (const int *)qn_onnx_field(node, "dtype");
    const int type = type_of(dtype);
    if (type == 0) {
        qn_onnx_export_fail(e, QN_ERROR_UNSUPPORTED,
                            "numbers of 8 bits with fractions, which opset 17 does not have");
        return;
    }
    qn_onnx_put_int(e, put(e, node, "Cast", 1, qn_onnx_order_of(e, node->inputs[0])), "to", type);
}

static void write_constant(qn_onnx_exporter *e, const qn_node *node) {
    const double *value = qn_onnx_field(node, "value");
    qn_onnx_call_it(e, node->outputs[0], QN_ONNX_PLAIN, qn_onnx_number(e, QN_ONNX_FLOAT, *value));
}

/* A number in every place of a shape. */
static void write_broadcast(qn_onnx_exporter *e, const qn_node *node) {
    const qn_graph *graph = qn_onnx_exporter_graph(e);
    const qn_value_info *x = qn_graph_value(graph, node->inputs[0]);
    const qn_node *number = x->producer >= 0 ? graph->nodes[x->producer] : NULL;
    const double *factor = qn_onnx_field(node, "factor");
    const qn_shape shape = shape_of(e, node->outputs[0]);
    int64_t other[QN_MAX_RANK];
    if (!number || strcmp(number->op->name, "constant") != 0) {
        qn_onnx_export_fail(e, QN_ERROR_UNSUPPORTED,
                            "a number that is spread and is not a constant");
        return;
    }
    for (int i = 0; i < shape.rank; i++)
        other[i] = qn_onnx_other_extent(e, node->outputs[0], i);
    const double value = *factor * *(const double *)qn_onnx_field(number, "value");
    const char *inputs[] = {
        qn_onnx_number(e, QN_ONNX_FLOAT, value),
        qn_onnx_shape_list(e, qn_onnx_part(e, node, "shape"), shape.dims, other, shape.rank)};
    qn_onnx_put(e, "Expand", node->name, inputs, 2, result(e, node, QN_ONNX_PLAIN));
}

/* That of a transposed convolution goes into its node. */
static void write_bias(qn_onnx_exporter *e, const qn_node *node) {
    qn_onnx_node *last = qn_onnx_last(e);
    const char *x = qn_onnx_name(e, node->inputs[0], qn_onnx_order_of(e, node->inputs[0]));
    const char *bias = qn_onnx_name(e, node->inputs[1], QN_ONNX_PLAIN);
    if (last && strcmp(last->type, "ConvTranspose") == 0 && last->n_inputs == 2 &&
        last->outputs[0] == x) {
        ((const char **)last->inputs)[2] = bias;
        last->n_inputs = 3;
        last->name = node->name;
        ((const char **)last->outputs)[0] = result(e, node, QN_ONNX_CHANNELS_SECOND);
        return;
    }
    put(e, node, "Add", 2, QN_ONNX_PLAIN);
}

/* ---- layers ---- */

static void put_window(qn_onnx_exporter *e, qn_onnx_node *to, const qn_window *w, int64_t r,
                       int64_t s) {
    const int64_t kernel[] = {r, s};
    const int64_t strides[] = {w->stride_h ? w->stride_h : 1, w->stride_w ? w->stride_w : 1};
    const int64_t dilations[] = {w->dilation_h ? w->dilation_h : 1,
                                 w->dilation_w ? w->dilation_w : 1};
    const int64_t pads[] = {w->pad_top, w->pad_left, w->pad_bottom, w->pad_right};
    qn_onnx_put_ints(e, to, "kernel_shape", kernel, 2);
    qn_onnx_put_ints(e, to, "strides", strides, 2);
    qn_onnx_put_ints(e, to, "pads", pads, 4);
    if (dilations[0] != 1 || dilations[1] != 1)
        qn_onnx_put_ints(e, to, "dilations", dilations, 2);
}

static void write_convolution(qn_onnx_exporter *e, const qn_node *node) {
    const bool has_bias = node->n_inputs > 2 && node->inputs[2].id >= 0;
    const int *groups = qn_onnx_field(node, "groups");
    const qn_shape filter = shape_of(e, node->inputs[1]);
    qn_onnx_node *to =
        put(e, node, groups ? "Conv" : "ConvTranspose", has_bias ? 3 : 2, QN_ONNX_CHANNELS_SECOND);
    put_window(e, to, qn_onnx_field(node, "window"), filter.dims[1], filter.dims[2]);
    if (groups && *groups != 1)
        qn_onnx_put_int(e, to, "group", *groups);
}

static void write_pool(qn_onnx_exporter *e, const qn_node *node) {
    const qn_window *w = qn_onnx_field(node, "window");
    const bool is_max = strcmp(node->op->name, "max_pool") == 0;
    qn_onnx_node *to = put(e, node, is_max ? "MaxPool" : "AveragePool", 1, QN_ONNX_CHANNELS_SECOND);
    put_window(e, to, w, w->kernel_h, w->kernel_w);
    if (!is_max)
        qn_onnx_put_int(e, to, "count_include_pad", !*(const bool *)qn_onnx_field(node, "inside"));
}

static void write_global_average_pool(qn_onnx_exporter *e, const qn_node *node) {
    const char *x = qn_onnx_name(e, node->inputs[0], QN_ONNX_CHANNELS_SECOND);
    const char *image = qn_onnx_part(e, node, "image");
    qn_onnx_put(e, "GlobalAveragePool", node->name, &x, 1, image);
    qn_onnx_put(e, "Flatten", qn_onnx_part(e, node, "flatten"), &image, 1,
                result(e, node, QN_ONNX_PLAIN));
}

static void write_linear(qn_onnx_exporter *e, const qn_node *node) {
    const bool has_bias = node->n_inputs > 2 && node->inputs[2].id >= 0;
    qn_onnx_put_int(e, put(e, node, "Gemm", has_bias ? 3 : 2, QN_ONNX_PLAIN), "transB", 1);
}

/* The update of the running statistics, which belongs to a norm in training. */
static const qn_node *find_running(const qn_graph *graph, const qn_node *norm) {
    for (int i = 0; i < graph->n_nodes; i++) {
        const qn_node *node = graph->nodes[i];
        if (strcmp(node->op->name, "batch_norm_running") == 0 &&
            node->inputs[0].id == norm->outputs[1].id)
            return node;
    }
    return NULL;
}

static void write_batch_norm(qn_onnx_exporter *e, const qn_node *node) {
    const qn_node *running = find_running(qn_onnx_exporter_graph(e), node);
    const double *epsilon = qn_onnx_field(node, "epsilon");
    const char *inputs[5];
    if (!running) {
        qn_onnx_export_fail(e, QN_ERROR_UNSUPPORTED, "a batch norm without running statistics");
        return;
    }
    inputs[0] = qn_onnx_name(e, node->inputs[0], QN_ONNX_CHANNELS_SECOND);
    for (int i = 1; i < 5; i++)
        inputs[i] =
            qn_onnx_name(e, i < 3 ? node->inputs[i] : running->inputs[i - 1], QN_ONNX_PLAIN);
    qn_onnx_node *to = qn_onnx_put(e, "BatchNormalization", node->name, inputs, 5,
                                   result(e, node, QN_ONNX_CHANNELS_SECOND));
    qn_onnx_put_float(e, to, "epsilon", *epsilon);
    qn_onnx_put_float(e, to, "momentum", 1 - *(const double *)qn_onnx_field(running, "momentum"));
}

/* One of a graph for inference, or frozen: its statistics are inputs. */
static void write_batch_norm_inference(qn_onnx_exporter *e, const qn_node *node) {
    const char *inputs[5];
    for (int i = 0; i < 5; i++)
        inputs[i] =
            qn_onnx_name(e, node->inputs[i], i == 0 ? QN_ONNX_CHANNELS_SECOND : QN_ONNX_PLAIN);
    qn_onnx_put_float(e,
                      qn_onnx_put(e, "BatchNormalization", node->name, inputs, 5,
                                  result(e, node, QN_ONNX_CHANNELS_SECOND)),
                      "epsilon", *(const double *)qn_onnx_field(node, "epsilon"));
}

static void write_layer_norm(qn_onnx_exporter *e, const qn_node *node) {
    qn_onnx_node *to = put(e, node, "LayerNormalization", 3, QN_ONNX_PLAIN);
    qn_onnx_put_int(e, to, "axis", -1);
    qn_onnx_put_float(e, to, "epsilon", *(const double *)qn_onnx_field(node, "epsilon"));
}

static void write_softmax(qn_onnx_exporter *e, const qn_node *node) {
    qn_onnx_put_int(e, put(e, node, "Softmax", 1, QN_ONNX_PLAIN), "axis", -1);
}

static void write_embedding(qn_onnx_exporter *e, const qn_node *node) {
    put(e, node, "Gather", 2, QN_ONNX_PLAIN);
}

/* ---- shapes ---- */

/* Whether putting the channels second moves no element. */
static bool is_same_order(qn_shape shape) {
    const int64_t columns = shape.rank > 0 ? shape.dims[shape.rank - 1] : 1;
    return shape.rank < 3 || columns == 1 || qn_shape_count(shape) == shape.dims[0] * columns;
}

/* Whether two values begin with the same extent. */
static bool is_same_first(const qn_onnx_exporter *e, qn_value x, qn_value y) {
    return shape_of(e, x).dims[0] == shape_of(e, y).dims[0] &&
           qn_onnx_other_extent(e, x, 0) == qn_onnx_other_extent(e, y, 0);
}

/* The rows (N, T) that a value's first extent is made of: those of what was made into it on the way
 * here; or QN_NO_VALUE. */
static qn_value find_rows(const qn_onnx_exporter *e, qn_value value, qn_shape wanted) {
    const qn_graph *g = qn_onnx_exporter_graph(e);
    for (int steps = 0; steps < 4 && value.id >= 0; steps++) {
        const qn_shape shape = qn_graph_shape(g, value);
        const int32_t producer = qn_graph_value(g, value)->producer;
        if (shape.rank > 2 && shape.dims[0] == wanted.dims[0] && shape.dims[1] == wanted.dims[1])
            return value;
        value = producer >= 0 ? g->nodes[producer]->inputs[0] : QN_NO_VALUE;
    }
    return QN_NO_VALUE;
}

/* The shape where two extents are open, (N, T, ...) from (N * T, ...): those two from a value that
 * has them. */
static const char *put_open_shape(qn_onnx_exporter *e, const qn_node *node, qn_shape y) {
    const qn_value rows = find_rows(e, node->inputs[0], y);
    const char *x = qn_onnx_name(e, rows, QN_ONNX_PLAIN);
    const char *extents = qn_onnx_part(e, node, "extents"), *shape = qn_onnx_part(e, node, "shape");
    qn_onnx_put_int(e, qn_onnx_put(e, "Shape", extents, &x, 1, extents), "end", 2);
    const char *parts[] = {
        extents, qn_onnx_whole(e, qn_onnx_part(e, node, "columns"), y.dims + 2, y.rank - 2)};
    qn_onnx_put_int(e, qn_onnx_put(e, "Concat", shape, parts, 2, shape), "axis", 0);
    return shape;
}

/* An extent that is open is what is left, of two the first is that of x; else a shape says them. */
static const char *put_shape(qn_onnx_exporter *e, const qn_node *node) {
    const qn_value from = node->inputs[0], to = node->outputs[0];
    qn_shape y = shape_of(e, to);
    int64_t other[QN_MAX_RANK];
    int n_open = 0, open = 0;
    for (int i = 0; i < y.rank; i++) {
        other[i] = qn_onnx_other_extent(e, to, i);
        open = other[i] != y.dims[i] ? i : open;
        n_open += other[i] != y.dims[i];
    }
    const bool is_same = shape_of(e, from).rank > 0 && is_same_first(e, from, to);
    if (n_open == 2 && !is_same && y.rank > 2 && find_rows(e, from, y).id >= 0)
        return put_open_shape(e, node, y);
    if (n_open == 2 && is_same)
        y.dims[0] = other[0] = 0;
    if (n_open == 1 || (n_open == 2 && is_same))
        y.dims[open] = other[open] = -1;
    return qn_onnx_shape_list(e, qn_onnx_part(e, node, "shape"), y.dims, other, y.rank);
}

static void write_reshape(qn_onnx_exporter *e, const qn_node *node) {
    const qn_value from = node->inputs[0], to = node->outputs[0];
    const qn_shape x = shape_of(e, from), y = shape_of(e, to);
    const qn_onnx_order order = is_same_order(x) ? qn_onnx_order_of(e, from) : QN_ONNX_PLAIN;
    const char *inputs[2] = {qn_onnx_name(e, from, order)};
    const char *output = result(e, node, QN_ONNX_PLAIN);
    if (y.rank == 2 && x.rank > 1 && is_same_first(e, from, to)) {
        qn_onnx_put(e, "Flatten", node->name, inputs, 1, output);
        return;
    }
    inputs[1] = put_shape(e, node);
    qn_onnx_put(e, "Reshape", node->name, inputs, 2, output);
}

/* What puts last channels second is there already where they are second in the file. */
static void write_transpose(qn_onnx_exporter *e, const qn_node *node) {
    const qn_shape *order = qn_onnx_field(node, "order");
    bool is_second = qn_onnx_order_of(e, node->inputs[0]) == QN_ONNX_CHANNELS_SECOND;
    for (int i = 0; i < order->rank; i++)
        is_second =
            is_second && qn_onnx_axis_in(QN_ONNX_CHANNELS_SECOND, order->dims[i], order->rank) == i;
    if (is_second) {
        qn_onnx_call_it(e, node->outputs[0], QN_ONNX_PLAIN,
                        qn_onnx_name(e, node->inputs[0], QN_ONNX_CHANNELS_SECOND));
        return;
    }
    qn_onnx_put_ints(e, put(e, node, "Transpose", 1, QN_ONNX_PLAIN), "perm", order->dims,
                     order->rank);
}

static void write_concat(qn_onnx_exporter *e, const qn_node *node) {
    const qn_onnx_order order = common_order(e, node);
    const int axis = *(const int *)qn_onnx_field(node, "axis");
    const int rank = shape_of(e, node->outputs[0]).rank;
    qn_onnx_node *to = qn_onnx_put_all(e, "Concat", node, order, result(e, node, order));
    qn_onnx_put_int(e, to, "axis", qn_onnx_axis_in(order, axis, rank));
}

/* Of an axis that is open a slice goes to its end, from as far before it, or from a place that is
 * the same in all. */
static void find_range(qn_onnx_exporter *e, const qn_node *node, int axis, int64_t range[2]) {
    const qn_node *nodes[] = {node, qn_onnx_other_node(e, node)};
    const int64_t extents[] = {shape_of(e, node->inputs[0]).dims[axis],
                               qn_onnx_other_extent(e, node->inputs[0], axis)};
    int64_t begin[2], end[2];
    for (int i = 0; i < 2; i++) {
        begin[i] = *(const int64_t *)qn_onnx_field(nodes[i], "begin");
        end[i] = *(const int64_t *)qn_onnx_field(nodes[i], "end");
    }
    const bool to_end = end[0] == extents[0] && end[1] == extents[1];
    const bool from_end = begin[0] != begin[1] && begin[0] - extents[0] == begin[1] - extents[1];
    if ((end[0] != end[1] && !to_end) || (begin[0] != begin[1] && !from_end))
        qn_onnx_export_fail(e, QN_ERROR_UNSUPPORTED, "a slice of an open axis that depends on it");
    range[0] = from_end ? begin[0] - extents[0] : begin[0];
    range[1] = end[0] == end[1] ? end[0] : INT64_MAX;
}

static void write_slice(qn_onnx_exporter *e, const qn_node *node) {
    const qn_onnx_order order = qn_onnx_order_of(e, node->inputs[0]);
    const int axis = *(const int *)qn_onnx_field(node, "axis");
    const int64_t axes[] = {qn_onnx_axis_in(order, axis, shape_of(e, node->inputs[0]).rank)};
    int64_t range[2];
    find_range(e, node, axis, range);
    const char *inputs[] = {qn_onnx_name(e, node->inputs[0], order),
                            qn_onnx_whole(e, qn_onnx_part(e, node, "begin"), &range[0], 1),
                            qn_onnx_whole(e, qn_onnx_part(e, node, "end"), &range[1], 1),
                            qn_onnx_whole(e, qn_onnx_part(e, node, "axis"), axes, 1)};
    qn_onnx_put(e, "Slice", node->name, inputs, 4, result(e, node, order));
}

static void write_reduce(qn_onnx_exporter *e, const qn_node *node) {
    static const char *const types[] = {"ReduceSum", "ReduceMean", "ReduceMax"};
    const int reduction = *(const int *)qn_onnx_field(node, "reduction");
    const int64_t axes[] = {*(const int *)qn_onnx_field(node, "axis")};
    const char *inputs[2] = {qn_onnx_name(e, node->inputs[0], QN_ONNX_PLAIN)};
    if (reduction == QN_SUM)
        inputs[1] = qn_onnx_whole(e, qn_onnx_part(e, node, "axes"), axes, 1);
    qn_onnx_node *to = qn_onnx_put(e, types[reduction], node->name, inputs, inputs[1] ? 2 : 1,
                                   result(e, node, QN_ONNX_PLAIN));
    if (reduction != QN_SUM)
        qn_onnx_put_ints(e, to, "axes", axes, 1);
    qn_onnx_put_int(e, to, "keepdims", 0);
}

/* ---- products ---- */

/* A node of some names to "NODE/suffix", which is returned. */
static const char *put_part(qn_onnx_exporter *e, const qn_node *node, const char *type,
                            const char *suffix, const char *const *inputs, int n_inputs) {
    const char *name = qn_onnx_part(e, node, suffix);
    qn_onnx_put(e, type, name, inputs, n_inputs, name);
    return name;
}

static const char *put_ordered(qn_onnx_exporter *e, const qn_node *node, const char *suffix,
                               const char *x, const int64_t *order, int rank) {
    const char *name = put_part(e, node, "Transpose", suffix, &x, 1);
    qn_onnx_put_ints(e, qn_onnx_last(e), "perm", order, rank);
    return name;
}

/* With its last two axes swapped. */
static const char *put_swapped(qn_onnx_exporter *e, const qn_node *node, const char *suffix,
                               qn_value x) {
    const int rank = shape_of(e, x).rank;
    int64_t order[QN_MAX_RANK];
    for (int i = 0; i < rank; i++)
        order[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    return put_ordered(e, node, suffix, qn_onnx_name(e, x, QN_ONNX_PLAIN), order, rank);
}

static void write_matmul(qn_onnx_exporter *e, const qn_node *node) {
    static const char *const fields[] = {"transpose_a", "transpose_b"}, *const suffixes[] = {"a",
                                                                                             "b"};
    const char *inputs[2];
    for (int i = 0; i < 2; i++) {
        const bool *is_swapped = qn_onnx_field(node, fields[i]);
        inputs[i] = *is_swapped ? put_swapped(e, node, suffixes[i], node->inputs[i])
                                : qn_onnx_name(e, node->inputs[i], QN_ONNX_PLAIN);
    }
    qn_onnx_put(e, "MatMul", node->name, inputs, 2, result(e, node, QN_ONNX_PLAIN));
}

static const char *put_n_keys(qn_onnx_exporter *e, const qn_node *node) {
    const char *keys = qn_onnx_name(e, node->inputs[1], QN_ONNX_PLAIN);
    if (!qn_onnx_is_open(e, node->inputs[1], 2))
        return qn_onnx_number(e, QN_ONNX_INT64, (double)shape_of(e, node->inputs[1]).dims[2]);
    const char *extent = put_part(e, node, "Shape", "extent", &keys, 1);
    qn_onnx_put_int(e, qn_onnx_last(e), "start", 2);
    qn_onnx_put_int(e, qn_onnx_last(e), "end", 3);
    return put_part(e, node, "Squeeze", "n_keys", &extent, 1);
}

/* Scores (N, H, T, U) with those of keys from the lengths on far below all others. */
static const char *put_mask(qn_onnx_exporter *e, const qn_node *node, const char *scores) {
    const int64_t axes[] = {1, 2, 3};
    const char *lengths = qn_onnx_name(e, node->inputs[3], QN_ONNX_PLAIN);
    const char *wide = put_part(e, node, "Cast", "lengths", &lengths, 1);
    qn_onnx_put_int(e, qn_onnx_last(e), "to", QN_ONNX_INT64);
    const char *unsqueezed[] = {wide, qn_onnx_whole(e, qn_onnx_part(e, node, "axes"), axes, 3)};
    const char *ends = put_part(e, node, "Unsqueeze", "ends", unsqueezed, 2);
    const char *range[] = {qn_onnx_number(e, QN_ONNX_INT64, 0), put_n_keys(e, node),
                           qn_onnx_number(e, QN_ONNX_INT64, 1)};
    const char *places[] = {put_part(e, node, "Range", "places", range, 3), ends};
    const char *choice[] = {put_part(e, node, "Less", "is_there", places, 2), scores,
                            qn_onnx_number(e, QN_ONNX_FLOAT, -1e30)};
    return put_part(e, node, "Where", "masked", choice, 3);
}

/* softmax(scale * query key^T) value, with dropout on the softmax where the graph trains. */
static void write_attention(qn_onnx_exporter *e, const qn_node *node) {
    const double *scale = qn_onnx_field(node, "scale"), *rate = qn_onnx_field(node, "rate");
    const char *pair[] = {qn_onnx_name(e, node->inputs[0], QN_ONNX_PLAIN),
                          put_swapped(e, node, "keys", node->inputs[1])};
    const char *scaled[] = {put_part(e, node, "MatMul", "scores", pair, 2),
                            qn_onnx_number(e, QN_ONNX_FLOAT, *scale)};
    const char *x = put_part(e, node, "Mul", "scaled", scaled, 2);
    if (node->n_inputs > 3 && node->inputs[3].id >= 0)
        x = put_mask(e, node, x);
    x = put_part(e, node, "Softmax", "softmax", &x, 1);
    qn_onnx_put_int(e, qn_onnx_last(e), "axis", -1);
    if (qn_onnx_exporter_graph(e)->training && *rate > 0) {
        const char *dropped[] = {x, qn_onnx_number(e, QN_ONNX_DOUBLE, *rate)};
        x = put_part(e, node, "Dropout", "dropout", dropped, 2);
    }
    const char *product[] = {x, qn_onnx_name(e, node->inputs[2], QN_ONNX_PLAIN)};
    qn_onnx_put(e, "MatMul", node->name, product, 2, result(e, node, QN_ONNX_PLAIN));
}

/* ---- LSTM: the product with the input is a node of its own in the graph, and part of the node in
 * ONNX, which has its gates in another order ---- */

enum { LSTM_X, LSTM_WEIGHT_X, LSTM_BIAS, LSTM_WEIGHT_H, LSTM_H, LSTM_C, LSTM_LENGTHS, N_LSTM };

static const qn_node *producer_of(const qn_graph *graph, qn_value value) {
    return graph->nodes[qn_graph_value(graph, value)->producer];
}

/* x reshaped, through a linear layer, reshaped: what went in. */
static int read_lstm(const qn_graph *graph, const qn_node *node, qn_value *read) {
    const qn_node *linear = producer_of(graph, producer_of(graph, node->inputs[0])->inputs[0]);
    read[LSTM_X] = producer_of(graph, linear->inputs[0])->inputs[0];
    read[LSTM_WEIGHT_X] = linear->inputs[1];
    read[LSTM_BIAS] = linear->inputs[2];
    for (int i = 1; i < node->n_inputs; i++)
        read[LSTM_WEIGHT_H + i - 1] = node->inputs[i];
    return N_LSTM;
}

/* Weights of the gates i, f, g, o as i, o, f, g with an axis in front. more: what comes behind, or
 * null. */
static const char *put_gates(qn_onnx_exporter *e, const qn_node *node, const char *suffix,
                             qn_value weights, const char *more) {
    static const char *const gates[] = {"i", "f", "g", "o"};
    static const int order[] = {0, 3, 1, 2};
    const int64_t zero = 0;
    const char *x = qn_onnx_name(e, weights, QN_ONNX_PLAIN), *split[4], *parts[5];
    char part[64];
    for (int i = 0; i < 4; i++) {
        snprintf(part, sizeof part, "%s_%s", suffix, gates[i]);
        split[i] = qn_onnx_part(e, node, part);
    }
    for (int i = 0; i < 4; i++)
        parts[i] = split[order[i]];
    parts[4] = more;
    snprintf(part, sizeof part, "%s_split", suffix);
    qn_onnx_put_outputs(e, qn_onnx_put(e, "Split", qn_onnx_part(e, node, part), &x, 1, split[0]),
                        split, 4);
    snprintf(part, sizeof part, "%s_gates", suffix);
    x = put_part(e, node, "Concat", part, parts, more ? 5 : 4);
    qn_onnx_put_int(e, qn_onnx_last(e), "axis", 0);
    snprintf(part, sizeof part, "%s_axis", suffix);
    const char *with_axis[] = {x, qn_onnx_whole(e, qn_onnx_part(e, node, part), &zero, 1)};
    return put_part(e, node, "Unsqueeze", suffix, with_axis, 2);
}

/* Zeros of a bias, made by nodes, since an initialiser would train. */
static const char *put_zeros(qn_onnx_exporter *e, const qn_node *node, int64_t n) {
    const char *shape = qn_onnx_whole(e, qn_onnx_part(e, node, "zeros_shape"), &n, 1);
    return put_part(e, node, "ConstantOfShape", "zeros", &shape, 1);
}

static const char *put_unsqueezed(qn_onnx_exporter *e, const qn_node *node, const char *suffix,
                                  const char *axis, qn_value x) {
    if (x.id < 0)
        return "";
    const char *inputs[] = {qn_onnx_name(e, x, QN_ONNX_PLAIN), axis};
    return put_part(e, node, "Unsqueeze", suffix, inputs, 2);
}

/* y (T, 1, N, K) and the states (1, N, K) as (N, T, K) and (N, K). */
static void put_results(qn_onnx_exporter *e, const qn_node *node, const char *const *made,
                        const char *zero) {
    static const int64_t swap[] = {1, 0, 2}, one = 1;
    const char *squeezed[] = {made[0], qn_onnx_whole(e, qn_onnx_part(e, node, "one"), &one, 1)};
    const char *y = put_part(e, node, "Squeeze", "steps", squeezed, 2);
    const char *names[3];
    for (int i = 0; i < 3; i++)
        names[i] = qn_onnx_call_it(e, node->outputs[1 + i], QN_ONNX_PLAIN, NULL);
    qn_onnx_put_ints(e, qn_onnx_put(e, "Transpose", names[0], &y, 1, names[0]), "perm", swap, 3);
    for (int i = 1; i < 3; i++)
        qn_onnx_put(e, "Squeeze", names[i], (const char *[]){made[i], zero}, 2, names[i]);
}

static void write_lstm(qn_onnx_exporter *e, const qn_node *node) {
    static const int64_t swap[] = {1, 0, 2}, first = 0;
    qn_value read[QN_ONNX_MOST_READ];
    read_lstm(qn_onnx_exporter_graph(e), node, read);
    const int64_t units = shape_of(e, read[LSTM_WEIGHT_H]).dims[1];
    const char *zero = qn_onnx_whole(e, qn_onnx_part(e, node, "zero"), &first, 1);
    const char *lengths =
        read[LSTM_LENGTHS].id >= 0 ? qn_onnx_name(e, read[LSTM_LENGTHS], QN_ONNX_PLAIN) : "";
    const char *inputs[] = {
        put_ordered(e, node, "x", qn_onnx_name(e, read[LSTM_X], QN_ONNX_PLAIN), swap, 3),
        put_gates(e, node, "weight_x", read[LSTM_WEIGHT_X], NULL),
        put_gates(e, node, "weight_h", read[LSTM_WEIGHT_H], NULL),
        put_gates(e, node, "bias", read[LSTM_BIAS], put_zeros(e, node, 4 * units)),
        lengths,
        put_unsqueezed(e, node, "h_before", zero, read[LSTM_H]),
        put_unsqueezed(e, node, "c_before", zero, read[LSTM_C])};
    const char *made[] = {qn_onnx_part(e, node, "y"), qn_onnx_part(e, node, "h"),
                          qn_onnx_part(e, node, "c")};
    qn_onnx_node *to = qn_onnx_put(e, "LSTM", node->name, inputs, 7, made[0]);
    qn_onnx_put_outputs(e, to, made, 3);
    qn_onnx_put_int(e, to, "hidden_size", units);
    put_results(e, node, made, zero);
}

const qn_onnx_writer qn_onnx_writers[] = {
    {"add", write_add, NULL},
    {"attention", write_attention, NULL},
    {"average_pool", write_pool, NULL},
    {"batch_norm", write_batch_norm, NULL},
    {"batch_norm_inference", write_batch_norm_inference, NULL},
    {"bias", write_bias, NULL},
    {"broadcast", write_broadcast, NULL},
    {"cast", write_cast, NULL},
    {"combine", write_combine, NULL},
    {"concat", write_concat, NULL},
    {"constant", write_constant, NULL},
    {"conv2d", write_convolution, NULL},
    {"conv2d_transpose", write_convolution, NULL},
    {"dequantise", qn_onnx_write_dequantise, NULL},
    {"dropout", write_dropout, NULL},
    {"embedding", write_embedding, NULL},
    {"function", write_function, NULL},
    {"gelu", write_gelu, NULL},
    {"global_average_pool", write_global_average_pool, NULL},
    {"layer_norm", write_layer_norm, NULL},
    {"leaky_relu", write_leaky_relu, NULL},
    {"linear", write_linear, NULL},
    {"lstm", write_lstm, read_lstm},
    {"matmul", write_matmul, NULL},
    {"max_pool", write_pool, NULL},
    {"multiply", write_multiply, NULL},
    {"quantise", qn_onnx_write_quantise, NULL},
    {"reduce", write_reduce, NULL},
    {"relu", write_unary, NULL},
    {"relu6", write_relu6, NULL},
    {"resample", qn_onnx_write_resample, qn_onnx_read_resample},
    {"reshape", write_reshape, NULL},
    {"scale", write_scale, NULL},
    {"sigmoid", write_unary, NULL},
    {"slice", write_slice, NULL},
    {"softmax", write_softmax, NULL},
    {"stop_gradient", write_unary, NULL},
    {"tanh", write_unary, NULL},
    {"transpose", write_transpose, NULL},
    {"where", write_where, NULL},
    {"wrap_index", write_unary, NULL},
    {0},
};
