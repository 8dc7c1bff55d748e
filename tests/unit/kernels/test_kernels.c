/* Every kernel of every table that this machine can run but convolutions (see kernel_cases.h). The
 * double reference's product is checked against plain sums. */
#include "kernel_cases.h"

static void *copy(bench *b, const void *from, int64_t n) {
    return memcpy(blank(b, n), from, (size_t)n * real_bytes(b));
}

/* ---- matrix product ---- */

static void check_product_pieces(bench *b, const qn_gemm_shape *d, const void *x, const void *w,
                                 const void *y) {
    const qn_activation none = {QN_ACTIVATION_NONE, 0};
    const int64_t first = b->table->gemm_chunk;
    if (first >= d->k)
        return;
    qn_gemm_shape piece = *d;
    void *sum = blank(b, d->m * d->n);
    for (int64_t at = 0; at < d->k; at += piece.k) {
        piece.k = at ? d->k - first : first;
        piece.add = at > 0;
        b->table->gemm(b->team, &piece, element(b, x, at * d->m), element(b, w, at * d->n), NULL,
                       none, sum, workspace_of(b, b->table->gemm_workspace(&piece, b->n_threads)));
    }
    CHECK(is_same(b, sum, y, d->m * d->n));
}

/* Few rows are multiplied in ways of their own, to the bits that they have among many. */
static void check_few_rows(bench *b, const qn_gemm_shape *d, const void *x, const void *w,
                           const void *y) {
    const qn_activation none = {QN_ACTIVATION_NONE, 0};
    const int64_t few[] = {1, 4, 7};
    for (size_t i = 0; i < sizeof few / sizeof *few && few[i] < d->m && !d->transpose_a; i++) {
        qn_gemm_shape part = *d;
        part.m = few[i];
        void *rows = blank(b, part.m * d->n);
        b->table->gemm(b->team, &part, x, w, NULL, none, rows,
                       workspace_of(b, b->table->gemm_workspace(&part, b->n_threads)));
        CHECK(is_same(b, rows, y, part.m * d->n));
    }
}

static void gemm_case(bench *b, const void *shape) {
    const qn_gemm_shape *d = shape;
    const void *x = draw(b, d->m * d->k, 1, -1, 1), *w = draw(b, d->k * d->n, 2, -1, 1);
    const void *bias = draw(b, d->n, 3, -1, 1);
    void *y = blank(b, d->m * d->n);
    void *space = workspace_of(b, b->table->gemm_workspace(d, b->n_threads));
    const qn_activation none = {QN_ACTIVATION_NONE, 0}, tanh_ = {QN_ACTIVATION_TANH, 0};
    b->table->gemm(b->team, d, x, w, NULL, none, y, space);
    keep(b, "c", y, d->m * d->n, sum_bound(d->k));
    if (d->transpose_a && !d->transpose_b)
        check_product_pieces(b, d, x, w, y);
    check_few_rows(b, d, x, w, y);
    b->table->gemm(b->team, d, x, w, bias, tanh_, y, space);
    keep(b, "tanh c", y, d->m * d->n, sum_bound(d->k));
}

static void check_gemm_definition(const qn_gemm_shape *d) {
    bench b = {.table = qn_kernels_get(QN_F64, QN_ISA_REF), .n_threads = 1};
    const double *x = draw(&b, d->m * d->k, 1, -1, 1), *w = draw(&b, d->k * d->n, 2, -1, 1);
    double *got = blank(&b, d->m * d->n);
    const qn_activation none = {QN_ACTIVATION_NONE, 0};
    b.table->gemm(NULL, d, x, w, NULL, none, got, workspace_of(&b, b.table->gemm_workspace(d, 1)));
    bool same = true;
    for (int64_t i = 0; i < d->m; i++) {
        for (int64_t j = 0; j < d->n; j++) {
            double sum = 0;
            for (int64_t p = 0; p < d->k; p++)
                sum += x[d->transpose_a ? p * d->m + i : i * d->k + p] *
                       w[d->transpose_b ? j * d->k + p : p * d->n + j];
            same = same && fabs(sum - got[i * d->n + j]) < 1e-11;
        }
    }
    CHECK(same);
    for (int i = 0; i < b.n_buffers; i++)
        free(b.buffers[i]);
}

static void test_products(void) {
    const int64_t sizes[][3] = {{1, 1, 1},     {2, 3, 4},      {13, 33, 257}, {64, 10, 84},
                                {4, 120, 400}, {7, 300, 30},   {1, 65, 513},  {70, 70, 70},
                                {33, 1, 9},    {130, 48, 64},  {24, 520, 16}, {300, 17, 12},
                                {5, 1100, 37}, {520, 130, 40}, {40, 528, 517}};
    char name[64];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int transposed = 0; transposed < 4; transposed++) {
            const qn_gemm_shape d = {.m = sizes[i][0],
                                     .n = sizes[i][1],
                                     .k = sizes[i][2],
                                     .transpose_a = transposed & 1,
                                     .transpose_b = transposed >> 1};
            snprintf(name, sizeof name, "product %lld x %lld x %lld %d", (long long)d.m,
                     (long long)d.n, (long long)d.k, transposed);
            check_gemm_definition(&d);
            check_case(name, gemm_case, &d);
        }
    }
}

/* ---- sums and batch norm ---- */

typedef struct rows_shape {
    int64_t rows, c;
} rows_shape;

/* The columns of n samples of so many rows, at once and in two pieces. */
static void check_column_pieces(bench *b, int64_t n, int64_t rows, int64_t c, const void *x) {
    const int64_t first = b->table->column_sum_chunk(rows, c);
    void *whole = blank(b, c), *sum = blank(b, c);
    void *space = workspace_of(b, b->table->column_sum_workspace(n, rows, c, b->n_threads));
    b->table->column_sum(b->team, n, rows, c, x, false, whole, space);
    keep(b, "column sums of samples", whole, c, sum_bound(n * rows));
    if (first >= n)
        return;
    b->table->column_sum(b->team, first, rows, c, x, false, sum, space);
    b->table->column_sum(b->team, n - first, rows, c, element(b, x, first * rows * c), true, sum,
                         space);
    CHECK(is_same(b, whole, sum, c));
}

