/* The micro-kernel for products of up to four rows of A with a B (N, K), read along its rows where
 * it lies. A vector holds four sums, one a row of A, for each of VL / 4 rows of B; so all lanes
 * work, where tile.h would leave most of them empty. Whole vectors of B's rows are loaded, so that
 * a line is touched once: rows that are a power of two apart would drive each other out. Compiled
 * with -ffp-contract=fast, as tile.h. */
#include "kernels/vector/depthwise_rows.h"

typedef float quad __attribute__((vector_size(16), aligned(4), may_alias));

enum { QUADS = VL / 4, QUAD_ROWS = QN_QUAD_GROUPS * QUADS };

#if VL == 16
#define SAME(k)                                                                                    \
    k, k, k, k, 4 + (k), 4 + (k), 4 + (k), 4 + (k), 8 + (k), 8 + (k), 8 + (k), 8 + (k), 12 + (k),  \
        12 + (k), 12 + (k), 12 + (k)
#define LOW(x, y)                                                                                  \
    __builtin_shufflevector(x, y, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)
#define HIGH(x, y)                                                                                 \
    __builtin_shufflevector(x, y, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31)
#define EVEN(x, y)                                                                                 \
    __builtin_shufflevector(x, y, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27)
#define ODD(x, y)                                                                                  \
    __builtin_shufflevector(x, y, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31)
#elif VL == 8
#define SAME(k)    k, k, k, k, 4 + (k), 4 + (k), 4 + (k), 4 + (k)
#define LOW(x, y)  __builtin_shufflevector(x, y, 0, 1, 2, 3, 8, 9, 10, 11)
#define HIGH(x, y) __builtin_shufflevector(x, y, 4, 5, 6, 7, 12, 13, 14, 15)
#else
#define SAME(k) k, k, k, k
#endif

/* turned[s] holds elements [4 s, 4 s + 4) of each of the VL / 4 rows, after one another. */
static inline __attribute__((always_inline)) void turn_quads(const float *const *rows, int64_t p,
                                                             vector *turned) {
#if VL == 16
    const vector a = load(rows[0] + p), b = load(rows[1] + p);
    const vector c = load(rows[2] + p), d = load(rows[3] + p);
    const vector ab_low = LOW(a, b), ab_high = HIGH(a, b);
    const vector cd_low = LOW(c, d), cd_high = HIGH(c, d);
    turned[0] = EVEN(ab_low, cd_low);
    turned[1] = ODD(ab_low, cd_low);
    turned[2] = EVEN(ab_high, cd_high);
    turned[3] = ODD(ab_high, cd_high);
#elif VL == 8
    const vector a = load(rows[0] + p), b = load(rows[1] + p);
    turned[0] = LOW(a, b);
    turned[1] = HIGH(a, b);
#else
    turned[0] = load(rows[0] + p);
#endif
}

#define ADD_ELEMENT(K)                                                                             \
    do {                                                                                           \
        const vector four = load(a + (4 * s + (K)) * VL);                                          \
        _Pragma("GCC unroll 8") for (int g = 0; g < QN_QUAD_GROUPS; g++) sums[g] +=                \
            __builtin_shufflevector(turned[g][s], turned[g][s], SAME(K)) * four;                   \
    } while (0)

void QUAD_TILE(int64_t depth, const float *a, const float *b, int64_t b_row, int64_t rows,
               int64_t next, float *c, bool add) {
    const float *row[QUAD_ROWS];
    vector sums[QN_QUAD_GROUPS], turned[QN_QUAD_GROUPS][QUADS];
    int64_t p = 0;
    for (int i = 0; i < QUAD_ROWS; i++)
        row[i] = b + (i < rows ? i : rows - 1) * b_row;
    for (int g = 0; g < QN_QUAD_GROUPS; g++)
        sums[g] = (vector){0};
    for (; p + VL <= depth; p += VL, a += VL * VL) {
        for (int i = 0; i < QUAD_ROWS; i++)
            __builtin_prefetch(row[i] + next + p, 0, 3);
#pragma GCC unroll 8
        for (int g = 0; g < QN_QUAD_GROUPS; g++)
            turn_quads(row + g * QUADS, p, turned[g]);
#pragma GCC unroll 4
        for (int s = 0; s < QUADS; s++) {
            ADD_ELEMENT(0);
            ADD_ELEMENT(1);
            ADD_ELEMENT(2);
            ADD_ELEMENT(3);
        }
    }
    for (; p < depth; p++, a += VL) {
        float elements[QUAD_ROWS * 4];
#pragma GCC unroll 1
        for (int i = 0; i < QUAD_ROWS; i++)
            *(quad *)(elements + 4 * i) = (quad){row[i][p], row[i][p], row[i][p], row[i][p]};
#pragma GCC unroll 4
        for (int g = 0; g < QN_QUAD_GROUPS; g++)
            sums[g] += load(elements + g * VL) * load(a);
    }
    for (int g = 0; g < QN_QUAD_GROUPS; g++) {
        vector *to = (vector *)(c + g * VL);
        *to = add ? (vector)(*to + sums[g]) : sums[g];
    }
}
