/* What translators ask of their inputs and give for their outputs: constants, parameters, and
 * values with their channels where they are wanted. Parameters that the file gives start with its
 * values, read where they lie; a transpose is added only where it moves something. */
#include "base/decimal.h"
#include "base/print.h"
#include "base/rng.h"
#include "base/status.h"
#include "onnx/builder.h"
#include "ops/integers.h"
#include "ops/ops.h"

#include <stdlib.h>
#include <string.h>

/* ---- attributes ---- */

const qn_onnx_attribute *qn_onnx_attribute_of(const qn_onnx_call *call, const char *name) {
    const qn_onnx_attribute *a = qn_onnx_find_attribute(call->node, name);
    if (a && a - call->node->attributes < 64)
        call->builder->read |= UINT64_C(1) << (a - call->node->attributes);
    return a;
}

int64_t qn_onnx_int(const qn_onnx_call *call, const char *name, int64_t fallback) {
    const qn_onnx_attribute *a = qn_onnx_attribute_of(call, name);
    return a && a->kind == QN_ONNX_ATTRIBUTE_INT ? a->count : fallback;
}

double qn_onnx_float(const qn_onnx_call *call, const char *name, double fallback) {
    const qn_onnx_attribute *a = qn_onnx_attribute_of(call, name);
    return a && a->kind == QN_ONNX_ATTRIBUTE_FLOAT ? qn_onnx_decimal(a->number) : fallback;
}

double qn_onnx_decimal(float number) {
    char text[32];
    double value = number;
    for (int digits = 6; digits <= 9; digits++) {
        qn_print(text, sizeof text, "%.*g", digits, (double)number);
        value = qn_decimal_read(text, NULL);
        if ((float)value == number)
            return value;
    }
    return number;
}

const char *qn_onnx_text(const qn_onnx_call *call, const char *name, const char *fallback) {
    const qn_onnx_attribute *a = qn_onnx_attribute_of(call, name);
    return a && a->kind == QN_ONNX_ATTRIBUTE_TEXT ? a->text : fallback;
}

const int64_t *qn_onnx_ints(const qn_onnx_call *call, const char *name, int *n) {
    const qn_onnx_attribute *a = qn_onnx_attribute_of(call, name);
    *n = a && a->kind == QN_ONNX_ATTRIBUTE_INTS ? a->n : 0;
    return *n > 0 ? a->counts : NULL;
}

/* ---- what inputs are ---- */

static qn_onnx_item *item_at(const qn_onnx_call *call, int input) {
    return input < call->n_inputs ? call->inputs[input] : NULL;
}

bool qn_onnx_has(const qn_onnx_call *call, int input) {
    return item_at(call, input) != NULL;
}

qn_onnx_type qn_onnx_type_at(const qn_onnx_call *call, int input) {
    const qn_onnx_item *item = item_at(call, input);
    return item ? item->type : QN_ONNX_NONE;
}

bool qn_onnx_is_image(const qn_onnx_call *call, int input) {
    const qn_onnx_item *item = item_at(call, input);
    return item && item->is_image;
}

/* It becomes a parameter: an initialiser that trains, or a real one of rank 1 or more. */
static bool is_weight(const qn_onnx_item *item) {
    return item->initializer && item->initializer->bytes > 0 &&
           (item->trains || (!item->is_constant_node && item->initializer->n_dims > 0 &&
                             qn_onnx_type_is_real(item->initializer->type)));
}

bool qn_onnx_is_known(const qn_onnx_call *call, int input) {
    const qn_onnx_item *item = item_at(call, input);
    /* whole numbers stay known once a value was made of them, too */
    const bool is_only = item && (item->value.id < 0 || (item->constant && item->constant->whole));
    return is_only && !is_weight(item) && (item->constant || item->initializer);
}

bool qn_onnx_folds(const qn_onnx_call *call) {
    for (int i = 0; i < call->n_inputs; i++) {
        if (call->inputs[i] && !qn_onnx_is_known(call, i))
            return false;
    }
    return call->n_inputs > 0;
}

