/* Power from a recorded file: CSV, whose first column is time_s and whose others are
 * PART:NAME:UNIT, such as "cpu:VDD_CPU:mW". Power (W, mW, uW) is interpolated linearly between
 * rows, so that a step is two rows with one time. Energy (J, mJ, uJ) is a counter, which may
 * decrease only if the column has :wrap=COUNTS. The first row is the moment at which measuring
 * starts. A reading is the exact integral over its time; after the last row there is none. */
#include "meter/sources/sensor.h"

#include "base/decimal.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "format/csv.h"
#include "os/os.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char source_name[] = "replay";

enum { MOST_COLUMNS = 64 };

/* Rows first to last have a value.
 *     energy[i + 1] - energy[i] is the integral of watts from row i to i + 1 */
typedef struct column {
    double unit; /* watts or joules of one count */
    double wrap; /* counts after which a counter begins again at 0; 0: it does not */
    bool is_counter;
    char inside[48];
    double *watts;  /* (n_rows) of power; before it is worked out, what the cells say; NaN: empty */
    double *energy; /* (n_rows) */
    size_t first, last;
} column;

typedef struct replay {
    qn_arena arena;
    qn_speaker speaker;
    const char *path;
    int n_columns;
    column columns[MOST_COLUMNS];
    qn_channel channels[MOST_COLUMNS];
    size_t n_rows;
    double *seconds;           /* (n_rows), of the first row 0 */
    int64_t start_ns, last_ns; /* 0: not yet */
    size_t row;                /* the last one not after last_ns */
    bool has_ended;
} replay;

static char *trim(char *text) {
    while (qn_text_is_space(*text))
        text++;
    size_t n = strlen(text);
    while (n > 0 && qn_text_is_space(text[n - 1]))
        n--;
    text[n] = 0;
    return text;
}

/* Cuts the next part off *rest at a separator; null at its end. */
static char *cut(char **rest, char separator) {
    char *text = *rest;
    if (!text)
        return NULL;
    char *end = strchr(text, separator);
    if (end)
        *end++ = 0;
    *rest = end;
    return trim(text);
}

/* ---- the first line ---- */

static const struct {
    const char *name;
    qn_part part;
} parts[] = {{"system", QN_PART_SYSTEM}, {"cpu", QN_PART_CPU}, {"gpu", QN_PART_GPU},
             {"memory", QN_PART_MEMORY}, {"soc", QN_PART_SOC}, {"other", QN_PART_OTHER}};

static const struct {
    const char *name;
    double unit;
    bool is_counter;
} units[] = {{"W", 1, false}, {"mW", 1e-3, false}, {"uW", 1e-6, false},
             {"J", 1, true},  {"mJ", 1e-3, true},  {"uJ", 1e-6, true}};

static qn_status fail_column(const qn_csv_reader *at, const char *what, const char *text) {
    return qn_fail(QN_ERROR_FORMAT,
                   "%s:%d: %s \"%.40s\"; a column is PART:NAME:UNIT with one of system, cpu, gpu, "
                   "memory, soc, other, and one of W, mW, uW, J, mJ, uJ, as \"cpu:VDD_CPU:mW\"",
                   at->name, (int)at->line, what, text);
}

static bool find_part(const char *text, qn_part *part) {
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strcmp(parts[i].name, text) == 0) {
            *part = parts[i].part;
            return true;
        }
    }
    return false;
}

static bool find_unit(const char *text, column *c) {
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(units[i].name, text) == 0) {
            c->unit = units[i].unit;
            c->is_counter = units[i].is_counter;
            return true;
        }
    }
    return false;
}

/* "wrap=65536", "inside=VDD_IN" */
static qn_status parse_fact(const qn_csv_reader *at, const char *text, column *c) {
    if (strncmp(text, "inside=", 7) == 0) {
        snprintf(c->inside, sizeof c->inside, "%s", text + 7);
        return QN_OK;
    }
    char *end = NULL;
    if (strncmp(text, "wrap=", 5) == 0)
        c->wrap = qn_decimal_read(text + 5, &end);
    if (!end || *end || !c->is_counter || !(c->wrap > 0 && c->wrap < 1e15))
        return fail_column(at, "expected inside=NAME, or for a counter wrap=COUNTS, but found",
                           text);
    return QN_OK;
}

