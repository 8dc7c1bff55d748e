/* Numbers with a scale: the example of ONNX's specification, rounding at the middle, saturation,
 * NaNs and infinities, exponents, the pseudo-stochastic rounding of NITI against its definition
 * written in integers here, chances, what one can do with accumulators, and refusals. (test_ops has
 * axes, the gradient of a scale, and threads.) */
#include "check.h"
#include "graph_run.h"

#include <limits.h>
#include <math.h>

static qn_graph *new_graph(void) {
    qn_graph *graph;
    const qn_graph_options options = {QN_OPTIONS_INIT(qn_graph_options), .real = QN_F64};
    CHECK_OK(qn_graph_create(&options, &graph));
    return graph;
}

static qn_value source(qn_graph *graph, const char *name, qn_dtype dtype, qn_shape shape) {
    return qn_graph_add_source(graph, QN_KIND_INPUT, name, (qn_tensor){dtype, shape},
                               (qn_initial){0}, false);
}

static void run_graph(const graph_run *run) {
    run_all(run, qn_kernels_get(QN_F32, QN_ISA_REF), NULL);
}

/* ---- a tensor by one rule ---- */

typedef struct case_of {
    qn_dtype x, scale, to;
    qn_quantise how;
    double scale_value;
    const double *zero; /* null: none */
} case_of;

/* y (n) of x (n); null: it is refused. */
static void quantise(const case_of *c, const double *x, int64_t n, double *y) {
    qn_graph *graph = new_graph();
    const qn_value from = source(graph, "x", c->x, QN_SHAPE(n));
    const qn_value scale = source(graph, "scale", c->scale, (qn_shape){0});
    const qn_value zero = c->zero ? source(graph, "zero", c->to, (qn_shape){0}) : QN_NO_VALUE;
    const qn_value to = qn_op_quantise(graph, "y", from, scale, zero, c->to, &c->how);
    CHECK_OK(qn_graph_finish(graph));
    graph_run run = run_create(graph);
    for (int64_t i = 0; i < n; i++)
        run_set(&run, from, i, x[i]);
    run_set(&run, scale, 0, c->scale_value);
    if (c->zero)
        run_set(&run, zero, 0, *c->zero);
    run_graph(&run);
    for (int64_t i = 0; i < n; i++)
        y[i] = run_get(&run, to, i);
    run_destroy(&run);
    qn_graph_destroy(graph);
}

static void check_numbers(const case_of *c, const double *x, const double *right, int64_t n) {
    double y[64];
    quantise(c, x, n, y);
    for (int64_t i = 0; i < n; i++) {
        CHECK(y[i] == right[i]);
        if (y[i] != right[i])
            printf("%g: %g, not %g\n", x[i], y[i], right[i]);
    }
}

static void test_rounding(void) {
    const double x[] = {0.5,    1.5,  2.5, -0.5,     -1.5,     0.49999999999999994, 127, 200,
                        -127.5, -300, NAN, INFINITY, -INFINITY};
    const double even[] = {0, 2, 2, 0, -2, 0, 127, 127, -128, -128, 0, 127, -128};
    const double away[] = {1, 2, 3, -1, -2, 0, 127, 127, -127, -127, 0, 127, -127};
    case_of c = {QN_F64, QN_F64, QN_I8, {.axis = -1}, 1, NULL};
    check_numbers(&c, x, even, 13);
    c.how = (qn_quantise){.axis = -1, .rounding = QN_ROUND_AWAY, .is_symmetric = true};
    check_numbers(&c, x, away, 13);
    const double zero = 5;
    const double above[] = {5, 7, 7, 5, 3, 5, 132, 205, 0, 0, 5, 255, 0};
    c = (case_of){QN_F64, QN_F64, QN_U8, {.axis = -1}, 1, &zero};
    check_numbers(&c, x, above, 13);
    /* by an exponent: x * 2 */
    const double doubled[] = {1, 3, 5, -1, -3, 1, 127, 127, -128, -128, 0, 127, -128};
    c = (case_of){QN_F64, QN_I32, QN_I8, {.axis = -1}, -1, NULL};
    check_numbers(&c, x, doubled, 13);
    /* to 8 bits with a fraction: as a cast of x / scale */
    const double eighths[] = {0.0625, 0.1875, 0.3125, -0.0625};
    c = (case_of){QN_F64, QN_F64, QN_F8E4M3, {.axis = -1}, 8, NULL};
    check_numbers(&c, x, eighths, 4);
}

