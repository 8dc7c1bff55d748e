/* Products with weights that are held as blocks: of every format and instruction set, forward and
 * to the data, they have the bits of the weight widened as a whole and multiplied by the same
 * table, whatever the team, from memory at odd addresses, within the workspace, which is the exact
 * size and holds NaN before. Rows by indices are those that are widened. */
#include "kernels/blocks.h"

#include "base/memory.h"
#include "base/rng.h"
#include "check.h"
#include "os/heap.h"

#include <stdlib.h>

enum { MAX_TEAM = 3, MOST_ROWS = 205 };

static qn_team *teams[MAX_TEAM];
static uint64_t drawn;

static uint32_t draw(uint32_t below) {
    return qn_rng_word(qn_rng_make(11, 1, 0), drawn++) % below;
}

static void *take(size_t bytes) {
    void *memory = NULL;
    if (posix_memalign(&memory, 64, bytes ? bytes : 1) != 0)
        abort();
    return memset(memory, 0xff, bytes);
}

static void *reals(qn_dtype real, int64_t n) {
    void *values = take((size_t)n * (real == QN_F64 ? 8 : 4));
    for (int64_t i = 0; i < n; i++) {
        const float value = (float)draw(4096) / 2048 - 1;
        if (real == QN_F64)
            ((double *)values)[i] = (double)value;
        else
            ((float *)values)[i] = value;
    }
    return values;
}

typedef struct job {
    const qn_kernels *kernels;
    qn_block_matrix w;
    int64_t n;
    size_t unit;
    void *x, *dy, *bias, *wide, *y, *dx; /* y and dx: of the widened weight */
    char *bytes;
} job;

/* Bytes below 64 in every place make no scale beyond the numbers. */
static job make_job(const qn_kernels *kernels, qn_blocks blocks, int64_t n, int64_t rows,
                    int64_t columns) {
    const int64_t row_bytes = qn_blocks_row_bytes(blocks, columns);
    job j = {.kernels = kernels, .n = n, .unit = kernels->real == QN_F64 ? 8 : 4};
    j.bytes = take((size_t)(rows * row_bytes) + 1);
    for (int64_t i = 1; i <= rows * row_bytes; i++)
        j.bytes[i] = (char)draw(64);
    j.w = (qn_block_matrix){blocks, rows, columns, j.bytes + 1};
    j.x = reals(kernels->real, n * columns);
    j.dy = reals(kernels->real, n * rows);
    j.bias = reals(kernels->real, rows);
    j.wide = take((size_t)(rows * columns) * j.unit);
    for (int64_t row = 0; row < rows; row++)
        qn_block_row_widen(kernels, &j.w, row, 0, columns,
                           (char *)j.wide + (size_t)(row * columns) * j.unit);
    j.y = take((size_t)(n * rows) * j.unit);
    j.dx = take((size_t)(n * columns) * j.unit);
    const qn_activation none = {QN_ACTIVATION_NONE, 0};
    const qn_gemm_shape forward = {.m = n, .n = rows, .k = columns, .transpose_b = true};
    const qn_gemm_shape backward = {.m = n, .n = columns, .k = rows};
    void *space = take(kernels->gemm_workspace(&forward, 1));
    kernels->gemm(NULL, &forward, j.x, j.wide, j.bias, none, j.y, space);
    free(space);
    space = take(kernels->gemm_workspace(&backward, 1));
    kernels->gemm(NULL, &backward, j.dy, j.wide, NULL, none, j.dx, space);
    free(space);
    return j;
}

static void free_job(job *j) {
    void *all[] = {j->x, j->dy, j->bias, j->wide, j->y, j->dx, j->bytes};
    for (int i = 0; i < 7; i++)
        free(all[i]);
}