static qn_status parse_column(const qn_csv_reader *at, char *text, column *c, qn_channel *channel) {
    const char *part = cut(&text, ':'), *name = cut(&text, ':'), *unit = cut(&text, ':');
    *channel = (qn_channel){.source = source_name, .quantity = QN_QUANTITY_POWER, .inside = -1};
    if (!part || !find_part(part, &channel->part))
        return fail_column(at, "unknown part in", part ? part : "");
    if (!name || !*name || strlen(name) >= sizeof channel->name)
        return fail_column(at, "missing or too long name in", name ? name : "");
    if (!unit || !find_unit(unit, c))
        return fail_column(at, "unknown unit in", unit ? unit : "");
    snprintf(channel->name, sizeof channel->name, "%s", name);
    for (char *fact; (fact = cut(&text, ':'));)
        QN_TRY(parse_fact(at, fact, c));
    return QN_OK;
}

static int find_channel(const replay *r, int n, const char *name) {
    for (int i = 0; i < n; i++) {
        if (strcmp(r->channels[i].name, name) == 0)
            return i;
    }
    return -1;
}

static qn_status nest(const qn_csv_reader *at, replay *r) {
    for (int i = 0; i < r->n_columns; i++) {
        if (!r->columns[i].inside[0])
            continue;
        const int holder = find_channel(r, r->n_columns, r->columns[i].inside);
        /* A holder stands before what it holds, so that no two hold each other. */
        if (holder < 0 || holder >= i)
            return fail_column(at, "no earlier column has the name of inside= in",
                               r->columns[i].inside);
        r->channels[i].inside = holder;
    }
    return QN_OK;
}

static qn_status parse_head(const qn_csv_reader *at, replay *r) {
    if (at->n_fields == 0 || strcmp(qn_csv_text(at, 0), "time_s") != 0)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s:%d: its first line must name the columns, the first of them time_s",
                       r->path, (int)at->line);
    for (size_t i = 1; i < at->n_fields; i++) {
        if (r->n_columns == MOST_COLUMNS)
            return qn_fail(QN_ERROR_FORMAT, "%s:%d: more than %d columns", r->path, (int)at->line,
                           MOST_COLUMNS);
        qn_channel *channel = &r->channels[r->n_columns];
        char *text = qn_arena_text(&r->arena, qn_csv_text(at, i));
        if (!text)
            return QN_ERROR_MEMORY;
        QN_TRY(parse_column(at, text, &r->columns[r->n_columns], channel));
        if (find_channel(r, r->n_columns, channel->name) >= 0)
            return fail_column(at, "two columns have the name", channel->name);
        r->n_columns++;
    }
    return nest(at, r);
}

/* ---- rows ---- */

static qn_status parse_number(const qn_csv_reader *at, const char *text, double *value) {
    char *end;
    *value = qn_decimal_read(text, &end);
    if (end == text || *end || !(*value >= 0 && *value < 1e15))
        return qn_fail(QN_ERROR_FORMAT, "%s:%d: \"%.40s\" is not a number from 0 to 1e15", at->name,
                       (int)at->line, text);
    return QN_OK;
}

static qn_status parse_time(const qn_csv_reader *at, replay *r, const char *text) {
    const size_t row = r->n_rows;
    char *end;
    const double seconds = qn_decimal_read(text, &end);
    if (end == text || *end || !(fabs(seconds) < 4e9) || (row > 0 && seconds < r->seconds[row - 1]))
        return qn_fail(QN_ERROR_FORMAT,
                       "%s:%d: time_s is \"%.40s\"; it must be in seconds and must not decrease",
                       r->path, (int)at->line, text);
    r->seconds[row] = seconds;
    return QN_OK;
}

static qn_status parse_row(const qn_csv_reader *at, replay *r) {
    const size_t n = (size_t)r->n_columns + 1;
    QN_TRY(parse_time(at, r, qn_csv_text(at, 0)));
    if (at->n_fields < n)
        return qn_fail(QN_ERROR_FORMAT, "%s:%d: %zu values, but the first line names %zu columns",
                       r->path, (int)at->line, at->n_fields, n);
    if (at->n_fields > n)
        return qn_fail(QN_ERROR_FORMAT, "%s:%d: more values than columns in the first line",
                       r->path, (int)at->line);
    for (int i = 0; i < r->n_columns; i++) {
        const char *text = qn_csv_text(at, (size_t)i + 1);
        r->columns[i].watts[r->n_rows] = NAN;
        if (*text)
            QN_TRY(parse_number(at, text, &r->columns[i].watts[r->n_rows]));
    }
    r->n_rows++;
    return QN_OK;
}

