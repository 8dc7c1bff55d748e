/* Numbers with a scale as QuantizeLinear and DequantizeLinear of opset 17: affine scales of i8 and
 * u8, rounded to even. What ONNX cannot say is refused: shared exponents, other roundings, other
 * types. */
#include "onnx/export/export.h"

#include "ops/ops.h"

/* The axis of a tensor as it lies in an order. */
static int64_t axis_in(qn_onnx_order order, int axis, int rank) {
    if (order == QN_ONNX_PLAIN || axis <= 0)
        return axis;
    return axis == rank - 1 ? 1 : axis + 1;
}

/* What the numbers are, if ONNX has them; QN_ONNX_NONE after a failure. */
static qn_onnx_type whole_type(qn_onnx_exporter *e, const qn_node *node, qn_dtype dtype) {
    const qn_graph *graph = qn_onnx_exporter_graph(e);
    const bool is_exact = *(const int *)qn_onnx_field(node, "rounding") == QN_ROUND_EVEN &&
                          !*(const bool *)qn_onnx_field(node, "is_symmetric");
    if (!qn_dtype_is_real(qn_graph_tensor(graph, node->inputs[1]).dtype))
        qn_onnx_export_fail(e, QN_ERROR_UNSUPPORTED, "an exponent that numbers share");
    else if (!is_exact)
        qn_onnx_export_fail(e, QN_ERROR_UNSUPPORTED,
                            "a rounding other than to even, or a symmetric range");
    else if (dtype == QN_I8 || dtype == QN_U8)
        return dtype == QN_I8 ? QN_ONNX_INT8 : QN_ONNX_UINT8;
    else
        qn_onnx_export_fail(e, QN_ERROR_UNSUPPORTED, "quantised numbers other than i8 and u8");
    return QN_ONNX_NONE;
}

static void write_linear(qn_onnx_exporter *e, const qn_node *node, const char *op, qn_value whole) {
    const qn_graph *graph = qn_onnx_exporter_graph(e);
    const qn_onnx_type type = whole_type(e, node, qn_graph_tensor(graph, whole).dtype);
    const qn_onnx_order order = qn_onnx_order_of(e, node->inputs[0]);
    const qn_shape scale = qn_graph_tensor(graph, node->inputs[1]).shape;
    const int rank = qn_graph_tensor(graph, node->inputs[0]).shape.rank;
    const int axis = *(const int *)qn_onnx_field(node, "axis");
    if (type == QN_ONNX_NONE)
        return;
    const char *zero = node->n_inputs > 2
                           ? qn_onnx_name(e, node->inputs[2], QN_ONNX_PLAIN)
                           : qn_onnx_zeros(e, type, scale.rank > 0 ? scale.dims[0] : -1);
    const char *inputs[] = {qn_onnx_name(e, node->inputs[0], order),
                            qn_onnx_name(e, node->inputs[1], QN_ONNX_PLAIN), zero};
    qn_onnx_node *put = qn_onnx_put(e, op, node->name, inputs, 3,
                                    qn_onnx_call_it(e, node->outputs[0], order, NULL));
    if (put && axis >= 0)
        qn_onnx_put_int(e, put, "axis", axis_in(order, axis, rank));
}

void qn_onnx_write_quantise(qn_onnx_exporter *e, const qn_node *node) {
    write_linear(e, node, "QuantizeLinear", node->outputs[0]);
}

void qn_onnx_write_dequantise(qn_onnx_exporter *e, const qn_node *node) {
    write_linear(e, node, "DequantizeLinear", node->inputs[0]);
}
