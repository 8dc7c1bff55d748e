/* See quantise.h. Every value of the old graph is held in the new one as its role says: in a small
 * type with a scale, or in the graph's type. A product takes what is held; where whole numbers make
 * sums, it is of mantissas, and the sums are shifted. An operator that only moves or chooses
 * numbers works on mantissas too. Every other one falls back to the graph's type: its operands are
 * widened before it, for it alone, and its result is rounded behind it. */
#include "passes/quantise.h"

#include "base/status.h"
#include "ops/network/norm.h"
#include "ops/ops.h"
#include "ops/quantise.h"
#include "ops/rescaled.h"
#include "ops/whole_norm.h"
#include "passes/copy.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* How the new graph has a value. A whole type without scale has the exponent 0. */
typedef struct held {
    qn_value value, scale;
    int axis; /* that the scale is along, or -1 */
    bool is_narrow;
    qn_value zero;
} held;

/* Arrays over the values of the old graph. */
typedef struct translation {
    const qn_quantise_source *source;
    const qn_numerics *how;
    const qn_graph *from;
    qn_graph *to;
    held *held;
    held *operands;          /* what products read instead, once it was made */
    held *backward_operands; /* what those of the backward part do, where it has types of its own */
    qn_value *values;
    int *n_readers;
    int *gradient_of;    /* 1 + the parameter's place in source->parameters; 0: of none */
    bool *is_operand;    /* a parameter, of a forward product */
    bool *is_dropped;    /* a bias that is left out, and its gradient */
    bool *is_wide;       /* a parameter of a layer that stays as it is, and its gradient */
    qn_value (*kept)[2]; /* what is kept of shifts and ranges, and what it becomes */
    int n_kept;
} translation;

static const held nothing = {{-1}, {-1}, -1, false, {-1}};

static held as_wide(qn_value value) {
    return (held){value, QN_NO_VALUE, -1, false, QN_NO_VALUE};
}

static held as_narrow(qn_value value, qn_value scale, int axis) {
    return (held){value, scale, axis, true, QN_NO_VALUE};
}

static bool is_there(held h) {
    return h.value.id >= 0;
}

static const char *name_with(qn_graph *graph, const char *name, const char *word) {
    const char *text = qn_arena_format(&graph->arena, "%s.%s", name, word);
    if (!text)
        qn_graph_fail(graph, QN_ERROR_MEMORY, "%s", qn_error_message());
    return text ? text : "";
}

/* ---- types ---- */

static const qn_role_type *type_of(const translation *t, qn_role role) {
    return &t->how->roles[role];
}

/* The value in the graph's type, made for one reader. */
static qn_value widen(translation *t, held h) {
    if (!h.is_narrow || !is_there(h))
        return h.value;
    if (h.scale.id < 0)
        return qn_op_cast(t->to, NULL, h.value, t->to->real);
    return qn_op_dequantise(t->to, NULL, h.value, h.scale, h.zero, h.axis);
}

static int axis_of(qn_scaling scaling, qn_role role, int rank) {
    if (scaling != QN_SCALED_CHANNEL)
        return -1;
    return role == QN_ROLE_WEIGHT ? 0 : rank - 1;
}

/* A kept vector, whose numbers move on in training (keep_ranges). */
static qn_value add_kept(translation *t, const char *name, const char *what, qn_tensor tensor) {
    return qn_graph_add_source(t->to, QN_KIND_PARAMETER, name_with(t->to, name, what), tensor,
                               (qn_initial){QN_INITIAL_ZERO, 0}, false);
}

/* Whole numbers whose bits and exponent are measured now and then. */
static held adapt(translation *t, const char *name, qn_value x, const qn_role_type *type) {
    const qn_adapt_attributes how = {.dtype = (int)type->dtype,
                                     .least_bits = type->bits,
                                     .most_loss = type->most_loss,
                                     .moving = 0.04,
                                     .first_steps = 10,
                                     .longest = 1000};
    const qn_value kept =
        add_kept(t, name, "kept_range", (qn_tensor){t->to->real, QN_SHAPE(QN_ADAPTED_COUNT)});
    const qn_node *made = qn_op_adapt(t->to, name, x, kept, &how);
    if (!made)
        return nothing;
    t->kept[t->n_kept][0] = kept;
    t->kept[t->n_kept++][1] = made->outputs[2];
    return as_narrow(made->outputs[0], made->outputs[1], -1);
}

/* Numbers with an exponent each, or with two steps, over a scale of the tensor. */
static held round_numbers(translation *t, const char *name, qn_value x, qn_value scale,
                          const qn_role_type *type) {
    const int rank = qn_graph_shape(t->to, x).rank;
    qn_format format = {.rounding = (int)type->rounding};
    if (type->scaling == QN_SCALED_GROUP) {
        format.exponent_bits = type->exponent_bits;
        format.fraction_bits = type->fraction_bits;
        format.top_exponent = -1;
        format.group_axes = rank == 4 ? 1 | 1 << 3 : 1;
    } else {
        format.fine_bits = type->fine_bits;
        format.limit = ldexp(ldexp(1, type->bits) - 1, type->fine_bits);
    }
    return as_narrow(qn_op_round(t->to, name, x, scale, type->dtype, &format), scale, -1);
}

