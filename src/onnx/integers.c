/* See integers.h. A value has the numbers of its type, whatever its width: QN_I32 where these fit,
 * as inputs do, else QN_I64. */
#include "onnx/integers.h"

#include "base/status.h"
#include "onnx/axes.h"
#include "onnx/builder.h"
#include "onnx/fold.h"
#include "ops/integers.h"

#include <string.h>

bool qn_onnx_type_is_integer(qn_onnx_type type) {
    return type != QN_ONNX_BOOL && qn_onnx_type_bytes(type) > 0 && !qn_onnx_type_is_real(type);
}

/* Truths are computed as integers where they meet some. */
qn_integer_type qn_onnx_integer_type_of(qn_onnx_type type) {
    switch (type) {
    case QN_ONNX_INT4:
        return (qn_integer_type){4, true};
    case QN_ONNX_UINT4:
        return (qn_integer_type){4, false};
    case QN_ONNX_INT8:
        return (qn_integer_type){8, true};
    case QN_ONNX_INT16:
        return (qn_integer_type){16, true};
    case QN_ONNX_INT32:
        return (qn_integer_type){32, true};
    case QN_ONNX_UINT8:
        return (qn_integer_type){8, false};
    case QN_ONNX_UINT16:
        return (qn_integer_type){16, false};
    case QN_ONNX_UINT32:
        return (qn_integer_type){32, false};
    case QN_ONNX_UINT64:
        return (qn_integer_type){64, false};
    default:
        return (qn_integer_type){64, true};
    }
}

/* ---- rules ---- */

/* What becomes of operands: of a type, given as another. */
typedef struct rule_call {
    qn_integer_rule rule;
    qn_onnx_type type, result; /* result: BOOL, a real type, or the integers' own */
    int n;
    qn_onnx_item *operands[3];
} rule_call;

static qn_value apply_values(qn_onnx_call *call, const char *name, qn_integer_rule rule,
                             qn_onnx_type type, qn_dtype to, const qn_value *operands, int n) {
    const qn_integer_type t = qn_onnx_integer_type_of(type);
    const qn_integer_attributes a = {rule, t.bits, t.is_signed, to};
    for (int i = 0; i < n; i++) {
        if (operands[i].id < 0)
            return QN_NO_VALUE; /* the graph says why */
    }
    return name ? qn_op_integer(call->graph, name, &a, operands, n) : QN_NO_VALUE;
}

qn_value qn_onnx_integer_rule(qn_onnx_call *call, const char *suffix, qn_integer_rule rule,
                              qn_onnx_type type, const qn_value *operands, int n) {
    return apply_values(call, qn_onnx_side_name(call, suffix), rule, type, QN_I64, operands, n);
}

qn_value qn_onnx_integer_as_real(qn_onnx_call *call, const char *name, qn_value x,
                                 qn_onnx_type type) {
    return apply_values(call, name, QN_INTEGER_CAST, type, call->graph->real, &x, 1);
}

qn_value qn_onnx_real_as_integer(qn_onnx_call *call, const char *name, qn_value x,
                                 qn_onnx_type type) {
    return apply_values(call, name, QN_INTEGER_CAST, type, QN_I64, &x, 1);
}

qn_value qn_onnx_as_index(qn_onnx_call *call, qn_value x) {
    static const int64_t ends[] = {INT32_MIN, INT32_MAX};
    static const qn_integer_rule rules[] = {QN_INTEGER_MOST, QN_INTEGER_LEAST};
    if (x.id < 0 || qn_graph_tensor(call->graph, x).dtype == QN_I32)
        return x;
    for (int i = 0; i < 2; i++) {
        const char *name = qn_onnx_side_name(call, "end");
        const qn_onnx_constant c = {.type = QN_ONNX_INT64, .n = 1, .whole = &ends[i]};
        qn_onnx_item item = {.name = name,
                             .type = QN_ONNX_INT64,
                             .value = QN_NO_VALUE,
                             .other = QN_NO_VALUE,
                             .row = QN_NO_VALUE,
                             .constant = &c};
        const qn_value operands[] = {x,
                                     name ? qn_onnx_item_value(call->builder, &item) : QN_NO_VALUE};
        x = apply_values(call, qn_onnx_side_name(call, "index"), rules[i], QN_ONNX_INT64, QN_I64,
                         operands, 2);
    }
    return apply_values(call, qn_onnx_side_name(call, "narrow"), QN_INTEGER_CAST, QN_ONNX_INT32,
                        QN_I32, &x, 1);
}

