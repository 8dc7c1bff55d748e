/* Walks the list of operators. Every sample: the gradient that autodiff adds against difference
 * quotients in double; the float kernels against the double ones; the same bits whatever the
 * number of threads; costs; wrong shapes are refused. Every operator must be reached. */
#include "check.h"
#include "graph_run.h"
#include "ops/shared.h"
#include "os/heap.h"

#include <float.h>

static bool is_reached[256];

/* An emulated or instrumented program leaves out what runs the plain reference code alone. */
static bool is_slow;

static void mark_reached(const qn_graph *graph) {
    for (int n = 0; n < graph->n_nodes; n++) {
        for (int i = 0; qn_ops[i]; i++)
            is_reached[i] |= graph->nodes[n]->op == qn_ops[i];
    }
}

static void say(const qn_op *op, int variant, const char *what) {
    printf("%s, sample %d: %s\n", op->name, variant, what);
}

/* ---- gradients ---- */

static double run_loss(const graph_run *run, const op_sample *sample, const qn_kernels *kernels) {
    run_all(run, kernels, NULL);
    return run_get(run, sample->loss, 0);
}

/* Distance and size of the gradient of one source and its difference quotients. */
static double gradient_error(const graph_run *run, const op_sample *sample, int source,
                             const qn_kernels *kernels) {
    const double h = 1e-5;
    const qn_value x = sample->sources[source];
    const int64_t n = qn_shape_count(qn_graph_shape(sample->graph, x));
    double *gradient = calloc((size_t)n, sizeof *gradient), error = 0, size = 0;
    run_all(run, kernels, NULL);
    for (int64_t i = 0; i < n; i++)
        gradient[i] = run_get(run, sample->gradients[source], i);
    for (int64_t i = 0; i < n; i++) {
        const double at = run_get(run, x, i);
        run_set(run, x, i, at + h);
        const double above = run_loss(run, sample, kernels);
        run_set(run, x, i, at - h);
        const double below = run_loss(run, sample, kernels);
        run_set(run, x, i, at);
        const double quotient = (above - below) / (2 * h);
        error += (quotient - gradient[i]) * (quotient - gradient[i]);
        size += gradient[i] * gradient[i];
    }
    free(gradient);
    return sqrt(error) / (sqrt(size) + 1e-4);
}

static void check_gradients(const qn_op *op, int variant) {
    const qn_kernels *kernels = qn_kernels_get(QN_F64, QN_ISA_REF);
    op_sample sample = sample_build(op, variant, QN_F64);
    graph_run run = run_create(sample.graph);
    run_fill(&run);
    for (int i = 0; i < sample.n_sources; i++) {
        const qn_value_info *info = qn_graph_value(sample.graph, sample.sources[i]);
        CHECK(sample.gradients[i].id >= 0);
        if (sample.gradients[i].id < 0)
            continue;
        CHECK(
            qn_shape_equal(qn_graph_shape(sample.graph, sample.gradients[i]), info->tensor.shape));
        const double error = gradient_error(&run, &sample, i, kernels);
        CHECK(error < 1e-6);
        if (!(error < 1e-6)) {
            say(op, variant, info->name);
            printf("relative error of the gradient %g\n", error);
        }
    }
    run_destroy(&run);
    qn_graph_destroy(sample.graph);
}

/* ---- float against double ---- */

/* Rounding errors grow with the additions behind an element. */
static double longest_reduction(const qn_graph *graph) {
    double sum = 0;
    for (int n = 0; n < graph->n_nodes; n++) {
        const qn_node *node = graph->nodes[n];
        const int64_t count = qn_shape_count(qn_graph_shape(graph, node->outputs[0]));
        sum += (double)qn_node_cost(graph, node).flops / (double)count;
    }
    return sum;
}

static double value_error(const graph_run *single, const graph_run *truth, qn_value value) {
    const int64_t n = qn_shape_count(qn_graph_shape(truth->graph, value));
    double error = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        const double a = run_get(single, value, i), b = run_get(truth, value, i);
        error += (a - b) * (a - b);
        size += b * b;
    }
    return sqrt(error) / (sqrt(size) + 1e-3);
}

static void check_float(const qn_op *op, int variant, qn_isa isa) {
    op_sample single = sample_build(op, variant, QN_F32), truth = sample_build(op, variant, QN_F64);
    graph_run run32 = run_create(single.graph), run64 = run_create(truth.graph);
    run_fill(&run32);
    run_fill(&run64);
    run_all(&run32, qn_kernels_get(QN_F32, isa), NULL);
    run_all(&run64, qn_kernels_get(QN_F64, QN_ISA_REF), NULL);
    const double bound = (8 + 2 * longest_reduction(truth.graph)) * (double)FLT_EPSILON;
    CHECK(single.graph->n_values == truth.graph->n_values);
    for (int v = 0; v < run64.n_values; v++) {
        const double error = value_error(&run32, &run64, (qn_value){v});
        CHECK(error <= bound);
        if (!(error <= bound)) {
            say(op, variant, truth.graph->values[v]->name);
            printf("%s: relative error %g, bound %g\n", qn_isa_name(isa), error, bound);
        }
    }
    run_destroy(&run32);
    run_destroy(&run64);
    qn_graph_destroy(single.graph);
    qn_graph_destroy(truth.graph);
}

