/* The header of .npy files: what is accepted holds its equations. */
#include "data/headers.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qn_npy_header header;
    if (qn_npy_parse(data, size, &header) != QN_OK)
        return 0;
    __int128 bytes = header.element_bytes;
    for (int i = 0; i < header.shape.rank; i++)
        bytes *= header.shape.dims[i];
    if (bytes != header.data_bytes || bytes < 1 || !header.kind || !strchr("fiu", header.kind) ||
        header.header_bytes < 10 || header.header_bytes > (int64_t)size)
        abort();
    return 0;
}
