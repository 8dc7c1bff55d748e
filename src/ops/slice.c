/* Elements [begin, end) of an axis; the gradient puts them back among zeros. Of the last axis they
 * may be read where they lie (the planner sees to it); then nothing is copied. */
#include "ops/shared.h"

#include <string.h>

typedef struct slice_attributes {
    int axis;
    int64_t begin, end;
    int64_t extent; /* of the axis in the larger tensor */
} slice_attributes;

static const qn_attribute slice_fields[] = {
    QN_FIELD(slice_attributes, QN_ATTRIBUTE_INT, axis),
    QN_FIELD(slice_attributes, QN_ATTRIBUTE_INT64, begin),
    QN_FIELD(slice_attributes, QN_ATTRIBUTE_INT64, end),
    QN_FIELD(slice_attributes, QN_ATTRIBUTE_INT64, extent),
    {0},
};

static qn_status slice_infer(qn_infer *infer) {
    const slice_attributes *a = infer->attributes;
    char text[QN_SHAPE_TEXT];
    qn_shape shape = infer->inputs[0].shape;
    if (a->axis < 0 || a->axis >= shape.rank || a->begin < 0 || a->begin >= a->end ||
        a->end > shape.dims[a->axis])
        return qn_fail(QN_ERROR_ARGUMENT, "elements %lld to %lld of axis %d are not in %s",
                       (long long)a->begin, (long long)a->end, a->axis,
                       qn_shape_print(shape, text));
    shape.dims[a->axis] = a->end - a->begin;
    infer->outputs[0] = (qn_tensor){infer->inputs[0].dtype, shape};
    return QN_OK;
}

static int64_t slice_cuts_column(const void *attributes, qn_shape x) {
    const slice_attributes *a = attributes;
    return a->axis == x.rank - 1 ? a->begin : -1;
}

/* Bytes of a row of the large tensor, of the part in it, and of what lies before that; of slices,
 * from one row to the next of both. */
typedef struct rows {
    const char *from;
    char *to;
    size_t large, part, before;
    size_t from_step, to_step;
} rows;

static rows make_rows(const qn_call *call, qn_shape large, qn_dtype dtype) {
    const slice_attributes *a = call->attributes;
    const size_t unit =
        qn_dtype_bytes(dtype) * (size_t)qn_shape_count_range(large, a->axis + 1, large.rank);
    return (rows){.from = call->in[0],
                  .to = call->out[0],
                  .large = unit * (size_t)large.dims[a->axis],
                  .part = unit * (size_t)(a->end - a->begin),
                  .before = unit * (size_t)a->begin};
}

static void slice_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const rows *r = context;
    for (int64_t i = begin; i < end; i++)
        memcpy(r->to + (size_t)i * r->to_step, r->from + (size_t)i * r->from_step + r->before,
               r->part);
}

static void slice_run(const qn_call *call) {
    const slice_attributes *a = call->attributes;
    const qn_tensor x = call->inputs[0];
    rows r = make_rows(call, x.shape, x.dtype);
    const bool is_last = a->axis == x.shape.rank - 1;
    const size_t size = qn_dtype_bytes(x.dtype);
    r.from_step = is_last ? size * (size_t)qn_call_in_step(call, 0) : r.large;
    r.to_step = is_last ? size * (size_t)qn_call_out_step(call, 0) : r.part;
    if (r.from + r.before != r.to)
        qn_team_run(call->team, qn_shape_count_range(x.shape, 0, a->axis), slice_task, &r);
}

static void slice_gradient(qn_graph *graph, const qn_gradient *gradient) {
    gradient->inputs[0] = qn_gradient_add(graph, gradient->node, "backward", &qn_op_slice_backward,
                                          gradient->outputs, 1, gradient->node->attributes);
}

static qn_value slice_sample(qn_graph *graph, int variant) {
    qn_value x = qn_sample_parameter(graph, "x", QN_SHAPE(5, 7, 3), 1);
    return qn_slice(graph, "y", x, variant, 1, variant == 2 ? 3 : 4);
}

const qn_op qn_op_slice = {
    .name = "slice",
    .attributes_bytes = sizeof(slice_attributes),
    .attributes = slice_fields,
    .min_inputs = 1,
    .max_inputs = 1,
    .integer_inputs = 1 << 0,
    .infer = slice_infer,
    .gradient = slice_gradient,
    .run = slice_run,
    .apart_inputs = 1 << 0,
    .apart_outputs = 1 << 0,
    .cuts_column = slice_cuts_column,
    .n_samples = 3,
    .sample = slice_sample,
};

qn_value qn_slice(qn_graph *graph, const char *name, qn_value x, int axis, int64_t begin,
                  int64_t end) {
    const qn_shape shape = qn_graph_shape(graph, x);
    slice_attributes attributes = {
        .axis = axis < 0 ? axis + shape.rank : axis, .begin = begin, .end = end};
    if (attributes.axis >= 0 && attributes.axis < shape.rank)
        attributes.extent = shape.dims[attributes.axis];
    return qn_graph_add1(graph, &qn_op_slice, name, &x, 1, &attributes);
}

/* ---- gradient: dx from dy, zero outside ---- */

static qn_status backward_infer(qn_infer *infer) {
    const slice_attributes *a = infer->attributes;
    char text[QN_SHAPE_TEXT];
    qn_shape shape = infer->inputs[0].shape;
    if (a->axis < 0 || a->axis >= shape.rank || a->end - a->begin != shape.dims[a->axis] ||
        a->begin < 0 || a->end > a->extent)
        return qn_fail(QN_ERROR_ARGUMENT, "%s is not the slice of axis %d from %lld to %lld",
                       qn_shape_print(shape, text), a->axis, (long long)a->begin,
                       (long long)a->end);
    shape.dims[a->axis] = a->extent;
    infer->outputs[0] = (qn_tensor){infer->inputs[0].dtype, shape};
    return QN_OK;
}

static void backward_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const rows *r = context;
    for (int64_t i = begin; i < end; i++) {
        char *row = r->to + (size_t)i * r->large;
        memset(row, 0, r->before);
        memcpy(row + r->before, r->from + (size_t)i * r->part, r->part);
        memset(row + r->before + r->part, 0, r->large - r->before - r->part);
    }
}

static void backward_run(const qn_call *call) {
    const slice_attributes *a = call->attributes;
    rows r = make_rows(call, call->outputs[0].shape, call->outputs[0].dtype);
    qn_team_run(call->team, qn_shape_count_range(call->outputs[0].shape, 0, a->axis), backward_task,
                &r);
}

const qn_op qn_op_slice_backward = {
    .name = "slice_backward",
    .attributes_bytes = sizeof(slice_attributes),
    .attributes = slice_fields,
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = backward_infer,
    .run = backward_run,
};