/* ---- the same bits ---- */

static void check_threads(const qn_op *op, int variant, qn_isa isa) {
    const qn_kernels *kernels = qn_kernels_get(QN_F32, isa);
    op_sample sample = sample_build(op, variant, QN_F32);
    graph_run first = run_create(sample.graph);
    run_fill(&first);
    run_all(&first, kernels, NULL);
    for (int n_threads = 2; n_threads <= 3; n_threads++) {
        qn_team *team;
        graph_run run = run_create(sample.graph);
        CHECK_OK(qn_team_create(qn_allocator_default(), n_threads, &team));
        run_fill(&run);
        run_all(&run, kernels, team);
        for (int v = 0; v < run.n_values; v++) {
            const size_t bytes = qn_tensor_bytes(sample.graph->values[v]->tensor);
            const bool is_same = memcmp(first.memory[v], run.memory[v], bytes) == 0;
            CHECK(is_same);
            if (!is_same)
                say(op, variant, sample.graph->values[v]->name);
        }
        qn_team_destroy(team);
        run_destroy(&run);
    }
    run_destroy(&first);
    qn_graph_destroy(sample.graph);
}

/* ---- costs, attributes, wrong shapes ---- */

static void check_costs(qn_graph *graph) {
    for (int n = 0; n < graph->n_nodes; n++) {
        const qn_node *node = graph->nodes[n];
        const qn_cost cost = qn_node_cost(graph, node);
        CHECK(node->op->is_view ? cost.bytes == 0 : cost.bytes > 0);
        CHECK(node->op->cost ? cost.flops > 0 : cost.flops == 0);
        CHECK((node->op->attributes_bytes > 0) == (node->op->attributes != NULL));
        CHECK(qn_op_find(node->op->name) == node->op);
        CHECK(qn_node_print_attributes(graph, node) != NULL);
    }
}

/* The CPU runs every operator, but views, of which there is nothing to run; one that sums over the
 * batch says in which chunks, and no other does. */
static void check_rows(void) {
    for (int i = 0; qn_ops[i]; i++) {
        const qn_cpu_operator *row = qn_cpu_row(qn_ops[i]);
        const bool is_run = !qn_ops[i]->is_view && !qn_ops[i]->is_wait;
        const bool is_right = is_run ? row && row->run : !row;
        CHECK(is_right);
        if (!is_right)
            printf("the CPU's row of %s\n", qn_ops[i]->name);
        CHECK(qn_ops[i]->sums_batch == (row && row->chunk));
    }
}

/* What a property says of inputs and attributes holds (graph/op.h). */
static bool has_right_properties(const qn_op *op) {
    const qn_op *given = qn_op_twin(op, QN_TWIN_GIVEN_STATISTICS);
    return (!op->is_activation ||
            (op->attributes == qn_activation_fields && op->max_inputs == 1)) &&
           (!op->is_linear || (op->is_product && op->min_inputs >= 2)) &&
           (!op->is_norm || op->min_inputs >= 3) &&
           (!op->moves_statistics || (op->overwrites[0] == 3 && op->overwrites[1] == 4)) &&
           (!op->is_broadcast || op->max_inputs == 1) && (!op->is_sum || op->min_inputs >= 2) &&
           (!given || (op->is_norm && given->is_norm && given->min_inputs == 5 &&
                       given->attributes == op->attributes));
}

static void check_properties(void) {
    for (int i = 0; qn_ops[i]; i++) {
        CHECK(has_right_properties(qn_ops[i]));
        if (!has_right_properties(qn_ops[i]))
            printf("the properties of %s\n", qn_ops[i]->name);
    }
}

