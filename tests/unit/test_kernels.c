/* Every kernel of every table this machine can run: a case draws inputs that float holds exactly,
 * calls the kernel and records its outputs. The double reference's record is the truth; a float
 * table's must lie within the bound that the case gives, and have equal bits for teams of one to
 * four. The double reference's convolution and product are checked against plain sums. Outputs and
 * workspace hold NaN before a call and have exactly the promised size, for the sanitizers. Kernels
 * whose rows may lie apart run a second time that way: to the same bits, and with NaN between the
 * rows that no result may show and no kernel may write. */
#include "base/rng.h"
#include "check.h"
#include "kernels/kernels.h"
#include "kernels/rules.h"

#include <float.h>
#include <stdlib.h>

/* ---- what a case works with ---- */

enum { MAX_RECORDS = 16, MAX_BUFFERS = 96, MAX_TEAM = 4 };

/* The thread sanitizer looks at how threads meet, which is alike in all tables and teams, and is
 * slow. */
#ifdef __SANITIZE_THREAD__
enum { IS_BRIEF = 1 };
#else
enum { IS_BRIEF = 0 };
#endif

/* Sizes of teams that results are compared for. An emulated or instrumented program (is_slow) takes
 * the one whose shares are uneven, and of the tables the best, and the one in double. */
static int first_team = 2, last_team = IS_BRIEF ? 2 : MAX_TEAM;
static bool is_slow = IS_BRIEF;

typedef struct record {
    const char *name;
    int64_t n;
    double *values, bound;
} record;

typedef struct bench {
    const qn_kernels *table;
    qn_team *team;
    int n_threads, n_records, n_buffers;
    record records[MAX_RECORDS];
    void *buffers[MAX_BUFFERS];
} bench;

typedef void test_case(bench *b, const void *shape);

static size_t real_bytes(const bench *b) {
    return b->table->real == QN_F64 ? sizeof(double) : sizeof(float);
}

static void *bytes_of_nan(bench *b, size_t bytes) {
    void *memory = NULL;
    if (posix_memalign(&memory, 64, bytes ? bytes : 1) != 0)
        abort();
    memset(memory, 0xff, bytes);
    if (b->n_buffers == MAX_BUFFERS)
        abort();
    return b->buffers[b->n_buffers++] = memory;
}

/* n reals, not a number. */
static void *blank(bench *b, int64_t n) {
    return bytes_of_nan(b, (size_t)n * real_bytes(b));
}

static void put(bench *b, void *to, int64_t i, double value) {
    if (b->table->real == QN_F64)
        ((double *)to)[i] = value;
    else
        ((float *)to)[i] = (float)value;
}

static double get(const bench *b, const void *from, int64_t i) {
    return b->table->real == QN_F64 ? ((const double *)from)[i] : (double)((const float *)from)[i];
}

/* n reals in [low, high), in steps that a float holds exactly. */
static void *draw(bench *b, int64_t n, uint64_t seed, double low, double high) {
    void *values = blank(b, n);
    qn_rng rng = qn_rng_make(seed, 1, 0);
    for (int64_t i = 0; i < n; i++) {
        double uniform = (double)qn_rng_uniform(qn_rng_word(rng, (uint64_t)i));
        put(b, values, i, (double)(float)(low + (high - low) * uniform));
    }
    return values;
}

static void *copy(bench *b, const void *from, int64_t n) {
    return memcpy(blank(b, n), from, (size_t)n * real_bytes(b));
}

/* Rows of a tensor that lie apart, with bytes of NaN before and between them and nothing behind. */
typedef struct apart {
    char *memory, *first; /* first: where the first row begins */
    int64_t rows, c, step;
} apart;

enum { APART_BEFORE = 3 };

/* The rows of a dense tensor; blank ones if it is null. */
static apart spread(bench *b, const void *dense, int64_t rows, int64_t c, int64_t gap) {
    const size_t size = real_bytes(b), row = (size_t)c * size;
    apart a = {.rows = rows, .c = c, .step = c + gap};
    a.memory = blank(b, APART_BEFORE + (rows - 1) * a.step + c);
    a.first = a.memory + APART_BEFORE * size;
    for (int64_t i = 0; dense && i < rows; i++)
        memcpy(a.first + (size_t)(i * a.step) * size, (const char *)dense + (size_t)i * row, row);
    return a;
}

static bool is_untouched(const char *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != (char)0xff)
            return false;
    }
    return true;
}

/* Whether the rows hold the bits of the dense tensor, and what is between them is as it was. */
static bool is_spread(const bench *b, const apart *a, const void *dense) {
    const size_t size = real_bytes(b), row = (size_t)a->c * size;
    bool good = is_untouched(a->memory, APART_BEFORE * size);
    for (int64_t i = 0; i < a->rows; i++) {
        const char *at = a->first + (size_t)(i * a->step) * size;
        good = good && memcmp(at, (const char *)dense + (size_t)i * row, row) == 0;
        if (i + 1 < a->rows)
            good = good && is_untouched(at + row, (size_t)(a->step - a->c) * size);
    }
    return good;
}