/* Floats to 8 bits, for which there are loops of their own, by the definition. */
static void test_floats(void) {
    enum { N = 9001 };
    static double x[N], y[N];
    const qn_dtype types[] = {QN_I8, QN_U8};
    for (int t = 0; t < 4; t++) {
        const double zero = t % 2 ? 131 : -7;
        const bool is_symmetric = t / 2;
        const case_of c = {QN_F32,        QN_F32, types[t % 2], {-1, QN_ROUND_EVEN, is_symmetric},
                           (double)0.37f, &zero};
        const double least = t % 2 ? 0 : -128 + is_symmetric, most = t % 2 ? 255 : 127;
        int64_t n_other = 0;
        for (int i = 0; i < N; i++)
            x[i] = (double)(float)((i - N / 2) * (i % 7 ? 0.0185 : 1e3));
        x[0] = NAN, x[1] = INFINITY, x[2] = -INFINITY, x[3] = 3e38, x[4] = -3e38;
        quantise(&c, x, N, y);
        for (int i = 0; i < N; i++) {
            const double right = rint((double)((float)x[i] / 0.37f)) + zero;
            n_other += y[i] != (isnan(right) ? zero : fmin(fmax(right, least), most));
        }
        CHECK(n_other == 0);
    }
}

/* ---- accumulators ---- */

/* By integers alone; s > 0. */
static int32_t pseudo(int32_t acc, int s) {
    const uint32_t size = (uint32_t)(acc < 0 ? -(int64_t)acc : acc), rest = size & ((1u << s) - 1);
    const int half = s / 2;
    const uint32_t high = rest >> half, low = (rest & ((1u << half) - 1)) << (s % 2);
    const int32_t rounded = (int32_t)(size >> s) + (high > low);
    return acc < 0 ? -rounded : rounded;
}

static void test_pseudo_stochastic(void) {
    enum { N = 20001 };
    static double x[N], y[N];
    for (int shift = -2; shift <= 20; shift++) {
        const case_of c = {QN_I32, QN_I32, QN_I32, {-1, QN_ROUND_PSEUDO_STOCHASTIC, false},
                           shift,  NULL};
        int64_t n_other = 0;
        for (int i = 0; i < N; i++)
            x[i] = (i - N / 2) * (shift > 12 ? 97 : 1);
        quantise(&c, x, N, y);
        for (int i = 0; i < N; i++)
            n_other += y[i] != (shift > 0 ? pseudo((int32_t)x[i], shift) : x[i] * (1 << -shift));
        CHECK(n_other == 0);
    }
}

/* A sum of products of 8 bits goes back to 8 bits by its own exponent, which is a value. */
static void test_rescaling(void) {
    static const int32_t sums[][4] = {
        {300, -1000, 5, 0}, {127, -127, 1, 0}, {128, 0, 0, 0}, {0, 0, 0, 0}, {INT32_MAX, 1, 0, 0}};
    static const int32_t shifts[] = {3, 0, 0, 0, 24};
    for (int s = 0; s < 5; s++) {
        qn_graph *graph = new_graph();
        const qn_quantise how = {-1, QN_ROUND_AWAY, true};
        const qn_value acc = source(graph, "acc", QN_I32, QN_SHAPE(4));
        const qn_value shift = qn_op_shift_of(graph, "shift", acc, -1, 7);
        const qn_value y = qn_op_quantise(graph, "y", acc, shift, QN_NO_VALUE, QN_I8, &how);
        const qn_value back = qn_op_dequantise(graph, "back", y, shift, QN_NO_VALUE, -1);
        CHECK_OK(qn_graph_finish(graph));
        graph_run run = run_create(graph);
        for (int i = 0; i < 4; i++)
            run_set(&run, acc, i, sums[s][i]);
        run_graph(&run);
        CHECK(run_get(&run, shift, 0) == shifts[s]);
        for (int i = 0; i < 4; i++) {
            const double right = fmin(round(ldexp(sums[s][i], -shifts[s])), 127);
            CHECK(run_get(&run, y, i) == right);
            CHECK(run_get(&run, back, i) == ldexp(right, shifts[s]));
        }
        run_destroy(&run);
        qn_graph_destroy(graph);
    }
}

/* ---- scales ---- */

/* The example of DynamicQuantizeLinear in ONNX's specification. */
static void test_affine(void) {
    static const double x[] = {0, 2, -3, -2.5, 1.34, 0.5};
    static const double right[] = {153, 255, 0, 26, 221, 179};
    qn_graph *graph = new_graph();
    const qn_quantise how = {.axis = -1};
    qn_value zero;
    const qn_value from = source(graph, "x", QN_F32, QN_SHAPE(6));
    const qn_value scale =
        qn_op_scale_of(graph, "scale", from, QN_SCALE_AFFINE, -1, 0, QN_U8, &zero);
    const qn_value y = qn_op_quantise(graph, "y", from, scale, zero, QN_U8, &how);
    const qn_value back = qn_op_dequantise(graph, "back", y, scale, zero, -1);
    CHECK_OK(qn_graph_finish(graph));
    graph_run run = run_create(graph);
    for (int i = 0; i < 6; i++)
        run_set(&run, from, i, x[i]);
    run_graph(&run);
    CHECK((float)run_get(&run, scale, 0) == 0.0196078438f && run_get(&run, zero, 0) == 153);
    for (int i = 0; i < 6; i++) {
        CHECK(run_get(&run, y, i) == right[i]);
        CHECK(fabs(run_get(&run, back, i) - x[i]) <= 0.5001 * 0.0196078438);
    }
    run_destroy(&run);
    qn_graph_destroy(graph);
}

