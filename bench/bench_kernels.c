/* Speed of the float kernels over the layer shapes of the models, in GFLOP/s (of the nominal
 * products, padding counted) and percent of the machine's peak, which is measured first with fused
 * multiply-adds that touch no memory. Usage: bench_kernels [THREADS [WORD]]: only lines with WORD.
 * The figure is the best of at least five runs and a fifth of a second. */
#include "kernels/kernels.h"

#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static qn_team *team;
static int n_threads = 2;
static const char *only = "";
static double peak; /* GFLOP/s of the team */
static const qn_kernels *table;

/* ---- peak ---- */

enum { PEAK_ROUNDS = 20000000, PEAK_CHAINS = 12 };

#define REPEAT12(I) I(0) I(1) I(2) I(3) I(4) I(5) I(6) I(7) I(8) I(9) I(10) I(11)
#define FMA_ZMM(n)  "vfmadd231ps %%zmm14,%%zmm15,%%zmm" #n "\n"
#define FMA_YMM(n)  "vfmadd231ps %%ymm14,%%ymm15,%%ymm" #n "\n"
#define FMA_NEON(n) "fmla v" #n ".4s, v14.4s, v15.4s\n"

static void peak_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const qn_isa isa = *(const qn_isa *)context;
    for (int64_t i = 0; i < (end - begin) * PEAK_ROUNDS; i++) {
#if defined(__x86_64__)
        if (isa == QN_ISA_AVX512)
            __asm__ volatile(REPEAT12(FMA_ZMM)::
                                 : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
                                   "xmm8", "xmm9", "xmm10", "xmm11");
        else
            __asm__ volatile(REPEAT12(FMA_YMM)::
                                 : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
                                   "xmm8", "xmm9", "xmm10", "xmm11");
#elif defined(__aarch64__)
        __asm__ volatile(REPEAT12(FMA_NEON)::
                             : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10",
                               "v11");
#endif
        (void)isa;
    }
}

static double measure_peak(qn_isa isa) {
    const double lanes = isa == QN_ISA_AVX512 ? 16 : isa == QN_ISA_AVX2 ? 8 : 4;
    double best = 0;
    for (int run = 0; run < 5; run++) {
        int64_t start = qn_clock_ns();
        qn_team_run(team, n_threads, peak_task, &isa);
        double seconds = (double)(qn_clock_ns() - start) * 1e-9;
        double rate = 2 * lanes * PEAK_CHAINS * PEAK_ROUNDS * n_threads / seconds * 1e-9;
        best = rate > best ? rate : best;
    }
    return best;
}

/* ---- timing ---- */

typedef struct job {
    qn_conv2d_shape conv;
    qn_gemm_shape gemm;
    qn_attention_shape attention;
    qn_lstm_shape lstm;
    int64_t rows, c;
    int pass;
    float *a, *b, *c_, *d, *e;
    uint16_t *index;
    void *workspace;
} job;

static float *floats(int64_t n) {
    float *values = NULL;
    if (posix_memalign((void **)&values, QN_ALIGNMENT, (size_t)n * sizeof *values) != 0)
        abort();
    for (int64_t i = 0; i < n; i++)
        values[i] = (float)(i * 7 % 13 - 6) / 16;
    return values;
}

/* Best time of a call in seconds. */
static double best_of(void (*run)(job *), job *j) {
    double best = 1e9, total = 0;
    for (int i = 0; i < 5 || total < 0.2; i++) {
        int64_t start = qn_clock_ns();
        run(j);
        double seconds = (double)(qn_clock_ns() - start) * 1e-9;
        total += seconds;
        best = seconds < best ? seconds : best;
    }
    return best;
}

/* ---- convolutions ---- */

static void run_conv(job *j) {
    const qn_activation none = {QN_ACTIVATION_NONE, 0};
    if (j->pass == QN_CONV2D_FORWARD)
        table->conv2d_forward(team, &j->conv, j->a, j->b, NULL, none, j->c_, j->workspace);
    else if (j->pass == QN_CONV2D_BACKWARD_DATA)
        table->conv2d_backward_data(team, &j->conv, j->c_, j->b, j->a, j->workspace);
    else
        table->conv2d_backward_filter(team, &j->conv, j->a, j->c_, j->b, j->workspace);
}

