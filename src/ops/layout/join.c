/* Joins pieces of a batch: whole (rows, ...) with x (n, ...) at row `first`. The first piece
 * creates the whole; further pieces are written into it in place. Rows not yet written are
 * undefined. */
#include "ops/layout.h"
#include "ops/shared.h"

#include <stdio.h>
#include <string.h>

static const qn_attribute join_fields[] = {
    QN_FIELD(qn_join_attributes, QN_ATTRIBUTE_INT64, first),
    QN_FIELD(qn_join_attributes, QN_ATTRIBUTE_INT64, rows),
    {0},
};

static qn_status join_infer(qn_infer *infer) {
    const qn_join_attributes *a = infer->attributes;
    char text[QN_SHAPE_TEXT];
    qn_shape shape = infer->inputs[0].shape;
    if (shape.rank < 1 || a->first < 0 || a->first > a->rows - shape.dims[0])
        return qn_fail(QN_ERROR_ARGUMENT, "%s from row %lld on does not fit into %lld rows",
                       qn_shape_print(shape, text), (long long)a->first, (long long)a->rows);
    shape.dims[0] = a->rows;
    if (infer->n_inputs > 1) {
        QN_TRY(qn_infer_dtype(infer, 1, infer->inputs[0].dtype));
        QN_TRY(qn_infer_expect(infer, 1, "whole", shape));
    }
    infer->outputs[0] = (qn_tensor){infer->inputs[0].dtype, shape};
    return QN_OK;
}

/* Of x: its rows; of the whole: all but those, which are 0. */
static void join_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    const qn_join_attributes *a = node->attributes;
    const int64_t n = qn_graph_shape(graph, node->inputs[0]).dims[0];
    char name[1024];
    snprintf(name, sizeof name, "%s.backward", node->name);
    const qn_value rows = qn_slice(graph, qn_graph_unique(graph, name, false), gradient->outputs[0],
                                   0, a->first, a->first + n);
    gradient->inputs[0] = rows;
    if (node->n_inputs < 2 || !gradient->wanted[1])
        return;
    snprintf(name, sizeof name, "%s.backward_none", node->name);
    const qn_value none = qn_scale(graph, qn_graph_unique(graph, name, false), rows, 0);
    snprintf(name, sizeof name, "%s.backward_whole", node->name);
    gradient->inputs[1] = qn_op_join_rows(graph, qn_graph_unique(graph, name, false), none,
                                          gradient->outputs[0], a->first, a->rows);
}

static qn_value join_sample(qn_graph *graph, int variant) {
    (void)variant;
    qn_value x = qn_sample_parameter(graph, "x", QN_SHAPE(2, 3, 7), 1);
    qn_value whole = qn_sample_parameter(graph, "whole", QN_SHAPE(5, 3, 7), 1);
    return qn_op_join_rows(graph, "y", x, whole, 1, 5);
}

const qn_op qn_op_join = {
    .name = "join",
    .attributes_bytes = sizeof(qn_join_attributes),
    .attributes = join_fields,
    .min_inputs = 1,
    .max_inputs = 2,
    .any_type_inputs = 1 << 0 | 1 << 1,
    .joins = true,
    .infer = join_infer,
    .gradient = join_gradient,
    .in_place = 1 << 1,
    .n_samples = 1,
    .sample = join_sample,
};

qn_value qn_op_join_rows(qn_graph *graph, const char *name, qn_value x, qn_value whole,
                         int64_t first, int64_t rows) {
    const qn_join_attributes attributes = {first, rows};
    return qn_graph_add1(graph, &qn_op_join, name, (qn_value[]){x, whole}, whole.id < 0 ? 1 : 2,
                         &attributes);
}