/* The item's tensor as a constant, if it has one; a failure is the graph's. */
static const qn_onnx_constant *read_item(qn_onnx_builder *b, qn_onnx_item *item) {
    const qn_onnx_tensor *tensor = item->initializer;
    if (item->constant || !tensor)
        return item->constant;
    const bool is_known = qn_onnx_type_bytes(tensor->type) > 0 && tensor->n_dims <= QN_MAX_RANK;
    item->constant = qn_onnx_read_constant(&b->arena, tensor);
    if (!item->constant)
        qn_graph_fail(b->graph, is_known ? QN_ERROR_MEMORY : QN_ERROR_UNSUPPORTED, "%s: %s",
                      item->name, qn_error_message());
    return item->constant;
}

const qn_onnx_constant *qn_onnx_constant_of(const qn_onnx_call *call, int input) {
    qn_onnx_item *item = item_at(call, input);
    return item ? read_item(call->builder, item) : NULL;
}

/* ---- the order of axes ---- */

/* Axis i of the file's is axis [i] here, of a value with its channels last. */
static void plain_order(int rank, int order[QN_MAX_RANK]) {
    order[0] = 0;
    for (int i = 1; i < rank; i++)
        order[i] = i == 1 ? rank - 1 : i - 1;
}

/* Axis i of a value with its channels last is the file's axis [i]. */
static void last_order(int rank, int order[QN_MAX_RANK]) {
    order[0] = 0;
    for (int i = 1; i < rank; i++)
        order[i] = i == rank - 1 ? 1 : i + 1;
}

static qn_shape permuted(qn_shape shape, const int *order) {
    qn_shape result = {.rank = shape.rank};
    for (int i = 0; i < shape.rank; i++)
        result.dims[i] = shape.dims[order[i]];
    return result;
}

static bool is_node_name(const qn_onnx_model *m, const char *name) {
    for (int n = 0; n < m->n_nodes; n++) {
        const qn_onnx_node *node = &m->nodes[n];
        if (strcmp(node->name, name) == 0 ||
            (node->n_outputs > 0 && strcmp(node->outputs[0], name) == 0))
            return true;
    }
    return false;
}

/* A transpose, or, where it moves no element, a view. */
static qn_value reordered(qn_onnx_builder *b, qn_value x, const int *order, const char *name) {
    const qn_shape shape = qn_graph_shape(b->graph, x);
    int last = -1;
    bool is_moved = false;
    for (int i = 0; i < shape.rank; i++) {
        if (shape.dims[order[i]] == 1)
            continue;
        is_moved = is_moved || order[i] < last;
        last = order[i];
    }
    const char *suffix = is_moved ? "order" : "view";
    const char *text = qn_arena_format(&b->arena, "%s.%s", name, suffix);
    if (text && is_node_name(b->model, text)) /* the file's own node is still to come */
        text = qn_arena_format(&b->arena, "%s.%s.%s", name, suffix, suffix);
    text = qn_onnx_free_name(b, text);
    if (b->graph->status != QN_OK || !text)
        return QN_NO_VALUE;
    return is_moved ? qn_transpose(b->graph, text, x, order)
                    : qn_reshape(b->graph, text, x, permuted(shape, order));
}

qn_shape qn_onnx_shape(const qn_onnx_call *call, int input) {
    const qn_onnx_item *item = item_at(call, input);
    qn_shape shape = {0};
    int order[QN_MAX_RANK];
    if (!item)
        return shape;
    if (item->constant)
        return item->constant->shape;
    if (item->turned && qn_onnx_tensor_shape(item->turned->initializer, &shape) == QN_OK)
        return QN_SHAPE(shape.dims[1], shape.dims[0]);
    if (item->row.id >= 0) {
        shape = qn_graph_shape(call->graph, item->row);
        shape.dims[0] = item->n_rows;
        return shape;
    }
    if (item->initializer) {
        const qn_status status = qn_onnx_tensor_shape(item->initializer, &shape);
        if (status != QN_OK)
            qn_graph_fail(call->graph, status, "%s: %s", item->name, qn_error_message());
        return shape;
    }
    shape = qn_graph_shape(call->graph, item->value);
    plain_order(shape.rank, order);
    return item->is_image ? permuted(shape, order) : shape;
}

/* ---- values ---- */