/* A value of the graph's type as a type of its role says. */
static held narrow_as(translation *t, const char *name, qn_value x, const qn_role_type *type,
                      qn_role role) {
    static const qn_scale_kind kinds[] = {[QN_SCALED_EXPONENT] = QN_SCALE_EXPONENT,
                                          [QN_SCALED_SYMMETRIC] = QN_SCALE_SYMMETRIC,
                                          [QN_SCALED_CHANNEL] = QN_SCALE_SYMMETRIC,
                                          [QN_SCALED_AFFINE] = QN_SCALE_AFFINE,
                                          [QN_SCALED_GROUP] = QN_SCALE_SYMMETRIC};
    const int axis = axis_of(type->scaling, role, qn_graph_shape(t->to, x).rank);
    const bool is_pseudo = type->rounding == QN_ROUND_PSEUDO_STOCHASTIC;
    const qn_quantise how = {.axis = axis,
                             .rounding = is_pseudo ? QN_ROUND_STOCHASTIC : type->rounding,
                             .is_symmetric = type->scaling != QN_SCALED_AFFINE};
    const qn_scaling_rule rule = {
        .kind = kinds[type->scaling],
        .axis = axis,
        .bits = type->scaling == QN_SCALED_GROUP ? 1 : type->bits + type->fine_bits,
        .dtype = type->dtype,
        .range = type->range,
        .top = type->top,
        .clip = type->clip};
    qn_value zero;
    if (type->dtype == QN_F32)
        return as_wide(x);
    const char *rounded = name_with(t->to, name, "rounded");
    if (type->scaling == QN_SCALED_NONE)
        return as_narrow(qn_op_cast(t->to, rounded, x, type->dtype), QN_NO_VALUE, -1);
    if (type->most_loss > 0)
        return adapt(t, rounded, x, type);
    const qn_value scale =
        qn_op_scale_in(t->to, name_with(t->to, rounded, "scale"), x, &rule, &zero);
    if (type->scaling == QN_SCALED_GROUP || type->fine_bits > 0)
        return round_numbers(t, rounded, x, scale, type);
    held h =
        as_narrow(qn_op_quantise(t->to, rounded, x, scale, zero, type->dtype, &how), scale, axis);
    h.zero = zero;
    return h;
}

static held narrow(translation *t, const char *name, qn_value x, qn_role role) {
    return narrow_as(t, name, x, type_of(t, role), role);
}

static qn_role role_of(const translation *t, int node, qn_value output) {
    if (t->gradient_of[output.id])
        return QN_ROLE_GRADIENT;
    return node < t->source->n_forward ? QN_ROLE_ACTIVATION : QN_ROLE_ERROR;
}

/* Large, and read: what an operator keeps beside its result stays as it is. */
static bool is_narrowed(const translation *t, const qn_node *node, int output) {
    const qn_value_info *info = qn_graph_value(t->from, node->outputs[output]);
    return output == 0 && node->n_inputs > 0 && info->tensor.dtype == t->from->real &&
           info->tensor.shape.rank >= 2 && info->overwrites < 0 &&
           t->n_readers[node->outputs[0].id] > 0 && !node->op->is_broadcast;
}

/* ---- sources ---- */

/* The largest of the values that a parameter starts with, or the bound of those drawn. */
static double largest_of(const qn_value_info *info) {
    const double deviations = info->initial.kind == QN_INITIAL_NORMAL ? 3 : 1;
    return deviations * fabs(info->initial.scale);
}

/* Mantissas are drawn in the range of their type; the exponent makes it that of the parameter. */
static held add_mantissas(translation *t, const qn_value_info *info) {
    const double most = t->how->weight_range * 127;
    const double largest = largest_of(info);
    int32_t *exponent = qn_arena_allocate(&t->to->arena, 1, sizeof *exponent);
    if (info->given || !exponent) {
        qn_graph_fail(t->to, exponent ? QN_ERROR_UNSUPPORTED : QN_ERROR_MEMORY,
                      "%s starts with given values, which numerics %s cannot store; train a model "
                      "that draws its own",
                      info->name, t->how->name);
        return nothing;
    }
    int power = 0;
    if (largest > 0 && frexp(largest / t->how->weight_range, &power) == 0.5)
        power--;
    *exponent = power - type_of(t, QN_ROLE_WEIGHT)->bits;
    qn_initial initial = info->initial;
    initial.scale = initial.kind == QN_INITIAL_NORMAL ? most / 3 : most;
    const qn_value q =
        qn_graph_add_source(t->to, info->kind, info->name, (qn_tensor){QN_I8, info->tensor.shape},
                            initial, info->trainable);
    if (q.id >= 0)
        t->to->values[q.id]->part = info->part;
    const qn_value scale =
        qn_graph_add_source(t->to, QN_KIND_PARAMETER, name_with(t->to, info->name, "exponent"),
                            (qn_tensor){QN_I32, {0}}, (qn_initial){QN_INITIAL_ZERO, 0}, false);
    qn_graph_give(t->to, scale, &(qn_given){.dtype = QN_I32, .data = exponent});
    return as_narrow(q, scale, -1);
}

static void add_source(translation *t, int v) {
    const qn_value_info *info = t->from->values[v];
    if (t->is_dropped[v])
        return;
    if (t->how->stores_weights && t->is_operand[v])
        t->held[v] = add_mantissas(t, info);
    else
        t->held[v] = as_wide(qn_copy_source(t->to, info));
}

/* ---- nodes ---- */

/* Whether an operator makes sums of whole numbers of two operands: its shape rule says so. */
static bool is_product(const qn_node *node) {
    qn_tensor inputs[3];
    if ((node->op->any_type_inputs & 3) != 3 || node->n_inputs < 2 || node->n_inputs > 3)
        return false;
    for (int i = 0; i < node->n_inputs; i++)
        inputs[i] = i < 2 ? (qn_tensor){QN_I8, node->input_tensors[i].shape} : (qn_tensor){0};
    qn_infer infer = {node->attributes, node->n_inputs, inputs, 1, {{0}}};
    return node->op->infer(&infer) == QN_OK && infer.outputs[0].dtype == QN_I32;
}