static void bench_conv(int64_t n, int64_t c, int64_t k, int64_t size, int64_t r, int64_t stride,
                       int64_t pad, int64_t groups) {
    char name[96];
    snprintf(name, sizeof name, "%s%lldx%lld/%lld %lld->%lld @%lld b%lld",
             groups > 1 ? "dw" : "conv", (long long)r, (long long)r, (long long)stride,
             (long long)c, (long long)k, (long long)size, (long long)n);
    if (!strstr(name, only))
        return;
    int64_t out = (size + 2 * pad - r) / stride + 1;
    job j = {.conv = {.n = n,
                      .h = size,
                      .w = size,
                      .c = c,
                      .k = k,
                      .r = r,
                      .s = r,
                      .p = out,
                      .q = out,
                      .stride_h = stride,
                      .stride_w = stride,
                      .pad_top = pad,
                      .pad_left = pad,
                      .dilation_h = 1,
                      .dilation_w = 1,
                      .groups = groups}};
    j.a = floats(n * size * size * c);
    j.b = floats(k * r * r * c / groups);
    j.c_ = floats(n * out * out * k);
    double gflop = 2e-9 * (double)(n * out * out * k * r * r) * (double)(c / groups);
    printf("%-28s %8.4f GFLOP", name, gflop);
    for (j.pass = 0; j.pass < 3; j.pass++) {
        j.workspace = floats(
            (int64_t)table->conv2d_workspace(&j.conv, (qn_conv2d_pass)j.pass, n_threads) / 4 + 1);
        double rate = gflop / best_of(run_conv, &j);
        printf("  %6.1f (%3.0f%%)", rate, 100 * rate / peak);
        free(j.workspace);
    }
    printf("\n");
    free(j.a);
    free(j.b);
    free(j.c_);
}

/* ---- matrix products ---- */

static void run_gemm(job *j) {
    const qn_activation none = {QN_ACTIVATION_NONE, 0};
    table->gemm(team, &j->gemm, j->a, j->b, NULL, none, j->c_, j->workspace);
}

static void bench_gemm(int64_t m, int64_t n, int64_t k, bool ta, bool tb) {
    char name[96];
    snprintf(name, sizeof name, "gemm %c%c %lld,%lld,%lld", ta ? 'T' : 'N', tb ? 'T' : 'N',
             (long long)m, (long long)n, (long long)k);
    if (!strstr(name, only))
        return;
    job j = {
        .gemm = {m, n, k, ta, tb}, .a = floats(m * k), .b = floats(k * n), .c_ = floats(m * n)};
    j.workspace = floats((int64_t)table->gemm_workspace(&j.gemm, n_threads) / 4 + 1);
    double gflop = 2e-9 * (double)(m * n) * (double)k, seconds = best_of(run_gemm, &j);
    printf("%-28s %8.4f GFLOP  %6.1f (%3.0f%%)  %5.1f GB/s\n", name, gflop, gflop / seconds,
           100 * gflop / seconds / peak, 4e-9 * (double)(m * k + k * n + m * n) / seconds);
    free(j.a);
    free(j.b);
    free(j.c_);
    free(j.workspace);
}

/* ---- the memory-bound rest ---- */

static void run_norm_forward(job *j) {
    const qn_activation relu = {QN_ACTIVATION_RELU, 0};
    table->batch_norm_forward(team, &(qn_rows){.rows = j->rows, .c = j->c}, j->a, j->d, j->d, 1e-5,
                              relu, j->b, j->e, j->e + j->c, j->workspace);
}

static void run_norm_backward(job *j) {
    const qn_activation relu = {QN_ACTIVATION_RELU, 0};
    table->batch_norm_backward(team, &(qn_rows){.rows = j->rows, .c = j->c}, j->a, j->b, j->c_,
                               j->d, j->e, j->e + j->c, relu, j->c_, j->e + 2 * j->c,
                               j->e + 3 * j->c, j->workspace);
}

static void run_relu(job *j) {
    table->activation_forward(team, (qn_activation){QN_ACTIVATION_RELU, 0},
                              &(qn_rows){.rows = j->rows, .c = j->c}, j->a, j->b);
}

static void run_tanh(job *j) {
    table->activation_forward(team, (qn_activation){QN_ACTIVATION_TANH, 0},
                              &(qn_rows){.rows = j->rows, .c = j->c}, j->a, j->b);
}

static void run_tanh_backward(job *j) {
    table->activation_backward(team, (qn_activation){QN_ACTIVATION_TANH, 0},
                               &(qn_rows){.rows = j->rows, .c = j->c}, j->a, j->b, j->c_);
}

static void run_add(job *j) {
    table->add(team, &(qn_rows){.rows = j->rows, .c = j->c}, j->a, j->b,
               (qn_activation){QN_ACTIVATION_RELU, 0}, j->c_);
}

static void run_column_sum(job *j) {
    table->column_sum(team, j->rows, 1, j->c, j->a, false, j->e, j->workspace);
}

