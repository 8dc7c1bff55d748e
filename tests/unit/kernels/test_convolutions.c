/* Convolutions of every table that this machine can run, in all algorithms (see kernel_cases.h).
 * The double reference's convolution is checked against plain sums. */
#include "kernel_cases.h"
#include "kernels/rules.h"

static int64_t w_count(const qn_conv2d_shape *d) {
    return d->k * d->r * d->s * d->c / d->groups;
}

/* Winograd's transforms, which float tables may use for filters of 3x3 at stride 1 and of 4x4 at
 * stride 2, magnify rounding (docs/kernels.md). */
static double conv_bound(const qn_conv2d_shape *d, int64_t length) {
    const bool is_wide = d->rules || (d->c >= 8 && d->k >= 8);
    const bool is_dense = d->r == 3 && d->stride_h * d->stride_w == 1;
    const bool is_phased = d->r == 4 && d->stride_h == 2 && d->stride_w == 2;
    const bool is_magnified =
        (is_dense || is_phased) && d->r == d->s && d->groups == 1 && is_wide && d->dilation_h == 1;
    return sum_bound(length) * (is_magnified ? 4 : 1);
}

/* The filter's gradient of a batch split at a border of chunks has the same bits. */
static void check_filter_pieces(bench *b, const qn_conv2d_shape *d, const void *x, const void *dy,
                                const void *dw) {
    const int64_t chunk = b->table->conv2d_filter_chunk(d);
    for (int64_t first = chunk; chunk > 0 && first < d->n; first += 2 * chunk) {
        void *sum = blank(b, w_count(d));
        qn_conv2d_shape piece = *d;
        piece.batch = d->n;
        for (int64_t at = 0; at < d->n; at += piece.n) {
            piece.n = at ? d->n - first : first;
            piece.add = at > 0;
            b->table->conv2d_backward_filter(
                b->team, &piece, element(b, x, at * d->h * d->w * d->c),
                element(b, dy, at * d->p * d->q * d->k), sum,
                workspace_of(b, b->table->conv2d_workspace(&piece, QN_CONV2D_BACKWARD_FILTER,
                                                           b->n_threads)));
        }
        CHECK(is_same(b, sum, dw, w_count(d)));
    }
}

/* Samples alone, computed as those of the batch that they are from, have the same bits. */
static void check_single_samples(bench *b, const qn_conv2d_shape *d, const void *x, const void *w,
                                 const void *dy, const void *y, const void *dx) {
    const qn_activation relu = {QN_ACTIVATION_RELU, 0};
    const int64_t in = d->h * d->w * d->c, out = d->p * d->q * d->k;
    qn_conv2d_shape one = *d;
    one.batch = d->n;
    one.n = 1;
    void *space[2], *y_one = blank(b, out), *dx_one = blank(b, in);
    for (int pass = 0; pass < 2; pass++)
        space[pass] =
            workspace_of(b, b->table->conv2d_workspace(&one, (qn_conv2d_pass)pass, b->n_threads));
    for (int64_t n = 0; n < d->n; n++) {
        b->table->conv2d_forward(b->team, &one, element(b, x, n * in), w, NULL, relu, y_one,
                                 space[0]);
        CHECK(is_same(b, y_one, element(b, y, n * out), out));
        b->table->conv2d_backward_data(b->team, &one, element(b, dy, n * out), w, dx_one, space[1]);
        CHECK(is_same(b, dx_one, element(b, dx, n * in), in));
    }
}

