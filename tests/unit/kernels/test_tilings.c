/* Tilings of products: whatever a tiling says, a kernel of any set gives the bits of the fixed
 * rules, on teams of one and three, within the workspace of the fixed rules, which is the exact
 * size and holds NaN before. Asked, a product says its key and does nothing; keys tell shapes
 * apart, and are one for the pieces of a batch. */
#include "kernels/tilings.h"

#include "base/rng.h"
#include "check.h"
#include "kernels/rules.h"

#include <stdlib.h>

enum { MAX_TEAM = 3, MIXED = 5 };

static qn_team *teams[MAX_TEAM];
static qn_isa best; /* that this machine has */
static uint64_t drawn;

static uint32_t draw(uint32_t below) {
    return qn_rng_word(qn_rng_make(7, 1, 0), drawn++) % below;
}

static void *take(size_t bytes) {
    void *memory = NULL;
    if (posix_memalign(&memory, 64, bytes ? bytes : 1) != 0)
        abort();
    return memset(memory, 0xff, bytes);
}

static float *floats(int64_t n) {
    float *values = take((size_t)n * sizeof(float));
    for (int64_t i = 0; i < n; i++)
        values[i] = (float)draw(4096) / 2048 - 1;
    return values;
}

/* A product: a convolution's pass, or, with m, a matrix product. out is that of a, b or c which the
 * pass makes. */
typedef struct job {
    qn_conv2d_shape conv;
    qn_conv2d_pass pass;
    qn_gemm_shape gemm;
    bool has_bias;
    float *a, *b, *c, *bias;
    int64_t n_a, n_b, n_c;
} job;

static void fill(job *j) {
    const qn_conv2d_shape *d = &j->conv;
    if (j->gemm.m > 0) {
        j->n_a = j->gemm.m * j->gemm.k;
        j->n_b = j->gemm.n * j->gemm.k;
        j->n_c = j->gemm.m * j->gemm.n;
    } else {
        j->n_a = d->n * d->h * d->w * d->c;
        j->n_b = d->k * d->r * d->s * d->c / d->groups;
        j->n_c = d->n * d->p * d->q * d->k;
    }
    j->a = floats(j->n_a);
    j->b = floats(j->n_b);
    j->c = floats(j->n_c);
    j->bias = floats(j->gemm.m > 0 ? j->gemm.n : d->k);
}

static void empty(job *j) {
    free(j->a);
    free(j->b);
    free(j->c);
    free(j->bias);
}

static size_t out_bytes(const job *j) {
    if (j->gemm.m > 0 || j->pass == QN_CONV2D_FORWARD)
        return (size_t)j->n_c * sizeof(float);
    return (size_t)(j->pass == QN_CONV2D_BACKWARD_DATA ? j->n_a : j->n_b) * sizeof(float);
}

/* What a job gives by a trial (null: the fixed rules), in new memory. */
static float *run(const job *j, const qn_kernels *table, int n_threads, qn_tiling_trial *trial) {
    const qn_tilings tilings = {.trial = trial};
    const qn_activation relu = {QN_ACTIVATION_RELU, 0};
    qn_conv2d_shape d = j->conv;
    qn_gemm_shape g = j->gemm;
    qn_team *team = teams[n_threads - 1];
    float *out = take(out_bytes(j));
    d.tilings = g.tilings = trial ? &tilings : NULL;
    void *space = take(g.m > 0 ? table->gemm_workspace(&g, n_threads)
                               : table->conv2d_workspace(&d, j->pass, n_threads));
    if (g.m > 0)
        table->gemm(team, &g, j->a, j->b, j->has_bias ? j->bias : NULL,
                    j->has_bias ? relu : (qn_activation){QN_ACTIVATION_NONE, 0}, out, space);
    else if (j->pass == QN_CONV2D_FORWARD)
        table->conv2d_forward(team, &d, j->a, j->b, j->has_bias ? j->bias : NULL, relu, out, space);
    else if (j->pass == QN_CONV2D_BACKWARD_DATA)
        table->conv2d_backward_data(team, &d, j->c, j->b, out, space);
    else
        table->conv2d_backward_filter(team, &d, j->a, j->c, out, space);
    free(space);
    return out;
}

static bool gives(const job *j, const qn_kernels *table, int n_threads, qn_tiling tiling,
                  const float *wanted) {
    qn_tiling_trial trial = {.tiling = tiling};
    float *out = run(j, table, n_threads, &trial);
    const bool good = memcmp(out, wanted, out_bytes(j)) == 0;
    free(out);
    return good;
}

