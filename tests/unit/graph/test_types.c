/* Graphs of several types: casts between any two of them against the one converter, gradients
 * through them against difference quotients and by definition, nodes of both real types in one
 * graph and one plan, and what is refused. */
#include "a_machine.h"
#include "check.h"
#include "failing.h"
#include "graph_run.h"
#include "os/heap.h"
#include "quern/ops.h"
#include "run/executor.h"

#include <math.h>

static const qn_dtype types[] = {QN_F32, QN_F64, QN_I32,  QN_U8,     QN_U16,   QN_I8,
                                 QN_I16, QN_F16, QN_BF16, QN_F8E4M3, QN_F8E5M2};
enum { N_TYPES = sizeof types / sizeof *types, N_NUMBERS = 10007 };

static qn_graph *new_graph(void) {
    qn_graph *graph;
    const qn_graph_options options = {QN_OPTIONS_INIT(qn_graph_options), .training = true};
    CHECK_OK(qn_graph_create(&options, &graph));
    return graph;
}

static const qn_kernels *best_kernels(void) {
    qn_isa isa;
    CHECK_OK(qn_cpu_isa(&isa));
    return qn_kernels_get(QN_F32, isa);
}

/* Of all sizes, with what is beyond the types, infinities and NaNs. */
static double awkward(int64_t i) {
    static const double seldom[] = {INFINITY, -INFINITY, NAN, 0, -0.0, 127.5, -128.5, 65520, 1e300};
    if (i < (int64_t)(sizeof seldom / sizeof *seldom))
        return seldom[i];
    const qn_rng rng = qn_rng_make(7, 1, 0);
    const double u = (double)qn_rng_uniform(qn_rng_word(rng, (uint64_t)i));
    return (i % 2 ? 1 : -1) * ldexp(1 + u, (int)(i % 41) - 22);
}

/* ---- casts ---- */

static void check_cast(const graph_run *run, qn_value x, qn_value y) {
    const qn_dtype from = qn_graph_tensor(run->graph, x).dtype;
    const qn_dtype to = qn_graph_tensor(run->graph, y).dtype;
    const size_t size = qn_dtype_bytes(to);
    int64_t n_other = 0;
    for (int64_t i = 0; i < N_NUMBERS; i++) {
        double right; /* room for any type */
        qn_number_set(to, &right, 0, qn_number_get(from, run->memory[x.id], i));
        n_other += memcmp(&right, (const char *)run->memory[y.id] + (size_t)i * size, size) != 0;
    }
    CHECK(n_other == 0);
    if (n_other > 0)
        printf("%s to %s: %lld other numbers\n", qn_dtype_name(from), qn_dtype_name(to),
               (long long)n_other);
}

static void test_casts(void) {
    qn_team *team;
    CHECK_OK(qn_team_create(NULL, 2, &team));
    qn_graph *graph = new_graph();
    qn_value x[N_TYPES], y[N_TYPES][N_TYPES];
    for (int from = 0; from < N_TYPES; from++) {
        x[from] = qn_graph_add_source(graph, QN_KIND_INPUT, qn_dtype_name(types[from]),
                                      (qn_tensor){types[from], QN_SHAPE(N_NUMBERS)},
                                      (qn_initial){0}, false);
        for (int to = 0; to < N_TYPES; to++)
            y[from][to] = qn_op_cast(graph, NULL, x[from], types[to]);
    }
    CHECK_OK(qn_graph_finish(graph));
    graph_run run = run_create(graph);
    for (int from = 0; from < N_TYPES; from++) {
        for (int64_t i = 0; i < N_NUMBERS; i++)
            run_set(&run, x[from], i, awkward(i));
    }
    run_all(&run, best_kernels(), team);
    for (int from = 0; from < N_TYPES; from++) {
        for (int to = 0; to < N_TYPES; to++)
            check_cast(&run, x[from], y[from][to]);
    }
    run_destroy(&run);
    qn_graph_destroy(graph);
    qn_team_destroy(team);
}

/* ---- gradients ---- */

