/* See blocks.h. One function for each format widens one block. */
#include "tensor/blocks.h"

#include "tensor/halves.h"

enum { SMALL = 32, LARGE = 256, SCALE_BYTES = 12 };

static float read_f16(const uint8_t *from) {
    return qn_of_f16((uint16_t)(from[0] | from[1] << 8));
}

static uint32_t read_u32(const uint8_t *from) {
    return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 |
           (uint32_t)from[3] << 24;
}

static void widen_f32(const uint8_t *from, float *to) {
    *to = qn_float_of(read_u32(from));
}

static void widen_f16(const uint8_t *from, float *to) {
    *to = read_f16(from);
}

static void widen_bf16(const uint8_t *from, float *to) {
    *to = qn_of_bf16((uint16_t)(from[0] | from[1] << 8));
}

/* ---- blocks of 32: byte i holds the low bits of numbers i and i + 16 ---- */

static void widen_q4_0(const uint8_t *from, float *to) {
    const float scale = read_f16(from);
    for (int i = 0; i < SMALL / 2; i++) {
        to[i] = scale * (float)((from[2 + i] & 15) - 8);
        to[i + SMALL / 2] = scale * (float)((from[2 + i] >> 4) - 8);
    }
}

static void widen_q4_1(const uint8_t *from, float *to) {
    const float scale = read_f16(from), minimum = read_f16(from + 2);
    for (int i = 0; i < SMALL / 2; i++) {
        to[i] = scale * (float)(from[4 + i] & 15) + minimum;
        to[i + SMALL / 2] = scale * (float)(from[4 + i] >> 4) + minimum;
    }
}

/* Integer i of a block of 5 bits, whose fifth bits are bits of `high`. */
static int get_5_bits(uint32_t high, const uint8_t *low, int i) {
    const int bits = i < SMALL / 2 ? low[i] & 15 : low[i - SMALL / 2] >> 4;
    return bits | (int)(high >> i & 1) << 4;
}

static void widen_q5_0(const uint8_t *from, float *to) {
    const float scale = read_f16(from);
    const uint32_t high = read_u32(from + 2);
    for (int i = 0; i < SMALL; i++)
        to[i] = scale * (float)(get_5_bits(high, from + 6, i) - 16);
}

static void widen_q5_1(const uint8_t *from, float *to) {
    const float scale = read_f16(from), minimum = read_f16(from + 2);
    const uint32_t high = read_u32(from + 4);
    for (int i = 0; i < SMALL; i++)
        to[i] = scale * (float)get_5_bits(high, from + 8, i) + minimum;
}

static void widen_q8_0(const uint8_t *from, float *to) {
    const float scale = read_f16(from);
    for (int i = 0; i < SMALL; i++)
        to[i] = scale * (float)(int8_t)from[2 + i];
}

/* ---- blocks of 256 ---- */

/* The scale and the minimum of 32 numbers. */
typedef struct group {
    float scale, minimum;
} group;

/* Of group i of eight. Twelve bytes hold 6-bit scales and minima: those of the first four groups
 * in the low bits of bytes 0 to 7, those of the others as 4 bits in bytes 8 to 11 and as the top 2
 * bits of bytes 0 to 7. */
static group get_group(const uint8_t *from, const uint8_t *packed, int i) {
    const float scale = read_f16(from), minimum = read_f16(from + 2);
    int s, m;
    if (i < 4) {
        s = packed[i] & 63;
        m = packed[i + 4] & 63;
    } else {
        s = (packed[i + 4] & 15) | packed[i - 4] >> 6 << 4;
        m = packed[i + 4] >> 4 | packed[i] >> 6 << 4;
    }
    return (group){scale * (float)s, minimum * (float)m};
}

/* The low bits of 64 numbers are 32 bytes: first the lower halves, then the upper. */
static void widen_q4_k(const uint8_t *from, float *to) {
    const uint8_t *low = from + 4 + SCALE_BYTES;
    for (int i = 0; i < LARGE / 32; i++) {
        const group g = get_group(from, from + 4, i);
        for (int k = 0; k < 32; k++)
            to[32 * i + k] = g.scale * (float)(low[i / 2 * 32 + k] >> 4 * (i % 2) & 15) - g.minimum;
    }
}

