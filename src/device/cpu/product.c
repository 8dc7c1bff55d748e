/* How the CPU runs linear layers and matrix products over equal leading axes. */
#include "ops/network/product.h"
#include "device/cpu/half.h"
#include "ops/shared.h"

/* ---- linear ---- */

static qn_gemm_shape linear_forward_gemm(const qn_tensor *inputs) {
    const qn_shape x = inputs[0].shape, weight = inputs[1].shape;
    return (qn_gemm_shape){
        .m = x.dims[0], .n = weight.dims[0], .k = x.dims[1], .transpose_b = true};
}

static size_t linear_workspace(const qn_kernels *kernels, const void *attributes,
                               const qn_tensor *inputs, const qn_tensor *outputs, int n_threads) {
    (void)attributes;
    (void)outputs;
    const qn_gemm_shape gemm = linear_forward_gemm(inputs);
    return kernels->gemm_workspace(&gemm, n_threads);
}

static void linear_run(const qn_call *call) {
    const qn_activation_attributes *a = call->attributes;
    qn_gemm_shape gemm = linear_forward_gemm(call->inputs);
    const void *bias = call->node->n_inputs > 2 ? call->in[2] : NULL;
    gemm.tilings = call->kernels->tilings;
    call->kernels->gemm(call->team, &gemm, call->in[0], call->in[1], bias, a->activation,
                        call->out[0], call->workspace);
}

static qn_gemm_shape linear_data_gemm(const qn_tensor *inputs) {
    const qn_shape dy = inputs[0].shape, weight = inputs[1].shape;
    return (qn_gemm_shape){.m = dy.dims[0], .n = weight.dims[1], .k = dy.dims[1]};
}

static size_t linear_data_workspace(const qn_kernels *kernels, const void *attributes,
                                    const qn_tensor *inputs, const qn_tensor *outputs,
                                    int n_threads) {
    (void)attributes;
    (void)outputs;
    const qn_gemm_shape gemm = linear_data_gemm(inputs);
    return kernels->gemm_workspace(&gemm, n_threads);
}

static void linear_data_run(const qn_call *call) {
    qn_gemm_shape gemm = linear_data_gemm(call->inputs);
    gemm.tilings = call->kernels->tilings;
    call->kernels->gemm(call->team, &gemm, call->in[0], call->in[1], NULL,
                        (qn_activation){QN_ACTIVATION_NONE, 0}, call->out[0], call->workspace);
}

static qn_gemm_shape linear_weight_gemm(const qn_tensor *inputs) {
    const qn_shape x = inputs[0].shape, dy = inputs[1].shape;
    return (qn_gemm_shape){.m = dy.dims[1], .n = x.dims[1], .k = x.dims[0], .transpose_a = true};
}

static size_t linear_weight_workspace(const qn_kernels *kernels, const void *attributes,
                                      const qn_tensor *inputs, const qn_tensor *outputs,
                                      int n_threads) {
    (void)attributes;
    (void)outputs;
    const qn_gemm_shape gemm = linear_weight_gemm(inputs);
    return kernels->gemm_workspace(&gemm, n_threads);
}

static void linear_weight_run(const qn_call *call) {
    qn_gemm_shape gemm = linear_weight_gemm(call->inputs);
    gemm.add = qn_call_goes_on(call, 2, 0);
    gemm.tilings = call->kernels->tilings;
    call->kernels->gemm(call->team, &gemm, call->in[1], call->in[0], NULL,
                        (qn_activation){QN_ACTIVATION_NONE, 0}, call->out[0], call->workspace);
}

static int64_t linear_weight_chunk(const qn_kernels *kernels, const void *attributes,
                                   const qn_tensor *inputs) {
    (void)attributes;
    (void)inputs;
    return kernels->gemm_chunk;
}

/* ---- matmul ---- */

