/* Operators that take 16-bit floats (qn_op: halves) have the bits of those in f32 between two
 * conversions: every one that samples and their gradients reach, on every instruction set, by one
 * and three threads, in more than one slice of a batch, and with rows that lie apart. */
#include "check.h"
#include "graph_run.h"
#include "ops/network/norm.h"
#include "ops/shared.h"
#include "os/os.h"
#include "quern/ops.h"

enum { MOST_INPUTS = 8, APART = 5 };

/* A node on halves and the same one on floats. */
typedef struct both {
    qn_graph *graph;
    const qn_node *narrow, *wide;
    qn_value rounded; /* output 0 of the wide one */
} both;

static qn_team *team;
static bool is_seen[512]; /* by place in qn_ops */

static qn_value source(qn_graph *graph, const char *name, qn_tensor tensor) {
    return qn_graph_add_source(graph, QN_KIND_LABEL, name, tensor, (qn_initial){QN_INITIAL_ZERO, 0},
                               false);
}

/* Places of a window's largest number, as the gradient of a max pool reads them. */
static qn_value places(qn_graph *graph, const qn_graph *from, const qn_node *node) {
    const qn_node *pool = from->nodes[qn_graph_value(from, node->inputs[1])->producer];
    const qn_value x = source(graph, "x", pool->input_tensors[0]);
    return qn_graph_add(graph, pool->op, "pool", &x, 1, pool->attributes)->outputs[1];
}

static both make(const qn_graph *from, const qn_node *node, qn_dtype half) {
    const qn_graph_options options = {QN_OPTIONS_INIT(qn_graph_options), .real = QN_F32};
    qn_value narrow[MOST_INPUTS], wide[MOST_INPUTS];
    both b;
    CHECK_OK(qn_graph_create(&options, &b.graph));
    for (int i = 0; i < node->n_inputs; i++) {
        char name[16];
        snprintf(name, sizeof name, "in%d", i);
        qn_tensor tensor = node->input_tensors[i];
        narrow[i] = wide[i] = QN_NO_VALUE;
        if (node->inputs[i].id < 0)
            continue;
        if (tensor.dtype == QN_U16) {
            narrow[i] = wide[i] = places(b.graph, from, node);
            continue;
        }
        if (node->op->halves >> i & 1)
            tensor.dtype = half;
        narrow[i] = wide[i] = source(b.graph, name, tensor);
        if (tensor.dtype == half)
            wide[i] = qn_op_cast(b.graph, NULL, narrow[i], QN_F32);
    }
    b.narrow = qn_graph_add(b.graph, node->op, "narrow", narrow, node->n_inputs, node->attributes);
    b.wide = qn_graph_add(b.graph, node->op, "wide", wide, node->n_inputs, node->attributes);
    b.rounded = qn_op_cast(b.graph, NULL, b.wide->outputs[0], half);
    CHECK_OK(qn_graph_finish(b.graph));
    return b;
}

/* Of both signs; what is no half, as deviations, above 0. */
static void fill(const graph_run *run) {
    for (int v = 0; v < run->n_values; v++) {
        const qn_value_info *info = run->graph->values[v];
        const qn_rng rng = qn_rng_make(1, qn_hash_text(info->name), 0);
        const bool is_half = qn_dtype_is_half(info->tensor.dtype);
        for (int64_t i = 0; info->producer < 0 && i < qn_shape_count(info->tensor.shape); i++) {
            const double uniform = (double)qn_rng_uniform(qn_rng_word(rng, (uint64_t)i));
            run_set(run, (qn_value){v}, i, is_half ? 4 * uniform - 2 : 0.5 + uniform);
        }
    }
}

static bool are_same(const graph_run *run, qn_value a, qn_value b) {
    const qn_tensor tensor = qn_graph_tensor(run->graph, a);
    return memcmp(run->memory[a.id], run->memory[b.id], qn_tensor_bytes(tensor)) == 0;
}

/* ---- rows that lie apart ---- */

