/* Whole numbers on AVX-512 with VNNI: unsigned by signed int8, four of them in a lane. */
#include <immintrin.h>

#define VL           16
#define TILE_ROWS    12
#define TILE_VECTORS 2
#define NUMBERS      4
#define OFFSET       128
#define TABLE        qn_integer_avx512vnni
#define SET          QN_ISA_AVX512
#define TABLE_NAME   "avx512vnni"

#define HAS_PAIRS

#include "kernels/integer/engine.h"

static inline vector dot(vector sums, vector a, vector b) {
    return (vector)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)a, (__m512i)b);
}

static inline vector dot_pairs(vector sums, vector a, vector b) {
    return (vector)_mm512_dpwssd_epi32((__m512i)sums, (__m512i)a, (__m512i)b);
}

static inline vector larger(vector a, vector b) {
    return (vector)_mm512_max_epi32((__m512i)a, (__m512i)b);
}

static inline vector smaller(vector a, vector b) {
    return (vector)_mm512_min_epi32((__m512i)a, (__m512i)b);
}
