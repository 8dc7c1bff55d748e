/* Products and convolutions of int8, of every table that this machine can run, bit for bit: against
 * the double reference, which is exact for such numbers; with bias, ReLU, sums to go on from, the
 * largest sum, steps between pixels, operands without alignment, and every team size. Then the
 * operators over them: their types, and what they refuse. */
#include "check.h"
#include "graph_run.h"
#include "kernels/integer.h"
#include "ops/rescaled.h"
#include "ops/shared.h"
#include "quern/ops.h"

#include <stdlib.h>

enum { N_TEAMS = 3, GUARD = 64 };

static qn_team *teams[N_TEAMS]; /* of 1, 2 and 3 threads */
static int least_team = 1;      /* of those that results are made by */
static int first_row;           /* of the tables; in the slowest programs not the reference's */

/* ---- memory of a case, all of it given back at its end ---- */

static void *blocks[64];
static int n_blocks;

static void *take(size_t bytes) {
    blocks[n_blocks] = calloc(1, bytes + GUARD);
    return blocks[n_blocks++];
}

/* Scratch between guards: what lies behind it stays. */
static void *scratch(size_t bytes) {
    char *space =
        aligned_alloc(QN_ALIGNMENT, (bytes + GUARD + QN_ALIGNMENT) / QN_ALIGNMENT * QN_ALIGNMENT);
    memset(space, 0xa5, bytes + GUARD);
    blocks[n_blocks++] = space;
    return space;
}

static bool is_guarded(const void *space, size_t bytes) {
    for (int i = 0; i < GUARD; i++) {
        if (((const unsigned char *)space)[bytes + (size_t)i] != 0xa5)
            return false;
    }
    return true;
}

static void give_all_back(void) {
    while (n_blocks > 0)
        free(blocks[--n_blocks]);
}

/* n numbers, the ends of the range among them, one byte off alignment. */
static int8_t *draw(int64_t n, uint64_t key) {
    int8_t *x = (int8_t *)take((size_t)n + 1) + 1;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t word = qn_rng_word(qn_rng_make(19, key, 0), (uint64_t)i);
        x[i] = word % 7 == 0 ? (int8_t)(word >> 8 & 1 ? -128 : 127) : (int8_t)(word >> 16);
    }
    return x;
}

static double *widen(const int8_t *x, int64_t n) {
    double *y = aligned_alloc(QN_ALIGNMENT, ((size_t)n * 8 / QN_ALIGNMENT + 1) * QN_ALIGNMENT);
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i];
    return blocks[n_blocks++] = y;
}

/* ---- one result of every table and team ---- */

typedef struct result_of {
    const char *what;
    int64_t rows, n, step;
    const double *right; /* (rows, n), without bias, before ReLU */
    void (*run)(const qn_integer_kernels *table, qn_team *team, const qn_integer_result *y,
                const void *context, bool add, void *space);
    size_t (*workspace)(const qn_integer_kernels *table, int n_threads, const void *context);
    const void *context;
    bool has_bias, can_add;
    bool (*keeps)(const qn_integer_kernels *table, const void *context);
} result_of;

static int64_t wanted(const result_of *r, int64_t row, int64_t column, const int32_t *bias,
                      int variant) {
    int64_t sum = (int64_t)r->right[row * r->n + column];
    if (variant == 1 && bias)
        sum += bias[column];
    if (variant == 1)
        return sum < 0 ? 0 : sum;
    return variant == 2 ? sum + row - 3 * column : sum;
}

/* Variants: plain; bias and ReLU; going on from sums. */
static void check_variant(const result_of *r, const qn_integer_kernels *table, int n_threads,
                          int variant) {
    int32_t *sums = take((size_t)(r->rows * r->step) * sizeof *sums), *bias = NULL;
    uint32_t largest = 7;
    if (variant == 1 && r->has_bias) {
        bias = take((size_t)r->n * sizeof *bias);
        for (int64_t j = 0; j < r->n; j++)
            bias[j] = (int32_t)(j * 1000 - 1500);
    }
    for (int64_t i = 0; i < r->rows * r->step; i++)
        sums[i] = variant == 2 ? (int32_t)(i / r->step - 3 * (i % r->step)) : 77;
    const qn_integer_result y = {.sums = sums,
                                 .bias = bias,
                                 .relu = variant == 1,
                                 .largest = variant == 0 ? NULL : &largest};
    const size_t bytes = r->workspace(table, n_threads, r->context);
    void *space = scratch(bytes);
    r->run(table, teams[n_threads - 1], &y, r->context, variant == 2, space);
    int64_t n_wrong = 0, most = 0;
    for (int64_t i = 0; i < r->rows * r->step; i++) {
        const int64_t row = i / r->step, column = i % r->step;
        const int64_t right = column < r->n  ? wanted(r, row, column, bias, variant)
                              : variant == 2 ? row - 3 * column
                                             : 77;
        n_wrong += sums[i] != right;
        if (column < r->n)
            most = llabs(right) > most ? llabs(right) : most;
    }
    CHECK(n_wrong == 0 && is_guarded(space, bytes));
    CHECK(variant == 0 ? largest == 7 : largest == most);
    if (n_wrong > 0)
        printf("%s of %s, variant %d, %d threads: %lld wrong\n", r->what, table->name, variant,
               n_threads, (long long)n_wrong);
}