static qn_role role_of_operand(const translation *t, const qn_value_info *info) {
    return info->kind == QN_KIND_PARAMETER          ? QN_ROLE_WEIGHT
           : info->producer >= t->source->n_forward ? QN_ROLE_ERROR
                                                    : QN_ROLE_ACTIVATION;
}

/* What a product reads: the value as it is held, or, where that is the graph's type, once rounded
 * by its role. */
static held operand_of(translation *t, qn_value v) {
    held *h = &t->operands[v.id];
    const qn_value_info *info = t->from->values[v.id];
    if (t->held[v.id].is_narrow || !is_there(t->held[v.id]))
        return t->held[v.id];
    if (is_there(*h))
        return *h;
    *h = narrow(t, name_with(t->to, info->name, "operand"), t->held[v.id].value,
                role_of_operand(t, info));
    return *h;
}

/* What a product of the backward part reads: weights and activations may have another type there,
 * made of how they are held. */
static held backward_operand_of(translation *t, qn_value v) {
    held *h = &t->backward_operands[v.id];
    const qn_value_info *info = t->from->values[v.id];
    const qn_role role = role_of_operand(t, info);
    if (role > QN_ROLE_ACTIVATION || t->how->backward[role].dtype == QN_F32)
        return operand_of(t, v);
    if (!is_there(*h))
        *h = narrow_as(t, name_with(t->to, info->name, "in_gradient"), widen(t, t->held[v.id]),
                       &t->how->backward[role], role);
    return *h;
}

/* The exponent of a product of two operands; no value: it is 0. */
static qn_value sum_exponents(translation *t, const char *name, const qn_value *scales, int n) {
    qn_value given[3];
    int n_given = 0;
    for (int i = 0; i < n; i++) {
        if (scales[i].id >= 0)
            given[n_given++] = scales[i];
    }
    return n_given == 0 ? QN_NO_VALUE : qn_op_add_exponents(t->to, name, given, n_given);
}

static bool is_stored(const translation *t, qn_value gradient) {
    const int place = t->gradient_of[gradient.id];
    return place && t->how->stores_weights && t->is_operand[t->source->parameters[place - 1].id];
}

/* Sums of products of mantissas, shifted to the type of their role. */
static held shift_sums(translation *t, const qn_node *node, qn_value sums, const qn_value *scales,
                       qn_role role) {
    const qn_role_type *type = type_of(t, role);
    int64_t drops[QN_MOST_DROPS] = {0};
    for (int i = 0; i < t->how->n_drops && role == QN_ROLE_GRADIENT; i++)
        drops[i] = (int64_t)(t->how->drops[i] * (double)t->source->total_steps) + 1;
    const qn_quantise how = {.axis = -1, .rounding = type->rounding, .is_symmetric = true};
    const qn_value shift = qn_op_falling_shift_of(t->to, name_with(t->to, node->name, "shift"),
                                                  sums, type->bits, drops);
    const qn_value q = qn_op_quantise(t->to, name_with(t->to, node->name, "rounded"), sums, shift,
                                      QN_NO_VALUE, type->dtype, &how);
    const qn_value all[] = {scales[0], scales[1], shift};
    if (role == QN_ROLE_GRADIENT)
        return as_narrow(q, QN_NO_VALUE, -1);
    return as_narrow(q, sum_exponents(t, name_with(t->to, node->name, "exponent"), all, 3), -1);
}

/* A product of mantissas whose sums are shifted where they are made. */
static held add_rescaled(translation *t, const qn_node *node, const qn_value *operands,
                         const qn_value *scales, qn_role role) {
    const qn_role_type *type = type_of(t, role);
    int64_t drops[QN_MOST_DROPS] = {0};
    for (int i = 0; i < t->how->n_drops && role == QN_ROLE_GRADIENT; i++)
        drops[i] = (int64_t)(t->how->drops[i] * (double)t->source->total_steps) + 1;
    const qn_rescaling how = {.bits = type->bits,
                              .rounding = (int)type->rounding,
                              .adapts = (int)t->how->shifts,
                              .period = t->how->shift_period,
                              .first_drop = drops[0],
                              .second_drop = drops[1],
                              .third_drop = drops[2]};
    const qn_value kept =
        add_kept(t, node->name, "kept_shift", (qn_tensor){QN_I32, QN_SHAPE(QN_KEPT_COUNT)});
    const qn_node *made =
        qn_op_rescaled(t->to, node->name, node->op, node->attributes, operands, kept, &how);
    if (!made)
        return nothing;
    t->kept[t->n_kept][0] = kept;
    t->kept[t->n_kept++][1] = made->outputs[2];
    if (role == QN_ROLE_GRADIENT)
        return as_narrow(made->outputs[0], QN_NO_VALUE, -1);
    const qn_value all[] = {scales[0], scales[1], made->outputs[1]};
    return as_narrow(made->outputs[0],
                     sum_exponents(t, name_with(t->to, node->name, "exponent"), all, 3), -1);
}

/* Whether sums become mantissas by a shift. */
static bool are_shifted(const qn_role_type *type) {
    return type->dtype == QN_I8 && type->scaling == QN_SCALED_EXPONENT &&
           type->range == QN_RANGE_FIT && type->fine_bits == 0 && !(type->most_loss > 0);
}

static bool has_exponent(const translation *t, held h) {
    return h.scale.id < 0 || qn_graph_tensor(t->to, h.scale).dtype == QN_I32;
}

