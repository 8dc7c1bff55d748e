/* Speed of the kernels of int8, and of bf16, of every table that this machine can run, beside the
 * float kernels of the same instruction set. Usage: bench_integer [THREADS [TABLE [WORD
 * [shifted]]]]: only lines with WORD; `shifted`: sums become int8 by a shift, as in training,
 * instead of being stored.
 *
 * Each round runs the peak loop of the table, the float kernel and the other one in turn; figures
 * are the fastest of the rounds, which other programs disturb least: G/s (nominal operations, a
 * multiply-add counts as two), percent of the peak, float time / the other's time. */
#include "base/memory.h"
#include "kernels/half.h"
#include "kernels/integer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 7 };

typedef struct subject {
    char name[64];
    double operations;
    bool is_conv;
    qn_gemm_shape gemm;
    qn_conv2d_shape conv;
    qn_conv2d_pass pass;
    int64_t n_a, n_b, n_y;
} subject;

static qn_team *team;
static int n_threads = 1;
static bool shifts;
static volatile int32_t sink;

static void *take(size_t bytes) {
    void *block = aligned_alloc(QN_ALIGNMENT, (bytes / QN_ALIGNMENT + 1) * QN_ALIGNMENT);
    if (!block) {
        fprintf(stderr, "bench_integer: no memory\n");
        exit(1);
    }
    return memset(block, 0, bytes);
}

/* ---- one run of each ---- */

typedef struct operands {
    int8_t *a8, *b8, *small;
    uint16_t *a16, *b16, *y16;
    int32_t *y8;
    float *a32, *b32, *y32;
    void *space8, *space16, *space32;
} operands;

/* One of the two tables. */
typedef struct contender {
    const qn_integer_kernels *whole;
    const qn_half_kernels *half;
    qn_halves how;
} contender;

static void run_integer(const subject *s, const qn_integer_kernels *table, const operands *o) {
    uint32_t largest;
    const qn_integer_result y = {.sums = o->y8,
                                 .largest = &largest,
                                 .shifted = shifts ? o->small : NULL,
                                 .shift = {12, false}};
    if (!s->is_conv)
        table->gemm(team, &s->gemm, o->a8, o->b8, &y, o->space8);
    else if (s->pass == QN_CONV2D_FORWARD)
        table->conv2d_forward(team, &s->conv, o->a8, o->b8, &y, o->space8);
    else if (s->pass == QN_CONV2D_BACKWARD_DATA)
        table->conv2d_backward_data(team, &s->conv, o->a8, o->b8, &y, o->space8);
    else
        table->conv2d_backward_filter(team, &s->conv, o->a8, o->b8, &y, o->space8);
}

static void run_half(const subject *s, const contender *c, const operands *o) {
    const bool is_filter = s->is_conv && s->pass == QN_CONV2D_BACKWARD_FILTER;
    const qn_half_result y = {.halves = is_filter ? NULL : o->y16,
                              .sums = is_filter ? o->y32 : NULL};
    if (!s->is_conv)
        c->half->gemm(&c->how, team, &s->gemm, o->a16, o->b16, &y, o->space16);
    else if (s->pass == QN_CONV2D_FORWARD)
        c->half->conv2d_forward(&c->how, team, &s->conv, o->a16, o->b16, &y, o->space16);
    else if (s->pass == QN_CONV2D_BACKWARD_DATA)
        c->half->conv2d_backward_data(&c->how, team, &s->conv, o->a16, o->b16, &y, o->space16);
    else
        c->half->conv2d_backward_filter(&c->how, team, &s->conv, o->a16, o->b16, &y, o->space16);
}

static void run_contender(const subject *s, const contender *c, const operands *o) {
    if (c->whole)
        run_integer(s, c->whole, o);
    else
        run_half(s, c, o);
}

static void run_float(const subject *s, const qn_kernels *table, const operands *o) {
    const qn_activation none = {QN_ACTIVATION_NONE, 0};
    if (!s->is_conv)
        table->gemm(team, &s->gemm, o->a32, o->b32, NULL, none, o->y32, o->space32);
    else if (s->pass == QN_CONV2D_FORWARD)
        table->conv2d_forward(team, &s->conv, o->a32, o->b32, NULL, none, o->y32, o->space32);
    else if (s->pass == QN_CONV2D_BACKWARD_DATA)
        table->conv2d_backward_data(team, &s->conv, o->a32, o->b32, o->y32, o->space32);
    else
        table->conv2d_backward_filter(team, &s->conv, o->a32, o->b32, o->y32, o->space32);
}

