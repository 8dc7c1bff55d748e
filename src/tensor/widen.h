/* The loops of blocks.h, to be compiled for any set of instructions: a plain loop for each part of
 * a block, so that compilers make vectors of it. What includes this is compiled without
 * contraction. Products and sums are those that the formats define, in their order. */
#ifndef QN_TENSOR_WIDEN_H
#define QN_TENSOR_WIDEN_H

#include "tensor/blocks.h"
#include "tensor/halves.h"

enum {
    WIDEN_SMALL = 32,
    WIDEN_LARGE = 256,
    WIDEN_HALF = WIDEN_SMALL / 2,
    WIDEN_SCALES = 12 /* bytes of eight 6-bit scales and minima */
};

/* Numbers at any address; both families of processors are little-endian, as the files are. */
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "blocks are read on little-endian processors only"
#endif
typedef uint16_t widen_u16 __attribute__((aligned(1), may_alias));
typedef uint32_t widen_u32 __attribute__((aligned(1), may_alias));

static inline float widen_f16(const uint8_t *from) {
    return qn_of_f16(*(const widen_u16 *)from);
}

static inline void widen_q4_0(const uint8_t *from, float *restrict to) {
    const float scale = widen_f16(from);
    for (int i = 0; i < WIDEN_HALF; i++)
        to[i] = scale * (float)((from[2 + i] & 15) - 8);
    for (int i = 0; i < WIDEN_HALF; i++)
        to[WIDEN_HALF + i] = scale * (float)((from[2 + i] >> 4) - 8);
}

static inline void widen_q4_1(const uint8_t *from, float *restrict to) {
    const float scale = widen_f16(from), minimum = widen_f16(from + 2);
    for (int i = 0; i < WIDEN_HALF; i++)
        to[i] = scale * (float)(from[4 + i] & 15) + minimum;
    for (int i = 0; i < WIDEN_HALF; i++)
        to[WIDEN_HALF + i] = scale * (float)(from[4 + i] >> 4) + minimum;
}

/* Fifth bits are bits of a word. */
static inline void widen_fifth_bits(const uint8_t *from, int32_t *restrict fifth) {
    const uint32_t word = *(const widen_u32 *)from;
    for (int i = 0; i < WIDEN_SMALL; i++)
        fifth[i] = (int32_t)((word >> i & 1) << 4);
}

static inline void widen_q5_0(const uint8_t *from, float *restrict to) {
    const float scale = widen_f16(from);
    const uint8_t *low = from + 6;
    int32_t fifth[WIDEN_SMALL];
    widen_fifth_bits(from + 2, fifth);
    for (int i = 0; i < WIDEN_HALF; i++)
        to[i] = scale * (float)(((low[i] & 15) | fifth[i]) - 16);
    for (int i = 0; i < WIDEN_HALF; i++)
        to[WIDEN_HALF + i] = scale * (float)((low[i] >> 4 | fifth[WIDEN_HALF + i]) - 16);
}

static inline void widen_q5_1(const uint8_t *from, float *restrict to) {
    const float scale = widen_f16(from), minimum = widen_f16(from + 2);
    const uint8_t *low = from + 8;
    int32_t fifth[WIDEN_SMALL];
    widen_fifth_bits(from + 4, fifth);
    for (int i = 0; i < WIDEN_HALF; i++)
        to[i] = scale * (float)((low[i] & 15) | fifth[i]) + minimum;
    for (int i = 0; i < WIDEN_HALF; i++)
        to[WIDEN_HALF + i] = scale * (float)(low[i] >> 4 | fifth[WIDEN_HALF + i]) + minimum;
}

static inline void widen_q8_0(const uint8_t *from, float *restrict to) {
    const float scale = widen_f16(from);
    for (int i = 0; i < WIDEN_SMALL; i++)
        to[i] = scale * (float)(int8_t)from[2 + i];
}

/* The scale and the minimum of 32 numbers. */
typedef struct widen_group {
    float scale, minimum;
} widen_group;

/* Of group i of eight. Twelve bytes hold 6-bit scales and minima: those of the first four groups
 * in the low bits of bytes 0 to 7, those of the others as 4 bits in bytes 8 to 11 and as the top 2
 * bits of bytes 0 to 7. */
static inline widen_group widen_get_group(const uint8_t *from, int i) {
    const float scale = widen_f16(from), minimum = widen_f16(from + 2);
    const uint8_t *packed = from + 4;
    int s, m;
    if (i < 4) {
        s = packed[i] & 63;
        m = packed[i + 4] & 63;
    } else {
        s = (packed[i + 4] & 15) | packed[i - 4] >> 6 << 4;
        m = packed[i + 4] >> 4 | packed[i] >> 6 << 4;
    }
    return (widen_group){scale * (float)s, minimum * (float)m};
}