/* Inputs of which any shape with one axis more is right, too. */
static bool takes_more_axes(const qn_node *node, int input) {
    const qn_op *op = node->op;
    if (strcmp(op->name, "binary_cross_entropy") == 0 || strcmp(op->name, "gated") == 0)
        return node->inputs[1].id < 0;
    if (strcmp(op->name, "clip_factor") == 0)
        return input > 0;
    if (strcmp(op->name, "bias") == 0 || strcmp(op->name, "batch_norm") == 0 ||
        strcmp(op->name, "batch_norm_inference") == 0 || strcmp(op->name, "layer_norm") == 0 ||
        strcmp(op->name, "rms_norm") == 0 || strcmp(op->name, "whole_norm") == 0)
        return input == 0;
    if (strcmp(op->name, "combine") == 0 || strcmp(op->name, "where") == 0 ||
        strcmp(op->name, "integer") == 0 || strcmp(op->name, "pick") == 0)
        return true;
    if (strcmp(op->name, "mean_valid_backward") == 0 || strcmp(op->name, "column_sum") == 0)
        return input == 0;
    if (strcmp(op->name, "quantise") == 0 || strcmp(op->name, "dequantise") == 0 ||
        strcmp(op->name, "round") == 0 || strcmp(op->name, "settle") == 0 ||
        strcmp(op->name, "adapt") == 0 || strcmp(op->name, "choose") == 0 ||
        strcmp(op->name, "take") == 0)
        return input == 0;
    if (strcmp(op->name, "embedding") == 0 || strcmp(op->name, "frozen_embedding") == 0)
        return input == 1;
    return op->max_inputs == 1;
}

/* The node again over sources of the same shapes, but for one that has an axis more. */
static void check_refusal(const qn_graph *graph, const qn_node *node, int wrong) {
    qn_graph *other;
    qn_value inputs[SAMPLE_SOURCES];
    CHECK_OK(qn_graph_create(
        &(qn_graph_options){QN_OPTIONS_INIT(qn_graph_options), .real = graph->real}, &other));
    for (int i = 0; i < node->n_inputs; i++) {
        char name[32];
        qn_tensor tensor = qn_graph_tensor(graph, node->inputs[i]);
        inputs[i] = QN_NO_VALUE;
        if (tensor.dtype == QN_NONE)
            continue;
        if (i == wrong) {
            memmove(tensor.shape.dims + 1, tensor.shape.dims,
                    (QN_MAX_RANK - 1) * sizeof *tensor.shape.dims);
            tensor.shape.dims[0] = 3;
            tensor.shape.rank++;
        }
        snprintf(name, sizeof name, "input%d", i);
        inputs[i] = qn_graph_add_source(other, QN_KIND_INPUT, name, tensor,
                                        (qn_initial){QN_INITIAL_ZERO, 0}, false);
    }
    CHECK_OK(qn_graph_finish(other));
    const qn_node *copy =
        qn_graph_add(other, node->op, "copy", inputs, node->n_inputs, node->attributes);
    CHECK((copy != NULL) == (wrong < 0));
    if (wrong >= 0)
        CHECK_FAILS(qn_graph_finish(other), QN_ERROR_ARGUMENT, node->op->name);
    if ((copy != NULL) != (wrong < 0))
        printf("%s, input %d: %s\n", node->op->name, wrong, qn_error_message());
    qn_graph_destroy(other);
}

static void check_refusals(const qn_graph *graph) {
    for (int n = 0; n < graph->n_nodes; n++) {
        const qn_node *node = graph->nodes[n];
        check_refusal(graph, node, -1);
        for (int i = 0; i < node->n_inputs; i++) {
            if (node->inputs[i].id >= 0 && !takes_more_axes(node, i))
                check_refusal(graph, node, i);
        }
    }
}

static void check_sample(const qn_op *op, int variant, qn_isa best) {
    op_sample sample = sample_build(op, variant, QN_F64);
    CHECK_OK(qn_graph_finish(sample.graph));
    if (sample.graph->status == QN_OK) {
        CHECK_OK(qn_graph_check(sample.graph));
        mark_reached(sample.graph);
        check_costs(sample.graph);
        check_refusals(sample.graph);
        if (sample.has_gradients && !is_slow)
            check_gradients(op, variant);
        if (!is_slow)
            check_float(op, variant, QN_ISA_REF);
        check_float(op, variant, best);
        check_threads(op, variant, best);
    }
    qn_graph_destroy(sample.graph);
}

