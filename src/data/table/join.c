/* See join.h. */
#include "data/table/join.h"

#include "base/status.h"
#include "base/text.h"
#include "data/table/values.h"
#include "data/windows/recording_files.h"
#include "format/output.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { NOTES_BYTES = 2048 };

static const char file_column[] = "(file)", folder_column[] = "(folder)", magic[] = "quernJN1";

/* What stands behind the parsed table: (n) int64_t starts, then this. */
typedef struct joined_tail {
    int64_t n;
    int32_t separator, encoding;
    char notes[NOTES_BYTES]; /* a line for each file whose columns are left out */
    char magic[8];
} joined_tail;

typedef struct joining {
    qn_source_base *base;
    const char *folder, *label;
    qn_recording_files files;
    joined_tail tail;
    char decimal; /* of the files */
    bool has_header, writes_file, writes_folder;
    const char **names; /* (n_columns) of the first file */
    size_t n_columns;
    int64_t *starts; /* (n) */
    int64_t n_rows;
    qn_output out;
} joining;

/* ---- the files ---- */

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

static const qn_recording_kind tables = {"csv", "tables", "CLASS/*.csv, or *.csv", is_table};

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

/* Keeps a line for the user, of as many files as there is room for. */
static void note_extra(joining *j, const char *name, const char *columns) {
    char *notes = j->tail.notes;
    const size_t used = strlen(notes);
    const int n =
        snprintf(notes + used, NOTES_BYTES - used,
                 "%s: columns that the first file does not have are left out: %s\n", name, columns);
    if (n < 0 || used + (size_t)n >= NOTES_BYTES)
        notes[used] = 0;
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
                       row->name, qn_text_names_finish(&missing), j->files.paths[0]);
    for (size_t k = 0; k < row->n_fields && row->n_fields > j->n_columns; k++) {
        size_t i = 0;
        while (i < j->n_columns && places[i] != k)
            i++;
        if (i == j->n_columns)
            qn_text_names_add(&extra, qn_csv_text(row, k));
    }
    if (extra.n > 0)
        note_extra(j, row->name, qn_text_names_finish(&extra));
    return QN_OK;
}

/* ---- rows ---- */

static void put_row(joining *j, const qn_csv_reader *row, const size_t *places, size_t i_file) {
    if (j->writes_file) {
        qn_output_csv(&j->out, j->files.paths[i_file]);
        qn_output_text(&j->out, ",");
    }
    for (size_t i = 0; i < j->n_columns; i++) {
        qn_output_text(&j->out, i > 0 ? "," : "");
        qn_output_csv(&j->out, qn_csv_text(row, places[i]));
    }
    if (j->writes_folder) {
        char class[QN_RECORDING_CLASS];
        qn_recording_class(&j->files, i_file, class);
        qn_output_text(&j->out, ",");
        qn_output_csv(&j->out, class);
    }
    qn_output_text(&j->out, "\n");
}

static qn_status copy_rows(joining *j, csv_table *t, const size_t *places, size_t n_fields,
                           size_t i_file) {
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
        put_row(j, &t->reader, places, i_file);
        j->n_rows++;
    }
}

/* The files of a folder are of one program, which writes all of them alike. */
static qn_status check_dialect(joining *j, const csv_table *t, size_t i, bool has_header) {
    if (i == 0) {
        j->tail.separator = t->separator;
        j->tail.encoding = (int32_t)t->decoder.encoding;
        j->decimal = t->decimal;
        j->has_header = has_header;
    }
    if (t->decimal != j->decimal)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s has '%c' as its decimal mark, the first file, %s, has '%c'; --decimal "
                       "says what all have",
                       t->reader.name, t->decimal, j->files.paths[0], j->decimal);
    return j->has_header == has_header
               ? QN_OK
               : qn_fail(QN_ERROR_FORMAT,
                         "%s/%s %s a line of names, and the first file, %s, %s; --header yes or no "
                         "says what all have",
                         j->folder, j->files.paths[i], has_header ? "has" : "has not",
                         j->files.paths[0], has_header ? "has not" : "has");
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
    return copy_rows(j, t, places, n_fields, i);
}

static qn_status add_path(joining *j, size_t i) {
    const qn_allocator *allocator = j->base->options.allocator;
    qn_csv_options options = {.allocator = allocator, .how = &j->base->options};
    qn_file *file;
    csv_table *t;
    options.name = qn_arena_format(&j->base->arena, "%s/%s", j->folder, j->files.paths[i]);
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
    for (size_t i = 0; i < j->files.n; i++)
        QN_TRY(add_path(j, i));
    return j->out.status;
}

/* ---- all ---- */

static qn_status convert(joining *j, qn_file *all, qn_sink sink) {
    const char decimal[2] = {j->decimal, 0};
    qn_data_options how = j->base->options;
    how.separator = ",";
    how.decimal = decimal;
    how.header = "yes";
    how.group = j->writes_file ? file_column : how.group;
    qn_csv_options options = {.allocator = how.allocator,
                              .how = &how,
                              .name = j->folder,
                              .target = j->writes_folder ? folder_column : j->label};
    return qn_csv_convert(&options, all, sink);
}

