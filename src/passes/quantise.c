/* See quantise.h. Every value of the old graph is held in the new one as its role says: in a small
 * type with a scale, or in the graph's type. A product takes what is held; where whole numbers make
 * sums, it is of mantissas, and the sums are shifted. An operator that only moves or chooses
 * numbers works on mantissas too. Every other one falls back to the graph's type: its operands are
 * widened before it, for it alone, and its result is rounded behind it. */
#include "passes/quantise.h"

#include "base/status.h"
#include "ops/quantise.h"
#include "ops/rescaled.h"
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
} held;

/* Arrays over the values of the old graph. */
typedef struct translation {
    const qn_quantise_source *source;
    const qn_numerics *how;
    const qn_graph *from;
    qn_graph *to;
    held *held;
    held *operands; /* what products read instead, once it was made */
    qn_value *values;
    int *n_readers;
    int *gradient_of;    /* 1 + the parameter's place in source->parameters; 0: of none */
    bool *is_operand;    /* a parameter, of a forward product */
    bool *is_dropped;    /* a bias that is left out, and its gradient */
    qn_value (*kept)[2]; /* (products) what they keep of their shift, and what it becomes */
    int n_kept;
} translation;

static const held nothing = {{-1}, {-1}, -1, false};

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
    return qn_op_dequantise(t->to, NULL, h.value, h.scale, QN_NO_VALUE, h.axis);
}

static int axis_of(qn_scaling scaling, qn_role role, int rank) {
    if (scaling != QN_SCALED_CHANNEL)
        return -1;
    return role == QN_ROLE_WEIGHT ? 0 : rank - 1;
}

/* A value of the graph's type as its role says. */
static held narrow(translation *t, const char *name, qn_value x, qn_role role) {
    const qn_role_type *type = type_of(t, role);
    const int axis = axis_of(type->scaling, role, qn_graph_shape(t->to, x).rank);
    const qn_quantise how = {.axis = axis,
                             .rounding = type->rounding == QN_ROUND_PSEUDO_STOCHASTIC
                                             ? QN_ROUND_STOCHASTIC
                                             : type->rounding,
                             .is_symmetric = true};
    qn_value zero;
    if (type->dtype == QN_F32)
        return (held){x, QN_NO_VALUE, -1, false};
    const char *rounded = name_with(t->to, name, "rounded");
    if (type->scaling == QN_SCALED_NONE)
        return (held){qn_op_cast(t->to, rounded, x, type->dtype), QN_NO_VALUE, -1, true};
    const qn_scale_kind kind =
        type->scaling == QN_SCALED_EXPONENT ? QN_SCALE_EXPONENT : QN_SCALE_SYMMETRIC;
    const qn_value scale = qn_op_scale_of(t->to, name_with(t->to, rounded, "scale"), x, kind, axis,
                                          type->bits, QN_NONE, &zero);
    return (held){qn_op_quantise(t->to, rounded, x, scale, QN_NO_VALUE, type->dtype, &how), scale,
                  axis, true};
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
    const double spread = info->initial.kind == QN_INITIAL_NORMAL ? 3 : 1;
    return spread * fabs(info->initial.scale);
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
    const qn_value scale =
        qn_graph_add_source(t->to, QN_KIND_PARAMETER, name_with(t->to, info->name, "exponent"),
                            (qn_tensor){QN_I32, {0}}, (qn_initial){QN_INITIAL_ZERO, 0}, false);
    qn_graph_give(t->to, scale, &(qn_given){.dtype = QN_I32, .data = exponent});
    return (held){q, scale, -1, true};
}