/* Names that the engine and tasks keep for themselves get a prefix. */
static const char *parameter_name(qn_onnx_builder *b, const char *name) {
    const bool is_kept = strncmp(name, "task.", 5) == 0 || strncmp(name, "optimizer.", 10) == 0 ||
                         strncmp(name, QN_CONSTANT_PREFIX, strlen(QN_CONSTANT_PREFIX)) == 0;
    const char *full = qn_arena_format(&b->arena, "%s%s", is_kept ? "file." : "", name);
    return qn_onnx_free_name(b, full);
}

/* Notes where a parameter is from, for who writes the file again. */
static bool add_record(qn_onnx_builder *b, const qn_onnx_item *item, const char *parameter) {
    qn_onnx_record *record = qn_arena_allocate(b->kept, 1, sizeof *record);
    const char *name = qn_arena_format(b->kept, "%s", item->name);
    const char *kept = qn_arena_format(b->kept, "%s", parameter);
    if (!record || !name || !kept)
        return false;
    *record = (qn_onnx_record){.next = b->records,
                               .tensor = item->initializer,
                               .item = name,
                               .parameter = kept,
                               .is_constant_node = item->is_constant_node,
                               .n_dims = item->initializer->n_dims,
                               .node = b->node && b->node->n_outputs > 0 ? b->node->outputs[0] : "",
                               .input = b->statistic};
    memcpy(record->order, item->order, sizeof record->order);
    b->records = record;
    return true;
}

/* The item's tensor as a parameter with its axes in an order. */
static qn_value make_parameter(qn_onnx_builder *b, qn_onnx_item *item, const int *order,
                               bool trainable) {
    qn_shape shape = {0};
    qn_given given = {0}, ordered;
    const qn_status status = qn_onnx_tensor_shape(item->initializer, &shape);
    if (status != QN_OK) {
        qn_graph_fail(b->graph, status, "%s: %s", item->name, qn_error_message());
        return QN_NO_VALUE;
    }
    qn_onnx_read_reals(item->initializer, &given);
    ordered = given;
    for (int i = 0; i < shape.rank; i++) {
        item->order[i] = order ? order[i] : i;
        ordered.strides[i] = given.strides[item->order[i]];
    }
    const char *name = parameter_name(b, item->name);
    if (!name || !add_record(b, item, name)) {
        qn_graph_fail(b->graph, QN_ERROR_MEMORY, "%s", qn_error_message());
        return QN_NO_VALUE;
    }
    return qn_parameter_from(b->graph, name, permuted(shape, item->order), &ordered,
                             trainable && item->trains);
}

/* The item's parameter, if it is one and there already, in an order. */
static qn_value parameter_again(qn_onnx_builder *b, const qn_onnx_item *item, const int *order) {
    const int rank = qn_graph_shape(b->graph, item->value).rank;
    int moves[QN_MAX_RANK];
    bool is_same = true;
    for (int i = 0; i < rank; i++) {
        const int wanted = order ? order[i] : i;
        for (int j = 0; j < rank; j++)
            moves[i] = item->order[j] == wanted ? j : moves[i];
        is_same = is_same && moves[i] == i;
    }
    return is_same ? item->value : reordered(b, item->value, moves, item->name);
}

/* The name of a constant says what is in it: constants that depend on the batch are others with
 * another batch, and checkpoints leave them out, since the network itself makes them. */
static const char *constant_name(qn_onnx_builder *b, const qn_onnx_constant *c) {
    const void *data = c->reals ? (const void *)c->reals : (const void *)c->whole;
    uint64_t hash = qn_hash_bytes(data, (size_t)c->n * sizeof(double)) * 3 ^
                    qn_hash_bytes(c->shape.dims, (size_t)c->shape.rank * sizeof *c->shape.dims);
    return qn_arena_format(&b->arena, QN_CONSTANT_PREFIX "%s%016llx", c->reals ? "r" : "w",
                           (unsigned long long)hash);
}

/* What is there of that name, or the name made free. */
static qn_value find_constant(qn_onnx_builder *b, const qn_onnx_constant *c, const char **name) {
    *name = constant_name(b, c);
    const qn_value there = *name ? qn_graph_find(b->graph, *name) : QN_NO_VALUE;
    if (there.id >= 0)
        return there;
    *name = qn_onnx_free_name(b, *name);
    return QN_NO_VALUE;
}

/* Whether all integers of a constant fit into 32 bits. */
static bool is_narrow(const qn_onnx_constant *c) {
    bool is = true;
    for (int64_t i = 0; i < c->n; i++)
        is = is && c->whole[i] == (int32_t)c->whole[i];
    return is;
}

