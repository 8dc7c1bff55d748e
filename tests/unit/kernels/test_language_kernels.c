/* Kernels of language models where a sum might go wrong: scores and logits of thousands, positions
 * without keys, keys that a position must not see, labels that are none. Gradients and the bits of
 * teams are for test_ops. */
#include "kernels/language.h"

#include "base/memory.h"
#include "base/rng.h"
#include "check.h"
#include "os/heap.h"

#include <stdlib.h>

enum { MOST = 4096 };

static const qn_kernels *tables[2]; /* the best of this machine, and the reference in double */
static uint64_t drawn;

static double draw(void) {
    return (double)qn_rng_uniform(qn_rng_word(qn_rng_make(5, 1, 0), drawn++)) * 2 - 1;
}

/* The same numbers in both types. */
typedef struct numbers {
    _Alignas(64) float f32[MOST];
    _Alignas(64) double f64[MOST];
} numbers;

static void fill(numbers *x, int n, double size) {
    for (int i = 0; i < n; i++) {
        x->f32[i] = (float)(draw() * size);
        x->f64[i] = (double)x->f32[i];
    }
}

static void *of(numbers *x, int type) {
    return type ? (void *)x->f64 : (void *)x->f32;
}

static void *take(size_t bytes) {
    void *memory = NULL;
    if (posix_memalign(&memory, 64, bytes ? bytes : 1) != 0)
        abort();
    return memset(memory, 0xff, bytes);
}

static double error_of(const numbers *x, int n) {
    double error = 0, size = 0;
    for (int i = 0; i < n; i++) {
        error += (x->f64[i] - (double)x->f32[i]) * (x->f64[i] - (double)x->f32[i]);
        size += x->f64[i] * x->f64[i];
    }
    return sqrt(error) / (sqrt(size) + 1e-30);
}

/* ---- attention ---- */

enum { T = 70, U = 150, D = 5 };

static numbers query, key, value, y, log_sums, again;

static void attend(int type, const int32_t *first, const int32_t *last, numbers *to) {
    const qn_causal_shape shape = {
        .n = 1, .t = T, .u = U, .heads = 2, .key_heads = 1, .d = D, .scale = 1};
    const qn_causal_operands o = {.query = of(&query, type),
                                  .key = of(&key, type),
                                  .value = of(&value, type),
                                  .first = first,
                                  .last = last,
                                  .y = of(to, type),
                                  .log_sums = of(&log_sums, type)};
    const qn_language_kernels *k = qn_language_kernels_get(tables[type]);
    void *space = take(k->causal_attention_workspace(tables[type], &shape, false, 1));
    k->causal_attention_forward(tables[type], NULL, &shape, &o, space);
    free(space);
}

/* Scores of thousands, of which one decides, and so do the ranges of keys. */
static void check_attention(void) {
    int32_t first[T], last[T];
    for (int t = 0; t < T; t++) {
        first[t] = t < 40 ? 0 : 100;
        last[t] = t == 7 ? -1 : t < 40 ? 3 * t : 80 + t;
    }
    fill(&query, T * 2 * D, 60);
    fill(&key, U * D, 60);
    fill(&value, U * D, 1);
    for (int type = 0; type < 2; type++)
        attend(type, first, last, &y);
    CHECK(error_of(&y, T * 2 * D) < 1e-3); /* a score's last bit is worth so much */
    CHECK(error_of(&log_sums, T * 2) < 1e-6);
    for (int i = 7 * 2 * D; i < 8 * 2 * D; i++)
        CHECK(y.f32[i] == 0);
    /* What lies ahead of position 39, or before 100, is nothing to the others. */
    for (int i = (3 * 20 + 1) * D; i < 100 * D; i++)
        key.f32[i] = value.f32[i] = (float)draw() * 1000;
    attend(0, first, last, &again);
    CHECK(memcmp(again.f32, y.f32, 21 * 2 * D * sizeof(float)) == 0);
    CHECK(memcmp(again.f32 + 40 * 2 * D, y.f32 + 40 * 2 * D, (T - 40) * 2 * D * sizeof(float)) ==
          0);
    CHECK(memcmp(again.f32 + 30 * 2 * D, y.f32 + 30 * 2 * D, 2 * D * sizeof(float)) != 0);
}

/* What is not filled yet of a cache is not read. */
static void check_cache(void) {
    int32_t last[T];
    for (int t = 0; t < T; t++)
        last[t] = t;
    for (int i = T * D; i < U * D; i++)
        key.f32[i] = value.f32[i] = NAN;
    attend(0, NULL, last, &y);
    for (int i = 0; i < T * 2 * D; i++)
        CHECK(isfinite(y.f32[i]));
}

/* ---- cross entropy ---- */

enum { N = 9, C = 32, V = 120 };

static numbers x, losses, slopes;
static unsigned char table[V * C * 4];

static void lose(int type, const int32_t *labels, double soft_cap) {
    const qn_sliced_operands o = {.n = N,
                                  .soft_cap = soft_cap,
                                  .makes_slopes = true,
                                  .x = of(&x, type),
                                  .table = {QN_BLOCKS_F32, V, C, table},
                                  .labels = labels,
                                  .losses = of(&losses, type),
                                  .slopes = of(&slopes, type)};
    const qn_language_kernels *k = qn_language_kernels_get(tables[type]);
    void *space = take(k->sliced_cross_entropy_workspace(tables[type], &o, 1));
    k->sliced_cross_entropy(tables[type], NULL, &o, space);
    free(space);
}

static void check_entropy(void) {
    int32_t labels[N];
    for (int i = 0; i < V * C; i++) {
        const float number = (float)draw();
        memcpy(table + 4 * i, &number, sizeof number);
    }
    for (int i = 0; i < N; i++)
        labels[i] = i % 3 == 2 ? -100 : i * 13;
    for (int large = 0; large < 2; large++) {
        fill(&x, N * C, large ? 3000 : 1);
        for (int type = 0; type < 2; type++)
            lose(type, labels, large ? 0 : 5);
        CHECK(error_of(&losses, N) < 1e-5);
        CHECK(error_of(&slopes, N * C) < 1e-4);
        for (int i = 0; i < N; i++)
            CHECK(labels[i] >= 0 ? isfinite(losses.f32[i]) : losses.f32[i] == 0);
    }
    labels[1] = V;
    lose(0, labels, 0);
    CHECK(isnan(losses.f32[1]) && isfinite(losses.f32[0]));
    for (int i = 0; i < N; i++)
        labels[i] = -1;
    lose(0, labels, 0);
    for (int i = 0; i < N; i++)
        CHECK(losses.f32[i] == 0);
    for (int i = 0; i < N * C; i++)
        CHECK(slopes.f32[i] == 0);
}

int main(void) {
    qn_isa best;
    CHECK_OK(qn_cpu_isa(&best));
    tables[0] = qn_kernels_get(QN_F32, best);
    tables[1] = qn_kernels_get(QN_F64, QN_ISA_REF);
    check_attention();
    check_cache();
    check_entropy();
    return checks_finish();
}
