/* Tables to rows of numbers: sizes, columns, texts and values of what is written fit together. A +
 * in front says that texts are read as they are, a ! that the target is a class, a % that rows are
 * steps of time of the groups g, a & that the columns a, b, c and d are those of weights, a ? that
 * names and formats are told; the first line, if it begins with a #, names the target. */
#define _GNU_SOURCE /* memfd_create */

#include "base/status.h"
#include "data/table/table.h"
#include "os/heap.h"

#include "memory_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 20 };

typedef struct written {
    size_t bytes;
    char data[MOST_BYTES];
} written;

static qn_status keep(void *context, const void *data, size_t bytes) {
    written *to = context;
    if (bytes > MOST_BYTES - to->bytes)
        return qn_fail(QN_ERROR_IO, "full");
    memcpy(to->data + to->bytes, data, bytes);
    to->bytes += bytes;
    return QN_OK;
}

/* Texts: of each column its name, why it is left out, and as many as its record says. */
static void check_texts(const char *block, size_t bytes, const qn_csv_record *records, size_t n) {
    int64_t wanted = 0, found = 0;
    for (size_t i = 0; i < n; i++)
        wanted += 2 + records[i].n_texts;
    for (size_t i = 0; i < bytes; i++)
        found += block[i] == 0;
    if (found != wanted || bytes == 0 || block[bytes - 1] != 0)
        abort();
}

static void check_records(const qn_csv_footer *f, const qn_csv_record *records) {
    int32_t place = 0;
    for (int64_t i = 0; i < f->n_columns; i++) {
        const qn_csv_record *r = &records[i];
        const bool is_stored = r->role != QN_CSV_LEFT_OUT;
        if (r->place != (is_stored ? place : -1) || r->n_texts < 0 ||
            r->n_texts > (r->role == QN_CSV_TARGET ? QN_CSV_MOST_LABELS : QN_CSV_MOST_TEXTS) ||
            r->role < QN_CSV_INPUT || r->role > QN_CSV_TIME ||
            (r->role == QN_CSV_TARGET && f->targets == QN_CSV_CLASSES && r->n_classes < 1))
            abort();
        place += qn_csv_places(r->role);
    }
    if (place != f->n_stored)
        abort();
}

/* Two whole numbers of 24 bits are a group. */
static void check_group(const float *places) {
    for (int i = 0; i < 2; i++)
        if (!(places[i] >= 0 && places[i] < (float)(1 << 24)) || places[i] != (float)(int)places[i])
            abort();
}

/* A value of a column: a text's number, a class, or a number; what is missing is NaN. */
static void check_value(const qn_csv_footer *f, const qn_csv_record *r, float value, bool is_raw) {
    const bool is_category = r->kind == QN_COLUMN_CATEGORY, is_input = r->role == QN_CSV_INPUT;
    if (isinf(value) || (isnan(value) && (is_raw || !is_input)))
        abort();
    if (is_input && is_category && !(isnan(value) || (value >= -1 && value < (float)r->n_texts)))
        abort();
    if (!is_input && f->targets == QN_CSV_CLASSES && !(value >= 0 && value < (float)r->n_classes))
        abort();
}

/* Of steps of time, a row may lack its target. */
static bool is_checked(const qn_csv_record *r, float value, bool are_steps) {
    return r->role != QN_CSV_GROUP && r->role != QN_CSV_TIME &&
           !(are_steps && r->role == QN_CSV_TARGET && isnan(value));
}

static void check_rows(const written *w, const qn_csv_footer *f, const qn_csv_record *records,
                       bool is_raw, bool are_steps) {
    for (int64_t i = 0; i < f->n_rows; i++)
        for (int64_t k = 0; k < f->n_columns; k++) {
            const size_t bytes = sizeof(float) * (size_t)qn_csv_places(records[k].role);
            float values[2];
            if (bytes == 0)
                continue;
            memcpy(values, w->data + (i * f->n_stored + records[k].place) * 4, bytes);
            if (records[k].role == QN_CSV_GROUP)
                check_group(values);
            if (is_checked(&records[k], values[0], are_steps))
                check_value(f, &records[k], values[0], is_raw);
        }
}

