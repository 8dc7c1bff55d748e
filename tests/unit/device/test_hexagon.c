/* The emulated Hexagon DSP: every work that it does, over windows and sizes that fill its vectors
 * or do not, has the CPU's bits; also when its process is ended in the middle, and when few works
 * may stay prepared on it. Skipped where it is not there. */
#include "driver/hexagon/hexagon.h"

#include "gpu_operators.h"
#include "ops/network/convolution.h"
#include "ops/network/pool.h"
#include "ops/rescaled.h"
#include "ops/shared.h"

/* ---- a graph of cases ---- */

static qn_value source(qn_graph *graph, const char *name, qn_dtype dtype, qn_shape shape) {
    return qn_graph_add_source(graph, QN_KIND_LABEL, name, (qn_tensor){dtype, shape},
                               (qn_initial){QN_INITIAL_ZERO, 0}, false);
}

static qn_value bytes(qn_graph *graph, const char *word, int number, qn_shape shape) {
    char name[40];
    snprintf(name, sizeof name, "%s%d", word, number);
    return source(graph, name, QN_I8, shape);
}

static void add_product(qn_graph *graph, const qn_op *op, const void *attributes, int number,
                        qn_value a, qn_value b) {
    char name[80];
    const qn_rescaling how = {.bits = number % 3 == 0 ? 4 : 7,
                              .rounding = number % 2 ? QN_ROUND_PSEUDO_STOCHASTIC : QN_ROUND_AWAY,
                              .adapts = number % 4 >= 2};
    snprintf(name, sizeof name, "kept%d.%s", number, op->name);
    const qn_value kept = source(graph, name, QN_I32, QN_SHAPE(QN_KEPT_COUNT));
    snprintf(name, sizeof name, "y%d.%s", number, op->name);
    qn_op_rescaled(graph, name, op, attributes, (qn_value[]){a, b}, kept, &how);
}

typedef struct window {
    int64_t n, h, w, c, k, r, s, stride, pad;
} window;

static void add_convolution(qn_graph *graph, int number, const window *d) {
    qn_convolution shape = {.n = d->n,
                            .h = d->h,
                            .w = d->w,
                            .c = d->c,
                            .k = d->k,
                            .r = d->r,
                            .s = d->s,
                            .stride_h = d->stride,
                            .stride_w = d->stride,
                            .pad_top = d->pad,
                            .pad_left = d->pad,
                            .dilation_h = 1,
                            .dilation_w = 1,
                            .groups = 1};
    shape.p = (d->h + 2 * d->pad - d->r) / d->stride + 1;
    shape.q = (d->w + 2 * d->pad - d->s) / d->stride + 1;
    const qn_conv2d_attributes forward = {
        .window = {.stride_h = d->stride,
                   .stride_w = d->stride,
                   .pad_top = d->pad,
                   .pad_left = d->pad,
                   .pad_bottom = d->pad,
                   .pad_right = d->pad},
        .groups = 1,
        .activation = {number % 2 ? QN_ACTIVATION_RELU : QN_ACTIVATION_NONE, 0}};
    const qn_conv2d_backward_attributes backward = {shape};
    const qn_value x = bytes(graph, "x", number, qn_conv2d_input(&shape));
    const qn_value w = bytes(graph, "w", number, qn_conv2d_filter(&shape));
    const qn_value dy = bytes(graph, "dy", number, qn_conv2d_output(&shape));
    add_product(graph, &qn_op_conv2d, &forward, number, x, w);
    add_product(graph, &qn_op_conv2d_backward_data, &backward, number, dy, w);
    add_product(graph, &qn_op_conv2d_backward_filter, &backward, number, x, dy);
}

