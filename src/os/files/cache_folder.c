/* See cache_folder.h. */
#include "os/files/cache_folder.h"

#include "base/status.h"
#include "base/text.h"
#include "os/heap.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Files of the folder's own. A line of the sources: NAME, a tab, the path, both with escapes. */
static const char sources_name[] = "sources", limit_name[] = "limit";

enum { FOLDER_BYTES = 2048, LINE_BYTES = 3 * 4096, MOST_SOURCES = 1 << 20 };

static const int64_t default_limit = INT64_C(5) << 30;

static qn_status join(const char *name, char path[PATH_MAX]) {
    char folder[FOLDER_BYTES];
    QN_TRY(qn_folder_cache(folder, sizeof folder));
    snprintf(path, PATH_MAX, "%s/%s", folder, name);
    return QN_OK;
}

/* Without following a link at its end. */
static bool look(const char *path, struct stat *status) {
    return lstat(path, status) == 0;
}

void qn_cache_clear_path(const char *path) {
    struct stat status;
    if (look(path, &status) && S_ISLNK(status.st_mode))
        unlink(path);
}

qn_status qn_cache_replace(const char *path, qn_status (*write)(void *context, qn_writer *writer),
                           void *context) {
    qn_cache_clear_path(path);
    return qn_file_replace_private(path, write, context);
}

void qn_cache_use(const char *path) {
    const struct timespec times[] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_NOW}};
    (void)utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW);
}

/* ---- listing ---- */

/* What the beginning of a name says. */
typedef struct kind {
    const char *prefix, *words;
    bool is_derived; /* from data; else measured here */
} kind;

static const kind *kind_of(const char *name) {
    static const kind kinds[] = {
        {"pictures-", "decoded pictures", true},       {"features-", "features of pictures", true},
        {"times-", "times of operations", false},      {"swap-", "speed of a swap disk", false},
        {"roofline-", "speed of this machine", false}, {"tilings-", "tiles of this machine", false},
        {"schedule-", "schedule over cores", false},
    };
    static const kind other = {"", "data, read", true};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strncmp(name, kinds[i].prefix, strlen(kinds[i].prefix)) == 0)
            return &kinds[i];
    }
    return &other;
}

/* Of the folder's own, or not complete yet: whoever writes it removes what a kill has left. */
static bool is_own(const char *name) {
    return strcmp(name, sources_name) == 0 || strcmp(name, limit_name) == 0 ||
           strstr(name, ".quern-tmp") != NULL;
}

static double days_since(struct timespec moment) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec > moment.tv_sec ? (double)(now.tv_sec - moment.tv_sec) / 86400 : 0;
}

static qn_status add(void *context, const char *name, bool is_folder) {
    qn_cache_list *list = context;
    struct stat status;
    char path[PATH_MAX];
    const int n = snprintf(path, sizeof path, "%s/%s", list->folder, name);
    if (is_folder || is_own(name) || n >= PATH_MAX || !look(path, &status) ||
        (!S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode)))
        return QN_OK;
    const char *kept = qn_arena_text(&list->texts, name);
    if (!kept)
        return QN_ERROR_MEMORY;
    QN_TRY(qn_grow(list->texts.allocator, &list->files, &list->capacity, list->n + 1,
                   sizeof *list->files));
    list->files[list->n++] =
        (qn_cached){.name = kept,
                    .kind = kind_of(name)->words,
                    .source = "",
                    .bytes = status.st_size,
                    .used_ns = (int64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec,
                    .days = days_since(status.st_mtim),
                    .is_derived = kind_of(name)->is_derived};
    return QN_OK;
}

/* The last line of a file wins. */
static void read_source(qn_cache_list *list, char *line) {
    char *tab = strchr(line, '\t'), printable[LINE_BYTES];
    if (!tab)
        return;
    *tab = 0;
    for (size_t i = 0; i < list->n; i++) {
        qn_text_printable(list->files[i].name, printable, sizeof printable);
        if (strcmp(printable, line) == 0)
            list->files[i].source = tab + 1;
    }
}