static void run_sgd(job *j) {
    float hyper[QN_HYPER_COUNT] = {[QN_HYPER_MOMENTUM] = 0.5f, [QN_HYPER_GRADIENT] = 1};
    table->sgd(team, j->rows * j->c, hyper, false, NULL, j->a, j->b, j->c_);
}

static void run_adam(job *j) {
    float hyper[QN_HYPER_COUNT] = {
        [QN_HYPER_BETA1] = 0.5f,    [QN_HYPER_BETA2] = 0.5f,    [QN_HYPER_EPSILON] = 1,
        [QN_HYPER_CORRECTION1] = 1, [QN_HYPER_CORRECTION2] = 1, [QN_HYPER_GRADIENT] = 1};
    table->adam(team, j->rows * j->c, hyper, false, NULL, j->a, j->b, j->c_, j->workspace);
}

static void run_dropout(job *j) {
    table->dropout(team, j->rows * j->c, qn_rng_make(1, 2, 3), 0, 0.5, j->a, j->b);
}

static void run_gelu(job *j) {
    table->gelu(team, j->rows * j->c, j->a, j->b);
}

static void run_gelu_backward(job *j) {
    table->gelu_backward(team, j->rows * j->c, j->a, j->b, j->c_);
}

static void run_layer_norm(job *j) {
    table->layer_norm_forward(team, j->rows, j->c, j->a, j->d, j->d, 1e-5, j->b, j->c_,
                              j->c_ + j->rows);
}

/* Any numbers serve as statistics. */
static void run_layer_norm_backward(job *j) {
    table->layer_norm_backward(team, j->rows, j->c, j->a, j->b, j->d, j->b, j->b + j->rows, false,
                               j->c_, j->e, j->e + j->c, j->workspace);
}

static void run_max_pool(job *j) {
    table->max_pool(team, &j->conv, j->a, j->b, j->index);
}

static void run_max_pool_backward(job *j) {
    table->max_pool_backward(team, &j->conv, j->b, j->index, j->c_);
}

static void run_average_pool(job *j) {
    table->average_pool(team, &j->conv, j->a, j->b);
}

static void run_average_pool_backward(job *j) {
    table->average_pool_backward(team, &j->conv, j->b, j->c_);
}

static void bench_pass(const char *what, void (*run)(job *), int64_t rows, int64_t c, int64_t side,
                       double floats_each) {
    char name[96];
    snprintf(name, sizeof name, "%s %lldx%lld", what, (long long)rows, (long long)c);
    if (!strstr(name, only))
        return;
    job j = {.rows = rows,
             .c = c,
             .a = floats(rows * c),
             .b = floats(rows * c),
             .c_ = floats(rows * c),
             .d = floats(c),
             .e = floats(4 * c)};
    j.index = calloc((size_t)(rows * c), sizeof *j.index);
    j.conv = (qn_conv2d_shape){.n = rows / (side * side),
                               .h = side,
                               .w = side,
                               .c = c,
                               .k = c,
                               .r = 2,
                               .s = 2,
                               .p = side / 2,
                               .q = side / 2,
                               .stride_h = 2,
                               .stride_w = 2,
                               .dilation_h = 1,
                               .dilation_w = 1,
                               .groups = 1};
    size_t bytes = table->batch_norm_workspace(&(qn_rows){.rows = rows, .c = c}, n_threads);
    size_t other = table->column_sum_workspace(rows, 1, c, n_threads);
    bytes = bytes > other ? bytes : other;
    other = table->layer_norm_workspace(rows, c, n_threads);
    bytes = bytes > other ? bytes : other;
    j.workspace = floats((int64_t)bytes / 4 + rows * c);
    double seconds = best_of(run, &j);
    printf("%-32s %9.1f us  %5.1f GB/s\n", name, seconds * 1e6,
           floats_each * 4e-9 * (double)(rows * c) / seconds);
    free(j.a);
    free(j.b);
    free(j.c_);
    free(j.d);
    free(j.e);
    free(j.index);
    free(j.workspace);
}