static void add_linear(qn_graph *graph, int number, int64_t n, int64_t c, int64_t k) {
    const qn_activation_attributes none = {
        {number % 2 ? QN_ACTIVATION_RELU : QN_ACTIVATION_NONE, 0}};
    const qn_value x = bytes(graph, "x", number, QN_SHAPE(n, c));
    const qn_value w = bytes(graph, "w", number, QN_SHAPE(k, c));
    const qn_value dy = bytes(graph, "dy", number, QN_SHAPE(n, k));
    add_product(graph, &qn_op_linear, &none, number, x, w);
    add_product(graph, &qn_op_linear_backward_data, NULL, number, dy, w);
    add_product(graph, &qn_op_linear_backward_weight, NULL, number, x, dy);
}

static const qn_window tiled = {.kernel_h = 2, .kernel_w = 3, .stride_h = 2, .stride_w = 3};

/* stride 0: windows side by side. */
static void add_pool(qn_graph *graph, int number, int64_t side, int64_t c, int64_t stride) {
    qn_max_pool_attributes how = {
        {.kernel_h = 3, .kernel_w = 2, .stride_h = stride, .stride_w = stride, .pad_top = 1}};
    if (stride == 0)
        how.window = tiled;
    const qn_value x = bytes(graph, "x", number, QN_SHAPE(2, side, side, c));
    char name[40];
    qn_convolution shape;
    snprintf(name, sizeof name, "pool%d", number);
    const qn_node *node = qn_graph_add(graph, &qn_op_max_pool, name, &x, 1, &how);
    CHECK(node && qn_max_pool_of(&how, qn_graph_tensor(graph, x).shape, &shape) == QN_OK);
    if (!node)
        return;
    const qn_conv2d_backward_attributes backward = {shape};
    const qn_value dy = bytes(graph, "dy", number, qn_graph_tensor(graph, node->outputs[0]).shape);
    snprintf(name, sizeof name, "pool_back%d", number);
    qn_graph_add(graph, &qn_op_max_pool_backward, name, (qn_value[]){dy, node->outputs[1]}, 2,
                 &backward);
}

static void add_simple(qn_graph *graph, int number, qn_shape shape) {
    const qn_activation_attributes relu = {{QN_ACTIVATION_RELU, 0}};
    const qn_value x = bytes(graph, "x", number, shape), dy = bytes(graph, "dy", number, shape);
    char name[40];
    snprintf(name, sizeof name, "relu%d", number);
    const qn_value y = qn_graph_add1(graph, &qn_op_relu, name, &x, 1, &relu);
    snprintf(name, sizeof name, "relu_back%d", number);
    qn_graph_add1(graph, &qn_op_activation_backward, name, (qn_value[]){y, dy}, 2, &relu);
    qn_value exponents[3];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "exponent%d.%d", number, i);
        exponents[i] = source(graph, name, QN_I32, (qn_shape){0});
    }
    snprintf(name, sizeof name, "sum%d", number);
    qn_graph_add1(graph, &qn_op_exponent_sum, name, exponents, 3, NULL);
}

static const window windows[] = {
    {2, 9, 7, 1, 6, 5, 5, 1, 2},    /* a first layer */
    {3, 8, 8, 6, 16, 5, 5, 1, 0},   /* channels that fill no word */
    {1, 6, 6, 128, 32, 3, 3, 1, 1}, /* whole vectors */
    {2, 5, 4, 33, 70, 3, 2, 1, 1},  /* nothing whole */
    {3, 7, 7, 16, 40, 3, 3, 2, 1},  /* steps: to the data, on the CPU */
    {1, 3, 3, 160, 96, 1, 1, 1, 0}, /* windows of a pixel */
    {2, 13, 15, 3, 8, 3, 3, 1, 1},  /* more pixels than are summed up at once */
    {1, 4, 4, 8, 8, 4, 4, 1, 0},    /* a window as large as the image */
    {5, 3, 5, 9, 37, 3, 5, 1, 0},   /* the same, of more images */
    {2, 10, 12, 1, 20, 5, 5, 1, 0}, /* many channels of one */
    {2, 11, 9, 16, 32, 3, 3, 1, 1}, /* as many as lanes of pixels have */
    {2, 9, 8, 3, 27, 3, 5, 1, 2},
};

