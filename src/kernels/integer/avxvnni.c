/* Whole numbers on AVX-VNNI: unsigned by signed int8, four of them in a lane. */
#include <immintrin.h>

#define VL           8
#define TILE_ROWS    6
#define TILE_VECTORS 2
#define NUMBERS      4
#define OFFSET       128
#define TABLE        qn_integer_avxvnni
#define SET          QN_ISA_AVX2
#define TABLE_NAME   "avxvnni"

#define HAS_PAIRS

#include "kernels/integer/engine.h"

static inline vector dot(vector sums, vector a, vector b) {
    return (vector)_mm256_dpbusd_avx_epi32((__m256i)sums, (__m256i)a, (__m256i)b);
}

static inline vector dot_pairs(vector sums, vector a, vector b) {
    return (vector)_mm256_dpwssd_avx_epi32((__m256i)sums, (__m256i)a, (__m256i)b);
}

static inline vector larger(vector a, vector b) {
    return (vector)_mm256_max_epi32((__m256i)a, (__m256i)b);
}

static inline vector smaller(vector a, vector b) {
    return (vector)_mm256_min_epi32((__m256i)a, (__m256i)b);
}
