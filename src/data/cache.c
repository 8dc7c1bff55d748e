/* See cache.h. */
#include "data/cache.h"

#include "base/status.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

/* Files above this size take long enough to tell of it. */
enum { LONG_BYTES = 4 * 1000 * 1000 };

typedef struct derivation {
    qn_derive *derive;
    void *context;
    qn_file *source;
} derivation;

static qn_status put_to_writer(void *context, const void *data, size_t bytes) {
    return qn_writer_put(context, data, bytes);
}

static qn_status write_derived(void *context, qn_writer *writer) {
    derivation *d = context;
    return d->derive(d->context, d->source, (qn_sink){writer, put_to_writer});
}

/* FOLDER/NAME-HASH, where the hash tells the source's path, size, time and the variant. */
static qn_status name_derived(qn_file *source, const char *variant, char *path, size_t bytes) {
    char resolved[PATH_MAX], key[PATH_MAX + 64], folder[PATH_MAX - 128];
    QN_TRY(qn_path_resolve(qn_file_path(source), resolved, sizeof resolved));
    snprintf(key, sizeof key, "%s|%" PRId64 "|%" PRId64 "|%016" PRIx64, resolved,
             qn_file_bytes(source), qn_file_modified_ns(resolved), qn_hash_text(variant));
    QN_TRY(qn_folder_cache(folder, sizeof folder));
    const char *slash = strrchr(resolved, '/');
    snprintf(path, bytes, "%s/%.80s-%016" PRIx64, folder, slash ? slash + 1 : resolved,
             qn_hash_text(key));
    return QN_OK;
}

static qn_status open_derived(const qn_source_base *base, const char *variant, derivation *d,
                              qn_file **file) {
    char path[PATH_MAX];
    QN_TRY(name_derived(d->source, variant, path, sizeof path));
    if (!qn_path_is_file(path)) {
        if (qn_file_bytes(d->source) > LONG_BYTES)
            qn_data_tell(base, 0, "reading %s once (%" PRId64 " MB), keeping the result as %s",
                         qn_file_path(d->source), qn_file_bytes(d->source) / 1000000, path);
        QN_TRY(qn_file_replace(path, write_derived, d));
    }
    return qn_file_open(base->options.allocator, path, file);
}

qn_status qn_cache_open(const qn_source_base *base, const char *path, const char *variant,
                        qn_derive *derive, void *context, qn_file **file) {
    derivation d = {.derive = derive, .context = context};
    QN_TRY(qn_file_open(base->options.allocator, path, &d.source));
    qn_status status = open_derived(base, variant, &d, file);
    qn_file_close(d.source);
    return status;
}

qn_status qn_data_open_file(const qn_source_base *base, const char *path, qn_file **file) {
    size_t length = strlen(path);
    if (length > 3 && strcmp(path + length - 3, ".gz") == 0)
        return qn_cache_open(base, path, "gunzip", qn_gzip_unpack, NULL, file);
    return qn_file_open(base->options.allocator, path, file);
}
