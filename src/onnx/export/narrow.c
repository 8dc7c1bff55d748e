/* Weights and activations of int8, as numerics hold them, in a file that any runtime reads: numbers
 * with a scale behind DequantizeLinear, and both operators behind a node whose result is rounded.
 * Scales that follow the batch in training are fixed: they are those of a batch of samples, which
 * is run for that. Left out: whole numbers of other widths, which stay floats, unrounded. */
#include "base/status.h"
#include "onnx/export/export.h"
#include "run/inspect.h"

#include <math.h>
#include <string.h>

/* ---- measuring ---- */

static qn_value build(qn_graph *graph, void *user, int phase, qn_value kept[QN_MAX_KEPT]) {
    const qn_onnx_exporter *e = user;
    (void)phase;
    (void)kept;
    qn_result(graph, qn_onnx_build_classifier(e, graph, qn_onnx_exporter_options(e)->n_samples));
    return QN_NO_VALUE;
}

/* The exporter's engine has all that the other one needs. */
static qn_status copy_tensors(const qn_engine *from, qn_engine *to) {
    for (int i = 0; i < qn_engine_tensor_count(to); i++) {
        const qn_stored_tensor place = qn_engine_tensor_at(to, i);
        const qn_stored_tensor given = qn_engine_find(from, place.name);
        if (!given.data || given.dtype != place.dtype || given.bytes != place.bytes)
            return qn_fail(QN_ERROR_ARGUMENT,
                           "the weights were not trained by these numerics: "
                           "they have no %s of this type and shape",
                           place.name);
        memcpy(place.data, given.data, place.bytes);
    }
    qn_engine_set_steps(to, qn_engine_steps(from));
    return QN_OK;
}

static double scale_at(qn_tensor tensor, const void *data, int64_t i) {
    if (!data)
        return 1;
    return tensor.dtype == QN_I32   ? ldexp(1, ((const int32_t *)data)[i])
           : tensor.dtype == QN_F64 ? ((const double *)data)[i]
                                    : (double)((const float *)data)[i];
}

static const void *data_of(const qn_engine *engine, const qn_program *p, qn_value value) {
    const qn_value_info *info = qn_graph_value(p->graph, value);
    if (!info)
        return NULL;
    return info->producer < 0 ? qn_engine_find(engine, info->name).data
                              : qn_executor_get(p->executor, value);
}

static void take(qn_onnx_exporter *e, const qn_engine *engine, const qn_shown *shown,
                 qn_onnx_narrow *narrow) {
    const qn_program *p = qn_engine_get_program(engine, 0);
    const bool has_scale = shown->scale.id >= 0;
    const qn_tensor tensor =
        has_scale ? qn_graph_tensor(p->graph, shown->scale) : (qn_tensor){QN_I32, {0}};
    const int64_t n = qn_shape_count(tensor.shape);
    const void *scales = data_of(engine, p, shown->scale);
    const int8_t *zeros = data_of(engine, p, shown->zero);
    *narrow = (qn_onnx_narrow){.name = qn_onnx_text_with(e, shown->name, ""),
                               .axis = n > 1 ? shown->axis : -1,
                               .n_scales = n,
                               .scales = qn_onnx_room(e, (size_t)n, sizeof *narrow->scales),
                               .zeros = qn_onnx_room(e, (size_t)n, sizeof *narrow->zeros)};
    for (int64_t i = 0; narrow->scales && narrow->zeros && i < n; i++) {
        narrow->scales[i] = (float)scale_at(tensor, scales, i);
        narrow->zeros[i] = zeros ? zeros[i] : 0;
    }
    if (!shown->is_parameter)
        return;
    const int64_t count = qn_shape_count(qn_graph_shape(p->graph, shown->numbers));
    narrow->numbers = qn_onnx_room(e, (size_t)count, 1);
    if (narrow->numbers)
        memcpy(narrow->numbers, data_of(engine, p, shown->numbers), (size_t)count);
}

static qn_status measure(qn_onnx_exporter *e, qn_engine *engine, qn_onnx_narrow **list, int *n) {
    const qn_onnx_export_options *options = qn_onnx_exporter_options(e);
    const qn_program *p = qn_engine_get_program(engine, 0);
    QN_TRY(copy_tensors(options->engine, engine));
    QN_TRY(qn_engine_run(engine, 0, (const void *const[]){options->samples}));
    qn_onnx_narrow *made = qn_onnx_room(e, (size_t)p->n_shown, sizeof *made);
    for (int i = 0; made && i < p->n_shown; i++)
        take(e, engine, &p->shown[i], &made[i]);
    *list = made;
    *n = made ? p->n_shown : 0;
    return qn_onnx_exporter_status(e);
}

