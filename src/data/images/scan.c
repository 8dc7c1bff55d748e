/* See scan.h. The cache file has the pixels of the readable entries, in order, followed by a hash
 * of the content and a byte for every entry: 1 if it is readable. Its name depends on the folder,
 * the size, and names, sizes and times of all files. Unreadable files are tried again each time,
 * since a library may have been installed meanwhile. */
#include "data/images/scan.h"

#include "base/status.h"
#include "data/images/image.h"
#include "os/files/cache_folder.h"
#include "os/team.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

/* Pixels of more are not kept: files are then decoded when they are read. */
static const int64_t MOST_KEPT_BYTES = (int64_t)2 << 30;

enum { PART = 32 /* pictures decoded side by side */, MOST_THREADS = 8, MOST_NAMED = 10 };

/* Numbers of entries count through both lists. */
typedef struct scan {
    const qn_source_base *base;
    qn_image_list *lists; /* (QN_SPLITS) */
    const qn_shape *size;
    size_t n, row_bytes;
    uint8_t *verdicts;  /* (n) 1: can be read */
    uint64_t *contents; /* (n) of those */
    uint8_t *pixels;    /* (PART, row_bytes) */
    qn_team *team;      /* null: this thread alone */
    size_t part_begin;
    qn_status failure[PART]; /* of the part's that is not the file's */
} scan;

static qn_image_entry *entry_at(const scan *s, size_t i, const qn_image_list **list) {
    *list = s->lists;
    for (; i >= (*list)->n; (*list)++)
        i -= (*list)->n;
    return &(*list)->entries[i];
}

bool qn_image_path(const qn_image_list *list, const qn_image_entry *entry, char *path,
                   size_t bytes) {
    const int length = snprintf(path, bytes, "%s/%s", list->root, entry->name);
    return length >= 0 && (size_t)length < bytes;
}

static qn_status load(scan *s, size_t i, uint8_t *x) {
    const qn_image_list *list;
    const qn_image_entry *entry = entry_at(s, i, &list);
    char path[PATH_MAX];
    if (!qn_image_path(list, entry, path, sizeof path))
        return qn_fail(QN_ERROR_FORMAT, "%s: the path is too long", path);
    return qn_image_load_known(path, s->size, true, x, &s->contents[i]);
}

/* ---- decoding ---- */

static void decode_some(void *context, int64_t begin, int64_t end, int thread) {
    scan *s = context;
    (void)thread;
    for (int64_t k = begin; k < end; k++) {
        const size_t i = s->part_begin + (size_t)k;
        const qn_status status = load(s, i, s->pixels + (size_t)k * s->row_bytes);
        s->verdicts[i] = status == QN_OK;
        s->failure[k] = status == QN_ERROR_MEMORY ? status : QN_OK;
    }
}

static void tell_progress(const scan *s, size_t n_done) {
    const qn_log *log = s->base->options.log;
    if (log && log->progress)
        log->progress(log->user, "looking at pictures", (int64_t)n_done, (int64_t)s->n);
}

/* Decodes all; what can be read goes to the writer, unless that is null. */
static qn_status decode_all(scan *s, qn_writer *writer) {
    for (s->part_begin = 0; s->part_begin < s->n; s->part_begin += PART) {
        const size_t left = s->n - s->part_begin, n = left < PART ? left : PART;
        qn_team_run(s->team, (int64_t)n, decode_some, s);
        for (size_t k = 0; k < n; k++) {
            if (s->failure[k] != QN_OK)
                return qn_fail(s->failure[k], "no memory to decode a picture");
            if (writer && s->verdicts[s->part_begin + k])
                QN_TRY(qn_writer_put(writer, s->pixels + k * s->row_bytes, s->row_bytes));
        }
        tell_progress(s, s->part_begin + n);
    }
    return QN_OK;
}

static qn_status write_store(void *context, qn_writer *writer) {
    scan *s = context;
    QN_TRY(decode_all(s, writer));
    QN_TRY(qn_writer_put(writer, s->contents, s->n * sizeof *s->contents));
    return qn_writer_put(writer, s->verdicts, s->n);
}