/* A shift as its definition says it. */
static int64_t shifted(int64_t sum, qn_shift by) {
    const int64_t divisor = INT64_C(1) << by.bits, cut = sum / divisor;
    const int64_t rest = llabs(sum - cut * divisor), high = rest >> (by.bits / 2);
    const int64_t low = (rest - (high << (by.bits / 2))) * (by.bits % 2 ? 2 : 1);
    const bool is_away = by.is_pseudo ? high > low : by.bits > 0 && rest >= divisor / 2;
    const int64_t rounded = cut + (is_away ? sum < 0 ? -1 : 1 : 0);
    return rounded < -127 ? -127 : rounded > 127 ? 127 : rounded;
}

/* Shifted, with bias and ReLU; sums have a place only where the table says that they need one. */
static void check_shifted(const result_of *r, const qn_integer_kernels *table, int n_threads,
                          qn_shift by) {
    const int64_t n = r->rows * r->step;
    int8_t *y = take((size_t)n);
    int32_t *bias = r->has_bias ? take((size_t)r->n * sizeof *bias) : NULL;
    uint32_t largest = 0;
    for (int64_t j = 0; bias && j < r->n; j++)
        bias[j] = (int32_t)(j * 1000 - 1500);
    memset(y, 77, (size_t)n);
    const qn_integer_result result = {
        .sums = r->keeps(table, r->context) ? take((size_t)n * sizeof(int32_t)) : NULL,
        .bias = bias,
        .relu = by.is_pseudo,
        .largest = &largest,
        .shifted = y,
        .shift = by};
    r->run(table, teams[n_threads - 1], &result, r->context, false,
           scratch(r->workspace(table, n_threads, r->context)));
    int64_t n_wrong = 0, most = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = i / r->step, column = i % r->step;
        int64_t sum = column < r->n ? (int64_t)r->right[row * r->n + column] : 0;
        sum += column < r->n && bias ? bias[column] : 0;
        sum = sum < 0 && by.is_pseudo ? 0 : sum;
        most = llabs(sum) > most ? llabs(sum) : most;
        n_wrong += y[i] != (column < r->n ? shifted(sum, by) : 77);
    }
    CHECK(n_wrong == 0 && largest == most);
    if (n_wrong > 0)
        printf("%s of %s, shifted by %d, %d threads: %lld wrong\n", r->what, table->name, by.bits,
               n_threads, (long long)n_wrong);
}

static void check_result(const result_of *r) {
    static const qn_shift shifts[] = {{9, false}, {10, true}};
    const qn_integer_kernels *table;
    for (int i = first_row; (table = qn_integer_kernels_row(i)) != NULL; i++) {
        for (int n_threads = least_team; n_threads <= N_TEAMS; n_threads++) {
            const int first = n_blocks;
            for (int variant = 0; variant < (r->can_add ? 3 : 2); variant++)
                check_variant(r, table, n_threads, variant);
            for (size_t shift = 0; n_threads != 2 && shift < sizeof shifts / sizeof *shifts;
                 shift++)
                check_shifted(r, table, n_threads, shifts[shift]);
            while (n_blocks > first)
                free(blocks[--n_blocks]);
        }
    }
}

/* ---- products ---- */

typedef struct gemm_context {
    qn_gemm_shape shape;
    const int8_t *a, *b;
} gemm_context;

static void gemm_run(const qn_integer_kernels *table, qn_team *team, const qn_integer_result *y,
                     const void *context, bool add, void *space) {
    const gemm_context *c = context;
    qn_gemm_shape d = c->shape;
    d.add = add;
    table->gemm(team, &d, c->a, c->b, y, space);
}

static size_t gemm_bytes(const qn_integer_kernels *table, int n_threads, const void *context) {
    return table->gemm_workspace(&((const gemm_context *)context)->shape, n_threads);
}

static bool gemm_keeps(const qn_integer_kernels *table, const void *context) {
    return table->gemm_keeps(&((const gemm_context *)context)->shape);
}

static void check_product(int64_t m, int64_t n, int64_t k, int transposed) {
    const qn_activation none = {QN_ACTIVATION_NONE, 0};
    const qn_kernels *doubles = qn_kernels_get(QN_F64, QN_ISA_REF);
    gemm_context c = {
        {.m = m, .n = n, .k = k, .transpose_a = transposed & 1, .transpose_b = transposed >> 1},
        draw(m * k, 1),
        draw(k * n, 2)};
    double *right = widen(draw(m * n, 0), m * n);
    doubles->gemm(NULL, &c.shape, widen(c.a, m * k), widen(c.b, k * n), NULL, none, right,
                  scratch(doubles->gemm_workspace(&c.shape, 1)));
    const result_of r = {"product",  m,  n,    n,    right,     gemm_run,
                         gemm_bytes, &c, true, true, gemm_keeps};
    check_result(&r);
    give_all_back();
}

