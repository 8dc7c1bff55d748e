/* Two or three operands elementwise, broadcast to one shape as in NumPy: shapes are aligned at
 * their last axes, and an extent that is 1 or missing matches any other. An operand's gradient is
 * computed in the result's shape and then summed over the broadcast axes. */
#include "ops/elementwise.h"
#include "ops/shared.h"

#include <stdio.h>

_Static_assert((int)QN_BROADCAST_RANK == (int)QN_MAX_RANK, "kernels know no shapes");

static const qn_attribute combine_fields[] = {
    QN_FIELD(qn_combine_attributes, QN_ATTRIBUTE_INT, kind),
    {0},
};

/* ---- shapes ---- */

/* The extent of an operand along an axis of a result of so many axes. */
static int64_t extent_at(qn_shape shape, int rank, int axis) {
    const int own = axis - (rank - shape.rank);
    return own >= 0 ? shape.dims[own] : 1;
}

bool qn_shape_broadcast(qn_shape a, qn_shape b, qn_shape *y) {
    qn_shape made = {.rank = a.rank > b.rank ? a.rank : b.rank};
    for (int axis = 0; axis < made.rank; axis++) {
        const int64_t m = extent_at(a, made.rank, axis), n = extent_at(b, made.rank, axis);
        if (m != n && m != 1 && n != 1)
            return false;
        made.dims[axis] = m == 1 ? n : m;
    }
    *y = made;
    return true;
}

static qn_status infer_broadcast(qn_infer *infer) {
    char is[QN_SHAPE_TEXT], other[QN_SHAPE_TEXT];
    qn_shape y = infer->inputs[0].shape;
    for (int i = 1; i < infer->n_inputs; i++) {
        if (!qn_shape_broadcast(y, infer->inputs[i].shape, &y))
            return qn_fail(QN_ERROR_ARGUMENT,
                           "%s and %s do not go together: extents must be equal or 1",
                           qn_shape_print(y, is), qn_shape_print(infer->inputs[i].shape, other));
    }
    infer->outputs[0] = (qn_tensor){infer->inputs[0].dtype, y};
    return QN_OK;
}

static qn_status combine_infer(qn_infer *infer) {
    const qn_combine_attributes *a = infer->attributes;
    const int n_operands = a->kind >= QN_COMBINE_DIVIDE_B ? 3 : 2;
    if (a->kind >= QN_COMBINE_WHERE || infer->n_inputs != n_operands)
        return qn_fail(QN_ERROR_ARGUMENT, "there is no rule %d of %d operands", (int)a->kind,
                       infer->n_inputs);
    return infer_broadcast(infer);
}

static qn_cost combine_cost(const void *attributes, const qn_tensor *inputs,
                            const qn_tensor *outputs) {
    const qn_combine_attributes *a = attributes;
    const bool is_power = a && (a->kind == QN_COMBINE_POWER || a->kind == QN_COMBINE_POWER_A ||
                                a->kind == QN_COMBINE_POWER_B);
    (void)inputs;
    return qn_cost_elements(is_power ? 16 : 2, outputs);
}

/* ---- running ---- */

/* Whether axes axis and axis + 1 of the result are one for every operand: it has both or neither.
 */
static bool are_one(const qn_tensor *operands, int n, qn_shape y, int axis) {
    for (int i = 0; i < n; i++) {
        const qn_shape x = operands[i].shape;
        const bool has = extent_at(x, y.rank, axis) == y.dims[axis];
        const bool has_next = extent_at(x, y.rank, axis + 1) == y.dims[axis + 1];
        if (has != has_next && y.dims[axis] != 1 && y.dims[axis + 1] != 1)
            return false;
    }
    return y.dims[axis] != 1 && y.dims[axis + 1] != 1;
}