static void conv_case(bench *b, const void *shape) {
    const qn_conv2d_shape *d = shape;
    const void *x = draw(b, x_count(d), 1, -1, 1), *w = draw(b, w_count(d), 2, -1, 1);
    const void *dy = draw(b, y_count(d), 3, -1, 1), *bias = draw(b, d->k, 4, -1, 1);
    const qn_activation none = {QN_ACTIVATION_NONE, 0}, relu = {QN_ACTIVATION_RELU, 0};
    void *y = blank(b, y_count(d)), *dx = blank(b, x_count(d)), *dw = blank(b, w_count(d));
    void *space[3];
    for (int pass = 0; pass < 3; pass++)
        space[pass] =
            workspace_of(b, b->table->conv2d_workspace(d, (qn_conv2d_pass)pass, b->n_threads));
    const int64_t taps = d->r * d->s;
    b->table->conv2d_forward(b->team, d, x, w, bias, none, y, space[0]);
    keep(b, "y", y, y_count(d), conv_bound(d, taps * d->c / d->groups));
    b->table->conv2d_forward(b->team, d, x, w, NULL, relu, y, space[0]);
    keep(b, "relu y", y, y_count(d), conv_bound(d, taps * d->c / d->groups));
    b->table->conv2d_backward_data(b->team, d, dy, w, dx, space[1]);
    keep(b, "dx", dx, x_count(d), conv_bound(d, taps * d->k / d->groups));
    b->table->conv2d_backward_filter(b->team, d, x, dy, dw, space[2]);
    keep(b, "dw", dw, w_count(d), conv_bound(d, d->n * d->p * d->q));
    check_filter_pieces(b, d, x, dy, dw);
    check_single_samples(b, d, x, w, dy, y, dx);

    const int64_t pixels = d->n * d->p * d->q;
    const apart y_strided = spread(b, NULL, pixels, d->k, 7),
                dy_strided = spread(b, dy, pixels, d->k, 7);
    void *dx_again = blank(b, x_count(d)), *dw_again = blank(b, w_count(d));
    qn_conv2d_shape e = *d;
    e.y_stride = y_strided.step;
    b->table->conv2d_forward(b->team, &e, x, w, NULL, relu, y_strided.first, space[0]);
    CHECK(is_spread(b, &y_strided, y));
    b->table->conv2d_backward_data(b->team, &e, dy_strided.first, w, dx_again, space[1]);
    CHECK(is_same(b, dx, dx_again, x_count(d)));
    b->table->conv2d_backward_filter(b->team, &e, x, dy_strided.first, dw_again, space[2]);
    CHECK(is_same(b, dw, dw_again, w_count(d)));
}

/* The definition, in double: *y, *dx and *dw are added to. */
static void conv_plain(const qn_conv2d_shape *d, const double *x, const double *w, const double *dy,
                       double *y, double *dx, double *dw) {
    const int64_t group_c = d->c / d->groups, group_k = d->k / d->groups;
    const int64_t count = y_count(d) * d->r * d->s * group_c;
    for (int64_t i = 0; i < count; i++) {
        int64_t c = i % group_c, rest = i / group_c;
        int64_t s = rest % d->s, r = rest / d->s % d->r;
        int64_t out = rest / d->s / d->r, k = out % d->k;
        int64_t q = out / d->k % d->q, p = out / d->k / d->q % d->p, n = out / d->k / d->q / d->p;
        int64_t h = p * d->stride_h - d->pad_top + r * d->dilation_h;
        int64_t v = q * d->stride_w - d->pad_left + s * d->dilation_w;
        if (h < 0 || h >= d->h || v < 0 || v >= d->w)
            continue;
        int64_t in = ((n * d->h + h) * d->w + v) * d->c + k / group_k * group_c + c;
        int64_t weight = ((k * d->r + r) * d->s + s) * group_c + c;
        y[out] += x[in] * w[weight];
        dx[in] += dy[out] * w[weight];
        dw[weight] += dy[out] * x[in];
    }
}