static bool is_rescaled(const translation *t, const qn_node *node, qn_role role) {
    const qn_role_type *type = type_of(t, role);
    return qn_op_twin(node->op, QN_TWIN_REQUANTISED) &&
           (type->rounding == QN_ROUND_AWAY || type->rounding == QN_ROUND_PSEUDO_STOCHASTIC);
}

static void add_integer_product(translation *t, int n, held a, held b) {
    const qn_node *node = t->from->nodes[n];
    const qn_value operands[] = {a.value, b.value}, scales[] = {a.scale, b.scale};
    const qn_role role = role_of(t, n, node->outputs[0]);
    const bool has_bias =
        node->n_inputs > 2 && node->inputs[2].id >= 0 && !t->is_dropped[node->inputs[2].id];
    const bool is_shifted = !has_bias && are_shifted(type_of(t, role)) && has_exponent(t, a) &&
                            (role != QN_ROLE_GRADIENT || is_stored(t, node->outputs[0]));
    if (is_shifted && is_rescaled(t, node, role)) {
        t->held[node->outputs[0].id] = add_rescaled(t, node, operands, scales, role);
        return;
    }
    const qn_value sums = qn_graph_add1(t->to, node->op, node->name, operands, 2, node->attributes);
    if (is_shifted) {
        t->held[node->outputs[0].id] = shift_sums(t, node, sums, scales, role);
        return;
    }
    const qn_value scale = has_exponent(t, a) ? sum_exponents(t, NULL, scales, 2)
                                              : qn_multiply(t->to, NULL, scales[0], scales[1]);
    qn_value y = widen(t, as_narrow(sums, scale, -1));
    if (has_bias)
        y = qn_bias(t->to, name_with(t->to, node->name, "biased"), y,
                    widen(t, t->held[node->inputs[2].id]));
    t->held[node->outputs[0].id] =
        is_narrowed(t, node, 0) ? narrow(t, node->name, y, role) : as_wide(y);
}

static bool is_mantissa(const translation *t, held h) {
    return h.is_narrow && h.axis < 0 && h.zero.id < 0 &&
           qn_graph_tensor(t->to, h.value).dtype == QN_I8;
}

/* Whole numbers whose products can be summed: both with an exponent, or both with a scale. */
static bool are_mantissas(const translation *t, held a, held b) {
    return is_mantissa(t, a) && is_mantissa(t, b) && has_exponent(t, a) == has_exponent(t, b);
}

/* Any operator in the graph's type. */
static void add_wide(translation *t, int n, const qn_value *inputs) {
    const qn_node *node = t->from->nodes[n];
    const qn_node *copy =
        qn_graph_add(t->to, node->op, node->name, inputs, node->n_inputs, node->attributes);
    for (int i = 0; copy && i < node->n_outputs; i++) {
        const qn_value y = copy->outputs[i];
        t->held[node->outputs[i].id] =
            is_narrowed(t, node, i) ? narrow(t, node->name, y, role_of(t, n, node->outputs[i]))
                                    : as_wide(y);
    }
}

static bool leaves_out(const translation *t, const qn_node *node, int i) {
    return node->inputs[i].id < 0 || t->is_dropped[node->inputs[i].id];
}

/* Whether a product is of a layer that stays as it is: it reads its weight or makes the gradient
 * of it. */
static bool is_wide(const translation *t, const qn_node *node) {
    return t->is_wide[node->inputs[0].id] || t->is_wide[node->inputs[1].id] ||
           t->is_wide[node->outputs[0].id];
}

/* A product whose sums are rounded as they grow. */
static void add_chunked(translation *t, int n, const qn_value *inputs) {
    const qn_node *node = t->from->nodes[n];
    qn_value y =
        qn_op_chunked(t->to, node->name, node->op, node->attributes, inputs, &t->how->chunked);
    if (inputs[2].id >= 0)
        y = qn_bias(t->to, name_with(t->to, node->name, "biased"), y, inputs[2]);
    t->held[node->outputs[0].id] = is_narrowed(t, node, 0)
                                       ? narrow(t, node->name, y, role_of(t, n, node->outputs[0]))
                                       : as_wide(y);
}

/* Whether products read such numbers as they are: 16-bit floats of one type, without a scale, whose
 * result is of that type too. */
static bool are_halves(const translation *t, int n, held a, held b) {
    const qn_node *node = t->from->nodes[n];
    const qn_role role = role_of(t, n, node->outputs[0]);
    if (!a.is_narrow || !b.is_narrow || a.scale.id >= 0 || b.scale.id >= 0 ||
        t->how->chunked.chunk > 0)
        return false;
    const qn_tensor tensors[] = {qn_graph_tensor(t->to, a.value), qn_graph_tensor(t->to, b.value)};
    const qn_dtype dtype = tensors[0].dtype;
    qn_infer infer = {node->attributes, 2, tensors, 1, {{0}}};
    if ((dtype != QN_BF16 && dtype != QN_F16) || node->op->infer(&infer) != QN_OK)
        return false;
    return role == QN_ROLE_GRADIENT ||
           (type_of(t, role)->dtype == dtype && is_narrowed(t, node, 0));
}

/* Its sums are rounded where they are made; a parameter's gradient, which pieces of a batch add to,
 * behind them. */
