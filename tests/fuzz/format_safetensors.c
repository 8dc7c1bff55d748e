/* Safetensors: the header's text is changed, and its length set right. */
#include "fuzz/format.h"

#include <stdlib.h>
#include <string.h>

size_t format_change(uint8_t *data, size_t size, size_t most, chance *c) {
    uint64_t length = 0;
    if (size < 8)
        return size;
    memcpy(&length, data, 8);
    if (length > size - 8 || most < size)
        return size;
    const size_t rest = size - 8 - (size_t)length;
    uint8_t *header = malloc(most), *tail = malloc(rest + 1);
    if (header && tail) {
        memcpy(header, data + 8, (size_t)length);
        memcpy(tail, data + 8 + length, rest);
        length = text_change(header, (size_t)length, most - 8 - rest, c);
        memcpy(data, &length, 8);
        memcpy(data + 8, header, (size_t)length);
        memcpy(data + 8 + length, tail, rest);
        size = 8 + (size_t)length + rest;
    }
    free(header);
    free(tail);
    return size;
}