/* A loss of type F64 in a graph of F32: tanh of x * w, worked out in F64. */
static qn_value mixed_loss(qn_graph *graph, qn_value *x) {
    *x = qn_parameter(graph, "x", QN_SHAPE(3, 5), (qn_initial){QN_INITIAL_UNIFORM, 1}, true);
    const qn_value w =
        qn_parameter(graph, "w", QN_SHAPE(3, 5), (qn_initial){QN_INITIAL_UNIFORM, 1}, true);
    const qn_value wide = qn_op_cast(graph, "wide", *x, QN_F64);
    const qn_value product =
        qn_multiply(graph, "product", wide, qn_op_cast(graph, "wide.w", w, QN_F64));
    return qn_mean(graph, "loss", qn_tanh(graph, "tanh", product));
}

static double run_for(graph_run *run, qn_value loss) {
    run_all(run, best_kernels(), NULL);
    return run_get(run, loss, 0);
}

static void test_mixed_gradient(void) {
    qn_graph *graph = new_graph();
    qn_value x, gradient;
    const qn_value loss = mixed_loss(graph, &x);
    CHECK_OK(qn_autodiff_for(graph, loss, &x, 1, &gradient));
    CHECK(qn_graph_tensor(graph, loss).dtype == QN_F64);
    CHECK(qn_graph_tensor(graph, gradient).dtype == QN_F32);
    graph_run run = run_create(graph);
    run_fill(&run);
    run_for(&run, loss);
    for (int64_t i = 0; i < 15; i++) {
        const double at = run_get(&run, x, i), h = 0x1p-12; /* which a float adds exactly */
        const double worked_out = run_get(&run, gradient, i);
        run_set(&run, x, i, at + h);
        const double above = run_for(&run, loss), up = run_get(&run, x, i);
        run_set(&run, x, i, at - h);
        const double below = run_for(&run, loss), down = run_get(&run, x, i);
        run_set(&run, x, i, at);
        run_for(&run, loss);
        CHECK(fabs((above - below) / (up - down) - worked_out) < 1e-7);
    }
    run_destroy(&run);
    qn_graph_destroy(graph);
}

/* The gradient of what is cast to a narrow type and back is rounded to that type; of what is read
 * twice, the sum is. */
static void check_narrow(qn_dtype dtype) {
    qn_graph *graph = new_graph();
    qn_value gradient;
    const qn_value x =
        qn_parameter(graph, "x", QN_SHAPE(37), (qn_initial){QN_INITIAL_UNIFORM, 1}, true);
    const qn_value narrow = qn_op_cast(graph, "narrow", x, dtype);
    const qn_value a = qn_op_cast(graph, "a", narrow, QN_F32);
    const qn_value b = qn_op_cast(graph, "b", narrow, QN_F32);
    const qn_value w = qn_input(graph, "w", QN_SHAPE(37)), v = qn_input(graph, "v", QN_SHAPE(37));
    const qn_value both =
        qn_add(graph, "both", qn_multiply(graph, "aw", a, w), qn_multiply(graph, "bv", b, v));
    const qn_value loss =
        qn_reduce(graph, "loss", qn_reshape(graph, "flat", both, QN_SHAPE(37)), 0, QN_SUM);
    CHECK_OK(qn_autodiff_for(graph, loss, &x, 1, &gradient));
    graph_run run = run_create(graph);
    run_fill(&run);
    run_all(&run, best_kernels(), NULL);
    for (int64_t i = 0; i < 37; i++) {
        double room, dw, dv;
        qn_number_set(dtype, &room, 0, run_get(&run, w, i));
        dw = qn_number_get(dtype, &room, 0);
        qn_number_set(dtype, &room, 0, run_get(&run, v, i));
        dv = qn_number_get(dtype, &room, 0);
        qn_number_set(dtype, &room, 0, dw + dv);
        CHECK(run_get(&run, gradient, i) == qn_number_get(dtype, &room, 0));
    }
    run_destroy(&run);
    qn_graph_destroy(graph);
}