static qn_status allocate_rows(replay *r, size_t most) {
    r->seconds = qn_arena_allocate(&r->arena, most, sizeof *r->seconds);
    bool is_done = r->seconds != NULL;
    for (int i = 0; i < r->n_columns && is_done; i++) {
        column *c = &r->columns[i];
        c->watts = qn_arena_allocate(&r->arena, most, sizeof *c->watts);
        c->energy = qn_arena_allocate(&r->arena, most, sizeof *c->energy);
        is_done = c->watts && c->energy;
    }
    return is_done ? QN_OK : QN_ERROR_MEMORY;
}

/* ---- from cells to energy ---- */

/* Empty cells lie on the line between their neighbours. */
static void fill_between(const replay *r, double *values, size_t from, size_t to) {
    const double span = r->seconds[to] - r->seconds[from];
    for (size_t i = from + 1; i < to; i++) {
        const double part = span > 0 ? (r->seconds[i] - r->seconds[from]) / span : 0;
        values[i] = values[from] + (values[to] - values[from]) * part;
    }
}

/* A counter's cells become what it has counted since its first. */
static qn_status unwrap(const replay *r, int index) {
    const column *c = &r->columns[index];
    double before = NAN, wraps = 0;
    for (size_t i = 0; i < r->n_rows; i++) {
        const double count = c->watts[i];
        if (isnan(count))
            continue;
        const bool falls = count < before;
        if (c->wrap > 0 ? count > c->wrap : falls)
            return qn_fail(
                QN_ERROR_FORMAT,
                "%s: %s %s at %.6g s; a counter that restarts needs :wrap=COUNTS with its maximum",
                r->path, r->channels[index].name, c->wrap > 0 ? "exceeds its wrap" : "falls",
                r->seconds[i]);
        wraps += falls ? c->wrap : 0;
        before = count;
        c->watts[i] = (count + wraps) * c->unit;
    }
    return QN_OK;
}

static void sum_energy(const replay *r, column *c) {
    if (c->is_counter) {
        memcpy(c->energy, c->watts, r->n_rows * sizeof *c->energy);
        return;
    }
    for (size_t i = c->first; i <= c->last; i++)
        c->watts[i] *= c->unit;
    for (size_t i = c->first; i < c->last; i++)
        c->energy[i + 1] = c->energy[i] + (c->watts[i] + c->watts[i + 1]) / 2 *
                                              (r->seconds[i + 1] - r->seconds[i]);
}

static qn_status work_out(replay *r, int index) {
    column *c = &r->columns[index];
    bool has_any = false;
    if (c->is_counter)
        QN_TRY(unwrap(r, index));
    for (size_t i = 0; i < r->n_rows; i++) {
        if (isnan(c->watts[i]))
            continue;
        if (has_any)
            fill_between(r, c->watts, c->last, i);
        else
            c->first = i;
        has_any = true;
        c->last = i;
    }
    if (!has_any)
        c->first = 1; /* last is 0: no time is covered */
    else
        sum_energy(r, c);
    return QN_OK;
}

/* At least as many as a text has lines. */
static size_t count_lines(const char *text) {
    size_t n = 1;
    for (; *text; text++)
        n += *text == '\n' || (*text == '\r' && text[1] != '\n');
    return n;
}

static qn_status parse_rows(qn_csv_reader *at, replay *r, size_t n_lines) {
    bool is_end;
    QN_TRY(qn_csv_next(at, &is_end));
    QN_TRY(parse_head(at, r));
    QN_TRY(allocate_rows(r, n_lines));
    for (;;) {
        QN_TRY(qn_csv_next(at, &is_end));
        if (is_end)
            return QN_OK;
        QN_TRY(parse_row(at, r));
    }
}

static qn_status parse(replay *r, const char *text, size_t bytes) {
    qn_csv_reader at;
    qn_csv_read_text(&at, r->arena.allocator, r->path, text, bytes);
    at.remark = '#';
    const qn_status status = parse_rows(&at, r, count_lines(text));
    qn_csv_deinit(&at);
    QN_TRY(status);
    if (r->n_columns == 0 || r->n_rows < 2 || r->seconds[r->n_rows - 1] <= r->seconds[0])
        return qn_fail(QN_ERROR_FORMAT, "%s: needs a column of power and at least two rows",
                       r->path);
    for (size_t i = r->n_rows; i-- > 0;)
        r->seconds[i] -= r->seconds[0];
    for (int i = 0; i < r->n_columns; i++)
        QN_TRY(work_out(r, i));
    return QN_OK;
}

