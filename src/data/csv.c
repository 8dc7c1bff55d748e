/* CSV files as a source: csv:FILE[,label=NAME]. The file is parsed once into rows of numbers in the
 * user's cache folder (csv.h), from which samples are read one at a time. Labels are classes: 0 to
 * n - 1 keep their numbers; other integers and texts are sorted and keep their names. Labels with a
 * fraction are numeric targets. Other columns are numbers; where the caller asks for texts too, a
 * text is its number in its column's list. */
#include "data/csv.h"

#include "base/status.h"
#include "data/source.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

typedef struct csv_source {
    qn_source_base base;
    qn_file *file;
    qn_csv_footer footer;
    int64_t row_bytes;
    int32_t *class_of; /* (n_ids), in the arena */
    qn_holdout holdout;
} csv_source;

static qn_status csv_read(void *self, qn_split split, int64_t index, void *x, void *y) {
    csv_source *csv = self;
    struct {
        int32_t id;
        float value;
    } label;
    int64_t row = qn_holdout_index(&csv->holdout, split, index) * csv->row_bytes;
    size_t x_bytes = (size_t)csv->row_bytes - sizeof label;
    QN_TRY(qn_file_read(csv->file, row, x, x_bytes));
    QN_TRY(qn_file_read(csv->file, row + (int64_t)x_bytes, &label, sizeof label));
    if (csv->footer.are_targets)
        memcpy(y, &label.value, sizeof label.value);
    else if (label.id >= 0 && label.id < csv->footer.n_ids)
        memcpy(y, &csv->class_of[label.id], sizeof label.id);
    else
        return qn_fail(QN_ERROR_FORMAT, "%s: damaged; remove it", qn_file_path(csv->file));
    return QN_OK;
}

/* FILE[,label=NAME]; *label is null where none is given. */
static qn_status split_argument(qn_source_base *base, const char **path, const char **label) {
    static const char mark[] = ",label=";
    const char *at = strstr(base->argument, mark);
    *path = base->argument;
    *label = NULL;
    if (!at)
        return QN_OK;
    *label = at + strlen(mark);
    *path = qn_arena_format(&base->arena, "%.*s", (int)(at - base->argument), base->argument);
    return *path ? QN_OK : QN_ERROR_MEMORY;
}

/* Reads the footer and checks that the sizes in it make up the file. */
static qn_status read_footer(csv_source *csv) {
    qn_csv_footer *f = &csv->footer;
    int64_t bytes = qn_file_bytes(csv->file), end = bytes - (int64_t)sizeof *f, rows = -1;
    if (end >= 0)
        QN_TRY(qn_file_read(csv->file, end, f, sizeof *f));
    csv->row_bytes = (f->n_columns + 2) * 4;
    bool is_sound = end >= 0 && memcmp(f->magic, QN_CSV_MAGIC, sizeof f->magic) == 0 &&
                    f->n_columns > 0 && f->n_columns < INT_MAX && f->n_ids >= 0 &&
                    f->n_ids < INT_MAX && f->names_bytes >= 0 && f->names_bytes < INT_MAX &&
                    f->texts_bytes >= 0 && f->texts_bytes < INT_MAX && f->n_rows > 0 &&
                    !__builtin_mul_overflow(f->n_rows, csv->row_bytes, &rows) &&
                    rows == end - f->texts_bytes - f->names_bytes - 4 * f->n_ids;
    if (!is_sound)
        return qn_fail(QN_ERROR_FORMAT, "%s: damaged; remove it", qn_file_path(csv->file));
    return QN_OK;
}

static qn_status read_classes(csv_source *csv, qn_data_source *source) {
    const qn_csv_footer *f = &csv->footer;
    qn_arena *arena = &csv->base.arena;
    int64_t offset = f->n_rows * csv->row_bytes;
    size_t n = (size_t)f->n_ids, bytes = (size_t)f->names_bytes;
    source->preparation.n_classes = (int)n;
    csv->class_of = qn_arena_allocate(arena, n, sizeof *csv->class_of);
    const char **names = qn_arena_allocate(arena, n, sizeof *names);
    char *text = qn_arena_allocate(arena, bytes + 1, 1);
    if (!csv->class_of || !names || !text)
        return QN_ERROR_MEMORY;
    QN_TRY(qn_file_read(csv->file, offset, csv->class_of, n * sizeof *csv->class_of));
    if (bytes == 0)
        return QN_OK;
    QN_TRY(qn_file_read(csv->file, offset + (int64_t)(n * sizeof *csv->class_of), text, bytes));
    const char *end = text + bytes;
    for (size_t i = 0; i < n; i++) {
        names[i] = text;
        text += text < end ? strlen(text) + 1 : 0;
    }
    source->preparation.class_names = names;
    return QN_OK;
}

