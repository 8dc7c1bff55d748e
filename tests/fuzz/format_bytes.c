/* Files of bytes, whose formats no change needs to know. */
#include "fuzz/format.h"

size_t format_change(uint8_t *data, size_t size, size_t most, chance *c) {
    (void)most;
    if (size > 0)
        data[chance_below(c, size)] = (uint8_t)chance_below(c, 256);
    return size;
}