static void test_products(void) {
    const int64_t sizes[][3] = {{1, 1, 1},     {2, 3, 4},     {13, 33, 257}, {64, 10, 84},
                                {4, 120, 400}, {7, 300, 30},  {1, 65, 513},  {70, 70, 70},
                                {33, 1, 9},    {130, 48, 64}, {5, 37, 1100}, {25, 64, 2050},
                                {300, 17, 12}, {2, 35, 4500}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int transposed = 0; transposed < 4; transposed++)
            check_product(sizes[i][0], sizes[i][1], sizes[i][2], transposed);
    }
}

/* Sums that do not fit wrap around. */
static void test_wrap(void) {
    enum { K = 131072 + 5 };
    int8_t *a = take(K);
    memset(a, -128, K);
    const qn_gemm_shape d = {.m = 1, .n = 1, .k = K};
    const qn_integer_kernels *table;
    for (int i = 0; (table = qn_integer_kernels_row(i)) != NULL; i++) {
        int32_t sum = 0;
        uint32_t largest = 0;
        const qn_integer_result y = {.sums = &sum, .largest = &largest};
        table->gemm(NULL, &d, a, a, &y, scratch(table->gemm_workspace(&d, 1)));
        CHECK(sum == INT32_MIN + 5 * 16384 && largest == UINT32_C(0x80000000) - 5 * 16384);
    }
    give_all_back();
}

/* ---- convolutions ---- */

typedef struct conv_context {
    qn_conv2d_shape shape;
    qn_conv2d_pass pass;
    const int8_t *a, *b;
} conv_context;

static void conv_run(const qn_integer_kernels *table, qn_team *team, const qn_integer_result *y,
                     const void *context, bool add, void *space) {
    const conv_context *c = context;
    qn_conv2d_shape d = c->shape;
    d.add = add;
    if (c->pass == QN_CONV2D_FORWARD)
        table->conv2d_forward(team, &d, c->a, c->b, y, space);
    else if (c->pass == QN_CONV2D_BACKWARD_DATA)
        table->conv2d_backward_data(team, &d, c->a, c->b, y, space);
    else
        table->conv2d_backward_filter(team, &d, c->a, c->b, y, space);
}

static size_t conv_bytes(const qn_integer_kernels *table, int n_threads, const void *context) {
    const conv_context *c = context;
    return table->conv2d_workspace(&c->shape, c->pass, n_threads);
}

static bool conv_keeps(const qn_integer_kernels *table, const void *context) {
    const conv_context *c = context;
    return table->conv2d_keeps(&c->shape, c->pass);
}

/* The same rows with others between them. */
static const int8_t *spread(const int8_t *x, int64_t rows, int64_t n, int64_t step) {
    int8_t *y = draw(rows * step, 9);
    for (int64_t i = 0; i < rows; i++)
        memcpy(y + i * step, x + i * n, (size_t)n);
    return y;
}

static void check_convolution(const qn_conv2d_shape *d) {
    const qn_activation none = {QN_ACTIVATION_NONE, 0};
    const qn_kernels *doubles = qn_kernels_get(QN_F64, QN_ISA_REF);
    const int64_t n_x = d->n * d->h * d->w * d->c, n_y = d->n * d->p * d->q * d->k;
    const int64_t n_w = d->k * d->r * d->s * d->c / d->groups, pixels = d->n * d->p * d->q;
    const int8_t *x = draw(n_x, 1), *w = draw(n_w, 2), *dy = draw(n_y, 3);
    double *y = widen(dy, n_y), *dx = widen(x, n_x), *dw = widen(w, n_w);
    void *space[3];
    for (int pass = 0; pass < 3; pass++)
        space[pass] = scratch(doubles->conv2d_workspace(d, (qn_conv2d_pass)pass, 1));
    const double *from[] = {widen(x, n_x), widen(w, n_w), widen(dy, n_y)};
    doubles->conv2d_forward(NULL, d, from[0], from[1], NULL, none, y, space[0]);
    doubles->conv2d_backward_data(NULL, d, from[2], from[1], dx, space[1]);
    doubles->conv2d_backward_filter(NULL, d, from[0], from[2], dw, space[2]);
    qn_conv2d_shape apart = *d;
    apart.y_stride = d->k + 3;
    const int8_t *dy_apart = spread(dy, pixels, d->k, d->k + 3);
    const conv_context all[] = {
        {*d, QN_CONV2D_FORWARD, x, w},          {apart, QN_CONV2D_FORWARD, x, w},
        {*d, QN_CONV2D_BACKWARD_DATA, dy, w},   {apart, QN_CONV2D_BACKWARD_DATA, dy_apart, w},
        {*d, QN_CONV2D_BACKWARD_FILTER, x, dy}, {apart, QN_CONV2D_BACKWARD_FILTER, x, dy_apart},
    };
    for (int i = 0; i < 6; i++) {
        const result_of results[] = {
            {"forward", pixels, d->k, i % 2 ? apart.y_stride : d->k, y, conv_run, conv_bytes,
             &all[i], true, false, conv_keeps},
            {"to the data", d->n * d->h * d->w, d->c, d->c, dx, conv_run, conv_bytes, &all[i],
             false, false, conv_keeps},
            {"to the filter", d->k, n_w / d->k, n_w / d->k, dw, conv_run, conv_bytes, &all[i],
             false, true, conv_keeps},
        };
        check_result(&results[i / 2]);
    }
    give_all_back();
}

