/* Numbers at their limits in the operators of numerics: round, settle, adapt and products with
 * narrow sums. Overflow, saturation, tensors of zeros, NaNs and infinities, a batch of one.
 * (test_ops has threads, pieces of a batch and instruction sets.) */
#include "check.h"
#include "graph_run.h"
#include "ops/network/convolution.h"
#include "ops/round.h"
#include "ops/shared.h"
#include "quern/ops.h"

#include <math.h>

static qn_graph *new_graph(void) {
    qn_graph *graph;
    const qn_graph_options options = {QN_OPTIONS_INIT(qn_graph_options), .real = QN_F32};
    CHECK_OK(qn_graph_create(&options, &graph));
    return graph;
}

static graph_run run_with(qn_graph *graph, qn_value x, const double *numbers) {
    CHECK_OK(qn_graph_finish(graph));
    graph_run run = run_create(graph);
    run_fill_given(&run);
    for (int64_t i = 0; i < qn_shape_count(qn_graph_shape(graph, x)); i++)
        run_set(&run, x, i, numbers[i]);
    return run;
}

static void end(graph_run *run) {
    run_destroy(run);
    qn_graph_destroy((qn_graph *)(uintptr_t)run->graph);
}

static void run_graph(const graph_run *run) {
    run_all(run, qn_kernels_get(QN_F32, QN_ISA_REF), NULL);
}

static bool is_same(double a, double b) {
    return a == b || (isnan(a) && isnan(b));
}

static void check_values(const graph_run *run, qn_value y, const double *right) {
    for (int64_t i = 0; i < qn_shape_count(qn_graph_shape(run->graph, y)); i++) {
        const double found = run_get(run, y, i);
        CHECK(is_same(found, right[i]));
        if (!is_same(found, right[i]))
            printf("%d: %g, not %g\n", (int)i, found, right[i]);
    }
}

/* ---- round, settle ---- */

static void check_round(qn_format format, qn_dtype dtype, qn_shape shape, const double *x,
                        const double *right) {
    qn_graph *graph = new_graph();
    const qn_value from = qn_input(graph, "x", shape);
    const qn_value y = qn_op_round(graph, "y", from, QN_NO_VALUE, dtype, &format);
    graph_run run = run_with(graph, from, x);
    run_graph(&run);
    check_values(&run, y, right);
    end(&run);
}

static void check_settle(qn_format format, qn_shape shape, const double *x, const double *right) {
    qn_graph *graph = new_graph();
    const qn_value from = qn_parameter(graph, "x", shape, (qn_initial){QN_INITIAL_ZERO, 0}, true);
    const qn_value y = qn_op_settle(graph, "y", from, QN_NO_VALUE, &format);
    graph_run run = run_with(graph, from, x);
    run_graph(&run);
    check_values(&run, y, right);
    check_values(&run, from, right);
    end(&run);
}

/* Of 5 and 2 bits: 1.75 * 2^15 at most, 2^-17 the least; halves of that to even. */
static void test_small_floats(void) {
    const qn_format format = {.exponent_bits = 5, .fraction_bits = 2, .top_exponent = 15};
    const double x[] = {0,       -0.0,    57344,    60000,    -1e30, INFINITY, -INFINITY,
                        0x1p-18, 0x3p-18, -0x1p-17, 0x1p-149, 1.125, 1.375,    NAN};
    const double y[] = {0, 0,       57344,    57344, -57344, 57344, -57344,
                        0, 0x1p-16, -0x1p-17, 0,     1,      1.5,   NAN};
    check_round(format, QN_F32, QN_SHAPE(14), x, y);
    check_settle(format, QN_SHAPE(14), x, y);
}

static void test_fixed_points(void) {
    const qn_format format = {.fraction_bits = 4, .limit = 7.5, .rounding = QN_ROUND_AWAY};
    const double x[] = {7.5, 7.6, -7.6, 3e38, -INFINITY, 0.03125, -0.03125, 0, NAN};
    const double y[] = {7.5, 7.5, -7.5, 7.5, -7.5, 0.0625, -0.0625, 0, NAN};
    const double whole[] = {7, 7, -7, 7, -7, 0, 0, 0, 0}; /* a whole type has no NaN */
    const qn_format plain = {.limit = 7, .rounding = QN_ROUND_EVEN};
    check_round(format, QN_F32, QN_SHAPE(9), x, y);
    check_settle(format, QN_SHAPE(9), x, y);
    check_round(plain, QN_I16, QN_SHAPE(9), x, whole);
}