/* ---- the cache ---- */

static uint64_t mix(uint64_t sum, uint64_t value) {
    return (sum ^ value) * UINT64_C(0x9e3779b97f4a7c15) + (sum >> 29);
}

/* CACHE/pictures-FOLDER-SIZE-FILES; the number changes with what the decoders make of a file. */
static qn_status name_store(const scan *s, char root[PATH_MAX], char *path, size_t bytes) {
    enum { DECODERS = 2 };
    char folder[PATH_MAX - 128], name[PATH_MAX];
    uint64_t files = DECODERS;
    const qn_image_list *first = s->lists;
    while (first->n == 0)
        first++;
    QN_TRY(qn_path_resolve(first->root, root, PATH_MAX));
    QN_TRY(qn_folder_cache(folder, sizeof folder));
    for (size_t i = 0; i < s->n; i++) {
        const qn_image_list *list;
        const qn_image_entry *entry = entry_at(s, i, &list);
        if (!qn_image_path(list, entry, name, sizeof name))
            continue;
        files = mix(mix(files, qn_hash_text(name)), (uint64_t)qn_path_bytes(name));
        files = mix(files, (uint64_t)qn_file_modified_ns(name));
    }
    snprintf(path, bytes, "%s/pictures-%016" PRIx64 "-%dx%dx%d-%016" PRIx64, folder,
             qn_hash_text(root), (int)s->size->dims[0], (int)s->size->dims[1],
             (int)s->size->dims[2], files);
    return QN_OK;
}

/* Whether the file is whole and what it calls unreadable still is; fills the verdicts. */
static bool is_valid(scan *s, qn_file *file) {
    const size_t bytes = s->n * sizeof *s->contents;
    const int64_t rows = qn_file_bytes(file) - (int64_t)(s->n + bytes);
    int64_t n_good = 0;
    if (rows < 0 || qn_file_read(file, rows, s->contents, bytes) != QN_OK ||
        qn_file_read(file, rows + (int64_t)bytes, s->verdicts, s->n) != QN_OK)
        return false;
    for (size_t i = 0; i < s->n; i++) {
        n_good += s->verdicts[i] == 1;
        if (s->verdicts[i] != 1 && (s->verdicts[i] != 0 || load(s, i, s->pixels) == QN_OK))
            return false;
    }
    return rows == n_good * (int64_t)s->row_bytes;
}

typedef struct old_stores {
    char folder[PATH_MAX];
    const char *prefix; /* of their names */
} old_stores;

static qn_status remove_old(void *context, const char *name, bool is_folder) {
    const old_stores *o = context;
    char path[PATH_MAX + 256];
    if (!is_folder && strncmp(name, o->prefix, strlen(o->prefix)) == 0) {
        snprintf(path, sizeof path, "%s/%s", o->folder, name);
        qn_file_remove(path);
    }
    return QN_OK;
}

/* The folder has changed: nobody will ask for the files that were made of it before. */
static void remove_older(const scan *s, const char *path) {
    const char *name = strrchr(path, '/') + 1;
    char prefix[PATH_MAX];
    old_stores old = {.prefix = prefix};
    snprintf(prefix, sizeof prefix, "%.*s", (int)(strrchr(name, '-') + 1 - name), name);
    snprintf(old.folder, sizeof old.folder, "%.*s", (int)(name - 1 - path), path);
    (void)qn_folder_list(s->base->options.allocator, old.folder, remove_old, &old);
}

static qn_status open_store(scan *s, qn_image_store *store) {
    const qn_allocator *allocator = s->base->options.allocator;
    char root[PATH_MAX], path[PATH_MAX];
    QN_TRY(name_store(s, root, path, sizeof path));
    qn_cache_clear_path(path);
    if (qn_path_is_file(path)) {
        QN_TRY(qn_file_open(allocator, path, &store->file));
        if (is_valid(s, store->file)) {
            qn_cache_use(path);
            return QN_OK;
        }
        qn_file_close(store->file);
        store->file = NULL;
    }
    remove_older(s, path);
    QN_TRY(qn_cache_replace(path, write_store, s));
    QN_TRY(qn_file_open(allocator, path, &store->file));
    qn_cache_note(allocator, path, root);
    return QN_OK;
}