/* ---- reading ---- */

/* Energy up to a moment between row and the next. */
static double energy_at(const replay *r, const column *c, size_t row, double seconds) {
    if (row >= c->last)
        return c->energy[c->last];
    const double span = r->seconds[row + 1] - r->seconds[row];
    const double part = span > 0 ? (seconds - r->seconds[row]) / span : 0;
    if (c->is_counter)
        return c->energy[row] + (c->energy[row + 1] - c->energy[row]) * part;
    return c->energy[row] +
           (c->watts[row] + (c->watts[row + 1] - c->watts[row]) * part / 2) * part * span;
}

static size_t row_at(const replay *r, size_t row, double seconds) {
    while (row + 1 < r->n_rows && r->seconds[row + 1] <= seconds)
        row++;
    return row;
}

static void read_column(const replay *r, const column *c, size_t row, int64_t begin_ns,
                        int64_t end_ns, qn_reading *reading) {
    if (c->first >= c->last)
        return;
    const int64_t first_ns = r->start_ns + (int64_t)(r->seconds[c->first] * 1e9);
    const int64_t last_ns = r->start_ns + (int64_t)(r->seconds[c->last] * 1e9);
    begin_ns = begin_ns < first_ns ? first_ns : begin_ns;
    end_ns = end_ns > last_ns ? last_ns : end_ns;
    if (begin_ns >= end_ns)
        return;
    const double begin = (double)(begin_ns - r->start_ns) * 1e-9;
    const double end = (double)(end_ns - r->start_ns) * 1e-9;
    const double energy =
        energy_at(r, c, row_at(r, row, end), end) - energy_at(r, c, row_at(r, row, begin), begin);
    *reading = (qn_reading){begin_ns, end_ns, energy > 0 ? energy / (end - begin) : 0};
}

static void replay_read(void *source, int64_t now_ns, qn_reading *readings) {
    replay *r = source;
    const int64_t last_ns = r->last_ns;
    if (last_ns == 0) {
        r->start_ns = r->last_ns = now_ns;
        return;
    }
    if (now_ns <= last_ns || r->has_ended)
        return;
    for (int i = 0; i < r->n_columns; i++)
        read_column(r, &r->columns[i], r->row, last_ns, now_ns, &readings[i]);
    const double seconds = (double)(now_ns - r->start_ns) * 1e-9;
    r->row = row_at(r, r->row, seconds);
    r->last_ns = now_ns;
    r->has_ended = seconds > r->seconds[r->n_rows - 1];
    if (r->has_ended)
        qn_speaker_say(&r->speaker, "%s: ends after %.6g s; power after that is unknown", r->path,
                       r->seconds[r->n_rows - 1]);
}

/* ---- the source ---- */

static void replay_close(void *source) {
    replay *r = source;
    const qn_allocator *allocator = r->arena.allocator;
    qn_arena_deinit(&r->arena);
    qn_release(allocator, r, 1, sizeof *r);
}

static qn_status fill(replay *r, const qn_source_options *options) {
    char *text;
    size_t bytes;
    r->path = qn_arena_text(&r->arena, options->replay);
    if (!r->path)
        return QN_ERROR_MEMORY;
    QN_TRY(qn_file_read_whole(options->allocator, r->path, &text, &bytes));
    const qn_status status =
        strlen(text) < bytes
            ? qn_fail(QN_ERROR_FORMAT, "%s: it is not a text file: it contains a zero byte",
                      r->path)
            : parse(r, text, bytes);
    qn_release(options->allocator, text, bytes + 1, 1);
    return status;
}

static qn_status replay_open(const qn_source_options *options, void **source) {
    replay *r;
    *source = NULL;
    if (!options->replay)
        return QN_OK;
    QN_TRY(qn_allocate(options->allocator, 1, sizeof *r, &r));
    qn_arena_init(&r->arena, options->allocator);
    r->speaker = qn_speaker_of(options, source_name);
    const qn_status status = fill(r, options);
    if (status != QN_OK) {
        replay_close(r);
        return status;
    }
    *source = r;
    return QN_OK;
}

static const qn_channel *replay_channels(const void *source, int *n) {
    const replay *r = source;
    *n = r->n_columns;
    return r->channels;
}

const qn_source_kind qn_source_replay = {
    .name = source_name,
    .about = "power from a recorded file",
    .open = replay_open,
    .channels = replay_channels,
    .read = replay_read,
    .close = replay_close,
};
