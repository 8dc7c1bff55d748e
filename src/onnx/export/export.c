/* Writes networks as ONNX files of opset 17. The graph is the one that trains, so that dropout and
 * the momentum of batch norm come along: a runtime takes these for what they are in inference, an
 * import gets them back; of networks that are no classifiers it is the bare one. Only what the
 * outputs depend on is written, in the graph's order; nodes and parameters keep their names. The
 * network is built twice, with two batches, and two lengths of sequences where it takes any:
 * extents that differ are the batch or a length, or follow from them, and are open in the file. One
 * that another batch would make another network is written for the batch that it was made for. Left
 * out: losses, gradients, updates. */
#include "onnx/export/export.h"

#include "base/options.h"
#include "base/status.h"
#include "models/models.h"
#include "ops/ops.h"
#include "os/heap.h"
#include "passes/head.h"
#include "passes/quantise.h"
#include "quern/onnx.h"
#include "run/store.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { IR_VERSION = 8, OPSET = 17, MOST_ATTRIBUTES = 8 };
enum { MOST_INPUTS = 5 }; /* of a node: room for at least so many */
enum { BATCH = 7, OTHER_BATCH = 11 };
enum { LENGTH = 101, TARGET_LENGTH = 211, LONGER = 2 }; /* likewise, and by how much in the other */

struct qn_onnx_exporter {
    const qn_onnx_export_options *options;
    const qn_allocator *allocator;
    qn_arena arena;
    qn_graph *graph;
    qn_graph *other; /* of another batch, node by node the same; null: the batch is a fixed one */
    qn_store store;  /* of starting values */
    qn_onnx_narrow *narrow; /* (n_narrow) */
    int n_narrow;
    const char *(*names)[2]; /* (n_values), by order; null: not there */
    bool *wanted;            /* (n_nodes) */
    bool *used;              /* (n_values) */
    qn_onnx_node *nodes;
    qn_onnx_tensor *tensors;
    size_t node_capacity, tensor_capacity;
    qn_onnx_model model;
    qn_metadata *pairs; /* the caller's, and what the preparation adds */
    qn_onnx_inside inside;
    qn_status status;
};

const qn_graph *qn_onnx_exporter_graph(const qn_onnx_exporter *e) {
    return e->graph;
}

const qn_onnx_export_options *qn_onnx_exporter_options(const qn_onnx_exporter *e) {
    return e->options;
}

qn_onnx_inside *qn_onnx_exporter_inside(qn_onnx_exporter *e) {
    return &e->inside;
}

void qn_onnx_export_fail(qn_onnx_exporter *e, qn_status status, const char *message) {
    if (e->status == QN_OK)
        e->status = qn_fail(status, "%s", message);
}

/* count * size zeroed bytes; null after a failure. */
static void *place(qn_onnx_exporter *e, size_t count, size_t size) {
    void *memory = e->status == QN_OK ? qn_arena_allocate(&e->arena, count + 1, size) : NULL;
    if (!memory && e->status == QN_OK)
        e->status = QN_ERROR_MEMORY;
    return memory;
}

void *qn_onnx_room(qn_onnx_exporter *e, size_t count, size_t size) {
    return place(e, count, size);
}

/* A text that was made in the arena; null after a failure. */
static const char *check_text(qn_onnx_exporter *e, const char *text) {
    if (!text && e->status == QN_OK)
        e->status = QN_ERROR_MEMORY;
    return text;
}

const char *qn_onnx_text_with(qn_onnx_exporter *e, const char *begin, const char *end) {
    return check_text(e, qn_arena_format(&e->arena, "%s%s", begin, end));
}

const qn_onnx_node *qn_onnx_exporter_nodes(const qn_onnx_exporter *e, int *n) {
    *n = e->model.n_nodes;
    return e->nodes;
}

const qn_onnx_tensor *qn_onnx_exporter_tensors(const qn_onnx_exporter *e, int *n) {
    *n = e->model.n_initializers;
    return e->tensors;
}

qn_status qn_onnx_exporter_status(const qn_onnx_exporter *e) {
    return e->status;
}

int64_t qn_onnx_other_extent(const qn_onnx_exporter *e, qn_value value, int axis) {
    return qn_graph_shape(e->other ? e->other : e->graph, value).dims[axis];
}

bool qn_onnx_is_open(const qn_onnx_exporter *e, qn_value value, int axis) {
    return qn_onnx_other_extent(e, value, axis) != qn_graph_shape(e->graph, value).dims[axis];
}

const qn_node *qn_onnx_other_node(const qn_onnx_exporter *e, const qn_node *node) {
    return e->other ? e->other->nodes[qn_graph_value(e->graph, node->outputs[0])->producer] : node;
}

const void *qn_onnx_field(const qn_node *node, const char *name) {
    for (const qn_attribute *a = node->op->attributes; a && a->name; a++) {
        if (strcmp(a->name, name) == 0)
            return (const char *)node->attributes + a->offset;
    }
    return NULL;
}

/* ---- nodes ---- */

