/* Whole numbers on NEON: pairs of int16, multiplied to int32 and added in pairs. */
#include <arm_neon.h>

#define VL           4
#define TILE_ROWS    8
#define TILE_VECTORS 2
#define NUMBERS      2
#define OFFSET       0
#define TABLE        qn_integer_neon
#define SET          QN_ISA_NEON
#define TABLE_NAME   "neon"

#include "kernels/integer/engine.h"

static inline vector dot(vector sums, vector a, vector b) {
    const int16x8_t x = vreinterpretq_s16_s32((int32x4_t)a);
    const int16x8_t y = vreinterpretq_s16_s32((int32x4_t)b);
    return sums +
           (vector)vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y));
}