/* An item in the file's order. */
static qn_value plain_of(qn_onnx_call *call, qn_onnx_item *item) {
    qn_onnx_item *const inputs[] = {item};
    qn_onnx_call one = *call;
    one.inputs = inputs;
    one.n_inputs = 1;
    return qn_onnx_plain(&one, 0);
}

static const qn_onnx_constant *constant_of(const qn_onnx_call *call, qn_onnx_item *item) {
    qn_onnx_item *const inputs[] = {item};
    qn_onnx_call one = *call;
    one.inputs = inputs;
    one.n_inputs = 1;
    return qn_onnx_is_known(&one, 0) ? qn_onnx_constant_of(&one, 0) : NULL;
}

static bool is_known(const qn_onnx_call *call, const rule_call *r) {
    bool is = true;
    for (int i = 0; i < r->n; i++)
        is = is && constant_of(call, r->operands[i]);
    return is;
}

/* At import. Reals are doubles there, rounded to the type that they are said to have. */
static qn_status fold(qn_onnx_call *call, const rule_call *r, qn_onnx_item *to) {
    const qn_onnx_constant *c[3] = {NULL};
    const bool is_real = qn_onnx_type_is_real(r->result);
    qn_tensor tensors[3];
    qn_dtype dtypes[3];
    const void *data[3];
    qn_shape shape = {0};
    for (int i = 0; i < r->n; i++) {
        c[i] = constant_of(call, r->operands[i]);
        dtypes[i] = c[i]->reals ? QN_F64 : QN_I64;
        data[i] = c[i]->reals ? (const void *)c[i]->reals : (const void *)c[i]->whole;
        tensors[i] = (qn_tensor){dtypes[i], c[i]->shape};
        if (!qn_shape_broadcast(shape, c[i]->shape, &shape))
            return qn_fail(QN_ERROR_FORMAT, "its operands do not go together");
    }
    const int64_t n = qn_shape_count(shape);
    int64_t *y = qn_onnx_scratch(call, ((size_t)n + 1) * sizeof *y);
    qn_onnx_constant *made = qn_onnx_scratch(call, sizeof *made);
    if (!y || !made)
        return QN_ERROR_MEMORY;
    const qn_broadcast layout = qn_broadcast_of(tensors, r->n, shape);
    const qn_dtype dtype = !is_real ? QN_I64 : r->result == QN_ONNX_DOUBLE ? QN_F64 : QN_F32;
    float *narrow = dtype == QN_F32 ? (float *)(void *)y : NULL;
    qn_integer_combine(r->rule, qn_onnx_integer_type_of(r->type), &layout, n, r->n, dtypes, data,
                       dtype, y);
    for (int64_t i = n - 1; i >= 0 && narrow; i--) {
        const double wide = (double)narrow[i];
        memcpy(&y[i], &wide, sizeof wide);
    }
    *made = (qn_onnx_constant){.type = r->result,
                               .shape = shape,
                               .n = n,
                               .reals = is_real ? (double *)(void *)y : NULL,
                               .whole = is_real ? NULL : y};
    to->constant = made;
    to->type = r->result;
    return QN_OK;
}

static bool is_narrow_type(qn_onnx_type type) {
    const qn_integer_type t = qn_onnx_integer_type_of(type);
    return t.bits <= (t.is_signed ? 32 : 16);
}