static qn_status read_sources(qn_cache_list *list) {
    char path[PATH_MAX], *text, *rest, *kept;
    size_t bytes;
    snprintf(path, sizeof path, "%s/%s", list->folder, sources_name);
    qn_cache_clear_path(path);
    if (qn_path_bytes(path) > MOST_SOURCES ||
        qn_file_read_whole(list->texts.allocator, path, &text, &bytes) != QN_OK)
        return QN_OK;
    kept = qn_arena_text(&list->texts, text);
    qn_release(list->texts.allocator, text, bytes + 1, 1);
    if (!kept)
        return QN_ERROR_MEMORY;
    for (char *line = strtok_r(kept, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        read_source(list, line);
    return QN_OK;
}

static int compare_uses(const void *left, const void *right) {
    const qn_cached *a = left, *b = right;
    return a->used_ns != b->used_ns ? (a->used_ns < b->used_ns) - (a->used_ns > b->used_ns)
                                    : strcmp(a->name, b->name);
}

static qn_status fill(qn_cache_list *list) {
    char folder[FOLDER_BYTES];
    QN_TRY(qn_folder_cache(folder, sizeof folder));
    list->folder = qn_arena_text(&list->texts, folder);
    if (!list->folder)
        return QN_ERROR_MEMORY;
    QN_TRY(qn_folder_list(list->texts.allocator, folder, add, list));
    QN_TRY(read_sources(list));
    if (list->n > 0)
        qsort(list->files, list->n, sizeof *list->files, compare_uses);
    return QN_OK;
}

qn_status qn_cache_list_open(const qn_allocator *allocator, qn_cache_list *list) {
    *list = (qn_cache_list){.n = 0};
    qn_arena_init(&list->texts, qn_allocator_or_default(allocator));
    const qn_status status = fill(list);
    if (status != QN_OK)
        qn_cache_list_close(list);
    return status;
}

void qn_cache_list_close(qn_cache_list *list) {
    qn_release(list->texts.allocator, list->files, list->capacity, sizeof *list->files);
    qn_arena_deinit(&list->texts);
}

bool qn_cache_remove(const qn_cache_list *list, qn_cached *file) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", list->folder, file->name);
    file->is_removed = unlink(path) == 0 || errno == ENOENT;
    return file->is_removed;
}

static bool is_noted(const qn_cached *file) {
    return *file->source && !file->is_removed;
}

/* The notes of files that are still there. */
static qn_status write_sources(void *context, qn_writer *writer) {
    const qn_cache_list *list = context;
    char line[LINE_BYTES];
    for (size_t i = 0; i < list->n; i++) {
        const qn_cached *file = &list->files[i];
        if (!is_noted(file))
            continue;
        qn_text_printable(file->name, line, sizeof line);
        QN_TRY(qn_writer_put(writer, line, strlen(line)));
        QN_TRY(qn_writer_put(writer, "\t", 1));
        QN_TRY(qn_writer_put(writer, file->source, strlen(file->source)));
        QN_TRY(qn_writer_put(writer, "\n", 1));
    }
    return QN_OK;
}

qn_status qn_cache_drop_notes(const qn_cache_list *list) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", list->folder, sources_name);
    for (size_t i = 0; i < list->n; i++) {
        if (is_noted(&list->files[i]))
            return qn_cache_replace(path, write_sources, (void *)(uintptr_t)list);
    }
    qn_file_remove(path);
    return QN_OK;
}

/* ---- the bound ---- */

int64_t qn_cache_limit(void) {
    char path[PATH_MAX], *text;
    size_t bytes;
    int64_t limit = default_limit;
    if (join(limit_name, path) != QN_OK)
        return limit;
    qn_cache_clear_path(path);
    if (qn_path_bytes(path) <= 0 || qn_path_bytes(path) > 32 ||
        qn_file_read_whole(NULL, path, &text, &bytes) != QN_OK)
        return limit;
    char *end;
    const long long read = strtoll(text, &end, 10);
    if (end > text && *end == '\n' && read >= 0)
        limit = read;
    qn_release(qn_allocator_default(), text, bytes + 1, 1);
    return limit;
}

static qn_status write_limit(void *context, qn_writer *writer) {
    char text[32];
    const int n = snprintf(text, sizeof text, "%" PRId64 "\n", *(const int64_t *)context);
    return qn_writer_put(writer, text, (size_t)n);
}

qn_status qn_cache_keep_limit(int64_t bytes) {
    char path[PATH_MAX];
    QN_TRY(join(limit_name, path));
    return qn_cache_replace(path, write_limit, &bytes);
}

void qn_cache_apply_limit(const qn_allocator *allocator) {
    const int64_t limit = qn_cache_limit();
    qn_cache_list list;
    char path[PATH_MAX];
    int64_t sum = 0;
    if (qn_cache_list_open(allocator, &list) != QN_OK)
        return;
    for (size_t i = 0; i < list.n; i++) {
        qn_cached *file = &list.files[i];
        sum += file->is_derived ? file->bytes : 0;
        if (file->is_derived && sum > limit)
            (void)qn_cache_remove(&list, file);
    }
    if (join(sources_name, path) == QN_OK && qn_path_bytes(path) > MOST_SOURCES / 2)
        (void)qn_cache_drop_notes(&list);
    qn_cache_list_close(&list);
}

/* A line behind the others, in one write: other processes add theirs. */
static void append_source(const char *name, const char *source) {
    char path[PATH_MAX], line[2 * LINE_BYTES], printable[LINE_BYTES];
    if (join(sources_name, path) != QN_OK)
        return;
    int n =
        snprintf(line, sizeof line, "%s\t", qn_text_printable(name, printable, sizeof printable));
    n += snprintf(line + n, sizeof line - (size_t)n, "%s\n",
                  qn_text_printable(source, printable, sizeof printable));
    qn_cache_clear_path(path);
    const int file =
        open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (file < 0)
        return;
    const ssize_t written = write(file, line, (size_t)n);
    (void)written;
    close(file);
}

void qn_cache_note(const qn_allocator *allocator, const char *path, const char *source) {
    const char *slash = strrchr(path, '/');
    append_source(slash ? slash + 1 : path, source);
    qn_cache_apply_limit(allocator);
}