static void add_half_product(translation *t, int n, held a, held b) {
    const qn_node *node = t->from->nodes[n];
    const qn_role role = role_of(t, n, node->outputs[0]);
    qn_value inputs[] = {a.value, b.value, QN_NO_VALUE};
    if (node->n_inputs > 2 && !leaves_out(t, node, 2))
        inputs[2] = widen(t, t->held[node->inputs[2].id]);
    const qn_value y =
        qn_graph_add1(t->to, node->op, node->name, inputs, node->n_inputs, node->attributes);
    t->held[node->outputs[0].id] =
        role == QN_ROLE_GRADIENT ? narrow(t, node->name, y, role) : as_narrow(y, QN_NO_VALUE, -1);
}

static void add_product(translation *t, int n) {
    const qn_node *node = t->from->nodes[n];
    const bool stays = is_wide(t, node), is_backward = n >= t->source->n_forward;
    held operands[2];
    for (int i = 0; i < 2; i++)
        operands[i] = stays         ? t->held[node->inputs[i].id]
                      : is_backward ? backward_operand_of(t, node->inputs[i])
                                    : operand_of(t, node->inputs[i]);
    qn_value inputs[3] = {QN_NO_VALUE, QN_NO_VALUE, QN_NO_VALUE};
    if (t->how->is_integer && are_mantissas(t, operands[0], operands[1])) {
        add_integer_product(t, n, operands[0], operands[1]);
        return;
    }
    if (are_halves(t, n, operands[0], operands[1])) {
        add_half_product(t, n, operands[0], operands[1]);
        return;
    }
    for (int i = 0; i < 2; i++)
        inputs[i] = widen(t, operands[i]);
    if (node->n_inputs > 2 && !leaves_out(t, node, 2))
        inputs[2] = widen(t, t->held[node->inputs[2].id]);
    if (t->how->chunked.chunk > 0 && qn_op_twin(node->op, QN_TWIN_LOW_PRECISION) && !stays)
        add_chunked(t, n, inputs);
    else
        add_wide(t, n, inputs);
}

/* What an operator reads in the graph's type; a norm's scale and shift are rounded before. */
static qn_value usual_input(translation *t, const qn_node *node, int i) {
    const held h = t->held[node->inputs[i].id];
    if (!node->op->is_norm || (i != 1 && i != 2) || t->how->norm.dtype == QN_F32 || h.is_narrow)
        return widen(t, h);
    const char *name = t->from->values[node->inputs[i].id]->name;
    return widen(
        t, narrow_as(t, name_with(t->to, name, "operand"), h.value, &t->how->norm, QN_ROLE_WEIGHT));
}

/* Whether all that an operator may read as 16-bit floats is held so, and its result will be. */
static bool is_of_halves(const translation *t, int n) {
    const qn_node *node = t->from->nodes[n];
    const qn_role_type *type = type_of(t, role_of(t, n, node->outputs[0]));
    if (!node->op->halves || !is_narrowed(t, node, 0) || !qn_dtype_is_half(type->dtype) ||
        type->scaling != QN_SCALED_NONE)
        return false;
    for (int i = 0; i < node->n_inputs; i++) {
        if (!(node->op->halves >> i & 1) || node->inputs[i].id < 0)
            continue;
        const held h = t->held[node->inputs[i].id];
        if (!h.is_narrow || h.scale.id >= 0 || qn_graph_tensor(t->to, h.value).dtype != type->dtype)
            return false;
    }
    return true;
}

/* It reads them as they are, and rounds by itself. */
static void add_on_halves(translation *t, int n, qn_value *inputs) {
    const qn_node *node = t->from->nodes[n];
    for (int i = 0; i < node->n_inputs; i++) {
        if (leaves_out(t, node, i))
            inputs[i] = QN_NO_VALUE;
        else if (node->op->halves >> i & 1)
            inputs[i] = t->held[node->inputs[i].id].value;
        else
            inputs[i] = usual_input(t, node, i);
    }
    const qn_node *copy =
        qn_graph_add(t->to, node->op, node->name, inputs, node->n_inputs, node->attributes);
    for (int i = 0; copy && i < node->n_outputs; i++)
        t->held[node->outputs[i].id] = as_wide(copy->outputs[i]);
    if (copy)
        t->held[node->outputs[0].id].is_narrow = true;
}

static void add_usual(translation *t, int n) {
    const qn_node *node = t->from->nodes[n];
    qn_value few[16], *inputs = few;
    if (node->n_inputs > 16)
        inputs = qn_arena_allocate(&t->to->arena, (size_t)node->n_inputs, sizeof *inputs);
    if (!inputs) {
        qn_graph_fail(t->to, QN_ERROR_MEMORY, "%s", qn_error_message());
        return;
    }
    if (is_of_halves(t, n)) {
        add_on_halves(t, n, inputs);
        return;
    }
    for (int i = 0; i < node->n_inputs; i++)
        inputs[i] = leaves_out(t, node, i) ? QN_NO_VALUE : usual_input(t, node, i);
    add_wide(t, n, inputs);
}

/* Whether an operator takes such inputs as they are and makes numbers of the type. */
static bool takes_mantissas(const translation *t, const qn_node *node, const qn_value *inputs,
                            qn_dtype dtype) {
    qn_tensor tensors[2];
    for (int i = 0; i < node->n_inputs; i++)
        tensors[i] = qn_graph_tensor(t->to, inputs[i]);
    qn_infer infer = {node->attributes, node->n_inputs, tensors, 1, {{0}}};
    for (int i = 0; i < node->n_inputs; i++) {
        if (!(node->op->any_type_inputs >> i & 1))
            return false;
    }
    return node->op->infer(&infer) == QN_OK && infer.outputs[0].dtype == dtype;
}

/* An operator whose result has the scale of an operand: it works on mantissas, or, where it cannot
 * take them, on numbers of the graph's type, which hold them exactly. */
