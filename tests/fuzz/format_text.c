/* Files that are texts. */
#include "fuzz/format.h"

size_t format_change(uint8_t *data, size_t size, size_t most, chance *c) {
    return text_change(data, size, most, c);
}
