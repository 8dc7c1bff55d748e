/* Recordings as arrays: npy:DIR, whose files CLASS/FILE.npy are (T, C) each, one behind the other
 * as rows of one array of floats. The class is the folder, and a file is a recording, on one side
 * of the split unless options say that nothing groups them. What is made of the files is kept in
 * the cache folder until one is added, changed or removed. */
#include "base/rng.h"
#include "base/status.h"
#include "base/text.h"
#include "data/cache.h"
#include "data/npy.h"
#include "data/windows/recording_files.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct collecting {
    qn_npy_source *npy;
    qn_recording_files files;
    int64_t *starts;   /* (n + 1) rows at which the files begin, and the number of all */
    int64_t *class_of; /* (n) */
    int64_t n_columns;
    const int64_t *numbers; /* (n) what is written for each row of a file */
} collecting;

static bool is_array(const char *name) {
    const size_t length = strlen(name);
    return length > 4 && qn_text_is_same(name + length - 4, ".npy");
}

static const qn_recording_kind arrays = {"npy", "arrays", "CLASS/*.npy, or *.npy to predict on",
                                         is_array};

static qn_status open_one(const collecting *c, size_t i, qn_npy_array *array) {
    qn_source_base *base = &c->npy->base;
    const char *path = qn_arena_format(&base->arena, "%s/%s", c->files.folder, c->files.paths[i]);
    *array = (qn_npy_array){.file = NULL};
    if (!path)
        return QN_ERROR_MEMORY;
    QN_TRY(qn_npy_open(base, path, array));
    return qn_npy_is_text(&array->header)
               ? qn_fail(QN_ERROR_FORMAT, "%s: %s; recordings are numbers", path, array->element)
               : QN_OK;
}

/* ---- what the files are ---- */

static qn_status look_at(collecting *c, size_t i) {
    qn_npy_array array;
    const qn_status status = open_one(c, i, &array);
    const qn_shape *shape = &array.header.shape;
    if (status == QN_OK) {
        c->n_columns = i == 0 ? shape->dims[1] : c->n_columns;
        c->starts[i + 1] = c->starts[i] + shape->dims[0];
        c->npy->x.are_integers |= array.are_integers;
        if (i == 0)
            memcpy(c->npy->x.element, array.element, sizeof array.element);
    }
    qn_file_close(array.file);
    QN_TRY(status);
    return shape->rank == 2 && shape->dims[1] == c->n_columns
               ? QN_OK
               : qn_fail(QN_ERROR_FORMAT,
                         "%s: a recording is (T, C), T steps of C numbers each; this one is %s%s",
                         array.path, shape->rank == 2 ? "of other columns than " : "not",
                         shape->rank == 2 ? c->files.paths[0] : "");
}

/* Files lie sorted, and so do their folders. */
static qn_status number_classes(collecting *c, qn_data_source *source) {
    qn_arena *arena = &c->npy->base.arena;
    const char **names = qn_arena_allocate(arena, c->files.n, sizeof *names);
    char name[QN_RECORDING_CLASS];
    int n = 0;
    if (!names)
        return QN_ERROR_MEMORY;
    for (size_t i = 0; i < c->files.n; i++) {
        qn_recording_class(&c->files, i, name);
        if (n == 0 || strcmp(names[n - 1], name) != 0) {
            names[n] = qn_arena_text(arena, name);
            if (!names[n++])
                return QN_ERROR_MEMORY;
        }
        c->class_of[i] = n - 1;
    }
    source->preparation.n_classes = n;
    source->preparation.class_names = names;
    return QN_OK;
}

static qn_status look_at_all(collecting *c, const char *folder, qn_data_source *source) {
    qn_source_base *base = &c->npy->base;
    QN_TRY(qn_recording_files_list(base, folder, &arrays, &c->files));
    if (!c->files.have_classes && !base->options.is_unlabelled)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s: arrays beside each other have no class; they lie in class folders, "
                       "CLASS/*.npy",
                       folder);
    c->starts = qn_arena_allocate(&base->arena, c->files.n + 1, sizeof *c->starts);
    c->class_of = qn_arena_allocate(&base->arena, c->files.n, sizeof *c->class_of);
    if (!c->starts || !c->class_of)
        return QN_ERROR_MEMORY;
    for (size_t i = 0; i < c->files.n; i++)
        QN_TRY(look_at(c, i));
    return c->files.have_classes ? number_classes(c, source) : QN_OK;
}

/* ---- one array ---- */

/* Floats of a file on their way, of which none may be infinite or no number. */
typedef struct checking {
    qn_sink to;
    const char *path;
    int64_t n_columns, n;
} checking;

static qn_status put_checked(void *context, const void *data, size_t bytes) {
    checking *c = context;
    const float *values = data;
    for (size_t i = 0; i < bytes / sizeof *values; i++, c->n++)
        if (!isfinite(values[i]))
            return qn_fail(QN_ERROR_FORMAT,
                           "%s: row %" PRId64 ", number %" PRId64
                           " of it: %g; leave the row out, or put a number there",
                           c->path, c->n / c->n_columns, c->n % c->n_columns, (double)values[i]);
    return c->to.put(c->to.context, data, bytes);
}

