/* Products and convolutions of 16-bit floats, of every table that this machine can run, against the
 * double reference on the same numbers: near it, with equal bits for every team and for a batch in
 * pieces, with bias, ReLU, sums to go on from, steps between pixels, and operands without
 * alignment; workspaces have exactly the promised size. */
#include "base/memory.h"
#include "base/rng.h"
#include "check.h"
#include "kernels/half.h"
#include "tensor/halves.h"

#include <math.h>
#include <stdlib.h>

enum { GUARD = 64 };

static qn_team *teams[2]; /* of 1 and 3 threads */
static const int sizes_of_teams[2] = {1, 3};

static void *blocks[256];
static int n_blocks;

static void *take(size_t bytes) {
    unsigned char *block =
        aligned_alloc(QN_ALIGNMENT, (bytes + GUARD + QN_ALIGNMENT) / QN_ALIGNMENT * QN_ALIGNMENT);
    memset(block, 0xa5, bytes + GUARD);
    return blocks[n_blocks++] = block;
}

static bool is_guarded(const void *block, size_t bytes) {
    for (size_t i = 0; i < GUARD; i++) {
        if (((const unsigned char *)block)[bytes + i] != 0xa5)
            return false;
    }
    return true;
}

static void give_all_back(void) {
    while (n_blocks > 0)
        free(blocks[--n_blocks]);
}

/* ---- numbers ---- */

static uint16_t half_of(qn_dtype dtype, float x) {
    return dtype == QN_BF16 ? qn_bf16_of(x) : qn_f16_of(x);
}

static double of_half(qn_dtype dtype, uint16_t x) {
    return dtype == QN_BF16 ? qn_of_bf16(x) : qn_of_f16(x);
}

/* n numbers from -1 to 1, two bytes off alignment, and the same in double. */
static uint16_t *draw(qn_dtype dtype, int64_t n, uint64_t key, double **wide) {
    uint16_t *x = (uint16_t *)take((size_t)n * 2 + 2) + 1;
    *wide = take((size_t)n * sizeof(double));
    for (int64_t i = 0; i < n; i++) {
        const uint32_t word = qn_rng_word(qn_rng_make(23, key, 0), (uint64_t)i);
        x[i] = half_of(dtype, (float)((int32_t)(word >> 8 & 0xffff) - 32768) / 32768);
        (*wide)[i] = of_half(dtype, x[i]);
    }
    return x;
}

/* ---- a product of any kind ---- */

typedef struct subject {
    const qn_gemm_shape *gemm; /* or null: */
    qn_conv2d_shape conv;
    qn_conv2d_pass pass;
    int64_t n_a, n_b, rows, columns, step; /* of the result: so many rows, `step` apart */
    const uint16_t *a, *b;
    const double *right; /* (rows, columns) */
    const float *bias;
    double tolerance; /* of the root mean square */
} subject;

static bool is_summed(const subject *s) {
    return s->gemm ? s->gemm->transpose_a : s->pass == QN_CONV2D_BACKWARD_FILTER;
}

static void run(const subject *s, const qn_halves *how, const qn_half_kernels *table, int team,
                const qn_half_result *y) {
    const int n_threads = sizes_of_teams[team];
    const size_t bytes = s->gemm ? table->gemm_workspace(how, s->gemm, n_threads)
                                 : table->conv2d_workspace(how, &s->conv, s->pass, n_threads);
    void *space = take(bytes);
    if (s->gemm)
        table->gemm(how, teams[team], s->gemm, s->a, s->b, y, space);
    else if (s->pass == QN_CONV2D_FORWARD)
        table->conv2d_forward(how, teams[team], &s->conv, s->a, s->b, y, space);
    else if (s->pass == QN_CONV2D_BACKWARD_DATA)
        table->conv2d_backward_data(how, teams[team], &s->conv, s->a, s->b, y, space);
    else
        table->conv2d_backward_filter(how, teams[team], &s->conv, s->a, s->b, y, space);
    CHECK(is_guarded(space, bytes));
}

/* Of halves or sums, whether they are near what is right; between rows nothing is written. */
static void check_near(const subject *s, const qn_halves *how, const qn_half_kernels *table,
                       const qn_half_result *y) {
    double squares = 0, errors = 0, most = 0;
    bool is_kept = true;
    for (int64_t i = 0; i < s->rows * s->step; i++) {
        const int64_t row = i / s->step, column = i % s->step;
        if (column >= s->columns) {
            is_kept &= y->halves ? y->halves[i] == 0xa5a5 : true;
            continue;
        }
        double right = s->right[row * s->columns + column];
        right += y->bias ? y->bias[column] : 0;
        right = y->relu && right < 0 ? 0 : right;
        const double made = y->halves ? of_half(how->dtype, y->halves[i]) : y->sums[i];
        const double error = fabs(made - right);
        squares += right * right;
        errors += error * error;
        most = error > most || isnan(error) ? error : most;
    }
    const double size = sqrt(squares / (double)(s->rows * s->columns));
    const double error = sqrt(errors / (double)(s->rows * s->columns));
    const bool is_near = error <= s->tolerance * size && most <= 10 * s->tolerance * size;
    CHECK(is_kept && is_near);
    if (!is_near)
        printf("%s, pass %d, %lld rows of %lld: error %g, at most %g, of %g\n", table->name,
               (int)s->pass, (long long)s->rows, (long long)s->columns, error, most, size);
}