static qn_conv2d_shape conv(int64_t n, int64_t h, int64_t w, int64_t c, int64_t k, int64_t r,
                            int64_t s, int64_t stride, int64_t pad, int64_t dilation,
                            int64_t groups) {
    return (qn_conv2d_shape){.n = n,
                             .h = h,
                             .w = w,
                             .c = c,
                             .k = k,
                             .r = r,
                             .s = s,
                             .p = (h + 2 * pad - dilation * (r - 1) - 1) / stride + 1,
                             .q = (w + 2 * pad - dilation * (s - 1) - 1) / stride + 1,
                             .stride_h = stride,
                             .stride_w = stride,
                             .pad_top = pad,
                             .pad_left = pad,
                             .dilation_h = dilation,
                             .dilation_w = dilation,
                             .groups = groups};
}

static void test_convolutions(void) {
    const qn_conv2d_shape all[] = {
        conv(2, 7, 5, 3, 5, 3, 3, 1, 1, 1, 1),     conv(3, 9, 7, 4, 6, 3, 2, 2, 1, 1, 2),
        conv(1, 9, 11, 2, 3, 3, 3, 1, 2, 2, 1),    conv(2, 6, 7, 5, 5, 3, 3, 2, 1, 1, 5),
        conv(2, 5, 3, 7, 9, 1, 1, 1, 0, 1, 1),     conv(1, 5, 5, 3, 6, 5, 5, 1, 2, 1, 3),
        conv(2, 8, 8, 32, 64, 3, 3, 1, 1, 1, 1),   conv(2, 9, 9, 64, 33, 1, 1, 2, 0, 1, 1),
        conv(1, 12, 12, 3, 16, 5, 5, 2, 2, 1, 1),  conv(3, 6, 6, 24, 24, 3, 3, 1, 1, 1, 24),
        conv(2, 7, 6, 70, 70, 3, 3, 2, 1, 1, 70),  conv(2, 7, 7, 40, 70, 3, 3, 2, 1, 1, 1),
        conv(2, 6, 5, 16, 32, 3, 3, 1, 1, 1, 4),   conv(9, 13, 12, 17, 20, 3, 3, 3, 2, 1, 1),
        conv(1, 4, 4, 130, 150, 3, 3, 1, 1, 1, 1), conv(5, 16, 16, 8, 12, 1, 1, 1, 0, 1, 1),
        conv(1, 3, 3, 4, 4, 3, 3, 1, 1, 3, 1),     conv(2, 24, 23, 4, 5, 3, 3, 1, 1, 1, 1),
        conv(2, 13, 14, 34, 70, 3, 3, 1, 1, 1, 1), conv(1, 18, 19, 66, 36, 3, 3, 1, 2, 1, 1),
        conv(3, 11, 12, 36, 64, 3, 3, 1, 0, 1, 1), conv(33, 4, 3, 130, 96, 3, 3, 1, 1, 1, 1),
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].p > 0 && all[i].q > 0)
            check_convolution(&all[i]);
    }
}

/* A filter's gradient, all of whose sums are as large as they can be: too large to be made of tiles
 * at once. */
static void test_large_sums(void) {
    enum { SIDE = 190, C = 32, N_X = SIDE * SIDE * C };
    const qn_conv2d_shape d = conv(1, SIDE, SIDE, C, C, 3, 3, 1, 1, 1, 1);
    int8_t *x = memset(take(N_X), -128, N_X);
    int32_t *dw = take(C * 9 * C * sizeof *dw);
    const qn_integer_kernels *table;
    for (int i = first_row; (table = qn_integer_kernels_row(i)) != NULL; i++) {
        const qn_integer_result y = {.sums = dw};
        int64_t n_wrong = 0;
        table->conv2d_backward_filter(
            teams[1], &d, x, x, &y,
            scratch(table->conv2d_workspace(&d, QN_CONV2D_BACKWARD_FILTER, 2)));
        for (int j = 0; j < C * 9 * C; j++) {
            const int r = j / C / 3 % 3, s = j / C % 3;
            n_wrong += dw[j] != 16384 * (SIDE - (r != 1)) * (SIDE - (s != 1));
        }
        CHECK(n_wrong == 0);
    }
    give_all_back();
}