/* A grid of 1 below 8, and one of 8 above, up to 56. */
static void test_two_steps(void) {
    const qn_format format = {.fine_bits = 3, .limit = 56};
    const double x[] = {7.4, 7.6, 8, 12, 20, 60, -1e9, INFINITY, 0, NAN};
    const double y[] = {7, 8, 8, 16, 16, 56, -56, 56, 0, 0};
    check_round(format, QN_I16, QN_SHAPE(10), x, y);
}

/* A group is a sample here; its scale is that of what is finite, of zeros 1: 3, 6 and 2^100.
 * Numbers over it are 0.875 at most. */
static void test_groups(void) {
    const qn_format format = {
        .exponent_bits = 2, .fraction_bits = 2, .top_exponent = -1, .group_axes = 1};
    const double x[] = {0, 0, 0, 0, 3, 1, -0.1, 0, NAN, INFINITY, 6, -3, 1e30, -1e30, 1, 0};
    const double y[] = {0,   0,    0,    0,  2.625,     0.9375,     -0.09375, 0,
                        NAN, 5.25, 5.25, -3, 0x0.cp100, -0x0.cp100, 0,        0};
    check_round(format, QN_F32, QN_SHAPE(4, 4), x, y);
    check_round(format, QN_F32, QN_SHAPE(1, 4), x + 4, y + 4);
}

/* ---- adapt ---- */

typedef struct adapted {
    double q[8];
    int exponent;
    double kept[QN_ADAPTED_COUNT];
} adapted;

/* One step; kept: of the step before, and of this one. */
static adapted adapt(int64_t n, const double *x, const double *kept) {
    const qn_adapt_attributes how = {QN_I16, 7, 0.03, 0.04, 0, 100};
    qn_graph *graph = new_graph();
    adapted made;
    const qn_value from = qn_input(graph, "x", QN_SHAPE(1, n));
    const qn_value before = qn_input(graph, "kept", QN_SHAPE(QN_ADAPTED_COUNT));
    const qn_node *node = qn_op_adapt(graph, "y", from, before, &how);
    graph_run run = run_with(graph, from, x);
    for (int i = 0; i < QN_ADAPTED_COUNT; i++)
        run_set(&run, before, i, kept ? kept[i] : 0);
    run_graph(&run);
    for (int64_t i = 0; i < n; i++)
        made.q[i] = run_get(&run, node->outputs[0], i);
    made.exponent = (int)run_get(&run, node->outputs[1], 0);
    for (int i = 0; i < QN_ADAPTED_COUNT; i++)
        made.kept[i] = run_get(&run, node->outputs[2], i);
    end(&run);
    return made;
}

static void test_adapting(void) {
    const double zeros[4] = {0}, ones[] = {127, -127, 64, 1};
    adapted a = adapt(4, zeros, NULL);
    CHECK(a.q[0] == 0 && a.q[3] == 0 && a.exponent == -7 && a.kept[QN_ADAPTED_BITS] == 7);
    /* the kept exponent is that of zeros until its steps are over: what is larger is cut */
    CHECK(a.kept[QN_ADAPTED_LEFT] > 0);
    a = adapt(4, ones, a.kept);
    CHECK(a.q[0] == 127 && a.q[1] == -127 && a.q[3] == 127 && a.exponent == -7);
    a.kept[QN_ADAPTED_LEFT] = 0;
    a = adapt(4, ones, a.kept);
    CHECK(a.q[0] == 127 && a.q[2] == 64 && a.q[3] == 1 && a.exponent == 0);
    CHECK(a.kept[QN_ADAPTED_MEASURED] == 2 && a.kept[QN_ADAPTED_STEPS] == 3);
    a = adapt(1, ones + 3, NULL); /* a batch of one number: a power of two fits without loss */
    CHECK(a.q[0] == 64 && a.exponent == -6);
}