static size_t space_of(const subject *s, const contender *c) {
    if (c->whole)
        return s->is_conv ? c->whole->conv2d_workspace(&s->conv, s->pass, n_threads)
                          : c->whole->gemm_workspace(&s->gemm, n_threads);
    return s->is_conv ? c->half->conv2d_workspace(&c->how, &s->conv, s->pass, n_threads)
                      : c->half->gemm_workspace(&c->how, &s->gemm, n_threads);
}

static uint16_t bf16_of(int8_t x) {
    const float wide = x;
    uint32_t bits;
    memcpy(&bits, &wide, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static operands make_operands(const subject *s, const contender *c, const qn_kernels *real) {
    operands o = {.a8 = take((size_t)s->n_a),
                  .b8 = take((size_t)s->n_b),
                  .y8 = take((size_t)s->n_y * 4),
                  .small = take((size_t)s->n_y),
                  .a16 = take((size_t)s->n_a * 2),
                  .b16 = take((size_t)s->n_b * 2),
                  .y16 = take((size_t)s->n_y * 2),
                  .a32 = take((size_t)s->n_a * 4),
                  .b32 = take((size_t)s->n_b * 4),
                  .y32 = take((size_t)s->n_y * 4)};
    for (int64_t i = 0; i < s->n_a; i++)
        o.a32[i] = o.a8[i] = (int8_t)(i * 37 % 255 - 127);
    for (int64_t i = 0; i < s->n_b; i++)
        o.b32[i] = o.b8[i] = (int8_t)(i * 91 % 255 - 127);
    for (int64_t i = 0; i < s->n_a; i++)
        o.a16[i] = bf16_of(o.a8[i]);
    for (int64_t i = 0; i < s->n_b; i++)
        o.b16[i] = bf16_of(o.b8[i]);
    o.space8 = o.space16 = take(space_of(s, c));
    o.space32 = take(s->is_conv ? real->conv2d_workspace(&s->conv, s->pass, n_threads)
                                : real->gemm_workspace(&s->gemm, n_threads));
    return o;
}

static void release(operands *o) {
    void *all[] = {o->a8,  o->b8,  o->y8,  o->small, o->a16,    o->b16,
                   o->y16, o->a32, o->b32, o->y32,   o->space8, o->space32};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* ---- times ---- */

static void peak_task(void *context, int64_t begin, int64_t end, int thread) {
    const contender *c = context;
    (void)thread;
    for (int64_t i = begin; i < end; i++)
        sink += c->whole ? c->whole->peak(1 << 16) : (int32_t)c->half->peak(1 << 16);
}

static double seconds_since(int64_t start) {
    return (double)(qn_clock_ns() - start) * 1e-9;
}

/* How often a kernel is to run so that a round takes some 10 ms. */
static int count_runs(double seconds) {
    return seconds > 0.01 ? 1 : (int)(0.01 / seconds) + 1;
}

static void compare(const subject *s, const contender *c, const qn_kernels *real) {
    operands o = make_operands(s, c, real);
    double best[3] = {1e30, 1e30, 1e30}; /* peak loop, float, the other */
    int64_t start = qn_clock_ns();
    run_contender(s, c, &o);
    run_float(s, real, &o);
    const int runs = count_runs(seconds_since(start));
    for (int round = 0; round < ROUNDS; round++) {
        double took[3];
        start = qn_clock_ns();
        qn_team_run(team, n_threads, peak_task, (void *)c);
        took[0] = seconds_since(start);
        start = qn_clock_ns();
        for (int i = 0; i < runs; i++)
            run_float(s, real, &o);
        took[1] = seconds_since(start) / runs;
        start = qn_clock_ns();
        for (int i = 0; i < runs; i++)
            run_contender(s, c, &o);
        took[2] = seconds_since(start) / runs;
        for (int i = 0; i < 3; i++)
            best[i] = took[i] < best[i] ? took[i] : best[i];
    }
    const int64_t operations = c->whole ? c->whole->peak_operations : c->half->peak_operations;
    const double peak = (double)operations * (1 << 16) * n_threads / best[0];
    printf("%-11s %-44s %8.1f G/s %4.0f %%  float / it %5.2f\n",
           c->whole ? c->whole->name : c->half->name, s->name, s->operations / best[2] * 1e-9,
           100 * s->operations / best[2] / peak, best[1] / best[2]);
    release(&o);
}

/* ---- what is run ---- */

static subject product(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b) {
    subject s = {
        .operations = 2.0 * (double)m * (double)n * (double)k,
        .gemm = {.m = m, .n = n, .k = k, .transpose_a = transpose_a, .transpose_b = transpose_b},
        .n_a = m * k,
        .n_b = n * k,
        .n_y = m * n};
    snprintf(s.name, sizeof s.name, "product %lldx%lldx%lld%s%s", (long long)m, (long long)n,
             (long long)k, transpose_a ? " At" : "", transpose_b ? " Bt" : "");
    return s;
}

static subject convolution(int64_t n, int64_t size, int64_t c, int64_t k, int64_t r, int64_t stride,
                           int64_t groups, qn_conv2d_pass pass) {
    static const char *const passes[] = {"forward", "to data", "to filter"};
    const int64_t pad = r / 2, p = (size + 2 * pad - r) / stride + 1;
    const int64_t x = n * size * size * c, w = k * r * r * c / groups, y = n * p * p * k;
    subject s = {.is_conv = true,
                 .pass = pass,
                 .operations = 2.0 * (double)y * (double)(r * r * c / groups),
                 .conv = {.n = n,
                          .h = size,
                          .w = size,
                          .c = c,
                          .k = k,
                          .r = r,
                          .s = r,
                          .p = p,
                          .q = p,
                          .stride_h = stride,
                          .stride_w = stride,
                          .pad_top = pad,
                          .pad_left = pad,
                          .dilation_h = 1,
                          .dilation_w = 1,
                          .groups = groups},
                 .n_a = pass == QN_CONV2D_BACKWARD_DATA ? y : x,
                 .n_b = pass == QN_CONV2D_BACKWARD_FILTER ? y : w,
                 .n_y = pass == QN_CONV2D_FORWARD         ? y
                        : pass == QN_CONV2D_BACKWARD_DATA ? x
                                                          : w};
    snprintf(s.name, sizeof s.name, "%lld to %lld, %lldx%lld at %lld%s%s %s", (long long)c,
             (long long)k, (long long)r, (long long)r, (long long)size,
             stride > 1 ? " stride 2" : "", groups > 1 ? " depthwise" : "", passes[pass]);
    return s;
}

static void compare_all(const contender *c, const qn_kernels *real, const char *word) {
    static const int64_t layers[][6] = {
        {32, 3, 64, 3, 1, 1},   {32, 64, 64, 3, 1, 1},    {16, 128, 128, 3, 1, 1},
        {8, 256, 256, 3, 1, 1}, {4, 512, 512, 3, 1, 1},   {32, 64, 128, 3, 2, 1},
        {16, 256, 64, 1, 1, 1}, {16, 64, 256, 1, 1, 1},   {28, 32, 64, 5, 1, 1},
        {56, 64, 64, 3, 1, 1},  {16, 128, 128, 3, 1, 128}};
    const subject products[] = {
        product(1024, 1024, 1024, false, false), product(2048, 2048, 2048, false, true),
        product(64, 4096, 4096, false, true),    product(64, 4096, 4096, false, false),
        product(4096, 4096, 64, true, false),    product(64, 512, 512, false, true)};
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        if (strstr(products[i].name, word))
            compare(&products[i], c, real);
    }
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        for (int pass = 0; pass < 3; pass++) {
            const int64_t *l = layers[i];
            const subject s =
                convolution(16, l[0], l[1], l[2], l[3], l[4], l[5], (qn_conv2d_pass)pass);
            if (strstr(s.name, word))
                compare(&s, c, real);
        }
    }
}

int main(int argc, char **argv) {
    const char *only = argc > 2 ? argv[2] : "", *word = argc > 3 ? argv[3] : "";
    shifts = argc > 4 && strcmp(argv[4], "shifted") == 0;
    n_threads = argc > 1 ? atoi(argv[1]) : 1;
    qn_isa isa;
    if (n_threads < 1 || qn_cpu_isa(&isa) != QN_OK ||
        qn_team_create(NULL, n_threads, &team) != QN_OK) {
        fprintf(stderr, "usage: bench_integer [THREADS [TABLE [WORD [shifted]]]]\n");
        return 2;
    }
    const qn_integer_kernels *table;
    for (int i = 0; (table = qn_integer_kernels_row(i)) != NULL; i++) {
        if (table->peak && (!*only || strcmp(only, table->name) == 0))
            compare_all(&(contender){.whole = table}, qn_kernels_get(QN_F32, table->isa), word);
    }
    contender c = {.how = {QN_BF16, qn_kernels_get(QN_F32, isa)}};
    for (int i = 0; (c.half = qn_half_kernels_row(&c.how, i)) != NULL; i++) {
        if (c.half->peak && (!*only || strcmp(only, c.half->name) == 0))
            compare_all(&c, c.how.wide, word);
    }
    qn_team_destroy(team);
    return 0;
}
