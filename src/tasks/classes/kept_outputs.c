/* The first outputs of a head that grows, of a network of a file: the file's weights take the place
 * of those that a new head begins with. Weights of a checkpoint are read by format/checkpoint.h. */
#include "base/status.h"
#include "graph/graph.h"
#include "models/models.h"
#include "tasks/tasks.h"
#include "tensor/number.h"

#include <stdio.h>
#include <string.h>

/* The network as the file has it; the graph is the caller's. */
static qn_status build(const qn_task *task, qn_shape input, qn_graph **graph) {
    const qn_graph_options options = {QN_OPTIONS_INIT(qn_graph_options),
                                      .allocator = task->allocator};
    qn_shape batch = {.rank = input.rank + 1, .dims = {qn_model_batch(task->model)}};
    memcpy(batch.dims + 1, input.dims, (size_t)input.rank * sizeof *input.dims);
    QN_TRY(qn_graph_create(&options, graph));
    const qn_value x = qn_input(*graph, "input", batch);
    task->model->build(*graph, task->model->user, x, task->model->n_classes);
    const qn_status status = qn_graph_finish(*graph);
    if (status != QN_OK)
        qn_graph_destroy(*graph);
    return status;
}

static const qn_value_info *find(const qn_graph *graph, const char *name) {
    for (int v = 0; v < graph->n_values; v++) {
        const qn_value_info *info = graph->values[v];
        if (info->producer < 0 && info->given && strcmp(info->name, name) == 0)
            return info;
    }
    return NULL;
}

/* Whether all of the file's is in a part of the head's, which is longer in an axis at most. */
static bool fits(qn_shape old, qn_shape grown) {
    int n_longer = 0;
    for (int i = 0; i < old.rank && old.rank == grown.rank; i++) {
        if (grown.dims[i] < old.dims[i])
            return false;
        n_longer += grown.dims[i] > old.dims[i];
    }
    return old.rank == grown.rank && n_longer <= 1;
}

/* Element by element of the file's, the last axis quickest. */
static void copy(const qn_value_info *info, const qn_stored_tensor *tensor) {
    const qn_shape old = info->tensor.shape;
    int64_t index[QN_MAX_RANK] = {0};
    for (int64_t i = 0, n = qn_shape_count(old); i < n; i++) {
        int64_t from = 0, to = 0;
        for (int axis = 0; axis < old.rank; axis++) {
            from += index[axis] * info->given->strides[axis];
            to = to * tensor->shape.dims[axis] + index[axis];
        }
        qn_number_set(tensor->dtype, tensor->data, to,
                      qn_number_get(info->given->dtype, info->given->data, from));
        for (int axis = old.rank - 1; axis >= 0 && ++index[axis] == old.dims[axis]; axis--)
            index[axis] = 0;
    }
}

static qn_status keep(const qn_task *task, const qn_graph *graph) {
    for (int i = 0; i < qn_engine_tensor_count(task->engine); i++) {
        const qn_stored_tensor tensor = qn_engine_tensor_at(task->engine, i);
        if (!tensor.is_head || tensor.is_state || !tensor.data)
            continue;
        const qn_value_info *info = find(graph, tensor.name);
        const bool is_real = tensor.dtype == QN_F32 || tensor.dtype == QN_F64;
        if (!info || !is_real || !fits(info->tensor.shape, tensor.shape))
            return qn_fail(QN_ERROR_UNSUPPORTED,
                           "%s: its %s cannot grow by new classes; --head N begins the last layer "
                           "anew",
                           task->model->name, tensor.name);
        copy(info, &tensor);
    }
    return QN_OK;
}

qn_status qn_task_keep_outputs(qn_task *task, qn_shape input) {
    qn_graph *graph;
    char text[400];
    if (!task->start_is_file || task->n_kept_outputs == 0 || task->how->plan_only)
        return QN_OK;
    QN_TRY(build(task, input, &graph));
    const qn_status status = keep(task, graph);
    qn_graph_destroy(graph);
    QN_TRY(status);
    snprintf(text, sizeof text, "the head grows: its first %d outputs are those of %.200s",
             task->n_kept_outputs, task->model->name);
    if (task->log && task->log->write)
        task->log->write(task->log->user, 0, text);
    return QN_OK;
}
