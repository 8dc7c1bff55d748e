/* Kept cuts of products: what is read has rising keys and variants that there are. */
#include "run/tuner_cache.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const size_t most = qn_cuts_most(size);
    qn_cut_entry *entries = calloc(most + 1, sizeof *entries);
    size_t n;
    if (!entries)
        return 0;
    if (!qn_cuts_parse((const char *)data, size, "host", "avx2 1", entries, &n) && n != 0)
        abort();
    if (n > most)
        abort();
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && entries[i].key <= entries[i - 1].key)
            abort();
        for (int kind = 0; kind < QN_CUT_COUNT; kind++) {
            if (entries[i].cut.kinds[kind] > qn_cut_variants[kind])
                abort();
        }
    }
    free(entries);
    return 0;
}