static void bench_passes(int64_t rows, int64_t c, int64_t side) {
    bench_pass("batch norm relu", run_norm_forward, rows, c, side, 3);
    bench_pass("batch norm relu backward", run_norm_backward, rows, c, side, 7);
    bench_pass("relu", run_relu, rows, c, side, 2);
    bench_pass("tanh", run_tanh, rows, c, side, 2);
    bench_pass("tanh backward", run_tanh_backward, rows, c, side, 3);
    bench_pass("gelu", run_gelu, rows, c, side, 2);
    bench_pass("gelu backward", run_gelu_backward, rows, c, side, 3);
    bench_pass("layer norm", run_layer_norm, rows, c, side, 2);
    bench_pass("layer norm backward", run_layer_norm_backward, rows, c, side, 3);
    bench_pass("add relu", run_add, rows, c, side, 3);
    bench_pass("column sum", run_column_sum, rows, c, side, 1);
    bench_pass("max pool", run_max_pool, rows, c, side, 1.375);
    bench_pass("max pool backward", run_max_pool_backward, rows, c, side, 1.375);
    bench_pass("average pool", run_average_pool, rows, c, side, 1.25);
    bench_pass("average pool backward", run_average_pool_backward, rows, c, side, 1.25);
    bench_pass("sgd", run_sgd, rows, c, side, 5);
    bench_pass("adam", run_adam, rows, c, side, 7);
    bench_pass("dropout", run_dropout, rows, c, side, 2);
}

/* ---- attention ---- */

/* a, b, c_: query, key, value, and their gradients after them; d: y and dy; e: sums of rows. */
static void run_attention(job *j) {
    const qn_attention_shape *d = &j->attention;
    const int64_t queries = d->n * d->h * d->t * d->d, keys = d->n * d->h * d->u * d->d;
    if (j->pass == 0)
        table->attention_forward(team, d, (qn_rng){1, 2}, j->a, j->b, j->c_, NULL, j->d, j->e,
                                 j->workspace);
    else
        table->attention_backward(team, d, (qn_rng){1, 2}, j->a, j->b, j->c_, NULL, j->d, j->e,
                                  j->d + queries, j->a + queries, j->b + keys, j->c_ + keys,
                                  j->workspace);
}

static void bench_attention(int64_t n, int64_t heads, int64_t length, int64_t size, double rate) {
    char name[96];
    snprintf(name, sizeof name, "attention %lldx%lldx%lldx%lld dropout %g", (long long)n,
             (long long)heads, (long long)length, (long long)size, rate);
    if (!strstr(name, only))
        return;
    job j = {.attention = {n, heads, length, length, size, 0.125, rate}};
    const int64_t count = n * heads * length * size;
    j.a = floats(2 * count);
    j.b = floats(2 * count);
    j.c_ = floats(2 * count);
    j.d = floats(2 * count);
    j.e = floats(n * heads * length);
    printf("%-32s", name);
    for (j.pass = 0; j.pass < 2; j.pass++) {
        const size_t bytes = table->attention_workspace(&j.attention, j.pass > 0, n_threads);
        j.workspace = floats((int64_t)(bytes / sizeof(float)));
        const double gflops =
            (j.pass ? 10.0 : 4.0) * (double)(count * length) * 1e-9 / best_of(run_attention, &j);
        printf("  %6.1f (%3.0f %%)", gflops, 100 * gflops / peak);
        free(j.workspace);
    }
    printf("\n");
    free(j.a);
    free(j.b);
    free(j.c_);
    free(j.d);
    free(j.e);
}

/* ---- LSTM: the recurrence alone ---- */

/* a: gates, in the place of the input's products; b: weight; c_: y, cells; d: states; e: the gates'
 * gradients. */
static void run_lstm(job *j) {
    const qn_lstm_shape *d = &j->lstm;
    const int64_t steps = d->n * d->t * d->k, state = d->n * d->k;
    if (j->pass == 0)
        table->lstm_forward(team, d,
                            &(qn_lstm_forward){.x = j->a,
                                               .weight = j->b,
                                               .gates = j->a,
                                               .y = j->c_,
                                               .cells = j->c_ + steps,
                                               .h_last = j->d,
                                               .c_last = j->d + state},
                            j->workspace);
    else
        table->lstm_backward(
            team, d,
            &(qn_lstm_backward){
                .gates = j->a, .cells = j->c_ + steps, .weight = j->b, .dy = j->c_, .dx = j->e},
            j->workspace);
}

static void bench_lstm(int64_t n, int64_t t, int64_t k) {
    char name[96];
    snprintf(name, sizeof name, "lstm %lldx%lldx%lld", (long long)n, (long long)t, (long long)k);
    if (!strstr(name, only))
        return;
    job j = {.lstm = {n, t, k}};
    j.a = floats(4 * n * t * k);
    j.b = floats(4 * k * k);
    j.c_ = floats(2 * n * t * k);
    j.d = floats(2 * n * k);
    j.e = floats(4 * n * t * k);
    printf("%-32s", name);
    for (j.pass = 0; j.pass < 2; j.pass++) {
        const size_t bytes = table->lstm_workspace(&j.lstm, j.pass > 0, n_threads);
        j.workspace = floats((int64_t)(bytes / sizeof(float)));
        const double gflops = 8e-9 * (double)(n * t * k * k) / best_of(run_lstm, &j);
        printf("  %6.1f (%3.0f %%)", gflops, 100 * gflops / peak);
        free(j.workspace);
    }
    printf("\n");
    free(j.a);
    free(j.b);
    free(j.c_);
    free(j.d);
    free(j.e);
}