static void check_subject(const subject *s, const qn_halves *how, const qn_half_kernels *table,
                          bool relu) {
    const int64_t n = s->rows * s->step;
    qn_half_result made[2];
    for (int team = 0; team < 2; team++) {
        made[team] = (qn_half_result){.bias = is_summed(s) ? NULL : s->bias, .relu = relu};
        if (is_summed(s))
            made[team].sums = take((size_t)n * sizeof(float));
        else
            made[team].halves = take((size_t)n * sizeof(uint16_t));
        run(s, how, table, team, &made[team]);
    }
    check_near(s, how, table, &made[0]);
    if (is_summed(s))
        CHECK(memcmp(made[0].sums, made[1].sums, (size_t)n * sizeof(float)) == 0);
    else
        CHECK(memcmp(made[0].halves, made[1].halves, (size_t)n * sizeof(uint16_t)) == 0);
}

/* ---- products of matrices ---- */

static void check_gemm(const qn_halves *how, const qn_half_kernels *table, int64_t m, int64_t n,
                       int64_t k, int transposed) {
    const qn_kernels *doubles = qn_kernels_get(QN_F64, QN_ISA_REF);
    const qn_gemm_shape d = {
        .m = m, .n = n, .k = k, .transpose_a = transposed & 1, .transpose_b = transposed >> 1};
    double *a, *b, *right = take((size_t)(m * n) * sizeof(double));
    float *bias = take((size_t)n * sizeof(float));
    for (int64_t j = 0; j < n; j++)
        bias[j] = (float)(j % 5) - 2;
    subject s = {.gemm = &d,
                 .rows = m,
                 .columns = n,
                 .step = n,
                 .a = draw(how->dtype, m * k, 1, &a),
                 .b = draw(how->dtype, k * n, 2, &b),
                 .right = right,
                 .bias = bias,
                 .tolerance = 0.006};
    doubles->gemm(NULL, &d, a, b, NULL, (qn_activation){QN_ACTIVATION_NONE, 0}, right,
                  take(doubles->gemm_workspace(&d, 1)));
    for (int relu = 0; relu < (is_summed(&s) ? 1 : 2); relu++)
        check_subject(&s, how, table, relu);
    give_all_back();
}

/* ---- convolutions ---- */

static qn_conv2d_shape shape_of(const int64_t *l) {
    const int64_t pad = l[4] / 2;
    return (qn_conv2d_shape){.n = l[0],
                             .h = l[1],
                             .w = l[1] + 1,
                             .c = l[2],
                             .k = l[3],
                             .r = l[4],
                             .s = l[4],
                             .p = (l[1] + 2 * pad - l[4]) / l[5] + 1,
                             .q = (l[1] + 1 + 2 * pad - l[4]) / l[5] + 1,
                             .stride_h = l[5],
                             .stride_w = l[5],
                             .pad_top = pad,
                             .pad_left = pad,
                             .dilation_h = 1,
                             .dilation_w = 1,
                             .groups = l[6]};
}

static void find_right(const qn_conv2d_shape *d, qn_conv2d_pass pass, const double *a,
                       const double *b, double *y) {
    const qn_kernels *doubles = qn_kernels_get(QN_F64, QN_ISA_REF);
    void *space = take(doubles->conv2d_workspace(d, pass, 1));
    if (pass == QN_CONV2D_FORWARD)
        doubles->conv2d_forward(NULL, d, a, b, NULL, (qn_activation){QN_ACTIVATION_NONE, 0}, y,
                                space);
    else if (pass == QN_CONV2D_BACKWARD_DATA)
        doubles->conv2d_backward_data(NULL, d, a, b, y, space);
    else
        doubles->conv2d_backward_filter(NULL, d, a, b, y, space);
}

/* The same of a batch in pieces, which know the whole batch. */
static void check_pieces(const subject *s, const qn_halves *how, const qn_half_kernels *table) {
    const int64_t chunk = is_summed(s) ? table->conv2d_filter_chunk(how, &s->conv) : 1;
    const qn_conv2d_shape *d = &s->conv;
    const int64_t x = d->h * d->w * d->c, y = d->p * d->q * d->k, n = s->rows * s->step;
    if (chunk == 0 || chunk >= d->n)
        return;
    qn_half_result whole = {0}, made = {0};
    if (is_summed(s)) {
        whole.sums = take((size_t)n * sizeof(float));
        made.sums = take((size_t)n * sizeof(float));
    } else {
        whole.halves = take((size_t)n * sizeof(uint16_t));
        made.halves = take((size_t)n * sizeof(uint16_t));
    }
    run(s, how, table, 0, &whole);
    const bool is_data = s->pass == QN_CONV2D_BACKWARD_DATA;
    for (int64_t first = 0; first < d->n; first += chunk) {
        subject piece = *s;
        qn_half_result to = made;
        piece.conv.batch = d->n;
        piece.conv.n = d->n - first < chunk ? d->n - first : chunk;
        piece.conv.add = first > 0;
        piece.a += first * (is_data ? y : x);
        if (is_summed(s))
            piece.b += first * y;
        else
            to.halves += first * (is_data ? x : y);
        run(&piece, how, table, 1, &to);
    }
    if (is_summed(s))
        CHECK(memcmp(whole.sums, made.sums, (size_t)n * sizeof(float)) == 0);
    else
        CHECK(memcmp(whole.halves, made.halves, (size_t)n * sizeof(uint16_t)) == 0);
}

