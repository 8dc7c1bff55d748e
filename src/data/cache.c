/* See cache.h. A derived file ends with a trailer (a mark, the number of bytes before it, and their
 * checksum), so that a truncated or changed file is recognised and rebuilt. */
#include "data/cache.h"

#include "base/status.h"
#include "os/files/cache_folder.h"
#include "os/files/stream.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <zlib.h>

/* Files above LONG_BYTES take long enough to tell of it; of those above SUMMED_BYTES only the
 * length is checked, since reading them once more takes too long. */
enum { LONG_BYTES = 4 * 1000 * 1000, SUMMED_BYTES = 1 << 30, PIECE_BYTES = 64 * 1024 };

static const char mark[8] = "qncache1";

typedef struct trailer {
    char mark[8];
    uint64_t n_bytes, sum;
} trailer;

typedef struct derivation {
    qn_derive *derive;
    void *context;
    qn_file *source;
} derivation;

/* ---- writing ---- */

typedef struct summing {
    qn_writer *writer;
    trailer end;
} summing;

/* crc32 takes less than 4 GB at a time. */
static void add_to_sum(trailer *t, const unsigned char *data, size_t bytes) {
    t->n_bytes += bytes;
    for (size_t n; bytes > 0; data += n, bytes -= n) {
        n = bytes < SUMMED_BYTES ? bytes : SUMMED_BYTES;
        t->sum = crc32((uLong)t->sum, data, (uInt)n);
    }
}

static qn_status put(void *context, const void *data, size_t bytes) {
    summing *s = context;
    add_to_sum(&s->end, data, bytes);
    return qn_writer_put(s->writer, data, bytes);
}

static qn_status write_derived(void *context, qn_writer *writer) {
    derivation *d = context;
    summing s = {.writer = writer};
    memcpy(s.end.mark, mark, sizeof mark);
    QN_TRY(d->derive(d->context, d->source, (qn_sink){&s, put}));
    return qn_writer_put(writer, &s.end, sizeof s.end);
}

/* ---- reading ---- */

static bool has_sum(qn_file *file, const trailer *end) {
    unsigned char piece[PIECE_BYTES];
    trailer read = {.n_bytes = 0};
    while (read.n_bytes < end->n_bytes) {
        const uint64_t left = end->n_bytes - read.n_bytes;
        const size_t n = left < sizeof piece ? (size_t)left : sizeof piece;
        if (qn_file_read(file, (int64_t)read.n_bytes, piece, n) != QN_OK)
            return false;
        add_to_sum(&read, piece, n);
    }
    return read.sum == end->sum;
}

/* Leaves the trailer out; false: it is not what was derived. */
static bool take_trailer(qn_file *file) {
    const int64_t n = qn_file_bytes(file) - (int64_t)sizeof(trailer);
    trailer end;
    if (n < 0 || qn_file_read(file, n, &end, sizeof end) != QN_OK ||
        memcmp(end.mark, mark, sizeof mark) != 0 || end.n_bytes != (uint64_t)n ||
        (n <= SUMMED_BYTES && !has_sum(file, &end)))
        return false;
    qn_file_limit(file, n);
    return true;
}

static bool open_kept(const qn_source_base *base, const char *path, qn_file **file) {
    qn_cache_clear_path(path);
    if (!qn_path_is_file(path) || qn_file_open(base->options.allocator, path, file) != QN_OK)
        return false;
    if (take_trailer(*file)) {
        qn_cache_use(path);
        return true;
    }
    qn_data_tell(base, 1, "%s is damaged, and is made again", path);
    qn_file_close(*file);
    *file = NULL;
    return false;
}

/* ---- finding ---- */

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

static void note(const qn_source_base *base, const char *path, const qn_file *source) {
    char resolved[PATH_MAX];
    if (qn_path_resolve(qn_file_path(source), resolved, sizeof resolved) == QN_OK)
        qn_cache_note(base->options.allocator, path, resolved);
}

static qn_status make_unkept(const qn_source_base *base, derivation *d, qn_file **file) {
    const char *path = qn_file_path(d->source);
    QN_TRY(qn_file_make(base->options.allocator, path, write_derived, d, file));
    if (take_trailer(*file))
        return QN_OK;
    qn_file_close(*file);
    *file = NULL;
    return qn_fail(QN_ERROR_IO, "%s: what was made of it cannot be read back", path);
}

/* For this run alone: the cache folder cannot be written. */
static qn_status open_unkept(const qn_source_base *base, derivation *d, qn_file **file) {
    qn_data_tell(base, 1, "%s is read again in each run, because the result cannot be cached: %s",
                 qn_file_path(d->source), qn_error_message());
    return make_unkept(base, d, file);
}

static qn_status open_derived(const qn_source_base *base, const char *variant, derivation *d,
                              qn_file **file) {
    char path[PATH_MAX];
    qn_status status = name_derived(d->source, variant, path, sizeof path);
    if (status == QN_OK && open_kept(base, path, file))
        return QN_OK;
    if (status == QN_OK && qn_file_bytes(d->source) > LONG_BYTES)
        qn_data_tell(base, 0, "reading %s once (%" PRId64 " MiB), keeping the result as %s",
                     qn_file_path(d->source), qn_file_bytes(d->source) >> 20, path);
    if (status == QN_OK)
        status = qn_cache_replace(path, write_derived, d);
    if (status == QN_OK && open_kept(base, path, file)) {
        note(base, path, d->source);
        return QN_OK;
    }
    return status == QN_OK || status == QN_ERROR_IO ? open_unkept(base, d, file) : status;
}

qn_status qn_cache_open_of(const qn_source_base *base, qn_file *source, const char *variant,
                           qn_derive *derive, void *context, qn_file **file) {
    return open_derived(base, variant, &(derivation){derive, context, source}, file);
}

qn_status qn_cache_make(const qn_source_base *base, qn_file *source, qn_derive *derive,
                        void *context, qn_file **file) {
    return make_unkept(base, &(derivation){derive, context, source}, file);
}

qn_status qn_cache_open(const qn_source_base *base, const char *path, const char *variant,
                        qn_derive *derive, void *context, qn_file **file) {
    qn_file *source;
    QN_TRY(qn_file_open(base->options.allocator, path, &source));
    const qn_status status = qn_cache_open_of(base, source, variant, derive, context, file);
    qn_file_close(source);
    return status;
}

qn_status qn_data_open_file(const qn_source_base *base, const char *path, qn_file **file) {
    size_t length = strlen(path);
    if (length > 3 && strcmp(path + length - 3, ".gz") == 0)
        return qn_cache_open(base, path, "gunzip", qn_gzip_unpack, NULL, file);
    return qn_file_open(base->options.allocator, path, file);
}

/* ---- standard input ---- */

static qn_status copy_input(void *context, qn_writer *writer) {
    char piece[4096];
    bool is_end = false;
    while (!is_end) {
        size_t n;
        QN_TRY(qn_in_stream_read(context, piece, sizeof piece, &n, &is_end));
        QN_TRY(qn_writer_put(writer, piece, n));
    }
    return QN_OK;
}

qn_status qn_data_open_input(const qn_source_base *base, qn_file **file) {
    qn_in_stream *stream;
    if (!base->options.is_unlabelled)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "%s:- is for quern predict; other commands read their data more than once, "
                       "from a file",
                       base->format->name);
    QN_TRY(qn_in_stream_open(base->options.allocator, NULL, &stream));
    const qn_status status =
        qn_file_make(base->options.allocator, "standard input", copy_input, stream, file);
    qn_in_stream_close(stream);
    return status;
}