static bool add_scaled(translation *t, int n) {
    const qn_node *node = t->from->nodes[n];
    const int by = node->op->scaled_by ? node->op->scaled_by(node->attributes) : -1;
    qn_value inputs[2];
    if (by < 0 || node->n_inputs > 2 || !t->held[node->inputs[by].id].is_narrow ||
        t->held[node->inputs[by].id].axis >= 0 || t->held[node->inputs[by].id].zero.id >= 0)
        return false;
    const held h = t->held[node->inputs[by].id];
    const qn_dtype dtype = qn_graph_tensor(t->to, h.value).dtype;
    bool has_zero = false; /* whose mantissas do not have the signs of the numbers */
    for (int i = 0; i < node->n_inputs; i++) {
        inputs[i] = t->held[node->inputs[i].id].value;
        has_zero |= t->held[node->inputs[i].id].zero.id >= 0;
    }
    const bool is_cast = has_zero || !takes_mantissas(t, node, inputs, dtype);
    for (int i = 0; is_cast && i < node->n_inputs; i++) {
        const held input = t->held[node->inputs[i].id];
        if (input.zero.id >= 0)
            inputs[i] = widen(t, input);
        else if (input.is_narrow)
            inputs[i] = qn_op_cast(t->to, NULL, inputs[i], t->to->real);
    }
    const qn_node *copy =
        qn_graph_add(t->to, node->op, node->name, inputs, node->n_inputs, node->attributes);
    for (int i = 0; copy && i < node->n_outputs; i++)
        t->held[node->outputs[i].id] = as_wide(copy->outputs[i]);
    if (!copy)
        return true;
    held *y = &t->held[node->outputs[0].id];
    const qn_value q =
        is_cast ? qn_op_cast(t->to, name_with(t->to, node->name, "rounded"), y->value, dtype)
                : y->value;
    *y = as_narrow(q, h.scale, -1);
    return true;
}

/* Whether a norm, or its gradient, reads mantissas and makes some: all that is large has an
 * exponent. */
static bool is_whole_norm(const translation *t, int n) {
    const qn_node *node = t->from->nodes[n];
    const qn_role_type *type = type_of(t, role_of(t, n, node->outputs[0]));
    if (!qn_op_twin(node->op, QN_TWIN_MANTISSAS) || !is_narrowed(t, node, 0) ||
        !are_shifted(type) || type->rounding != QN_ROUND_AWAY ||
        ((const qn_batch_norm_attributes *)node->attributes)->activation.kind != QN_ACTIVATION_NONE)
        return false;
    for (int i = 0; i < node->n_inputs; i++) {
        const qn_value v = node->inputs[i];
        if (v.id >= 0 && qn_graph_shape(t->from, v).rank > 1 &&
            !(is_mantissa(t, t->held[v.id]) && has_exponent(t, t->held[v.id])))
            return false;
    }
    return true;
}

/* It has each exponent behind its mantissas. */
static bool add_whole_norm(translation *t, int n) {
    const qn_node *node = t->from->nodes[n];
    qn_value inputs[8];
    int n_inputs = 0;
    if (!is_whole_norm(t, n))
        return false;
    for (int i = 0; i < node->n_inputs; i++) {
        const qn_value v = node->inputs[i];
        if (v.id >= 0 && qn_graph_shape(t->from, v).rank > 1) {
            inputs[n_inputs++] = t->held[v.id].value;
            inputs[n_inputs++] = t->held[v.id].scale;
        } else if (v.id >= 0) {
            inputs[n_inputs++] = usual_input(t, node, i);
        }
    }
    const qn_whole_norm_attributes attributes = {
        .epsilon = ((const qn_batch_norm_attributes *)node->attributes)->epsilon,
        .bits = type_of(t, role_of(t, n, node->outputs[0]))->bits};
    const qn_node *made = qn_graph_add(t->to, qn_op_twin(node->op, QN_TWIN_MANTISSAS), node->name,
                                       inputs, n_inputs, &attributes);
    if (!made)
        return true;
    t->held[node->outputs[0].id] = as_narrow(made->outputs[0], made->outputs[1], -1);
    for (int i = 1; i < node->n_outputs; i++)
        t->held[node->outputs[i].id] = as_wide(made->outputs[i + 1]);
    return true;
}

/* The loss's gradient in whole numbers: of the logits that the probabilities were made of, where
 * every sample counts alike. */
static bool add_integer_loss(translation *t, int n) {
    const qn_node *node = t->from->nodes[n];
    if (!t->how->integer_loss || !qn_op_twin(node->op, QN_TWIN_INTEGER_LOSS))
        return false;
    const int made_by = t->from->values[node->inputs[0].id]->producer;
    const int weighted_by = t->from->values[node->inputs[2].id]->producer;
    if (made_by < 0 || weighted_by < 0 || !t->from->nodes[weighted_by]->op->is_broadcast)
        return false;
    const held logits = operand_of(t, t->from->nodes[made_by]->inputs[0]);
    const qn_integer_entropy_attributes attributes = {0};
    if (!is_mantissa(t, logits) || logits.scale.id < 0 || !has_exponent(t, logits))
        return false;
    const qn_value inputs[] = {logits.value, logits.scale, t->held[node->inputs[1].id].value};
    t->held[node->outputs[0].id] =
        as_narrow(qn_graph_add1(t->to, qn_op_twin(node->op, QN_TWIN_INTEGER_LOSS), node->name,
                                inputs, 3, &attributes),
                  QN_NO_VALUE, -1);
    return true;
}

static bool is_of_dropped(const translation *t, const qn_node *node) {
    return node->n_outputs == 1 && t->is_dropped[node->outputs[0].id];
}

