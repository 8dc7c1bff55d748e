/* See blocks.h. */
#include "tensor/widen.h"

static const struct {
    const char *name;
    int n_numbers, n_bytes;
} formats[QN_BLOCKS_COUNT] = {
    [QN_BLOCKS_F32] = {"F32", 1, 4},
    [QN_BLOCKS_F16] = {"F16", 1, 2},
    [QN_BLOCKS_BF16] = {"BF16", 1, 2},
    [QN_BLOCKS_Q4_0] = {"Q4_0", WIDEN_SMALL, 18},
    [QN_BLOCKS_Q4_1] = {"Q4_1", WIDEN_SMALL, 20},
    [QN_BLOCKS_Q5_0] = {"Q5_0", WIDEN_SMALL, 22},
    [QN_BLOCKS_Q5_1] = {"Q5_1", WIDEN_SMALL, 24},
    [QN_BLOCKS_Q8_0] = {"Q8_0", WIDEN_SMALL, 34},
    [QN_BLOCKS_Q4_K] = {"Q4_K", WIDEN_LARGE, 144},
    [QN_BLOCKS_Q5_K] = {"Q5_K", WIDEN_LARGE, 176},
    [QN_BLOCKS_Q6_K] = {"Q6_K", WIDEN_LARGE, 210},
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
    const char *from = (const char *)array + begin * qn_blocks_bytes(blocks);
    widen_blocks(blocks, from, end - begin, to);
}
