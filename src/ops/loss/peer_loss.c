/* The loss that somebody else works out, from x (N, ...) and labels (N): a scalar, and x's
 * gradient, which comes back with it. For split learning, where the rest of the network is with a
 * peer (federate/halves.h). It asks once each time it runs, so plans must not run it twice. */
#include "ops/loss.h"
#include "ops/shared.h"

static qn_status peer_infer(qn_infer *infer) {
    const qn_shape x = infer->inputs[0].shape;
    if (x.rank < 2)
        QN_TRY(qn_infer_rank(infer, 0, 2, "(N, C) or with more axes"));
    QN_TRY(qn_infer_dtype(infer, 1, QN_I32));
    QN_TRY(qn_infer_expect(infer, 1, "labels", QN_SHAPE(x.dims[0])));
    infer->n_outputs = 2;
    infer->outputs[0] = (qn_tensor){infer->inputs[0].dtype, {.rank = 0}};
    infer->outputs[1] = infer->inputs[0];
    return QN_OK;
}

/* The loss is what is minimised, so its own gradient is 1. */
static void peer_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    if (gradient->outputs[1].id >= 0)
        qn_graph_fail(graph, QN_ERROR_UNSUPPORTED, "%s: no gradient flows through a gradient",
                      node->name);
    gradient->inputs[0] = node->outputs[1];
}

const qn_op qn_op_peer_loss = {
    .name = "peer_loss",
    .attributes_bytes = sizeof(qn_peer_loss_attributes),
    .min_inputs = 2,
    .max_inputs = 2,
    .any_type_inputs = 1 << 1,
    .output_names = {NULL, "error"},
    .infer = peer_infer,
    .gradient = peer_gradient,
    .looks_at_batch = true,
    .runs_once = true,
};

qn_value qn_peer_loss(qn_graph *graph, const char *name, qn_value x, qn_value labels,
                      const qn_peer *peer) {
    const qn_peer_loss_attributes attributes = {peer};
    return qn_graph_add1(graph, &qn_op_peer_loss, name, (qn_value[]){x, labels}, 2, &attributes);
}
