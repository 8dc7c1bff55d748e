/* Whole numbers on NEON with dot products: signed int8, four of them in a lane. */
#include <arm_neon.h>

#define VL           4
#define TILE_ROWS    8
#define TILE_VECTORS 2
#define NUMBERS      4
#define OFFSET       0
#define TABLE        qn_integer_dotprod
#define SET          QN_ISA_NEON
#define TABLE_NAME   "dotprod"

#include "kernels/integer/engine.h"

static inline vector dot(vector sums, vector a, vector b) {
    return (vector)vdotq_s32((int32x4_t)sums, vreinterpretq_s8_s32((int32x4_t)a),
                             vreinterpretq_s8_s32((int32x4_t)b));
}