/* Where there is no room for the pixels, files are decoded when they are read. */
static qn_status find_verdicts(scan *s, qn_image_store *store) {
    store->row_bytes = s->row_bytes;
    if ((int64_t)s->n * (int64_t)s->row_bytes > MOST_KEPT_BYTES)
        return decode_all(s, NULL);
    const qn_status status = open_store(s, store);
    if (status != QN_ERROR_IO)
        return status;
    qn_data_tell(s->base, 0, "the pictures' pixels are not kept (%s): each is decoded every time",
                 qn_error_message());
    return decode_all(s, NULL);
}

/* ---- what cannot be read ---- */

static qn_status tell_unreadable(scan *s) {
    size_t n_bad = 0;
    for (size_t i = 0; i < s->n; i++)
        n_bad += !s->verdicts[i];
    for (size_t i = 0, n_named = 0; i < s->n && n_bad > 0; i++) {
        if (s->verdicts[i])
            continue;
        QN_TRY(load(s, i, s->pixels) == QN_OK ? qn_fail(QN_ERROR_IO, "a file changes") : QN_OK);
        if (s->base->options.strict)
            return qn_fail(QN_ERROR_FORMAT,
                           "%s (%zu of %zu images cannot be read; repair or remove them, or omit "
                           "--strict to skip them)",
                           qn_error_message(), n_bad, s->n);
        if (n_named++ == MOST_NAMED)
            break;
        qn_data_tell(s->base, 1, "skipped: %s", qn_error_message());
    }
    if (n_bad > 0)
        qn_data_tell(s->base, 1, "%zu of %zu images cannot be read and are skipped", n_bad, s->n);
    return QN_OK;
}

static void take_out(scan *s) {
    size_t i = 0;
    int32_t row = 0;
    for (int split = 0; split < QN_SPLITS; split++) {
        qn_image_list *list = &s->lists[split];
        size_t n_kept = 0;
        for (size_t k = 0; k < list->n; k++, i++) {
            if (!s->verdicts[i])
                continue;
            list->entries[n_kept] = list->entries[k];
            list->entries[n_kept].content = s->contents[i];
            list->entries[n_kept++].row = row++;
        }
        list->n = n_kept;
    }
}

static qn_status run(scan *s, qn_image_store *store) {
    const qn_allocator *allocator = s->base->options.allocator;
    const int n_threads = qn_cpu_count() < MOST_THREADS ? qn_cpu_count() : MOST_THREADS;
    QN_TRY(qn_allocate(allocator, s->n, 1, &s->verdicts));
    QN_TRY(qn_allocate(allocator, s->n, sizeof *s->contents, &s->contents));
    QN_TRY(qn_allocate(allocator, PART, s->row_bytes, &s->pixels));
    if (s->n > PART)
        QN_TRY(qn_team_create(allocator, n_threads, &s->team));
    QN_TRY(find_verdicts(s, store));
    QN_TRY(tell_unreadable(s));
    take_out(s);
    return QN_OK;
}

qn_status qn_images_scan(const qn_source_base *base, qn_image_list lists[QN_SPLITS],
                         const qn_shape *size, qn_image_store *store) {
    const qn_allocator *allocator = base->options.allocator;
    scan s = {.base = base,
              .lists = lists,
              .size = size,
              .n = lists[QN_TRAIN].n + lists[QN_TEST].n + lists[QN_VALIDATION].n,
              .row_bytes = (size_t)qn_shape_count(*size)};
    *store = (qn_image_store){.file = NULL};
    if (s.n == 0)
        return QN_OK;
    const qn_status status = run(&s, store);
    qn_team_destroy(s.team);
    qn_release(allocator, s.pixels, PART, s.row_bytes);
    qn_release(allocator, s.verdicts, s.n, 1);
    qn_release(allocator, s.contents, s.n, sizeof *s.contents);
    if (status != QN_OK) {
        qn_file_close(store->file);
        store->file = NULL;
    }
    return status;
}