qn_onnx_node *qn_onnx_put(qn_onnx_exporter *e, const char *type, const char *name,
                          const char *const *inputs, int n_inputs, const char *output) {
    while (n_inputs > 0 && inputs[n_inputs - 1] && !*inputs[n_inputs - 1])
        n_inputs--; /* left out */
    const int n_places = n_inputs > MOST_INPUTS ? n_inputs : MOST_INPUTS;
    const char **places = place(e, (size_t)n_places + 1, sizeof *places);
    qn_onnx_attribute *attributes = place(e, MOST_ATTRIBUTES, sizeof *attributes);
    if (e->status == QN_OK)
        e->status = qn_grow(e->allocator, &e->nodes, &e->node_capacity,
                            (size_t)e->model.n_nodes + 1, sizeof *e->nodes);
    if (e->status != QN_OK)
        return NULL;
    for (int i = 0; i < n_inputs; i++)
        places[i] = inputs[i];
    places[n_places] = output;
    qn_onnx_node *node = &e->nodes[e->model.n_nodes++];
    *node = (qn_onnx_node){.name = name,
                           .type = type,
                           .domain = "",
                           .n_inputs = n_inputs,
                           .n_outputs = 1,
                           .inputs = places,
                           .outputs = places + n_places,
                           .attributes = attributes};
    return node;
}

qn_onnx_node *qn_onnx_put_all(qn_onnx_exporter *e, const char *type, const qn_node *node,
                              qn_onnx_order order, const char *output) {
    const char **inputs = place(e, (size_t)node->n_inputs, sizeof *inputs);
    for (int i = 0; inputs && i < node->n_inputs; i++)
        inputs[i] = qn_onnx_name(e, node->inputs[i], order);
    return inputs ? qn_onnx_put(e, type, node->name, inputs, node->n_inputs, output) : NULL;
}

void qn_onnx_put_outputs(qn_onnx_exporter *e, qn_onnx_node *node, const char *const *names, int n) {
    const char **kept = place(e, (size_t)n, sizeof *kept);
    if (!kept || !node)
        return;
    memcpy(kept, names, (size_t)n * sizeof *kept);
    node->outputs = kept;
    node->n_outputs = n;
}

qn_onnx_node *qn_onnx_last(qn_onnx_exporter *e) {
    return e->model.n_nodes > 0 ? &e->nodes[e->model.n_nodes - 1] : NULL;
}

static void put_attribute(qn_onnx_node *node, const qn_onnx_attribute *attribute) {
    if (node && node->n_attributes < MOST_ATTRIBUTES)
        ((qn_onnx_attribute *)node->attributes)[node->n_attributes++] = *attribute;
}

void qn_onnx_put_int(qn_onnx_exporter *e, qn_onnx_node *node, const char *name, int64_t value) {
    (void)e;
    put_attribute(
        node, &(qn_onnx_attribute){.name = name, .kind = QN_ONNX_ATTRIBUTE_INT, .count = value});
}

void qn_onnx_put_float(qn_onnx_exporter *e, qn_onnx_node *node, const char *name, double value) {
    (void)e;
    put_attribute(node, &(qn_onnx_attribute){
                            .name = name, .kind = QN_ONNX_ATTRIBUTE_FLOAT, .number = (float)value});
}

void qn_onnx_put_text(qn_onnx_exporter *e, qn_onnx_node *node, const char *name, const char *text) {
    (void)e;
    put_attribute(node,
                  &(qn_onnx_attribute){.name = name, .kind = QN_ONNX_ATTRIBUTE_TEXT, .text = text});
}

void qn_onnx_put_ints(qn_onnx_exporter *e, qn_onnx_node *node, const char *name,
                      const int64_t *values, int n) {
    int64_t *kept = place(e, (size_t)n, sizeof *kept);
    if (!kept)
        return;
    memcpy(kept, values, (size_t)n * sizeof *kept);
    put_attribute(node, &(qn_onnx_attribute){
                            .name = name, .kind = QN_ONNX_ATTRIBUTE_INTS, .n = n, .counts = kept});
}

/* ---- initialisers ---- */

const char *qn_onnx_put_tensor(qn_onnx_exporter *e, const char *name, qn_onnx_type type,
                               const int64_t *dims, int n_dims, const void *data, size_t bytes) {
    int64_t *kept = place(e, (size_t)n_dims, sizeof *kept);
    if (e->status == QN_OK)
        e->status = qn_grow(e->allocator, &e->tensors, &e->tensor_capacity,
                            (size_t)e->model.n_initializers + 1, sizeof *e->tensors);
    if (e->status != QN_OK)
        return NULL;
    if (n_dims > 0)
        memcpy(kept, dims, (size_t)n_dims * sizeof *kept);
    e->tensors[e->model.n_initializers++] = (qn_onnx_tensor){
        .name = name, .type = type, .n_dims = n_dims, .dims = kept, .bytes = bytes, .data = data};
    return name;
}