/* The product of the last two axes. */
static qn_gemm_shape matmul_gemm_of(const void *attributes, const qn_tensor *inputs) {
    const qn_matmul_attributes *a = attributes;
    const int64_t *left = inputs[0].shape.dims + inputs[0].shape.rank - 2;
    const int64_t *right = inputs[1].shape.dims + inputs[1].shape.rank - 2;
    return (qn_gemm_shape){.m = left[a->transpose_a],
                           .n = right[!a->transpose_b],
                           .k = left[!a->transpose_a],
                           .transpose_a = a->transpose_a,
                           .transpose_b = a->transpose_b};
}

static int64_t matmul_count_matrices(qn_shape shape) {
    return qn_shape_count_range(shape, 0, shape.rank - 2);
}

/* Scratch of one thread that does whole matrices. */
static size_t matmul_thread_bytes(const qn_kernels *kernels, const qn_gemm_shape *gemm) {
    return (kernels->gemm_workspace(gemm, 1) + QN_ALIGNMENT - 1) / QN_ALIGNMENT * QN_ALIGNMENT;
}

static size_t matmul_workspace(const qn_kernels *kernels, const void *attributes,
                               const qn_tensor *inputs, const qn_tensor *outputs, int n_threads) {
    const qn_gemm_shape gemm = matmul_gemm_of(attributes, inputs);
    if (matmul_count_matrices(outputs[0].shape) < n_threads)
        return kernels->gemm_workspace(&gemm, n_threads);
    return (size_t)n_threads * matmul_thread_bytes(kernels, &gemm);
}

typedef struct matmul_context {
    const qn_kernels *kernels;
    qn_gemm_shape gemm;
    const char *a, *b;
    char *c, *workspace;
    size_t a_bytes, b_bytes, c_bytes, thread_bytes;
} matmul_context;

/* Matrix i by a team. */
static void matmul_run_matrix(const matmul_context *m, qn_team *team, int64_t i, void *workspace) {
    const qn_activation none = {QN_ACTIVATION_NONE, 0};
    m->kernels->gemm(team, &m->gemm, m->a + (size_t)i * m->a_bytes, m->b + (size_t)i * m->b_bytes,
                     NULL, none, m->c + (size_t)i * m->c_bytes, workspace);
}

static void matmul_task(void *context, int64_t begin, int64_t end, int thread) {
    const matmul_context *m = context;
    for (int64_t i = begin; i < end; i++)
        matmul_run_matrix(m, NULL, i, m->workspace + (size_t)thread * m->thread_bytes);
}

static void matmul_run(const qn_call *call) {
    const qn_gemm_shape gemm = matmul_gemm_of(call->attributes, call->inputs);
    const size_t unit = qn_dtype_bytes(call->outputs[0].dtype);
    const int64_t n_matrices = matmul_count_matrices(call->outputs[0].shape);
    matmul_context m = {.kernels = call->kernels,
                        .gemm = gemm,
                        .a = call->in[0],
                        .b = call->in[1],
                        .c = call->out[0],
                        .workspace = call->workspace,
                        .a_bytes = unit * (size_t)(gemm.m * gemm.k),
                        .b_bytes = unit * (size_t)(gemm.k * gemm.n),
                        .c_bytes = unit * (size_t)(gemm.m * gemm.n),
                        .thread_bytes = matmul_thread_bytes(call->kernels, &gemm)};
    if (n_matrices >= qn_team_size(call->team)) {
        qn_team_run(call->team, n_matrices, matmul_task, &m);
        return;
    }
    for (int64_t i = 0; i < n_matrices; i++)
        matmul_run_matrix(&m, call->team, i, m.workspace);
}

/* ---- the same of I8, with sums of I32 ---- */

static size_t integer_bytes(const qn_kernels *kernels, const qn_gemm_shape *gemm, int n_threads) {
    return qn_integer_kernels_get(kernels->isa)->gemm_workspace(gemm, n_threads);
}