/* Plain loops under an emulator or a sanitizer show no more than without, in minutes. */
static void check_conv_definition(const qn_conv2d_shape *d) {
    if (is_slow)
        return;
    bench b = {.table = qn_kernels_get(QN_F64, QN_ISA_REF), .n_threads = 1};
    const double *x = draw(&b, x_count(d), 1, -1, 1), *w = draw(&b, w_count(d), 2, -1, 1);
    const double *dy = draw(&b, y_count(d), 3, -1, 1);
    double *out[3] = {draw(&b, y_count(d), 0, 0, 0), draw(&b, x_count(d), 0, 0, 0),
                      draw(&b, w_count(d), 0, 0, 0)};
    void *got[3] = {blank(&b, y_count(d)), blank(&b, x_count(d)), blank(&b, w_count(d))};
    int64_t counts[3] = {y_count(d), x_count(d), w_count(d)};
    void *space[3];
    for (int pass = 0; pass < 3; pass++)
        space[pass] = workspace_of(&b, b.table->conv2d_workspace(d, (qn_conv2d_pass)pass, 1));
    conv_plain(d, x, w, dy, out[0], out[1], out[2]);
    const qn_activation none = {QN_ACTIVATION_NONE, 0};
    b.table->conv2d_forward(NULL, d, x, w, NULL, none, got[0], space[0]);
    b.table->conv2d_backward_data(NULL, d, dy, w, got[1], space[1]);
    b.table->conv2d_backward_filter(NULL, d, x, dy, got[2], space[2]);
    for (int i = 0; i < 3; i++) {
        keep(&b, "got", got[i], counts[i], 1e-11);
        keep(&b, "plain", out[i], counts[i], 1e-11);
        CHECK(is_close(&b.records[2 * i], &b.records[2 * i + 1]));
    }
    release_records(&b);
    for (int i = 0; i < b.n_buffers; i++)
        free(b.buffers[i]);
}