static char *spread(const void *dense, qn_tensor tensor) {
    const size_t bytes = qn_dtype_bytes(tensor.dtype);
    const int64_t c = qn_shape_columns(tensor.shape), rows = qn_shape_rows(tensor.shape);
    char *apart = run_allocate((size_t)(rows * (c + APART)) * bytes);
    for (int64_t row = 0; dense && row < rows; row++)
        memcpy(apart + (size_t)(row * (c + APART)) * bytes,
               (const char *)dense + (size_t)(row * c) * bytes, (size_t)c * bytes);
    return apart;
}

static bool is_spread(const char *apart, const void *dense, qn_tensor tensor) {
    const size_t bytes = qn_dtype_bytes(tensor.dtype);
    const int64_t c = qn_shape_columns(tensor.shape), rows = qn_shape_rows(tensor.shape);
    for (int64_t row = 0; row < rows; row++) {
        if (memcmp(apart + (size_t)(row * (c + APART)) * bytes,
                   (const char *)dense + (size_t)(row * c) * bytes, (size_t)c * bytes) != 0)
            return false;
    }
    return true;
}

/* The node on halves once more, each operand with rows apart that may have them. */
static void check_apart(const both *b, const graph_run *run, const qn_kernels *kernels) {
    const qn_node *node = b->narrow;
    qn_tensor outputs[QN_MAX_OUTPUTS];
    void *in[MOST_INPUTS], *out[QN_MAX_OUTPUTS];
    int64_t in_strides[MOST_INPUTS], out_strides[QN_MAX_OUTPUTS];
    for (int i = 0; i < node->n_inputs; i++) {
        const bool is_apart = node->op->strided_inputs >> i & 1 && node->inputs[i].id >= 0;
        in_strides[i] = qn_shape_columns(node->input_tensors[i].shape) + (is_apart ? APART : 0);
        in[i] = node->inputs[i].id < 0 ? NULL : run->memory[node->inputs[i].id];
        if (is_apart)
            in[i] = spread(in[i], node->input_tensors[i]);
    }
    for (int i = 0; i < node->n_outputs; i++) {
        const bool is_apart = node->op->strided_outputs >> i & 1;
        outputs[i] = qn_graph_tensor(b->graph, node->outputs[i]);
        out_strides[i] = qn_shape_columns(outputs[i].shape) + (is_apart ? APART : 0);
        out[i] = spread(NULL, outputs[i]);
    }
    const qn_machine machine = qn_machine_cpu(kernels, qn_team_size(team));
    const qn_query query = {node->op,         node->attributes,    node->n_inputs,
                            node->n_outputs,  node->input_tensors, outputs,
                            machine.n_threads};
    qn_call call = {.node = node,
                    .attributes = node->attributes,
                    .team = team,
                    .inputs = node->input_tensors,
                    .outputs = outputs,
                    .in = in,
                    .out = out,
                    .in_strides = in_strides,
                    .out_strides = out_strides,
                    .workspace = run_allocate(qn_machine_workspace(&machine, 0, &query))};
    qn_cpu_prepare(&call, &machine);
    qn_cpu_run(&call);
    const void *right = run->memory[b->rounded.id];
    CHECK(node->op->strided_outputs & 1 ? is_spread(out[0], right, outputs[0])
                                        : memcmp(out[0], right, qn_tensor_bytes(outputs[0])) == 0);
    free(call.workspace);
    for (int i = 0; i < node->n_inputs; i++) {
        if (in[i] && in_strides[i] > qn_shape_columns(node->input_tensors[i].shape))
            free(in[i]);
    }
    for (int i = 0; i < node->n_outputs; i++)
        free(out[i]);
}

/* ---- every node ---- */