/* ---- rows ---- */

enum { N_NUMBERS = 1003 };

/* Every table's against definitions in double, or, of floats, against the reference's. */
static void test_rows(void) {
    static int32_t sums[N_NUMBERS];
    static float floats[N_NUMBERS], wide[2][N_NUMBERS];
    int8_t *a = draw(N_NUMBERS, 4), *b = draw(N_NUMBERS, 5), *y = take(N_NUMBERS);
    int8_t *right = take(N_NUMBERS);
    float ends[2][2];
    const qn_integer_kernels *ref = qn_integer_kernels_row(0), *table;
    for (int i = 0; i < N_NUMBERS; i++) {
        sums[i] = (int32_t)qn_rng_word(qn_rng_make(19, 6, 0), (uint64_t)i) >> i % 29;
        floats[i] = i == 7 ? NAN : i == 9 ? -INFINITY : (float)sums[i] * 0x1p-20f;
    }
    for (int t = 0; (table = qn_integer_kernels_row(t)) != NULL; t++) {
        for (int shift = 0; shift < 40; shift++) {
            const qn_shift by = {shift % 20, shift >= 20};
            table->rows.shift(N_NUMBERS, sums, by, y);
            for (int i = 0; i < N_NUMBERS; i++)
                CHECK(y[i] == shifted(sums[i], by));
        }
        CHECK(table->rows.largest(N_NUMBERS, sums) == ref->rows.largest(N_NUMBERS, sums));
        table->rows.round_away(N_NUMBERS, floats, 0.25, y);
        ref->rows.round_away(N_NUMBERS, floats, 0.25, right);
        CHECK(memcmp(y, right, N_NUMBERS) == 0 && y[7] == 0 && y[9] == -127);
        table->rows.round_even(N_NUMBERS, floats, 3, 5, -127, 127, y);
        ref->rows.round_even(N_NUMBERS, floats, 3, 5, -127, 127, right);
        CHECK(memcmp(y, right, N_NUMBERS) == 0 && y[7] == 5 && y[9] == -127);
        table->rows.widen(N_NUMBERS, a, 0x1p-9, wide[0]);
        ref->rows.widen(N_NUMBERS, a, 0x1p-9, wide[1]);
        CHECK(memcmp(wide[0], wide[1], sizeof wide[0]) == 0 && wide[0][3] == a[3] * 0x1p-9f);
        table->rows.range(N_NUMBERS, floats, &ends[0][0], &ends[0][1]);
        ref->rows.range(N_NUMBERS, floats, &ends[1][0], &ends[1][1]);
        CHECK(memcmp(ends[0], ends[1], sizeof ends[0]) == 0 && ends[0][0] == -INFINITY);
        table->rows.relu(N_NUMBERS, a, y);
        for (int i = 0; i < N_NUMBERS; i++)
            CHECK(y[i] == (a[i] < 0 ? 0 : a[i]));
        table->rows.relu_backward(N_NUMBERS, a, b, y);
        for (int i = 0; i < N_NUMBERS; i++)
            CHECK(y[i] == (a[i] <= 0 ? 0 : b[i]));
        memcpy(y, a, N_NUMBERS);
        table->rows.step(N_NUMBERS, b, y);
        for (int i = 0; i < N_NUMBERS; i++)
            CHECK(y[i] == (a[i] - b[i] < -127 ? -127 : a[i] - b[i] > 127 ? 127 : a[i] - b[i]));
    }
    give_all_back();
}

enum { NORM_N = 37, NORM_MOST = 203, NORM_NUMBERS = NORM_N * NORM_MOST };

/* Sums and ends of columns by their definitions. */
static void check_columns(const qn_integer_kernels *table, int c, const int8_t *x,
                          const int8_t *d) {
    static int32_t sums[2][NORM_MOST];
    static int8_t ends[2][NORM_MOST];
    table->rows.norm_sums(NORM_N, c, x, d, sums[0], sums[1]);
    table->rows.norm_ends(NORM_N, c, x, ends[0], ends[1]);
    for (int j = 0; j < c; j++) {
        int32_t sum = 0, products = 0;
        int8_t low = 127, high = -128;
        for (int i = j; i < NORM_N * c; i += c) {
            sum += d[i];
            products += d[i] * x[i];
            low = x[i] < low ? x[i] : low;
            high = x[i] > high ? x[i] : high;
        }
        CHECK(sums[0][j] == sum && sums[1][j] == products);
        CHECK(ends[0][j] == low && ends[1][j] == high);
    }
}