const char *qn_onnx_number(qn_onnx_exporter *e, qn_onnx_type type, double number) {
    const size_t bytes = qn_onnx_type_bytes(type);
    const char *name = check_text(
        e, qn_arena_format(&e->arena, "constant/%s/%.9g", qn_onnx_type_name(type), number));
    for (int i = 0; name && i < e->model.n_initializers; i++) {
        if (strcmp(e->tensors[i].name, name) == 0)
            return e->tensors[i].name;
    }
    double *data = place(e, 1, sizeof *data);
    if (!data)
        return NULL;
    const float single = (float)number;
    /* beyond all whole numbers for float types alone */
    const int64_t whole = fabs(number) < 9e18 ? (int64_t)number : 0;
    const int32_t narrow = (int32_t)whole;
    memcpy(data,
           type == QN_ONNX_FLOAT   ? (const void *)&single
           : type == QN_ONNX_INT64 ? (const void *)&whole
           : type == QN_ONNX_INT32 ? (const void *)&narrow
                                   : (const void *)&number,
           bytes);
    return qn_onnx_put_tensor(e, name, type, NULL, 0, data, bytes);
}

const char *qn_onnx_zeros(qn_onnx_exporter *e, qn_onnx_type type, int64_t n) {
    const size_t count = n < 0 ? 1 : (size_t)n, bytes = qn_onnx_type_bytes(type);
    const char *name = check_text(
        e, qn_arena_format(&e->arena, "zeros/%s/%lld", qn_onnx_type_name(type), (long long)n));
    for (int i = 0; name && i < e->model.n_initializers; i++) {
        if (strcmp(e->tensors[i].name, name) == 0)
            return e->tensors[i].name;
    }
    const void *data = place(e, count, bytes);
    return data ? qn_onnx_put_tensor(e, name, type, &n, n >= 0, data, count * bytes) : NULL;
}

const char *qn_onnx_whole(qn_onnx_exporter *e, const char *name, const int64_t *values, int n) {
    int64_t *data = place(e, (size_t)n, sizeof *data);
    const int64_t dims[] = {n};
    if (!data)
        return NULL;
    memcpy(data, values, (size_t)n * sizeof *data);
    return qn_onnx_put_tensor(e, name, QN_ONNX_INT64, dims, 1, data, (size_t)n * sizeof *data);
}

const char *qn_onnx_reals(qn_onnx_exporter *e, const char *name, const double *values, int n) {
    return qn_onnx_real_tensor(e, name, values, (const int64_t[]){n}, 1);
}

const char *qn_onnx_real_tensor(qn_onnx_exporter *e, const char *name, const double *values,
                                const int64_t *dims, int n_dims) {
    size_t n = 1;
    for (int i = 0; i < n_dims; i++)
        n *= (size_t)dims[i];
    float *data = place(e, n, sizeof *data);
    for (size_t i = 0; data && i < n; i++)
        data[i] = (float)values[i];
    return data ? qn_onnx_put_tensor(e, name, QN_ONNX_FLOAT, dims, n_dims, data, n * sizeof *data)
                : NULL;
}

/* The numbers of a parameter: the engine's, or those it starts with. */
static bool find_data(qn_onnx_exporter *e, const qn_value_info *info, qn_stored_tensor *stored) {
    const qn_stored_tensor *start = qn_store_find(&e->store, info->name);
    *stored = e->options->engine ? qn_engine_find(e->options->engine, info->name)
                                 : (start ? *start : (qn_stored_tensor){0});
    if (stored->data && qn_shape_equal(stored->shape, info->tensor.shape))
        return true;
    if (e->status == QN_OK)
        e->status =
            qn_fail(QN_ERROR_ARGUMENT, "the weights have no %s of the network's shape", info->name);
    return false;
}

static float number_at(const qn_stored_tensor *stored, int64_t i) {
    return stored->dtype == QN_F64 ? (float)((const double *)stored->data)[i]
                                   : ((const float *)stored->data)[i];
}

/* Whole numbers that the network was built with, as they are. */
static const char *put_indices(qn_onnx_exporter *e, const qn_value_info *info) {
    qn_stored_tensor stored;
    return find_data(e, info, &stored)
               ? qn_onnx_put_tensor(e, info->name, QN_ONNX_INT32, info->tensor.shape.dims,
                                    info->tensor.shape.rank, stored.data, stored.bytes)
               : NULL;
}

int64_t qn_onnx_index_in(qn_onnx_order order, qn_shape shape, int64_t i) {
    if (order == QN_ONNX_PLAIN || shape.rank < 3)
        return i;
    const int64_t columns = shape.dims[shape.rank - 1];
    const int64_t between = qn_shape_count(shape) / shape.dims[0] / columns;
    const int64_t c = i % columns, b = i / columns % between, a = i / columns / between;
    return (a * columns + c) * between + b;
}

int qn_onnx_dims_in(qn_onnx_order order, qn_shape shape, int64_t *dims) {
    const bool moves = order == QN_ONNX_CHANNELS_SECOND && shape.rank > 2;
    for (int i = 0; i < shape.rank; i++)
        dims[i] = shape.dims[!moves || i == 0 ? i : i == 1 ? shape.rank - 1 : i - 1];
    return shape.rank;
}

