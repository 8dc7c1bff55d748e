/* See join.h. */
#include "data/table/join.h"

#include "base/decimal.h"
#include "base/status.h"
#include "base/text.h"
#include "data/table/values.h"
#include "format/output.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 16, MOST_FILES = 1 << 20 };

static const char file_column[] = "(file)", folder_column[] = "(folder)";

typedef struct joining {
    qn_source_base *base;
    const char *folder;
    qn_csv_joined *joined;
    const char **paths; /* (n) below the folder, in the arena */
    size_t n, capacity;
    int64_t n_passed; /* files that are no tables */
    bool has_header, writes_file, writes_folder;
    const char **names; /* (n_columns) of the first file */
    size_t n_columns;
    int64_t *starts; /* (n) */
    int64_t n_rows;
    qn_output out;
} joining;

/* ---- the files ---- */

typedef struct walk {
    joining *j;
    const char *below; /* "" or "CLASS" */
    int depth;
} walk;

static bool is_table(const char *name) {
    static const char *const endings[] = {".csv", ".tsv", ".csv.gz", ".tsv.gz"};
    const size_t length = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t n = strlen(endings[i]);
        if (length > n && qn_text_is_same(name + length - n, endings[i]))
            return true;
    }
    return false;
}

static qn_status add_file(joining *j, const char *path) {
    const char *kept = qn_arena_text(&j->base->arena, path);
    if (!kept)
        return QN_ERROR_MEMORY;
    if (j->n == MOST_FILES)
        return qn_fail(QN_ERROR_UNSUPPORTED, "%s holds more than %d tables", j->folder, MOST_FILES);
    QN_TRY(
        qn_grow(j->base->options.allocator, &j->paths, &j->capacity, j->n + 1, sizeof *j->paths));
    j->paths[j->n++] = kept;
    return QN_OK;
}

static qn_status visit(void *context, const char *name, bool is_folder) {
    const walk *w = context;
    char below[PATH_MAX], path[PATH_MAX];
    qn_split split;
    const int n = snprintf(below, sizeof below, "%s%s%s", w->below, *w->below ? "/" : "", name);
    const int length = snprintf(path, sizeof path, "%s/%s", w->j->folder, below);
    if (name[0] == '.')
        return QN_OK;
    if (n >= (int)sizeof below || length >= (int)sizeof path || w->depth > DEEPEST)
        return qn_fail(QN_ERROR_FORMAT, "%s: the path is too long, or a link leads back", below);
    if (!is_folder && is_table(name))
        return add_file(w->j, below);
    if (!is_folder) {
        w->j->n_passed++;
        return QN_OK;
    }
    if (w->depth == 0 && qn_split_of_name(name, &split))
        return qn_fail(QN_ERROR_FORMAT,
                       "%s holds a folder %s: give each part by itself, csv:%s/%s (quern evaluate "
                       "--data judges another one)",
                       w->j->folder, name, w->j->folder, name);
    walk deeper = {w->j, below, w->depth + 1};
    return qn_folder_list(w->j->base->options.allocator, path, visit, &deeper);
}

static int by_text(const void *left, const void *right) {
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static qn_status list_files(joining *j) {
    walk w = {j, "", 0};
    size_t n_below = 0;
    QN_TRY(qn_folder_list(j->base->options.allocator, j->folder, visit, &w));
    if (j->n == 0)
        return qn_fail(QN_ERROR_FORMAT, "%s holds no tables (CLASS/*.csv, or *.csv)", j->folder);
    qsort(j->paths, j->n, sizeof *j->paths, by_text);
    for (size_t i = 0; i < j->n; i++)
        n_below += strchr(j->paths[i], '/') != NULL;
    if (n_below > 0 && n_below < j->n)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s holds tables in class folders and others beside them; move the others "
                       "away, or into a folder",
                       j->folder);
    j->writes_folder = n_below > 0;
    return QN_OK;
}

/* ---- columns ---- */

static bool is_number(const char *text) {
    double value;
    return qn_value_number(text, '.', &value) || qn_value_number(text, ',', &value);
}

/* Whether a first record is names: none of its fields is a number or missing. */
static bool are_names(const qn_csv_reader *row, const char *told) {
    if (told && strcmp(told, "auto") != 0 && *told)
        return strcmp(told, "yes") == 0;
    for (size_t i = 0; i < row->n_fields; i++) {
        const char *text = qn_csv_text(row, i);
        if (is_number(text) || qn_value_is_missing(text, false))
            return false;
    }
    return true;
}

