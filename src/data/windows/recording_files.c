/* See recording_files.h. */
#include "data/windows/recording_files.h"

#include "base/rng.h"
#include "base/status.h"
#include "os/os.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 16, MOST_FILES = 1 << 20 };

typedef struct walk {
    qn_source_base *base;
    const qn_recording_kind *kind;
    qn_recording_files *files;
    const char *below; /* "" or "CLASS" */
    int depth;
} walk;

static qn_status add_file(const walk *w, const char *path) {
    qn_recording_files *f = w->files;
    const char *kept = qn_arena_text(&w->base->arena, path);
    if (!kept)
        return QN_ERROR_MEMORY;
    if (f->n == MOST_FILES)
        return qn_fail(QN_ERROR_UNSUPPORTED, "%s holds more than %d %s", f->folder, MOST_FILES,
                       w->kind->wanted);
    QN_TRY(
        qn_grow(w->base->options.allocator, &f->paths, &f->capacity, f->n + 1, sizeof *f->paths));
    f->paths[f->n++] = kept;
    return QN_OK;
}

static qn_status visit(void *context, const char *name, bool is_folder) {
    const walk *w = context;
    const char *folder = w->files->folder;
    char below[PATH_MAX], path[PATH_MAX];
    qn_split split;
    const int n = snprintf(below, sizeof below, "%s%s%s", w->below, *w->below ? "/" : "", name);
    const int length = snprintf(path, sizeof path, "%s/%s", folder, below);
    if (name[0] == '.')
        return QN_OK;
    if (n >= (int)sizeof below || length >= (int)sizeof path || w->depth > DEEPEST)
        return qn_fail(QN_ERROR_FORMAT, "%s: the path is too long, or a link leads back", below);
    if (!is_folder && w->kind->is_wanted(name))
        return add_file(w, below);
    if (!is_folder) {
        w->files->n_passed++;
        return QN_OK;
    }
    if (w->depth == 0 && qn_split_of_name(name, &split))
        return qn_fail(QN_ERROR_FORMAT,
                       "%s holds a folder %s: give each part by itself, %s:%s/%s (quern evaluate "
                       "--data judges another one)",
                       folder, name, w->kind->format, folder, name);
    walk deeper = {w->base, w->kind, w->files, below, w->depth + 1};
    return qn_folder_list(w->base->options.allocator, path, visit, &deeper);
}

static int by_text(const void *left, const void *right) {
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

qn_status qn_recording_files_list(qn_source_base *base, const char *folder,
                                  const qn_recording_kind *kind, qn_recording_files *files) {
    walk w = {base, kind, files, "", 0};
    size_t n_below = 0;
    *files = (qn_recording_files){.folder = folder};
    QN_TRY(qn_folder_list(base->options.allocator, folder, visit, &w));
    if (files->n == 0)
        return qn_fail(QN_ERROR_FORMAT, "%s holds no %s (%s)", folder, kind->wanted, kind->form);
    qsort(files->paths, files->n, sizeof *files->paths, by_text);
    for (size_t i = 0; i < files->n; i++)
        n_below += strchr(files->paths[i], '/') != NULL;
    if (n_below > 0 && n_below < files->n)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s holds %s in class folders and others beside them; move the others "
                       "away, or into a folder",
                       folder, kind->wanted);
    files->have_classes = n_below > 0;
    return QN_OK;
}

void qn_recording_files_deinit(const qn_source_base *base, qn_recording_files *files) {
    qn_release(base->options.allocator, files->paths, files->capacity, sizeof *files->paths);
    files->paths = NULL;
    files->n = files->capacity = 0;
}

void qn_recording_class(const qn_recording_files *files, size_t i, char name[QN_RECORDING_CLASS]) {
    const char *path = files->paths[i];
    snprintf(name, QN_RECORDING_CLASS, "%.*s", (int)strcspn(path, "/"), path);
}

uint64_t qn_recording_files_key(const qn_recording_files *files) {
    char path[PATH_MAX];
    uint64_t key = files->n;
    for (size_t i = 0; i < files->n; i++) {
        snprintf(path, sizeof path, "%s/%s", files->folder, files->paths[i]);
        const uint64_t of[] = {key, qn_hash_text(files->paths[i]), (uint64_t)qn_path_bytes(path),
                               (uint64_t)qn_file_modified_ns(path)};
        key = qn_hash_bytes(of, sizeof of);
    }
    return key;
}
