/* What is in an ONNX file, as JSON: told for any file that can be read, whether or not it can be
 * built. */
#include "base/status.h"
#include "format/output.h"
#include "onnx/import.h"
#include "os/heap.h"

#include <string.h>

/* ---- text in memory ---- */

typedef struct sink {
    const qn_allocator *allocator;
    char *text;
    size_t n, capacity;
} sink;

static qn_status put(void *user, const void *data, size_t bytes) {
    sink *s = user;
    QN_TRY(qn_grow(s->allocator, &s->text, &s->capacity, s->n + bytes + 1, 1));
    memcpy(s->text + s->n, data, bytes);
    s->n += bytes;
    return QN_OK;
}

/* ---- the parts ---- */

static bool is_supported(const qn_onnx_node *node) {
    return qn_onnx_translator_of(node) != NULL;
}

/* Whether no node before this one is of its type. */
static bool is_first(const qn_onnx_model *m, int n) {
    for (int i = 0; i < n; i++) {
        if (strcmp(m->nodes[i].type, m->nodes[n].type) == 0)
            return false;
    }
    return true;
}

static void put_operators(qn_output *out, const qn_onnx_model *m) {
    qn_json_open(out, "operators", '[');
    for (int n = 0; n < m->n_nodes; n++) {
        int count = 0;
        if (!is_first(m, n))
            continue;
        for (int i = n; i < m->n_nodes; i++)
            count += strcmp(m->nodes[i].type, m->nodes[n].type) == 0;
        qn_json_open(out, NULL, '{');
        qn_json_text(out, "type", m->nodes[n].type);
        qn_json_count(out, "count", count);
        qn_json_flag(out, "supported", is_supported(&m->nodes[n]));
        qn_json_close(out, '}');
    }
    qn_json_close(out, ']');
}

/* Extents in the file's order; null where they are open. */
static void put_dims(qn_output *out, const int64_t *dims, int n) {
    qn_json_open(out, "shape", '[');
    for (int i = 0; i < n; i++) {
        if (dims[i] < 0)
            qn_json_text(out, NULL, "open");
        else
            qn_json_count(out, NULL, dims[i]);
    }
    qn_json_close(out, ']');
}

static void put_places(qn_output *out, const char *key, const qn_onnx_value *values, int n,
                       const qn_onnx_place *places, bool with_layout) {
    qn_json_open(out, key, '[');
    for (int i = 0; i < n; i++) {
        qn_json_open(out, NULL, '{');
        qn_json_text(out, "name", values[i].name);
        qn_json_text(out, "type", qn_onnx_type_name(values[i].type));
        put_dims(out, values[i].dims, values[i].n_dims > 0 ? values[i].n_dims : 0);
        qn_json_count(out, "batch_axis", places[i].batch_axis);
        if (with_layout)
            qn_json_flag(out, "channels_last", places[i].is_image);
        qn_json_close(out, '}');
    }
    qn_json_close(out, ']');
}

static bool is_parameter(const qn_value_info *info) {
    return info->kind == QN_KIND_PARAMETER && info->producer < 0;
}

static void put_parameters(qn_output *out, const qn_graph *graph) {
    int64_t counts[2] = {0};
    qn_json_open(out, "parameters", '[');
    for (int v = 0; graph && v < graph->n_values; v++) {
        const qn_value_info *info = graph->values[v];
        if (!is_parameter(info))
            continue;
        qn_json_open(out, NULL, '{');
        qn_json_text(out, "name", info->name);
        put_dims(out, info->tensor.shape.dims, info->tensor.shape.rank);
        qn_json_flag(out, "trains", info->trainable);
        qn_json_close(out, '}');
        counts[info->trainable] += qn_shape_count(info->tensor.shape);
    }
    qn_json_close(out, ']');
    qn_json_count(out, "numbers_that_train", counts[1]);
    qn_json_count(out, "numbers_that_do_not", counts[0]);
}

static void put_initializers(qn_output *out, const qn_onnx_decisions *decisions) {
    qn_json_open(out, "initializers", '[');
    for (int i = 0; i < decisions->n; i++) {
        const qn_onnx_initializer *it = &decisions->list[i];
        qn_json_open(out, NULL, '{');
        qn_json_text(out, "name", it->name);
        qn_json_text(out, "type", it->type);
        put_dims(out, it->dims, it->n_dims < QN_MAX_RANK ? it->n_dims : QN_MAX_RANK);
        qn_json_flag(out, "trains", it->trains);
        qn_json_flag(out, "sure", it->is_sure);
        qn_json_text(out, "reason", it->reason);
        qn_json_close(out, '}');
    }
    qn_json_close(out, ']');
    qn_json_open(out, "missing", '[');
    for (int i = 0; i < decisions->n_missing; i++)
        qn_json_text(out, NULL, decisions->missing[i]);
    qn_json_close(out, ']');
}

