/* Autodiff over whole graphs: several readers, values the loss does not depend on, only what is
 * needed, losses that are none, and a small network against difference quotients. */
#include "check.h"
#include "graph_run.h"

static const qn_initial uniform = {QN_INITIAL_UNIFORM, 1};

static qn_graph *create(void) {
    qn_graph *graph = NULL;
    CHECK_OK(qn_graph_create(
        &(qn_graph_options){QN_OPTIONS_INIT(qn_graph_options), .real = QN_F64, .training = true},
        &graph));
    return graph;
}

static int count_nodes(const qn_graph *graph, const char *op) {
    int n = 0;
    for (int i = 0; i < graph->n_nodes; i++)
        n += strcmp(graph->nodes[i]->op->name, op) == 0;
    return n;
}

/* loss = mean(x * x + x * x * x + x): dx = (2 x + 3 x x + 1) / n. */
static void test_several_readers(void) {
    qn_graph *g = create();
    qn_value x = qn_parameter(g, "x", QN_SHAPE(5), uniform, true), dx;
    qn_value square = qn_multiply(g, "square", x, x);
    qn_value sum =
        qn_add(g, "sum", qn_add(g, "sum0", square, qn_multiply(g, "cube", square, x)), x);
    CHECK_OK(qn_autodiff_for(g, qn_mean(g, "loss", sum), &x, 1, &dx));
    CHECK_OK(qn_graph_check(g));
    graph_run run = run_create(g);
    run_fill(&run);
    run_all(&run, qn_kernels_get(QN_F64, QN_ISA_REF), NULL);
    for (int i = 0; i < 5; i++) {
        const double at = run_get(&run, x, i);
        CHECK(fabs(run_get(&run, dx, i) - (2 * at + 3 * at * at + 1) / 5) < 1e-14);
    }
    run_destroy(&run);
    qn_graph_destroy(g);
}

static void test_only_what_is_needed(void) {
    qn_graph *g = create();
    const qn_initial zero = {QN_INITIAL_ZERO, 0};
    qn_value x = qn_input(g, "x", QN_SHAPE(2, 6, 6, 3));
    qn_value unused = qn_parameter(g, "unused", QN_SHAPE(3), zero, true);
    qn_value frozen = qn_parameter(g, "frozen", QN_SHAPE(4, 3, 3, 3), zero, false);
    qn_value y = qn_conv2d(g, "conv1", x, frozen, QN_NO_VALUE, qn_window_square(3, 1, 1), 1);
    y = qn_conv2d_layer(g, "conv2", qn_relu(g, "relu", y), 5, qn_window_square(3, 1, 1), 1, true);
    qn_relu(g, "aside", y);
    const qn_value *parameters, *gradients;
    int n;
    CHECK_OK(qn_autodiff(g, qn_mean(g, "loss", y), NULL, &parameters, &gradients, &n));
    CHECK(n == 3 && parameters[0].id == unused.id && gradients[0].id == -1);
    CHECK(n == 3 && gradients[1].id >= 0 && gradients[2].id >= 0);
    CHECK(count_nodes(g, "conv2d_backward_data") == 0);
    CHECK(count_nodes(g, "conv2d_backward_filter") == 1);
    CHECK(count_nodes(g, "activation_backward") == 0);
    CHECK(qn_graph_value(g, gradients[1])->kind == QN_KIND_GRADIENT);
    CHECK(strcmp(qn_graph_value(g, gradients[1])->name, "conv2.backward_filter") == 0);
    CHECK(strcmp(qn_graph_value(g, gradients[2])->name, "conv2.backward_bias") == 0);
    CHECK_OK(qn_graph_check(g));
    qn_graph_destroy(g);
}

/* loss = mean(stop(x * x) * x): dx = x * x / n, and nothing behind the stop has a gradient. */
static void test_stop(void) {
    qn_graph *g = create();
    qn_value x = qn_parameter(g, "x", QN_SHAPE(5), uniform, true);
    qn_value unreached = qn_parameter(g, "unreached", QN_SHAPE(5), uniform, true);
    qn_value square = qn_stop_gradient(g, "stop", qn_multiply(g, "square", x, x));
    qn_value still = qn_stop_gradient(g, "still", qn_tanh(g, "tanh", unreached));
    qn_value y = qn_add(g, "sum", qn_multiply(g, "cube", square, x), still);
    const qn_value wanted[] = {x, unreached};
    qn_value gradients[2];
    CHECK_OK(qn_autodiff_for(g, qn_mean(g, "loss", y), wanted, 2, gradients));
    CHECK(gradients[1].id == -1 && count_nodes(g, "activation_backward") == 0);
    graph_run run = run_create(g);
    run_fill(&run);
    run_all(&run, qn_kernels_get(QN_F64, QN_ISA_REF), NULL);
    for (int i = 0; i < 5; i++) {
        const double at = run_get(&run, x, i);
        CHECK(fabs(run_get(&run, gradients[0], i) - at * at / 5) < 1e-15);
    }
    run_destroy(&run);
    qn_graph_destroy(g);
}