enum { N_WINDOWS = sizeof windows / sizeof windows[0] };

static qn_graph *build(void) {
    const qn_graph_options options = {QN_OPTIONS_INIT(qn_graph_options), .real = QN_F32,
                                      .training = true};
    qn_graph *graph;
    if (qn_graph_create(&options, &graph) != QN_OK)
        abort();
    for (int i = 0; i < N_WINDOWS; i++)
        add_convolution(graph, i, &windows[i]);
    add_linear(graph, 20, 4, 84, 10);
    add_linear(graph, 21, 64, 130, 66);
    add_linear(graph, 22, 1, 7, 1);
    add_pool(graph, 30, 6, 5, 1);
    add_pool(graph, 31, 7, 140, 2);
    add_pool(graph, 32, 7, 5, 0);
    add_pool(graph, 33, 9, 70, 0);
    add_pool(graph, 34, 6, 128, 0);
    add_pool(graph, 35, 7, 140, 0);
    add_pool(graph, 36, 8, 256, 0);
    add_simple(graph, 40, QN_SHAPE(3, 50));
    add_simple(graph, 41, QN_SHAPE(128));
    CHECK(graph->status == QN_OK);
    return graph;
}

/* ---- running it ---- */

static void fill_value(const graph_run *run, int v) {
    const qn_value_info *info = run->graph->values[v];
    const qn_rng rng = qn_rng_make(7, qn_hash_text(info->name), 0);
    const int64_t n = qn_shape_count(info->tensor.shape);
    for (int64_t i = 0; i < n; i++) {
        const uint32_t word = qn_rng_word(rng, (uint64_t)i);
        const int kept[QN_KEPT_COUNT] = {(int)(word % 12), (int)(word % 3), (int)(word % 9), v % 2};
        const bool is_kept = strncmp(info->name, "kept", 4) == 0;
        run_set(run, (qn_value){v}, i,
                info->tensor.dtype == QN_I8 ? (double)(int8_t)(word >> 24)
                : is_kept                   ? (double)kept[i]
                                            : (double)(int)(word % 200) - 100);
    }
}

static graph_run make_run(const qn_graph *graph) {
    const graph_run run = run_create(graph);
    for (int v = 0; v < run.n_values; v++) {
        if (graph->values[v]->producer < 0)
            fill_value(&run, v);
    }
    return run;
}

/* How often sums were stored or made twice is each processor's own. */
static void forget_counts(const graph_run *run) {
    for (int v = 0; v < run->n_values; v++) {
        const qn_value_info *info = run->graph->values[v];
        int32_t *kept = run->memory[v];
        if (info->producer < 0 || info->tensor.dtype != QN_I32 || info->tensor.shape.rank == 0)
            continue;
        kept[QN_KEPT_MADE] = kept[QN_KEPT_TWICE] = 0;
    }
}

static void check_same(const qn_graph *graph, const graph_run *cpu, void *state, int n_expected) {
    graph_run device = make_run(graph);
    const int n =
        run_on_device(&device, qn_kernels_get(QN_F32, QN_ISA_REF), &qn_device_hexagon, state);
    CHECK(n == n_expected);
    forget_counts(&device);
    for (int v = 0; v < device.n_values; v++) {
        const qn_value_info *info = graph->values[v];
        const bool is_same =
            memcmp(device.memory[v], cpu->memory[v], qn_tensor_bytes(info->tensor)) == 0;
        CHECK(is_same);
        if (!is_same)
            printf("%s has other bits\n", info->name);
    }
    run_destroy(&device);
}

static void test_works(void *state, const qn_graph *graph, const graph_run *cpu) {
    const int n_on_cpu = 1; /* the gradient to the data of the windows with steps */
    check_same(graph, cpu, state, graph->n_nodes - n_on_cpu);
    const qn_hexagon_counts c = qn_hexagon_count(state);
    CHECK(c.n_works == graph->n_nodes - n_on_cpu && c.n_prepared == c.n_works);
    CHECK(c.n_prepare_packets >= 10 * c.n_prepared && c.n_packets > 10 * c.n_prepare_packets);
}