static void check_convolution(const qn_halves *how, const qn_half_kernels *table,
                              const int64_t *layer, qn_conv2d_pass pass) {
    const qn_conv2d_shape d = shape_of(layer);
    const int64_t x = d.n * d.h * d.w * d.c, y = d.n * d.p * d.q * d.k;
    const int64_t w = d.k * d.r * d.s * (d.c / d.groups), pixels = d.n * d.p * d.q;
    double *a, *b;
    float *bias = take((size_t)d.k * sizeof(float));
    for (int64_t j = 0; j < d.k; j++)
        bias[j] = (float)(j % 5) - 2;
    subject s = {.conv = d, .pass = pass, .tolerance = 0.012};
    s.a = draw(how->dtype, pass == QN_CONV2D_BACKWARD_DATA ? y : x, 1, &a);
    s.b = draw(how->dtype, pass == QN_CONV2D_BACKWARD_FILTER ? y : w, 2, &b);
    s.rows = pass == QN_CONV2D_FORWARD ? pixels : pass == QN_CONV2D_BACKWARD_DATA ? x / d.c : d.k;
    s.columns = pass == QN_CONV2D_FORWARD ? d.k : pass == QN_CONV2D_BACKWARD_DATA ? d.c : w / d.k;
    s.step = s.columns;
    s.bias = pass == QN_CONV2D_FORWARD ? bias : NULL;
    double *right = take((size_t)(s.rows * s.columns) * sizeof(double));
    find_right(&d, pass, a, b, right);
    s.right = right;
    check_subject(&s, how, table, pass == QN_CONV2D_FORWARD && layer[0] % 2 == 0);
    check_pieces(&s, how, table);
    if (pass == QN_CONV2D_FORWARD) {
        s.conv.y_stride = s.step = d.k + 3;
        check_subject(&s, how, table, false);
    }
    give_all_back();
}

/* ---- all of them ---- */

/* N, size, C, K, taps, stride, groups: first layers, strides, windows whose sums take several
 * blocks, tiles that are cut off, filters that fit the last cache and those that do not, groups. */
static const int64_t layers[][7] = {
    {3, 9, 3, 8, 3, 1, 1},    {2, 8, 5, 33, 5, 2, 1},  {2, 5, 470, 20, 3, 2, 1},
    {5, 11, 34, 32, 3, 1, 1}, {9, 6, 64, 96, 3, 1, 1}, {16, 4, 256, 192, 3, 1, 1},
    {3, 6, 7, 9, 1, 1, 1},    {3, 7, 32, 32, 3, 1, 2}, {3, 7, 12, 12, 3, 1, 12},
    {4, 40, 2, 17, 3, 1, 1},
};

static void check_table(const qn_halves *how, const qn_half_kernels *table) {
    static const int64_t products[][3] = {{1, 1, 1},    {5, 3, 7},     {13, 33, 257},
                                          {64, 10, 84}, {30, 65, 513}, {3, 35, 4501}};
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        for (int transposed = 0; transposed < 4; transposed++)
            check_gemm(how, table, products[i][0], products[i][1], products[i][2], transposed);
    }
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        for (int pass = 0; pass < 3; pass++)
            check_convolution(how, table, layers[i], (qn_conv2d_pass)pass);
    }
}

/* The table that is chosen is one of those that there are, and the same each time. */
static void test_choice(const qn_halves *how) {
    const qn_half_kernels *chosen = qn_half_kernels_get(how), *table;
    bool is_there = false;
    for (int i = 0; (table = qn_half_kernels_row(how, i)) != NULL; i++)
        is_there |= table == chosen;
    CHECK(is_there && qn_half_kernels_get(how) == chosen);
}

int main(void) {
    qn_isa isa;
    CHECK_OK(qn_cpu_isa(&isa));
    for (int i = 0; i < 2; i++)
        CHECK_OK(qn_team_create(NULL, sizes_of_teams[i], &teams[i]));
    for (int i = 0; i < 2; i++) {
        const qn_halves how = {i ? QN_F16 : QN_BF16, qn_kernels_get(QN_F32, isa)};
        const qn_half_kernels *table;
        test_choice(&how);
        for (int row = 0; (table = qn_half_kernels_row(&how, row)) != NULL; row++)
            check_table(&how, table);
    }
    for (int i = 0; i < 2; i++)
        qn_team_destroy(teams[i]);
    return checks_finish();
}