/* Two losses over one graph, and a second time the same: names stay unique. */
static void test_twice(void) {
    qn_graph *g = create();
    qn_value x = qn_parameter(g, "x", QN_SHAPE(3, 4), uniform, true), dx;
    qn_value y = qn_tanh(g, "y", x);
    qn_value first = qn_mean(g, "first", y);
    qn_value second = qn_mean(g, "second", qn_multiply(g, "square", y, y));
    CHECK_OK(qn_autodiff_for(g, first, &x, 1, &dx));
    CHECK_OK(qn_autodiff_for(g, second, &x, 1, &dx));
    CHECK_OK(qn_autodiff_for(g, first, &x, 1, &dx));
    CHECK_OK(qn_graph_check(g));
    qn_graph_destroy(g);
}

static void test_failures(void) {
    qn_value dx;
    qn_graph *g = create();
    qn_value x = qn_parameter(g, "x", QN_SHAPE(3), uniform, true);
    CHECK_FAILS(qn_autodiff_for(g, x, &x, 1, &dx), QN_ERROR_ARGUMENT, "x is 3, not a real scalar");
    qn_graph_destroy(g);
    g = create();
    CHECK_FAILS(qn_autodiff_for(g, QN_NO_VALUE, NULL, 0, NULL), QN_ERROR_ARGUMENT, "not a value");
    qn_graph_destroy(g);
    g = create();
    x = qn_parameter(g, "x", QN_SHAPE(3), uniform, true);
    qn_value factor =
        qn_op_clip_factor(g, "clip", qn_input(g, "h", QN_SHAPE(QN_HYPER_COUNT)), &x, 1, 1);
    CHECK_FAILS(qn_autodiff_for(g, factor, &x, 1, &dx), QN_ERROR_UNSUPPORTED,
                "clip: no gradient flows through the operator clip_factor");
    qn_graph_destroy(g);
}

/* The mask of dropout is the same forwards and backwards. */
static void test_dropout(void) {
    qn_graph *g = create();
    qn_value x = qn_parameter(g, "x", QN_SHAPE(100), uniform, true), dx;
    qn_value y = qn_dropout(g, "dropout", x, 0.5);
    CHECK_OK(qn_autodiff_for(g, qn_mean(g, "loss", y), &x, 1, &dx));
    graph_run run = run_create(g);
    run_fill(&run);
    run_all(&run, qn_kernels_get(QN_F64, QN_ISA_REF), NULL);
    int kept = 0;
    for (int i = 0; i < 100; i++) {
        const bool is_kept = run_get(&run, y, i) != 0;
        kept += is_kept;
        CHECK(fabs(run_get(&run, dx, i) - (is_kept ? 0.02 : 0)) < 1e-15);
    }
    CHECK(kept > 25 && kept < 75);
    run_destroy(&run);
    qn_graph_destroy(g);
}

/* A residual network with everything in it. */
static qn_value build_network(qn_graph *g) {
    qn_value x = qn_input(g, "x", QN_SHAPE(3, 9, 9, 2));
    qn_value labels = qn_label(g, "labels", QN_I32, QN_SHAPE(3));
    qn_value a = qn_conv2d_layer(g, "conv1", x, 4, qn_window_square(3, 1, 1), 1, false);
    a = qn_tanh(g, NULL, qn_batch_norm_layer(g, "norm1", a, 1e-5));
    qn_value b = qn_conv2d_layer(g, "conv2", a, 4, qn_window_square(3, 1, 1), 4, true);
    a = qn_sigmoid(g, NULL, qn_add(g, NULL, a, b));
    a = qn_average_pool(g, NULL, a, qn_window_square(3, 2, 0));
    a = qn_concat(g, NULL, (qn_value[]){a, qn_slice(g, NULL, a, -1, 1, 3)}, 2, -1);
    a = qn_linear_layer(g, "fc", a, 5);
    return qn_mean(g, "loss", qn_softmax_cross_entropy(g, "entropy", a, labels, 0.1));
}

static double loss_at(const graph_run *run, qn_value loss, qn_value w, int64_t i, double at) {
    run_set(run, w, i, at);
    run_all(run, qn_kernels_get(QN_F64, QN_ISA_REF), NULL);
    return run_get(run, loss, 0);
}

static void test_network(void) {
    const double h = 1e-5;
    const qn_value *parameters, *gradients;
    int n;
    qn_graph *g = create();
    qn_value loss = build_network(g);
    CHECK_OK(qn_autodiff(g, loss, NULL, &parameters, &gradients, &n));
    CHECK(n == 7);
    graph_run run = run_create(g);
    run_fill(&run);
    for (int p = 0; p < n; p++) {
        for (int64_t i = 0; i < qn_shape_count(qn_graph_shape(g, parameters[p])); i += 3) {
            const double at = run_get(&run, parameters[p], i);
            const double above = loss_at(&run, loss, parameters[p], i, at + h);
            const double below = loss_at(&run, loss, parameters[p], i, at - h);
            loss_at(&run, loss, parameters[p], i, at);
            CHECK(fabs(run_get(&run, gradients[p], i) - (above - below) / (2 * h)) < 1e-8);
        }
    }
    run_destroy(&run);
    qn_graph_destroy(g);
}

int main(void) {
    test_several_readers();
    test_only_what_is_needed();
    test_stop();
    test_twice();
    test_failures();
    test_dropout();
    test_network();
    return checks_finish();
}