static qn_value narrow_value(qn_onnx_builder *b, const qn_onnx_constant *c);

/* Wider integers: their upper halves times 2^32, and their lower ones without a sign. */
static qn_value wide_value(qn_onnx_builder *b, const qn_onnx_constant *c) {
    static const qn_integer_attributes shift = {QN_INTEGER_SHIFT_LEFT, 64, true, QN_I64},
                                       lower = {QN_INTEGER_CAST, 32, false, QN_I64},
                                       both = {QN_INTEGER_OR, 64, true, QN_I64};
    int64_t *halves[2];
    qn_value values[2];
    for (int half = 0; half < 2; half++) {
        halves[half] = qn_arena_allocate(&b->arena, (size_t)c->n + 1, sizeof *halves[half]);
        if (!halves[half]) {
            qn_graph_fail(b->graph, QN_ERROR_MEMORY, "%s", qn_error_message());
            return QN_NO_VALUE;
        }
        for (int64_t i = 0; i < c->n; i++)
            halves[half][i] = half ? c->whole[i] >> 32 : (int32_t)(c->whole[i] & UINT32_MAX);
        qn_onnx_constant part = *c;
        part.whole = halves[half];
        values[half] = narrow_value(b, &part);
    }
    const int64_t bits = 32;
    const qn_onnx_constant by = {.type = QN_ONNX_INT64, .n = 1, .whole = &bits};
    const qn_value upper[] = {values[1], narrow_value(b, &by)};
    const qn_value parts[] = {qn_op_integer(b->graph, NULL, &lower, &values[0], 1),
                              qn_op_integer(b->graph, NULL, &shift, upper, 2)};
    return b->graph->status == QN_OK ? qn_op_integer(b->graph, NULL, &both, parts, 2) : QN_NO_VALUE;
}

static qn_value whole_value(qn_onnx_builder *b, const qn_onnx_constant *c) {
    return is_narrow(c) ? narrow_value(b, c) : wide_value(b, c);
}

/* A source of integers that never change. */
static qn_value narrow_value(qn_onnx_builder *b, const qn_onnx_constant *c) {
    const char *name;
    const qn_value there = find_constant(b, c, &name);
    if (there.id >= 0)
        return there;
    int32_t *data = qn_arena_allocate(b->kept, (size_t)c->n + 1, sizeof *data);
    qn_given given = {.dtype = QN_I32, .data = data};
    if (!data)
        qn_graph_fail(b->graph, QN_ERROR_MEMORY, "%s", qn_error_message());
    if (!data || !name)
        return QN_NO_VALUE;
    for (int64_t i = 0; i < c->n; i++)
        data[i] = (int32_t)c->whole[i];
    for (int i = c->shape.rank - 1, step = 1; i >= 0; step *= (int)c->shape.dims[i--])
        given.strides[i] = step;
    const qn_value value =
        qn_graph_add_source(b->graph, QN_KIND_PARAMETER, name, (qn_tensor){QN_I32, c->shape},
                            (qn_initial){QN_INITIAL_ZERO, 0}, false);
    qn_graph_give(b->graph, value, &given);
    return value;
}

/* Folded reals: a scalar that is spread, or, where they differ, a parameter that does not train. */
static qn_value real_value(qn_onnx_builder *b, const char *name, const qn_onnx_constant *c) {
    bool is_even = c->n > 0;
    for (int64_t i = 1; i < c->n && is_even; i++)
        is_even = c->reals[i] == c->reals[0];
    if (is_even) {
        name = parameter_name(b, name);
        const qn_value one = name ? qn_op_scalar(b->graph, name, c->reals[0]) : QN_NO_VALUE;
        return c->shape.rank == 0 ? one : qn_op_broadcast(b->graph, NULL, one, c->shape, 1);
    }
    const qn_value there = find_constant(b, c, &name);
    if (there.id >= 0 || !name)
        return there;
    double *data = qn_arena_allocate(b->kept, (size_t)c->n + 1, sizeof *data);
    qn_given given = {.dtype = QN_F64, .data = data};
    if (!data) {
        qn_graph_fail(b->graph, QN_ERROR_MEMORY, "%s", qn_error_message());
        return QN_NO_VALUE;
    }
    memcpy(data, c->reals, (size_t)c->n * sizeof *data);
    for (int64_t i = c->shape.rank - 1, step = 1; i >= 0; step *= c->shape.dims[i--])
        given.strides[i] = step;
    return qn_parameter_from(b->graph, name, c->shape, &given, false);
}

