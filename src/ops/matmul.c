/* Matrix products over equal leading axes, either side transposed or not; their gradients are such
 * products again. Matrices are shared out among the team where there are enough of them; else the
 * team shares each one. The two give the same bits, as the product of a team does not depend on its
 * size. */
#include "ops/shared.h"

typedef struct matmul_attributes {
    bool transpose_a, transpose_b;
} matmul_attributes;

static const qn_attribute matmul_fields[] = {
    QN_FIELD(matmul_attributes, QN_ATTRIBUTE_BOOL, transpose_a),
    QN_FIELD(matmul_attributes, QN_ATTRIBUTE_BOOL, transpose_b),
    {0},
};

/* The product of the last two axes. */
static qn_gemm_shape gemm_of(const void *attributes, const qn_tensor *inputs) {
    const matmul_attributes *a = attributes;
    const int64_t *left = inputs[0].shape.dims + inputs[0].shape.rank - 2;
    const int64_t *right = inputs[1].shape.dims + inputs[1].shape.rank - 2;
    return (qn_gemm_shape){.m = left[a->transpose_a],
                           .n = right[!a->transpose_b],
                           .k = left[!a->transpose_a],
                           .transpose_a = a->transpose_a,
                           .transpose_b = a->transpose_b};
}

static int64_t count_matrices(qn_shape shape) {
    return qn_shape_count_range(shape, 0, shape.rank - 2);
}

static qn_status matmul_infer(qn_infer *infer) {
    const matmul_attributes *attributes = infer->attributes;
    char a_text[QN_SHAPE_TEXT], b_text[QN_SHAPE_TEXT];
    const qn_shape a = infer->inputs[0].shape, b = infer->inputs[1].shape;
    bool fits = a.rank >= 2 && a.rank == b.rank;
    for (int i = 0; fits && i < a.rank - 2; i++)
        fits = a.dims[i] == b.dims[i];
    fits = fits && a.dims[a.rank - 1 - attributes->transpose_a] ==
                       b.dims[b.rank - 2 + attributes->transpose_b];
    if (!fits)
        return qn_fail(QN_ERROR_ARGUMENT, "%s%s times %s%s: not (..., M, K) and (..., K, N)",
                       qn_shape_print(a, a_text), attributes->transpose_a ? " transposed" : "",
                       qn_shape_print(b, b_text), attributes->transpose_b ? " transposed" : "");
    const qn_gemm_shape gemm = gemm_of(attributes, infer->inputs);
    qn_shape y = a;
    y.dims[y.rank - 2] = gemm.m;
    y.dims[y.rank - 1] = gemm.n;
    infer->outputs[0] = (qn_tensor){infer->inputs[0].dtype, y};
    return QN_OK;
}

static qn_cost matmul_cost(const void *attributes, const qn_tensor *inputs,
                           const qn_tensor *outputs) {
    const qn_gemm_shape gemm = gemm_of(attributes, inputs);
    return (qn_cost){.flops = 2 * gemm.k * qn_shape_count(outputs[0].shape)};
}

/* Scratch of one thread that does whole matrices. */
static size_t thread_bytes(const qn_kernels *kernels, const qn_gemm_shape *gemm) {
    return (kernels->gemm_workspace(gemm, 1) + QN_ALIGNMENT - 1) / QN_ALIGNMENT * QN_ALIGNMENT;
}

static size_t matmul_workspace(const qn_kernels *kernels, const void *attributes,
                               const qn_tensor *inputs, const qn_tensor *outputs, int n_threads) {
    const qn_gemm_shape gemm = gemm_of(attributes, inputs);
    if (count_matrices(outputs[0].shape) < n_threads)
        return kernels->gemm_workspace(&gemm, n_threads);
    return (size_t)n_threads * thread_bytes(kernels, &gemm);
}

typedef struct matmul_context {
    const qn_kernels *kernels;
    qn_gemm_shape gemm;
    const char *a, *b;
    char *c, *workspace;
    size_t a_bytes, b_bytes, c_bytes, thread_bytes;
} matmul_context;

/* Matrix i by a team. */
static void run_matrix(const matmul_context *m, qn_team *team, int64_t i, void *workspace) {
    const qn_activation none = {QN_ACTIVATION_NONE, 0};
    m->kernels->gemm(team, &m->gemm, m->a + (size_t)i * m->a_bytes, m->b + (size_t)i * m->b_bytes,
                     NULL, none, m->c + (size_t)i * m->c_bytes, workspace);
}

