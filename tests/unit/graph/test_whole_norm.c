/* Batch norm on mantissas, forward and backward, is that on floats, rounded: within half a step of
 * the operators in f32, and with all its bits in use. Zeros, one row, numbers that are all alike
 * and NaNs among the parameters. (test_ops has threads and instruction sets.) */
#include "base/rng.h"
#include "check.h"
#include "graph_run.h"
#include "ops/network/norm.h"
#include "ops/shared.h"
#include "ops/whole_norm.h"
#include "os/os.h"
#include "quern/ops.h"

#include <math.h>

enum { ROWS = 301, COLUMNS = 19, EXPONENT = -5, ERROR_EXPONENT = -9 };

typedef struct both {
    qn_graph *graph;
    qn_value x, d, scale, shift, exponents[2];
    const qn_node *whole, *wide, *whole_back, *wide_back;
} both;

static qn_value whole(qn_graph *graph, const char *name, qn_dtype dtype, qn_shape shape) {
    return qn_graph_add_source(graph, QN_KIND_LABEL, name, (qn_tensor){dtype, shape},
                               (qn_initial){QN_INITIAL_ZERO, 0}, false);
}

static qn_value widened(qn_graph *graph, qn_value q, int exponent) {
    return qn_scale(graph, NULL, qn_op_cast(graph, NULL, q, QN_F32), ldexp(1, exponent));
}

static both make(int rows) {
    static const qn_whole_norm_attributes how = {1e-5, 7};
    static const qn_batch_norm_attributes plain = {.epsilon = 1e-5};
    const qn_graph_options options = {QN_OPTIONS_INIT(qn_graph_options), .real = QN_F32};
    const qn_shape channels = QN_SHAPE(COLUMNS);
    both b;
    CHECK_OK(qn_graph_create(&options, &b.graph));
    b.x = whole(b.graph, "x", QN_I8, QN_SHAPE(rows, COLUMNS));
    b.d = whole(b.graph, "d", QN_I8, QN_SHAPE(rows, COLUMNS));
    b.scale = qn_input(b.graph, "scale", channels);
    b.shift = qn_input(b.graph, "shift", channels);
    for (int i = 0; i < 2; i++)
        b.exponents[i] = whole(b.graph, i ? "of_d" : "of_x", QN_I32, (qn_shape){0});
    const qn_value x = widened(b.graph, b.x, EXPONENT), d = widened(b.graph, b.d, ERROR_EXPONENT);
    const qn_value inputs[] = {b.x, b.exponents[0], b.scale, b.shift};
    b.whole = qn_graph_add(b.graph, &qn_op_whole_norm, "whole", inputs, 4, &how);
    const qn_value floats[] = {x, b.scale, b.shift};
    b.wide = qn_graph_add(b.graph, &qn_op_batch_norm, "wide", floats, 3, &plain);
    const qn_value back[] = {
        b.x, b.exponents[0], b.d, b.exponents[1], b.scale, b.wide->outputs[1], b.wide->outputs[2]};
    b.whole_back = qn_graph_add(b.graph, &qn_op_whole_norm_backward, "back", back, 7, &how);
    const qn_value float_back[] = {x,       QN_NO_VALUE,        d,
                                   b.scale, b.wide->outputs[1], b.wide->outputs[2]};
    b.wide_back =
        qn_graph_add(b.graph, &qn_op_batch_norm_backward, "wide_back", float_back, 6, &plain);
    CHECK_OK(qn_graph_finish(b.graph));
    return b;
}

typedef double number_of(int i, int column);

static double usual(int i, int column) {
    return (int)(qn_rng_word(qn_rng_make(3, (uint64_t)column, 0), (uint64_t)i) % 255) - 127;
}

static double zero(int i, int column) {
    (void)i;
    (void)column;
    return 0;
}

static double by_column(int i, int column) {
    (void)i;
    return 5 * column - 50;
}

