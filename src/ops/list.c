/* The operators. */
#include "ops/integers.h"
#include "ops/shared.h"

#include <string.h>

#define QN_OPERATOR(id) &qn_op_##id,
const qn_op *const qn_ops[] = {
#include "ops/operators.def"
    NULL,
};
#undef QN_OPERATOR

const qn_op *qn_op_find(const char *name) {
    for (int i = 0; qn_ops[i]; i++) {
        if (strcmp(qn_ops[i]->name, name) == 0)
            return qn_ops[i];
    }
    return NULL;
}

const qn_op *qn_op_twin(const qn_op *op, qn_twin relation) {
#define QN_TWIN(RELATION, of, twin) {QN_TWIN_##RELATION, &qn_op_##of, &qn_op_##twin},
    static const struct {
        qn_twin relation;
        const qn_op *of, *twin;
    } rows[] = {
#include "ops/twins.def"
    };
#undef QN_TWIN
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].of == op && rows[i].relation == relation)
            return rows[i].twin;
    }
    return NULL;
}

static int64_t count_bytes(const qn_tensor *tensors, int n) {
    int64_t bytes = 0;
    for (int i = 0; i < n; i++)
        bytes += (int64_t)qn_tensor_bytes(tensors[i]);
    return bytes;
}

qn_cost qn_node_cost(const qn_graph *graph, const qn_node *node) {
    qn_tensor outputs[QN_MAX_OUTPUTS];
    qn_cost cost = {0};
    if (node->op->is_view)
        return cost;
    for (int i = 0; i < node->n_outputs; i++)
        outputs[i] = qn_graph_tensor(graph, node->outputs[i]);
    if (node->op->cost)
        cost = node->op->cost(node->attributes, node->input_tensors, outputs);
    if (cost.bytes == 0)
        cost.bytes = count_bytes(node->input_tensors, node->n_inputs) +
                     count_bytes(outputs, node->n_outputs);
    return cost;
}
