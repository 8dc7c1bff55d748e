/* The float micro-kernel in the compilers' vector extensions: a tile of sums stays in registers
 * while rows of B pass through, each multiplied by broadcast elements of A. A file of an
 * instruction set defines TILES (the name of its set) and includes config.h (VL, TILE_ROWS,
 * TILE_VECTORS) and this. With the others that tile.c includes it is the only code
 * compiled with -ffp-contract=fast: every sum in them is meant to be fused. */
#include "kernels/vector/depthwise_rows.h"

#include <stddef.h>

enum {
    STEPS_AT_A_TIME = VL == 4 ? 4 : 1,
    FAR = 256, /* floats that far rows of A are fetched ahead, a line of one of them in each step */
};

/* What a tile fetches for those after it. */
typedef enum fetching { NOTHING, THE_ROWS, THE_NEXT } fetching;

/* The addresses of A's rows, where these are contiguous, are written as four bases and twice one
 * distance, so that they fit in the processor's registers. */
static inline __attribute__((always_inline)) void
tile_body(bool columns, fetching fetch, const float *next, int64_t next_row, int nv, int m,
          uint64_t depth, const float *a, int64_t a_stride, const float *b, int64_t b_row, float *c,
          int64_t c_row, bool add) {
    vector sums[TILE_ROWS][TILE_VECTORS];
#pragma GCC unroll 16
    for (int i = 0; i < m; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            sums[i][j] = (vector){0};
    }
    const float *base[4] = {a, a + 3 * a_stride, a + 6 * a_stride, a + 9 * a_stride};
    /* Short vectors are multiplied by one lane of another: rows of A are loaded by the vector. */
    const bool by_lane = columns && VL == 4 && m % VL == 0;
#pragma GCC unroll STEPS_AT_A_TIME
    for (uint64_t p = 0; p < depth; p++) {
        vector row[TILE_VECTORS], lanes[TILE_ROWS / VL + 1];
        for (int j = 0; fetch == THE_NEXT && j < nv * VL; j += LINE_FLOATS)
            __builtin_prefetch(next + j, 0, 2);
        next += next_row;
        if (fetch == THE_ROWS)
            __builtin_prefetch(a + p % LINE_FLOATS * a_stride + p / LINE_FLOATS * LINE_FLOATS + FAR,
                               0, 2);
        if (by_lane) {
#pragma GCC unroll 4
            for (int i = 0; i < m / VL; i++)
                lanes[i] = load(a + i * VL);
        }
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            row[j] = *(const vector *)(b + j * VL);
#pragma GCC unroll 16
        for (int i = 0; i < m; i++) {
            const float scalar = by_lane   ? lanes[i / VL][i % VL]
                                 : columns ? a[i]
                                           : base[i / 3][i % 3 * a_stride];
#pragma GCC unroll 4
            for (int j = 0; j < nv; j++)
                sums[i][j] += row[j] * scalar;
        }
        b += b_row;
        if (columns) {
            a += a_stride;
        } else {
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++)
                base[i]++;
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < m; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++) {
            vector *to = (vector *)(c + i * c_row + j * VL);
            *to = add ? (vector)(*to + sums[i][j]) : sums[i][j];
        }
    }
}

#define TILE(COLUMNS, NV, M)                                                                       \
    static void tile_##COLUMNS##_##NV##_##M(int64_t depth, const float *a, int64_t a_stride,       \
                                            const float *b, int64_t b_row, float *c,               \
                                            int64_t c_row, bool add) {                             \
        if (VL == 4 && (COLUMNS) && a_stride == TILE_ROWS && b_row == (NV)*VL)                     \
            tile_body(COLUMNS, NOTHING, NULL, 0, NV, M, (uint64_t)depth, a, TILE_ROWS, b, (NV)*VL, \
                      c, c_row, add);                                                              \
        else                                                                                       \
            tile_body(COLUMNS, NOTHING, NULL, 0, NV, M, (uint64_t)depth, a, a_stride, b, b_row, c, \
                      c_row, add);                                                                 \
    }
#define NAME(COLUMNS, NV, M) tile_##COLUMNS##_##NV##_##M,