static const int turned_order[] = {1, 0};

/* A real tensor of the file as a parameter, or what is there of it already, in an order. */
static qn_value ordered_parameter(qn_onnx_builder *b, qn_onnx_item *item, const int *order,
                                  bool trainable) {
    if (item->turned)
        return ordered_parameter(b, item->turned, order && order[0] == 1 ? NULL : turned_order,
                                 trainable);
    if (item->value.id < 0)
        return item->value = make_parameter(b, item, order, trainable);
    return parameter_again(b, item, order);
}

qn_value qn_onnx_item_value(qn_onnx_builder *b, qn_onnx_item *item) {
    if (item->turned && item->value.id < 0 && b->graph->status == QN_OK)
        item->value = ordered_parameter(b, item, NULL, true);
    if (item->row.id >= 0 && item->value.id < 0 && b->graph->status == QN_OK) {
        qn_shape shape = qn_graph_shape(b->graph, item->row);
        shape.dims[0] = item->n_rows;
        item->value = qn_expand(b->graph, item->row_name, item->row, shape);
    }
    if (item->value.id >= 0 || b->graph->status != QN_OK)
        return item->initializer && item->value.id >= 0 ? parameter_again(b, item, NULL)
                                                        : item->value;
    if (is_weight(item))
        return item->value = make_parameter(b, item, NULL, true);
    if (!read_item(b, item))
        qn_graph_fail(b->graph, QN_ERROR_UNSUPPORTED, "%s is not made here", item->name);
    else
        item->value = item->constant->reals ? real_value(b, item->name, item->constant)
                                            : whole_value(b, item->constant);
    for (int i = 0; i < QN_MAX_RANK; i++)
        item->order[i] = i;
    return item->value;
}

qn_value qn_onnx_value_of(qn_onnx_call *call, int input) {
    qn_onnx_item *item = item_at(call, input);
    return item ? qn_onnx_item_value(call->builder, item) : QN_NO_VALUE;
}

qn_value qn_onnx_parameter(qn_onnx_call *call, int input, const int *order, bool trainable) {
    qn_onnx_item *item = item_at(call, input);
    qn_onnx_builder *b = call->builder;
    if (item && (item->turned || item->initializer) && b->graph->status == QN_OK &&
        (item->turned || item->value.id >= 0 || qn_onnx_type_is_real(item->initializer->type)))
        return ordered_parameter(b, item, order, trainable);
    const qn_value x = qn_onnx_plain(call, input);
    return order && x.id >= 0 ? reordered(b, x, order, item->name) : x;
}

qn_value qn_onnx_plain(qn_onnx_call *call, int input) {
    qn_onnx_item *item = item_at(call, input);
    int order[QN_MAX_RANK];
    qn_value x = qn_onnx_value_of(call, input);
    if (!item || !item->is_image || x.id < 0)
        return x;
    plain_order(qn_graph_shape(call->graph, x).rank, order);
    if (item->other.id < 0)
        item->other = reordered(call->builder, x, order, item->name);
    return item->other;
}

/* A tensor of the file that is to be an operand of an image: its axes in an image's order, with 1s
 * before. */
static qn_value image_operand(qn_onnx_call *call, int input, int rank) {
    int order[QN_MAX_RANK];
    const qn_shape small = qn_onnx_shape(call, input);
    if (small.rank == rank) {
        last_order(rank, order);
        return qn_onnx_parameter(call, input, order, true);
    }
    const char *name = qn_onnx_side_name(call, "operand");
    qn_shape shape = {.rank = rank};
    for (int i = 0; i < rank; i++)
        shape.dims[i] = i < rank - small.rank ? 1 : small.dims[i - (rank - small.rank)];
    last_order(rank, order);
    if (!name)
        return QN_NO_VALUE;
    const qn_value x = qn_reshape(call->graph, name, qn_onnx_plain(call, input), shape);
    return x.id < 0 ? x : reordered(call->builder, x, order, name);
}