static void integer_run(const qn_call *call, qn_team *team, const qn_gemm_shape *gemm,
                        const void *a, const void *b, const qn_integer_result *y, void *workspace) {
    qn_integer_kernels_get(call->kernels->isa)->gemm(team, gemm, a, b, y, workspace);
}

static size_t integer_linear_workspace(const qn_kernels *kernels, const void *attributes,
                                       const qn_tensor *inputs, const qn_tensor *outputs,
                                       int n_threads) {
    (void)attributes;
    (void)outputs;
    const qn_gemm_shape gemm = linear_forward_gemm(inputs);
    return integer_bytes(kernels, &gemm, n_threads);
}

static void integer_linear(const qn_call *call, const qn_integer_result *to) {
    const qn_activation_attributes *a = call->attributes;
    const qn_gemm_shape gemm = linear_forward_gemm(call->inputs);
    qn_integer_result y = *to;
    y.relu = a->activation.kind == QN_ACTIVATION_RELU;
    integer_run(call, call->team, &gemm, call->in[0], call->in[1], &y, call->workspace);
}

static void integer_linear_run(const qn_call *call) {
    const void *bias = call->node->n_inputs > 2 ? call->in[2] : NULL;
    integer_linear(call, &(qn_integer_result){.sums = call->out[0], .bias = bias});
}

static size_t integer_data_workspace(const qn_kernels *kernels, const void *attributes,
                                     const qn_tensor *inputs, const qn_tensor *outputs,
                                     int n_threads) {
    (void)attributes;
    (void)outputs;
    const qn_gemm_shape gemm = linear_data_gemm(inputs);
    return integer_bytes(kernels, &gemm, n_threads);
}

static void integer_data(const qn_call *call, const qn_integer_result *dx) {
    const qn_gemm_shape gemm = linear_data_gemm(call->inputs);
    integer_run(call, call->team, &gemm, call->in[0], call->in[1], dx, call->workspace);
}

static void integer_data_run(const qn_call *call) {
    integer_data(call, &(qn_integer_result){.sums = call->out[0]});
}

static size_t integer_weight_workspace(const qn_kernels *kernels, const void *attributes,
                                       const qn_tensor *inputs, const qn_tensor *outputs,
                                       int n_threads) {
    (void)attributes;
    (void)outputs;
    const qn_gemm_shape gemm = linear_weight_gemm(inputs);
    return integer_bytes(kernels, &gemm, n_threads);
}

static void integer_weight(const qn_call *call, const qn_integer_result *dw) {
    const qn_gemm_shape gemm = linear_weight_gemm(call->inputs);
    integer_run(call, call->team, &gemm, call->in[1], call->in[0], dw, call->workspace);
}

static void integer_weight_run(const qn_call *call) {
    qn_gemm_shape gemm = linear_weight_gemm(call->inputs);
    gemm.add = qn_call_goes_on(call, 2, 0);
    const qn_integer_result dw = {.sums = call->out[0]};
    integer_run(call, call->team, &gemm, call->in[1], call->in[0], &dw, call->workspace);
}

/* Sums of whole numbers may be cut anywhere. */
static int64_t integer_chunk(const qn_kernels *kernels, const void *attributes,
                             const qn_tensor *inputs) {
    (void)kernels;
    (void)attributes;
    (void)inputs;
    return 1;
}

static size_t integer_matmul_workspace(const qn_kernels *kernels, const void *attributes,
                                       const qn_tensor *inputs, const qn_tensor *outputs,
                                       int n_threads) {
    (void)outputs;
    const qn_gemm_shape gemm = matmul_gemm_of(attributes, inputs);
    return integer_bytes(kernels, &gemm, n_threads);
}

