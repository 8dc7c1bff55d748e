/* What is about to be written, looked at as a reader would: lists of whole numbers are whole where
 * operators want them, and the network can be built of its nodes, whose shapes go together. */
#include "base/status.h"
#include "onnx/export/export.h"
#include "onnx/import.h"

#include <string.h>

/* Inputs that ONNX has as whole numbers. */
static const struct {
    const char *type;
    int first, last;
} whole_inputs[] = {
    {"ConstantOfShape", 0, 0}, {"Expand", 1, 1},    {"Gather", 1, 1},    {"GatherElements", 1, 1},
    {"GatherND", 1, 1},        {"Pad", 1, 1},       {"ReduceSum", 1, 1}, {"Reshape", 1, 1},
    {"Resize", 3, 3},          {"ScatterND", 1, 1}, {"Slice", 1, 4},     {"Split", 1, 1},
    {"Squeeze", 1, 1},         {"Tile", 1, 1},      {"Unsqueeze", 1, 1},
};

static const qn_onnx_tensor *find_tensor(const qn_onnx_model *m, const char *name) {
    for (int i = 0; i < m->n_initializers; i++) {
        if (strcmp(m->initializers[i].name, name) == 0)
            return &m->initializers[i];
    }
    return NULL;
}

static qn_status check_input(const qn_onnx_model *m, const qn_onnx_node *node, int input) {
    const qn_onnx_tensor *t = *node->inputs[input] ? find_tensor(m, node->inputs[input]) : NULL;
    if (!t || t->type == QN_ONNX_INT64 || t->type == QN_ONNX_INT32)
        return QN_OK;
    return qn_fail(QN_ERROR_UNSUPPORTED, "%s (%s) would read %s as %s, where whole numbers belong",
                   node->name, node->type, t->name, qn_onnx_type_name(t->type));
}

qn_status qn_onnx_check_types(const qn_onnx_model *m) {
    for (int n = 0; n < m->n_nodes; n++) {
        const qn_onnx_node *node = &m->nodes[n];
        for (size_t i = 0; i < sizeof whole_inputs / sizeof *whole_inputs; i++) {
            if (*node->domain || strcmp(node->type, whole_inputs[i].type) != 0)
                continue;
            for (int k = whole_inputs[i].first; k <= whole_inputs[i].last && k < node->n_inputs;
                 k++)
                QN_TRY(check_input(m, node, k));
        }
    }
    return QN_OK;
}

/* The file's model with other tensors in place of its own of the same names; those that are made
 * while they are written have the shape of the file's. */
static const qn_onnx_model *with_tensors(qn_onnx_exporter *e, const qn_onnx_model *m,
                                         const qn_onnx_change *changes, int n_changes) {
    qn_onnx_model *changed = qn_onnx_room(e, 1, sizeof *changed);
    qn_onnx_tensor *tensors = qn_onnx_room(e, (size_t)m->n_initializers + 1, sizeof *tensors);
    if (!changed || !tensors)
        return NULL;
    for (int i = 0; i < m->n_initializers; i++) {
        tensors[i] = m->initializers[i];
        for (int k = 0; k < n_changes; k++) {
            if (changes[k].kind == QN_ONNX_CHANGE_NUMBERS && !changes[k].tensor.source &&
                strcmp(changes[k].tensor.name, tensors[i].name) == 0)
                tensors[i] = changes[k].tensor;
        }
    }
    *changed = *m;
    changed->initializers = tensors;
    return changed;
}

qn_status qn_onnx_check_changes(qn_onnx_exporter *e, qn_onnx_network *network,
                                const qn_onnx_change *changes, int n_changes) {
    const qn_onnx_model *source = network->source;
    const qn_onnx_model *changed = with_tensors(e, source, changes, n_changes);
    const qn_onnx_record *records = network->records;
    qn_value *outputs = qn_onnx_room(e, (size_t)network->n_outputs + 1, sizeof *outputs);
    qn_graph *graph = NULL;
    if (!changed || !outputs)
        return QN_ERROR_MEMORY;
    network->source = changed;
    const qn_status status = qn_onnx_try(network, false, &graph, outputs);
    network->source = source;
    network->records = records;
    qn_graph_destroy(graph);
    return status == QN_OK ? QN_OK
                           : qn_fail(status,
                                     "%s; with another number of classes the file's own "
                                     "shapes do not go together, so it is not written",
                                     qn_error_message());
}