static void check_bits(const job *j, const char *what, int threads, const void *found,
                       const void *wanted, int64_t n) {
    const bool is_same = memcmp(found, wanted, (size_t)n * j->unit) == 0;
    CHECK(is_same);
    if (!is_same)
        printf("%s of %s, %s, %lld x %lld x %lld, %d threads\n", what, qn_blocks_name(j->w.blocks),
               j->kernels->name, (long long)j->n, (long long)j->w.rows, (long long)j->w.columns,
               threads);
}

static void check_team(const job *j, int threads) {
    qn_team *team = teams[threads - 1];
    const int64_t n_y = j->n * j->w.rows, n_dx = j->n * j->w.columns;
    void *y = take((size_t)n_y * j->unit), *dx = take((size_t)n_dx * j->unit);
    void *space = take(qn_block_product_workspace(j->kernels, j->n, &j->w, threads));
    qn_block_product(j->kernels, team, j->n, j->x, &j->w, j->bias, y, space);
    check_bits(j, "y", threads, y, j->y, n_y);
    free(space);
    space = take(qn_block_product_data_workspace(j->kernels, j->n, &j->w, threads));
    qn_block_product_data(j->kernels, team, j->n, j->dy, &j->w, dx, space);
    check_bits(j, "dx", threads, dx, j->dx, n_dx);
    free(space);
    free(y);
    free(dx);
}

static void check_rows(const job *j) {
    const int32_t indices[] = {2, 0, -7, INT32_MAX, INT32_MIN, 2};
    const int64_t rows[] = {2, 0, 0, j->w.rows - 1, -1, 2}, c = j->w.columns;
    char *y = take(6 * (size_t)c * j->unit);
    qn_block_embedding(j->kernels, teams[2], 6, &j->w, indices, y);
    for (int i = 0; i < 6; i++) {
        char *row = y + (size_t)(i * c) * j->unit;
        if (rows[i] >= 0)
            check_bits(j, "a row", 3, row, (char *)j->wide + (size_t)(rows[i] * c) * j->unit, c);
        for (int64_t k = 0; rows[i] < 0 && k < c; k++)
            CHECK(j->unit == 8 ? isnan(((double *)(void *)row)[k])
                               : isnan(((float *)(void *)row)[k]));
    }
    free(y);
}

static void check_set(const qn_kernels *kernels) {
    static const int64_t shapes[][3] = {
        {1, 7, 256}, {3, 61, 512}, {70, 110, 512}, {MOST_ROWS, 50, 256}, {5, 270, 768}};
    for (int blocks = QN_BLOCKS_F32; blocks < QN_BLOCKS_COUNT; blocks++) {
        for (int i = 0; i < 5; i++) {
            if (i > 2 && blocks % 4 != 0) /* the tasks, which know no format */
                continue;
            const int64_t odd = qn_blocks_numbers((qn_blocks)blocks) == 1 ? 3 : 0;
            job j = make_job(kernels, (qn_blocks)blocks, shapes[i][0], shapes[i][1],
                             shapes[i][2] - odd);
            for (int threads = 1; threads <= MAX_TEAM; threads++)
                check_team(&j, threads);
            check_rows(&j);
            free_job(&j);
        }
    }
}

int main(void) {
    qn_isa best;
    CHECK_OK(qn_cpu_isa(&best));
    for (int i = 0; i < MAX_TEAM; i++)
        CHECK_OK(qn_team_create(qn_allocator_default(), i + 1, &teams[i]));
    for (int isa = QN_ISA_REF; isa <= (int)best; isa++) {
        const qn_kernels *kernels = qn_kernels_get(QN_F32, (qn_isa)isa);
        if (isa == QN_ISA_REF || kernels != qn_kernels_get(QN_F32, (qn_isa)(isa - 1)))
            check_set(kernels);
    }
    check_set(qn_kernels_get(QN_F64, QN_ISA_REF));
    for (int i = 0; i < MAX_TEAM; i++)
        qn_team_destroy(teams[i]);
    return checks_finish();
}