static void add_source(translation *t, int v) {
    const qn_value_info *info = t->from->values[v];
    if (t->is_dropped[v])
        return;
    if (t->how->stores_weights && t->is_operand[v])
        t->held[v] = add_mantissas(t, info);
    else
        t->held[v] = (held){qn_copy_source(t->to, info), QN_NO_VALUE, -1, false};
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

/* What a product reads: the value as it is held, or, where that is the graph's type, once rounded
 * by its role. */
static held operand_of(translation *t, qn_value v) {
    held *h = &t->operands[v.id];
    const qn_value_info *info = t->from->values[v.id];
    if (t->held[v.id].is_narrow || !is_there(t->held[v.id]))
        return t->held[v.id];
    if (is_there(*h))
        return *h;
    const bool is_backward = info->producer >= t->source->n_forward;
    const qn_role role = info->kind == QN_KIND_PARAMETER ? QN_ROLE_WEIGHT
                         : is_backward                   ? QN_ROLE_ERROR
                                                         : QN_ROLE_ACTIVATION;
    *h = narrow(t, name_with(t->to, info->name, "operand"), t->held[v.id].value, role);
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
        return (held){q, QN_NO_VALUE, -1, true};
    return (held){q, sum_exponents(t, name_with(t->to, node->name, "exponent"), all, 3), -1, true};
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
                              .adapts = t->how->adapts_shifts,
                              .first_drop = drops[0],
                              .second_drop = drops[1],
                              .third_drop = drops[2]};
    const qn_value kept = qn_graph_add_source(
        t->to, QN_KIND_PARAMETER, name_with(t->to, node->name, "kept_shift"),
        (qn_tensor){QN_I32, QN_SHAPE(QN_KEPT_COUNT)}, (qn_initial){QN_INITIAL_ZERO, 0}, false);
    const qn_node *made =
        qn_op_rescaled(t->to, node->name, node->op, node->attributes, operands, kept, &how);
    if (!made)
        return nothing;
    t->kept[t->n_kept][0] = kept;
    t->kept[t->n_kept++][1] = made->outputs[2];
    if (role == QN_ROLE_GRADIENT)
        return (held){made->outputs[0], QN_NO_VALUE, -1, true};
    const qn_value all[] = {scales[0], scales[1], made->outputs[1]};
    return (held){made->outputs[0],
                  sum_exponents(t, name_with(t->to, node->name, "exponent"), all, 3), -1, true};
}

static bool is_rescaled(const translation *t, const qn_node *node, qn_role role) {
    const qn_role_type *type = type_of(t, role);
    return node->op->rescaled && type->dtype == QN_I8 &&
           (type->rounding == QN_ROUND_AWAY || type->rounding == QN_ROUND_PSEUDO_STOCHASTIC);
}

static void add_integer_product(translation *t, int n, held a, held b) {
    const qn_node *node = t->from->nodes[n];
    const qn_value operands[] = {a.value, b.value}, scales[] = {a.scale, b.scale};
    const qn_role role = role_of(t, n, node->outputs[0]);
    const bool has_bias =
        node->n_inputs > 2 && node->inputs[2].id >= 0 && !t->is_dropped[node->inputs[2].id];
    const bool is_shifted =
        !has_bias && (role != QN_ROLE_GRADIENT || is_stored(t, node->outputs[0]));
    if (is_shifted && is_rescaled(t, node, role)) {
        t->held[node->outputs[0].id] = add_rescaled(t, node, operands, scales, role);
        return;
    }
    const qn_value sums = qn_graph_add1(t->to, node->op, node->name, operands, 2, node->attributes);
    if (is_shifted) {
        t->held[node->outputs[0].id] = shift_sums(t, node, sums, scales, role);
        return;
    }
    qn_value y = widen(t, (held){sums, sum_exponents(t, NULL, scales, 2), -1, true});
    if (has_bias)
        y = qn_bias(t->to, name_with(t->to, node->name, "biased"), y,
                    widen(t, t->held[node->inputs[2].id]));
    t->held[node->outputs[0].id] = is_narrowed(t, node, 0) ? narrow(t, node->name, y, role)
                                                           : (held){y, QN_NO_VALUE, -1, false};
}

static bool are_mantissas(held a, held b) {
    return a.is_narrow && b.is_narrow && a.axis < 0 && b.axis < 0;
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
                                    : (held){y, QN_NO_VALUE, -1, false};
    }
}

static bool leaves_out(const translation *t, const qn_node *node, int i) {
    return node->inputs[i].id < 0 || t->is_dropped[node->inputs[i].id];
}