static void add_node(translation *t, int n) {
    const qn_node *node = t->from->nodes[n];
    const int first = t->to->n_values;
    if (is_of_dropped(t, node))
        return;
    if (is_product(node))
        add_product(t, n);
    else if (!add_scaled(t, n) && !add_integer_loss(t, n) && !add_whole_norm(t, n))
        add_usual(t, n);
    if (n == t->source->n_forward && node->n_inputs == 0 && t->how->loss_factor != 1)
        t->held[node->outputs[0].id].value =
            qn_scale(t->to, name_with(t->to, node->name, "larger"),
                     t->held[node->outputs[0].id].value, t->how->loss_factor);
    for (int v = first; v < t->to->n_values; v++) {
        if (t->to->values[v]->producer >= 0 && t->to->values[v]->overwrites < 0)
            t->to->values[v]->kind = t->from->values[node->outputs[0].id]->kind;
    }
}

/* ---- the graph ---- */

/* The weights of the first and the last layer with products, as the numerics say. */
static void mark_wide(translation *t) {
    int ends[2] = {-1, -1};
    for (int n = 0; n < t->source->n_forward; n++) {
        const qn_node *node = t->from->nodes[n];
        if (!is_product(node) || !t->is_operand[node->inputs[1].id])
            continue;
        ends[0] = ends[0] < 0 ? node->inputs[1].id : ends[0];
        ends[1] = node->inputs[1].id;
    }
    for (int end = 0; end < 2; end++) {
        if (ends[end] >= 0 && (int)t->how->wide >> end & 1)
            t->is_wide[ends[end]] = true;
    }
}

/* Biases of products go only where nothing else reads them. */
static void mark_parameters(translation *t) {
    for (int n = 0; n < t->from->n_nodes; n++) {
        const qn_node *node = t->from->nodes[n];
        for (int i = 0; i < node->n_inputs; i++)
            t->n_readers[node->inputs[i].id < 0 ? 0 : node->inputs[i].id] +=
                node->inputs[i].id >= 0;
    }
    for (int n = 0; n < t->source->n_forward; n++) {
        const qn_node *node = t->from->nodes[n];
        if (!is_product(node))
            continue;
        for (int i = 0; i < node->n_inputs; i++) {
            const qn_value v = node->inputs[i];
            const qn_value_info *info = qn_graph_value(t->from, v);
            if (!info || info->kind != QN_KIND_PARAMETER || info->producer >= 0)
                continue;
            t->is_operand[v.id] |= i < 2 && info->tensor.shape.rank >= 2;
            t->is_dropped[v.id] |= i == 2 && t->how->drops_bias && t->n_readers[v.id] == 1;
        }
    }
    mark_wide(t);
    for (int i = 0; i < t->source->n; i++) {
        const qn_value gradient = t->source->gradients[i];
        t->gradient_of[gradient.id] = i + 1;
        t->n_readers[gradient.id]++;
        t->is_dropped[gradient.id] |= t->is_dropped[t->source->parameters[i].id];
        t->is_wide[gradient.id] |= t->is_wide[t->source->parameters[i].id];
    }
}

/* A result is in the graph's type. */
static void mark_result(translation *t, int v) {
    held *h = &t->held[v];
    const qn_value wide = widen(t, *h);
    t->values[v] = wide;
    if (wide.id >= 0)
        t->to->values[wide.id]->is_result = true;
}

static void translate(translation *t, qn_quantised *q) {
    for (int v = 0; v < t->from->n_values && t->to->status == QN_OK; v++) {
        const qn_value_info *info = t->from->values[v];
        if (info->producer == t->source->n_forward && info->output == 0)
            q->forward_end = t->to->n_nodes;
        if (info->producer < 0)
            add_source(t, v);
        else if (info->output == 0)
            add_node(t, info->producer);
        if (t->to->status != QN_OK)
            return;
        if (info->output == 0 || info->producer < 0)
            t->values[v] = t->held[v].value;
    }
    for (int v = 0; v < t->from->n_values && t->to->status == QN_OK; v++) {
        t->values[v] = t->held[v].value;
        if (t->from->values[v]->is_result)
            mark_result(t, v);
    }
}

/* What is kept moves on in training only. */
static void keep_ranges(translation *t) {
    for (int i = 0; i < t->n_kept && t->source->n > 0; i++) {
        const char *name = t->to->values[t->kept[i][0].id]->name;
        qn_op_keep(t->to, name_with(t->to, name, "moved"), t->kept[i][1], t->kept[i][0]);
    }
}

/* A gradient as whole numbers of a fixed unit: its direction counts, not its size. */
static qn_value count_by_unit(translation *t, const char *name, qn_value g) {
    held h = t->held[g.id];
    if (!h.is_narrow)
        h = narrow(t, name_with(t->to, name, "gradient"), h.value, QN_ROLE_GRADIENT);
    const qn_value counts = qn_op_cast(t->to, NULL, h.value, t->to->real);
    return qn_scale(t->to, name_with(t->to, name, "gradient.counted"), counts,
                    ldexp(1, t->how->unit));
}

/* The gradient of the squares of what compensates is added. */
static qn_value decay(translation *t, const char *name, qn_value gradient, qn_value w) {
    const qn_value pull = qn_scale(t->to, name_with(t->to, name, "pull"), w,
                                   t->how->compensation_decay * t->how->loss_factor);
    return qn_add(t->to, name_with(t->to, name, "gradient.decayed"), gradient, pull);
}