/* Asked, it leaves its output alone, and says what it knows. */
static unsigned ask(const job *j, const qn_kernels *table, int n_threads, uint64_t *key) {
    qn_tiling_trial trial = {.is_question = true};
    unsigned char *out = (unsigned char *)run(j, table, n_threads, &trial);
    bool untouched = true;
    for (size_t i = 0; i < out_bytes(j); i++)
        untouched &= out[i] == 0xff;
    CHECK(untouched);
    CHECK(trial.key != 0);
    free(out);
    *key = trial.key;
    return trial.kinds;
}

/* All variants of each kind, then mixed ones. */
static void check_cuts(const job *j, const qn_kernels *table, int n_threads, const float *wanted) {
    for (int kind = 0; kind < QN_TILING_COUNT; kind++) {
        for (uint8_t i = 1; i <= qn_tiling_variants[kind]; i++) {
            qn_tiling tiling = {{0}};
            tiling.kinds[kind] = i;
            CHECK(gives(j, table, n_threads, tiling, wanted));
        }
    }
    for (int i = 0; i < MIXED; i++) {
        qn_tiling tiling;
        for (int kind = 0; kind < QN_TILING_COUNT; kind++)
            tiling.kinds[kind] = (uint8_t)draw(qn_tiling_variants[kind] + 1u);
        CHECK(gives(j, table, n_threads, tiling, wanted));
    }
}

/* Kinds that it must know, and no others; whatever the set. */
static void check_job(job j, unsigned kinds) {
    fill(&j);
    for (qn_isa isa = QN_ISA_NEON; isa <= best; isa++) {
        const qn_kernels *table = qn_kernels_get(QN_F32, isa);
        if (strcmp(table->name, qn_isa_name(isa)) != 0)
            continue;
        float *wanted = run(&j, table, 1, NULL);
        for (int threads = 1; threads <= MAX_TEAM; threads += MAX_TEAM - 1) {
            uint64_t key;
            CHECK(ask(&j, table, threads, &key) == kinds);
            check_cuts(&j, table, threads, wanted);
        }
        free(wanted);
    }
    empty(&j);
}

static qn_conv2d_shape square(int64_t n, int64_t size, int64_t c, int64_t k, int64_t taps,
                              int64_t stride) {
    const int64_t out = (size + taps / 2 * 2 - taps) / stride + 1;
    return (qn_conv2d_shape){.n = n,
                             .h = size,
                             .w = size,
                             .c = c,
                             .k = k,
                             .r = taps,
                             .s = taps,
                             .p = out,
                             .q = out,
                             .stride_h = stride,
                             .stride_w = stride,
                             .pad_top = taps / 2,
                             .pad_left = taps / 2,
                             .dilation_h = 1,
                             .dilation_w = 1,
                             .groups = 1};
}

static const unsigned by_rows = 1u << QN_TILING_COLUMNS | 1u << QN_TILING_FETCH,
                      by_panels = by_rows | 1u << QN_TILING_SPLIT | 1u << QN_TILING_ROWS,
                      any_way = by_panels | 1u << QN_TILING_WAY;

/* Products alone: an empty table of rules. */
static void test_convolutions(void) {
    static const qn_rules none = {0};
    const qn_conv2d_shape shapes[] = {
        square(2, 9, 40, 72, 3, 1),   /* gathered, two K-blocks */
        square(3, 7, 300, 48, 1, 1),  /* straight from memory */
        square(1, 6, 24, 600, 3, 1),  /* few pixels: swapped */
        square(16, 8, 8, 1200, 1, 1), /* strips of columns */
        square(2, 9, 20, 36, 3, 2),   /* phases */
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        job j = {.conv = shapes[i], .has_bias = i % 2 == 0};
        j.conv.rules = &none;
        check_job(j, any_way);
        j.pass = QN_CONV2D_BACKWARD_DATA;
        check_job(j, any_way);
        j.pass = QN_CONV2D_BACKWARD_FILTER;
        check_job(j, by_rows);
    }
    job grouped = {.conv = square(2, 6, 32, 48, 3, 1)};
    grouped.conv.groups = 2;
    check_job(grouped, by_panels);
    grouped.conv.groups = 32;
    grouped.conv.k = 32;
    check_job(grouped, 0);
}