static void check(const written *w, bool is_raw, bool are_steps) {
    static qn_csv_record records[MOST_BYTES / sizeof(qn_csv_record)];
    qn_csv_footer f;
    if (w->bytes < sizeof f)
        abort();
    memcpy(&f, w->data + w->bytes - sizeof f, sizeof f);
    const int64_t rows = f.n_rows * f.n_stored * 4;
    const int64_t bytes = f.n_columns * (int64_t)sizeof *records;
    if (memcmp(f.magic, QN_CSV_MAGIC, sizeof f.magic) != 0 || f.n_rows < 1 || f.n_stored < 2 ||
        rows + bytes + f.texts_bytes + (int64_t)sizeof f != (int64_t)w->bytes)
        abort();
    memcpy(records, w->data + rows, (size_t)bytes);
    check_records(&f, records);
    check_texts(w->data + rows + bytes, (size_t)f.texts_bytes, records, (size_t)f.n_columns);
    check_rows(w, &f, records, is_raw, are_steps);
}

/* Of some weights. */
static const char *const known_texts[] = {"red", "green"};
static const qn_table_column known_columns[] = {
    {.name = "a", .kind = QN_COLUMN_NUMBER, .has_gaps = true, .median = 2},
    {.name = "b", .kind = QN_COLUMN_CATEGORY, .n_texts = 2, .texts = known_texts},
    {.name = "c", .kind = QN_COLUMN_TRUTH},
    {.name = "d", .kind = QN_COLUMN_DATE, .is_day_first = true},
};
static const char *const known_targets[] = {"y"};
static const qn_table known_table = {
    .n_columns = 4, .columns = known_columns, .n_targets = 1, .targets = known_targets};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static written to;
    int descriptor;
    char label[32] = "";
    size_t n = 0;
    const bool reads_texts = size > 0 && data[0] == '+';
    data += reads_texts;
    size -= reads_texts;
    const bool has_task = size > 0 && data[0] == '!';
    data += has_task;
    size -= has_task;
    const bool are_steps = size > 0 && data[0] == '%' && !reads_texts;
    data += are_steps;
    size -= are_steps;
    const bool is_known = size > 0 && data[0] == '&', is_told = size > 0 && data[0] == '?';
    data += is_known || is_told;
    size -= is_known || is_told;
    if (size > 0 && data[0] == '#') {
        while (n + 1 < sizeof label && n + 1 < size && data[n + 1] != '\n' && data[n + 1]) {
            label[n] = (char)data[n + 1];
            n++;
        }
        n = n + 2 < size ? n + 2 : size;
    }
    const qn_data_options how = {QN_OPTIONS_INIT(qn_data_options),
                                 .reads_texts = reads_texts,
                                 .task = has_task ? "classification" : NULL,
                                 .table = is_known ? &known_table : NULL,
                                 .is_unlabelled = is_known && size % 2 == 0,
                                 .ignore = is_told ? "i,row" : NULL,
                                 .categories = is_told ? "c" : NULL,
                                 .dates = is_told ? "dmy" : NULL,
                                 .window = are_steps ? 2 : 0,
                                 .group = are_steps ? "g" : NULL};
    const qn_csv_options options = {
        .allocator = qn_allocator_default(), .how = &how, .target = n > 0 ? label : NULL};
    qn_file *file = memory_file_open(data + n, size - n, &descriptor);
    to.bytes = 0;
    if (file && qn_csv_convert((void *)(uintptr_t)&options, file, (qn_sink){&to, keep}) == QN_OK)
        check(&to, reads_texts, are_steps);
    qn_file_close(file);
    close(descriptor);
    return 0;
}