/* Columns of any number; lines as the reference has them, with a NaN among them. */
static void test_norm_rows(void) {
    static const int columns[] = {1, 7, 16, 24, 64, 100, NORM_MOST};
    static float lines[3 * NORM_MOST];
    int8_t *x = draw(NORM_NUMBERS, 7), *d = draw(NORM_NUMBERS, 8);
    int8_t *y = take(NORM_NUMBERS), *right = take(NORM_NUMBERS);
    const qn_integer_kernels *ref = qn_integer_kernels_row(0), *table;
    memset(x, -127, NORM_N);
    memset(d, -127, NORM_N);
    for (int i = 0; i < 3 * NORM_MOST; i++)
        lines[i] = ((float)(int32_t)qn_rng_word(qn_rng_make(19, 9, 0), (uint64_t)i)) * 0x1p-31f;
    lines[5] = NAN;
    for (int t = 0; (table = qn_integer_kernels_row(t)) != NULL; t++) {
        for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
            const int c = columns[i], n = NORM_N * c;
            check_columns(table, c, x, d);
            check_columns(table, c, x, x);
            for (int both = 0; both < 2; both++) {
                table->rows.norm_apply(NORM_N, c, x, both ? d : NULL, lines, y);
                ref->rows.norm_apply(NORM_N, c, x, both ? d : NULL, lines, right);
                CHECK(memcmp(y, right, (size_t)n) == 0);
            }
            const float most = table->rows.norm_largest(NORM_N, c, x, d, lines);
            CHECK(most == ref->rows.norm_largest(NORM_N, c, x, d, lines) && most > 0);
        }
    }
    give_all_back();
}

/* ---- pools ---- */

/* The largest of a window and its number, and its gradient, as their definitions say. */
static void right_pool(const qn_conv2d_shape *d, const int8_t *x, const int8_t *dy, int8_t *y,
                       uint16_t *index, int64_t *dx) {
    for (int64_t o = 0; o < d->n * d->p * d->q * d->c; o++) {
        const int64_t c = o % d->c, q = o / d->c % d->q, p = o / d->c / d->q % d->p;
        const int64_t first = o / d->c / d->q / d->p * d->h * d->w;
        int64_t chosen = -1;
        y[o] = 0;
        index[o] = 0;
        for (int64_t tap = 0; tap < d->r * d->s; tap++) {
            const int64_t h = p * d->stride_h + tap / d->s * d->dilation_h - d->pad_top;
            const int64_t w = q * d->stride_w + tap % d->s * d->dilation_w - d->pad_left;
            const int64_t at = (first + h * d->w + w) * d->c + c;
            if (h < 0 || h >= d->h || w < 0 || w >= d->w || (chosen >= 0 && x[at] <= y[o]))
                continue;
            chosen = at;
            y[o] = x[at];
            index[o] = (uint16_t)tap;
        }
        if (chosen >= 0)
            dx[chosen] += dy[o];
    }
}

static void check_pool(const qn_conv2d_shape *d) {
    const int64_t n_x = d->n * d->h * d->w * d->c, n_y = d->n * d->p * d->q * d->c;
    const int8_t *x = draw(n_x, 1), *dy = draw(n_y, 2);
    int8_t *y = take((size_t)n_y), *right = take((size_t)n_y), *dx = take((size_t)n_x);
    uint16_t *index = take((size_t)n_y * 2), *right_index = take((size_t)n_y * 2);
    int64_t *right_dx = take((size_t)n_x * sizeof *right_dx);
    const qn_integer_kernels *table;
    right_pool(d, x, dy, right, right_index, right_dx);
    for (int i = 0; (table = qn_integer_kernels_row(i)) != NULL; i++) {
        for (int team = least_team - 1; team < N_TEAMS; team++) {
            memset(y, 99, (size_t)n_y);
            memset(dx, 99, (size_t)n_x);
            table->max_pool(teams[team], d, x, y, index);
            table->max_pool_backward(teams[team], d, dy, right_index, dx);
            CHECK(memcmp(y, right, (size_t)n_y) == 0);
            CHECK(memcmp(index, right_index, (size_t)n_y * sizeof *index) == 0);
            for (int64_t j = 0; j < n_x; j++)
                CHECK(dx[j] == (right_dx[j] < -127 ? -127 : right_dx[j] > 127 ? 127 : right_dx[j]));
        }
    }
    give_all_back();
}