static void test_convolutions(void) {
    const qn_conv2d_shape shapes[] = {
        conv(1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1),
        conv(2, 5, 7, 3, 5, 3, 3, 1, 1, 1, 1),
        conv(3, 8, 8, 16, 32, 3, 3, 1, 1, 1, 1),
        conv(2, 9, 6, 17, 33, 3, 2, 2, 1, 1, 1),
        conv(2, 7, 7, 24, 40, 1, 1, 1, 0, 1, 1),
        conv(3, 7, 5, 37, 70, 1, 1, 2, 0, 1, 1),
        conv(4, 12, 12, 1, 6, 5, 5, 1, 2, 1, 1),
        conv(5, 14, 14, 6, 16, 5, 5, 1, 0, 1, 1),
        conv(1, 20, 20, 4, 32, 8, 8, 4, 0, 1, 1),
        conv(2, 11, 11, 8, 8, 3, 3, 1, 2, 2, 1),
        conv(2, 11, 9, 6, 9, 3, 3, 2, 3, 3, 3),
        conv(2, 8, 8, 12, 8, 3, 3, 1, 1, 1, 4),
        conv(2, 9, 9, 7, 7, 3, 3, 1, 1, 1, 7),
        conv(3, 9, 9, 48, 48, 3, 3, 2, 1, 1, 48),
        conv(2, 6, 6, 5, 15, 3, 3, 1, 1, 1, 5),
        conv(2, 6, 6, 33, 33, 5, 5, 2, 2, 1, 33),
        conv(2, 10, 10, 20, 20, 3, 3, 1, 2, 2, 20),
        conv(1, 4, 4, 64, 128, 3, 3, 1, 1, 1, 1),
        conv(2, 2, 2, 96, 64, 3, 3, 1, 1, 1, 1),
        conv(1, 16, 16, 3, 64, 7, 7, 2, 3, 1, 1),
        conv(2, 6, 6, 160, 12, 3, 3, 1, 1, 1, 1),
        conv(9, 4, 4, 3, 4, 4, 4, 1, 0, 1, 1),
        conv(1, 3, 3, 2, 2, 3, 3, 3, 2, 1, 1),
        conv(2, 8, 8, 32, 64, 2, 2, 2, 0, 1, 2),
        conv(1, 33, 31, 19, 21, 3, 3, 1, 1, 1, 1),
        conv(2, 5, 5, 300, 20, 1, 1, 1, 0, 1, 1),
        conv(2, 3, 3, 330, 40, 3, 3, 1, 1, 1, 1),
        conv(3, 7, 7, 70, 300, 3, 3, 1, 1, 1, 1),
        conv(3, 4, 4, 64, 100, 4, 4, 1, 0, 1, 1),
        conv(40, 4, 4, 32, 1, 4, 4, 1, 0, 1, 1),
        conv(3, 16, 16, 24, 40, 4, 4, 2, 1, 1, 1),
        conv(2, 32, 32, 3, 64, 4, 4, 2, 1, 1, 1),
        conv(3, 13, 17, 40, 12, 3, 3, 1, 1, 1, 1),
        conv(2, 32, 32, 76, 12, 3, 3, 1, 1, 1, 1),
        conv(5, 9, 14, 19, 7, 5, 5, 1, 3, 1, 1),
        conv(1, 60, 61, 33, 30, 3, 3, 1, 0, 1, 1),
        conv(1, 6, 40, 144, 144, 3, 3, 1, 1, 1, 144),
        conv(6, 8, 8, 130, 130, 3, 3, 2, 1, 1, 130),
        conv(2, 9, 14, 48, 80, 3, 3, 1, 1, 1, 1),
        conv(2, 12, 11, 32, 48, 3, 3, 1, 0, 1, 1),
        conv(4, 6, 7, 64, 32, 3, 3, 1, 2, 1, 1),
        /* more samples than a chunk of a filter gradient: few taps, many, by bands, Winograd's */
        conv(37, 10, 10, 6, 16, 5, 5, 1, 0, 1, 1),
        conv(11, 7, 9, 70, 130, 3, 3, 2, 1, 1, 1),
        conv(7, 20, 20, 12, 24, 3, 3, 1, 1, 1, 1),
        conv(9, 16, 14, 32, 48, 3, 3, 1, 1, 1, 1),
        /* few inputs of many outputs, one tap, whose filter's gradient is made turned */
        conv(37, 6, 7, 20, 70, 1, 1, 1, 0, 1, 1),
        conv(2, 9, 11, 48, 200, 1, 1, 1, 0, 1, 1),
        conv(5, 5, 5, 3, 17, 1, 1, 1, 0, 1, 1),
    };
    char name[32];
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i += IS_BRIEF ? 3 : 1) {
        snprintf(name, sizeof name, "convolution %zu", i);
        check_conv_definition(&shapes[i]);
        check_case(name, conv_case, &shapes[i]);
    }
}

/* 4x4 at stride 2, in phases: more samples than a chunk, channels that are no whole vectors. */
static void test_phased_convolutions(void) {
    const qn_conv2d_shape shapes[] = {
        conv(4, 20, 20, 32, 64, 4, 4, 2, 0, 1, 1),
        conv(9, 16, 14, 40, 37, 4, 4, 2, 1, 1, 1),
        conv(3, 19, 26, 70, 90, 4, 4, 2, 2, 1, 1),
    };
    for (size_t i = is_slow ? 2 : 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_conv_definition(&shapes[i]);
        check_case("convolution in phases", conv_case, &shapes[i]);
    }
}

/* Few channels on both sides: pixels in the vectors. */
static void test_thin_convolutions(void) {
    const qn_conv2d_shape shapes[] = {
        conv(3, 28, 28, 1, 6, 5, 5, 1, 0, 1, 1),  conv(2, 17, 35, 3, 7, 3, 3, 1, 1, 1, 1),
        conv(1, 20, 40, 4, 12, 5, 5, 1, 2, 1, 1), conv(2, 18, 33, 2, 3, 3, 4, 1, 3, 1, 1),
        conv(5, 19, 60, 1, 1, 7, 7, 1, 3, 1, 1),
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_conv_definition(&shapes[i]);
        check_case("thin convolution", conv_case, &shapes[i]);
    }
}