/* A result that fits into 32 bits whatever the operands are. */
static bool is_narrow(const rule_call *r, const qn_graph *graph, const qn_value *v) {
    const qn_integer_type t = qn_onnx_integer_type_of(r->type);
    bool all = true;
    for (int i = r->rule == QN_INTEGER_WHERE; i < r->n; i++)
        all = all && qn_graph_tensor(graph, v[i]).dtype == QN_I32;
    const bool keeps = r->rule == QN_INTEGER_WHERE || r->rule == QN_INTEGER_LEAST ||
                       r->rule == QN_INTEGER_MOST || r->rule == QN_INTEGER_CAST;
    return is_narrow_type(r->type) || r->rule == QN_INTEGER_SIGN || (keeps && all && t.is_signed);
}

static qn_status run(qn_onnx_call *call, const char *name, const rule_call *r, qn_onnx_item *to) {
    qn_value v[3];
    if (is_known(call, r))
        return fold(call, r, to);
    for (int i = 0; i < r->n; i++)
        v[i] = plain_of(call, r->operands[i]);
    QN_TRY(call->graph->status);
    const bool is_real = qn_onnx_type_is_real(r->result) || r->result == QN_ONNX_BOOL;
    qn_value y = apply_values(
        call, is_narrow(r, call->graph, v) && !is_real ? qn_onnx_side_name(call, "wide") : name,
        r->rule, r->type, is_real ? call->graph->real : QN_I64, v, r->n);
    if (!is_real && y.id >= 0 && is_narrow(r, call->graph, v))
        y = apply_values(call, name, QN_INTEGER_CAST, QN_ONNX_INT32, QN_I32, &y, 1);
    to->value = y;
    to->type = r->result;
    to->is_image = false;
    return call->graph->status;
}

/* The item of an output, or of a step before it, which has no name in the file. */
static qn_onnx_item *step_item(qn_onnx_call *call) {
    qn_onnx_item *item = qn_onnx_scratch(call, sizeof *item);
    if (item)
        *item = (qn_onnx_item){
            .name = call->name, .value = QN_NO_VALUE, .other = QN_NO_VALUE, .row = QN_NO_VALUE};
    return item;
}

static qn_onnx_item *output_item(qn_onnx_call *call) {
    qn_onnx_item *item = qn_onnx_find_item(call->builder, call->node->outputs[0]);
    return item ? item : step_item(call);
}

/* A rule whose result is the node's, or that of a step. */
static qn_status give_rule(qn_onnx_call *call, const rule_call *r, bool is_last,
                           qn_onnx_item **to) {
    *to = is_last ? output_item(call) : step_item(call);
    const char *name = is_last ? call->name : qn_onnx_side_name(call, "step");
    return *to && name ? run(call, name, r, *to) : QN_ERROR_MEMORY;
}

qn_value qn_onnx_integers_value(qn_onnx_call *call, qn_shape shape, const int64_t *numbers) {
    const qn_onnx_constant c = {
        .type = QN_ONNX_INT64, .shape = shape, .n = qn_shape_count(shape), .whole = numbers};
    qn_onnx_item *item = numbers ? step_item(call) : NULL;
    if (!item)
        return QN_NO_VALUE;
    item->name = qn_onnx_side_name(call, "integers");
    item->type = QN_ONNX_INT64;
    item->constant = &c;
    return item->name ? qn_onnx_item_value(call->builder, item) : QN_NO_VALUE;
}

qn_status qn_onnx_give_integers(qn_onnx_call *call, int output, qn_value x, qn_shape shape,
                                qn_onnx_type type) {
    if (is_narrow_type(type) && x.id >= 0)
        x = apply_values(call, qn_onnx_side_name(call, "narrow"), QN_INTEGER_CAST, QN_ONNX_INT32,
                         QN_I32, &x, 1);
    if (x.id >= 0)
        x = qn_reshape(call->graph, output ? qn_onnx_side_name(call, "shape") : call->name, x,
                       shape);
    qn_onnx_give_typed(call, output, x, false, type);
    return call->graph->status;
}

