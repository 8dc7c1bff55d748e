/* Changes that keep a file of its format: what a parser refuses at once says little about the rest
 * of it. Every fuzz target is linked with one of the files that make them (tests/CMakeLists.txt).
 */
#ifndef QN_TESTS_FUZZ_FORMAT_H
#define QN_TESTS_FUZZ_FORMAT_H

#include <stddef.h>
#include <stdint.h>

/* Numbers by chance: the same for one seed. */
typedef struct chance {
    uint64_t state;
} chance;

static inline size_t chance_below(chance *c, size_t bound) {
    c->state = c->state * 6364136223846793005u + 1442695040888963407u;
    return bound ? (size_t)((c->state >> 33) % bound) : 0;
}

/* Makes one change in data, of which there are `most` bytes of room, and returns its new size; the
 * old one where there is nothing to change. */
size_t format_change(uint8_t *data, size_t size, size_t most, chance *c);

/* The same of any text: what the files of other formats use for their texts. */
size_t text_change(uint8_t *data, size_t size, size_t most, chance *c);

/* Where libFuzzer does not drive the target: runs it on `count` files made from those of the
 * folder, from number `first` on, and says by its number which one broke it. The program's exit
 * status. */
int mutate(const char *folder, uint64_t count, uint64_t first, const char *program);

#endif