static bool is_same(const bench *b, const void *left, const void *right, int64_t n) {
    return memcmp(left, right, (size_t)n * real_bytes(b)) == 0;
}

/* Element i of a tensor. */
static void *element(const bench *b, const void *from, int64_t i) {
    return (char *)(uintptr_t)from + (size_t)i * real_bytes(b);
}

/* Keeps an output; |float's - double's| <= bound. */
static void keep(bench *b, const char *name, const void *from, int64_t n, double bound) {
    if (b->n_records == MAX_RECORDS)
        abort();
    record *fresh = &b->records[b->n_records++];
    *fresh = (record){name, n, malloc((size_t)n * sizeof(double) + 1), bound};
    for (int64_t i = 0; i < n; i++)
        fresh->values[i] = get(b, from, i);
}

static void release_records(bench *b) {
    for (int i = 0; i < b->n_records; i++)
        free(b->records[i].values);
    b->n_records = 0;
}

static void run_case(bench *b, test_case *run, const void *shape) {
    run(b, shape);
    for (int i = 0; i < b->n_buffers; i++)
        free(b->buffers[i]);
    b->n_buffers = 0;
}

/* ---- comparing ---- */

static bool is_close(const record *got, const record *want) {
    for (int64_t i = 0; i < want->n; i++) {
        double error = fabs(got->values[i] - want->values[i]);
        if (!(error <= want->bound)) {
            printf("%s[%lld]: %.9g, not %.9g (error %.3g, bound %.3g)\n", got->name, (long long)i,
                   got->values[i], want->values[i], error, want->bound);
            return false;
        }
    }
    return true;
}

static bool is_equal(const record *a, const record *b) {
    return a->n == b->n && memcmp(a->values, b->values, (size_t)a->n * sizeof(double)) == 0;
}

static qn_team *teams[MAX_TEAM + 1];

/* What one thread made, against teams of more: the same bits. */
static void check_teams(const char *name, const bench *one, test_case *run, const void *shape) {
    for (int size = first_team; size <= last_team; size++) {
        bench many = {.table = one->table, .team = teams[size], .n_threads = size};
        run_case(&many, run, shape);
        for (int i = 0; i < one->n_records; i++) {
            bool equal = is_equal(&one->records[i], &many.records[i]);
            if (!equal)
                printf("%s (%s), table %s, %d threads:\n", name, one->records[i].name,
                       one->table->name, size);
            CHECK(equal);
        }
        release_records(&many);
    }
}

/* One float table against the truth, and against itself with other teams. */
static void check_table(const char *name, const qn_kernels *table, const bench *want,
                        test_case *run, const void *shape) {
    bench one = {.table = table, .n_threads = 1};
    run_case(&one, run, shape);
    for (int i = 0; i < want->n_records; i++) {
        bool close = is_close(&one.records[i], &want->records[i]);
        if (!close)
            printf("  %s, table %s\n", name, table->name);
        CHECK(close);
    }
    check_teams(name, &one, run, shape);
    release_records(&one);
}

static qn_isa best_isa;

static void check_case(const char *name, test_case *run, const void *shape) {
    bench truth = {.table = qn_kernels_get(QN_F64, QN_ISA_REF), .n_threads = 1};
    run_case(&truth, run, shape);
    const qn_kernels *last = NULL;
    for (int isa = is_slow ? (int)best_isa : QN_ISA_REF; isa <= (int)best_isa; isa++) {
        const qn_kernels *table = qn_kernels_get(QN_F32, (qn_isa)isa);
        if (table != last)
            check_table(name, table, &truth, run, shape);
        last = table;
    }
    check_teams(name, &truth, run, shape);
    release_records(&truth);
}

/* The bound of a sum of so many products of numbers in [-1, 1). */
static double sum_bound(int64_t length) {
    return (double)FLT_EPSILON * ((double)length + 8);
}

/* ---- convolution ---- */

static void *workspace_of(bench *b, size_t bytes) {
    return bytes_of_nan(b, bytes);
}

static qn_conv2d_shape conv(int64_t n, int64_t h, int64_t w, int64_t c, int64_t k, int64_t r,
                            int64_t s, int64_t stride, int64_t pad, int64_t dilation,
                            int64_t groups) {
    qn_conv2d_shape d = {.n = n,
                         .h = h,
                         .w = w,
                         .c = c,
                         .k = k,
                         .r = r,
                         .s = s,
                         .stride_h = stride,
                         .stride_w = stride,
                         .pad_top = pad,
                         .pad_left = pad,
                         .dilation_h = dilation,
                         .dilation_w = dilation,
                         .groups = groups};
    d.p = (h + 2 * pad - dilation * (r - 1) - 1) / stride + 1;
    d.q = (w + 2 * pad - dilation * (s - 1) - 1) / stride + 1;
    return d;
}

