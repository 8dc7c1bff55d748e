/* Speed of the kernels of language models, in GFLOP/s and percent of the machine's peak beside the
 * float product of the same shape: products with weights held as blocks, forward and to the data,
 * causal attention, and the sliced cross entropy, over the shapes of SmolLM2-135M and larger
 * models. Usage: bench_language [THREADS [WORD]]: only lines with WORD. The figure is the best of
 * at least five runs and a fifth of a second. */
#include "base/memory.h"
#include "kernels/blocks.h"
#include "kernels/language.h"
#include "kernels/peak.h"
#include "os/heap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static qn_team *team;
static int n_threads = 2;
static const char *only = "";
static double peak; /* GFLOP/s of the team */
static const qn_kernels *table;
static const qn_language_kernels *language;

typedef struct job {
    qn_block_matrix w;
    qn_gemm_shape gemm;
    qn_causal_shape causal;
    qn_causal_operands operands;
    qn_sliced_operands sliced;
    int64_t n;
    void *x, *y, *w_wide, *workspace;
} job;

static void *take(size_t bytes) {
    void *memory = NULL;
    if (posix_memalign(&memory, QN_ALIGNMENT, bytes + 1) != 0)
        abort();
    return memory;
}

static float *floats(int64_t n) {
    float *values = take((size_t)n * sizeof *values);
    for (int64_t i = 0; i < n; i++)
        values[i] = (float)(i * 7 % 13 - 6) / 16;
    return values;
}

/* Best time of a call in seconds. */
static double best_of(void (*run)(job *), job *j) {
    double best = 1e9, total = 0;
    for (int i = 0; i < 5 || total < 0.2; i++) {
        const int64_t start = qn_clock_ns();
        run(j);
        const double seconds = (double)(qn_clock_ns() - start) * 1e-9;
        total += seconds;
        best = seconds < best ? seconds : best;
    }
    return best;
}

static void peak_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const qn_peak_loops *loops = context;
    volatile double sum; /* so that the rounds are made */
    for (int64_t i = begin; i < end; i++)
        sum = loops->f32(5000000, 0.5f, 1);
    (void)sum;
}

static double measure_peak(qn_isa isa) {
    const qn_peak_loops *loops = qn_peak_get(isa);
    double best = 0;
    for (int run = 0; run < 5; run++) {
        const int64_t start = qn_clock_ns();
        qn_team_run(team, n_threads, peak_task, (void *)(uintptr_t)loops);
        const double seconds = (double)(qn_clock_ns() - start) * 1e-9;
        const double rate = 5e6 * (double)loops->f32_flops * n_threads / seconds * 1e-9;
        best = rate > best ? rate : best;
    }
    return best;
}

static void say(const char *name, double gflop, double seconds) {
    printf("%-44s %9.4f GFLOP  %7.1f (%3.0f%%)\n", name, gflop, gflop / seconds,
           100 * gflop / seconds / peak);
    fflush(stdout);
}

/* ---- products ---- */

static void run_forward(job *j) {
    qn_block_product(table, team, j->n, j->x, &j->w, NULL, j->y, j->workspace);
}

static void run_data(job *j) {
    qn_block_product_data(table, team, j->n, j->y, &j->w, j->x, j->workspace);
}

static void run_wide(job *j) {
    const qn_activation none = {QN_ACTIVATION_NONE, 0};
    const bool is_forward = j->gemm.transpose_b;
    table->gemm(team, &j->gemm, is_forward ? j->x : j->y, j->w_wide, NULL, none,
                is_forward ? j->y : j->x, j->workspace);
}

/* A format, or QN_BLOCKS_NONE: the product of floats. */
static void bench_product(qn_blocks blocks, int64_t n, int64_t rows, int64_t columns) {
    const double gflop = 2e-9 * (double)(n * rows) * (double)columns;
    job j = {.n = n, .w = {blocks, rows, columns, NULL}};
    j.x = floats(n * columns);
    j.y = floats(n * rows);
    if (blocks == QN_BLOCKS_NONE) {
        j.w_wide = floats(rows * columns);
    } else {
        const size_t bytes = (size_t)(rows * qn_blocks_row_bytes(blocks, columns));
        char *data = take(bytes);
        for (size_t i = 0; i < bytes; i++)
            data[i] = (char)(i * 29 % 61);
        j.w.data = data;
    }
    for (int pass = 0; pass < 2; pass++) {
        char name[96];
        snprintf(name, sizeof name, "product %s %s %lld,%lld,%lld", pass ? "data" : "forward",
                 blocks ? qn_blocks_name(blocks) : "float", (long long)n, (long long)rows,
                 (long long)columns);
        if (!strstr(name, only))
            continue;
        j.gemm = pass ? (qn_gemm_shape){.m = n, .n = columns, .k = rows}
                      : (qn_gemm_shape){.m = n, .n = rows, .k = columns, .transpose_b = true};
        j.workspace = take(!blocks ? table->gemm_workspace(&j.gemm, n_threads)
                           : pass  ? qn_block_product_data_workspace(table, n, &j.w, n_threads)
                                   : qn_block_product_workspace(table, n, &j.w, n_threads));
        say(name, gflop, best_of(!blocks ? run_wide : pass ? run_data : run_forward, &j));
        free(j.workspace);
    }
    free(j.x);
    free(j.y);
    free(j.w_wide);
    free((void *)(uintptr_t)j.w.data);
}