static void matmul_task(void *context, int64_t begin, int64_t end, int thread) {
    const matmul_context *m = context;
    for (int64_t i = begin; i < end; i++)
        run_matrix(m, NULL, i, m->workspace + (size_t)thread * m->thread_bytes);
}

static void matmul_run(const qn_call *call) {
    const qn_gemm_shape gemm = gemm_of(call->attributes, call->inputs);
    const size_t unit = qn_dtype_bytes(call->outputs[0].dtype);
    const int64_t n_matrices = count_matrices(call->outputs[0].shape);
    matmul_context m = {.kernels = call->kernels,
                        .gemm = gemm,
                        .a = call->in[0],
                        .b = call->in[1],
                        .c = call->out[0],
                        .workspace = call->workspace,
                        .a_bytes = unit * (size_t)(gemm.m * gemm.k),
                        .b_bytes = unit * (size_t)(gemm.k * gemm.n),
                        .c_bytes = unit * (size_t)(gemm.m * gemm.n),
                        .thread_bytes = thread_bytes(call->kernels, &gemm)};
    if (n_matrices >= qn_team_size(call->team)) {
        qn_team_run(call->team, n_matrices, matmul_task, &m);
        return;
    }
    for (int64_t i = 0; i < n_matrices; i++)
        run_matrix(&m, call->team, i, m.workspace);
}

static qn_value add_product(qn_graph *graph, const qn_node *node, const char *suffix, qn_value a,
                            qn_value b, bool transpose_a, bool transpose_b) {
    const matmul_attributes attributes = {transpose_a, transpose_b};
    return qn_gradient_add(graph, node, suffix, &qn_op_matmul, (qn_value[]){a, b}, 2, &attributes);
}

/* d op(a) = dc op(b)^T and d op(b) = op(a)^T dc, each transposed where its operand is. */
static void matmul_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    const matmul_attributes *t = node->attributes;
    const qn_value a = node->inputs[0], b = node->inputs[1], dc = gradient->outputs[0];
    if (gradient->wanted[0])
        gradient->inputs[0] =
            t->transpose_a ? add_product(graph, node, "backward_a", b, dc, t->transpose_b, true)
                           : add_product(graph, node, "backward_a", dc, b, false, !t->transpose_b);
    if (gradient->wanted[1])
        gradient->inputs[1] =
            t->transpose_b ? add_product(graph, node, "backward_b", dc, a, true, t->transpose_a)
                           : add_product(graph, node, "backward_b", a, dc, !t->transpose_a, false);
}

static qn_value matmul_sample(qn_graph *graph, int variant) {
    const bool transpose_a = variant & 1, transpose_b = variant >> 1 & 1;
    const int64_t m = 5, k = 7, n = 3;
    qn_shape a = transpose_a ? QN_SHAPE(2, 3, k, m) : QN_SHAPE(2, 3, m, k);
    qn_shape b = transpose_b ? QN_SHAPE(2, 3, n, k) : QN_SHAPE(2, 3, k, n);
    if (variant == 4) {
        a = QN_SHAPE(17, 9);
        b = QN_SHAPE(9, 33);
    }
    return qn_matmul(graph, "y", qn_sample_parameter(graph, "a", a, 1),
                     qn_sample_parameter(graph, "b", b, 1), transpose_a, transpose_b);
}

const qn_op qn_op_matmul = {
    .name = "matmul",
    .attributes_bytes = sizeof(matmul_attributes),
    .attributes = matmul_fields,
    .min_inputs = 2,
    .max_inputs = 2,
    .is_product = true,
    .infer = matmul_infer,
    .gradient = matmul_gradient,
    .cost = matmul_cost,
    .workspace = matmul_workspace,
    .run = matmul_run,
    .n_samples = 5,
    .sample = matmul_sample,
};

qn_value qn_matmul(qn_graph *graph, const char *name, qn_value a, qn_value b, bool transpose_a,
                   bool transpose_b) {
    const matmul_attributes attributes = {transpose_a, transpose_b};
    return qn_graph_add1(graph, &qn_op_matmul, name, (qn_value[]){a, b}, 2, &attributes);
}