/* A parameter (A, ..., C) as it is, where it lies if it can be, or as (A, C, ...). */
static const char *put_parameter(qn_onnx_exporter *e, const qn_value_info *info,
                                 qn_onnx_order order) {
    const qn_shape shape = info->tensor.shape;
    const int64_t n = qn_shape_count(shape);
    const bool moves = order == QN_ONNX_CHANNELS_SECOND && shape.rank > 2;
    int64_t dims[QN_MAX_RANK];
    qn_stored_tensor stored;
    if (info->tensor.dtype == QN_I32)
        return put_indices(e, info);
    if (!find_data(e, info, &stored))
        return NULL;
    const bool is_there = !moves && stored.dtype == QN_F32;
    float *data = is_there ? stored.data : place(e, (size_t)n, sizeof *data);
    if (!data)
        return NULL;
    for (int64_t i = 0; i < n && !is_there; i++)
        data[qn_onnx_index_in(order, shape, i)] = number_at(&stored, i);
    return qn_onnx_put_tensor(e, info->name, QN_ONNX_FLOAT, dims,
                              qn_onnx_dims_in(order, shape, dims), data, (size_t)n * sizeof *data);
}

/* Whether layers are written without a bias, as the numerics leave it out. */
static bool is_left_out(const qn_onnx_exporter *e, const qn_value_info *info) {
    return e->options->numerics && info->kind == QN_KIND_PARAMETER && info->producer < 0 &&
           info->tensor.shape.rank == 1 && e->options->numerics->drops_bias &&
           !qn_engine_find(e->options->engine, info->name).data;
}

/* ---- extents ---- */

int64_t qn_onnx_axis_in(qn_onnx_order order, int64_t axis, int rank) {
    if (order == QN_ONNX_PLAIN || axis == 0)
        return axis;
    return axis == rank - 1 ? 1 : axis + 1;
}

/* The list of one number that is the batch when it runs. */
static const char *put_batch(qn_onnx_exporter *e, const char *list) {
    const qn_onnx_value *inputs = e->model.inputs;
    int i = 0;
    while (i < e->model.n_inputs &&
           (inputs[i].n_dims < 1 || strcmp(inputs[i].symbols[0], "N") != 0))
        i++;
    if (i == e->model.n_inputs) {
        qn_onnx_export_fail(e, QN_ERROR_UNSUPPORTED, "no input begins with the batch");
        return NULL;
    }
    const char *name = check_text(e, qn_arena_format(&e->arena, "%s/batch", list));
    qn_onnx_node *node = qn_onnx_put(e, "Shape", name, &inputs[i].name, 1, name);
    qn_onnx_put_int(e, node, "start", 0);
    qn_onnx_put_int(e, node, "end", 1);
    return name;
}

const char *qn_onnx_shape_list(qn_onnx_exporter *e, const char *name, const int64_t *values,
                               const int64_t *other, int n) {
    const char *parts[QN_MAX_RANK], *batch = NULL;
    if (memcmp(values, other, (size_t)n * sizeof *values) == 0)
        return qn_onnx_whole(e, name, values, n);
    for (int i = 0; i < n; i++) {
        const int64_t times = values[i] / BATCH;
        const char *part = check_text(e, qn_arena_format(&e->arena, "%s/%d", name, i));
        if (other[i] == values[i]) {
            parts[i] = qn_onnx_whole(e, part, &values[i], 1);
            continue;
        }
        if (values[i] % BATCH != 0 || other[i] != times * OTHER_BATCH)
            qn_onnx_export_fail(e, QN_ERROR_UNSUPPORTED,
                                "an extent is not a multiple of the batch");
        batch = batch ? batch : put_batch(e, name);
        parts[i] = times == 1 ? batch : part;
        const char *factors[] = {batch, qn_onnx_number(e, QN_ONNX_INT64, (double)times)};
        if (times != 1)
            qn_onnx_put(e, "Mul", part, factors, 2, part);
    }
    qn_onnx_put_int(e, qn_onnx_put(e, "Concat", name, parts, n, name), "axis", 0);
    return name;
}

/* ---- names ---- */

qn_onnx_order qn_onnx_order_of(const qn_onnx_exporter *e, qn_value value) {
    const bool is_second =
        !e->names[value.id][QN_ONNX_PLAIN] && e->names[value.id][QN_ONNX_CHANNELS_SECOND];
    return is_second ? QN_ONNX_CHANNELS_SECOND : QN_ONNX_PLAIN;
}

const char *qn_onnx_call_it(qn_onnx_exporter *e, qn_value value, qn_onnx_order order,
                            const char *name) {
    if (qn_graph_shape(e->graph, value).rank < 3)
        order = QN_ONNX_PLAIN;
    return e->names[value.id][order] = name ? name : qn_graph_value(e->graph, value)->name;
}

void qn_onnx_rename(qn_onnx_exporter *e, qn_value value, qn_onnx_order order, const char *name) {
    e->names[value.id][QN_ONNX_PLAIN] = e->names[value.id][QN_ONNX_CHANNELS_SECOND] = NULL;
    qn_onnx_call_it(e, value, order, name);
}

const char *qn_onnx_part(qn_onnx_exporter *e, const qn_node *node, const char *suffix) {
    return check_text(e, qn_arena_format(&e->arena, "%s/%s", node->name, suffix));
}