/* Whole gradients are taken off whole weights; all others are an optimiser's. */
static void add_updates(translation *t, qn_quantised *q) {
    for (int i = 0; i < t->source->n && t->to->status == QN_OK; i++) {
        const qn_value w = t->source->parameters[i], g = t->source->gradients[i];
        if (t->is_dropped[w.id])
            continue;
        const char *name = t->from->values[w.id]->name;
        if (is_stored(t, g)) {
            if (!t->held[g.id].is_narrow)
                t->held[g.id] = narrow(t, name_with(t->to, name, "gradient"), t->held[g.id].value,
                                       QN_ROLE_GRADIENT);
            const qn_value trained = qn_part_begin(t->to, t->held[w.id].value);
            qn_part_end(t->to, t->held[w.id].value,
                        qn_op_integer_step(t->to, name_with(t->to, name, "update"),
                                           t->held[g.id].value, trained));
            continue;
        }
        qn_value gradient = t->how->has_unit ? count_by_unit(t, name, g) : widen(t, t->held[g.id]);
        if (strstr(name, QN_COMPENSATION) && t->how->compensation_decay > 0)
            gradient = decay(t, name, gradient, t->held[w.id].value);
        if (t->how->loss_factor != 1)
            gradient = qn_scale(t->to, name_with(t->to, name, "gradient.smaller"), gradient,
                                1 / t->how->loss_factor);
        q->parameters[q->n] = t->held[w.id].value;
        q->gradients[q->n++] = gradient;
    }
}

static void keep_shown(translation *t, qn_value value) {
    if (value.id >= 0 && t->to->values[value.id]->producer >= 0)
        t->to->values[value.id]->is_result = true;
}

/* Lists what is held in 8 bits, or is so for the products that read it. */
static void show(translation *t, qn_quantised *q) {
    q->shown = qn_arena_allocate(&t->to->arena, (size_t)t->from->n_values + 1, sizeof *q->shown);
    for (int v = 0; v < t->from->n_values && q->shown; v++) {
        const held h = t->held[v].is_narrow ? t->held[v] : t->operands[v];
        const qn_value_info *info = t->from->values[v];
        if (!is_there(h) || qn_graph_tensor(t->to, h.value).dtype != QN_I8)
            continue;
        const bool is_parameter = info->producer < 0 && info->kind == QN_KIND_PARAMETER;
        q->shown[q->n_shown++] = (qn_shown){qn_arena_text(&t->to->arena, info->name),
                                            is_parameter,
                                            h.value,
                                            h.scale,
                                            h.zero,
                                            h.axis};
        keep_shown(t, h.scale);
        keep_shown(t, h.zero);
        if (is_parameter)
            keep_shown(t, h.value);
    }
    if (!q->shown)
        qn_graph_fail(t->to, QN_ERROR_MEMORY, "%s", qn_error_message());
}

static qn_status allocate(translation *t, qn_quantised *q) {
    qn_arena *arena = &t->to->arena;
    const size_t n = (size_t)t->from->n_values + 1, n_gradients = (size_t)t->source->n + 1;
    t->held = qn_arena_allocate(arena, n, sizeof *t->held);
    t->operands = qn_arena_allocate(arena, n, sizeof *t->operands);
    t->values = qn_arena_allocate(arena, n, sizeof *t->values);
    t->n_readers = qn_arena_allocate(arena, n, sizeof *t->n_readers);
    t->gradient_of = qn_arena_allocate(arena, n, sizeof *t->gradient_of);
    t->is_operand = qn_arena_allocate(arena, n, sizeof *t->is_operand);
    t->is_dropped = qn_arena_allocate(arena, n, sizeof *t->is_dropped);
    t->is_wide = qn_arena_allocate(arena, n, sizeof *t->is_wide);
    t->backward_operands = qn_arena_allocate(arena, n, sizeof *t->backward_operands);
    t->kept = qn_arena_allocate(arena, (size_t)t->from->n_nodes + 3 * n, sizeof *t->kept);
    q->parameters = qn_arena_allocate(arena, n_gradients, sizeof *q->parameters);
    q->gradients = qn_arena_allocate(arena, n_gradients, sizeof *q->gradients);
    if (!t->held || !t->operands || !t->values || !t->n_readers || !t->gradient_of ||
        !t->is_operand || !t->is_dropped || !t->is_wide || !t->backward_operands || !t->kept ||
        !q->parameters || !q->gradients)
        return QN_ERROR_MEMORY;
    for (size_t v = 0; v < n; v++) {
        t->held[v] = t->operands[v] = t->backward_operands[v] = nothing;
        t->values[v] = QN_NO_VALUE;
    }
    return QN_OK;
}

qn_status qn_quantise_graph(const qn_quantise_source *source, const qn_numerics *numerics,
                            qn_quantised *quantised) {
    translation t = {.source = source, .how = numerics, .from = source->graph};
    qn_quantised q = {0};
    QN_TRY(qn_copy_begin(source->graph, &t.to));
    qn_status status = allocate(&t, &q);
    if (status == QN_OK) {
        mark_parameters(&t);
        translate(&t, &q);
        if (source->n_forward == source->graph->n_nodes)
            q.forward_end = t.to->n_nodes;
        add_updates(&t, &q);
        if (t.to->status == QN_OK)
            keep_ranges(&t);
        if (source->shows && t.to->status == QN_OK)
            show(&t, &q);
        qn_copy_results(t.to, t.from, t.values);
        status = qn_graph_finish(t.to);
    }
    if (status != QN_OK) {
        qn_graph_destroy(t.to);
        return qn_fail_within(status, "numerics %s", numerics->name);
    }
    q.graph = t.to;
    q.values = t.values;
    *quantised = q;
    return QN_OK;
}