static double scale_of(qn_scale_kind kind, double a, double b) {
    qn_graph *graph = new_graph();
    qn_value zero;
    const qn_value from = source(graph, "x", QN_F64, QN_SHAPE(2));
    const qn_value scale = qn_op_scale_of(graph, "scale", from, kind, -1, 7, QN_NONE, &zero);
    CHECK_OK(qn_graph_finish(graph));
    graph_run run = run_create(graph);
    run_set(&run, from, 0, a);
    run_set(&run, from, 1, b);
    run_graph(&run);
    const double found = run_get(&run, scale, 0);
    run_destroy(&run);
    qn_graph_destroy(graph);
    return found;
}

static void test_scales(void) {
    CHECK(scale_of(QN_SCALE_EXPONENT, 0, 0) == -7);
    CHECK(scale_of(QN_SCALE_EXPONENT, 1, -0.25) == -7);
    CHECK(scale_of(QN_SCALE_EXPONENT, 0.3, -1.5) == -6);
    CHECK(scale_of(QN_SCALE_EXPONENT, -128, 3) == 0);
    CHECK(scale_of(QN_SCALE_EXPONENT, -128.5, 3) == 1);
    CHECK(scale_of(QN_SCALE_EXPONENT, NAN, 4) == -5);
    CHECK(scale_of(QN_SCALE_EXPONENT, INFINITY, 4) == 128 - 7);
    CHECK(scale_of(QN_SCALE_SYMMETRIC, 2, -254) == 2);
    CHECK(scale_of(QN_SCALE_SYMMETRIC, 0, 0) == 1);
}

/* ---- chances ---- */

static void test_stochastic(void) {
    enum { N = 40000 };
    static double x[N], y[N], again[N];
    const case_of c = {QN_F64, QN_F64, QN_I8, {-1, QN_ROUND_STOCHASTIC, false}, 1, NULL};
    static const double numbers[] = {0.25, -0.25, 3, -2.9};
    for (int k = 0; k < 4; k++) {
        double sum = 0;
        for (int i = 0; i < N; i++)
            x[i] = numbers[k];
        quantise(&c, x, N, y);
        quantise(&c, x, N, again);
        for (int i = 0; i < N; i++)
            sum += y[i];
        CHECK(memcmp(y, again, sizeof y) == 0);
        CHECK(fabs(sum / N - numbers[k]) < 0.01); /* four and a half deviations */
    }
}

/* ---- refusals ---- */

static void refuse(qn_dtype x, qn_dtype scale, qn_dtype to, qn_quantise how, const char *text) {
    qn_graph *graph = new_graph();
    const qn_value from = source(graph, "x", x, QN_SHAPE(2, 3));
    qn_op_quantise(graph, "y", from, source(graph, "scale", scale, (qn_shape){0}), QN_NO_VALUE, to,
                   &how);
    CHECK_FAILS(qn_graph_finish(graph), QN_ERROR_ARGUMENT, text);
    qn_graph_destroy(graph);
}

static void test_refusals(void) {
    refuse(QN_F64, QN_F32, QN_I8, (qn_quantise){.axis = -1},
           "input 0 is f64 where the scale is f32");
    refuse(QN_F64, QN_I8, QN_I8, (qn_quantise){.axis = -1}, "the scale is i8");
    refuse(QN_F64, QN_F64, QN_F32, (qn_quantise){.axis = -1}, "no type to quantise to");
    refuse(QN_F64, QN_F64, QN_I8, (qn_quantise){.axis = 2}, "has no axis 2");
    refuse(QN_F64, QN_F64, QN_I8, (qn_quantise){.axis = 1}, "scale");
    refuse(QN_F64, QN_F64, QN_F8E5M2, (qn_quantise){-1, QN_ROUND_AWAY, false}, "rounded to even");
    refuse(QN_F64, QN_F64, QN_I8, (qn_quantise){-1, QN_ROUND_PSEUDO_STOCHASTIC, false},
           "pseudo-stochastic rounding is of i32");
}

int main(void) {
    test_rounding();
    test_floats();
    test_pseudo_stochastic();
    test_rescaling();
    test_affine();
    test_scales();
    test_stochastic();
    test_refusals();
    return checks_finish();
}