/* The other order of a value that is there in one. */
static const char *put_transpose(qn_onnx_exporter *e, qn_value value, qn_onnx_order order) {
    const qn_value_info *info = qn_graph_value(e->graph, value);
    const int rank = info->tensor.shape.rank;
    const bool is_second = order == QN_ONNX_CHANNELS_SECOND;
    int64_t axes[QN_MAX_RANK] = {0};
    for (int i = 1; i < rank; i++)
        axes[i] = is_second ? (i == 1 ? rank - 1 : i - 1) : (i == rank - 1 ? 1 : i + 1);
    const char *name = check_text(
        e, qn_arena_format(&e->arena, "%s/channels_%s", info->name, is_second ? "second" : "last"));
    qn_onnx_node *node = qn_onnx_put(e, "Transpose", name, &e->names[value.id][!order], 1, name);
    qn_onnx_put_ints(e, node, "perm", axes, rank);
    return name;
}

const char *qn_onnx_name(qn_onnx_exporter *e, qn_value value, qn_onnx_order order) {
    const qn_value_info *info = qn_graph_value(e->graph, value);
    if (!info || e->status != QN_OK)
        return "";
    const char **names = e->names[value.id];
    const qn_onnx_narrow *narrow = qn_onnx_find_narrow(e, value);
    if (info->tensor.shape.rank < 3)
        order = QN_ONNX_PLAIN;
    if (is_left_out(e, info))
        return "";
    if (!names[order] && narrow && narrow->numbers)
        names[order] = qn_onnx_put_narrow(e, narrow, value, order);
    else if (!names[order] && names[!order])
        names[order] = put_transpose(e, value, order);
    else if (!names[order] && info->producer < 0 && info->kind == QN_KIND_PARAMETER)
        names[order] = put_parameter(e, info, order);
    if (!names[order]) {
        qn_onnx_export_fail(e, QN_ERROR_UNSUPPORTED, "a value that is given is not an input");
        return "";
    }
    return names[order];
}

const qn_onnx_narrow *qn_onnx_find_narrow(const qn_onnx_exporter *e, qn_value value) {
    const char *name = qn_graph_value(e->graph, value)->name;
    for (int i = 0; i < e->n_narrow; i++) {
        if (strcmp(e->narrow[i].name, name) == 0)
            return &e->narrow[i];
    }
    return NULL;
}

/* ---- the graph ---- */

static const qn_onnx_writer *find_writer(const qn_node *node) {
    const qn_onnx_writer *w = qn_onnx_writers;
    while (w->op && strcmp(w->op, node->op->name) != 0)
        w++;
    return w->op ? w : NULL;
}

/* What a node reads as it is written. */
static int list_read(const qn_graph *graph, const qn_node *node, qn_value *read,
                     const qn_value **list) {
    const qn_onnx_writer *w = find_writer(node);
    *list = w && w->read ? read : node->inputs;
    return w && w->read ? w->read(graph, node, read) : node->n_inputs;
}

static void mark_producer(qn_onnx_exporter *e, qn_value value) {
    const qn_value_info *info = qn_graph_value(e->graph, value);
    if (info && info->producer >= 0)
        e->wanted[info->producer] = true;
}

/* Marks what the outputs depend on, nodes and the values that they read. */
static void mark(qn_onnx_exporter *e, const qn_value *outputs, int n_outputs) {
    const qn_graph *g = e->graph;
    qn_value read[QN_ONNX_MOST_READ];
    const qn_value *list;
    for (int i = 0; i < n_outputs; i++)
        mark_producer(e, outputs[i]);
    for (int n = g->n_nodes - 1; n >= 0; n--) {
        const int n_read = e->wanted[n] ? list_read(g, g->nodes[n], read, &list) : 0;
        for (int i = 0; i < n_read; i++) {
            mark_producer(e, list[i]);
            if (list[i].id >= 0)
                e->used[list[i].id] = true;
        }
    }
}

static void write_node(qn_onnx_exporter *e, const qn_node *node) {
    const qn_onnx_writer *w = find_writer(node);
    if (w)
        w->write(e, node);
    else if (e->status == QN_OK)
        e->status =
            qn_fail(QN_ERROR_UNSUPPORTED, "%s: nothing in ONNX is written for the operator %s",
                    node->name, node->op->name);
    if (e->n_narrow > 0 && e->status == QN_OK)
        qn_onnx_round(e, node->outputs[0]);
}

/* What an open extent is called: N, or a multiple of it; T, and U, lengths. */
static const char *symbol_of(qn_onnx_exporter *e, int64_t extent, int64_t other) {
    if (other == extent + LONGER && (extent == LENGTH || extent == TARGET_LENGTH))
        return extent == LENGTH ? "T" : "U";
    const int64_t times = extent / BATCH;
    if (extent % BATCH != 0 || other != times * OTHER_BATCH)
        return "";
    return times == 1 ? "N" : check_text(e, qn_arena_format(&e->arena, "N*%lld", (long long)times));
}

