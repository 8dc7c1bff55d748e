/* Whole numbers on AVX-512 without VNNI: pairs of int16, whose products are summed exactly. */
#include <immintrin.h>

#define VL           16
#define TILE_ROWS    12
#define TILE_VECTORS 2
#define NUMBERS      2
#define OFFSET       0
#define TABLE        qn_integer_avx512
#define SET          QN_ISA_AVX512
#define TABLE_NAME   "avx512"

#define HAS_PAIRS

#include "kernels/integer/engine.h"

static inline vector dot(vector sums, vector a, vector b) {
    return sums + (vector)_mm512_madd_epi16((__m512i)a, (__m512i)b);
}

/* Modulo 2^32. */
static inline vector dot_pairs(vector sums, vector a, vector b) {
    return (vector)_mm512_add_epi32((__m512i)sums, _mm512_madd_epi16((__m512i)a, (__m512i)b));
}

static inline vector larger(vector a, vector b) {
    return (vector)_mm512_max_epi32((__m512i)a, (__m512i)b);
}

static inline vector smaller(vector a, vector b) {
    return (vector)_mm512_min_epi32((__m512i)a, (__m512i)b);
}