/* A qn_derive; context: a joining. Of the files, source is the first. */
static qn_status derive(void *context, qn_file *source, qn_sink sink) {
    joining *j = context;
    qn_file *all;
    (void)source;
    j->tail = (joined_tail){.n = (int64_t)j->files.n};
    memcpy(j->tail.magic, magic, sizeof j->tail.magic);
    j->n_rows = 0;
    QN_TRY(qn_file_make(j->base->options.allocator, j->folder, write_all, j, &all));
    const qn_status status = convert(j, all, sink);
    qn_file_close(all);
    QN_TRY(status);
    QN_TRY(sink.put(sink.context, j->starts, j->files.n * sizeof *j->starts));
    return sink.put(sink.context, &j->tail, sizeof j->tail);
}

/* Reads what stands behind the parsed table, and leaves it out of the file. */
static qn_status read_tail(joining *j, qn_file *file) {
    const int64_t bytes = (int64_t)(j->files.n * sizeof *j->starts);
    const int64_t at = qn_file_bytes(file) - (int64_t)sizeof j->tail;
    if (at >= bytes)
        QN_TRY(qn_file_read(file, at, &j->tail, sizeof j->tail));
    if (at < bytes || memcmp(j->tail.magic, magic, sizeof j->tail.magic) != 0 ||
        j->tail.n != (int64_t)j->files.n || j->tail.notes[NOTES_BYTES - 1])
        return qn_fail(QN_ERROR_FORMAT, "%s: damaged; remove it", qn_file_path(file));
    QN_TRY(qn_file_read(file, at - bytes, j->starts, (size_t)bytes));
    qn_file_limit(file, at - bytes);
    return QN_OK;
}

static void tell_notes(const joining *j) {
    for (const char *at = j->tail.notes; *at;) {
        const size_t n = strcspn(at, "\n");
        qn_data_tell(j->base, 0, "%.*s", (int)n, at);
        at += n + (at[n] == '\n');
    }
}

static qn_status tell(joining *j) {
    const qn_recording_files *f = &j->files;
    tell_notes(j);
    if (f->n_passed > 0)
        QN_TRY(qn_data_facts_count(j->base, &j->base->facts.dropped, "files",
                                   "no tables (.csv, .tsv)", NULL, f->n_passed));
    QN_TRY(qn_data_facts_note(j->base, "%zu files are read as one table, each a recording%s%s",
                              f->n, j->writes_file ? ", on one side of the split" : "",
                              j->writes_folder ? "; the class is the folder" : ""));
    qn_data_tell(j->base, 0, "%s: %s", j->folder, j->base->facts.notes[j->base->facts.n_notes - 1]);
    return QN_OK;
}

static qn_status open_derived(joining *j, const char *variant, qn_file **file) {
    qn_arena *arena = &j->base->arena;
    const char *name = qn_arena_format(arena, "%s/%s", j->folder, j->files.paths[0]);
    const char *of = qn_arena_format(arena, "%s\n%s%d%016" PRIx64, variant, magic, j->writes_file,
                                     qn_recording_files_key(&j->files));
    qn_file *first;
    if (!name || !of)
        return QN_ERROR_MEMORY;
    QN_TRY(qn_file_open(j->base->options.allocator, name, &first));
    const qn_status status = qn_cache_open_of(j->base, first, of, derive, j, file);
    qn_file_close(first);
    return status;
}

static qn_status join(joining *j, const char *variant, qn_csv_joined *joined) {
    const qn_data_options *o = &j->base->options;
    QN_TRY(qn_recording_files_list(j->base, j->folder, &tables, &j->files));
    j->writes_folder = j->files.have_classes && !j->label && !o->target;
    j->writes_file = !o->group || !*o->group;
    j->starts = qn_arena_allocate(&j->base->arena, j->files.n, sizeof *j->starts);
    if (!j->starts)
        return QN_ERROR_MEMORY;
    QN_TRY(open_derived(j, variant, &joined->file));
    qn_status status = read_tail(j, joined->file);
    if (status == QN_OK)
        status = tell(j);
    if (status != QN_OK)
        qn_file_close(joined->file);
    joined->starts = j->starts;
    joined->n_starts = j->files.n;
    joined->separator = (char)j->tail.separator;
    joined->encoding = (qn_encoding)j->tail.encoding;
    joined->group = j->writes_file ? file_column : NULL;
    return status;
}

qn_status qn_csv_join(qn_source_base *base, const char *folder, const char *label,
                      const char *variant, qn_csv_joined *joined) {
    joining j = {.base = base, .folder = folder, .label = label};
    *joined = (qn_csv_joined){.file = NULL};
    const qn_status status = join(&j, variant, joined);
    qn_recording_files_deinit(base, &j.files);
    if (status != QN_OK)
        joined->file = NULL;
    return status;
}
