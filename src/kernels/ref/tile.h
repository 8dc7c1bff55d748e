/* The reference's tile of sums in short vectors: what its products are made of. */
#ifndef QN_KERNELS_REF_TILE_H
#define QN_KERNELS_REF_TILE_H

#include "kernels/ref/real.h"

typedef real lanes __attribute__((vector_size(16), aligned(sizeof(real)), may_alias));
enum {
    LANES = 16 / sizeof(real),
    MR = 4,
    NV = 2,
    NR = NV * LANES,
    DEPTH_BLOCK = 256,
};

/* sums (MR, NR) of a[i][p * a_step] * b[p * b_row + j] over p < depth, in blocks of the depth; with
 * add they are added to what is there. */
static void sum_tile(int64_t depth, const real *const a[MR], int64_t a_stride, const real *b,
                     int64_t b_row, bool add, real *sums) {
    const real *a0 = a[0], *a1 = a[1], *a2 = a[2], *a3 = a[3];
    lanes total[MR][NV] = {{{0}}};
    for (int i = 0; add && i < MR; i++) {
        total[i][0] = *(const lanes *)(sums + i * NR);
        total[i][1] = *(const lanes *)(sums + i * NR + LANES);
    }
    for (int64_t block = 0; block < depth; block += DEPTH_BLOCK) {
        lanes acc[MR][NV] = {{{0}}};
        for (int64_t p = block; p < min_int(depth, block + DEPTH_BLOCK); p++) {
            const lanes b0 = *(const lanes *)(b + p * b_row);
            const lanes b1 = *(const lanes *)(b + p * b_row + LANES);
            const int64_t at = p * a_stride;
            acc[0][0] += a0[at] * b0;
            acc[0][1] += a0[at] * b1;
            acc[1][0] += a1[at] * b0;
            acc[1][1] += a1[at] * b1;
            acc[2][0] += a2[at] * b0;
            acc[2][1] += a2[at] * b1;
            acc[3][0] += a3[at] * b0;
            acc[3][1] += a3[at] * b1;
        }
        for (int i = 0; i < MR; i++) {
            total[i][0] += acc[i][0];
            total[i][1] += acc[i][1];
        }
    }
    for (int i = 0; i < MR; i++) {
        *(lanes *)(sums + i * NR) = total[i][0];
        *(lanes *)(sums + i * NR + LANES) = total[i][1];
    }
}

#endif