/* What is put together from several operators refuses wrong shapes under its own name. */
static void check_composites(void) {
    qn_graph *graph;
    CHECK_OK(qn_graph_create(
        &(qn_graph_options){QN_OPTIONS_INIT(qn_graph_options), .training = true}, &graph));
    qn_value x = qn_input(graph, "x", QN_SHAPE(3, 9, 5));
    CHECK(qn_conv1d_layer(graph, "conv", x, 7, 3, 2, 0).id >= 0);
    CHECK(qn_shape_equal(qn_graph_shape(graph, qn_graph_find(graph, "conv.weight")),
                         QN_SHAPE(7, 3, 5)));
    qn_value image = qn_input(graph, "image", QN_SHAPE(2, 4, 4, 6));
    qn_value twice =
        qn_conv2d_transpose_layer(graph, "up", image, 7, qn_window_square(4, 2, 1), true);
    CHECK(qn_shape_equal(qn_graph_shape(graph, twice), QN_SHAPE(2, 8, 8, 7)));
    CHECK(qn_shape_equal(qn_graph_shape(graph, qn_graph_find(graph, "up.weight")),
                         QN_SHAPE(6, 4, 4, 7)));
    CHECK(qn_shape_equal(qn_graph_shape(graph, qn_graph_find(graph, "up.bias")), QN_SHAPE(7)));
    CHECK(qn_add_rows(graph, "wrong", x, qn_input(graph, "rows", QN_SHAPE(5))).id < 0);
    CHECK_FAILS(qn_graph_finish(graph), QN_ERROR_ARGUMENT, "wrong (add_rows): rows 5");
    qn_graph_destroy(graph);
    CHECK_OK(qn_graph_create(
        &(qn_graph_options){QN_OPTIONS_INIT(qn_graph_options), .training = true}, &graph));
    CHECK(qn_conv1d_layer(graph, "conv", qn_input(graph, "x", QN_SHAPE(3, 5)), 7, 3, 2, 0).id < 0);
    CHECK_FAILS(qn_graph_finish(graph), QN_ERROR_ARGUMENT, "conv (conv1d)");
    qn_graph_destroy(graph);
}

/* The same attention from four operators; a dropout node of its name draws the same mask. */
static qn_value plain_attention(qn_graph *graph, qn_value query, qn_value key, qn_value value) {
    qn_value scores = qn_matmul(graph, "scores", query, key, false, true);
    qn_value weights = qn_softmax(graph, "weights", qn_scale(graph, "scaled", scores, 0.25));
    return qn_matmul(graph, "mixed", qn_dropout(graph, "y", weights, 0.3), value, false, false);
}

/* Mean of y * y, whose gradients of three parameters are compared. */
static op_sample attention_variant(bool is_plain) {
    op_sample sample = {0};
    CHECK_OK(qn_graph_create(
        &(qn_graph_options){QN_OPTIONS_INIT(qn_graph_options), .real = QN_F64, .training = true},
        &sample.graph));
    qn_graph *graph = sample.graph;
    qn_value query = qn_sample_parameter(graph, "query", QN_SHAPE(2, 3, 9, 5), 2);
    qn_value key = qn_sample_parameter(graph, "key", QN_SHAPE(2, 3, 11, 5), 2);
    qn_value value = qn_sample_parameter(graph, "value", QN_SHAPE(2, 3, 11, 5), 1);
    sample_find_sources(&sample);
    if (is_plain)
        sample.y = plain_attention(graph, query, key, value);
    else
        sample.y = qn_attention(graph, "y", query, key, value, QN_NO_VALUE, 0.25, 0.3);
    sample.loss = qn_mean(graph, "loss", qn_multiply(graph, "square", sample.y, sample.y));
    CHECK_OK(qn_autodiff_for(graph, sample.loss, sample.sources, 3, sample.gradients));
    return sample;
}

static void check_attention(void) {
    op_sample fused = attention_variant(false), plain = attention_variant(true);
    graph_run run = run_create(fused.graph), truth = run_create(plain.graph);
    run_fill(&run);
    run_fill(&truth);
    run_all(&run, qn_kernels_get(QN_F64, QN_ISA_REF), NULL);
    run_all(&truth, qn_kernels_get(QN_F64, QN_ISA_REF), NULL);
    for (int i = 0; i < 4; i++) {
        const qn_value a = i < 3 ? fused.gradients[i] : fused.y;
        const qn_value b = i < 3 ? plain.gradients[i] : plain.y;
        const int64_t n = qn_shape_count(qn_graph_shape(fused.graph, a));
        double error = 0;
        for (int64_t j = 0; j < n; j++)
            error = fmax(error, fabs(run_get(&run, a, j) - run_get(&truth, b, j)));
        CHECK(error < 1e-13);
    }
    run_destroy(&run);
    run_destroy(&truth);
    qn_graph_destroy(fused.graph);
    qn_graph_destroy(plain.graph);
}

int main(void) {
    qn_isa best;
    CHECK_OK(qn_cpu_isa(&best));
    is_slow = getenv("QUERN_SLOW") != NULL;
    check_rows();
    check_properties();
    check_composites();
    check_attention();
    for (int i = 0; qn_ops[i]; i++) {
        for (int variant = 0; variant < qn_ops[i]->n_samples; variant++)
            check_sample(qn_ops[i], variant, best);
    }
    for (int i = 0; qn_ops[i]; i++) {
        const bool needs_more = qn_ops[i]->is_wait ||            /* test_swapped_plans */
                                qn_ops[i] == &qn_op_peer_loss || /* test_halves */
                                qn_ops[i]->output_space != NULL; /* test_placements */
        CHECK(is_reached[i] || needs_more);
        if (!is_reached[i] && !needs_more)
            printf("no sample reaches %s\n", qn_ops[i]->name);
    }
    return checks_finish();
}