/* ---- element by element ---- */

typedef struct rule_row {
    const char *type;
    qn_integer_rule rule;
    bool is_swapped, is_truth, is_not; /* of comparisons: the other way round, negated */
} rule_row;

static const rule_row rows[] = {
    {"Abs", QN_INTEGER_ABS, false, false, false},
    {"Neg", QN_INTEGER_NEGATE, false, false, false},
    {"Sign", QN_INTEGER_SIGN, false, false, false},
    {"BitwiseNot", QN_INTEGER_INVERT, false, false, false},
    {"Add", QN_INTEGER_ADD, false, false, false},
    {"Sum", QN_INTEGER_ADD, false, false, false},
    {"Sub", QN_INTEGER_SUBTRACT, false, false, false},
    {"Mul", QN_INTEGER_MULTIPLY, false, false, false},
    {"Div", QN_INTEGER_DIVIDE, false, false, false},
    {"Mod", QN_INTEGER_MODULO, false, false, false},
    {"Pow", QN_INTEGER_POWER, false, false, false},
    {"Min", QN_INTEGER_LEAST, false, false, false},
    {"Max", QN_INTEGER_MOST, false, false, false},
    {"BitwiseAnd", QN_INTEGER_AND, false, false, false},
    {"BitwiseOr", QN_INTEGER_OR, false, false, false},
    {"BitwiseXor", QN_INTEGER_XOR, false, false, false},
    {"BitShift", QN_INTEGER_SHIFT_RIGHT, false, false, false},
    {"Equal", QN_INTEGER_EQUAL, false, true, false},
    {"Less", QN_INTEGER_LESS, false, true, false},
    {"Greater", QN_INTEGER_LESS, true, true, false},
    {"LessOrEqual", QN_INTEGER_LESS, true, true, true},
    {"GreaterOrEqual", QN_INTEGER_LESS, false, true, true},
};

static const rule_row *find_row(const char *type) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].type, type) == 0)
            return &rows[i];
    }
    return NULL;
}

/* An exponent that is a real may be read as the integer that it is; else the result is a real's. */
static bool has_integer_exponent(const qn_onnx_call *call) {
    const qn_onnx_constant *c = constant_of(call, call->inputs[1]);
    if (qn_onnx_type_is_integer(call->inputs[1]->type))
        return true;
    bool is_integer = c && c->reals;
    for (int64_t i = 0; is_integer && i < c->n; i++)
        is_integer =
            c->reals[i] >= 0 && c->reals[i] < 0x1p53 && c->reals[i] == (double)(int64_t)c->reals[i];
    return is_integer;
}

static qn_integer_rule rule_of(const qn_onnx_call *call, const rule_row *row) {
    if (row->rule == QN_INTEGER_MODULO && qn_onnx_int(call, "fmod", 0))
        return QN_INTEGER_REMAINDER;
    if (row->rule == QN_INTEGER_SHIFT_RIGHT &&
        strcmp(qn_onnx_text(call, "direction", ""), "LEFT") == 0)
        return QN_INTEGER_SHIFT_LEFT;
    return row->rule;
}