static void put_failure(qn_output *out, const char *node, const char *type, const char *reason) {
    qn_json_open(out, NULL, '{');
    if (node)
        qn_json_text(out, "node", node);
    if (type)
        qn_json_text(out, "type", type);
    qn_json_text(out, "reason", reason);
    qn_json_close(out, '}');
}

/* Every node without a translator; if there is none, what the build says. */
static void put_failures(qn_output *out, const qn_onnx_model *m, qn_status status,
                         const char *message) {
    bool is_known = true;
    qn_json_open(out, "failures", '[');
    for (int n = 0; n < m->n_nodes; n++) {
        if (is_supported(&m->nodes[n]))
            continue;
        is_known = false;
        put_failure(out, *m->nodes[n].name ? m->nodes[n].name : m->nodes[n].outputs[0],
                    m->nodes[n].type,
                    "there is no such operator here: export with another opset, or write the "
                    "model without it");
    }
    if (is_known && status != QN_OK)
        put_failure(out, NULL, NULL, message);
    qn_json_close(out, ']');
}

/* Each task: whether the network fits it, or what that needs. */
static qn_status put_tasks(qn_output *out, qn_onnx_network *n) {
    qn_json_open(out, "tasks", '[');
    for (const qn_onnx_task_model *form = qn_onnx_task_models; form->task; form++) {
        const qn_status status = qn_onnx_match(n, form);
        if (status == QN_ERROR_MEMORY)
            return status;
        qn_json_open(out, NULL, '{');
        qn_json_text(out, "task", form->task);
        qn_json_flag(out, "fits", status == QN_OK);
        if (status != QN_OK)
            qn_json_text(out, "reason", qn_error_message());
        qn_json_close(out, '}');
    }
    qn_json_close(out, ']');
    return QN_OK;
}

static qn_status put_report(qn_output *out, qn_onnx_network *n, const qn_graph *graph,
                            qn_status status, const char *message) {
    const qn_onnx_model *m = n->source;
    qn_json_open(out, NULL, '{');
    qn_json_text(out, "file", n->model.name);
    qn_json_count(out, "opset", m->opset);
    qn_json_text(out, "producer", m->producer);
    put_places(out, "inputs", m->inputs, m->n_inputs, n->inputs, true);
    put_places(out, "outputs", m->outputs, m->n_outputs, n->outputs, false);
    put_operators(out, qn_onnx_file_model(n->file));
    put_parameters(out, status == QN_OK ? graph : NULL);
    put_initializers(out, &n->decisions);
    if (status == QN_OK)
        QN_TRY(put_tasks(out, n));
    qn_json_flag(out, "softmax_left_out", n->softmax >= 0);
    qn_json_flag(out, "supported", status == QN_OK);
    put_failures(out, m, status, message);
    qn_json_close(out, '}');
    return out->status;
}

/* ---- all of it ---- */

static qn_status inspect(qn_onnx_network *n, sink *s) {
    qn_value *outputs = qn_arena_allocate(&n->arena, (size_t)n->n_outputs + 1, sizeof *outputs);
    qn_output out = {.user = s, .put = put};
    qn_graph *graph = NULL;
    char message[512] = "";
    if (!outputs)
        return QN_ERROR_MEMORY;
    qn_status status = qn_onnx_try(n, true, &graph, outputs);
    if (status == QN_OK)
        qn_onnx_note_outputs(n, graph, outputs);
    else if (status != QN_ERROR_MEMORY)
        qn_onnx_blame_guess(n, status);
    strncpy(message, status == QN_OK ? "" : qn_error_message(), sizeof message - 1);
    if (status != QN_ERROR_MEMORY)
        status = put_report(&out, n, graph, status, message);
    qn_graph_destroy(graph);
    return status;
}

qn_status qn_onnx_inspect(const qn_onnx_options *options, const char *path, char **json) {
    QN_NEED(options, "options");
    QN_NEED(path, "path");
    QN_NEED(json, "json");
    qn_onnx_network *n;
    QN_TRY(qn_onnx_read(options, path, &n));
    sink s = {.allocator = n->allocator};
    qn_status status = inspect(n, &s);
    char *text = NULL;
    if (status == QN_OK)
        status = qn_allocate(n->allocator, s.n + 1, 1, &text);
    if (status == QN_OK) {
        memcpy(text, s.text, s.n);
        *json = text;
    }
    qn_release(s.allocator, s.text, s.capacity, 1);
    qn_onnx_close(n);
    return status;
}

void qn_onnx_free_text(const qn_onnx_options *options, char *text) {
    if (text)
        qn_release(qn_allocator_or_default(options ? options->allocator : NULL), text,
                   strlen(text) + 1, 1);
}
