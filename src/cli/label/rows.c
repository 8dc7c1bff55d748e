/* See rows.h. */
#include "cli/label/rows.h"

#include "base/status.h"
#include "base/text.h"
#include "cli/session.h"
#include "cli/terminal.h"
#include "data/cache.h"
#include "os/heap.h"
#include "os/process/interrupt.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TOLD_BAD = 3 }; /* rows that are passed over whose reasons are told */

/* ---- options ---- */

qn_status label_read_form(const arguments *a, qn_data_options *how) {
    const char *separator = arguments_get(a, "separator");
    if (arguments_has(a, "dates"))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "--dates means nothing here: to a labeller, dates are texts");
    how->header = arguments_get(a, "header");
    how->separator = separator && strcmp(separator, "bar") == 0 ? "|" : separator;
    how->decimal = arguments_get(a, "decimal");
    return QN_OK;
}

static qn_status find_gaps(label_rows *r, const arguments *a) {
    const char *missing = arguments_get(a, "missing");
    r->skips_bad = arguments_flag(a, "skip-bad");
    r->places.takes_gaps = missing && strcmp(missing, "median") == 0;
    if (r->places.takes_gaps && !qn_labeller_columns(r->labeller)->medians)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "--missing median: the labeller keeps no medians of its labelled samples; "
                       "quern label init makes one of a table that does");
    return QN_OK;
}

/* ---- bytes ---- */

/* What comes next of a stream; the end where it is interrupted. */
static qn_status read_stream(void *context, void *to, size_t bytes, size_t *n) {
    label_rows *r = context;
    bool is_end = false;
    *n = 0;
    while (*n == 0 && !is_end && !qn_was_interrupted()) {
        QN_TRY(qn_in_stream_read(r->in, to, bytes, n, &is_end));
        if (is_end && r->follows) {
            qn_in_stream_pause();
            is_end = false;
        }
    }
    return QN_OK;
}

static qn_status read_file(void *context, void *to, size_t bytes, size_t *n) {
    label_rows *r = context;
    const int64_t left = qn_file_bytes(r->file) - r->file_at;
    *n = left < (int64_t)bytes ? (size_t)left : bytes;
    QN_TRY(qn_file_read(r->file, r->file_at, to, *n));
    r->file_at += (int64_t)*n;
    return QN_OK;
}

/* The first line, which was read to see how it is written, then the rest. */
static qn_status read_all(void *context, void *to, size_t bytes, size_t *n) {
    label_rows *r = context;
    const size_t left = r->n_head - r->head_at;
    if (left == 0)
        return qn_stream_decoder_more(&r->decoder, to, bytes, n);
    *n = left < bytes ? left : bytes;
    memcpy(to, r->head + r->head_at, *n);
    r->head_at += *n;
    return QN_OK;
}

/* Reads up to the end of the first line that is not blank, which need not be that of its record. */
static qn_status read_head(label_rows *r) {
    size_t n = 1;
    while (n > 0 && r->n_head < sizeof r->head) {
        const size_t blank = strspn(r->head, "\r\n");
        if (blank < r->n_head && memchr(r->head + blank, '\n', r->n_head - blank))
            return QN_OK;
        QN_TRY(qn_stream_decoder_more(&r->decoder, r->head + r->n_head,
                                      sizeof r->head - 1 - r->n_head, &n));
        r->n_head += n;
        if (r->n_head == sizeof r->head - 1)
            return QN_OK;
    }
    return QN_OK;
}

/* ---- opening ---- */

static bool is_packed(const char *path) {
    const size_t length = strlen(path);
    return length > 3 && strcmp(path + length - 3, ".gz") == 0;
}

static qn_status open_file(label_rows *r, const char *path) {
    const qn_source_base base = {
        .options = {.allocator = qn_allocator_default(), .log = &session_log}};
    QN_TRY(qn_data_open_file(&base, path, &r->file));
    r->decoder.more = read_file;
    r->decoder.is_found = true;
    return qn_encoding_find(r->file, &r->decoder.encoding);
}

static qn_status open_stream(label_rows *r, const char *path) {
    if (path && is_packed(path))
        return qn_fail(QN_ERROR_ARGUMENT, "%s is packed, and cannot be read while it grows", path);
    QN_TRY(qn_in_stream_open(NULL, path, &r->in));
    r->decoder.more = read_stream;
    return QN_OK;
}

/* The decimal mark as the whole file shows it. */
static qn_status find_decimal(label_rows *r, qn_data_options *how) {
    const char separator[2] = {r->reader.separator, 0};
    qn_csv_form form = {.decimal = 0};
    how->separator = separator[0] == '\t' ? "tab" : separator;
    const qn_csv_options options = {qn_allocator_default(), r->name, how, NULL};
    QN_TRY(qn_csv_find_form(&options, r->file, &form));
    r->places.decimal = form.decimal;
    return QN_OK;
}

static qn_status find_form(label_rows *r, const arguments *a) {
    qn_data_options how = {QN_OPTIONS_INIT(qn_data_options)};
    QN_TRY(label_read_form(a, &how));
    QN_TRY(read_head(r));
    r->header = how.header;
    qn_csv_read_stream(&r->reader, NULL, r->name, read_all, r);
    r->reader.record_bytes = LABEL_ROW_BYTES;
    r->places.decimal = how.decimal ? how.decimal[0] : 0;
    r->reader.separator = !how.separator ? qn_label_row_separator(r->head, r->n_head,
                                                                  qn_labeller_columns(r->labeller))
                          : strcmp(how.separator, "tab") == 0 ? '\t'
                                                              : how.separator[0];
    return r->file && !how.decimal ? find_decimal(r, &how) : QN_OK;
}

