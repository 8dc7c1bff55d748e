/* See halves_build.h. */
#include "federate/halves_build.h"

#include "base/memory.h"
#include "base/status.h"
#include "federate/tls.h"
#include "ops/ops.h"
#include "os/heap.h"
#include "os/network/socket.h"
#include "os/os.h"
#include "passes/cut.h"
#include "passes/head.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The whole network, in a graph of its own. */
typedef struct whole {
    qn_graph *graph;
    qn_value cut, output;
} whole;

static qn_status build_whole(const qn_halves_options *o, int64_t batch, bool training, whole *w) {
    const qn_graph_options options = {QN_OPTIONS_INIT(qn_graph_options), .training = training};
    qn_shape shape = {.rank = o->input.rank + 1, .dims = {batch}};
    *w = (whole){.cut = QN_NO_VALUE, .output = QN_NO_VALUE};
    QN_TRY(qn_graph_create(&options, &w->graph));
    for (int i = 0; i < o->input.rank; i++)
        shape.dims[i + 1] = o->input.dims[i];
    const qn_value x = qn_input(w->graph, "input", shape);
    w->output = qn_build_outputs(w->graph, o->model, x, o->n_outputs, NULL);
    QN_TRY(qn_graph_finish(w->graph));
    w->cut = qn_graph_find(w->graph, o->cut);
    return QN_OK;
}

/* What follows is added to the graph at hand; a failure is kept by it. */
static bool begin(qn_graph *graph, const qn_halves_options *o, int64_t batch, whole *w) {
    const qn_status status = build_whole(o, batch, qn_graph_is_training(graph), w);
    if (status != QN_OK)
        qn_graph_fail(graph, status, "%s", qn_error_message());
    else if (w->cut.id < 0)
        qn_graph_fail(graph, QN_ERROR_ARGUMENT, "%s has no value %s", o->model->name, o->cut);
    return status == QN_OK && w->cut.id >= 0;
}

qn_value qn_halves_front(qn_graph *graph, const qn_halves_options *o, int64_t batch) {
    whole w;
    qn_value value = QN_NO_VALUE;
    if (begin(graph, o, batch, &w))
        value = qn_cut_front(w.graph, w.cut, graph);
    qn_graph_destroy(w.graph);
    return value;
}

qn_value qn_halves_back(qn_graph *graph, const qn_halves_options *o, int64_t batch, bool is_trained,
                        qn_value *labels) {
    whole w;
    qn_value output = QN_NO_VALUE;
    *labels = QN_NO_VALUE;
    if (begin(graph, o, batch, &w)) {
        const qn_value input = qn_input(graph, o->cut, qn_graph_shape(w.graph, w.cut));
        if (qn_graph_value(graph, input))
            qn_graph_value(graph, input)->wants_gradient = is_trained;
        *labels = qn_label(graph, "label", QN_I32, QN_SHAPE(batch));
        output = qn_cut_back(w.graph, w.cut, w.output, input, graph);
    }
    qn_graph_destroy(w.graph);
    return output;
}

qn_engine_options qn_halves_engine(const qn_halves_options *o, int n_threads, size_t memory_bytes) {
    return (qn_engine_options){QN_OPTIONS_INIT(qn_engine_options), .update = o->update,
                               .n_threads = n_threads, .seed = o->seed,
                               .memory_budget_bytes = memory_bytes};
}

qn_status qn_halves_count(const qn_halves_options *o, int64_t *n) {
    whole w;
    qn_status status = build_whole(o, 1, false, &w);
    if (status == QN_OK && w.cut.id < 0)
        status = qn_fail(QN_ERROR_ARGUMENT, "%s has no value %s", o->model->name, o->cut);
    if (status == QN_OK)
        *n = qn_shape_count(qn_graph_shape(w.graph, w.cut));
    qn_graph_destroy(w.graph);
    return status;
}

/* Scratch for numbers as bytes, of the larger batch. */
qn_status qn_halves_open_link(qn_link *link, int64_t n, const qn_halves_options *o) {
    const int64_t most = o->batch > o->test_batch ? o->batch : o->test_batch;
    if (!o->is_int8)
        return QN_OK;
    link->is_int8 = true;
    link->n_bytes = most * n;
    return qn_allocate(qn_allocator_default(), (size_t)link->n_bytes, 1, &link->bytes);
}

