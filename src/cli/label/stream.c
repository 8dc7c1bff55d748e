/* quern label stream: rows in, labels out, and the position stored with the labeller. Labels are
 * written before the labeller that counts them: rows labelled between the two are labelled again
 * after an interruption, with the same result, over the old labels. */
#include "os/files/stream.h"
#include "os/files/room.h"

#include "base/status.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/label/label.h"
#include "cli/label/rows.h"
#include "cli/session.h"
#include "cli/terminal.h"
#include "os/heap.h"
#include "os/process/interrupt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAVED_EVERY = 500 };

/* In the place of a row that is passed over: the lines of labels stay those of the rows. */
static const char passed_line[] = ",,\n";

typedef struct stream {
    const char *path; /* of the labeller */
    qn_labeller *labeller;
    qn_out_stream *out;
    bool has_rows;
    label_rows rows;
    qn_data_source data; /* instead of rows: what pictures are of */
    label_pictures pictures;
    const float *x; /* the sample to be labelled next */
    float numbers[QN_LABEL_MAX_FEATURES];
    qn_label_place place;
    int64_t revise, n_waiting; /* samples whose labels are yet to be written */
    bool is_seen;              /* somebody waits for each label */
} stream;

static qn_status open_pictures(stream *s, const char *data) {
    const qn_shape sample = qn_labeller_sample(s->labeller);
    QN_TRY(qn_data_open(data,
                        &(qn_data_options){QN_OPTIONS_INIT(qn_data_options),
                                           .allocator = qn_allocator_default(), .sample = sample},
                        &s->data));
    if (!label_has_pictures(&s->data))
        return qn_fail(QN_ERROR_ARGUMENT, "--data %s: rows of numbers, but %s labels pictures",
                       data, s->path);
    return label_pictures_open(&s->pictures, &s->data, sample);
}

static qn_status open_in(stream *s, const char *data, const arguments *a) {
    s->has_rows = qn_labeller_sample(s->labeller).rank == 0;
    if (s->has_rows)
        return label_rows_open(&s->rows, data, s->labeller, a);
    QN_TRY(label_refuse_reading(a, "the labeller's samples are none"));
    return open_pictures(s, data);
}

/* Where the lines of rows that were passed over begin at the end of a file. */
static qn_status skip_passed(qn_file *file, int64_t *end) {
    char line[sizeof passed_line];
    const int64_t bytes = sizeof passed_line - 1;
    for (; *end >= bytes; *end -= bytes) {
        QN_TRY(qn_file_read(file, *end - bytes, line, (size_t)bytes));
        if (memcmp(line, passed_line, (size_t)bytes) != 0)
            return QN_OK;
    }
    return QN_OK;
}

/* The number of the last sample that a file of labels has; 0: it has none. Its last line must be
 * whole. */
static qn_status read_last_sample(const char *path, int64_t *sample) {
    char tail[2 * LABEL_LINE + 1];
    qn_file *file;
    *sample = 0;
    QN_TRY(qn_file_open(NULL, path, &file));
    int64_t bytes = qn_file_bytes(file);
    qn_status status = skip_passed(file, &bytes);
    const int64_t from = bytes > 2 * LABEL_LINE ? bytes - 2 * LABEL_LINE : 0;
    const size_t n = (size_t)(bytes - from);
    if (status == QN_OK)
        status = qn_file_read(file, from, tail, n);
    qn_file_close(file);
    QN_TRY(status);
    tail[n] = '\0';
    if (n > 0 && tail[n - 1] != '\n')
        return qn_fail(QN_ERROR_FORMAT, "%s ends in the middle of a line", path);
    if (n > 0)
        tail[n - 1] = '\0';
    const char *line = strrchr(tail, '\n');
    *sample = line ? strtoll(line + 1, NULL, 10) : 0;
    return QN_OK;
}

/* Bytes of a file of labels that stay: of a stream that was left off those that were counted, and
 * before a new stream all of them, if the samples of this labeller go on where they end. */