int main(int argc, char **argv) {
    qn_isa isa;
    n_threads = argc > 1 ? atoi(argv[1]) : 2;
    only = argc > 2 ? argv[2] : "";
    if (qn_cpu_isa(&isa) != QN_OK || qn_team_create(NULL, n_threads, &team) != QN_OK) {
        fprintf(stderr, "%s\n", qn_error_message());
        return 1;
    }
    table = qn_kernels_get(QN_F32, isa);
    peak = measure_peak(isa);
    printf("%s, %d threads, peak %.0f GFLOP/s; forward, backward data, backward filter\n",
           table->name, n_threads, peak);
    const int64_t dense[][7] = {
        {32, 3, 64, 32, 3, 1, 1},    {32, 64, 64, 32, 3, 1, 1},   {4, 64, 64, 32, 3, 1, 1},
        {32, 128, 128, 16, 3, 1, 1}, {32, 256, 256, 8, 3, 1, 1},  {32, 512, 512, 4, 3, 1, 1},
        {4, 512, 512, 4, 3, 1, 1},   {32, 512, 512, 2, 3, 1, 1},  {32, 128, 256, 16, 3, 2, 1},
        {32, 256, 64, 32, 1, 1, 0},  {32, 64, 256, 32, 1, 1, 0},  {32, 1024, 256, 8, 1, 1, 0},
        {32, 24, 144, 32, 1, 1, 0},  {16, 728, 728, 8, 1, 1, 0},  {64, 1, 6, 28, 5, 1, 2},
        {64, 6, 16, 14, 5, 1, 0},    {16, 32, 96, 32, 5, 1, 2},   {32, 4, 32, 84, 8, 4, 0},
        {32, 160, 12, 32, 3, 1, 1},  {32, 256, 512, 16, 1, 2, 0}, {32, 32, 64, 20, 4, 2, 0},
        {16, 64, 128, 16, 4, 2, 1},
    };
    for (size_t i = 0; i < sizeof dense / sizeof *dense; i++)
        bench_conv(dense[i][0], dense[i][1], dense[i][2], dense[i][3], dense[i][4], dense[i][5],
                   dense[i][6], 1);
    const int64_t depthwise[][4] = {
        {32, 144, 32, 1}, {32, 512, 4, 1}, {16, 728, 8, 1}, {32, 128, 32, 2}, {16, 96, 32, 2}};
    for (size_t i = 0; i < sizeof depthwise / sizeof *depthwise; i++)
        bench_conv(depthwise[i][0], depthwise[i][1], depthwise[i][1], depthwise[i][2], 3,
                   depthwise[i][3], 1, depthwise[i][1]);
    const int64_t products[][5] = {
        {512, 512, 512, 0, 0},  {1024, 1024, 1024, 0, 0}, {2048, 2048, 2048, 0, 0},
        {32, 4096, 1024, 0, 1}, {32, 4096, 4096, 0, 1},   {32, 4096, 4096, 0, 0},
        {4096, 4096, 32, 1, 0}, {4, 4096, 4096, 0, 1},    {4, 4096, 4096, 0, 0},
        {4096, 4096, 4, 1, 0},  {3200, 1024, 256, 0, 1},  {32, 1024, 256, 0, 1},
        {64, 120, 400, 0, 1},   {64, 400, 120, 0, 0},     {120, 400, 64, 1, 0},
        {64, 10, 84, 0, 1}};
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        bench_gemm(products[i][0], products[i][1], products[i][2], products[i][3], products[i][4]);
    bench_attention(4, 12, 128, 64, 0);
    bench_attention(4, 12, 128, 64, 0.1);
    bench_attention(4, 2, 64, 64, 0.1);
    bench_lstm(4, 100, 256);
    bench_lstm(16, 100, 256);
    bench_lstm(64, 100, 256);
    bench_lstm(16, 30, 512);
    bench_passes(64 * 28 * 28, 6, 28);
    bench_passes(32 * 32 * 32, 64, 32);
    bench_passes(32 * 8 * 8, 512, 8);
    qn_team_destroy(team);
    return 0;
}