/* Through what is whole no gradient flows. */
static void test_whole(void) {
    qn_graph *graph = new_graph();
    qn_value gradient;
    const qn_value x = qn_parameter(graph, "x", QN_SHAPE(7), (qn_initial){QN_INITIAL_ONE, 0}, true);
    const qn_value back = qn_op_cast(graph, "back", qn_op_cast(graph, "q", x, QN_I8), QN_F32);
    const qn_value loss = qn_mean(graph, "loss", qn_multiply(graph, "y", x, back));
    CHECK_OK(qn_autodiff_for(graph, loss, &x, 1, &gradient));
    graph_run run = run_create(graph);
    run_fill(&run);
    run_all(&run, best_kernels(), NULL);
    for (int64_t i = 0; i < 7; i++)
        CHECK(fabs(run_get(&run, gradient, i) - run_get(&run, back, i) / 7) < 1e-7);
    run_destroy(&run);
    qn_graph_destroy(graph);
}

/* ---- plans ---- */

/* A plan of a mixed graph gives the bits of its nodes one by one. */
static void test_plan(void) {
    const qn_allocator *a = qn_allocator_default();
    qn_graph *graph = new_graph();
    qn_plan *plan;
    qn_executor *executor;
    qn_value x, gradient;
    const qn_value loss = mixed_loss(graph, &x);
    CHECK_OK(qn_autodiff_for(graph, loss, &x, 1, &gradient));
    qn_result(graph, gradient);
    graph_run run = run_create(graph);
    run_fill(&run);
    run_all(&run, best_kernels(), NULL);
    const qn_machine machine = qn_machine_cpu(best_kernels(), 1);
    CHECK_OK(qn_plan_create(a, graph, &machine, &plan));
    CHECK_OK(qn_plan_check(plan, graph));
    void *arena = run_allocate(plan->arena_bytes);
    CHECK_OK(qn_executor_create(a, graph, plan, &machine, NULL, arena, &executor));
    for (int v = 0; v < graph->n_values; v++) {
        if (graph->values[v]->producer < 0)
            qn_executor_bind(executor, (qn_value){v}, run.memory[v]);
    }
    CHECK_OK(qn_executor_run(executor, 3, 5, NULL));
    CHECK(memcmp(qn_executor_get(executor, gradient), run.memory[gradient.id],
                 15 * sizeof(float)) == 0);
    qn_executor_destroy(executor);
    qn_plan_destroy(plan);
    free(arena);
    run_destroy(&run);
    qn_graph_destroy(graph);
}

/* ---- memory that is not there ---- */

/* Every operator between types and spaces: measured, quantised, copied to the disk and back, waited
 * for, dequantised, cast. */
static qn_value build_all(qn_graph *graph, int disk) {
    const qn_quantise how = {-1, QN_ROUND_STOCHASTIC, false};
    qn_value scale, zero;
    const qn_value x = qn_input(graph, "x", QN_SHAPE(64, 33));
    scale = qn_op_scale_of(graph, "scale", x, QN_SCALE_AFFINE, -1, 8, QN_I8, &zero);
    const qn_value q = qn_op_quantise(graph, "q", x, scale, zero, QN_I8, &how);
    const qn_value there = qn_op_copy(graph, "there", q, disk);
    qn_op_wait(graph, "stored", there);
    const qn_value back = qn_op_copy(graph, "back", there, 0);
    qn_op_wait(graph, "loaded", back);
    const qn_value y = qn_op_dequantise(graph, "y", back, scale, zero, -1);
    const qn_value z = qn_op_cast(graph, "z", qn_op_cast(graph, "half", y, QN_F16), QN_F32);
    qn_result(graph, z);
    return z;
}