static qn_status find_kept(const stream *s, const char *path, bool may_replace, int64_t *kept) {
    int64_t last;
    *kept = s->place.n_bytes;
    /* A stream that failed before its first label may go to another file, on a disk with room. */
    if (s->place.n_rows == 0 && path && !qn_path_is_file(path))
        *kept = 0;
    if (*kept > 0 || !path || may_replace || !qn_path_is_file(path))
        return QN_OK;
    QN_TRY(read_last_sample(path, &last));
    if (last == 0)
        return QN_OK;
    if (last != qn_labeller_samples(s->labeller))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "%s has labels up to sample %" PRId64 ", and this labeller goes on after "
                       "sample %" PRId64 ": choose another name, or --force replaces it",
                       path, last, qn_labeller_samples(s->labeller));
    *kept = qn_path_bytes(path);
    return QN_OK;
}

/* The labels' file: a new one, behind the labels of the streams before, or where it was left off.
 */
static qn_status open_out(stream *s, const char *path, bool may_replace) {
    int64_t kept;
    s->is_seen = !path;
    QN_TRY(find_kept(s, path, may_replace, &kept));
    const qn_status status = qn_out_stream_open(NULL, path, kept, &s->out);
    if (status != QN_OK && kept > 0)
        return qn_fail(QN_ERROR_IO,
                       "%s: not the labels of the %" PRId64
                       " rows of %s that were labelled; give the "
                       "file that has them",
                       path, s->place.n_rows, s->place.source);
    s->place.n_bytes = kept;
    return status;
}

static qn_status put_text(stream *s, const char *text) {
    const size_t bytes = strlen(text);
    s->place.n_bytes += (int64_t)bytes;
    return qn_out_stream_put(s->out, text, bytes);
}

static qn_status put(stream *s, int64_t sample, const qn_label_answer *answer) {
    char line[LABEL_LINE];
    return put_text(s, label_print_line(s->labeller, sample, answer, line));
}

/* Writes the labels of waiting samples, the oldest first, until so many wait. */
static qn_status put_waiting(stream *s, int64_t left) {
    for (; s->n_waiting > left; s->n_waiting--) {
        qn_label_answer answer;
        QN_TRY(qn_labeller_revise(s->labeller, s->n_waiting - 1, NULL, &answer));
        QN_TRY(put(s, qn_labeller_samples(s->labeller) - s->n_waiting + 1, &answer));
    }
    return QN_OK;
}

static qn_status save(stream *s) {
    QN_TRY(qn_out_stream_sync(s->out));
    qn_labeller_set_place(s->labeller, &s->place);
    return qn_labeller_save(s->labeller, s->path);
}

static qn_status next_picture(stream *s, bool *is_end) {
    int32_t class;
    QN_TRY(label_pictures_next(&s->pictures, &s->x, &class));
    *is_end = !s->x || qn_was_interrupted();
    return QN_OK;
}

/* The next sample; *is_end: there is none, or it was interrupted, maybe in the middle of one. */
static qn_status next_sample(stream *s, bool *is_end, bool *is_bad) {
    s->x = s->numbers;
    if (s->has_rows)
        return label_rows_next(&s->rows, s->numbers, is_end, is_bad);
    *is_bad = false;
    return next_picture(s, is_end);
}

static qn_status skip_rows(stream *s, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        bool is_end, is_bad;
        QN_TRY(next_sample(s, &is_end, &is_bad));
        if (is_end && qn_was_interrupted())
            return QN_OK;
        if (is_end)
            return qn_fail(QN_ERROR_FORMAT,
                           "%s: %" PRId64 " rows, but %" PRId64 " of it were labelled before",
                           s->place.source, i, n);
    }
    return QN_OK;
}