qn_status label_rows_open(label_rows *r, const char *data, const qn_labeller *labeller,
                          const arguments *a) {
    const bool is_piped = strcmp(data, "-") == 0;
    if (!is_piped && strncmp(data, "csv:", 4) != 0)
        return qn_fail(QN_ERROR_ARGUMENT, "--data %s: csv:FILE, or - for standard input", data);
    r->name = is_piped ? "standard input" : data;
    r->decoder.context = r;
    r->labeller = labeller;
    r->follows = arguments_flag(a, "follow") && !is_piped; /* a pipe waits by itself */
    r->told = (qn_csv_form){.separator = ','};
    QN_TRY(find_gaps(r, a));
    const char *path = is_piped ? NULL : data + 4;
    QN_TRY(path && !r->follows && qn_path_is_file(path) ? open_file(r, path)
                                                        : open_stream(r, path));
    return find_form(r, a);
}

void label_rows_close(label_rows *r) {
    if (r->reader.name)
        qn_csv_deinit(&r->reader);
    qn_in_stream_close(r->in);
    qn_file_close(r->file);
}

/* ---- rows ---- */

/* Tells how the rows are written as soon as it is known, once. */
static void tell_form(label_rows *r) {
    const qn_csv_form form = {r->decoder.encoding, r->reader.separator, r->places.decimal};
    const bool is_other_mark = (form.decimal == ',') != (r->told.decimal == ',');
    qn_csv_form news = form;
    if (form.separator == r->told.separator && !is_other_mark)
        news.separator = ',', news.decimal = '.';
    if (form.encoding == r->told.encoding)
        news.encoding = QN_ENCODING_UTF8;
    qn_csv_tell_form(&news, &session_log, r->name);
    r->told = form;
}

/* The first record, which may be names of columns; *is_header: it is. */
static qn_status look_for_header(label_rows *r, bool *is_header) {
    const qn_label_columns *columns = qn_labeller_columns(r->labeller);
    qn_text_names names = {.n = 0};
    r->has_begun = true;
    *is_header = r->header && strcmp(r->header, "auto") != 0
                     ? strcmp(r->header, "yes") == 0
                     : qn_label_row_is_header(&r->reader, columns);
    if (*is_header)
        return qn_label_row_match(&r->reader, columns, &session_log, &r->places);
    for (int i = 0; columns->names && i < columns->n; i++)
        qn_text_names_add(&names, columns->names[i]);
    if (names.n > 0)
        terminal_note("%s has no line of names: its columns are taken for %s", r->name,
                      qn_text_names_finish(&names));
    return QN_OK;
}

/* The next record that is no header. */
static qn_status next_record(label_rows *r, bool *is_end) {
    bool is_header;
    do {
        const qn_status status = qn_csv_next(&r->reader, is_end);
        *is_end |= qn_was_interrupted();
        if (status != QN_OK || *is_end)
            return *is_end && qn_was_interrupted() ? QN_OK : status;
        is_header = false;
        if (!r->has_begun && look_for_header(r, &is_header) != QN_OK)
            return qn_fail_within(QN_ERROR_FORMAT, "%s: line %" PRId64, r->name, r->reader.line);
    } while (is_header);
    return QN_OK;
}

static void fill(label_rows *r, float *x) {
    const qn_label_columns *columns = qn_labeller_columns(r->labeller);
    for (int i = 0; r->places.takes_gaps && i < columns->n; i++) {
        if (!isnan(x[i]))
            continue;
        x[i] = columns->medians[i];
        r->n_filled_of[i]++;
        r->n_filled++;
    }
}

/* Says why, without the advice. */
static void pass_over(label_rows *r) {
    const char *why = qn_error_message(), *advice = strstr(why, "; --");
    const int n = advice ? (int)(advice - why) : (int)strlen(why);
    if (r->n_bad++ < TOLD_BAD)
        terminal_note("%s: line %" PRId64 " is left out: %.*s", r->name, r->reader.line, n, why);
}

qn_status label_rows_next(label_rows *r, float *x, bool *is_end, bool *is_bad) {
    *is_bad = false;
    QN_TRY(next_record(r, is_end));
    if (*is_end)
        return QN_OK;
    const qn_status status =
        qn_label_row_parse(&r->reader, qn_labeller_columns(r->labeller), &r->places, x);
    *is_bad = status == QN_ERROR_FORMAT && r->skips_bad;
    if (*is_bad)
        pass_over(r);
    else if (status != QN_OK)
        return qn_fail_within(QN_ERROR_FORMAT, "%s: line %" PRId64, r->name, r->reader.line);
    else
        fill(r, x);
    tell_form(r);
    return QN_OK;
}

void label_rows_tell(const label_rows *r) {
    const qn_label_columns *columns = qn_labeller_columns(r->labeller);
    qn_text_names names = {.n = 0};
    for (int i = 0; i < columns->n; i++) {
        char place[32];
        snprintf(place, sizeof place, "column %d", i + 1);
        if (r->n_filled_of[i] > 0)
            qn_text_names_add(&names, columns->names ? columns->names[i] : place);
    }
    if (r->n_bad > 0)
        terminal_note("%s: %" PRId64 " rows are left out; each is a line \",,\" of the labels",
                      r->name, r->n_bad);
    if (r->n_filled > 0)
        terminal_note("%s: %" PRId64
                      " values are missing, in %d columns (%s): the median of the labelled "
                      "samples stands in for them",
                      r->name, r->n_filled, names.n, qn_text_names_finish(&names));
}