static void test_pools(void) {
    const qn_conv2d_shape all[] = {
        conv(2, 7, 5, 3, 3, 2, 2, 2, 0, 1, 3),       conv(1, 9, 8, 70, 70, 3, 3, 2, 1, 1, 70),
        conv(2, 6, 6, 64, 64, 3, 3, 1, 1, 1, 64),    conv(1, 20, 21, 2, 2, 17, 18, 1, 8, 1, 2),
        conv(1, 5, 5, 130, 130, 2, 2, 3, 0, 2, 130),
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        check_pool(&all[i]);
}

/* ---- operators ---- */

static qn_graph *new_graph(void) {
    qn_graph *graph;
    const qn_graph_options options = {QN_OPTIONS_INIT(qn_graph_options)};
    CHECK_OK(qn_graph_create(&options, &graph));
    return graph;
}

static qn_value source(qn_graph *graph, const char *name, qn_dtype dtype, qn_shape shape) {
    return qn_graph_add_source(graph, QN_KIND_INPUT, name, (qn_tensor){dtype, shape},
                               (qn_initial){0}, false);
}

/* A convolution, a linear layer and a product of matrices in one graph, against the same of f32. */
static void test_operators(void) {
    const qn_window window = {.pad_top = 1, .pad_left = 1, .pad_bottom = 1, .pad_right = 1};
    graph_run run[2];
    qn_value results[2][3], inputs[2][5];
    for (int i = 0; i < 2; i++) {
        qn_graph *graph = new_graph();
        const qn_dtype type = i ? QN_I8 : QN_F32, sum = i ? QN_I32 : QN_F32;
        inputs[i][0] = source(graph, "x", type, QN_SHAPE(2, 5, 4, 3));
        inputs[i][1] = source(graph, "filter", type, QN_SHAPE(7, 3, 3, 3));
        inputs[i][2] = source(graph, "bias", sum, QN_SHAPE(7));
        inputs[i][3] = source(graph, "rows", type, QN_SHAPE(6, 9));
        inputs[i][4] = source(graph, "weight", type, QN_SHAPE(5, 9));
        results[i][0] = qn_conv2d(graph, "y", inputs[i][0], inputs[i][1], inputs[i][2], window, 1);
        results[i][1] = qn_linear(graph, "z", inputs[i][3], inputs[i][4], QN_NO_VALUE);
        results[i][2] = qn_matmul(graph, "m", inputs[i][4], inputs[i][3], false, true);
        CHECK_OK(qn_graph_finish(graph));
        run[i] = run_create(graph);
        for (int v = 0; v < 5; v++) {
            const int64_t n = qn_shape_count(qn_graph_shape(graph, inputs[i][v]));
            for (int64_t e = 0; e < n; e++)
                run_set(&run[i], inputs[i][v], e, (double)((e * 37 + v * 11) % 256 - 128));
        }
        run_all(&run[i], qn_kernels_get(QN_F32, QN_ISA_REF), teams[1]);
    }
    for (int v = 0; v < 3; v++) {
        const qn_tensor y = qn_graph_tensor(run[1].graph, results[1][v]);
        CHECK(y.dtype == QN_I32);
        for (int64_t e = 0; e < qn_shape_count(y.shape); e++)
            CHECK(run_get(&run[1], results[1][v], e) == run_get(&run[0], results[0][v], e));
    }
    for (int i = 0; i < 2; i++) {
        qn_graph *graph = (qn_graph *)run[i].graph;
        run_destroy(&run[i]);
        qn_graph_destroy(graph);
    }
}

/* One step of a product of k numbers a sum, from what is kept to what is kept then; *y: a sum of
 * all results, with their place as weight. */
static void run_rescaled(int64_t k, bool adapts, const int32_t *before, int32_t *after, double *y,
                         int *shift) {
    const qn_activation_attributes none = {{QN_ACTIVATION_NONE, 0}};
    const qn_rescaling how = {.bits = 7, .rounding = QN_ROUND_AWAY, .adapts = adapts};
    qn_graph *graph = new_graph();
    const qn_value operands[] = {source(graph, "a", QN_I8, QN_SHAPE(4, k)),
                                 source(graph, "b", QN_I8, QN_SHAPE(5, k))};
    const qn_value kept = source(graph, "kept", QN_I32, QN_SHAPE(QN_KEPT_COUNT));
    const qn_node *node = qn_op_rescaled(graph, "y", &qn_op_linear, &none, operands, kept, &how);
    CHECK_OK(qn_graph_finish(graph));
    graph_run run = run_create(graph);
    for (int i = 0; i < 2; i++) {
        for (int64_t e = 0; e < 4 * k + i * k; e++)
            run_set(&run, operands[i], e, (double)((e * 37 + i * 11) % 256 - 128));
    }
    for (int i = 0; i < QN_KEPT_COUNT; i++)
        run_set(&run, kept, i, before[i]);
    run_all(&run, qn_kernels_get(QN_F32, QN_ISA_REF), teams[1]);
    *y = 0;
    for (int e = 0; e < 20; e++)
        *y += (e + 1) * run_get(&run, node->outputs[0], e);
    for (int i = 0; i < QN_KEPT_COUNT; i++)
        after[i] = (int32_t)run_get(&run, node->outputs[2], i);
    *shift = (int)run_get(&run, node->outputs[1], 0);
    run_destroy(&run);
    qn_graph_destroy(graph);
}

/* Shift, steps left, period; then the same afterwards, and what is counted: sums that were stored,
 * products made twice, shifts that are too large. `right` is added to the shifts. */
typedef struct kept_case {
    int64_t k;
    bool adapts;
    int before[3], after[3], counts[3];
} kept_case;

/* What is kept changes no result unless it adapts, and then only by a shift that is too large by
 * one or two or too small by one. */
static void test_kept_shifts(void) {
    static const kept_case all[] = {
        {8, false, {0, 2, 4}, {0, 1, 4}, {0, 0, 0}},
        {8, false, {0, 0, 4}, {0, 8, 8}, {0, 0, 0}},
        {8, false, {0, 0, 8}, {0, 8, 8}, {0, 0, 0}},
        {8, false, {1, 2, 4}, {0, 1, 1}, {0, 1, 0}},
        {8, false, {-1, 2, 4}, {0, 1, 1}, {0, 1, 0}},
        {8, true, {1, 2, 4}, {1, 1, 4}, {0, 0, 1}},
        {8, true, {1, 0, 4}, {0, 1, 1}, {0, 0, 1}},
        {8, true, {3, 2, 4}, {0, 1, 1}, {0, 1, 0}},
        {8, true, {-1, 2, 4}, {0, 1, 1}, {0, 0, 1}},
        {8, true, {-2, 2, 4}, {0, 1, 1}, {0, 1, 0}},
        {500, false, {0, 1, 1}, {0, 0, 1}, {1, 0, 0}},
        {500, false, {1, 1, 1}, {0, 1, 1}, {1, 0, 0}},
        {500, false, {1, 3, 4}, {0, 1, 1}, {0, 1, 0}},
        {500, true, {1, 1, 2}, {1, 0, 2}, {0, 0, 1}},
        {500, true, {2, 0, 1}, {0, 1, 1}, {0, 0, 1}},
        {500, true, {0, 0, 1}, {0, 2, 2}, {0, 0, 0}},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const kept_case *c = &all[i];
        const int32_t nothing[QN_KEPT_COUNT] = {0};
        int32_t first[QN_KEPT_COUNT], after[QN_KEPT_COUNT];
        double right, y;
        int shift;
        run_rescaled(c->k, c->adapts, nothing, first, &right, &shift);
        CHECK(first[QN_KEPT_STEPS] == 1 && first[QN_KEPT_PERIOD] == 1);
        const int32_t before[] = {
            first[0] + c->before[0], c->before[1], c->before[2], 100, 0, 0, 0};
        run_rescaled(c->k, c->adapts, before, after, &y, &shift);
        CHECK(shift == (c->counts[2] ? before[0] : after[0]));
        CHECK((y == right) == (c->counts[2] == 0));
        CHECK(after[0] == first[0] + c->after[0] && after[1] == c->after[1] &&
              after[2] == c->after[2] && after[3] == 101);
        CHECK(memcmp(after + QN_KEPT_MADE, c->counts, sizeof c->counts) == 0);
    }
}

static void check_refused(qn_dtype x, qn_dtype weight, qn_dtype bias, const char *message) {
    qn_graph *graph = new_graph();
    qn_linear(graph, "y", source(graph, "x", x, QN_SHAPE(2, 3)),
              source(graph, "weight", weight, QN_SHAPE(4, 3)),
              source(graph, "bias", bias, QN_SHAPE(4)));
    CHECK_FAILS(qn_graph_finish(graph), QN_ERROR_ARGUMENT, message);
    qn_graph_destroy(graph);
}

static void test_refusals(void) {
    check_refused(QN_I16, QN_I16, QN_I32,
                  "input 0 is i16, but f32, f64, bf16, f16 or i8 is needed");
    check_refused(QN_BF16, QN_F16, QN_F32, "input 1 is f16, but bf16 is needed");
    check_refused(QN_BF16, QN_BF16, QN_BF16, "input 2 is bf16, but f32 is needed");
    check_refused(QN_I8, QN_F32, QN_I32, "input 1 is f32, but i8 is needed");
    check_refused(QN_I8, QN_I8, QN_I8, "input 2 is i8, but i32 is needed");
    check_refused(QN_F32, QN_F32, QN_F64, "input 2 is f64, but f32 is needed");
}

int main(void) {
    if (getenv("QUERN_SLOW")) {
        least_team = N_TEAMS;
#ifndef __SANITIZE_ADDRESS__ /* where it is minutes */
        first_row = qn_integer_kernels_row(1) != NULL;
#endif
    }
    for (int i = 0; i < N_TEAMS; i++)
        CHECK_OK(qn_team_create(NULL, i + 1, &teams[i]));
    test_products();
    test_wrap();
    test_convolutions();
    test_large_sums();
    test_rows();
    test_norm_rows();
    test_pools();
    test_operators();
    test_kept_shifts();
    test_refusals();
    for (int i = 0; i < N_TEAMS; i++)
        qn_team_destroy(teams[i]);
    return checks_finish();
}
