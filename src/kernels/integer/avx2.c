/* Whole numbers on AVX2: pairs of int16, whose products are summed exactly. (The product of
 * unsigned and signed int8 saturates.) */
#include <immintrin.h>

#define VL           8
#define TILE_ROWS    6
#define TILE_VECTORS 2
#define NUMBERS      2
#define OFFSET       0
#define TABLE        qn_integer_avx2
#define SET          QN_ISA_AVX2
#define TABLE_NAME   "avx2"

#define HAS_PAIRS

#include "kernels/integer/engine.h"

static inline vector dot(vector sums, vector a, vector b) {
    return sums + (vector)_mm256_madd_epi16((__m256i)a, (__m256i)b);
}

/* Modulo 2^32. */
static inline vector dot_pairs(vector sums, vector a, vector b) {
    return (vector)_mm256_add_epi32((__m256i)sums, _mm256_madd_epi16((__m256i)a, (__m256i)b));
}

static inline vector larger(vector a, vector b) {
    return (vector)_mm256_max_epi32((__m256i)a, (__m256i)b);
}

static inline vector smaller(vector a, vector b) {
    return (vector)_mm256_min_epi32((__m256i)a, (__m256i)b);
}