/* ---- ended in the middle ---- */

typedef struct killer {
    void *state;
    int stop;
} killer;

static void kill_now_and_then(void *context) {
    killer *k = context;
    for (int i = 0; !__atomic_load_n(&k->stop, __ATOMIC_SEQ_CST); i++) {
        qn_hexagon_kill(k->state);
        qn_sleep_ns(INT64_C(10000000) << i % 7);
    }
}

static void test_kills(void *state, const qn_graph *graph, const graph_run *cpu) {
    killer k = {.state = state};
    qn_thread *thread;
    const int64_t n_before = qn_hexagon_count(state).n_starts;
    CHECK_OK(qn_thread_start(qn_allocator_default(), kill_now_and_then, &k, &thread));
    for (int i = 0; i < 3; i++)
        check_same(graph, cpu, state, graph->n_nodes - 1);
    __atomic_store_n(&k.stop, 1, __ATOMIC_SEQ_CST);
    qn_thread_join(thread);
    CHECK(qn_hexagon_count(state).n_starts > n_before + 3);
    CHECK(!qn_device_hexagon.is_lost(state));
}

/* ---- few works prepared ---- */

/* Works that come in a circle: of those that fit, all or all but one are still there each time. */
static void test_resident(const qn_graph *graph, const graph_run *cpu) {
    enum { FEW = 8, ROUNDS = 3 };
    const qn_hexagon_options options = {.n_resident = FEW};
    void *state;
    CHECK_OK(qn_device_hexagon.open(NULL, &options, &state));
    gpu_run r;
    graph_run device = make_run(graph);
    gpu_run_open(&r, graph, qn_kernels_get(QN_F32, QN_ISA_REF), &qn_device_hexagon, state);
    for (int v = 0; v < device.n_values; v++) {
        if (graph->values[v]->producer < 0)
            qn_executor_bind(r.executor, r.spread.values[v], device.memory[v]);
    }
    for (int i = 0; i < ROUNDS; i++)
        CHECK_OK(qn_executor_run(r.executor, 3, 5, NULL));
    for (int v = 0; v < device.n_values; v++) {
        const void *made = qn_executor_get(r.executor, r.spread.values[v]);
        if (graph->values[v]->is_result && made)
            memcpy(device.memory[v], made, qn_tensor_bytes(graph->values[v]->tensor));
    }
    forget_counts(&device);
    for (int v = 0; v < device.n_values; v++)
        CHECK(memcmp(device.memory[v], cpu->memory[v], qn_tensor_bytes(graph->values[v]->tensor)) ==
              0);
    const int64_t n = graph->n_nodes - 1;
    const qn_hexagon_counts c = qn_hexagon_count(state);
    CHECK(c.n_works == ROUNDS * n);
    CHECK(c.n_prepared >= n + (ROUNDS - 1) * (n - FEW));
    CHECK(c.n_prepared <= n + (ROUNDS - 1) * (n - (FEW - 1)));
    gpu_run_close(&r);
    run_destroy(&device);
    qn_device_hexagon.close(state);
}

int main(void) {
    const qn_hexagon_options options = {0};
    void *state;
    if (!gpu_open(&qn_device_hexagon, &options, &state))
        return checks_finish();
    qn_graph *graph = build();
    ask_for_all(graph);
    graph_run cpu = make_run(graph);
    run_all(&cpu, qn_kernels_get(QN_F32, QN_ISA_REF), NULL);
    forget_counts(&cpu);
    test_works(state, graph, &cpu);
    test_kills(state, graph, &cpu);
    qn_device_hexagon.close(state);
    test_resident(graph, &cpu);
    run_destroy(&cpu);
    qn_graph_destroy(graph);
    return checks_finish();
}