static int64_t x_count(const qn_conv2d_shape *d) {
    return d->n * d->h * d->w * d->c;
}

static int64_t y_count(const qn_conv2d_shape *d) {
    return d->n * d->p * d->q * d->k;
}

static int64_t w_count(const qn_conv2d_shape *d) {
    return d->k * d->r * d->s * d->c / d->groups;
}

/* Winograd's transforms, which float tables may use for filters of 3x3 at stride 1, magnify
 * rounding (docs/speed.md). */
static double conv_bound(const qn_conv2d_shape *d, int64_t length) {
    const bool is_wide = d->rules || (d->c >= 32 && d->k >= 32);
    const bool is_magnified = d->r == 3 && d->s == 3 && d->groups == 1 && is_wide &&
                              d->stride_h * d->stride_w * d->dilation_h == 1;
    return sum_bound(length) * (is_magnified ? 4 : 1);
}

/* The filter's gradient of a batch cut at a border of chunks has the same bits. */
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
    const apart y_apart = spread(b, NULL, pixels, d->k, 7),
                dy_apart = spread(b, dy, pixels, d->k, 7);
    void *dx_again = blank(b, x_count(d)), *dw_again = blank(b, w_count(d));
    qn_conv2d_shape e = *d;
    e.y_step = y_apart.step;
    b->table->conv2d_forward(b->team, &e, x, w, NULL, relu, y_apart.first, space[0]);
    CHECK(is_spread(b, &y_apart, y));
    b->table->conv2d_backward_data(b->team, &e, dy_apart.first, w, dx_again, space[1]);
    CHECK(is_same(b, dx, dx_again, x_count(d)));
    b->table->conv2d_backward_filter(b->team, &e, x, dy_apart.first, dw_again, space[2]);
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