static void check_node(const qn_graph *from, const qn_node *node, qn_dtype half) {
    const both b = make(from, node, half);
    qn_isa best;
    CHECK_OK(qn_cpu_isa(&best));
    for (int isa = QN_ISA_REF; isa <= (int)best; isa++) {
        const qn_kernels *kernels = qn_kernels_get(QN_F32, (qn_isa)isa);
        for (int n = 0; n < 2; n++) {
            graph_run run = run_create(b.graph);
            fill(&run);
            run_all(&run, kernels, n == 0 ? NULL : team);
            CHECK(are_same(&run, b.narrow->outputs[0], b.rounded));
            for (int i = 1; i < node->n_outputs; i++)
                CHECK(are_same(&run, b.narrow->outputs[i], b.wide->outputs[i]));
            if (n == 1 && (node->op->strided_inputs | node->op->strided_outputs))
                check_apart(&b, &run, kernels);
            run_destroy(&run);
        }
    }
    qn_graph_destroy(b.graph);
}

static void check_graph(const qn_graph *graph) {
    for (int n = 0; n < graph->n_nodes; n++) {
        const qn_node *node = graph->nodes[n];
        if (!node->op->halves || node->input_tensors[0].shape.rank < 2)
            continue;
        check_node(graph, node, QN_BF16);
        check_node(graph, node, QN_F16);
        for (int i = 0; qn_ops[i]; i++)
            is_seen[i] |= qn_ops[i] == node->op;
    }
}

/* Batches of several slices, and norms of several chunks. */
static qn_value large_sample(qn_graph *graph, int variant) {
    const qn_shape shape = variant ? QN_SHAPE(13, 16, 24, 19) : QN_SHAPE(2, 32, 48, 33);
    const qn_value x = qn_sample_parameter(graph, "x", shape, 2);
    const qn_shape channels = QN_SHAPE(qn_shape_columns(shape));
    const qn_batch_norm_attributes how = {1e-5, {QN_ACTIVATION_RELU, 0}};
    const qn_value inputs[] = {x, qn_sample_parameter(graph, "scale", channels, 1),
                               qn_sample_parameter(graph, "shift", channels, 1)};
    const qn_value y = qn_graph_add1(graph, &qn_op_batch_norm, "norm", inputs, 3, &how);
    const qn_window window = {.kernel_h = 2, .kernel_w = 2, .stride_h = 2, .stride_w = 2};
    return variant ? qn_max_pool(graph, "pool", qn_tanh(graph, "tanh", qn_add(graph, "sum", x, y)),
                                 window)
                   : qn_average_pool(graph, "pool", qn_relu(graph, "relu", y), window);
}

static void check_sample(const qn_op *op, int variant) {
    op_sample sample = sample_build(op, variant, QN_F32);
    if (sample.graph->status == QN_OK)
        check_graph(sample.graph);
    qn_graph_destroy(sample.graph);
}

static void test_refused(void) {
    const qn_graph_options options = {QN_OPTIONS_INIT(qn_graph_options), .real = QN_F32};
    for (int i = 0; i < 3; i++) {
        qn_graph *graph;
        CHECK_OK(qn_graph_create(&options, &graph));
        const qn_shape shape = i == 0 ? QN_SHAPE(6) : QN_SHAPE(2, 3);
        const qn_value a = source(graph, "a", (qn_tensor){QN_BF16, shape});
        const qn_value b = source(graph, "b", (qn_tensor){i == 1 ? QN_F16 : QN_F32, shape});
        qn_add(graph, "sum", a, i == 0 ? a : b);
        CHECK(qn_graph_finish(graph) == QN_ERROR_ARGUMENT);
        CHECK(strstr(qn_error_message(), "cast it"));
        qn_graph_destroy(graph);
    }
}

int main(void) {
    static const qn_op large = {
        .n_samples = 2, .sample = large_sample, .gradient = qn_activation_gradient};
    CHECK_OK(qn_team_create(NULL, 3, &team));
    for (int i = 0; qn_ops[i]; i++) {
        for (int variant = 0; variant < qn_ops[i]->n_samples; variant++)
            check_sample(qn_ops[i], variant);
    }
    check_sample(&large, 0);
    check_sample(&large, 1);
    for (int i = 0; qn_ops[i]; i++) {
        CHECK(!qn_ops[i]->halves || is_seen[i]);
        if (qn_ops[i]->halves && !is_seen[i])
            printf("no sample reaches %s\n", qn_ops[i]->name);
    }
    test_refused();
    qn_team_destroy(team);
    return checks_finish();
}
