/* What tests of kernels are made of. A case draws inputs that float holds exactly, calls a kernel
 * of one table and records its outputs. The double reference's record is the truth; a float table's
 * must lie within the bound that the case gives, and have equal bits for teams of one to four.
 * Outputs and workspace hold NaN before a call and have exactly the promised size, for the
 * sanitizers. Kernels whose rows may lie apart run a second time that way: to the same bits, and
 * with NaN between the rows that no result may show and no kernel may write. */
#ifndef QN_TESTS_KERNEL_CASES_H
#define QN_TESTS_KERNEL_CASES_H

#include "base/rng.h"
#include "check.h"
#include "kernels/kernels.h"

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
 * the one whose shares are uneven, and of the tables the best; the one in double alone. */
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

/* Rows of a tensor that lie apart, with bytes of NaN before and between them and nothing behind. */
typedef struct apart {
    char *memory, *first; /* first: where the first row begins */
    int64_t rows, c, step;
} apart;

enum { STRIDED_BEFORE = 3 };

/* The rows of a dense tensor; blank ones if it is null. */
static apart spread(bench *b, const void *dense, int64_t rows, int64_t c, int64_t gap) {
    const size_t size = real_bytes(b), row = (size_t)c * size;
    apart a = {.rows = rows, .c = c, .step = c + gap};
    a.memory = blank(b, STRIDED_BEFORE + (rows - 1) * a.step + c);
    a.first = a.memory + STRIDED_BEFORE * size;
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
    bool good = is_untouched(a->memory, STRIDED_BEFORE * size);
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
    if (!is_slow) /* plain code in double, the same on every processor */
        check_teams(name, &truth, run, shape);
    release_records(&truth);
}

/* The bound of a sum of so many products of numbers in [-1, 1). */
static double sum_bound(int64_t length) {
    return (double)FLT_EPSILON * ((double)length + 8);
}

static void *workspace_of(bench *b, size_t bytes) {
    return bytes_of_nan(b, bytes);
}

/* ---- shapes ---- */

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

/* ---- the whole ---- */

static void cases_begin(void) {
    CHECK_OK(qn_cpu_isa(&best_isa));
    if (getenv("QUERN_SLOW") && !IS_BRIEF) {
        is_slow = true;
        first_team = last_team = 3;
    }
    for (int size = 2; size <= MAX_TEAM; size++)
        CHECK_OK(qn_team_create(NULL, size, &teams[size]));
}

static int cases_finish(void) {
    for (int size = 2; size <= MAX_TEAM; size++)
        qn_team_destroy(teams[size]);
    return checks_finish();
}

#endif