static qn_status put_one(const collecting *c, size_t i, qn_sink sink) {
    qn_npy_array array;
    qn_status status = open_one(c, i, &array);
    checking through = {.to = sink, .path = array.path, .n_columns = c->n_columns};
    if (status == QN_OK)
        status = qn_npy_put_floats(&array.header, array.file, (qn_sink){&through, put_checked});
    qn_file_close(array.file);
    return status;
}

/* A qn_derive; of the files, source is the first. */
static qn_status put_all(void *context, qn_file *source, qn_sink sink) {
    const collecting *c = context;
    (void)source;
    for (size_t i = 0; i < c->files.n; i++)
        QN_TRY(put_one(c, i, sink));
    return QN_OK;
}

static qn_status write_numbers(void *context, qn_writer *writer) {
    const collecting *c = context;
    for (size_t i = 0; i < c->files.n; i++)
        for (int64_t row = c->starts[i]; row < c->starts[i + 1]; row++)
            QN_TRY(qn_writer_put(writer, &c->numbers[i], sizeof *c->numbers));
    return QN_OK;
}

/* An array of one number for each row: the file's. */
static qn_status make_numbers(collecting *c, const int64_t *numbers, qn_npy_array *array) {
    const int64_t n = c->starts[c->files.n];
    c->numbers = numbers;
    array->path = c->files.folder;
    array->header =
        (qn_npy_header){.kind = 'i', .element_bytes = 8, .shape = QN_SHAPE(n), .data_bytes = 8 * n};
    return qn_file_make(c->npy->base.options.allocator, c->files.folder, write_numbers, c,
                        &array->file);
}

static qn_status make_groups(collecting *c) {
    const char *told = c->npy->base.options.group;
    qn_arena *arena = &c->npy->base.arena;
    if (told && strcmp(told, "none") == 0)
        return QN_OK;
    if (told && *told && strcmp(told, "(file)") != 0)
        return qn_fail(
            QN_ERROR_ARGUMENT,
            "--group %s: of a folder of arrays each file is a group; --group none leaves "
            "them without",
            told);
    int64_t *numbers = qn_arena_allocate(arena, c->files.n, sizeof *numbers);
    if (!numbers)
        return QN_ERROR_MEMORY;
    for (size_t i = 0; i < c->files.n; i++)
        numbers[i] = (int64_t)qn_hash_text(c->files.paths[i]);
    c->npy->base.options.group = "(file)";
    return make_numbers(c, numbers, &c->npy->group);
}

static qn_status make_rows(collecting *c) {
    qn_source_base *base = &c->npy->base;
    qn_npy_array *x = &c->npy->x;
    const int64_t n = c->starts[c->files.n];
    const char *first = qn_arena_format(&base->arena, "%s/%s", c->files.folder, c->files.paths[0]);
    const char *variant =
        qn_arena_format(&base->arena, "recordings %016" PRIx64, qn_recording_files_key(&c->files));
    qn_file *file;
    if (!first || !variant)
        return QN_ERROR_MEMORY;
    QN_TRY(qn_file_open(base->options.allocator, first, &file));
    const qn_status status = qn_cache_open_of(base, file, variant, put_all, c, &x->file);
    qn_file_close(file);
    QN_TRY(status);
    x->path = c->files.folder;
    x->header = (qn_npy_header){.kind = 'f',
                                .element_bytes = 4,
                                .shape = QN_SHAPE(n, c->n_columns),
                                .data_bytes = 4 * n * c->n_columns};
    return qn_file_bytes(x->file) == x->header.data_bytes
               ? QN_OK
               : qn_fail(QN_ERROR_FORMAT, "%s: its files changed while they were read", x->path);
}

static qn_status tell(const collecting *c) {
    qn_source_base *base = &c->npy->base;
    if (c->files.n_passed > 0)
        QN_TRY(qn_data_facts_count(base, &base->facts.dropped, "files", "no arrays (.npy)", NULL,
                                   c->files.n_passed));
    QN_TRY(qn_data_facts_note(base, "%zu files are read as one array, each a recording%s%s",
                              c->files.n, c->npy->group.file ? ", on one side of the split" : "",
                              c->files.have_classes ? "; the class is the folder" : ""));
    qn_data_tell(base, 0, "%s: %s", c->files.folder, base->facts.notes[base->facts.n_notes - 1]);
    return QN_OK;
}

qn_status qn_npy_open_folder(qn_npy_source *npy, const char *folder, qn_data_source *source) {
    collecting c = {.npy = npy};
    qn_status status = look_at_all(&c, folder, source);
    if (status == QN_OK)
        status = make_rows(&c);
    if (status == QN_OK && c.files.have_classes)
        status = make_numbers(&c, c.class_of, &npy->y);
    if (status == QN_OK)
        status = make_groups(&c);
    if (status == QN_OK)
        status = tell(&c);
    npy->starts = c.starts;
    npy->n_starts = c.files.n;
    qn_recording_files_deinit(&npy->base, &c.files);
    return status;
}