static void widen_q5_k(const uint8_t *from, float *to) {
    const uint8_t *high = from + 4 + SCALE_BYTES, *low = high + LARGE / 8;
    for (int i = 0; i < LARGE / 32; i++) {
        const group g = get_group(from, from + 4, i);
        for (int k = 0; k < 32; k++) {
            const int bits = low[i / 2 * 32 + k] >> 4 * (i % 2) & 15;
            to[32 * i + k] = g.scale * (float)(bits | (high[k] >> i & 1) << 4) - g.minimum;
        }
    }
}

/* Each half of 128 numbers: 64 bytes of low bits, 32 bytes of high bits, 8 scales of 16 numbers. */
static void widen_q6_k(const uint8_t *from, float *to) {
    const uint8_t *high = from + LARGE / 2, *scales = high + LARGE / 4;
    const float scale = read_f16(scales + LARGE / 16);
    for (int i = 0; i < LARGE; i++) {
        const int half = i / 128, quarter = i % 128 / 32, k = i % 32;
        const int low = from[64 * half + 32 * (quarter % 2) + k] >> 4 * (quarter / 2) & 15;
        const int bits = low | (high[32 * half + k] >> 2 * quarter & 3) << 4;
        to[i] = scale * (float)(int8_t)scales[i / 16] * (float)(bits - 32);
    }
}

static const struct {
    const char *name;
    int n_numbers, n_bytes;
    void (*widen)(const uint8_t *from, float *to);
} formats[QN_BLOCKS_COUNT] = {
    [QN_BLOCKS_F32] = {"F32", 1, 4, widen_f32},
    [QN_BLOCKS_F16] = {"F16", 1, 2, widen_f16},
    [QN_BLOCKS_BF16] = {"BF16", 1, 2, widen_bf16},
    [QN_BLOCKS_Q4_0] = {"Q4_0", SMALL, 18, widen_q4_0},
    [QN_BLOCKS_Q4_1] = {"Q4_1", SMALL, 20, widen_q4_1},
    [QN_BLOCKS_Q5_0] = {"Q5_0", SMALL, 22, widen_q5_0},
    [QN_BLOCKS_Q5_1] = {"Q5_1", SMALL, 24, widen_q5_1},
    [QN_BLOCKS_Q8_0] = {"Q8_0", SMALL, 34, widen_q8_0},
    [QN_BLOCKS_Q4_K] = {"Q4_K", LARGE, 144, widen_q4_k},
    [QN_BLOCKS_Q5_K] = {"Q5_K", LARGE, 176, widen_q5_k},
    [QN_BLOCKS_Q6_K] = {"Q6_K", LARGE, 210, widen_q6_k},
};

const char *qn_blocks_name(qn_blocks blocks) {
    return formats[blocks].name;
}

qn_blocks qn_blocks_find(const char *name) {
    for (int i = QN_BLOCKS_NONE + 1; i < QN_BLOCKS_COUNT; i++) {
        if (strcmp(formats[i].name, name) == 0)
            return (qn_blocks)i;
    }
    return QN_BLOCKS_NONE;
}

int qn_blocks_numbers(qn_blocks blocks) {
    return formats[blocks].n_numbers;
}

int qn_blocks_bytes(qn_blocks blocks) {
    return formats[blocks].n_bytes;
}

int64_t qn_blocks_row_bytes(qn_blocks blocks, int64_t numbers) {
    return numbers % qn_blocks_numbers(blocks) == 0
               ? numbers / qn_blocks_numbers(blocks) * qn_blocks_bytes(blocks)
               : 0;
}

void qn_blocks_widen(qn_blocks blocks, const void *array, int64_t begin, int64_t end, float *to) {
    const int64_t n_bytes = formats[blocks].n_bytes, n_numbers = formats[blocks].n_numbers;
    const uint8_t *from = array;
    for (int64_t i = begin; i < end; i++)
        formats[blocks].widen(from + i * n_bytes, to + (i - begin) * n_numbers);
}
