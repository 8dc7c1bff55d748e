/* Products and convolutions of bf16 for one instruction set, by the tiles, windows and tasks of the
 * whole numbers (integer/windows.h to integer/winograd.h): a word is a pair of bf16, a sum f32. A
 * file of a set defines VL, TILE_ROWS, TILE_VECTORS, TABLE, TABLE_NAME, the types and functions
 * that rounded.h and float_tiles.h use, and `dot_pairs`, and includes this.
 *
 * Sums are chains over blocks of K, whose borders depend on the shape of a sample alone; those of a
 * filter's gradient are of whole samples, or parts of one. What fills no lanes (depthwise, few
 * channels in a group) is left to the float kernels. */
#include "kernels/half.h"

#include <string.h>

#define NUMBERS      2
#define OFFSET       0
#define IS_FLOAT     1
#define STORED_BYTES 2
#define HAS_PAIRS
#define TILES_FILE "kernels/half/float_tiles.h"

enum {
    COLUMNS = VL * TILE_VECTORS,
    BLOCK_BYTES = 192 * 1024, /* of packed A, which stays in the second cache */
    DEPTH = 4096,             /* numbers of K that are packed at once; part of what a result is */
    PIXELS = 1024,            /* the same, where both sides are packed for it */
    ROWS = 16 * TILE_ROWS,    /* of A at most in a task */
};

typedef uint32_t sizes __attribute__((vector_size(VL * 4), may_alias));
typedef float total;
typedef uint16_t stored, element;
typedef qn_half_result outcome;

static inline __attribute__((always_inline)) vector dot(vector sums, lane_words a, lane_words b);

#include "kernels/integer/windows.h"

#include "kernels/half/rounded.h"

#include "kernels/integer/tasks.h"

#include "kernels/integer/convolutions.h"

static inline __attribute__((always_inline)) vector dot(vector sums, lane_words a, lane_words b) {
    return dot_pairs(sums, a, b);
}

/* ---- the kernels ---- */

static bool is_left(const qn_conv2d_shape *d) {
    return d->groups > 1 && (d->c / d->groups < 16 || d->k / d->groups < 16);
}

static size_t aligned_bytes(int64_t floats) {
    return ((size_t)floats * sizeof(float) + 63) / 64 * 64;
}

/* Sums of several blocks of K need a place until the last of them rounds them: floats of it. */
static int64_t gemm_floats(const qn_gemm_shape *d) {
    return d->k > DEPTH ? d->m * d->n : 0;
}

static int64_t conv2d_floats(const qn_conv2d_shape *d, qn_conv2d_pass pass) {
    if (pass == QN_CONV2D_BACKWARD_FILTER || !windows_keep(d, pass))
        return 0;
    return pass == QN_CONV2D_FORWARD ? d->n * d->p * d->q * step_of(d) : d->n * d->h * d->w * d->c;
}

/* With that place, of the workspace; the rest of which is at *space. */
static outcome with_place(const qn_half_result *y, int64_t floats, void *workspace, void **space) {
    outcome own = *y;
    *space = (char *)workspace + aligned_bytes(floats);
    if (floats > 0 && y->halves)
        own.sums = workspace;
    return own;
}

static void gemm(const qn_halves *how, qn_team *team, const qn_gemm_shape *d, const uint16_t *a,
                 const uint16_t *b, const qn_half_result *y, void *workspace) {
    void *space;
    (void)how;
    const outcome own = with_place(y, gemm_floats(d), workspace, &space);
    run_gemm(team, d, a, b, &own, space);
}

static size_t gemm_workspace(const qn_halves *how, const qn_gemm_shape *d, int n_threads) {
    (void)how;
    return aligned_bytes(gemm_floats(d)) + product_bytes(d->m, d->n, d->k, n_threads, true);
}

static int64_t gemm_chunk(const qn_halves *how) {
    (void)how;
    return DEPTH;
}