qn_value qn_onnx_channels_last(qn_onnx_call *call, int input, int rank) {
    qn_onnx_item *item = item_at(call, input);
    int order[QN_MAX_RANK];
    const qn_shape shape = qn_onnx_shape(call, input);
    if (!item || call->graph->status != QN_OK)
        return QN_NO_VALUE;
    if (shape.rank > rank || rank < 3 || rank > QN_MAX_RANK) {
        qn_graph_fail(call->graph, QN_ERROR_UNSUPPORTED, "%s: its input %s has rank %d, not %d",
                      call->name, item->name, shape.rank, rank);
        return QN_NO_VALUE;
    }
    if (shape.rank < rank ||
        (item->initializer && qn_onnx_type_is_real(item->type) && is_weight(item)))
        return image_operand(call, input, rank);
    const qn_value x = qn_onnx_value_of(call, input);
    if (item->is_image || x.id < 0)
        return x;
    last_order(rank, order);
    if (item->other.id < 0)
        item->other = reordered(call->builder, x, order, item->name);
    return item->other;
}

qn_value qn_onnx_image(qn_onnx_call *call, int input) {
    return qn_onnx_channels_last(call, input, 4);
}

bool qn_onnx_is_even(const qn_onnx_call *call, int input) {
    const qn_onnx_item *item = item_at(call, input);
    int64_t file, now;
    qn_onnx_batch(call, &file, &now);
    if (!item || file == now || file < 1 || qn_onnx_shape(call, input).rank < 1)
        return false;
    return item->row.id >= 0 ? item->n_rows == file
                             : file == 1 && qn_onnx_shape(call, input).dims[0] == 1;
}

/* Its one row in the layout that is asked for. */
static qn_value row_of(qn_onnx_call *call, int input, bool is_image) {
    const qn_onnx_item *item = item_at(call, input);
    int order[QN_MAX_RANK];
    if (item->row.id < 0)
        return is_image ? qn_onnx_channels_last(call, input, qn_onnx_shape(call, input).rank)
                        : qn_onnx_plain(call, input);
    last_order(qn_graph_shape(call->graph, item->row).rank, order);
    return is_image ? reordered(call->builder, item->row, order, item->row_name) : item->row;
}

qn_value qn_onnx_for_batch(qn_onnx_call *call, int input, bool is_image) {
    const qn_value x = row_of(call, input, is_image);
    qn_shape shape = qn_graph_shape(call->graph, x);
    shape.dims[0] = call->builder->batch;
    return x.id < 0 ? x : qn_expand(call->graph, qn_onnx_side_name(call, "batch"), x, shape);
}

/* ---- outputs ---- */

static qn_onnx_item *output_item(const qn_onnx_call *call, int output) {
    return output < call->node->n_outputs
               ? qn_onnx_find_item(call->builder, call->node->outputs[output])
               : NULL;
}

qn_onnx_type qn_onnx_type_of_value(const qn_graph *graph, qn_value value) {
    const qn_dtype dtype = qn_graph_tensor(graph, value).dtype;
    return dtype == QN_I32 || dtype == QN_I64 ? QN_ONNX_INT64 : QN_ONNX_FLOAT;
}

void qn_onnx_give_typed(qn_onnx_call *call, int output, qn_value value, bool is_image,
                        qn_onnx_type type) {
    qn_onnx_item *item = output_item(call, output);
    if (!item)
        return;
    item->value = value;
    item->type = type;
    item->is_image = is_image;
}

void qn_onnx_give(qn_onnx_call *call, int output, qn_value value, bool is_image) {
    qn_onnx_give_typed(call, output, value, is_image, qn_onnx_type_of_value(call->graph, value));
}

static qn_status give_constant(qn_onnx_call *call, int output, qn_onnx_type type, qn_shape shape,
                               const void *numbers) {
    qn_onnx_item *item = output_item(call, output);
    qn_onnx_constant *constant = qn_onnx_scratch(call, sizeof *constant);
    const int64_t n = qn_shape_count(shape);
    void *copy = qn_onnx_scratch(call, ((size_t)n + 1) * sizeof(double));
    if (!constant || !copy)
        return QN_ERROR_MEMORY;
    memcpy(copy, numbers, (size_t)n * sizeof(double));
    const bool is_real = qn_onnx_type_is_real(type);
    *constant = (qn_onnx_constant){.type = type,
                                   .shape = shape,
                                   .n = n,
                                   .reals = is_real ? copy : NULL,
                                   .whole = is_real ? NULL : copy};
    if (item) {
        item->constant = constant;
        item->type = type;
    }
    return QN_OK;
}

