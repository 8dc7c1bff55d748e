/* What libFuzzer calls to make an input of another: half of the time a change that keeps the
 * format, else one of its own. */
#include "fuzz/format.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
    chance c = {seed};
    if (chance_below(&c, 2))
        return LLVMFuzzerMutate(data, size, most);
    for (size_t n = 1 + chance_below(&c, 4); n > 0; n--)
        size = format_change(data, size, most, &c);
    return size;
}