/* The axes of the result that are more than one element, those that are one put together. */
static qn_broadcast layout_of(const qn_tensor *operands, int n, qn_shape y) {
    qn_broadcast b = {.rank = 0};
    int64_t steps[3] = {1, 1, 1};
    int kept[QN_MAX_RANK + 1] = {0}; /* axes of y, the last one first, that end an axis of b */
    for (int axis = y.rank - 1; axis >= 0; axis--) {
        if (y.dims[axis] == 1)
            continue;
        if (b.rank > 0 && kept[b.rank - 1] == axis + 1 && are_one(operands, n, y, axis)) {
            b.extents[b.rank - 1] *= y.dims[axis];
        } else {
            b.extents[b.rank] = y.dims[axis];
            for (int i = 0; i < n; i++)
                b.strides[i][b.rank] =
                    extent_at(operands[i].shape, y.rank, axis) == 1 ? 0 : steps[i];
            b.rank++;
        }
        kept[b.rank - 1] = axis;
        for (int i = 0; i < n; i++)
            steps[i] *= extent_at(operands[i].shape, y.rank, axis);
    }
    return b;
}

/* That with the outermost axis first; a scalar has one axis. */
qn_broadcast qn_broadcast_of(const qn_tensor *operands, int n, qn_shape y) {
    const qn_broadcast b = layout_of(operands, n, y);
    qn_broadcast turned = {.rank = b.rank > 0 ? b.rank : 1, .extents = {1}};
    for (int axis = 0; axis < b.rank; axis++) {
        turned.extents[axis] = b.extents[b.rank - 1 - axis];
        for (int i = 0; i < 3; i++)
            turned.strides[i][axis] = b.strides[i][b.rank - 1 - axis];
    }
    return turned;
}

/* ---- gradients ---- */

static qn_value named_reduce(qn_graph *graph, const qn_node *node, qn_value x) {
    char name[1024];
    snprintf(name, sizeof name, "%s.backward_sum", node->name);
    return qn_reduce(graph, qn_graph_unique(graph, name, false), x, 1, QN_SUM);
}

/* Sums over the first `lead` axes of g: as a bias's gradient, sample by sample. */
static qn_value sum_leading(qn_graph *graph, const qn_node *node, qn_value g, int lead) {
    const qn_shape shape = qn_graph_shape(graph, g);
    const int64_t columns = qn_shape_count_range(shape, lead, shape.rank);
    const int64_t rest = qn_shape_count_range(shape, 1, lead);
    g = qn_reshape(graph, NULL, g, QN_SHAPE(shape.dims[0], rest, columns));
    return qn_gradient_columns(graph, node, "backward_sum", g);
}

/* g, in the result's shape, summed to that of an operand. */
static qn_value sum_to(qn_graph *graph, const qn_node *node, qn_value g, qn_shape to) {
    qn_shape now = qn_graph_shape(graph, g);
    for (int end = now.rank, begin; end > 0; end = begin) {
        for (begin = end; begin > 0 && extent_at(to, now.rank, begin - 1) == 1;)
            begin--;
        if (begin == end) {
            begin--;
            continue;
        }
        const int64_t n = qn_shape_count_range(now, begin, end);
        const int64_t inner = qn_shape_count_range(now, end, now.rank);
        if (n == 1)
            continue;
        if (begin == 0 && end < now.rank) {
            g = sum_leading(graph, node, g, end);
        } else {
            const int64_t outer = qn_shape_count_range(now, 0, begin);
            g = named_reduce(graph, node, qn_reshape(graph, NULL, g, QN_SHAPE(outer, n, inner)));
        }
        for (int axis = begin; axis < end; axis++)
            now.dims[axis] = 1;
        g = qn_reshape(graph, NULL, g, now);
    }
    return qn_shape_equal(now, to) ? g : qn_reshape(graph, NULL, g, to);
}

/* What an operand's gradient is before it is summed: a rule over a (0), b (1) and dy (2). */
enum { NOTHING = -1, A = 0, B = 1, DY = 2 };
typedef struct gradient_rule {
    qn_combination kind;
    int8_t operands[3];
} gradient_rule;