/* A place of the file for a value of the graph, images with their channels second. */
static void describe(qn_onnx_exporter *e, qn_value value, qn_onnx_value *to) {
    const qn_value_info *info = qn_graph_value(e->graph, value);
    const qn_shape shape = info->tensor.shape;
    const bool is_second = qn_onnx_order_of(e, value) == QN_ONNX_CHANNELS_SECOND;
    int64_t *dims = place(e, QN_MAX_RANK, sizeof *dims);
    const char **symbols = place(e, QN_MAX_RANK, sizeof *symbols);
    if (!dims || !symbols)
        return;
    for (int i = 0; i < shape.rank; i++) {
        const int axis = !is_second || i == 0 ? i : i == 1 ? shape.rank - 1 : i - 1;
        const int64_t other = qn_onnx_other_extent(e, value, axis);
        const bool is_open = other != shape.dims[axis];
        dims[i] = is_open ? -1 : shape.dims[axis];
        symbols[i] = is_open ? symbol_of(e, shape.dims[axis], other) : "";
    }
    *to = (qn_onnx_value){.name = e->names[value.id][is_second],
                          .type = info->tensor.dtype == QN_I32 ? QN_ONNX_INT32 : QN_ONNX_FLOAT,
                          .n_dims = shape.rank,
                          .dims = dims,
                          .symbols = symbols};
}

/* Whether a value is only flattened: to a network of rows images are nothing but rows. */
static bool is_flattened(const qn_onnx_exporter *e, int32_t value) {
    const qn_graph *g = e->graph;
    qn_value read[QN_ONNX_MOST_READ];
    const qn_value *list;
    for (int n = 0; n < g->n_nodes; n++) {
        const int n_read = e->wanted[n] ? list_read(g, g->nodes[n], read, &list) : 0;
        for (int i = 0; i < n_read; i++) {
            if (list[i].id == value && !g->nodes[n]->op->is_view)
                return false;
        }
    }
    return true;
}

/* What prepares samples, between the file's input and what the network reads. */
static void put_preparation(qn_onnx_exporter *e, qn_value value, bool is_image, const char *input) {
    const qn_onnx_order order = is_image ? QN_ONNX_CHANNELS_SECOND : QN_ONNX_PLAIN;
    const int n_axes = qn_graph_shape(e->graph, value).rank - 1;
    const char *name = qn_onnx_prepare(e, input, is_image, n_axes);
    if (name)
        e->names[value.id][order] = name;
}

static void write_inputs(qn_onnx_exporter *e) {
    const qn_graph *g = e->graph;
    qn_onnx_value *inputs = place(e, (size_t)g->n_values, sizeof *inputs);
    for (int v = 0; inputs && v < g->n_values; v++) {
        const qn_value_info *info = g->values[v];
        if (info->producer >= 0 || info->kind != QN_KIND_INPUT || !e->used[v])
            continue;
        const bool is_image = info->tensor.shape.rank == 4 && !is_flattened(e, v);
        qn_onnx_call_it(e, (qn_value){v}, is_image ? QN_ONNX_CHANNELS_SECOND : QN_ONNX_PLAIN, NULL);
        describe(e, (qn_value){v}, &inputs[e->model.n_inputs++]);
        if (e->options->preparation)
            put_preparation(e, (qn_value){v}, is_image, inputs[0].name);
        if (e->n_narrow > 0 && e->status == QN_OK)
            qn_onnx_round(e, (qn_value){v});
    }
    e->model.inputs = inputs;
}

/* Outputs that are scaled targets go out in their units. */
static void restore_targets(qn_onnx_exporter *e, qn_value output) {
    const qn_shape shape = qn_graph_shape(e->graph, output);
    const char **name = &e->names[output.id][QN_ONNX_PLAIN];
    if (shape.rank > 0 && *name)
        *name = qn_onnx_restore_targets(e, *name, shape.dims[shape.rank - 1], "targets");
}

static void write_outputs(qn_onnx_exporter *e, const qn_value *outputs, int n_outputs) {
    qn_onnx_value *places = place(e, (size_t)n_outputs, sizeof *places);
    for (int i = 0; places && i < n_outputs; i++) {
        const bool is_image = qn_graph_shape(e->graph, outputs[i]).rank == 4;
        qn_onnx_name(e, outputs[i], is_image ? QN_ONNX_CHANNELS_SECOND : QN_ONNX_PLAIN);
        if (e->status != QN_OK)
            return;
        if (is_image)
            e->names[outputs[i].id][QN_ONNX_PLAIN] = NULL; /* it is this order that goes out */
        if (n_outputs == 1)
            restore_targets(e, outputs[i]);
        describe(e, outputs[i], &places[i]);
    }
    e->model.n_outputs = n_outputs;
    e->model.outputs = places;
}

static void write_graph(qn_onnx_exporter *e, const qn_value *outputs, int n_outputs) {
    const qn_graph *g = e->graph;
    write_inputs(e);
    for (int n = 0; n < g->n_nodes && e->status == QN_OK; n++) {
        if (e->wanted[n])
            write_node(e, g->nodes[n]);
    }
    if (e->status == QN_OK)
        write_outputs(e, outputs, n_outputs);
}

/* ---- models ---- */

qn_value qn_onnx_build_classifier(const qn_onnx_exporter *e, qn_graph *graph, int64_t batch) {
    const qn_model *model = e->options->model;
    const qn_shape sample = e->options->input.rank > 0 ? e->options->input : model->input;
    qn_shape shape = {.rank = sample.rank + 1, .dims = {batch}};
    const int n_outputs =
        e->options->n_outputs > 0 ? e->options->n_outputs : qn_model_classes(model, sample);
    memcpy(shape.dims + 1, sample.dims, (size_t)sample.rank * sizeof *sample.dims);
    const qn_engine *engine = e->options->engine;
    return qn_build_outputs(graph, model, qn_input(graph, "input", shape), n_outputs,
                            engine ? qn_engine_get_options(engine)->tuning.head : NULL);
}