/* Depthwise: rows shorter than a strip of pixels and longer, and what is left over of each; one
 * vector of channels, pairs, and the rest of a vector. */
static void test_depthwise_convolutions(void) {
    const qn_conv2d_shape shapes[] = {
        conv(3, 2, 2, 100, 100, 3, 3, 1, 1, 1, 100), conv(2, 4, 4, 40, 40, 3, 3, 2, 1, 1, 40),
        conv(2, 3, 1, 24, 24, 3, 3, 1, 1, 1, 24),    conv(2, 5, 6, 17, 17, 3, 3, 1, 2, 1, 17),
        conv(2, 13, 13, 48, 48, 3, 3, 1, 0, 1, 48),  conv(1, 9, 27, 72, 72, 3, 3, 2, 1, 1, 72),
        conv(2, 8, 11, 32, 32, 2, 2, 1, 1, 1, 32),   conv(2, 7, 7, 50, 50, 3, 3, 3, 1, 1, 50),
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_conv_definition(&shapes[i]);
        check_case("depthwise convolution", conv_case, &shapes[i]);
    }
}

/* More tiles of 4x4 than Winograd's convolution takes at once: of one sample, and of several. */
static void test_large_convolutions(void) {
    const qn_conv2d_shape of_one = conv(1, 60, 60, 32, 32, 3, 3, 1, 1, 1, 1);
    const qn_conv2d_shape of_several = conv(3, 28, 28, 32, 32, 3, 3, 1, 1, 1, 1);
    if (!is_slow)
        check_case("convolution of a large sample", conv_case, &of_one);
    check_case("convolution of many samples", conv_case, &of_several);
}

/* Tiles enough for threads that make the planes of their own; blocks of a filter's gradient that do
 * not go up in rounds of them. */
static void test_owned_tiles(void) {
    const qn_conv2d_shape shapes[] = {
        conv(7, 16, 16, 80, 40, 3, 3, 1, 1, 1, 1),
        conv(13, 15, 13, 70, 72, 3, 3, 1, 1, 1, 1),
        conv(37, 20, 20, 24, 64, 4, 4, 2, 0, 1, 1),
    };
    for (size_t i = 0; !is_slow && i < sizeof shapes / sizeof *shapes; i++)
        check_case("convolution of many tiles", conv_case, &shapes[i]);
}

/* A team may have fewer threads than the memory was planned for. */
static void test_fewer_threads(void) {
    const qn_conv2d_shape shapes[] = {
        conv(32, 16, 16, 128, 128, 3, 3, 1, 1, 1, 1), conv(16, 8, 8, 256, 256, 3, 3, 1, 1, 1, 1),
        conv(8, 32, 32, 64, 64, 3, 3, 1, 1, 1, 1),    conv(9, 28, 28, 40, 24, 3, 3, 1, 1, 1, 1),
        conv(64, 20, 20, 32, 64, 4, 4, 2, 0, 1, 1),   conv(16, 4, 4, 512, 512, 3, 3, 1, 1, 1, 1),
        conv(32, 17, 17, 96, 40, 3, 3, 1, 0, 1, 1),   conv(5, 12, 13, 33, 200, 3, 3, 1, 1, 1, 1),
        conv(16, 32, 32, 64, 256, 1, 1, 1, 0, 1, 1),  conv(4, 14, 14, 6, 16, 5, 5, 1, 0, 1, 1),
        conv(16, 32, 32, 3, 64, 3, 3, 1, 1, 1, 1),    conv(8, 16, 16, 96, 96, 3, 3, 1, 1, 1, 96),
        conv(3, 10, 10, 100, 90, 5, 5, 2, 2, 1, 1),   conv(2, 1, 1, 400, 300, 1, 1, 1, 0, 1, 1),
    };
    qn_isa best;
    CHECK_OK(qn_cpu_isa(&best));
    for (int isa = 0; isa <= (int)best; isa++) {
        const qn_kernels *table = qn_kernels_get(QN_F32, (qn_isa)isa);
        for (size_t i = 0; table && i < sizeof shapes / sizeof *shapes; i++) {
            for (int pass = 0; pass < 3; pass++) {
                size_t most = 0;
                for (int n = 1; n <= 16; n++) {
                    const size_t bytes =
                        table->conv2d_workspace(&shapes[i], (qn_conv2d_pass)pass, n);
                    CHECK(bytes >= most);
                    most = bytes > most ? bytes : most;
                }
            }
        }
    }
}