static void conv2d_forward(const qn_halves *how, qn_team *team, const qn_conv2d_shape *d,
                           const uint16_t *x, const uint16_t *w, const qn_half_result *y,
                           void *workspace) {
    void *space;
    if (is_left(d)) {
        qn_half_wide.conv2d_forward(how, team, d, x, w, y, workspace);
        return;
    }
    const outcome own = with_place(y, conv2d_floats(d, QN_CONV2D_FORWARD), workspace, &space);
    run_forward(team, d, x, w, &own, space);
}

static void conv2d_backward_data(const qn_halves *how, qn_team *team, const qn_conv2d_shape *d,
                                 const uint16_t *dy, const uint16_t *w, const qn_half_result *dx,
                                 void *workspace) {
    void *space;
    if (is_left(d)) {
        qn_half_wide.conv2d_backward_data(how, team, d, dy, w, dx, workspace);
        return;
    }
    const outcome own =
        with_place(dx, conv2d_floats(d, QN_CONV2D_BACKWARD_DATA), workspace, &space);
    run_data(team, d, dy, w, &own, space);
}

static void conv2d_backward_filter(const qn_halves *how, qn_team *team, const qn_conv2d_shape *d,
                                   const uint16_t *x, const uint16_t *dy, const qn_half_result *dw,
                                   void *workspace) {
    if (is_left(d))
        qn_half_wide.conv2d_backward_filter(how, team, d, x, dy, dw, workspace);
    else
        run_filter(team, d, x, dy, dw, workspace);
}

static size_t conv2d_workspace(const qn_halves *how, const qn_conv2d_shape *d, qn_conv2d_pass pass,
                               int n_threads) {
    if (is_left(d))
        return qn_half_wide.conv2d_workspace(how, d, pass, n_threads);
    return aligned_bytes(conv2d_floats(d, pass)) + windows_workspace(d, pass, n_threads);
}

/* Samples whose tiles are summed in one round. */
static int64_t round_samples(const tiling *t) {
    return most(1, 2 * t->pairs / (t->tiles_h * t->tiles_w));
}

static int64_t conv2d_filter_chunk(const qn_halves *how, const qn_conv2d_shape *d) {
    if (is_left(d))
        return qn_half_wide.conv2d_filter_chunk(how, d);
    if (is_tiled(d, QN_CONV2D_BACKWARD_FILTER)) {
        const tiling t = tiling_of(d, QN_CONV2D_BACKWARD_FILTER, 1);
        return round_samples(&t);
    }
    return most(1, PIXELS / (d->p * d->q));
}

/* ---- what the processor can do at most ---- */

/* Sums as in a tile, of words in registers, which the compiler knows nothing of. */
static float peak(int64_t rounds) {
    vector sums[TILE_ROWS * TILE_VECTORS];
    lane_words a = {0}, b = {0};
    __asm__("" : "+v"(a), "+v"(b));
#pragma GCC unroll 32
    for (int i = 0; i < TILE_ROWS * TILE_VECTORS; i++)
        sums[i] = (vector){0};
    for (int64_t round = 0; round < rounds; round++) {
#pragma GCC unroll 32
        for (int i = 0; i < TILE_ROWS * TILE_VECTORS; i++) {
            __asm__("" : "+v"(a));
            sums[i] = dot(sums[i], a, b);
        }
    }
    for (int i = 1; i < TILE_ROWS * TILE_VECTORS; i++)
        sums[0] += sums[i];
    return sums[0][0];
}

const qn_half_kernels TABLE = {
    .name = TABLE_NAME,
    .peak = peak,
    .peak_operations = INT64_C(2) * TILE_ROWS * TILE_VECTORS * VL * NUMBERS,
    .gemm = gemm,
    .gemm_workspace = gemm_workspace,
    .gemm_chunk = gemm_chunk,
    .conv2d_forward = conv2d_forward,
    .conv2d_backward_data = conv2d_backward_data,
    .conv2d_backward_filter = conv2d_backward_filter,
    .conv2d_workspace = conv2d_workspace,
    .conv2d_filter_chunk = conv2d_filter_chunk,
};