/* The bare network of another task. */
static void build_network(const qn_onnx_exporter *e, qn_graph *graph, int64_t batch) {
    const qn_model *model = e->options->model;
    qn_network_sizes sizes = e->options->sizes ? *e->options->sizes : model->sizes;
    const int more = batch == OTHER_BATCH ? LONGER : 0;
    qn_value kept[QN_MAX_KEPT];
    if (!e->options->sizes && model->task && strcmp(model->task, "answering") == 0)
        sizes.variant = QN_ANSWER_PADDED; /* as the task trains it */
    sizes.batch = batch;
    sizes.is_bare = true;
    if (!model->has_fixed_length) {
        sizes.length = LENGTH + more;
        sizes.target_length = TARGET_LENGTH + more;
    }
    for (int i = 0; i < QN_MAX_KEPT; i++)
        kept[i] = QN_NO_VALUE;
    model->network(graph, model->user, &sizes, 0, kept);
}

/* With what numerics add to the network. */
static qn_status prepare(const qn_onnx_exporter *e, qn_graph **graph) {
    qn_graph *made;
    const qn_value *values;
    QN_TRY(qn_quantise_prepare(*graph, e->options->numerics, 0, &made, &values));
    if (made) {
        qn_graph_destroy(*graph);
        *graph = made;
    }
    return QN_OK;
}

/* The graph over a batch; its outputs are its results. */
static qn_status build(const qn_onnx_exporter *e, int64_t batch, qn_graph **graph) {
    const qn_graph_options options = {QN_OPTIONS_INIT(qn_graph_options), .allocator = e->allocator,
                                      .training = true};
    QN_TRY(qn_graph_create(&options, graph));
    if (e->options->model->build)
        qn_result(*graph, qn_onnx_build_classifier(e, *graph, batch));
    else
        build_network(e, *graph, batch);
    QN_TRY(qn_graph_finish(*graph));
    return e->options->numerics ? prepare(e, graph) : QN_OK;
}

/* ---- two batches ---- */

/* Shapes, which writers put as they are for any batch, and extents of what they do so, too. */
static bool may_differ(const qn_op *op, const qn_attribute *field) {
    static const char *const fields[][2] = {{"resample", "from"},
                                            {"resample", "to"},
                                            {"slice", "begin"},
                                            {"slice", "end"},
                                            {"slice", "extent"}};
    for (int i = 0; i < (int)(sizeof fields / sizeof *fields); i++) {
        if (strcmp(fields[i][0], op->name) == 0 && strcmp(fields[i][1], field->name) == 0)
            return true;
    }
    return field->type > QN_ATTRIBUTE_DOUBLE;
}

/* Of windows and the like nothing but the batch itself depends on the batch. */
static bool is_same_field(const qn_op *op, const qn_attribute *field, const char *a,
                          const char *b) {
    static const size_t bytes[] = {
        [QN_ATTRIBUTE_BOOL] = sizeof(bool),
        [QN_ATTRIBUTE_INT] = sizeof(int),
        [QN_ATTRIBUTE_INT64] = sizeof(int64_t),
        [QN_ATTRIBUTE_DOUBLE] = sizeof(double),
    };
    return may_differ(op, field) ||
           memcmp(a + field->offset, b + field->offset, bytes[field->type]) == 0;
}

static bool is_same_node(const qn_node *a, const qn_node *b) {
    bool is_same = a->op == b->op && a->n_inputs == b->n_inputs && strcmp(a->name, b->name) == 0;
    for (int i = 0; is_same && i < a->n_inputs; i++)
        is_same = a->inputs[i].id == b->inputs[i].id;
    for (const qn_attribute *f = a->op->attributes; is_same && f && f->name; f++)
        is_same = is_same_field(a->op, f, a->attributes, b->attributes);
    return is_same;
}

/* A source that is no input: its shape, and, if it was worked out at import, its numbers. */
static bool is_same_source(const qn_value_info *a, const qn_value_info *b) {
    const qn_given *x = a->given, *y = b->given;
    if (a->producer >= 0 || a->kind != QN_KIND_PARAMETER)
        return true;
    if (!qn_shape_equal(a->tensor.shape, b->tensor.shape) || !x != !y)
        return false;
    return !x || x->data == y->data ||
           (x->dtype == y->dtype &&
            memcmp(x->data, y->data,
                   (size_t)qn_shape_count(a->tensor.shape) * qn_dtype_bytes(x->dtype)) == 0);
}

/* Whether the other graph is the same network for another batch, where it is written. */
static bool is_same_network(const qn_onnx_exporter *e) {
    const qn_graph *a = e->graph, *b = e->other;
    bool is_same = a->n_nodes == b->n_nodes && a->n_values == b->n_values;
    for (int n = 0; is_same && n < a->n_nodes; n++)
        is_same = a->nodes[n]->op == b->nodes[n]->op &&
                  (!e->wanted[n] || is_same_node(a->nodes[n], b->nodes[n]));
    for (int v = 0; is_same && v < a->n_values; v++)
        is_same = a->values[v]->kind == b->values[v]->kind &&
                  a->values[v]->tensor.shape.rank == b->values[v]->tensor.shape.rank &&
                  (!e->used[v] || is_same_source(a->values[v], b->values[v]));
    return is_same;
}