/* Two operands, or one after the other where there are more. */
static qn_status build_rule(qn_onnx_call *call, const rule_row *row) {
    const qn_onnx_type type = call->inputs[0]->type;
    rule_call r = {.rule = rule_of(call, row),
                   .type = type,
                   .result = row->is_truth ? QN_ONNX_BOOL : type,
                   .n = call->n_inputs > 1 ? 2 : 1};
    qn_onnx_item *made = call->inputs[0];
    const bool is_one = call->n_inputs == 1 && row->rule >= QN_INTEGER_ADD;
    for (int i = 1; i < call->n_inputs || i == 1; i++) {
        qn_onnx_item *other = call->n_inputs > 1 ? call->inputs[i] : NULL;
        r.operands[row->is_swapped] = made;
        if (other)
            r.operands[!row->is_swapped] = other;
        if (is_one)
            r.rule = QN_INTEGER_CAST;
        QN_TRY(give_rule(call, &r, i + 1 >= call->n_inputs && !row->is_not, &made));
    }
    if (!row->is_not)
        return QN_OK;
    /* not: equal to 0 */
    static const int64_t zero = 0;
    qn_onnx_constant c = {.type = QN_ONNX_BOOL, .n = 1, .whole = &zero};
    qn_onnx_item none = {.name = call->name,
                         .type = QN_ONNX_INT64,
                         .value = QN_NO_VALUE,
                         .other = QN_NO_VALUE,
                         .row = QN_NO_VALUE,
                         .constant = &c};
    r = (rule_call){QN_INTEGER_EQUAL, type, QN_ONNX_BOOL, 2, {made, &none}};
    return give_rule(call, &r, true, &made);
}

static qn_status build_where(qn_onnx_call *call) {
    qn_onnx_item *made;
    const qn_onnx_type type = call->inputs[1]->type;
    const rule_call r = {
        QN_INTEGER_WHERE, type, type, 3, {call->inputs[0], call->inputs[1], call->inputs[2]}};
    return give_rule(call, &r, true, &made);
}

/* The largest of a number and 0. */
static qn_status build_relu(qn_onnx_call *call) {
    static const int64_t zero = 0;
    const qn_onnx_type type = call->inputs[0]->type;
    const qn_onnx_constant c = {.type = type, .n = 1, .whole = &zero};
    qn_onnx_item *none = step_item(call), *made;
    if (!none)
        return QN_ERROR_MEMORY;
    none->constant = &c;
    none->type = type;
    const rule_call r = {QN_INTEGER_MOST, type, type, 2, {call->inputs[0], none}};
    return give_rule(call, &r, true, &made);
}

static qn_status build_clip(qn_onnx_call *call) {
    const qn_onnx_type type = call->inputs[0]->type;
    const bool has_least = qn_onnx_has(call, 1), has_most = qn_onnx_has(call, 2);
    qn_onnx_item *made = call->inputs[0];
    if (!has_least && !has_most) {
        qn_onnx_give_input(call, 0, 0);
        return QN_OK;
    }
    if (has_least) {
        const rule_call r = {QN_INTEGER_MOST, type, type, 2, {made, call->inputs[1]}};
        QN_TRY(give_rule(call, &r, !has_most, &made));
    }
    if (!has_most)
        return QN_OK;
    const rule_call r = {QN_INTEGER_LEAST, type, type, 2, {made, call->inputs[2]}};
    return give_rule(call, &r, true, &made);
}

/* ---- casts ---- */

static qn_onnx_type cast_target(const qn_onnx_call *call) {
    return call->n_inputs > 1 ? qn_onnx_type_at(call, 1)
                              : (qn_onnx_type)qn_onnx_int(call, "to", QN_ONNX_FLOAT);
}

