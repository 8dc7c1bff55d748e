/* Products and convolutions of int8 for one instruction set. A file of a set defines VL (lanes of
 * 32 bits), TILE_ROWS (6 to 12), TILE_VECTORS, NUMBERS, OFFSET, TABLE, TABLE_NAME, SET and `dot`,
 * and includes this.
 *
 * Sums are over words of 32 bits: NUMBERS = 4 int8, or 2 int16 where only those can be multiplied
 * exactly. A tile broadcasts words of A and multiplies them by vectors of words of B, whose panels
 * are (words, COLUMNS). Where a set multiplies unsigned by signed numbers, A's are packed with
 * OFFSET 128 added, and sums start with what that is too much: minus 128 times a column of B.
 * Sums are exact, so that tasks may depend on the size of the team. */
#include "kernels/integer/pool.h"
#include "kernels/integer/rows.h"
#include "kernels/integer_tables.h"

#include <string.h>

#if defined(__x86_64__)
#define VECTOR_REGISTER(x) "v"(x)
#else
#define VECTOR_REGISTER(x) "w"(x)
#endif

#define IS_FLOAT     0
#define STORED_BYTES 1
#define TILES_FILE   "kernels/integer/exact_tiles.h"

enum {
    COLUMNS = VL * TILE_VECTORS,
    BLOCK_BYTES = 192 * 1024, /* of packed A, which stays in the second cache */
    DEPTH = 4096,             /* numbers of K that are packed at once */
    PIXELS = 1024,            /* the same, where both sides are packed for it */
    ROWS = 16 * TILE_ROWS,    /* of A at most in a task */
    FILTER_PANELS = 4,        /* of B in a task of the filter's gradient */
};

typedef int32_t word __attribute__((may_alias));
typedef int32_t total;
typedef int32_t vector __attribute__((vector_size(VL * 4), may_alias, aligned(4)));
typedef vector lane_words;
typedef uint32_t sizes __attribute__((vector_size(VL * 4), may_alias));
typedef int8_t stored;
typedef qn_integer_result outcome;
#if NUMBERS == 4
typedef int8_t element;
#else
typedef int16_t element;
#endif

static inline __attribute__((always_inline)) vector dot(vector sums, vector a, vector b);

#include "kernels/integer/windows.h"

#include "kernels/integer/shifted.h"

#include "kernels/integer/tasks.h"

#include "kernels/integer/convolutions.h"

#include "kernels/integer/depthwise.h"

/* ---- the kernels ---- */

/* Groups of few channels fill no lanes. */
static bool is_thin(const qn_conv2d_shape *d) {
    return d->groups > 1 && d->c / d->groups < 4;
}

static void gemm(qn_team *team, const qn_gemm_shape *d, const int8_t *a, const int8_t *b,
                 const qn_integer_result *y, void *workspace) {
    run_gemm(team, d, a, b, y, workspace);
}

static size_t gemm_workspace(const qn_gemm_shape *d, int n_threads) {
    return product_bytes(d->m, d->n, d->k, n_threads, true);
}

static bool gemm_keeps(const qn_gemm_shape *d) {
    return d->k > DEPTH;
}

static void conv2d_forward(qn_team *team, const qn_conv2d_shape *d, const int8_t *x,
                           const int8_t *w, const qn_integer_result *y, void *workspace) {
    if (is_depthwise(d))
        run_depthwise(team, d, QN_CONV2D_FORWARD, x, w, y, workspace);
    else if (is_thin(d))
        qn_integer_ref.conv2d_forward(team, d, x, w, y, workspace);
    else
        run_forward(team, d, x, w, y, workspace);
}

static void conv2d_backward_data(qn_team *team, const qn_conv2d_shape *d, const int8_t *dy,
                                 const int8_t *w, const qn_integer_result *dx, void *workspace) {
    if (is_depthwise(d))
        run_depthwise(team, d, QN_CONV2D_BACKWARD_DATA, dy, w, dx, workspace);
    else if (is_thin(d))
        qn_integer_ref.conv2d_backward_data(team, d, dy, w, dx, workspace);
    else
        run_data(team, d, dy, w, dx, workspace);
}

static void conv2d_backward_filter(qn_team *team, const qn_conv2d_shape *d, const int8_t *x,
                                   const int8_t *dy, const qn_integer_result *dw, void *workspace) {
    if (is_depthwise(d))
        run_depthwise(team, d, QN_CONV2D_BACKWARD_FILTER, x, dy, dw, workspace);
    else if (is_thin(d))
        qn_integer_ref.conv2d_backward_filter(team, d, x, dy, dw, workspace);
    else
        run_filter(team, d, x, dy, dw, workspace);
}

static size_t conv2d_workspace(const qn_conv2d_shape *d, qn_conv2d_pass pass, int n_threads) {
    return is_depthwise(d) ? depthwise_workspace(d, pass, n_threads)
                           : windows_workspace(d, pass, n_threads);
}

static bool conv2d_keeps(const qn_conv2d_shape *d, qn_conv2d_pass pass) {
    return !is_depthwise(d) && !is_thin(d) && windows_keep(d, pass);
}

/* ---- what the processor can do at most ---- */

/* Sums as in a tile, of words in registers, which the compiler knows nothing of. */
static int32_t peak(int64_t rounds) {
    vector sums[TILE_ROWS * TILE_VECTORS], a = {0}, b = {0};
    __asm__("" : "+" VECTOR_REGISTER(a), "+" VECTOR_REGISTER(b));
#pragma GCC unroll 32
    for (int i = 0; i < TILE_ROWS * TILE_VECTORS; i++)
        sums[i] = (vector){0} + i;
    for (int64_t round = 0; round < rounds; round++) {
#pragma GCC unroll 32
        for (int i = 0; i < TILE_ROWS * TILE_VECTORS; i++) {
            __asm__("" : "+" VECTOR_REGISTER(a));
            sums[i] = dot(sums[i], a, b);
        }
    }
    for (int i = 1; i < TILE_ROWS * TILE_VECTORS; i++)
        sums[0] += sums[i];
    return sums[0][0];
}

const qn_integer_kernels TABLE = {
    .name = TABLE_NAME,
    .isa = SET,
    .peak = peak,
    .peak_operations = INT64_C(2) * TILE_ROWS * TILE_VECTORS * VL * NUMBERS,
    .gemm = gemm,
    .gemm_workspace = gemm_workspace,
    .conv2d_forward = conv2d_forward,
    .conv2d_backward_data = conv2d_backward_data,
    .conv2d_backward_filter = conv2d_backward_filter,
    .conv2d_workspace = conv2d_workspace,
    .max_pool = int8_max_pool,
    .max_pool_backward = int8_max_pool_backward,
    .gemm_keeps = gemm_keeps,
    .conv2d_keeps = conv2d_keeps,
    .rows = QN_ROWS,
};