static void check_conv_definition(const qn_conv2d_shape *d) {
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
    };
    char name[32];
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i += IS_BRIEF ? 3 : 1) {
        snprintf(name, sizeof name, "convolution %zu", i);
        check_conv_definition(&shapes[i]);
        check_case(name, conv_case, &shapes[i]);
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

/* More tiles of 4x4 than Winograd's convolution takes at once: of one sample, and of several. */
static void test_large_convolutions(void) {
    const qn_conv2d_shape of_one = conv(1, 60, 60, 32, 32, 3, 3, 1, 1, 1, 1);
    const qn_conv2d_shape of_several = conv(3, 28, 28, 32, 32, 3, 3, 1, 1, 1, 1);
    check_case("convolution of a large sample", conv_case, &of_one);
    check_case("convolution of many samples", conv_case, &of_several);
}

/* Each algorithm where rules force it, as far as it is possible: also on shapes that the built-in
 * ones would not give it. */
static void test_forced_convolutions(void) {
    const qn_conv2d_shape shapes[] = {
        conv(2, 9, 7, 16, 16, 3, 3, 1, 1, 1, 1),  conv(1, 4, 3, 48, 32, 3, 3, 1, 2, 1, 1),
        conv(3, 6, 5, 20, 12, 1, 1, 1, 0, 1, 1),  conv(2, 12, 3, 6, 5, 3, 2, 1, 1, 1, 1),
        conv(2, 20, 40, 40, 6, 5, 5, 1, 2, 1, 1), conv(5, 9, 9, 24, 40, 3, 3, 2, 1, 1, 1),
        conv(4, 8, 8, 8, 8, 3, 3, 1, 1, 1, 2),    conv(6, 5, 5, 70, 130, 3, 3, 1, 1, 1, 1),
    };
    for (int algorithm = 0; algorithm < QN_ALGORITHM_COUNT; algorithm++) {
        const qn_rule rule = {QN_ALL_SETS, QN_ALL_PASSES, (uint8_t)algorithm, 0, {{0}}};
        const qn_rules forced = {1, &rule};
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
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
    const int64_t sizes[][3] = {{1, 1, 1},     {2, 3, 4},     {13, 33, 257}, {64, 10, 84},
                                {4, 120, 400}, {7, 300, 30},  {1, 65, 513},  {70, 70, 70},
                                {33, 1, 9},    {130, 48, 64}, {24, 520, 16}, {300, 17, 12},
                                {5, 1100, 37}, {520, 130, 40}};
    char name[64];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int transposed = 0; transposed < 4; transposed++) {
            qn_gemm_shape d = {sizes[i][0],    sizes[i][1],     sizes[i][2],
                               transposed & 1, transposed >> 1, false};
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
    void *space = workspace_of(b, b->table->batch_norm_workspace(d->rows, d->c, b->n_threads));
    /* The offset itself is rounded once in every element. */
    const double bound = (32 + 4 * offset) * (double)FLT_EPSILON;
    const qn_rows dense = {.rows = d->rows, .c = d->c};
    const apart x_apart = spread(b, x, d->rows, d->c, 5),
                y_apart = spread(b, NULL, d->rows, d->c, 9);
    const apart dy_apart = spread(b, dy, d->rows, d->c, 2);
    const qn_rows lying_apart = {d->rows, d->c, {x_apart.step, y_apart.step, dy_apart.step}};
    void *sums_again[2] = {blank(b, d->c), blank(b, d->c)}, *dx_again = blank(b, n);
    b->table->batch_norm_forward(b->team, &dense, x, scale, shift, 1e-5, activation, y, mean,
                                 inv_std, space);
    b->table->batch_norm_forward(b->team, &lying_apart, x_apart.first, scale, shift, 1e-5,
                                 activation, y_apart.first, sums_again[0], sums_again[1], space);
    CHECK(is_spread(b, &y_apart, y) && is_same(b, mean, sums_again[0], d->c) &&
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
                                   running[1], 1e-5, activation, y_apart.first);
    CHECK(is_spread(b, &y_apart, y));
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
                                  dy_apart.first, scale, mean, inv_std, activation, dx_again,
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
        const apart y_apart = spread(b, NULL, d->rows, d->c, 4);
        const qn_rows two = {d->rows, d->c, {x_apart.step, y_apart.step}};
        const qn_rows three = {d->rows, d->c, {x_apart.step, z_apart.step, y_apart.step}};
        b->table->activation_forward(b->team, activation, &dense, x, y);
        b->table->activation_forward(b->team, activation, &two, x_apart.first, y_apart.first);
        CHECK(is_spread(b, &y_apart, y));
        b->table->activation_backward(b->team, activation, &dense, x, z, y);
        b->table->activation_backward(b->team, activation, &three, x_apart.first, z_apart.first,
                                      y_apart.first);
        CHECK(is_spread(b, &y_apart, y));
        b->table->add(b->team, &dense, x, z, activation, y);
        b->table->add(b->team, &three, x_apart.first, z_apart.first, activation, y_apart.first);
        CHECK(is_spread(b, &y_apart, y));
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
    const apart dy_apart = spread(b, dy, pixels, d->c, 5);
    qn_conv2d_shape e = *d;
    e.y_step = d->c + 5;
    b->table->max_pool(b->team, d, x, y, index);
    b->table->max_pool(b->team, &e, x, y_max.first, index_again);
    CHECK(is_spread(b, &y_max, y));
    CHECK(memcmp(index, index_again, (size_t)y_count(d) * sizeof *index) == 0);
    b->table->max_pool_backward(b->team, d, dy, index, dx);
    b->table->max_pool_backward(b->team, &e, dy_apart.first, index, dx_again);
    CHECK(is_same(b, dx, dx_again, x_count(d)));
    b->table->average_pool(b->team, d, x, y);
    b->table->average_pool(b->team, &e, x, y_mean.first);
    CHECK(is_spread(b, &y_mean, y));
    b->table->average_pool_backward(b->team, d, dy, dx);
    b->table->average_pool_backward(b->team, &e, dy_apart.first, dx_again);
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
        conv(2, 6, 6, 5, 5, 2, 2, 2, 0, 1, 1),   conv(2, 7, 9, 140, 140, 3, 3, 2, 1, 1, 1),
        conv(1, 8, 8, 16, 16, 3, 3, 1, 1, 1, 1), conv(3, 4, 4, 37, 37, 4, 4, 1, 0, 1, 1),
        conv(2, 28, 28, 6, 6, 2, 2, 2, 0, 1, 1), conv(2, 5, 5, 3, 3, 3, 3, 2, 0, 1, 1),
        conv(1, 9, 9, 8, 8, 2, 2, 3, 0, 2, 1),
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
    CHECK_OK(qn_cpu_isa(&best_isa));
    if (getenv("QUERN_SLOW") && !IS_BRIEF) {
        is_slow = true;
        first_team = last_team = 3;
    }
    for (int size = 2; size <= MAX_TEAM; size++)
        CHECK_OK(qn_team_create(NULL, size, &teams[size]));
    test_convolutions();
    test_thin_convolutions();
    test_forced_convolutions();
    test_large_convolutions();
    test_lopsided_convolutions();
    test_products();
    test_sums_and_norms();
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
    for (int size = 2; size <= MAX_TEAM; size++)
        qn_team_destroy(teams[size]);
    return checks_finish();
}
