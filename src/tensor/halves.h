/* Conversion of f32 to 16-bit floats and back, number by number and without a branch, so that
 * compilers make vectors of loops over it. number.h defines the rounding; the kernels of each
 * instruction set and tensor/number.c make their loops of these. */
#ifndef QN_TENSOR_HALVES_H
#define QN_TENSOR_HALVES_H

#include <stdint.h>
#include <string.h>

static inline uint32_t qn_bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float qn_float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint16_t qn_bf16_of(float x) {
    const uint32_t bits = qn_bits_of(x), sign = bits >> 16 & 0x8000;
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? sign | 0x7fc0 : rounded);
}

static inline float qn_of_bf16(uint16_t half) {
    const uint32_t bits = (uint32_t)half << 16;
    return qn_float_of((bits & 0x7fffffff) > 0x7f800000 ? (bits & 0x80000000) | 0x7fc00000 : bits);
}

/* What has a smaller exponent than an f16 is added to a half, whose last bit is that of the least
 * f16; what has not is rounded by adding half of what is cut off, and a bit. */
static inline uint16_t qn_f16_of(float x) {
    const uint32_t bits = qn_bits_of(x), size = bits & 0x7fffffff, sign = bits >> 16 & 0x8000;
    const uint32_t small =
        qn_bits_of(qn_float_of(size < 0x38800000 ? size : 0) + 0.5f) - 0x3f000000;
    const uint32_t usual = (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13;
    uint32_t y = size < 0x38800000 ? small : usual;
    y = size >= 0x477ff000 ? 0x7c00 : y;
    y = size > 0x7f800000 ? 0x7e00 : y;
    return (uint16_t)(sign | y);
}

static inline float qn_of_f16(uint16_t half) {
    const uint32_t size = half & 0x7fff, sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t bits = qn_bits_of(qn_float_of(size << 13) * 0x1p112f);
    bits = size >= 0x7c00 ? 0x7f800000 : bits;
    bits = size > 0x7c00 ? 0x7fc00000 : bits;
    return qn_float_of(sign | bits);
}

#endif