qn_status qn_onnx_measure_narrow(qn_onnx_exporter *e, qn_onnx_narrow **list, int *n) {
    const qn_onnx_export_options *options = qn_onnx_exporter_options(e);
    const qn_engine_options *trained = qn_engine_get_options(options->engine);
    const qn_engine_options how = {QN_OPTIONS_INIT(qn_engine_options),
                                   .allocator = options->allocator,
                                   .real = trained->real,
                                   .seed = trained->seed,
                                   .rules = trained->rules,
                                   .no_random_values = true,
                                   .numerics = options->numerics};
    const qn_program_options program = {QN_OPTIONS_INIT(qn_program_options), .user = e,
                                        .build = build, .shows_types = true};
    qn_engine *engine;
    if (!options->model->build)
        return qn_fail(QN_ERROR_UNSUPPORTED, "numerics are exported of networks that classify");
    QN_TRY(qn_engine_create(&how, &program, 1, &engine));
    const qn_status status = measure(e, engine, list, n);
    qn_engine_destroy(engine);
    return status;
}

/* ---- writing ---- */

/* Names of scale and zero point, for a value or parameter of that name. */
static void put_scale(qn_onnx_exporter *e, const qn_onnx_narrow *narrow, const char *names[2]) {
    const int64_t n = narrow->n_scales;
    const int n_dims = narrow->axis >= 0;
    names[0] = qn_onnx_put_tensor(e, qn_onnx_text_with(e, narrow->name, "/scale"), QN_ONNX_FLOAT,
                                  &n, n_dims, narrow->scales, (size_t)n * sizeof(float));
    names[1] = qn_onnx_put_tensor(e, qn_onnx_text_with(e, narrow->name, "/zero_point"),
                                  QN_ONNX_INT8, &n, n_dims, narrow->zeros, (size_t)n);
}

/* One of the two operators. */
static void put_linear(qn_onnx_exporter *e, const char *type, const char *from,
                       const char *const scale[2], int64_t axis, const char *to) {
    const char *inputs[] = {from, scale[0], scale[1]};
    /* The operator that makes the value has its name; runtimes want every node to have another. */
    const char *name = qn_onnx_text_with(e, to, "/linear");
    qn_onnx_node *node = qn_onnx_put(e, type, name, inputs, 3, to);
    if (node && axis >= 0)
        qn_onnx_put_int(e, node, "axis", axis);
}

static int64_t axis_of(qn_onnx_exporter *e, const qn_onnx_narrow *narrow, qn_value value,
                       qn_onnx_order order) {
    const int rank = qn_graph_shape(qn_onnx_exporter_graph(e), value).rank;
    return narrow->axis < 0 ? -1 : qn_onnx_axis_in(order, narrow->axis, rank);
}

const char *qn_onnx_put_narrow(qn_onnx_exporter *e, const qn_onnx_narrow *narrow, qn_value value,
                               qn_onnx_order order) {
    const qn_shape shape = qn_graph_shape(qn_onnx_exporter_graph(e), value);
    const size_t n = (size_t)qn_shape_count(shape);
    const char *numbers = qn_onnx_text_with(e, narrow->name, "/int8"), *scale[2];
    int64_t dims[QN_MAX_RANK];
    int8_t *data = qn_onnx_room(e, n, 1);
    if (!data)
        return NULL;
    for (size_t i = 0; i < n; i++)
        data[qn_onnx_index_in(order, shape, (int64_t)i)] = narrow->numbers[i];
    const int rank = qn_onnx_dims_in(order, shape, dims);
    qn_onnx_put_tensor(e, numbers, QN_ONNX_INT8, dims, rank, data, n);
    put_scale(e, narrow, scale);
    put_linear(e, "DequantizeLinear", numbers, scale, axis_of(e, narrow, value, order),
               narrow->name);
    return narrow->name;
}

/* The name that readers get. It is that of the value, so that a result keeps it, where the last
 * node that was written has made it, which makes *made then. */
static const char *name_rounded(qn_onnx_exporter *e, const qn_onnx_narrow *narrow,
                                const char **made) {
    qn_onnx_node *last = qn_onnx_last(e);
    if (!last || last->n_outputs != 1 || strcmp(last->outputs[0], *made) != 0)
        return qn_onnx_text_with(e, narrow->name, "/rounded");
    const char *usual = *made;
    *made = qn_onnx_text_with(e, usual, "/exact");
    qn_onnx_put_outputs(e, last, made, 1);
    return usual;
}

void qn_onnx_round(qn_onnx_exporter *e, qn_value value) {
    const qn_onnx_narrow *narrow = qn_onnx_find_narrow(e, value);
    if (!narrow || narrow->numbers)
        return;
    const qn_onnx_order order = qn_onnx_order_of(e, value);
    const int64_t axis = axis_of(e, narrow, value, order);
    const char *scale[2], *made = qn_onnx_name(e, value, order);
    const char *real = name_rounded(e, narrow, &made);
    const char *rounded = qn_onnx_text_with(e, narrow->name, "/int8");
    put_scale(e, narrow, scale);
    put_linear(e, "QuantizeLinear", made, scale, axis, rounded);
    put_linear(e, "DequantizeLinear", rounded, scale, axis, real);
    qn_onnx_rename(e, value, order, real);
}