/* From integers, or to them. A truth is whether a number is not 0: that it is 0, and not that. */
static qn_status build_cast(qn_onnx_call *call) {
    const qn_onnx_type from = qn_onnx_type_at(call, 0), to = cast_target(call);
    qn_onnx_item *made = call->inputs[0];
    rule_call r = {.rule = QN_INTEGER_CAST, .n = 1, .operands = {made}};
    r.result = to;
    if (qn_onnx_type_is_real(to) && made->value.id >= 0 &&
        qn_dtype_is_real(qn_graph_tensor(call->graph, made->value).dtype)) {
        /* one that is held as reals, through which gradients flow */
        qn_onnx_give_typed(call, 0, made->value, made->is_image, to);
        return qn_onnx_round_cast(call, output_item(call), to);
    }
    if (to == QN_ONNX_BOOL) {
        static const int64_t one = 1, none = 0;
        qn_onnx_constant numbers[] = {{.type = QN_ONNX_INT64, .n = 1, .whole = &one},
                                      {.type = QN_ONNX_INT64, .n = 1, .whole = &none}};
        qn_onnx_item items[2];
        for (int i = 0; i < 2; i++)
            items[i] = (qn_onnx_item){.name = call->name,
                                      .type = QN_ONNX_INT64,
                                      .value = QN_NO_VALUE,
                                      .other = QN_NO_VALUE,
                                      .row = QN_NO_VALUE,
                                      .constant = &numbers[i]};
        r = (rule_call){QN_INTEGER_WHERE, from, to, 3, {made, &items[0], &items[1]}};
        return give_rule(call, &r, true, &made);
    }
    r.type = qn_onnx_type_is_real(to) ? from : to;
    QN_TRY(give_rule(call, &r, true, &made));
    return qn_onnx_round_cast(call, made, to);
}

/* ---- along axes ---- */

static bool read_reduction(const qn_onnx_call *call, qn_integer_axis_rule *rule) {
    static const struct {
        const char *type;
        qn_integer_reduction how;
    } all[] = {{"ReduceSum", QN_INTEGER_SUM},           {"ReduceL1", QN_INTEGER_SUM},
               {"ReduceSumSquare", QN_INTEGER_SUM},     {"ReduceMean", QN_INTEGER_SUM},
               {"ReduceProd", QN_INTEGER_PRODUCT},      {"ReduceMin", QN_INTEGER_MINIMUM},
               {"ReduceMax", QN_INTEGER_MAXIMUM},       {"ArgMin", QN_INTEGER_PLACE_OF_MINIMUM},
               {"ArgMax", QN_INTEGER_PLACE_OF_MAXIMUM}, {"CumSum", QN_INTEGER_SUM}};
    const qn_integer_type type = qn_onnx_integer_type_of(qn_onnx_type_at(call, 0));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (strcmp(call->node->type, all[i].type) != 0)
            continue;
        *rule = (qn_integer_axis_rule){
            .how = (int)all[i].how, .bits = type.bits, .is_signed = type.is_signed};
        return true;
    }
    return false;
}

/* The axes that go, as a mask. */
static qn_status read_axes(qn_onnx_call *call, int rank, unsigned *mask) {
    const int64_t *axes;
    int n, axis;
    *mask = 0;
    if (strncmp(call->node->type, "Arg", 3) == 0) {
        QN_TRY(qn_onnx_axis(qn_onnx_int(call, "axis", 0), rank, &axis));
        *mask = 1u << axis;
        return QN_OK;
    }
    QN_TRY(qn_onnx_list(call, "axes", 1, &axes, &n));
    for (int i = 0; i < n; i++) {
        QN_TRY(qn_onnx_axis(axes[i], rank, &axis));
        *mask |= 1u << axis;
    }
    if (n == 0 && !qn_onnx_int(call, "noop_with_empty_axes", 0))
        *mask = (1u << rank) - 1;
    return QN_OK;
}