/* ---- attention ---- */

static void run_causal(job *j) {
    language->causal_attention_forward(table, team, &j->causal, &j->operands, j->workspace);
}

static void run_causal_backward(job *j) {
    language->causal_attention_backward(table, team, &j->causal, &j->operands, j->workspace);
}

/* FLOPs of the scores that are looked at. */
static void bench_causal(int64_t n, int64_t t, int64_t heads, int64_t key_heads, int64_t d) {
    const double weights = (double)(n * heads * t) * (double)(t + 1) / 2;
    job j = {.causal = {.n = n,
                        .t = t,
                        .u = t,
                        .heads = heads,
                        .key_heads = key_heads,
                        .d = d,
                        .scale = 0.125}};
    const int64_t queries = n * t * heads * d, keys = n * t * key_heads * d;
    float *all = floats(4 * queries + 4 * keys + n * t * heads);
    j.operands = (qn_causal_operands){.query = all,
                                      .y = all + queries,
                                      .dy = all + 2 * queries,
                                      .dquery = all + 3 * queries,
                                      .key = all + 4 * queries,
                                      .value = all + 4 * queries + keys,
                                      .dkey = all + 4 * queries + 2 * keys,
                                      .dvalue = all + 4 * queries + 3 * keys,
                                      .log_sums = all + 4 * queries + 4 * keys};
    for (int pass = 0; pass < 2; pass++) {
        char name[96];
        snprintf(name, sizeof name, "attention %s %lld x %lld, %lld/%lld heads of %lld",
                 pass ? "backward" : "forward", (long long)n, (long long)t, (long long)heads,
                 (long long)key_heads, (long long)d);
        if (!strstr(name, only))
            continue;
        j.workspace =
            take(language->causal_attention_workspace(table, &j.causal, pass == 1, n_threads));
        say(name, 1e-9 * weights * 2 * (pass ? 5 : 2) * (double)d,
            best_of(pass ? run_causal_backward : run_causal, &j));
        free(j.workspace);
    }
    free(all);
}

/* ---- cross entropy ---- */

static void run_sliced(job *j) {
    language->sliced_cross_entropy(table, team, &j->sliced, j->workspace);
}

static void bench_sliced(qn_blocks blocks, int64_t n, int64_t rows, int64_t columns) {
    char name[96];
    snprintf(name, sizeof name, "sliced cross entropy %s %lld,%lld,%lld", qn_blocks_name(blocks),
             (long long)n, (long long)rows, (long long)columns);
    if (!strstr(name, only))
        return;
    const size_t bytes = (size_t)(rows * qn_blocks_row_bytes(blocks, columns));
    char *data = take(bytes);
    int32_t *labels = take((size_t)n * sizeof *labels);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (char)(i * 29 % 61);
    for (int64_t i = 0; i < n; i++)
        labels[i] = (int32_t)(i * 77 % rows);
    job j = {.sliced = {.n = n,
                        .x = floats(n * columns),
                        .makes_slopes = true,
                        .table = {blocks, rows, columns, data},
                        .labels = labels,
                        .losses = floats(n),
                        .slopes = floats(n * columns)}};
    j.workspace = take(language->sliced_cross_entropy_workspace(table, &j.sliced, n_threads));
    say(name, 4e-9 * (double)(n * rows) * (double)columns, best_of(run_sliced, &j));
    free(j.workspace);
    free((void *)(uintptr_t)j.sliced.x);
    free(j.sliced.losses);
    free(j.sliced.slopes);
    free(labels);
    free(data);
}

int main(int argc, char **argv) {
    qn_isa isa;
    n_threads = argc > 1 ? atoi(argv[1]) : 2;
    only = argc > 2 ? argv[2] : "";
    if (n_threads < 1 || qn_cpu_isa(&isa) != QN_OK ||
        qn_team_create(qn_allocator_default(), n_threads, &team) != QN_OK)
        return 1;
    table = qn_kernels_get(QN_F32, isa);
    language = qn_language_kernels_get(table);
    peak = measure_peak(isa);
    printf("%s, %d threads, peak %.0f GFLOP/s\n", table->name, n_threads, peak);
    const int64_t shapes[][3] = {
        {1024, 576, 576}, {1024, 1536, 576}, {1024, 576, 1536}, {256, 4864, 1024}, {1, 1536, 576}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (int blocks = QN_BLOCKS_NONE; blocks < QN_BLOCKS_COUNT; blocks++) {
            if (!blocks || shapes[i][2] % qn_blocks_numbers((qn_blocks)blocks) == 0)
                bench_product((qn_blocks)blocks, shapes[i][0], shapes[i][1], shapes[i][2]);
        }
    }
    bench_causal(4, 256, 9, 3, 64);
    bench_causal(1, 2048, 32, 8, 64);
    bench_causal(1, 512, 4, 1, 256);
    bench_sliced(QN_BLOCKS_Q8_0, 1024, 49152, 576);
    bench_sliced(QN_BLOCKS_BF16, 256, 49152, 576);
    qn_team_destroy(team);
    return 0;
}
