/* Fusion takes activations in where it may, leaves them where it must not, and changes no bit. */
#include "a_machine.h"
#include "check.h"
#include "os/heap.h"
#include "os/os.h"
#include "passes/passes.h"
#include "quern/ops.h"
#include "run/executor.h"

#include <stdlib.h>

typedef struct built {
    qn_graph *graph;
    qn_value x, y;
} built;

/* Every kind of operator that can take an activation in, and two places where none may be. */
static built build(void) {
    built b = {0};
    CHECK_OK(qn_graph_create(
        &(qn_graph_options){QN_OPTIONS_INIT(qn_graph_options), .training = true}, &b.graph));
    qn_graph *g = b.graph;
    b.x = qn_input(g, "x", QN_SHAPE(2, 8, 8, 3));
    qn_value v = qn_conv2d_layer(g, "conv", b.x, 4, qn_window_square(3, 1, 1), 1, true);
    v = qn_tanh(g, "tanh", v);
    v = qn_relu(g, "relu", qn_batch_norm_layer(g, "bn", v, 1e-5));
    qn_value twice = qn_conv2d_layer(g, "twice", v, 4, qn_window_square(1, 1, 0), 1, false);
    v = qn_add(g, "sum", qn_sigmoid(g, "read twice", twice), twice);
    v = qn_leaky_relu(g, "leaky", v, 0.1);
    v = qn_relu6(g, "relu6", qn_linear_layer(g, "fc", v, 5));
    b.y = qn_mean(g, "mean", qn_relu(g, "second", v));
    qn_graph_value(g, b.y)->is_result = true;
    CHECK_OK(qn_graph_finish(g));
    return b;
}

/* The loss and the gradient of the first convolution's filter. */
static void run(qn_graph *graph, qn_value y, float *results) {
    const qn_allocator *a = qn_allocator_default();
    const qn_kernels *kernels = qn_kernels_get(QN_F32, QN_ISA_REF);
    const qn_value filter = qn_graph_find(graph, "conv.weight");
    qn_value gradient;
    qn_plan *plan = NULL;
    qn_executor *executor = NULL;
    void *arena = NULL, *memory[64] = {0};
    CHECK_OK(qn_autodiff_for(graph, y, &filter, 1, &gradient));
    qn_graph_value(graph, gradient)->is_result = true;
    CHECK_OK(qn_plan_create(a, graph, A_MACHINE(kernels, 1), &plan));
    CHECK_OK(qn_allocate(a, 1, plan->arena_bytes, &arena));
    CHECK_OK(qn_executor_create(a, graph, plan, A_MACHINE(kernels, 1), NULL, arena, &executor));
    int n = 0;
    for (int v = 0; v < graph->n_values; v++) {
        const qn_value_info *info = graph->values[v];
        if (info->producer >= 0)
            continue;
        float *at = memory[n++] = calloc(1, qn_tensor_bytes(info->tensor) + 64);
        const qn_rng rng = qn_rng_make(1, qn_hash_text(info->name), 0);
        for (int64_t i = 0; i < qn_shape_count(info->tensor.shape); i++)
            at[i] = (float)qn_rng_normal(rng, (uint64_t)i);
        qn_executor_bind(executor, (qn_value){v}, at);
    }
    CHECK_OK(qn_executor_run(executor, 1, 0, NULL));
    memcpy(results, qn_executor_get(executor, y), sizeof(float));
    memcpy(results + 1, qn_executor_get(executor, gradient), 108 * sizeof(float));
    for (int i = 0; i < n; i++)
        free(memory[i]);
    qn_executor_destroy(executor);
    qn_release(a, arena, 1, plan->arena_bytes);
    qn_plan_destroy(plan);
}

static bool has_node(const qn_graph *graph, const char *name) {
    for (int n = 0; n < graph->n_nodes; n++) {
        if (strcmp(graph->nodes[n]->name, name) == 0)
            return true;
    }
    return false;
}

/* Products that are to stay keep their activations behind them; norms and sums do not. */
static void test_kept_products(void) {
    built plain = build();
    qn_graph *fused = NULL;
    const qn_value *values;
    CHECK_OK(qn_fuse(plain.graph, 0, true, &fused, &values));
    CHECK(has_node(fused, "tanh") && has_node(fused, "relu6"));
    CHECK(!has_node(fused, "relu") && !has_node(fused, "leaky"));
    qn_graph_destroy(plain.graph);
    qn_graph_destroy(fused);
}

int main(void) {
    test_kept_products();
    built plain = build();
    qn_graph *fused = NULL;
    const qn_value *values;
    CHECK_OK(qn_fuse(plain.graph, 0, false, &fused, &values));
    CHECK_OK(qn_graph_check(fused));
    const qn_value y = values[plain.y.id];
    CHECK(qn_graph_value(fused, y)->is_result);
    CHECK(fused->n_nodes == plain.graph->n_nodes - 4);
    CHECK(!has_node(fused, "tanh") && !has_node(fused, "relu") && !has_node(fused, "leaky"));
    CHECK(!has_node(fused, "relu6") && has_node(fused, "second") && has_node(fused, "read twice"));
    float a[109], b[109];
    run(plain.graph, plain.y, a);
    run(fused, y, b);
    CHECK(memcmp(a, b, sizeof a) == 0);
    CHECK(isfinite(a[0]) && a[0] != 0 && a[1] != 0);
    qn_graph_destroy(plain.graph);
    qn_graph_destroy(fused);
    return checks_finish();
}