static const gradient_rule gradient_rules[][2] = {
    [QN_COMBINE_MULTIPLY] = {{QN_COMBINE_MULTIPLY, {DY, B, NOTHING}},
                             {QN_COMBINE_MULTIPLY, {DY, A, NOTHING}}},
    [QN_COMBINE_DIVIDE] = {{QN_COMBINE_DIVIDE, {DY, B, NOTHING}},
                           {QN_COMBINE_DIVIDE_B, {A, B, DY}}},
    [QN_COMBINE_POWER] = {{QN_COMBINE_POWER_A, {A, B, DY}}, {QN_COMBINE_POWER_B, {A, B, DY}}},
    [QN_COMBINE_LEAST] = {{QN_COMBINE_UNLESS_LESS, {B, A, DY}}, {QN_COMBINE_IF_LESS, {B, A, DY}}},
    [QN_COMBINE_MOST] = {{QN_COMBINE_UNLESS_LESS, {A, B, DY}}, {QN_COMBINE_IF_LESS, {A, B, DY}}},
    [QN_COMBINE_SLOPE] = {{QN_COMBINE_SLOPE_A, {A, B, DY}}, {QN_COMBINE_SLOPE_B, {A, B, DY}}},
};

static qn_value apply_rule(qn_graph *graph, const qn_gradient *gradient,
                           const gradient_rule *rule) {
    const qn_node *node = gradient->node;
    const qn_value values[] = {node->inputs[0], node->inputs[1], gradient->outputs[0]};
    const qn_combine_attributes attributes = {rule->kind};
    qn_value operands[3];
    int n = 0;
    for (; n < 3 && rule->operands[n] >= 0; n++)
        operands[n] = values[rule->operands[n]];
    return qn_gradient_add(graph, node, "backward", &qn_op_combine_forward, operands, n,
                           &attributes);
}

static void combine_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    const qn_combination kind = ((const qn_combine_attributes *)node->attributes)->kind;
    if (kind == QN_COMBINE_EQUAL || kind == QN_COMBINE_LESS)
        return; /* 0 but for where it jumps */
    if (kind > QN_COMBINE_SLOPE) {
        qn_graph_fail(graph, QN_ERROR_UNSUPPORTED, "%s: a gradient has none itself", node->name);
        return;
    }
    for (int i = 0; i < 2; i++) {
        if (!gradient->wanted[i])
            continue;
        qn_value g = gradient->outputs[0];
        if (kind > QN_COMBINE_SUBTRACT)
            g = apply_rule(graph, gradient, &gradient_rules[kind][i]);
        g = sum_to(graph, node, g, qn_graph_shape(graph, node->inputs[i]));
        if (kind == QN_COMBINE_SUBTRACT && i == 1)
            g = qn_scale(graph, NULL, g, -1);
        gradient->inputs[i] = g;
    }
}

/* ---- samples ---- */

typedef struct shape_pair {
    qn_shape a, b;
} shape_pair;

static const shape_pair sample_shapes[] = {
    {{3, {3, 5, 7}}, {1, {7}}},          {{3, {3, 5, 7}}, {3, {3, 5, 7}}},
    {{3, {5, 1, 3}}, {2, {4, 1}}},       {{2, {5, 7}}, {0, {0}}},
    {{4, {2, 1, 3, 5}}, {3, {4, 1, 1}}}, {{3, {1, 4, 3}}, {3, {2, 1, 3}}},
    {{2, {1, 3}}, {4, {2, 5, 4, 3}}},    {{2, {3, 1}}, {3, {1, 1, 1}}},
};

enum { N_SHAPES = sizeof sample_shapes / sizeof *sample_shapes };

/* Every rule, and then a product in every pair of shapes. Powers have bases, quotients have
 * divisors, that are above 0. */