static void sums_case(bench *b, const void *shape) {
    const rows_shape *d = shape;
    const int64_t n = d->rows * d->c;
    const void *x = draw(b, n, 1, -1, 1);
    void *columns = blank(b, d->c), *total = blank(b, 1);
    void *space = workspace_of(b, b->table->column_sum_workspace(1, d->rows, d->c, b->n_threads));
    b->table->column_sum(b->team, 1, d->rows, d->c, x, false, columns, space);
    keep(b, "column sums", columns, d->c, sum_bound(d->rows));
    check_column_pieces(b, d->rows, 1, d->c, x);
    if (d->rows % 5 == 0)
        check_column_pieces(b, 5, d->rows / 5, d->c, x);
    space = workspace_of(b, b->table->sum_workspace(n, b->n_threads));
    b->table->sum(b->team, n, x, total, space);
    keep(b, "sum", total, 1, sum_bound(n));
    b->table->sum_squares(b->team, n, x, total, space);
    keep(b, "sum of squares", total, 1, sum_bound(n));
}

/* A number that is too large, or none, is found at any place; the largest moderate one is not. */
static void check_moderate(void) {
    static const double odd[] = {0x1p61, -0x1p61, (double)INFINITY, -(double)INFINITY, (double)NAN};
    float x[100];
    double y[100];
    for (int isa = QN_ISA_REF; isa <= (int)best_isa; isa++) {
        const qn_kernels *of_x = qn_kernels_get(QN_F32, (qn_isa)isa);
        const qn_kernels *of_y = qn_kernels_get(QN_F64, (qn_isa)isa);
        for (int i = 0; i < 100; i++)
            y[i] = x[i] = i % 2 ? 0x1p60f : -0x1p60f;
        CHECK(of_x->are_moderate(100, x) && of_y->are_moderate(100, y));
        for (int i = 0; i < 100; i++) {
            const float before = x[i];
            y[i] = odd[i % 5];
            x[i] = (float)y[i];
            CHECK(!of_x->are_moderate(100, x) && !of_y->are_moderate(100, y));
            CHECK(of_x->are_moderate(i, x) && of_y->are_moderate(99 - i, y + i + 1));
            y[i] = x[i] = before;
        }
    }
}

/* One batch norm with an activation, from statistics to gradients, dx in place of dy. */
static void norm_case_of(bench *b, const rows_shape *d, qn_activation_kind kind, double offset) {
    const int64_t n = d->rows * d->c;
    const qn_activation activation = {kind, 0.25};
    const void *x = draw(b, n, 1, offset - 1, offset + 1), *scale = draw(b, d->c, 2, 0.5, 2);
    const void *shift = draw(b, d->c, 3, -1, 1);
    void *dy = draw(b, n, 4, -1, 1);
    void *y = blank(b, n), *mean = blank(b, d->c), *inv_std = blank(b, d->c);
    void *running[2] = {draw(b, d->c, 5, -1, 1), draw(b, d->c, 6, 1, 2)};
    void *dscale = blank(b, d->c), *dshift = blank(b, d->c);
    /* The offset itself is rounded once in every element. */
    const double bound = (32 + 4 * offset) * (double)FLT_EPSILON;
    const qn_rows dense = {.rows = d->rows, .c = d->c};
    void *space = workspace_of(b, b->table->batch_norm_workspace(&dense, b->n_threads));
    const apart x_apart = spread(b, x, d->rows, d->c, 5),
                y_strided = spread(b, NULL, d->rows, d->c, 9);
    const apart dy_strided = spread(b, dy, d->rows, d->c, 2);
    const qn_rows lying_apart = {
        .rows = d->rows, .c = d->c, .strides = {x_apart.step, y_strided.step, dy_strided.step}};
    void *sums_again[2] = {blank(b, d->c), blank(b, d->c)}, *dx_again = blank(b, n);
    b->table->batch_norm_forward(b->team, &dense, x, scale, shift, 1e-5, activation, y, mean,
                                 inv_std, space);
    b->table->batch_norm_forward(b->team, &lying_apart, x_apart.first, scale, shift, 1e-5,
                                 activation, y_strided.first, sums_again[0], sums_again[1], space);
    CHECK(is_spread(b, &y_strided, y) && is_same(b, mean, sums_again[0], d->c) &&
          is_same(b, inv_std, sums_again[1], d->c));
    /* A deviation of few rows may be tiny, and magnifies. */
    keep(b, "y", y, n, bound * (d->rows > 8 ? 4 : 64));
    keep(b, "mean", mean, d->c, bound);
    keep(b, "inverse deviation", inv_std, d->c, bound * (d->rows > 8 ? 8 : 1024));
    b->table->batch_norm_running(d->rows, d->c, mean, inv_std, 1e-5, 0.1, running[0], running[1]);
    keep(b, "running mean", running[0], d->c, bound);
    keep(b, "running variance", running[1], d->c, bound);
    b->table->batch_norm_inference(b->team, &dense, x, scale, shift, running[0], running[1], 1e-5,
                                   activation, y);
    b->table->batch_norm_inference(b->team, &lying_apart, x_apart.first, scale, shift, running[0],
                                   running[1], 1e-5, activation, y_strided.first);
    CHECK(is_spread(b, &y_strided, y));
    keep(b, "inference", y, n, bound * (d->rows > 8 ? 4 : 64));
    /* The gradient as a function of the same numbers: one record's errors are not another's. */
    for (int64_t j = 0; j < d->c; j++) {
        put(b, mean, j, offset + 0.125 * (double)(j % 3));
        put(b, inv_std, j, 1.75);
    }
    for (int64_t i = 0; i < n; i++)
        put(b, y, i, (double)(float)(get(b, x, i) - offset));
    const apart y_given = spread(b, y, d->rows, d->c, 9);
    b->table->batch_norm_backward(b->team, &dense, x, y, dy, scale, mean, inv_std, activation, dy,
                                  dscale, dshift, space);
    b->table->batch_norm_backward(b->team, &lying_apart, x_apart.first, y_given.first,
                                  dy_strided.first, scale, mean, inv_std, activation, dx_again,
                                  sums_again[0], sums_again[1], space);
    CHECK(is_same(b, dy, dx_again, n) && is_same(b, dscale, sums_again[0], d->c) &&
          is_same(b, dshift, sums_again[1], d->c));
    keep(b, "dx", dy, n, bound * 16);
    keep(b, "dscale", dscale, d->c, 4 * sum_bound(d->rows) * (1 + offset));
    keep(b, "dshift", dshift, d->c, 4 * sum_bound(d->rows));
}