/* By the built-in rules. */
static void test_algorithms(void) {
    job j = {.conv = square(4, 20, 32, 32, 3, 1), .has_bias = true};
    check_job(j, 1u << QN_TILING_TILES);
    j.pass = QN_CONV2D_BACKWARD_DATA;
    check_job(j, 1u << QN_TILING_TILES);
    j.pass = QN_CONV2D_BACKWARD_FILTER;
    check_job(j, 0);
    j.conv = square(5, 24, 64, 40, 1, 1); /* chunks */
    check_job(j, by_rows);
}

static void test_matrix_products(void) {
    static const int64_t sizes[][3] = {
        {5, 700, 300}, {130, 96, 520}, {200, 40, 64}, {700, 560, 90}, {1, 33, 17}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        qn_gemm_shape g = {.m = sizes[i][0], .n = sizes[i][1], .k = sizes[i][2]};
        check_job((job){.gemm = g, .has_bias = true}, any_way);
        g.transpose_b = true;
        check_job((job){.gemm = g, .has_bias = i % 2 == 0}, any_way);
        g.transpose_b = false;
        g.transpose_a = true;
        check_job((job){.gemm = g}, by_rows);
    }
    /* One output pixel that sees all of the image is a matrix product. */
    job whole = {.conv = square(6, 4, 20, 30, 4, 1), .pass = QN_CONV2D_BACKWARD_DATA};
    whole.conv.p = whole.conv.q = 1;
    whole.conv.pad_top = whole.conv.pad_left = 0;
    check_job(whole, any_way);
}

static uint64_t key_of(qn_conv2d_shape d, int n_threads) {
    return qn_tiling_key_conv2d(&d, QN_CONV2D_FORWARD, QN_ALGORITHM_PRODUCT, n_threads);
}

static void test_keys(void) {
    const qn_conv2d_shape d = square(8, 9, 40, 72, 3, 1);
    qn_conv2d_shape piece = d, other = d;
    piece.n = 2;
    piece.batch = 8;
    piece.y_stride = 100;
    piece.add = true;
    CHECK(key_of(d, 2) == key_of(piece, 2) && key_of(d, 2) != key_of(d, 1));
    piece.batch = 4;
    CHECK(key_of(d, 2) != key_of(piece, 2));
    other.h = 10;
    CHECK(key_of(d, 2) != key_of(other, 2));
    CHECK(key_of(d, 2) !=
          qn_tiling_key_conv2d(&d, QN_CONV2D_BACKWARD_DATA, QN_ALGORITHM_PRODUCT, 2));
    CHECK(key_of(d, 2) != qn_tiling_key_conv2d(&d, QN_CONV2D_FORWARD, QN_ALGORITHM_WINOGRAD, 2));
    const qn_gemm_shape g = {.m = 3, .n = 4, .k = 5}, turned = {.m = 4, .n = 3, .k = 5};
    CHECK(qn_tiling_key_gemm(&g, 1) != qn_tiling_key_gemm(&turned, 1));
}

static void test_table(void) {
    qn_tiling_entry entries[] = {{2, {{1}}}, {5, {{2}}}, {9, {{3}}}};
    const qn_tilings tilings = {.n = 3, .entries = entries}, none = {0};
    qn_tiling tiling;
    for (uint64_t key = 0; key < 12; key++) {
        const bool is_there = key == 2 || key == 5 || key == 9;
        CHECK(qn_tilings_has(&tilings, key) == is_there && !qn_tilings_has(&none, key));
        CHECK(qn_tilings_take(&tilings, key, any_way, &tiling));
        CHECK(tiling.kinds[QN_TILING_WAY] == (is_there ? (key + 1) / 3 : 0));
        CHECK(qn_tilings_take(NULL, key, any_way, &tiling) && tiling.kinds[QN_TILING_WAY] == 0);
    }
    CHECK(qn_tilings_place(&tilings, 1) == 0 && qn_tilings_place(&tilings, 3) == 1 &&
          qn_tilings_place(&tilings, 10) == 3);
}

int main(void) {
    CHECK_OK(qn_cpu_isa(&best));
    for (int i = 0; i < MAX_TEAM; i++) {
        if (qn_team_create(NULL, i + 1, &teams[i]) != QN_OK)
            abort();
    }
    test_table();
    test_keys();
    test_convolutions();
    test_algorithms();
    test_matrix_products();
    for (int i = 0; i < MAX_TEAM; i++)
        qn_team_destroy(teams[i]);
    return checks_finish();
}