static void integer_matmul_run(const qn_call *call) {
    const qn_gemm_shape gemm = matmul_gemm_of(call->attributes, call->inputs);
    const int8_t *a = call->in[0], *b = call->in[1];
    int32_t *c = call->out[0];
    for (int64_t i = 0; i < matmul_count_matrices(call->outputs[0].shape); i++) {
        const qn_integer_result y = {.sums = c + i * gemm.m * gemm.n};
        integer_run(call, call->team, &gemm, a + i * gemm.m * gemm.k, b + i * gemm.k * gemm.n, &y,
                    call->workspace);
    }
}

/* ---- the same, whose sums are shifted ---- */

static qn_sums sums_of(const qn_op *twin, const qn_kernels *kernels, const void *attributes,
                       const qn_gemm_shape *gemm) {
    return qn_cpu_sums(qn_rescaling_of(twin, attributes), gemm->k,
                       qn_integer_kernels_get(kernels->isa)->gemm_keeps(gemm));
}

#define RESCALED(WORD, TWIN, GEMM, PRODUCT)                                                        \
    static size_t rescaled_##WORD##_workspace(const qn_kernels *kernels, const void *attributes,   \
                                              const qn_tensor *inputs, const qn_tensor *outputs,   \
                                              int n_threads) {                                     \
        const qn_gemm_shape gemm = GEMM(inputs);                                                   \
        return qn_cpu_sums_bytes(outputs, sums_of(&TWIN, kernels, attributes, &gemm)) +            \
               integer_bytes(kernels, &gemm, n_threads);                                           \
    }                                                                                              \
    static void rescaled_##WORD##_run(const qn_call *call) {                                       \
        const qn_gemm_shape gemm = GEMM(call->inputs);                                             \
        qn_cpu_rescale(call, PRODUCT, sums_of(&TWIN, call->kernels, call->attributes, &gemm));     \
    }

RESCALED(linear, qn_op_rescaled_linear, linear_forward_gemm, integer_linear)
RESCALED(data, qn_op_rescaled_linear_backward_data, linear_data_gemm, integer_data)
RESCALED(weight, qn_op_rescaled_linear_backward_weight, linear_weight_gemm, integer_weight)

/* ---- the same of BF16 or F16 ---- */

static size_t half_bytes(const qn_kernels *kernels, const qn_tensor *inputs,
                         const qn_gemm_shape *gemm, int n_threads) {
    const qn_halves how = qn_cpu_halves(kernels, inputs[0].dtype);
    return qn_half_kernels_get(&how)->gemm_workspace(&how, gemm, n_threads);
}

static void half_run(const qn_call *call, const qn_gemm_shape *gemm, const void *a, const void *b,
                     const qn_half_result *y) {
    const qn_halves how = qn_cpu_halves(call->kernels, call->inputs[0].dtype);
    qn_half_kernels_get(&how)->gemm(&how, call->team, gemm, a, b, y, call->workspace);
}

static void half_linear_run(const qn_call *call) {
    const qn_activation_attributes *a = call->attributes;
    const void *bias = call->node->n_inputs > 2 ? call->in[2] : NULL;
    const qn_gemm_shape gemm = linear_forward_gemm(call->inputs);
    const bool relu = a->activation.kind == QN_ACTIVATION_RELU;
    half_run(call, &gemm, call->in[0], call->in[1],
             &(qn_half_result){.halves = call->out[0], .bias = bias, .relu = relu});
}

static void half_data_run(const qn_call *call) {
    const qn_gemm_shape gemm = linear_data_gemm(call->inputs);
    half_run(call, &gemm, call->in[0], call->in[1], &(qn_half_result){.halves = call->out[0]});
}

static void half_weight_run(const qn_call *call) {
    qn_gemm_shape gemm = linear_weight_gemm(call->inputs);
    gemm.add = qn_call_goes_on(call, 2, 0);
    half_run(call, &gemm, call->in[1], call->in[0], &(qn_half_result){.sums = call->out[0]});
}

static int64_t half_weight_chunk(const qn_kernels *kernels, const void *attributes,
                                 const qn_tensor *inputs) {
    const qn_halves how = qn_cpu_halves(kernels, inputs[0].dtype);
    (void)attributes;
    return qn_half_kernels_get(&how)->gemm_chunk(&how);
}

