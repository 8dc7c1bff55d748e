/* Block formats of language models' weights, as GGUF files store them: the numbers of a row are cut
 * into blocks, each of which holds small integers with scales of its own. Widening to f32 rounds
 * after every product and every sum, in the order in which the format defines them, so that the
 * bits are those of the format's other readers; NaN stays NaN.
 *
 *     Q4_0 Q5_0 Q8_0   blocks of 32: an f16 scale, integers of 4, 5 and 8 bits around 0
 *     Q4_1 Q5_1        the same with an f16 minimum, integers from 0
 *     Q4_K Q5_K        blocks of 256: eight 6-bit scales and minima, each pair scaled by two f16
 *     Q6_K             blocks of 256: sixteen 8-bit scales, an f16 scale of those
 *
 * Numbers are little-endian. Leaves out: narrowing, and formats of less than 4 bits. */
#ifndef QN_TENSOR_BLOCKS_H
#define QN_TENSOR_BLOCKS_H

#include "quern/base.h"

typedef enum qn_blocks {
    QN_BLOCKS_NONE = 0, /* a format that quern does not widen */
    QN_BLOCKS_F32,
    QN_BLOCKS_F16,
    QN_BLOCKS_BF16,
    QN_BLOCKS_Q4_0,
    QN_BLOCKS_Q4_1,
    QN_BLOCKS_Q5_0,
    QN_BLOCKS_Q5_1,
    QN_BLOCKS_Q8_0,
    QN_BLOCKS_Q4_K,
    QN_BLOCKS_Q5_K,
    QN_BLOCKS_Q6_K,
    QN_BLOCKS_COUNT
} qn_blocks;

/* The numbers of the largest block. */
enum { QN_BLOCKS_MOST_NUMBERS = 256 };

/* "Q4_K"; null for QN_BLOCKS_NONE. And back. */
const char *qn_blocks_name(qn_blocks blocks);
qn_blocks qn_blocks_find(const char *name);

/* Numbers and bytes of a block; plain floats are blocks of one. */
int qn_blocks_numbers(qn_blocks blocks);
int qn_blocks_bytes(qn_blocks blocks);

/* Bytes of a row of so many numbers; 0: they are no whole number of blocks. */
int64_t qn_blocks_row_bytes(qn_blocks blocks, int64_t numbers);

/* The numbers of blocks [begin, end) of an array, which may lie at any address. */
void qn_blocks_widen(qn_blocks blocks, const void *array, int64_t begin, int64_t end, float *to);

#endif