/* Each algorithm where rules force it, as far as it is possible: also on shapes that the built-in
 * ones would not give it. */
static void test_forced_convolutions(void) {
    const qn_conv2d_shape shapes[] = {
        conv(2, 9, 7, 16, 16, 3, 3, 1, 1, 1, 1),  conv(1, 4, 3, 48, 32, 3, 3, 1, 2, 1, 1),
        conv(3, 6, 5, 20, 12, 1, 1, 1, 0, 1, 1),  conv(2, 12, 3, 6, 5, 3, 2, 1, 1, 1, 1),
        conv(2, 20, 40, 40, 6, 5, 5, 1, 2, 1, 1), conv(5, 9, 9, 24, 40, 3, 3, 2, 1, 1, 1),
        conv(4, 8, 8, 8, 8, 3, 3, 1, 1, 1, 2),    conv(6, 5, 5, 70, 130, 3, 3, 1, 1, 1, 1),
        conv(19, 9, 9, 12, 40, 1, 1, 1, 0, 1, 1), conv(3, 17, 40, 3, 20, 3, 3, 2, 1, 1, 1),
        conv(2, 5, 24, 1, 7, 5, 3, 1, 6, 1, 1),   conv(2, 30, 30, 4, 33, 8, 8, 4, 0, 1, 1),
        conv(40, 8, 6, 8, 50, 3, 3, 1, 1, 1, 1),  conv(1, 3, 2, 5, 3, 16, 9, 3, 8, 1, 1),
        conv(3, 9, 8, 21, 9, 4, 4, 2, 3, 1, 1),   conv(2, 5, 11, 33, 66, 4, 4, 2, 1, 1, 1),
    };
    for (int algorithm = 0; algorithm < QN_ALGORITHM_COUNT; algorithm++) {
        const qn_rule rule = {QN_ALL_SETS, QN_ALL_PASSES, (uint8_t)algorithm, 0, {{0}}};
        const qn_rules forced = {1, &rule};
        const size_t every = is_slow ? 4 : 1; /* then other shapes for the next algorithm */
        for (size_t i = (size_t)algorithm % every; i < sizeof shapes / sizeof *shapes; i += every) {
            qn_conv2d_shape d = shapes[i];
            d.rules = &forced;
            check_case(qn_algorithm_names[algorithm], conv_case, &d);
        }
    }
}

/* Padding and strides that differ by axis. */
static void test_lopsided_convolutions(void) {
    qn_conv2d_shape d = conv(2, 9, 12, 5, 20, 3, 5, 1, 0, 1, 1);
    d.stride_h = 2;
    d.pad_top = 1;
    d.pad_left = 3;
    d.p = 5; /* one more row of padding below than above */
    d.q = 12;
    check_conv_definition(&d);
    check_case("lopsided convolution", conv_case, &d);
    d.c = d.k = d.groups = 36;
    check_conv_definition(&d);
    check_case("lopsided depthwise convolution", conv_case, &d);
}

int main(void) {
    cases_begin();
    test_convolutions();
    test_phased_convolutions();
    test_thin_convolutions();
    test_depthwise_convolutions();
    test_forced_convolutions();
    test_large_convolutions();
    test_owned_tiles();
    test_fewer_threads();
    test_lopsided_convolutions();
    return cases_finish();
}