/* The low bits of 64 numbers are 32 bytes: first the lower halves, then the upper. */
static inline void widen_q4_k(const uint8_t *from, float *restrict to) {
    const uint8_t *low = from + 4 + WIDEN_SCALES;
    for (int i = 0; i < WIDEN_LARGE / 32; i += 2, to += 64, low += 32) {
        const widen_group a = widen_get_group(from, i), b = widen_get_group(from, i + 1);
        for (int k = 0; k < 32; k++)
            to[k] = a.scale * (float)(low[k] & 15) - a.minimum;
        for (int k = 0; k < 32; k++)
            to[32 + k] = b.scale * (float)(low[k] >> 4) - b.minimum;
    }
}

static inline void widen_q5_k(const uint8_t *from, float *restrict to) {
    const uint8_t *high = from + 4 + WIDEN_SCALES, *low = high + WIDEN_LARGE / 8;
    for (int i = 0; i < WIDEN_LARGE / 32; i += 2, to += 64, low += 32) {
        const widen_group a = widen_get_group(from, i), b = widen_get_group(from, i + 1);
        for (int k = 0; k < 32; k++)
            to[k] = a.scale * (float)((low[k] & 15) | (high[k] >> i & 1) << 4) - a.minimum;
        for (int k = 0; k < 32; k++)
            to[32 + k] = b.scale * (float)(low[k] >> 4 | (high[k] >> (i + 1) & 1) << 4) - b.minimum;
    }
}

/* Each half of 128 numbers: 64 bytes of low bits, 32 bytes of high bits, 8 scales of 16 numbers. */
static inline void widen_q6_k(const uint8_t *from, float *restrict to) {
    const uint8_t *all_high = from + WIDEN_LARGE / 2, *scales = all_high + WIDEN_LARGE / 4;
    const float scale = widen_f16(scales + WIDEN_LARGE / 16);
    for (int i = 0; i < WIDEN_LARGE / 16; i++, to += 16) {
        const int half = i / 8, quarter = i % 8 / 2, first = i % 2 * 16;
        const uint8_t *low = from + 64 * half + 32 * (quarter % 2) + first;
        const uint8_t *high = all_high + 32 * half + first;
        const int low_shift = 4 * (quarter / 2), high_shift = 2 * quarter;
        const float own = scale * (float)(int8_t)scales[i];
        for (int k = 0; k < 16; k++)
            to[k] =
                own * (float)(((low[k] >> low_shift & 15) | (high[k] >> high_shift & 3) << 4) - 32);
    }
}

/* n blocks. */
static void widen_blocks(qn_blocks blocks, const void *array, int64_t n, float *restrict to) {
    const uint8_t *from = array;
    const int bytes = qn_blocks_bytes(blocks), numbers = qn_blocks_numbers(blocks);
#define EACH_BLOCK(WIDEN)                                                                          \
    for (int64_t i = 0; i < n; i++, from += bytes, to += numbers)                                  \
    WIDEN(from, to)
    switch (blocks) {
    case QN_BLOCKS_F32:
        memcpy(to, from, (size_t)n * sizeof(float));
        break;
    case QN_BLOCKS_F16:
        for (int64_t i = 0; i < n; i++)
            to[i] = qn_of_f16(((const widen_u16 *)array)[i]);
        break;
    case QN_BLOCKS_BF16:
        for (int64_t i = 0; i < n; i++)
            to[i] = qn_of_bf16(((const widen_u16 *)array)[i]);
        break;
    case QN_BLOCKS_Q4_0:
        EACH_BLOCK(widen_q4_0);
        break;
    case QN_BLOCKS_Q4_1:
        EACH_BLOCK(widen_q4_1);
        break;
    case QN_BLOCKS_Q5_0:
        EACH_BLOCK(widen_q5_0);
        break;
    case QN_BLOCKS_Q5_1:
        EACH_BLOCK(widen_q5_1);
        break;
    case QN_BLOCKS_Q8_0:
        EACH_BLOCK(widen_q8_0);
        break;
    case QN_BLOCKS_Q4_K:
        EACH_BLOCK(widen_q4_k);
        break;
    case QN_BLOCKS_Q5_K:
        EACH_BLOCK(widen_q5_k);
        break;
    case QN_BLOCKS_Q6_K:
        EACH_BLOCK(widen_q6_k);
        break;
    default:
        break;
    }
#undef EACH_BLOCK
}

#endif