static graph_run run_on(qn_isa isa, const both *b, int rows, number_of *x, number_of *d,
                        double first_scale) {
    graph_run run = run_create(b->graph);
    run_fill_given(&run);
    run_set(&run, b->exponents[0], 0, EXPONENT);
    run_set(&run, b->exponents[1], 0, ERROR_EXPONENT);
    for (int j = 0; j < COLUMNS; j++) {
        run_set(&run, b->scale, j, j == 0 ? first_scale : 1 + 0.1 * j);
        run_set(&run, b->shift, j, 0.3 * j - 1);
    }
    for (int i = 0; i < rows * COLUMNS; i++) {
        run_set(&run, b->x, i, x(i, i % COLUMNS));
        run_set(&run, b->d, i, d(i + 7, i % COLUMNS));
    }
    run_all(&run, qn_kernels_get(QN_F32, isa), NULL);
    return run;
}

static graph_run run_of(const both *b, int rows, number_of *x, number_of *d, double first_scale) {
    return run_on(QN_ISA_REF, b, rows, x, d, first_scale);
}

/* Mantissas and vectors of a whole operator beside those of the one in f32. */
static void check_near(const graph_run *run, const qn_node *made, const qn_node *wide, int rows) {
    const double unit = ldexp(1, (int)run_get(run, made->outputs[1], 0));
    double most = 0;
    for (int i = 0; i < rows * COLUMNS; i++) {
        const double q = run_get(run, made->outputs[0], i);
        const double y = run_get(run, wide->outputs[0], i);
        CHECK(fabs(q * unit - y) <= unit * (fabs(q) == 127 ? 1.001 : 0.501) + 2e-5);
        most = fmax(most, fabs(q));
    }
    CHECK(most == 0 || (most >= 63 && most <= 127));
    for (int j = 0; j < COLUMNS; j++) {
        for (int output = 1; output < 3; output++) {
            const double y = run_get(run, wide->outputs[output], j);
            CHECK(fabs(run_get(run, made->outputs[output + 1], j) - y) <= 1e-5 * fabs(y) + 1e-3);
        }
    }
}

static void check_both(int rows, number_of *x, number_of *d) {
    const both b = make(rows);
    graph_run run = run_of(&b, rows, x, d, 1);
    check_near(&run, b.whole, b.wide, rows);
    check_near(&run, b.whole_back, b.wide_back, rows);
    run_destroy(&run);
    qn_graph_destroy(b.graph);
}

/* A column of NaNs becomes zeros and leaves the others as they were. */
static void test_nan(void) {
    const both b = make(ROWS);
    graph_run with = run_of(&b, ROWS, usual, usual, NAN),
              without = run_of(&b, ROWS, usual, usual, 0);
    const qn_node *nodes[] = {b.whole, b.whole_back};
    for (int n = 0; n < 2; n++) {
        CHECK(run_get(&with, nodes[n]->outputs[1], 0) ==
              run_get(&without, nodes[n]->outputs[1], 0));
        for (int i = 0; i < ROWS * COLUMNS; i++) {
            const double y = run_get(&with, nodes[n]->outputs[0], i);
            CHECK(y == (i % COLUMNS ? run_get(&without, nodes[n]->outputs[0], i) : 0));
        }
    }
    run_destroy(&with);
    run_destroy(&without);
    qn_graph_destroy(b.graph);
}

/* Every instruction set of the machine gives the bits of the reference. */
static void test_sets(void) {
    const both b = make(ROWS);
    graph_run right = run_of(&b, ROWS, usual, usual, 1);
    qn_isa best;
    CHECK_OK(qn_cpu_isa(&best));
    for (int isa = QN_ISA_REF; isa <= (int)best; isa++) {
        graph_run run = run_on((qn_isa)isa, &b, ROWS, usual, usual, 1);
        for (int output = 0; output < 4; output++) {
            const qn_value y = b.whole->outputs[output];
            for (int64_t i = 0; i < qn_shape_count(qn_graph_shape(b.graph, y)); i++)
                CHECK(run_get(&run, y, i) == run_get(&right, y, i));
        }
        run_destroy(&run);
    }
    run_destroy(&right);
    qn_graph_destroy(b.graph);
}

int main(void) {
    test_sets();
    check_both(ROWS, usual, usual);
    check_both(ROWS, usual, zero);
    check_both(ROWS, zero, usual);
    check_both(ROWS, zero, zero);
    check_both(ROWS, by_column, usual);
    check_both(1, usual, usual);
    test_nan();
    return checks_finish();
}