static qn_value combine_sample(qn_graph *graph, int variant) {
    const qn_function positive = {QN_FUNCTION_LINE, 0.4, 1, -100, 100};
    const qn_combination kind =
        variant <= QN_COMBINE_SLOPE ? (qn_combination)variant : QN_COMBINE_MULTIPLY;
    const shape_pair shapes = sample_shapes[variant % N_SHAPES];
    qn_value a = qn_sample_parameter(graph, "a", shapes.a, 1);
    qn_value b = qn_sample_parameter(graph, "b", shapes.b, 1);
    if (kind == QN_COMBINE_POWER)
        a = qn_op_function(graph, "base", a, positive);
    if (kind == QN_COMBINE_DIVIDE)
        b = qn_op_function(graph, "divisor", b, positive);
    return qn_op_combine(graph, "y", kind, a, b);
}

static bool combine_is_sum(const void *attributes) {
    const qn_combine_attributes *a = attributes;
    return a->kind == QN_COMBINE_ADD;
}

const qn_op qn_op_combine_forward = {
    .name = "combine",
    .attributes_bytes = sizeof(qn_combine_attributes),
    .attributes = combine_fields,
    .min_inputs = 2,
    .max_inputs = 3,
    .is_sum = combine_is_sum,
    .infer = combine_infer,
    .gradient = combine_gradient,
    .cost = combine_cost,
    .in_place = 1 << 0 | 1 << 1 | 1 << 2,
    .n_samples = QN_COMBINE_SLOPE + 1 + N_SHAPES,
    .sample = combine_sample,
};

qn_value qn_op_combine(qn_graph *graph, const char *name, qn_combination kind, qn_value a,
                       qn_value b) {
    const qn_combine_attributes attributes = {kind};
    return qn_graph_add1(graph, &qn_op_combine_forward, name, (qn_value[]){a, b}, 2, &attributes);
}

/* ---- one of two, by a condition of zeros and others ---- */

static void where_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    char name[1024];
    snprintf(name, sizeof name, "%s.zero", node->name);
    const qn_value zero = qn_op_scalar_of(graph, qn_graph_unique(graph, name, false), 0,
                                          qn_graph_tensor(graph, gradient->outputs[0]).dtype);
    for (int i = 1; i <= 2; i++) {
        if (!gradient->wanted[i])
            continue;
        qn_value inputs[] = {node->inputs[0], zero, zero};
        inputs[i] = gradient->outputs[0];
        gradient->inputs[i] =
            sum_to(graph, node,
                   qn_gradient_add(graph, node, "backward", &qn_op_where_forward, inputs, 3, NULL),
                   qn_graph_shape(graph, node->inputs[i]));
    }
}

static qn_value where_sample(qn_graph *graph, int variant) {
    const qn_shape conditions[] = {QN_SHAPE(3, 5, 7), QN_SHAPE(5, 1), QN_SHAPE(3, 1, 7)};
    const qn_shape b[] = {QN_SHAPE(3, 5, 7), QN_SHAPE(7), (qn_shape){.rank = 0}};
    qn_value labels = qn_label(graph, "labels", QN_I32, conditions[variant]);
    qn_value condition = qn_op_cast(graph, "condition", labels, graph->real);
    qn_value x = qn_sample_parameter(graph, "a", QN_SHAPE(3, 5, 7), 1);
    return qn_op_where(graph, "y", condition, x, qn_sample_parameter(graph, "b", b[variant], 1));
}

const qn_op qn_op_where_forward = {
    .name = "where",
    .min_inputs = 3,
    .max_inputs = 3,
    .infer = infer_broadcast,
    .gradient = where_gradient,
    .cost = combine_cost,
    .in_place = 1 << 0 | 1 << 1 | 1 << 2,
    .n_samples = 3,
    .sample = where_sample,
};

qn_value qn_op_where(qn_graph *graph, const char *name, qn_value condition, qn_value a,
                     qn_value b) {
    return qn_graph_add1(graph, &qn_op_where_forward, name, (qn_value[]){condition, a, b}, 3, NULL);
}