static void add_product(translation *t, int n) {
    const qn_node *node = t->from->nodes[n];
    const held a = operand_of(t, node->inputs[0]), b = operand_of(t, node->inputs[1]);
    qn_value inputs[3] = {QN_NO_VALUE, QN_NO_VALUE, QN_NO_VALUE};
    if (t->how->is_integer && are_mantissas(a, b)) {
        add_integer_product(t, n, a, b);
        return;
    }
    inputs[0] = widen(t, a);
    inputs[1] = widen(t, b);
    if (node->n_inputs > 2 && !leaves_out(t, node, 2))
        inputs[2] = widen(t, t->held[node->inputs[2].id]);
    add_wide(t, n, inputs);
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
    for (int i = 0; i < node->n_inputs; i++)
        inputs[i] = leaves_out(t, node, i) ? QN_NO_VALUE : widen(t, t->held[node->inputs[i].id]);
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
        t->held[node->inputs[by].id].axis >= 0)
        return false;
    const held h = t->held[node->inputs[by].id];
    const qn_dtype dtype = qn_graph_tensor(t->to, h.value).dtype;
    for (int i = 0; i < node->n_inputs; i++)
        inputs[i] = t->held[node->inputs[i].id].value;
    const bool is_cast = !takes_mantissas(t, node, inputs, dtype);
    for (int i = 0; is_cast && i < node->n_inputs; i++) {
        if (t->held[node->inputs[i].id].is_narrow)
            inputs[i] = qn_op_cast(t->to, NULL, inputs[i], t->to->real);
    }
    const qn_node *copy =
        qn_graph_add(t->to, node->op, node->name, inputs, node->n_inputs, node->attributes);
    for (int i = 0; copy && i < node->n_outputs; i++)
        t->held[node->outputs[i].id] = (held){copy->outputs[i], QN_NO_VALUE, -1, false};
    if (!copy)
        return true;
    held *y = &t->held[node->outputs[0].id];
    const qn_value q =
        is_cast ? qn_op_cast(t->to, name_with(t->to, node->name, "rounded"), y->value, dtype)
                : y->value;
    *y = (held){q, h.scale, -1, true};
    return true;
}

/* The loss's gradient in whole numbers: of the logits that the probabilities were made of, where
 * every sample counts alike. */
static bool add_integer_loss(translation *t, int n) {
    const qn_node *node = t->from->nodes[n];
    if (!t->how->integer_loss || !node->op->in_integers)
        return false;
    const int made_by = t->from->values[node->inputs[0].id]->producer;
    const int weighted_by = t->from->values[node->inputs[2].id]->producer;
    if (made_by < 0 || weighted_by < 0 || !t->from->nodes[weighted_by]->op->is_broadcast)
        return false;
    const held logits = operand_of(t, t->from->nodes[made_by]->inputs[0]);
    const qn_integer_entropy_attributes attributes = {0};
    if (!logits.is_narrow || logits.scale.id < 0 || logits.axis >= 0)
        return false;
    const qn_value inputs[] = {logits.value, logits.scale, t->held[node->inputs[1].id].value};
    t->held[node->outputs[0].id] =
        (held){qn_graph_add1(t->to, node->op->in_integers, node->name, inputs, 3, &attributes),
               QN_NO_VALUE, -1, true};
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
    else if (!add_scaled(t, n) && !add_integer_loss(t, n))
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
    for (int i = 0; i < t->source->n; i++) {
        const qn_value gradient = t->source->gradients[i];
        t->gradient_of[gradient.id] = i + 1;
        t->n_readers[gradient.id]++;
        t->is_dropped[gradient.id] |= t->is_dropped[t->source->parameters[i].id];
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

/* What is kept of shifts moves on in training only. */
static void keep_shifts(translation *t) {
    for (int i = 0; i < t->n_kept && t->source->n > 0; i++) {
        const char *name = t->to->values[t->kept[i][0].id]->name;
        qn_op_keep(t->to, name_with(t->to, name, "moved"), t->kept[i][1], t->kept[i][0]);
    }
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
            qn_op_integer_step(t->to, name_with(t->to, name, "update"), t->held[g.id].value,
                               t->held[w.id].value);
            continue;
        }
        qn_value gradient = widen(t, t->held[g.id]);
        if (t->how->loss_factor != 1)
            gradient = qn_scale(t->to, name_with(t->to, name, "gradient.smaller"), gradient,
                                1 / t->how->loss_factor);
        q->parameters[q->n] = t->held[w.id].value;
        q->gradients[q->n++] = gradient;
    }
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
    t->kept = qn_arena_allocate(arena, (size_t)t->from->n_nodes + 1, sizeof *t->kept);
    q->parameters = qn_arena_allocate(arena, n_gradients, sizeof *q->parameters);
    q->gradients = qn_arena_allocate(arena, n_gradients, sizeof *q->gradients);
    if (!t->held || !t->operands || !t->values || !t->n_readers || !t->gradient_of ||
        !t->is_operand || !t->is_dropped || !t->kept || !q->parameters || !q->gradients)
        return QN_ERROR_MEMORY;
    for (size_t v = 0; v < n; v++) {
        t->held[v] = t->operands[v] = nothing;
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
            keep_shifts(&t);
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