static void test_adapting_to_the_worst(void) {
    const double strange[] = {NAN, INFINITY, -INFINITY, 3e38, 1e30, -3e38};
    adapted a = adapt(6, strange, NULL);
    CHECK(a.q[0] == 0 && a.q[1] > 0 && a.q[1] == -a.q[2] && a.q[3] > 0 && a.q[3] == -a.q[5]);
    CHECK(a.q[1] >= a.q[3] && ldexp(a.q[3], a.exponent) > 2.9e38);
    const double nothing[] = {NAN, NAN};
    a = adapt(2, nothing, NULL);
    CHECK(a.q[0] == 0 && a.q[1] == 0 && a.exponent == -7);
    CHECK(a.kept[QN_ADAPTED_BITS] == 7);
}

/* Small numbers beside a large one: below half a step all are lost, here 2 % of the mean, there 5.
 */
static void test_widening(void) {
    double few[8], many[8];
    for (int i = 0; i < 8; i++) {
        few[i] = i == 0 ? 1 : 0.003;
        many[i] = i == 0 ? 1 : 0.007;
    }
    adapted a = adapt(8, few, NULL);
    CHECK(a.kept[QN_ADAPTED_BITS] == 7 && a.q[0] == 64 && a.q[1] == 0);
    a = adapt(8, many, NULL);
    CHECK(a.kept[QN_ADAPTED_BITS] == 15 && a.q[0] == 16384 && a.q[1] == 115 && a.exponent == -14);
    a.kept[QN_ADAPTED_LEFT] = 0;
    a = adapt(8, few, a.kept);
    CHECK(a.kept[QN_ADAPTED_BITS] == 15 && a.q[1] == 49);
}

/* ---- products with narrow sums ---- */

enum { INNER = 6 };

/* Rows of x (n, INNER) by all weights alike. */
static void multiply(int64_t n, const double *x, double w, const qn_chunked *how, double *y) {
    qn_graph *graph = new_graph();
    double weights[2 * INNER];
    const qn_value rows = qn_input(graph, "x", QN_SHAPE(n, INNER));
    const qn_value by = qn_input(graph, "w", QN_SHAPE(2, INNER));
    const qn_value sums = qn_op_chunked(graph, "y", &qn_op_linear, &(qn_activation_attributes){0},
                                        (qn_value[]){rows, by}, how);
    graph_run run = run_with(graph, rows, x);
    for (int i = 0; i < 2 * INNER; i++)
        run_set(&run, by, i, weights[i] = w);
    run_graph(&run);
    for (int64_t i = 0; i < 2 * n; i++)
        y[i] = run_get(&run, sums, i);
    end(&run);
}

static void test_narrow_sums(void) {
    /* of 6 and 9 bits, in chunks of 4: 2^9 + 0.5 is a tie and stays; two halves are a chunk of 1 */
    const qn_chunked how = {4, 9, -30, 32};
    const double most = ldexp(2 - ldexp(1, -9), 32);
    const double x[][INNER] = {{0},
                               {512, 0.5, 0.5, 0.5, 0, 0},
                               {512, 0, 0, 0, 0.5, 0.5},
                               {1e9, 1e9, 1e9, 1e9, 1e9, 1e9},
                               {-1e30, 0, 0, 0, 0, 0},
                               {INFINITY, 1, 1, 1, 1, 1},
                               {1, NAN, 1, 1, 1, 1},
                               {0x1p-40, 0, 0, 0, 0, 0}};
    const double right[] = {0, 512, 513, 0, -most, most, NAN, 0};
    double y[16], one[2];
    multiply(8, x[0], 1, &how, y);
    for (int i = 0; i < 8; i++) {
        CHECK(i == 3 || is_same(y[2 * i], right[i]));
        CHECK(is_same(y[2 * i], y[2 * i + 1]));
        multiply(1, x[i], 1, &how, one); /* a batch of one has the sums of its row */
        CHECK(is_same(one[0], y[2 * i]) && is_same(one[1], y[2 * i]));
    }
    CHECK(fabs(y[6] - 6e9) < 6e9 / 256); /* below the largest, with three roundings */
    multiply(1, x[3], 1e9, &how, one);
    CHECK(one[0] == most);
    multiply(1, x[1], 0, &how, one);
    CHECK(one[0] == 0);
}

int main(void) {
    test_small_floats();
    test_fixed_points();
    test_two_steps();
    test_groups();
    test_adapting();
    test_adapting_to_the_worst();
    test_widening();
    test_narrow_sums();
    return checks_finish();
}