/* The next text of those up to end, or "" beyond it. */
static const char *next_text(const char **at, const char *end) {
    const char *text = *at;
    *at += *at < end ? strlen(text) + 1 : 0;
    return text;
}

/* Which columns are of texts, and the texts. */
static qn_status read_texts(csv_source *csv, qn_data_source *source) {
    const qn_csv_footer *f = &csv->footer;
    qn_arena *arena = &csv->base.arena;
    const size_t n = (size_t)f->n_columns, bytes = (size_t)f->texts_bytes;
    char *block = qn_arena_allocate(arena, bytes + 1, 1);
    qn_data_column *columns = qn_arena_allocate(arena, n, sizeof *columns);
    if (!block || !columns)
        return QN_ERROR_MEMORY;
    if (bytes < 4 * n)
        return qn_fail(QN_ERROR_FORMAT, "%s: damaged; remove it", qn_file_path(csv->file));
    QN_TRY(qn_file_read(csv->file, f->n_rows * csv->row_bytes + 4 * f->n_ids + f->names_bytes,
                        block, bytes));
    const char *at = block + 4 * n, *end = block + bytes;
    for (size_t i = 0; i < n; i++) {
        int32_t n_texts;
        memcpy(&n_texts, block + 4 * i, sizeof n_texts);
        if (n_texts < 0 || n_texts > QN_CSV_MOST_TEXTS)
            return qn_fail(QN_ERROR_FORMAT, "%s: damaged; remove it", qn_file_path(csv->file));
        const char **texts = qn_arena_allocate(arena, (size_t)n_texts + 1, sizeof *texts);
        if (!texts)
            return QN_ERROR_MEMORY;
        columns[i] = (qn_data_column){next_text(&at, end), n_texts, texts};
        for (int k = 0; k < n_texts; k++)
            texts[k] = next_text(&at, end);
    }
    source->columns = columns;
    return QN_OK;
}

static qn_status csv_open(qn_source_base *base, qn_data_source *source) {
    csv_source *csv = (csv_source *)base;
    qn_csv_options options = {.allocator = base->options.allocator,
                              .reads_texts = base->options.reads_texts};
    const char *path;
    QN_TRY(split_argument(base, &path, &options.label));
    const char *variant =
        qn_arena_format(&base->arena, QN_CSV_MAGIC "%s%s%s", options.reads_texts ? "+" : "",
                        options.label ? "=" : "", options.label ? options.label : "");
    if (!variant)
        return QN_ERROR_MEMORY;
    QN_TRY(qn_cache_open(base, path, variant, qn_csv_convert, &options, &csv->file));
    QN_TRY(read_footer(csv));
    if (csv->footer.are_targets)
        source->n_targets = 1;
    else
        QN_TRY(read_classes(csv, source));
    if (options.reads_texts)
        QN_TRY(read_texts(csv, source));
    int64_t n = csv->footer.n_rows;
    QN_TRY(qn_holdout_make(n, base->options.holdout, base->options.seed, &csv->holdout));
    source->n_samples[QN_TRAIN] = n - csv->holdout.n_test;
    source->n_samples[QN_TEST] = csv->holdout.n_test;
    source->sample = source->preparation.sample = QN_SHAPE(csv->footer.n_columns);
    source->dtype = QN_F32;
    source->read = csv_read;
    base->wants_statistics = true;
    return QN_OK;
}

static void csv_release(qn_source_base *base) {
    qn_file_close(((csv_source *)base)->file);
}

const qn_data_format qn_format_csv = {"csv", "FILE[,label=NAME]", sizeof(csv_source), csv_open,
                                      csv_release};
