/* Products of bf16 on AVX-512 with BF16: pairs of them in a lane. Its conversions flush denormal
 * numbers. */
#include <immintrin.h>
#include <stdint.h>

#define VL           16
#define TILE_ROWS    12
#define TILE_VECTORS 2
#define TABLE        qn_half_avx512bf16
#define TABLE_NAME   "avx512bf16"

typedef int32_t word __attribute__((may_alias));
typedef float vector __attribute__((vector_size(VL * 4), may_alias, aligned(4)));
typedef int32_t lane_words __attribute__((vector_size(VL * 4), may_alias, aligned(4)));
typedef __mmask16 lanes_mask;

/* The first n lanes; all where there are more. */
static inline lanes_mask mask_of(int64_t n) {
    return n >= VL ? 0xffff : (lanes_mask)((1u << n) - 1);
}

static inline vector load_floats(const float *from, lanes_mask lanes) {
    return (vector)_mm512_maskz_loadu_ps(lanes, from);
}

static inline void store_floats(float *to, vector x, lanes_mask lanes) {
    _mm512_mask_storeu_ps(to, lanes, (__m512)x);
}

static inline vector larger_or_zero(vector x) {
    return (vector)_mm512_max_ps((__m512)x, _mm512_setzero_ps());
}

static inline vector widen_halves(const uint16_t *from, lanes_mask lanes) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, from));
    return (vector)_mm512_slli_epi32(wide, 16);
}

static inline void store_rounded(uint16_t *to, vector x, lanes_mask lanes) {
    _mm256_mask_storeu_epi16(to, lanes, (__m256i)_mm512_cvtneps_pbh((__m512)x));
}

#include "kernels/half/engine.h"

static inline __attribute__((always_inline)) halves round_both(vector low, vector high) {
    return (halves)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low);
}

static inline __attribute__((always_inline)) vector dot_pairs(vector sums, lane_words a,
                                                              lane_words b) {
    return (vector)_mm512_dpbf16_ps((__m512)sums, (__m512bh)a, (__m512bh)b);
}
