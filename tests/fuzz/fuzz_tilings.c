/* Kept tilings of products: what is read has rising keys and variants that there are; kept in the
 * cache and loaded, it is the same; an input in place of the cache's file is read or damaged. */
#include "fuzz/input.h"
#include "run/tuning/tuner_cache.h"

static void check(const qn_tiling_entry *entries, size_t n, size_t most) {
    if (n > most)
        abort();
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && entries[i].key <= entries[i - 1].key)
            abort();
        for (int kind = 0; kind < QN_TILING_COUNT; kind++) {
            if (entries[i].tiling.kinds[kind] > qn_tiling_variants[kind])
                abort();
        }
    }
}

/* Loads what the cache holds; the number of entries. */
static size_t load(const qn_allocator *allocator, const qn_kernels *table,
                   qn_tiling_entry **entries, bool *is_damaged) {
    const size_t bytes = qn_tilings_kept_bytes(table), most = qn_tilings_most(bytes);
    size_t n;
    *entries = calloc(most + 1, sizeof **entries);
    if (!*entries)
        abort();
    qn_tilings_load(allocator, table, bytes, *entries, &n, is_damaged);
    check(*entries, n, most);
    return n;
}

static void check_cache(const uint8_t *data, size_t size, qn_tiling_entry *entries, size_t n) {
    static char name[256];
    const qn_kernels *table = qn_kernels_get(QN_F32, QN_ISA_REF);
    const qn_tilings tilings = {.n = n, .entries = entries};
    failing f = input_failing(data, size);
    const qn_allocator allocator = input_allocator(&f);
    qn_tiling_entry *kept;
    bool is_damaged;
    qn_tilings_save(table, &tilings);
    if (load(qn_allocator_default(), table, &kept, &is_damaged) != n || is_damaged ||
        (n > 0 && memcmp(kept, entries, n * sizeof *kept) != 0))
        abort();
    free(kept);
    if (!name[0])
        input_find_cached("tilings-", name);
    input_write(name, data, size);
    load(&allocator, table, &kept, &is_damaged);
    free(kept);
    input_check_memory(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const size_t most = qn_tilings_most(size);
    qn_tiling_entry *entries = calloc(most + 1, sizeof *entries);
    size_t n;
    if (!entries)
        return 0;
    input_folder();
    if (!qn_tilings_parse((const char *)data, size, "host", "avx2 1", entries, &n) && n != 0)
        abort();
    check(entries, n, most);
    check_cache(data, size, entries, n);
    free(entries);
    return 0;
}