/* Built, planned and made ready with each allocation failing in turn. */
static void test_failures(void) {
    qn_machine machine = qn_machine_cpu(best_kernels(), 2);
    int row, n = 0;
    CHECK_OK(qn_machine_add(&machine, &qn_device_disk, NULL, &row));
    for (qn_status status = QN_ERROR_MEMORY; status != QN_OK && n < 2000; n++) {
        failing heap = {.left = n};
        const qn_allocator a = {&heap, failing_allocate, failing_release};
        const qn_graph_options options = {QN_OPTIONS_INIT(qn_graph_options), .allocator = &a,
                                          .real = QN_F32};
        qn_graph *graph = NULL;
        qn_plan *plan = NULL;
        qn_executor *executor = NULL;
        status = qn_graph_create(&options, &graph);
        if (status == QN_OK) {
            build_all(graph, qn_machine_disk(&machine));
            status = qn_graph_finish(graph);
        }
        if (status == QN_OK)
            status = qn_plan_create_as_is(&a, graph, &machine, &plan);
        if (status == QN_OK)
            status = qn_plan_check(plan, graph);
        if (status == QN_OK)
            status = qn_executor_create(&a, graph, plan, &machine, NULL, NULL, &executor);
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        qn_executor_destroy(executor);
        qn_plan_destroy(plan);
        qn_graph_destroy(graph);
        CHECK(heap.held_bytes == 0);
    }
    CHECK(n > 40 && n < 2000);
}

/* ---- threads ---- */

/* The same bits for any team, whatever the type and the rounding: sanitizers look at this. */
static void test_threads(void) {
    static const qn_dtype wholes[] = {QN_I8, QN_U8, QN_I16};
    for (int k = 0; k < 3; k++) {
        qn_graph *graph = new_graph();
        const qn_quantise how = {1, QN_ROUND_STOCHASTIC, false};
        qn_value scale, zero;
        const qn_value x = qn_input(graph, "x", QN_SHAPE(512, 65));
        scale = qn_op_scale_of(graph, "scale", x, QN_SCALE_AFFINE, 1, 8, wholes[k], &zero);
        const qn_value q = qn_op_quantise(graph, "q", x, scale, zero, wholes[k], &how);
        const qn_value copy = qn_op_copy(graph, "copy", q, 0);
        const qn_value y =
            qn_op_cast(graph, "half", qn_op_dequantise(graph, "y", copy, scale, zero, 1), QN_F16);
        CHECK_OK(qn_graph_finish(graph));
        graph_run one = run_create(graph), many = run_create(graph);
        run_fill(&one);
        run_fill(&many);
        run_all(&one, best_kernels(), NULL);
        for (int n_threads = 2; n_threads <= 4; n_threads++) {
            qn_team *team;
            CHECK_OK(qn_team_create(NULL, n_threads, &team));
            run_all(&many, best_kernels(), team);
            CHECK(memcmp(one.memory[q.id], many.memory[q.id],
                         qn_tensor_bytes(qn_graph_tensor(graph, q))) == 0);
            CHECK(memcmp(one.memory[y.id], many.memory[y.id],
                         qn_tensor_bytes(qn_graph_tensor(graph, y))) == 0);
            qn_team_destroy(team);
        }
        run_destroy(&one);
        run_destroy(&many);
        qn_graph_destroy(graph);
    }
}

/* ---- what is refused ---- */

static void test_refusals(void) {
    qn_graph *graph = new_graph();
    const qn_value x = qn_input(graph, "x", QN_SHAPE(3));
    qn_multiply(graph, "y", x, qn_op_cast(graph, "wide", x, QN_F64));
    CHECK_FAILS(qn_graph_finish(graph), QN_ERROR_ARGUMENT, "is f64 where f32 is needed; cast it");
    qn_graph_destroy(graph);
    graph = new_graph();
    qn_softmax(graph, "y",
               qn_op_cast(graph, "narrow", qn_input(graph, "x", QN_SHAPE(2, 3)), QN_BF16));
    CHECK_FAILS(qn_graph_finish(graph), QN_ERROR_ARGUMENT, "is bf16 where f32 or f64 is needed");
    qn_graph_destroy(graph);
    graph = new_graph();
    qn_op_cast(graph, "y", qn_input(graph, "x", QN_SHAPE(3)), QN_NONE);
    CHECK_FAILS(qn_graph_finish(graph), QN_ERROR_ARGUMENT, "no element type");
    qn_graph_destroy(graph);
}

int main(void) {
    test_casts();
    test_mixed_gradient();
    for (int i = 0; i < N_TYPES; i++) {
        if (qn_dtype_is_float(types[i]) && !qn_dtype_is_real(types[i]))
            check_narrow(types[i]);
    }
    test_whole();
    test_plan();
    test_failures();
    test_threads();
    test_refusals();
    return checks_finish();
}