/* One axis of an item: another item, whose axis has an extent of 1, or, running, its own. */
static qn_status reduce_axis(qn_onnx_call *call, const qn_integer_axis_rule *rule, int axis,
                             qn_shape *shape, qn_onnx_item **item) {
    const int64_t outer = qn_shape_count_range(*shape, 0, axis), n = shape->dims[axis];
    const int64_t inner = qn_shape_count_range(*shape, axis + 1, shape->rank);
    const qn_onnx_constant *c = constant_of(call, *item);
    qn_onnx_item *made = step_item(call);
    if (n < 1)
        return qn_fail(QN_ERROR_UNSUPPORTED, "it reduces an axis of nothing");
    if (!rule->is_running)
        shape->dims[axis] = 1;
    made->type = (*item)->type;
    if (!c) {
        const qn_value x = qn_reshape(call->graph, qn_onnx_side_name(call, "axis"),
                                      plain_of(call, *item), QN_SHAPE(outer, n, inner));
        const qn_value y =
            qn_op_integer_reduce(call->graph, qn_onnx_side_name(call, "reduced"), x, rule);
        made->value = qn_reshape(call->graph, qn_onnx_side_name(call, "kept"), y, *shape);
        *item = made;
        return call->graph->status;
    }
    qn_onnx_constant *to = qn_onnx_scratch(call, sizeof *to);
    int64_t *y = qn_onnx_scratch(call, ((size_t)qn_shape_count(*shape) + 1) * sizeof *y);
    if (!made || !to || !y)
        return QN_ERROR_MEMORY;
    qn_integer_reduce(rule, QN_I64, c->whole, outer, n, inner, y);
    *to = (qn_onnx_constant){
        .type = made->type, .shape = *shape, .n = qn_shape_count(*shape), .whole = y};
    made->constant = to;
    *item = made;
    return QN_OK;
}

/* Gives an item in a shape. */
static qn_status give_item(qn_onnx_call *call, const qn_onnx_item *item, qn_shape shape,
                           qn_onnx_type type) {
    qn_onnx_item *to = output_item(call);
    if (!to)
        return QN_ERROR_MEMORY;
    to->type = type;
    if (item->constant)
        return qn_onnx_give_whole(call, 0, type, shape, item->constant->whole);
    to->value = qn_reshape(call->graph, call->name, item->value, shape);
    to->is_image = false;
    return call->graph->status;
}

/* The mean of integers is one, cut towards 0. */
static qn_status divide(qn_onnx_call *call, int64_t by, qn_onnx_item **item) {
    const qn_onnx_constant c = {.type = (*item)->type, .n = 1, .whole = &by};
    qn_onnx_item divisor = {.name = call->name,
                            .type = (*item)->type,
                            .value = QN_NO_VALUE,
                            .other = QN_NO_VALUE,
                            .row = QN_NO_VALUE,
                            .constant = &c};
    const rule_call r = {QN_INTEGER_DIVIDE, (*item)->type, (*item)->type, 2, {*item, &divisor}};
    return give_rule(call, &r, false, item);
}

/* What is added up: the numbers, their absolute values or squares. */
static qn_status find_terms(qn_onnx_call *call, qn_onnx_item **item) {
    qn_onnx_item *x = call->inputs[0];
    const bool is_square = strcmp(call->node->type, "ReduceSumSquare") == 0;
    const rule_call r = {is_square ? QN_INTEGER_MULTIPLY : QN_INTEGER_ABS,
                         x->type,
                         x->type,
                         is_square ? 2 : 1,
                         {x, x}};
    *item = x;
    return is_square || strcmp(call->node->type, "ReduceL1") == 0 ? give_rule(call, &r, false, item)
                                                                  : QN_OK;
}

static qn_status build_reduction(qn_onnx_call *call, const qn_integer_axis_rule *rule) {
    const qn_shape from = qn_onnx_shape(call, 0);
    const bool is_arg = strncmp(call->node->type, "Arg", 3) == 0;
    const bool keeps = qn_onnx_int(call, "keepdims", 1) != 0;
    qn_integer_axis_rule how = *rule;
    qn_shape shape = from, left = {.rank = 0};
    qn_onnx_item *item;
    unsigned mask;
    QN_TRY(find_terms(call, &item));
    how.is_last = is_arg && qn_onnx_int(call, "select_last_index", 0) != 0;
    QN_TRY(read_axes(call, from.rank, &mask));
    for (int axis = from.rank - 1; axis >= 0; axis--) {
        if (mask >> axis & 1)
            QN_TRY(reduce_axis(call, &how, axis, &shape, &item));
    }
    if (strcmp(call->node->type, "ReduceMean") == 0 && qn_shape_count(shape) > 0)
        QN_TRY(divide(call, qn_shape_count(from) / qn_shape_count(shape), &item));
    for (int i = 0; i < from.rank; i++) {
        if (keeps || !(mask >> i & 1))
            left.dims[left.rank++] = shape.dims[i];
    }
    if (item == call->inputs[0]) { /* no axis goes, and nothing is worked out */
        qn_onnx_give_input(call, 0, 0);
        return QN_OK;
    }
    return give_item(call, item, left, is_arg ? QN_ONNX_INT64 : item->type);
}