static qn_status keep_names(joining *j, const qn_csv_reader *row) {
    qn_arena *arena = &j->base->arena;
    j->n_columns = row->n_fields;
    j->names = qn_arena_allocate(arena, j->n_columns, sizeof *j->names);
    for (size_t i = 0; j->names && i < j->n_columns; i++) {
        j->names[i] = j->has_header ? qn_arena_text(arena, qn_csv_text(row, i))
                                    : qn_arena_format(arena, "column %zu", i + 1);
        if (!j->names[i])
            return QN_ERROR_MEMORY;
        for (size_t k = 0; k < i; k++)
            if (strcmp(j->names[k], j->names[i]) == 0)
                return qn_fail(QN_ERROR_FORMAT, "%s: two columns '%s'", row->name, j->names[i]);
    }
    return j->names ? QN_OK : QN_ERROR_MEMORY;
}

static void put_header(joining *j) {
    if (j->writes_file) {
        qn_output_csv(&j->out, file_column);
        qn_output_text(&j->out, ",");
    }
    for (size_t i = 0; i < j->n_columns; i++) {
        qn_output_text(&j->out, i > 0 ? "," : "");
        qn_output_csv(&j->out, j->names[i]);
    }
    if (j->writes_folder) {
        qn_output_text(&j->out, ",");
        qn_output_csv(&j->out, folder_column);
    }
    qn_output_text(&j->out, "\n");
}

/* The field of each column in a file's records. */
static qn_status match_columns(joining *j, const qn_csv_reader *row, size_t *places) {
    qn_text_names missing = {.n = 0}, extra = {.n = 0};
    if (!j->has_header && row->n_fields != j->n_columns)
        return qn_fail(QN_ERROR_FORMAT, "%s: %zu columns, the first file has %zu", row->name,
                       row->n_fields, j->n_columns);
    for (size_t i = 0; i < j->n_columns; i++) {
        size_t k = j->has_header ? 0 : i;
        while (j->has_header && k < row->n_fields && strcmp(qn_csv_text(row, k), j->names[i]) != 0)
            k++;
        places[i] = k;
        if (k == row->n_fields)
            qn_text_names_add(&missing, j->names[i]);
    }
    if (missing.n > 0)
        return qn_fail(QN_ERROR_FORMAT, "%s has no column %s, which the first file, %s, has",
                       row->name, qn_text_names_finish(&missing), j->paths[0]);
    for (size_t k = 0; k < row->n_fields && row->n_fields > j->n_columns; k++) {
        size_t i = 0;
        while (i < j->n_columns && places[i] != k)
            i++;
        if (i == j->n_columns)
            qn_text_names_add(&extra, qn_csv_text(row, k));
    }
    if (extra.n > 0)
        qn_data_tell(j->base, 0, "%s: columns that the first file does not have are left out: %s",
                     row->name, qn_text_names_finish(&extra));
    return QN_OK;
}

/* ---- rows ---- */

static void put_row(joining *j, const qn_csv_reader *row, const size_t *places, const char *path) {
    if (j->writes_file) {
        qn_output_csv(&j->out, path);
        qn_output_text(&j->out, ",");
    }
    for (size_t i = 0; i < j->n_columns; i++) {
        qn_output_text(&j->out, i > 0 ? "," : "");
        qn_output_csv(&j->out, qn_csv_text(row, places[i]));
    }
    if (j->writes_folder) {
        char class[NAME_MAX + 1];
        snprintf(class, sizeof class, "%.*s", (int)strcspn(path, "/"), path);
        qn_output_text(&j->out, ",");
        qn_output_csv(&j->out, class);
    }
    qn_output_text(&j->out, "\n");
}

static qn_status copy_rows(joining *j, csv_table *t, const size_t *places, size_t n_fields,
                           const char *path) {
    bool is_end;
    qn_csv_begin(t);
    if (j->has_header)
        QN_TRY(qn_csv_next(&t->reader, &is_end));
    for (;;) {
        QN_TRY(qn_csv_next(&t->reader, &is_end));
        if (is_end)
            return j->out.status;
        if (t->reader.n_fields != n_fields)
            return qn_fail(QN_ERROR_FORMAT, "%s: line %" PRId64 " has %zu fields, the first %zu",
                           t->reader.name, t->reader.line, t->reader.n_fields, n_fields);
        put_row(j, &t->reader, places, path);
        j->n_rows++;
    }
}

