/* How the CPU runs products with weights that are held as blocks, and rows of such tables. */
#include "ops/network/frozen.h"
#include "device/cpu/cpu.h"
#include "kernels/blocks.h"
#include "ops/shared.h"

/* Without data. */
static qn_block_matrix weight_of(const void *attributes, const qn_tensor *weight) {
    const qn_frozen_attributes *a = attributes;
    return (qn_block_matrix){
        .blocks = (qn_blocks)a->blocks, .rows = weight->shape.dims[0], .columns = a->columns};
}

static qn_block_matrix weight_at(const qn_call *call, int input) {
    qn_block_matrix w = weight_of(call->attributes, &call->inputs[input]);
    w.data = call->in[input];
    return w;
}

static size_t linear_workspace(const qn_kernels *kernels, const void *attributes,
                               const qn_tensor *inputs, const qn_tensor *outputs, int n_threads) {
    const qn_block_matrix w = weight_of(attributes, &inputs[QN_FROZEN_WEIGHT]);
    (void)outputs;
    return qn_block_product_workspace(kernels, inputs[0].shape.dims[0], &w, n_threads);
}

static void linear_run(const qn_call *call) {
    const qn_block_matrix w = weight_at(call, QN_FROZEN_WEIGHT);
    const void *bias = call->node->n_inputs > QN_FROZEN_BIAS ? call->in[QN_FROZEN_BIAS] : NULL;
    qn_block_product(call->kernels, call->team, call->inputs[0].shape.dims[0], call->in[0], &w,
                     bias, call->out[0], call->workspace);
}

static size_t data_workspace(const qn_kernels *kernels, const void *attributes,
                             const qn_tensor *inputs, const qn_tensor *outputs, int n_threads) {
    const qn_block_matrix w = weight_of(attributes, &inputs[QN_FROZEN_WEIGHT]);
    (void)outputs;
    return qn_block_product_data_workspace(kernels, inputs[0].shape.dims[0], &w, n_threads);
}

static void data_run(const qn_call *call) {
    const qn_block_matrix w = weight_at(call, QN_FROZEN_WEIGHT);
    qn_block_product_data(call->kernels, call->team, call->inputs[0].shape.dims[0], call->in[0], &w,
                          call->out[0], call->workspace);
}

static void embedding_run(const qn_call *call) {
    const qn_block_matrix w = weight_at(call, 0);
    qn_block_embedding(call->kernels, call->team, qn_shape_count(call->inputs[1].shape), &w,
                       call->in[1], call->out[0]);
}

const qn_cpu_operator qn_cpu_frozen[] = {
    {&qn_op_frozen_linear, .run = linear_run, .workspace = linear_workspace},
    {&qn_op_frozen_linear_backward_data, .run = data_run, .workspace = data_workspace},
    {&qn_op_frozen_embedding, .types = QN_TYPES(QN_U8), .run = embedding_run},
    {0},
};