void qn_halves_close_link(qn_link *link) {
    qn_tls_destroy(link->tls);
    qn_release(qn_allocator_default(), link->bytes, (size_t)link->n_bytes, 1);
}

static qn_status check_range(const char *what, int64_t value, int64_t least, int64_t most) {
    if (value >= least && value <= most)
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT, "%s is %" PRId64 "; it must be from %" PRId64 " to %" PRId64,
                   what, value, least, most);
}

qn_status qn_halves_check(const qn_halves_options *o) {
    whole w;
    if (!o->model->build)
        return qn_fail(QN_ERROR_UNSUPPORTED, "%s is no classifier, and only those are cut",
                       o->model->name);
    if (o->update.clip_norm != 0 || o->update.accumulate > 1)
        return qn_fail(QN_ERROR_UNSUPPORTED, "a clipped norm and accumulation need all gradients "
                                             "in one place");
    QN_TRY(check_range("the batch", o->batch, 1, 1 << 20));
    QN_TRY(check_range("the test batch", o->test_batch, 1, 1 << 20));
    QN_TRY(check_range("the number of outputs", o->n_outputs, 1, 1 << 24));
    QN_TRY(check_range("the input's rank", o->input.rank, 1, QN_MAX_RANK - 1));
    for (int i = 0; i < o->input.rank; i++)
        QN_TRY(check_range("an extent of the input", o->input.dims[i], 1, 1 << 20));
    qn_status status = build_whole(o, 1, true, &w);
    if (status == QN_OK && !qn_cut_is_possible(w.graph, w.cut, w.output))
        status = qn_fail(QN_ERROR_ARGUMENT,
                         "%s cannot be cut at %s; quern split cuts lists where it can",
                         o->model->name, o->cut[0] ? o->cut : "no value");
    qn_graph_destroy(w.graph);
    return status;
}

/* ---- places to cut ---- */

static void count_front(const qn_graph *graph, qn_value cut, qn_cut *c) {
    c->front_flops = c->back_flops = c->front_numbers = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        const qn_node *node = graph->nodes[i];
        const bool is_front = i <= graph->values[cut.id]->producer;
        if (node->op->is_product)
            *(is_front ? &c->front_flops : &c->back_flops) += qn_node_cost(graph, node).flops;
        for (int j = 0; is_front && j < node->n_inputs; j++) {
            const qn_value_info *info = qn_graph_value(graph, node->inputs[j]);
            if (info && info->kind == QN_KIND_PARAMETER && info->producer < 0)
                c->front_numbers += qn_shape_count(info->tensor.shape);
        }
    }
}

static void describe(const qn_graph *graph, qn_value cut, qn_cut *c) {
    const qn_value_info *info = graph->values[cut.id];
    snprintf(c->name, sizeof c->name, "%s", info->name);
    c->shape = (qn_shape){.rank = info->tensor.shape.rank - 1};
    for (int i = 0; i < c->shape.rank; i++)
        c->shape.dims[i] = info->tensor.shape.dims[i + 1];
    count_front(graph, cut, c);
}

static bool has_name(const qn_value_info *info) {
    return info->name[0] && strlen(info->name) < QN_CUT_NAME;
}

qn_status qn_cuts_list(const qn_model *model, qn_shape input, int n_outputs, qn_cut **cuts,
                       size_t *n, size_t *room) {
    const qn_halves_options o = {.model = model, .input = input, .n_outputs = n_outputs};
    whole w;
    *cuts = NULL;
    *n = 0;
    qn_status status = build_whole(&o, 1, false, &w);
    *room = status == QN_OK ? (size_t)w.graph->n_nodes : 0;
    if (status == QN_OK)
        status = qn_allocate(qn_allocator_default(), *room, sizeof **cuts, cuts);
    for (size_t i = 0; status == QN_OK && i < *room; i++) {
        const qn_value value = w.graph->nodes[i]->outputs[0];
        if (has_name(w.graph->values[value.id]) && qn_cut_is_possible(w.graph, value, w.output))
            describe(w.graph, value, &(*cuts)[(*n)++]);
    }
    qn_graph_destroy(w.graph);
    return status;
}