/* The files of a folder are of one program, which writes all of them alike. */
static qn_status check_dialect(joining *j, const csv_table *t, size_t i, bool has_header) {
    qn_csv_joined *joined = j->joined;
    if (i == 0) {
        joined->separator = t->separator;
        joined->decimal = t->decimal;
        joined->encoding = t->decoder.encoding;
        j->has_header = has_header;
    }
    if (t->decimal != joined->decimal)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s has '%c' as its decimal mark, the first file, %s, has '%c'; --decimal "
                       "says what all have",
                       t->reader.name, t->decimal, j->paths[0], joined->decimal);
    return j->has_header == has_header
               ? QN_OK
               : qn_fail(QN_ERROR_FORMAT,
                         "%s/%s %s a line of names, and the first file, %s, %s; --header yes or no "
                         "says what all have",
                         j->folder, j->paths[i], has_header ? "has" : "has not", j->paths[0],
                         has_header ? "has not" : "has");
}

static qn_status add_table(joining *j, csv_table *t, size_t i) {
    bool is_end;
    QN_TRY(qn_csv_find_dialect(t));
    qn_csv_begin(t);
    QN_TRY(qn_csv_next(&t->reader, &is_end));
    if (is_end)
        return qn_fail(QN_ERROR_FORMAT, "%s: no rows", t->reader.name);
    QN_TRY(check_dialect(j, t, i, are_names(&t->reader, j->base->options.header)));
    if (i == 0) {
        QN_TRY(keep_names(j, &t->reader));
        put_header(j);
    }
    const size_t n_fields = t->reader.n_fields;
    size_t *places = qn_arena_allocate(&t->arena, j->n_columns, sizeof *places);
    if (!places)
        return QN_ERROR_MEMORY;
    QN_TRY(match_columns(j, &t->reader, places));
    j->starts[i] = j->n_rows;
    return copy_rows(j, t, places, n_fields, j->paths[i]);
}

static qn_status add_path(joining *j, size_t i) {
    const qn_allocator *allocator = j->base->options.allocator;
    qn_csv_options options = {.allocator = allocator, .how = &j->base->options};
    qn_file *file;
    csv_table *t;
    options.name = qn_arena_format(&j->base->arena, "%s/%s", j->folder, j->paths[i]);
    if (!options.name)
        return QN_ERROR_MEMORY;
    QN_TRY(qn_data_open_file(j->base, options.name, &file));
    qn_status status = qn_csv_open_table(&options, file, &t);
    if (status == QN_OK) {
        status = add_table(j, t, i);
        qn_csv_close_table(t);
    }
    qn_file_close(file);
    return status;
}

static qn_status put_bytes(void *user, const void *data, size_t bytes) {
    return qn_writer_put(user, data, bytes);
}

static qn_status write_all(void *context, qn_writer *writer) {
    joining *j = context;
    j->out = (qn_output){.user = writer, .put = put_bytes};
    for (size_t i = 0; i < j->n; i++)
        QN_TRY(add_path(j, i));
    return j->out.status;
}

/* ---- all ---- */

static qn_status tell(joining *j) {
    if (j->n_passed > 0)
        QN_TRY(qn_data_facts_count(j->base, &j->base->facts.dropped, "files",
                                   "no tables (.csv, .tsv)", NULL, j->n_passed));
    QN_TRY(qn_data_facts_note(j->base, "%zu files are read as one table, each a recording%s%s",
                              j->n, j->writes_file ? ", on one side of the split" : "",
                              j->writes_folder ? "; the class is the folder" : ""));
    qn_data_tell(j->base, 0, "%s: %s", j->folder, j->base->facts.notes[j->base->facts.n_notes - 1]);
    return QN_OK;
}

static qn_status join(joining *j, const char *label) {
    const qn_data_options *o = &j->base->options;
    const bool has_target = label || o->target;
    QN_TRY(list_files(j));
    j->writes_folder &= !has_target;
    j->writes_file = !o->group || !*o->group;
    j->joined->target = j->writes_folder ? folder_column : NULL;
    j->joined->group = j->writes_file ? file_column : NULL;
    j->starts = qn_arena_allocate(&j->base->arena, j->n, sizeof *j->starts);
    if (!j->starts)
        return QN_ERROR_MEMORY;
    QN_TRY(qn_file_make(o->allocator, j->folder, write_all, j, &j->joined->file));
    j->joined->starts = j->starts;
    j->joined->n_starts = j->n;
    const qn_status status = tell(j);
    if (status != QN_OK)
        qn_file_close(j->joined->file);
    return status;
}

qn_status qn_csv_join(qn_source_base *base, const char *folder, const char *label,
                      qn_csv_joined *joined) {
    joining j = {.base = base, .folder = folder, .joined = joined};
    *joined = (qn_csv_joined){.file = NULL};
    const qn_status status = join(&j, label);
    qn_release(base->options.allocator, j.paths, j.capacity, sizeof *j.paths);
    if (status != QN_OK)
        joined->file = NULL;
    return status;
}