/* Finds what the outputs depend on. */
static qn_status choose(qn_onnx_exporter *e) {
    const qn_graph *g = e->graph;
    e->names = place(e, (size_t)g->n_values, sizeof *e->names);
    e->wanted = place(e, (size_t)g->n_nodes, sizeof *e->wanted);
    e->used = place(e, (size_t)g->n_values, sizeof *e->used);
    if (e->status == QN_OK)
        mark(e, g->results, g->n_results);
    return e->status;
}

/* Builds with two batches. *is_open false: the network is another one with each. */
static qn_status build_open(qn_onnx_exporter *e, bool *is_open) {
    *is_open = false;
    qn_status status = build(e, BATCH, &e->graph);
    if (status == QN_OK)
        status = build(e, OTHER_BATCH, &e->other);
    if (status != QN_OK)
        return status == QN_ERROR_MEMORY ? status : QN_OK;
    QN_TRY(choose(e));
    *is_open = is_same_network(e);
    return QN_OK;
}

/* Builds with the batch that the network was made for, or one sample. */
static qn_status build_fixed(qn_onnx_exporter *e) {
    const int64_t batch = e->options->model->sizes.batch;
    qn_graph_destroy(e->graph);
    qn_graph_destroy(e->other);
    e->graph = e->other = NULL;
    QN_TRY(build(e, batch > 0 ? batch : 1, &e->graph));
    return choose(e);
}

/* Pairs that say what the file is, and others. */
static void put_properties(qn_onnx_exporter *e, const qn_metadata *pairs) {
    const qn_model *model = e->options->model;
    const int n = pairs ? qn_metadata_count(pairs) : 0;
    qn_onnx_property *properties = place(e, 2 + (size_t)n, sizeof *properties);
    if (!properties)
        return;
    properties[0] = (qn_onnx_property){"quern.model", model->name};
    properties[1] = (qn_onnx_property){"quern.task", model->task ? model->task : "classification"};
    for (int i = 0; i < n; i++) {
        const char *key, *value;
        qn_metadata_at(pairs, i, &key, &value);
        properties[2 + i].key = check_text(e, qn_arena_format(&e->arena, "quern.%s", key));
        properties[2 + i].value = value;
    }
    e->model.properties = properties;
    e->model.n_properties = 2 + n;
}

static qn_status write_model(qn_onnx_exporter *e, const char *path) {
    bool is_open;
    if (e->options->source)
        return qn_onnx_export_again(e, e->options, &e->pairs, path);
    QN_TRY(build_open(e, &is_open));
    if (!is_open)
        QN_TRY(build_fixed(e));
    if (!e->options->engine)
        QN_TRY(qn_store_add_graph(&e->store, e->graph, 1u << QN_KIND_PARAMETER, e->options->seed));
    if (e->options->numerics)
        QN_TRY(qn_onnx_measure_narrow(e, &e->narrow, &e->n_narrow));
    write_graph(e, e->graph->results, e->graph->n_results);
    QN_TRY(e->status);
    QN_TRY(qn_onnx_describe_preparation(e, &e->pairs));
    put_properties(e, e->pairs);
    QN_TRY(e->status);
    e->model.ir_version = IR_VERSION;
    e->model.opset = OPSET;
    e->model.producer = "quern";
    e->model.producer_version = qn_version();
    e->model.graph_name = e->options->model->name;
    e->model.nodes = e->nodes;
    e->model.initializers = e->tensors;
    QN_TRY(qn_onnx_check_types(&e->model));
    return qn_onnx_file_write(e->allocator, &e->model, path, e->options->is_outside);
}

qn_status qn_onnx_export(const qn_onnx_export_options *options, const char *path) {
    QN_NEED(options, "options");
    QN_NEED(path, "path");
    qn_onnx_export_options taken;
    QN_TRY(QN_OPTIONS_TAKE(qn_onnx_export_options, options, &taken));
    options = &taken;
    QN_NEED(options->model, "options.model");
    QN_DEMAND(options->input.rank >= 0 && options->input.rank < QN_MAX_RANK);
    QN_DEMAND(!options->numerics ||
              (options->engine && options->samples && options->n_samples > 0));
    qn_onnx_exporter e = {.options = options,
                          .allocator = qn_allocator_or_default(options->allocator)};
    qn_arena_init(&e.arena, e.allocator);
    qn_store_init(&e.store, e.allocator);
    qn_status status = write_model(&e, path);
    if (status != QN_OK)
        status = qn_fail_within(status, "exporting %s", options->model->name);
    qn_release(e.allocator, e.nodes, e.node_capacity, sizeof *e.nodes);
    qn_release(e.allocator, e.tensors, e.tensor_capacity, sizeof *e.tensors);
    qn_metadata_destroy(e.pairs);
    qn_store_deinit(&e.store);
    qn_arena_deinit(&e.arena);
    qn_graph_destroy(e.graph);
    qn_graph_destroy(e.other);
    return status;
}