static qn_status label_sample(stream *s) {
    qn_label_answer answer;
    const qn_status status = qn_labeller_add(s->labeller, s->x, &answer);
    if (status != QN_OK && !s->has_rows)
        return qn_fail_within(status, "%s", s->place.source);
    if (status != QN_OK)
        return qn_fail_within(QN_ERROR_FORMAT, "%s: line %" PRId64, s->place.source,
                              s->rows.reader.line);
    if (s->revise > 0) {
        s->n_waiting++;
        return put_waiting(s, s->revise);
    }
    return put(s, qn_labeller_samples(s->labeller), &answer);
}

/* Labels all there is; what fails keeps what was labelled before it. */
static qn_status label_all(stream *s) {
    for (;;) {
        bool is_end, is_bad;
        QN_TRY(next_sample(s, &is_end, &is_bad));
        if (is_end)
            return QN_OK;
        QN_TRY(is_bad ? put_text(s, passed_line) : label_sample(s));
        s->place.n_rows++;
        if (s->is_seen && s->revise == 0)
            QN_TRY(qn_out_stream_flush(s->out));
        if (s->place.n_rows % SAVED_EVERY == 0)
            QN_TRY(save(s));
    }
}

/* At the end the labels that wait are written, and no stream is under way any more; one that was
 * interrupted stays so. */
static qn_status finish(stream *s) {
    if (qn_was_interrupted())
        return save(s);
    QN_TRY(put_waiting(s, 0));
    s->place = (qn_label_place){.n_rows = 0};
    return save(s);
}

enum { GROWTH_BYTES = 1 << 16 };

/* Begins a stream, or goes on with the one that was left off. */
static qn_status begin(stream *s, const arguments *a) {
    const char *data = arguments_get(a, "data");
    if (!data)
        return qn_fail(QN_ERROR_ARGUMENT, "quern label stream FILE --data csv:ROWS [--out LABELS]");
    if (strlen(data) >= sizeof s->place.source)
        return qn_fail(QN_ERROR_ARGUMENT, "--data %.40s...: longer than %zu bytes", data,
                       sizeof s->place.source - 1);
    s->place = qn_labeller_get_place(s->labeller);
    if (strcmp(s->place.source, data) != 0 || strcmp(data, "-") == 0)
        s->place = (qn_label_place){.n_rows = 0};
    snprintf(s->place.source, sizeof s->place.source, "%s", data);
    if (s->revise > 0 && arguments_flag(a, "skip-bad"))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "--skip-bad with --revise: labels that come later have no place for rows "
                       "that are left out; --missing median takes rows with gaps");
    QN_TRY(open_in(s, data, a));
    QN_TRY(open_out(s, arguments_get(a, "out"), arguments_flag(a, "force")));
    s->n_waiting = s->place.n_rows < s->revise ? s->place.n_rows : s->revise;
    if (s->place.n_bytes == 0)
        QN_TRY(put_text(s, label_header));
    /* Room for the labeller, which grows, and labels for as long as it is not saved again. */
    QN_TRY(qn_room_try(NULL, s->path, qn_path_bytes(s->path) + GROWTH_BYTES));
    /* The same command knows its file again, whatever ends this one. */
    if (s->place.n_rows == 0)
        QN_TRY(save(s));
    return skip_rows(s, s->place.n_rows);
}

int label_stream(const arguments *a, qn_labeller *labeller) {
    stream s = {.path = a->words[1], .labeller = labeller, .revise = arguments_count(a, "revise")};
    qn_interrupt_watch(EXIT_FAILED);
    qn_status status = begin(&s, a);
    if (status == QN_OK) {
        status = label_all(&s);
        if (status == QN_OK)
            status = finish(&s);
    }
    if (s.has_rows && status == QN_OK)
        label_rows_tell(&s.rows);
    label_rows_close(&s.rows);
    label_pictures_close(&s.pictures);
    qn_data_close(&s.data);
    const qn_status closed = qn_out_stream_close(s.out);
    if (status != QN_OK || closed != QN_OK)
        return report_failure(status != QN_OK ? status : closed);
    return EXIT_DONE;
}