qn_status qn_onnx_give_whole(qn_onnx_call *call, int output, qn_onnx_type type, qn_shape shape,
                             const int64_t *whole) {
    return give_constant(call, output, type, shape, whole);
}

qn_status qn_onnx_give_reals(qn_onnx_call *call, int output, qn_shape shape, const double *reals) {
    return give_constant(call, output, QN_ONNX_FLOAT, shape, reals);
}

static bool is_even(const qn_onnx_tensor *tensor) {
    const size_t width = qn_onnx_type_bytes(tensor->type);
    const char *data = tensor->data;
    return tensor->bytes > width && memcmp(data, data + width, tensor->bytes - width) == 0;
}

/* A weight given on keeps its parameter: that is made before it gets a second name. Exporters let
 * one that is all ones, or zeros, stand for all that begin so, by "Identity": these are parameters
 * of their own. */
void qn_onnx_give_input(qn_onnx_call *call, int output, int input) {
    qn_onnx_item *from = item_at(call, input), *to = output_item(call, output);
    if (!from || !to)
        return;
    const char *name = to->name;
    const bool is_strided =
        is_weight(from) && strcmp(call->node->type, "Identity") == 0 && is_even(from->initializer);
    if (is_weight(from) && !is_strided)
        qn_onnx_value_of(call, input);
    *to = *from;
    to->name = name;
    if (is_strided) {
        to->value = to->other = QN_NO_VALUE;
        to->is_statistic = false;
    }
}

void qn_onnx_give_rows(qn_onnx_call *call, int output, qn_value row, int64_t n_rows) {
    qn_onnx_item *item = output_item(call, output);
    if (!item)
        return;
    item->row = row;
    item->row_name = call->name;
    item->n_rows = n_rows;
    item->type = qn_onnx_type_of_value(call->graph, row);
}

bool qn_onnx_give_turned(qn_onnx_call *call, const int *order) {
    qn_onnx_item *from = item_at(call, 0), *to = output_item(call, 0);
    if (!from || !to || !is_weight(from) || from->initializer->n_dims != 2 || order[0] != 1)
        return false;
    to->turned = from;
    to->type = from->type;
    return true;
}

bool qn_onnx_is_weight(const qn_onnx_call *call, int input) {
    const qn_onnx_item *item = item_at(call, input);
    return item && (item->initializer || item->turned);
}

/* Whether the node is one of the file's own graph, and not inside of another. */
static bool is_of_model(const qn_onnx_call *call) {
    const qn_onnx_model *m = call->builder->model;
    return call->node >= m->nodes && call->node < m->nodes + m->n_nodes;
}

bool qn_onnx_is_used(const qn_onnx_call *call, int output) {
    const qn_onnx_item *item = output_item(call, output);
    const qn_onnx_model *m = call->builder->model;
    if (item && !is_of_model(call))
        return true; /* inside of another node: whoever reads it is there */
    for (int n = 0; item && n < m->n_nodes; n++) {
        if (qn_onnx_node_reads(&m->nodes[n], item->name))
            return true;
    }
    for (int i = 0; item && i < m->n_outputs; i++) {
        if (strcmp(m->outputs[i].name, item->name) == 0)
            return true;
    }
    return false;
}

void qn_onnx_batch(const qn_onnx_call *call, int64_t *file, int64_t *now) {
    *file = call->builder->file_batch;
    *now = call->builder->batch;
}

void *qn_onnx_scratch(qn_onnx_call *call, size_t bytes) {
    static const size_t MOST = (size_t)1 << 30;
    if (bytes > MOST) {
        qn_graph_fail(call->graph, QN_ERROR_UNSUPPORTED,
                      "%s makes more than %zu bytes of numbers at import", call->name, MOST);
        return NULL;
    }
    void *memory = qn_arena_allocate(&call->builder->arena, 1, bytes + 1);
    if (!memory)
        qn_graph_fail(call->graph, QN_ERROR_MEMORY, "%s", qn_error_message());
    return memory;
}