#if TILE_ROWS == 12
#define EACH_ROWS(F, COLUMNS, NV)                                                                  \
    F(COLUMNS, NV, 1)                                                                              \
    F(COLUMNS, NV, 2)                                                                              \
    F(COLUMNS, NV, 3)                                                                              \
    F(COLUMNS, NV, 4)                                                                              \
    F(COLUMNS, NV, 5)                                                                              \
    F(COLUMNS, NV, 6)                                                                              \
    F(COLUMNS, NV, 7)                                                                              \
    F(COLUMNS, NV, 8) F(COLUMNS, NV, 9) F(COLUMNS, NV, 10) F(COLUMNS, NV, 11) F(COLUMNS, NV, 12)
#elif TILE_ROWS == 8
#define EACH_ROWS(F, COLUMNS, NV)                                                                  \
    F(COLUMNS, NV, 1)                                                                              \
    F(COLUMNS, NV, 2)                                                                              \
    F(COLUMNS, NV, 3)                                                                              \
    F(COLUMNS, NV, 4) F(COLUMNS, NV, 5) F(COLUMNS, NV, 6) F(COLUMNS, NV, 7) F(COLUMNS, NV, 8)
#elif TILE_ROWS == 6
#define EACH_ROWS(F, COLUMNS, NV)                                                                  \
    F(COLUMNS, NV, 1)                                                                              \
    F(COLUMNS, NV, 2) F(COLUMNS, NV, 3) F(COLUMNS, NV, 4) F(COLUMNS, NV, 5) F(COLUMNS, NV, 6)
#endif

EACH_ROWS(TILE, 0, 1)
EACH_ROWS(TILE, 0, 2)
EACH_ROWS(TILE, 1, 1)
EACH_ROWS(TILE, 1, 2)
#if TILE_VECTORS == 3
EACH_ROWS(TILE, 0, 3)
EACH_ROWS(TILE, 1, 3)
#endif

const qn_tile_set TILES = {
    {
        {EACH_ROWS(NAME, 0, 1)},
        {EACH_ROWS(NAME, 0, 2)},
#if TILE_VECTORS == 3
        {EACH_ROWS(NAME, 0, 3)},
#endif
    },
    {
        {EACH_ROWS(NAME, 1, 1)},
        {EACH_ROWS(NAME, 1, 2)},
#if TILE_VECTORS == 3
        {EACH_ROWS(NAME, 1, 3)},
#endif
    },
};

#define FAR_TILE(NV)                                                                               \
    static void far_tile_##NV(int64_t depth, const float *a, int64_t a_stride, const float *b,     \
                              int64_t b_row, float *c, int64_t c_row, bool add) {                  \
        tile_body(false, THE_ROWS, NULL, 0, NV, TILE_ROWS, (uint64_t)depth, a, a_stride, b, b_row, \
                  c, c_row, add);                                                                  \
    }
FAR_TILE(1)
FAR_TILE(2)
#if TILE_VECTORS == 3
FAR_TILE(3)
#endif

const qn_far_tiles FAR_TILES = {
    far_tile_1,
    far_tile_2,
#if TILE_VECTORS == 3
    far_tile_3,
#endif
};

#define NEXT_TILE(NAME, COLUMNS, M)                                                                \
    static void NAME(int64_t depth, const float *a, int64_t a_stride, const float *b,              \
                     int64_t b_row, float *c, int64_t c_row, bool add, const float *next,          \
                     int64_t next_row) {                                                           \
        tile_body(COLUMNS, THE_NEXT, next, next_row, TILE_VECTORS, M, (uint64_t)depth, a,          \
                  a_stride, b, b_row, c, c_row, add);                                              \
    }
NEXT_TILE(next_tile_0_4, false, 4)
NEXT_TILE(next_tile_0, false, TILE_ROWS)
NEXT_TILE(next_tile_1_4, true, 4)
NEXT_TILE(next_tile_1, true, TILE_ROWS)

const qn_next_tiles NEXT_TILES = {{next_tile_0_4, next_tile_0}, {next_tile_1_4, next_tile_1}};