static void norm_none_case(bench *b, const void *shape) {
    norm_case_of(b, shape, QN_ACTIVATION_NONE, 0);
}

static void norm_relu_case(bench *b, const void *shape) {
    norm_case_of(b, shape, QN_ACTIVATION_RELU, 0);
}

static void norm_relu6_case(bench *b, const void *shape) {
    norm_case_of(b, shape, QN_ACTIVATION_RELU6, 0);
}

static void norm_offset_case(bench *b, const void *shape) {
    norm_case_of(b, shape, QN_ACTIVATION_LEAKY_RELU, 100);
}

static void test_sums_and_norms(void) {
    const rows_shape shapes[] = {{1, 1},    {1, 40},   {2, 3},     {7, 129},  {100, 6},
                                 {5000, 3}, {999, 64}, {4099, 17}, {3, 5000}, {40000, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_case("sums", sums_case, &shapes[i]);
        if (shapes[i].rows < 2)
            continue;
        check_case("batch norm", norm_none_case, &shapes[i]);
        check_case("batch norm, relu", norm_relu_case, &shapes[i]);
        check_case("batch norm, relu6", norm_relu6_case, &shapes[i]);
        check_case("batch norm far from zero", norm_offset_case, &shapes[i]);
    }
}

/* ---- elementwise ---- */

static void elementwise_case(bench *b, const void *shape) {
    const int64_t n = *(const int64_t *)shape;
    const void *x = draw(b, n, 1, -8, 8), *z = draw(b, n, 2, -1, 1);
    const qn_activation none = {QN_ACTIVATION_NONE, 0};
    void *y = blank(b, n);
    const double bound = 16 * (double)FLT_EPSILON;
    b->table->add(b->team, &(qn_rows){.rows = 1, .c = n}, x, z, none, y);
    keep(b, "add", y, n, bound);
    b->table->multiply(b->team, n, x, z, y);
    keep(b, "multiply", y, n, bound);
    b->table->scale(b->team, n, 0.375, y, y);
    keep(b, "scale", y, n, bound);
    b->table->broadcast(b->team, n, 0.25, x, y);
    keep(b, "broadcast", y, n, bound);
    b->table->gelu(b->team, n, x, y);
    keep(b, "gelu", y, n, bound);
    void *in_place = copy(b, z, n);
    b->table->gelu_backward(b->team, n, x, in_place, in_place);
    keep(b, "gelu backward", in_place, n, bound);
    b->table->smooth_l1(b->team, n, x, z, y);
    keep(b, "smooth l1", y, n, bound);
    b->table->smooth_l1_backward(b->team, n, z, x, x, y);
    keep(b, "smooth l1 backward", y, n, bound);
    b->table->binary_cross_entropy(b->team, n, x, z, 0, y);
    keep(b, "binary cross entropy", y, n, bound);
    b->table->binary_cross_entropy(b->team, n, x, NULL, 0.75, y);
    keep(b, "binary cross entropy with", y, n, bound);
    b->table->binary_cross_entropy_backward(b->team, n, x, z, 0, z, y);
    keep(b, "binary cross entropy backward", y, n, bound);
    b->table->binary_cross_entropy_backward(b->team, n, x, NULL, 0.75, z, y);
    keep(b, "binary cross entropy with, backward", y, n, bound);
    b->table->dropout(b->team, n, qn_rng_make(7, 8, 9), 0, 0.4, x, y);
    keep(b, "dropout", y, n, bound);
    for (int64_t first = 1; first < n && first < 10; first++) {
        void *rest = blank(b, n - first);
        b->table->dropout(b->team, n - first, qn_rng_make(7, 8, 9), (uint64_t)first, 0.4,
                          element(b, x, first), rest);
        CHECK(is_same(b, rest, element(b, y, first), n - first));
    }
}

static void activation_case(bench *b, const void *shape) {
    const int64_t n = *(const int64_t *)shape;
    const double bound = 16 * (double)FLT_EPSILON;
    static const char *const names[] = {"none", "relu", "relu6", "leaky relu", "tanh", "sigmoid"};
    const void *x = draw(b, n, 1, -8, 8), *dy = draw(b, n, 2, -1, 1);
    const void *inner = draw(b, n, 3, -0.9, 0.9);
    for (int kind = QN_ACTIVATION_NONE; kind <= QN_ACTIVATION_SIGMOID; kind++) {
        const qn_activation activation = {(qn_activation_kind)kind, 0.125};
        void *y = copy(b, x, n), *dx = copy(b, dy, n);
        b->table->activation_forward(b->team, activation, &(qn_rows){.rows = n, .c = 1}, y, y);
        keep(b, names[kind], y, n, bound);
        b->table->activation_backward(b->team, activation, &(qn_rows){.rows = 1, .c = n}, inner, dx,
                                      dx);
        keep(b, names[kind], dx, n, bound);
    }
}

/* The elementwise kernels over rows that lie apart, against dense ones. */
static void apart_case(bench *b, const void *shape) {
    const rows_shape *d = shape;
    const int64_t n = d->rows * d->c;
    const qn_rows dense = {.rows = d->rows, .c = d->c};
    const void *x = draw(b, n, 1, -3, 3), *z = draw(b, n, 2, -1, 1);
    const apart x_apart = spread(b, x, d->rows, d->c, 6), z_apart = spread(b, z, d->rows, d->c, 1);
    void *y = blank(b, n);
    for (int kind = QN_ACTIVATION_NONE; kind <= QN_ACTIVATION_SIGMOID; kind++) {
        const qn_activation activation = {(qn_activation_kind)kind, 0.125};
        const apart y_strided = spread(b, NULL, d->rows, d->c, 4);
        const qn_rows two = {.rows = d->rows, .c = d->c, .strides = {x_apart.step, y_strided.step}};
        const qn_rows three = {
            .rows = d->rows, .c = d->c, .strides = {x_apart.step, z_apart.step, y_strided.step}};
        b->table->activation_forward(b->team, activation, &dense, x, y);
        b->table->activation_forward(b->team, activation, &two, x_apart.first, y_strided.first);
        CHECK(is_spread(b, &y_strided, y));
        b->table->activation_backward(b->team, activation, &dense, x, z, y);
        b->table->activation_backward(b->team, activation, &three, x_apart.first, z_apart.first,
                                      y_strided.first);
        CHECK(is_spread(b, &y_strided, y));
        b->table->add(b->team, &dense, x, z, activation, y);
        b->table->add(b->team, &three, x_apart.first, z_apart.first, activation, y_strided.first);
        CHECK(is_spread(b, &y_strided, y));
    }
}

/* Dropout by its definition, a word of the stream for each element. */
static void test_dropout(void) {
    enum { N = 9001 };
    static float x[N], y[N];
    const qn_rng rng = {.key = 0x123456789abcdefu, .step = 5000000000u};
    for (int i = 0; i < N; i++)
        x[i] = (float)(i + 1);
    for (int isa = QN_ISA_REF; isa <= (int)best_isa; isa++) {
        qn_kernels_get(QN_F32, (qn_isa)isa)->dropout(NULL, N, rng, 0, 0.3, x, y);
        bool same = true;
        for (int i = 0; i < N; i++) {
            bool is_kept = qn_rng_uniform(qn_rng_word(rng, (uint64_t)i)) >= 0.3f;
            same = same && fabsf(y[i] - (is_kept ? x[i] / 0.7f : 0)) <= x[i] * 1e-6f;
        }
        CHECK(same);
    }
}

static void test_elementwise(void) {
    const int64_t sizes[] = {1, 7, 63, 1000, 30001};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        check_case("elementwise", elementwise_case, &sizes[i]);
        check_case("activations", activation_case, &sizes[i]);
    }
    const rows_shape shapes[] = {{1, 1}, {1, 40}, {3, 5000}, {999, 12}, {5000, 1}, {130, 64}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_case("rows apart", apart_case, &shapes[i]);
}

/* Far from zero GELU is x or 0, and its slope 1 or 0; a NaN stays one. */
static void test_gelu_ends(void) {
    const float x[] = {1e30f, 40, -40, -1e30f, NAN, 0}, want[] = {1, 1, 0, 0, NAN, 0.5f};
    const float one[] = {1, 1, 1, 1, 1, 1};
    for (int isa = QN_ISA_REF; isa <= (int)best_isa; isa++) {
        const qn_kernels *table = qn_kernels_get(QN_F32, (qn_isa)isa);
        float y[6], dx[6];
        table->gelu(NULL, 6, x, y);
        table->gelu_backward(NULL, 6, x, one, dx);
        for (int i = 0; i < 6; i++) {
            CHECK(isnan(x[i]) ? isnan(y[i]) : y[i] == (want[i] > 0.5f ? x[i] : 0));
            CHECK(isnan(x[i]) ? isnan(dx[i]) : fabsf(dx[i] - want[i]) < 1e-6f);
        }
    }
}

/* A NaN must reach the loss: no activation, pool or product may hide it. */
static void test_nan_passes(void) {
    for (int isa = QN_ISA_REF; isa <= (int)best_isa; isa++) {
        const qn_kernels *table = qn_kernels_get(QN_F32, (qn_isa)isa);
        for (int kind = QN_ACTIVATION_NONE; kind <= QN_ACTIVATION_SIGMOID; kind++) {
            float x[40];
            for (int i = 0; i < 40; i++)
                x[i] = i == 17 || i == 39 ? NAN : 1;
            table->activation_forward(NULL, (qn_activation){(qn_activation_kind)kind, 0.1},
                                      &(qn_rows){.rows = 8, .c = 5}, x, x);
            CHECK(isnan(x[17]) && isnan(x[39]) && !isnan(x[16]));
        }
        float y[20];
        uint16_t index[20];
        float x[40] = {[3] = NAN};
        qn_conv2d_shape d = conv(1, 2, 2, 10, 10, 2, 2, 2, 0, 1, 1);
        table->max_pool(NULL, &d, x, y, index);
        CHECK(isnan(y[3]) && !isnan(y[2]) && index[3] == 0);
    }
}

/* ---- rows ---- */

static void rows_case(bench *b, const void *shape) {
    const rows_shape *d = shape;
    const int64_t n = d->rows * d->c;
    const void *x = draw(b, n, 1, -3, 3), *dy = draw(b, n, 2, -1, 1),
               *bias = draw(b, d->c, 3, -1, 1);
    const void *dloss = draw(b, d->rows, 4, 0, 1), *p = draw(b, n, 5, 0, 1);
    int32_t *labels = bytes_of_nan(b, (size_t)d->rows * sizeof *labels);
    for (int64_t i = 0; i < d->rows; i++)
        labels[i] = i % 5 == 4 ? -1 : (int32_t)(i * 7 % d->c);
    void *y = blank(b, n), *loss = blank(b, d->rows);
    const double bound = 32 * (double)FLT_EPSILON;
    b->table->bias(b->team, d->rows, d->c, x, bias, y);
    keep(b, "bias", y, n, bound);
    b->table->softmax(b->team, d->rows, d->c, x, y);
    keep(b, "softmax", y, n, bound);
    b->table->softmax_backward(b->team, d->rows, d->c, p, dy, y);
    keep(b, "softmax backward", y, n, sum_bound(d->c));
    for (int smooth = 0; smooth < 2; smooth++) {
        b->table->cross_entropy(b->team, d->rows, d->c, x, labels, smooth * 0.125, loss, y);
        keep(b, "loss", loss, d->rows, bound);
        keep(b, "probabilities", y, n, bound);
        void *in_place = copy(b, p, n);
        b->table->cross_entropy_backward(b->team, d->rows, d->c, in_place, labels, smooth * 0.125,
                                         dloss, in_place);
        keep(b, "cross entropy backward", in_place, n, bound);
    }
    b->table->squared_error(b->team, d->rows, d->c, x, p, loss);
    keep(b, "squared error", loss, d->rows, bound);
    b->table->squared_error_backward(b->team, d->rows, d->c, x, p, dloss, y);
    keep(b, "squared error backward", y, n, bound);
}

/* One element of each row, and means without padding. */
static void choice_case(bench *b, const void *shape) {
    const rows_shape *d = shape;
    const int64_t n = d->rows * d->c;
    const void *x = draw(b, n, 1, -3, 3), *dloss = draw(b, d->rows, 2, 0, 1);
    int32_t *labels = bytes_of_nan(b, (size_t)d->rows * sizeof *labels);
    for (int64_t i = 0; i < d->rows; i++)
        labels[i] = i % 5 == 4 ? -1 : (int32_t)(i * 7 % (d->c + 1));
    void *y = blank(b, n), *loss = blank(b, d->rows), *mean = blank(b, 1);
    b->table->gather(d->rows, d->c, x, labels, loss);
    keep(b, "gather", loss, d->rows, 0);
    b->table->gather_backward(d->rows, d->c, dloss, labels, y);
    keep(b, "gather backward", y, n, 0);
    b->table->mean_valid(d->rows, dloss, labels, mean);
    keep(b, "mean of valid", mean, 1, (double)FLT_EPSILON);
    b->table->mean_valid_backward(d->rows, labels, dloss, loss);
    keep(b, "mean of valid backward", loss, d->rows, (double)FLT_EPSILON);
}

/* Indices that repeat, that are never used, and that lie outside. */
static void embedding_case(bench *b, const void *shape) {
    const rows_shape *d = shape;
    const int64_t n = d->rows * d->c, table_rows = 1 + d->rows / 3;
    const void *table = draw(b, table_rows * d->c, 1, -1, 1), *dy = draw(b, n, 2, -1, 1);
    int32_t *indices = bytes_of_nan(b, (size_t)d->rows * sizeof *indices);
    for (int64_t i = 0; i < d->rows; i++)
        indices[i] = (int32_t)(i * i % (table_rows + 2)) - 1;
    void *y = blank(b, n), *dtable = blank(b, table_rows * d->c);
    b->table->embedding(b->team, d->rows, d->c, table_rows, table, indices, y);
    keep(b, "embedding", y, n, 0);
    for (int64_t i = 0; i < d->rows; i++) {
        const int64_t row = indices[i] < 0 ? 0 : (int64_t)fmin(indices[i], (double)table_rows - 1);
        CHECK(get(b, y, i * d->c) == get(b, table, row * d->c));
    }
    b->table->embedding_backward(b->team, d->rows, d->c, table_rows, dy, indices, false, dtable);
    keep(b, "embedding backward", dtable, table_rows * d->c, sum_bound(d->rows));
    void *sum = blank(b, table_rows * d->c);
    const int64_t half = d->rows / 2;
    b->table->embedding_backward(b->team, half, d->c, table_rows, dy, indices, false, sum);
    b->table->embedding_backward(b->team, d->rows - half, d->c, table_rows,
                                 element(b, dy, half * d->c), indices + half, true, sum);
    CHECK(is_same(b, sum, dtable, table_rows * d->c));
}

static void test_rows(void) {
    const rows_shape shapes[] = {{1, 1}, {3, 2}, {64, 10}, {9, 1000}, {2000, 7}, {5, 33}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_case("rows", rows_case, &shapes[i]);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_case("choices", choice_case, &shapes[i]);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_case("embedding", embedding_case, &shapes[i]);
}

/* ---- layer norm ---- */

/* Rows far from zero, too: the offset itself is rounded once in every element. */
static void layer_norm_case_of(bench *b, const rows_shape *d, double offset) {
    const int64_t n = d->rows * d->c;
    void *x = draw(b, n, 1, offset - 1, offset + 1), *dy = draw(b, n, 2, -1, 1);
    const void *scale = draw(b, d->c, 3, 0.5, 2), *shift = draw(b, d->c, 4, -1, 1);
    const void *near = draw(b, n, 5, -1, 1);
    void *y = blank(b, n), *mean = blank(b, d->rows), *inv_std = blank(b, d->rows);
    void *dscale = blank(b, d->c), *dshift = blank(b, d->c);
    /* A deviation of few numbers may be tiny, and magnifies. */
    const double bound = (32 + 4 * offset) * (double)FLT_EPSILON, most = d->c > 8 ? 8 : 1024;
    b->table->layer_norm_forward(b->team, d->rows, d->c, x, scale, shift, 1e-5, y, mean, inv_std);
    keep(b, "y", y, n, bound * most);
    keep(b, "mean", mean, d->rows, bound);
    keep(b, "inverse deviation", inv_std, d->rows, bound * most);
    b->table->layer_norm_forward(b->team, d->rows, d->c, x, scale, shift, 1e-5, x, mean, inv_std);
    keep(b, "y in place", x, n, bound * most);
    for (int64_t i = 0; i < d->rows; i++) {
        put(b, mean, i, 0.125 * (double)(i % 3));
        put(b, inv_std, i, 1.75);
    }
    void *space = workspace_of(b, b->table->layer_norm_workspace(d->rows, d->c, b->n_threads));
    void *dx = copy(b, dy, n), *sums[2] = {blank(b, d->c), blank(b, d->c)};
    const int64_t chunk = b->table->layer_norm_chunk(d->c);
    const int64_t first = chunk < d->rows ? chunk : d->rows;
    for (int64_t at = 0, rows = first; rows > 0; at += rows, rows = d->rows - at)
        b->table->layer_norm_backward(b->team, rows, d->c, element(b, near, at * d->c),
                                      element(b, dx, at * d->c), scale, element(b, mean, at),
                                      element(b, inv_std, at), at > 0, element(b, dx, at * d->c),
                                      sums[0], sums[1], space);
    b->table->layer_norm_backward(b->team, d->rows, d->c, near, dy, scale, mean, inv_std, false, dy,
                                  dscale, dshift, space);
    CHECK(is_same(b, dx, dy, n) && is_same(b, sums[0], dscale, d->c) &&
          is_same(b, sums[1], dshift, d->c));
    keep(b, "dx", dy, n, bound * 4);
    keep(b, "dscale", dscale, d->c, 4 * sum_bound(d->rows));
    keep(b, "dshift", dshift, d->c, 4 * sum_bound(d->rows));
}

static void layer_norm_case(bench *b, const void *shape) {
    layer_norm_case_of(b, shape, 0);
}

static void layer_norm_offset_case(bench *b, const void *shape) {
    layer_norm_case_of(b, shape, 100);
}

static void test_layer_norms(void) {
    const rows_shape shapes[] = {{1, 2},   {3, 7},     {100, 64}, {5, 768},
                                 {999, 6}, {130, 300}, {2, 5000}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_case("layer norm", layer_norm_case, &shapes[i]);
        check_case("layer norm far from zero", layer_norm_offset_case, &shapes[i]);
    }
}

/* ---- LSTM ---- */

/* Numbers as a layer has them: weights within 1 / sqrt(K), gates within their functions' range. In
 * place: gates in that of x, dx in that of gates. */
static void lstm_case_of(bench *b, const qn_lstm_shape *d, bool is_whole) {
    const int64_t state = d->n * d->k, steps = state * d->t;
    const double scale = 1 / sqrt((double)d->k), bound = 8 * sum_bound(d->k);
    int32_t *lengths = bytes_of_nan(b, (size_t)d->n * sizeof *lengths);
    for (int64_t i = 0; i < d->n; i++)
        lengths[i] = (int32_t)(i * 5 % (d->t + 3)) - 1;
    const void *h = draw(b, state, 1, -1, 1), *c = draw(b, state, 2, -1, 1);
    const qn_lstm_forward forward = {
        .x = draw(b, 4 * steps, 3, -2, 2),
        .weight = draw(b, 4 * d->k * d->k, 4, -scale, scale),
        .h = is_whole ? h : NULL,
        .c = is_whole ? c : NULL,
        .lengths = is_whole ? lengths : NULL,
        .y = blank(b, steps),
        .cells = blank(b, steps),
        .h_last = blank(b, state),
        .c_last = blank(b, state),
    };
    qn_lstm_forward in_place = forward;
    in_place.gates = copy(b, forward.x, 4 * steps);
    in_place.x = in_place.gates;
    b->table->lstm_forward(b->team, d, &in_place,
                           workspace_of(b, b->table->lstm_workspace(d, false, b->n_threads)));
    keep(b, "gates", in_place.gates, 4 * steps, bound);
    keep(b, "y", forward.y, steps, bound);
    keep(b, "cells", forward.cells, steps, 2 * bound);
    keep(b, "h", forward.h_last, state, bound);
    keep(b, "c", forward.c_last, state, 2 * bound);
    const qn_lstm_backward backward = {
        .gates = draw(b, 4 * steps, 5, 0, 1),
        .cells = draw(b, steps, 6, -1, 1),
        .weight = forward.weight,
        .c = forward.c,
        .lengths = forward.lengths,
        .dy = draw(b, steps, 7, -1, 1),
        .dh = is_whole ? h : NULL,
        .dc = is_whole ? c : NULL,
        .dh0 = is_whole ? blank(b, state) : NULL,
        .dc0 = is_whole ? blank(b, state) : NULL,
    };
    qn_lstm_backward back = backward;
    back.dx = copy(b, backward.gates, 4 * steps);
    back.gates = back.dx;
    b->table->lstm_backward(b->team, d, &back,
                            workspace_of(b, b->table->lstm_workspace(d, true, b->n_threads)));
    keep(b, "dx", back.dx, 4 * steps, 4 * bound);
    if (is_whole) {
        keep(b, "dh", back.dh0, state, 4 * bound);
        keep(b, "dc", back.dc0, state, 4 * bound);
    }
}

static void lstm_case(bench *b, const void *shape) {
    lstm_case_of(b, shape, false);
}

static void whole_lstm_case(bench *b, const void *shape) {
    lstm_case_of(b, shape, true);
}

static void test_lstms(void) {
    const qn_lstm_shape shapes[] = {{1, 1, 1},   {3, 4, 5},   {5, 3, 33}, {13, 2, 40},
                                    {26, 5, 64}, {2, 3, 270}, {70, 2, 17}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_case("lstm", lstm_case, &shapes[i]);
        check_case("lstm with states and lengths", whole_lstm_case, &shapes[i]);
    }
}

/* ---- reductions and transposes ---- */

typedef struct axis_shape {
    int64_t outer, n, inner;
} axis_shape;

static void axis_case(bench *b, const void *shape) {
    const axis_shape *d = shape;
    const int64_t n = d->outer * d->n * d->inner, results = d->outer * d->inner;
    const void *x = draw(b, n, 1, -1, 1), *dy = draw(b, results, 2, -1, 1);
    void *y = blank(b, results), *dx = blank(b, n), *places = blank(b, results);
    int32_t *index = bytes_of_nan(b, (size_t)results * sizeof *index);
    b->table->reduce_sum(b->team, d->outer, d->n, d->inner, 0.25, x, y);
    keep(b, "sum", y, results, sum_bound(d->n));
    b->table->reduce_max(b->team, d->outer, d->n, d->inner, x, y, index);
    keep(b, "max", y, results, 0);
    for (int64_t i = 0; i < results; i++)
        put(b, places, i, index[i]);
    keep(b, "index", places, results, 0);
    b->table->reduce_backward(b->team, d->outer, d->n, d->inner, 0.25, dy, NULL, dx);
    keep(b, "sum backward", dx, n, 0);
    b->table->reduce_backward(b->team, d->outer, d->n, d->inner, 1, dy, index, dx);
    keep(b, "max backward", dx, n, 0);
    const int64_t extents[] = {d->inner, d->outer, d->n}, back[] = {1, d->n * d->inner, d->inner};
    b->table->transpose(b->team, 3, extents, back, x, dx);
    keep(b, "transpose", dx, n, 0);
    CHECK(get(b, dx, n - 1) == get(b, x, n - 1));
    CHECK(n < 2 || d->n < 2 || get(b, dx, 1) == get(b, x, d->inner));
}

static void test_axes(void) {
    const axis_shape shapes[] = {{1, 1, 1},   {3, 7, 1},   {1, 1000, 1}, {2, 5, 3},
                                 {40, 3, 33}, {1, 50, 70}, {5, 17, 129}, {200, 4, 2}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_case("axis", axis_case, &shapes[i]);
}

/* The largest of what has a NaN is NaN, and where that is. */
static void test_nan_is_largest(void) {
    for (int isa = QN_ISA_REF; isa <= (int)best_isa; isa++) {
        const float x[] = {3, NAN, 5, 1, 2, 3};
        float y[3];
        int32_t index[3];
        qn_kernels_get(QN_F32, (qn_isa)isa)->reduce_max(NULL, 2, 3, 1, x, y, index);
        CHECK(isnan(y[0]) && index[0] == 1 && y[1] == 3 && index[1] == 2);
    }
}

/* ---- attention ---- */

typedef struct attention_case_shape {
    qn_attention_shape shape;
    bool has_lengths;
} attention_case_shape;

static void attention_case(bench *b, const void *shape) {
    const attention_case_shape *s = shape;
    const qn_attention_shape *d = &s->shape;
    const int64_t heads = d->n * d->h, rows = heads * d->t, keys = heads * d->u;
    const qn_rng rng = qn_rng_make(7, 8, 9);
    const void *query = draw(b, rows * d->d, 1, -1, 1), *key = draw(b, keys * d->d, 2, -1, 1);
    const void *value = draw(b, keys * d->d, 3, -1, 1), *dy = draw(b, rows * d->d, 4, -1, 1);
    void *y = blank(b, rows * d->d), *log_sums = blank(b, rows);
    void *dquery = blank(b, rows * d->d), *dkey = blank(b, keys * d->d);
    void *dvalue = blank(b, keys * d->d), *space[2];
    int32_t *lengths = NULL;
    if (s->has_lengths)
        lengths = bytes_of_nan(b, (size_t)d->n * sizeof *lengths);
    for (int64_t i = 0; lengths && i < d->n; i++)
        lengths[i] = (int32_t)(i * 7 % (d->u + 2) - 1);
    for (int pass = 0; pass < 2; pass++)
        space[pass] = workspace_of(b, b->table->attention_workspace(d, pass, b->n_threads));
    b->table->attention_forward(b->team, d, rng, query, key, value, lengths, y, log_sums, space[0]);
    /* Errors of scores are relative errors of weights; a row's weights add up to 1. */
    const double bound = (double)FLT_EPSILON * (2 * (double)d->d + 64) / (1 - d->rate);
    keep(b, "y", y, rows * d->d, bound);
    keep(b, "log sums", log_sums, rows, bound);
    b->table->attention_backward(b->team, d, rng, query, key, value, lengths, y, log_sums, dy,
                                 dquery, dkey, dvalue, space[1]);
    keep(b, "dquery", dquery, rows * d->d, 4 * bound * sqrt((double)d->d));
    keep(b, "dkey", dkey, keys * d->d, 4 * bound * sqrt((double)(d->d * d->t)));
    keep(b, "dvalue", dvalue, keys * d->d, 4 * bound * sqrt((double)d->t));
}

/* One row, odd extents, several blocks of rows, lengths of 0 and above U, long rows. */
static void test_attention(void) {
    const attention_case_shape shapes[] = {
        {{1, 1, 1, 1, 1, 1, 0, 0}, false},          {{2, 3, 17, 19, 5, 0.5, 0, 0}, false},
        {{9, 2, 5, 6, 7, 0.4, 0.25, 5}, true},      {{2, 2, 64, 64, 64, 0.125, 0.1, 0}, false},
        {{3, 1, 130, 300, 12, 0.3, 0, 0}, true},    {{2, 1, 37, 3000, 33, 0.2, 0.1, 0}, true},
        {{1, 2, 200, 333, 40, 0.2, 0.5, 0}, false},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_case("attention", attention_case, &shapes[i]);
}

/* ---- pooling ---- */

static void pool_apart(bench *b, const qn_conv2d_shape *d, const void *x, const void *dy) {
    const int64_t pixels = d->n * d->p * d->q;
    void *y = blank(b, y_count(d)), *dx = blank(b, x_count(d)), *dx_again = blank(b, x_count(d));
    uint16_t *index = bytes_of_nan(b, (size_t)y_count(d) * sizeof *index);
    uint16_t *index_again = bytes_of_nan(b, (size_t)y_count(d) * sizeof *index);
    const apart y_max = spread(b, NULL, pixels, d->c, 5), y_mean = spread(b, NULL, pixels, d->c, 5);
    const apart dy_strided = spread(b, dy, pixels, d->c, 5);
    qn_conv2d_shape e = *d;
    e.y_stride = d->c + 5;
    b->table->max_pool(b->team, d, x, y, index);
    b->table->max_pool(b->team, &e, x, y_max.first, index_again);
    CHECK(is_spread(b, &y_max, y));
    CHECK(memcmp(index, index_again, (size_t)y_count(d) * sizeof *index) == 0);
    b->table->max_pool_backward(b->team, d, dy, index, dx);
    b->table->max_pool_backward(b->team, &e, dy_strided.first, index, dx_again);
    CHECK(is_same(b, dx, dx_again, x_count(d)));
    b->table->average_pool(b->team, d, x, y);
    b->table->average_pool(b->team, &e, x, y_mean.first);
    CHECK(is_spread(b, &y_mean, y));
    b->table->average_pool_backward(b->team, d, dy, dx);
    b->table->average_pool_backward(b->team, &e, dy_strided.first, dx_again);
    CHECK(is_same(b, dx, dx_again, x_count(d)));
}

static void pool_case(bench *b, const void *shape) {
    const qn_conv2d_shape *d = shape;
    const void *x = draw(b, x_count(d), 1, -1, 1), *dy = draw(b, y_count(d), 2, -1, 1);
    void *y = blank(b, y_count(d)), *dx = blank(b, x_count(d)), *places = blank(b, y_count(d));
    uint16_t *index = bytes_of_nan(b, (size_t)y_count(d) * sizeof *index);
    const double bound = sum_bound(d->r * d->s);
    b->table->max_pool(b->team, d, x, y, index);
    keep(b, "max pool", y, y_count(d), 0);
    for (int64_t i = 0; i < y_count(d); i++)
        put(b, places, i, index[i]);
    keep(b, "max pool index", places, y_count(d), 0);
    b->table->max_pool_backward(b->team, d, dy, index, dx);
    keep(b, "max pool backward", dx, x_count(d), bound);
    b->table->average_pool(b->team, d, x, y);
    keep(b, "average pool", y, y_count(d), bound);
    b->table->average_pool_backward(b->team, d, dy, dx);
    keep(b, "average pool backward", dx, x_count(d), bound);
    pool_apart(b, d, x, dy);
}

static void test_pools(void) {
    const qn_conv2d_shape shapes[] = {
        conv(2, 6, 6, 5, 5, 2, 2, 2, 0, 1, 1),     conv(2, 7, 9, 140, 140, 3, 3, 2, 1, 1, 1),
        conv(1, 8, 8, 16, 16, 3, 3, 1, 1, 1, 1),   conv(3, 4, 4, 37, 37, 4, 4, 1, 0, 1, 1),
        conv(2, 28, 28, 6, 6, 2, 2, 2, 0, 1, 1),   conv(2, 5, 5, 3, 3, 3, 3, 2, 0, 1, 1),
        conv(1, 9, 9, 8, 8, 2, 2, 3, 0, 2, 1),     conv(2, 6, 5, 77, 77, 3, 3, 1, 1, 1, 1),
        conv(1, 7, 8, 131, 131, 3, 3, 1, 2, 2, 1),
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_case("pool", pool_case, &shapes[i]);
}

/* ---- optimisers ---- */

static void optimizer_case(bench *b, const void *shape) {
    const int64_t n = *(const int64_t *)shape;
    const double numbers[QN_HYPER_COUNT] = {0.125,        0.875, 0.0625,  0.875, 0.96875,
                                            0.0009765625, 0.125, 0.03125, 0.5};
    void *hyper = blank(b, QN_HYPER_COUNT), *factor = blank(b, 1);
    for (int i = 0; i < QN_HYPER_COUNT; i++)
        put(b, hyper, i, numbers[i]);
    put(b, factor, 0, 0.75);
    const void *gradient = draw(b, n, 1, -1, 1), *w = draw(b, n, 2, -1, 1);
    const void *m = draw(b, n, 3, -1, 1), *v = draw(b, n, 4, 0, 1);
    const double bound = 16 * (double)FLT_EPSILON;
    for (int variant = 0; variant < 3; variant++) {
        void *fresh_w = copy(b, w, n), *fresh_m = copy(b, m, n);
        b->table->sgd(b->team, n, hyper, variant == 1, variant ? NULL : factor, gradient, fresh_w,
                      variant == 2 ? NULL : fresh_m);
        keep(b, "sgd w", fresh_w, n, bound);
        keep(b, "sgd m", fresh_m, n, bound);
    }
    for (int decoupled = 0; decoupled < 2; decoupled++) {
        void *fresh_w = copy(b, w, n), *fresh_m = copy(b, m, n), *fresh_v = copy(b, v, n);
        b->table->adam(b->team, n, hyper, decoupled, decoupled ? NULL : factor, gradient, fresh_w,
                       fresh_m, fresh_v);
        keep(b, "adam w", fresh_w, n, 4 * bound);
        keep(b, "adam m", fresh_m, n, bound);
        keep(b, "adam v", fresh_v, n, bound);
    }
}

/* The first two steps in numbers done by hand. */
static void test_sgd_by_hand(void) {
    const qn_kernels *table = qn_kernels_get(QN_F64, QN_ISA_REF);
    double hyper[QN_HYPER_COUNT] = {
        [QN_HYPER_RATE] = 0.5, [QN_HYPER_MOMENTUM] = 0.5, [QN_HYPER_GRADIENT] = 1};
    double gradient = 1, w = 0, m = 0;
    table->sgd(NULL, 1, hyper, false, NULL, &gradient, &w, &m);
    CHECK(w == -0.5 && m == 1);
    table->sgd(NULL, 1, hyper, false, NULL, &gradient, &w, &m);
    CHECK(w == -1.25 && m == 1.5);
    table->sgd(NULL, 1, hyper, true, NULL, &gradient, &w, &m);
    CHECK(w == -1.25 - 0.5 * (1 + 0.5 * 1.75) && m == 1.75);
}

static void test_optimizers(void) {
    const int64_t sizes[] = {1, 37, 9000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_case("optimisers", optimizer_case, &sizes[i]);
    test_sgd_by_hand();
}

int main(void) {
    cases_begin();
    test_products();
    test_sums_and_norms();
    check_moderate();
    test_elementwise();
    test_dropout();
    test_gelu_ends();
    test_nan_passes();
    test_rows();
    test_layer_norms();
    test_lstms();
    test_axes();
    test_nan_is_largest();
    test_attention();
    test_pools();
    test_optimizers();
    return cases_finish();
}