static qn_status build_running_sum(qn_onnx_call *call, const qn_integer_axis_rule *rule) {
    qn_integer_axis_rule how = *rule;
    qn_shape shape = qn_onnx_shape(call, 0);
    qn_onnx_item *item = call->inputs[0];
    int64_t number;
    int axis;
    how.is_running = true;
    how.is_exclusive = qn_onnx_int(call, "exclusive", 0) != 0;
    how.is_reverse = qn_onnx_int(call, "reverse", 0) != 0;
    QN_TRY(qn_onnx_number_of(call, 1, &number));
    QN_TRY(qn_onnx_axis(number, shape.rank, &axis));
    QN_TRY(reduce_axis(call, &how, axis, &shape, &item));
    return give_item(call, item, shape, item->type);
}

/* ---- all of them ---- */

/* Operators of integers alone, which are built before a translator is asked. */
static qn_status refuse_reals(qn_onnx_call *call) {
    return qn_fail(QN_ERROR_FORMAT, "%s is of integers", call->node->type);
}

const qn_onnx_translator qn_onnx_integer_translators[] = {
    {"BitShift", 2, 2, refuse_reals},   {"BitwiseAnd", 2, 2, refuse_reals},
    {"BitwiseOr", 2, 2, refuse_reals},  {"BitwiseXor", 2, 2, refuse_reals},
    {"BitwiseNot", 1, 1, refuse_reals}, {NULL, 0, 0, NULL},
};

qn_status qn_onnx_build_integers(qn_onnx_call *call, bool *is_done) {
    const char *type = call->node->type;
    const rule_row *row = find_row(type);
    qn_integer_axis_rule rule;
    const bool is_cast = strcmp(type, "Cast") == 0 || strcmp(type, "CastLike") == 0;
    const int data = strcmp(type, "Where") == 0;
    *is_done = false;
    if (!qn_onnx_has(call, data) || call->opset < QN_ONNX_FIRST_OPSET)
        return QN_OK;
    *is_done = qn_onnx_type_is_integer(call->inputs[data]->type) && !call->inputs[data]->parts;
    if (is_cast) {
        const qn_onnx_type to = cast_target(call);
        *is_done = (*is_done || qn_onnx_type_is_integer(to)) && qn_onnx_type_bytes(to) > 0 &&
                   to != QN_ONNX_FLOAT8E4M3FN && to != QN_ONNX_FLOAT8E5M2;
        return *is_done ? build_cast(call) : QN_OK;
    }
    if (*is_done && row && row->rule == QN_INTEGER_POWER)
        *is_done = has_integer_exponent(call);
    if (*is_done && row)
        return build_rule(call, row);
    if (*is_done && data)
        return build_where(call);
    if (*is_done && strcmp(type, "Clip") == 0)
        return build_clip(call);
    if (*is_done && strcmp(type, "Relu") == 0)
        return build_relu(call);
    if (*is_done && read_reduction(call, &rule))
        return strcmp(type, "CumSum") == 0 ? build_running_sum(call, &rule)
                                           : build_reduction(call, &rule);
    return qn_onnx_build_integer_arrays(call, is_done);
}
