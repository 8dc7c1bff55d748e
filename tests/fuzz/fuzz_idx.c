/* The header of IDX files: what is accepted holds its equations. */
#include "data/headers.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qn_idx_header header;
    for (int rank = 1; rank <= 3; rank += 2) {
        if (qn_idx_parse(data, size, rank, &header) != QN_OK)
            continue;
        __int128 elements = 1;
        for (int i = 0; i < rank; i++)
            elements *= header.dims[i];
        if (elements != header.data_bytes || elements < 1 || header.header_bytes != 4 + 4 * rank)
            abort();
    }
    return 0;
}
