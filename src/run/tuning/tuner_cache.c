/* See tuner_cache.h. */
#include "run/tuning/tuner_cache.h"

#include "base/memory.h"
#include "base/rng.h"
#include "base/status.h"
#include "os/files/cache_folder.h"
#include "os/os.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

static const char first_line[] = "quern tilings 1";

enum { NAME_BYTES = 256, KEY_DIGITS = 16, LINE_BYTES = KEY_DIGITS + 1 + QN_TILING_COUNT + 1 };

/* ---- reading ---- */

/* Goes on behind a line that is "WORD NAME", or WORD alone where the name is null. */
static bool skip_line(const char **text, const char *end, const char *word, const char *name) {
    char line[NAME_BYTES + 32];
    const int length =
        snprintf(line, sizeof line, "%s%s%s\n", word, name ? " " : "", name ? name : "");
    if (length < 0 || (size_t)length >= sizeof line || end - *text < length ||
        memcmp(*text, line, (size_t)length) != 0)
        return false;
    *text += length;
    return true;
}

static bool read_key(const char *digits, uint64_t *key) {
    *key = 0;
    for (int i = 0; i < KEY_DIGITS; i++) {
        const char *all = "0123456789abcdef", *at = digits[i] ? strchr(all, digits[i]) : NULL;
        if (!at)
            return false;
        *key = *key << 4 | (uint64_t)(at - all);
    }
    return *key != 0;
}

static bool read_entry(const char *line, qn_tiling_entry *entry) {
    if (!read_key(line, &entry->key) || line[KEY_DIGITS] != ' ' || line[LINE_BYTES - 1] != '\n')
        return false;
    for (int kind = 0; kind < QN_TILING_COUNT; kind++) {
        const char digit = line[KEY_DIGITS + 1 + kind];
        if (digit < '0' || digit > '0' + qn_tiling_variants[kind])
            return false;
        entry->tiling.kinds[kind] = (uint8_t)(digit - '0');
    }
    return true;
}

size_t qn_tilings_most(size_t bytes) {
    const size_t most = bytes / LINE_BYTES;
    return most > QN_CUTS_READ ? 0 : most;
}

bool qn_tilings_parse(const char *text, size_t bytes, const char *machine, const char *kernels,
                      qn_tiling_entry *entries, size_t *n) {
    const char *end = text + bytes;
    size_t count = 0;
    *n = 0;
    if (!skip_line(&text, end, first_line, NULL) || !skip_line(&text, end, "machine", machine) ||
        !skip_line(&text, end, "kernels", kernels))
        return false;
    for (; text < end; text += LINE_BYTES, count++) {
        if (count == qn_tilings_most(bytes) || end - text < LINE_BYTES ||
            !read_entry(text, &entries[count]))
            return false;
        if (count > 0 && entries[count].key <= entries[count - 1].key)
            return false;
    }
    *n = count;
    return true;
}

/* ---- where it is kept ---- */

/* Whose table it is, and its path. */
typedef struct keeping {
    char machine[NAME_BYTES], kernels[NAME_BYTES], path[PATH_MAX];
    const qn_tilings *tilings;
} keeping;

/* Kernels are those of a set, a version and a compiler. */
static bool find_place(const qn_kernels *table, keeping *k) {
    char folder[PATH_MAX - 64], names[2 * NAME_BYTES + 1];
    if (qn_folder_cache(folder, sizeof folder) != QN_OK)
        return false;
    qn_host_name(k->machine, sizeof k->machine);
    snprintf(k->kernels, sizeof k->kernels, "%s %s %s", table->name, qn_version(), __VERSION__);
    snprintf(names, sizeof names, "%s %s", k->machine, k->kernels);
    snprintf(k->path, sizeof k->path, "%s/tilings-%016" PRIx64 ".txt", folder, qn_hash_text(names));
    return true;
}

size_t qn_tilings_kept_bytes(const qn_kernels *table) {
    qn_file *file;
    keeping k;
    if (!find_place(table, &k) || !qn_path_is_file(k.path) ||
        qn_file_open(NULL, k.path, &file) != QN_OK)
        return 0;
    const int64_t bytes = qn_file_bytes(file);
    qn_file_close(file);
    return (size_t)bytes;
}

void qn_tilings_load(const qn_allocator *allocator, const qn_kernels *table, size_t kept_bytes,
                     qn_tiling_entry *entries, size_t *n, bool *is_damaged) {
    keeping k;
    char *text;
    size_t bytes;
    *n = 0;
    *is_damaged = false;
    if (!find_place(table, &k) || !qn_path_is_file(k.path))
        return;
    *is_damaged = true;
    if (qn_tilings_most(kept_bytes) == 0 || qn_tilings_kept_bytes(table) != kept_bytes ||
        qn_file_read_whole(allocator, k.path, &text, &bytes) != QN_OK)
        return;
    *is_damaged =
        bytes != kept_bytes || !qn_tilings_parse(text, bytes, k.machine, k.kernels, entries, n);
    qn_release(allocator, text, bytes + 1, 1);
}

static qn_status write_text(void *context, qn_writer *writer) {
    const keeping *k = context;
    char head[2 * NAME_BYTES + 64], line[LINE_BYTES + 1];
    const int length = snprintf(head, sizeof head, "%s\nmachine %s\nkernels %s\n", first_line,
                                k->machine, k->kernels);
    QN_TRY(qn_writer_put(writer, head, (size_t)length));
    for (size_t i = 0; i < k->tilings->n; i++) {
        const qn_tiling_entry *entry = &k->tilings->entries[i];
        snprintf(line, sizeof line, "%016" PRIx64 " ", entry->key);
        for (int kind = 0; kind < QN_TILING_COUNT; kind++)
            line[KEY_DIGITS + 1 + kind] = (char)('0' + entry->tiling.kinds[kind]);
        line[LINE_BYTES - 1] = '\n';
        QN_TRY(qn_writer_put(writer, line, LINE_BYTES));
    }
    return QN_OK;
}

void qn_tilings_save(const qn_kernels *table, const qn_tilings *tilings) {
    keeping k = {.tilings = tilings};
    if (find_place(table, &k))
        (void)qn_cache_replace(k.path, write_text, &k);
}