/* Matrices one after the other. */
static void half_matmul_run(const qn_call *call) {
    const qn_gemm_shape gemm = matmul_gemm_of(call->attributes, call->inputs);
    const uint16_t *a = call->in[0], *b = call->in[1];
    uint16_t *c = call->out[0];
    for (int64_t i = 0; i < matmul_count_matrices(call->outputs[0].shape); i++)
        half_run(call, &gemm, a + i * gemm.m * gemm.k, b + i * gemm.k * gemm.n,
                 &(qn_half_result){.halves = c + i * gemm.m * gemm.n});
}

#define HALF_WORKSPACE(WORD, GEMM)                                                                 \
    static size_t half_##WORD##_workspace(const qn_kernels *kernels, const void *attributes,       \
                                          const qn_tensor *inputs, const qn_tensor *outputs,       \
                                          int n_threads) {                                         \
        const qn_gemm_shape gemm = GEMM;                                                           \
        (void)attributes;                                                                          \
        (void)outputs;                                                                             \
        return half_bytes(kernels, inputs, &gemm, n_threads);                                      \
    }
HALF_WORKSPACE(linear, linear_forward_gemm(inputs))
HALF_WORKSPACE(data, linear_data_gemm(inputs))
HALF_WORKSPACE(weight, linear_weight_gemm(inputs))
HALF_WORKSPACE(matmul, matmul_gemm_of(attributes, inputs))

const qn_cpu_operator qn_cpu_product[] = {
    {&qn_op_rescaled_linear, .types = QN_TYPES(QN_I8), .run = rescaled_linear_run,
     .workspace = rescaled_linear_workspace},
    {&qn_op_rescaled_linear_backward_data, .types = QN_TYPES(QN_I8), .run = rescaled_data_run,
     .workspace = rescaled_data_workspace},
    {&qn_op_rescaled_linear_backward_weight, .types = QN_TYPES(QN_I8), .run = rescaled_weight_run,
     .workspace = rescaled_weight_workspace},
    {&qn_op_linear, .types = QN_TYPES(QN_I8), .run = integer_linear_run,
     .workspace = integer_linear_workspace},
    {&qn_op_linear, .types = QN_TYPES_HALF, .run = half_linear_run,
     .workspace = half_linear_workspace},
    {&qn_op_linear, .run = linear_run, .workspace = linear_workspace, .takes_tiling = true},
    {&qn_op_linear_backward_data, .types = QN_TYPES(QN_I8), .run = integer_data_run,
     .workspace = integer_data_workspace},
    {&qn_op_linear_backward_data, .types = QN_TYPES_HALF, .run = half_data_run,
     .workspace = half_data_workspace},
    {&qn_op_linear_backward_data, .run = linear_data_run, .workspace = linear_data_workspace,
     .takes_tiling = true},
    {&qn_op_linear_backward_weight, .types = QN_TYPES(QN_I8), .run = integer_weight_run,
     .workspace = integer_weight_workspace, .chunk = integer_chunk},
    {&qn_op_linear_backward_weight, .types = QN_TYPES_HALF, .run = half_weight_run,
     .workspace = half_weight_workspace, .chunk = half_weight_chunk},
    {&qn_op_linear_backward_weight, .run = linear_weight_run, .workspace = linear_weight_workspace,
     .chunk = linear_weight_chunk, .takes_tiling = true},
    {&qn_op_matmul, .types = QN_TYPES(QN_I8), .run = integer_matmul_run,
     .workspace = integer_matmul_workspace},
    {&qn_op_matmul, .types = QN_TYPES_HALF, .run = half_matmul_run,
     .workspace = half_matmul_workspace},
    {&qn_op_matmul, .run = matmul_run, .workspace = matmul_workspace},
    {0},
};
