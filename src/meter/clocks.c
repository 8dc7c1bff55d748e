/* See clocks.h. */
#include "meter/clocks.h"

#include "base/status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Marks further apart show how a clock drifts. */
#define FAR_NS 1000000000

/* More than any clock drifts by itself: it was set. */
#define MOST_DRIFT 0.001

static const struct {
    const char *name, *words;
} clocks[QN_CLOCK_COUNT] = {
    [QN_CLOCK_REALTIME] = {"realtime", "the wall clock"},
    [QN_CLOCK_MONOTONIC] = {"monotonic", "the monotonic clock"},
    [QN_CLOCK_BOOTTIME] = {"boottime", "the clock since boot"},
};

const char *qn_clock_name(qn_clock clock) {
    return clocks[clock].name;
}

/* ---- comparisons ---- */

void qn_clock_log_init(qn_clock_log *log) {
    log->n = 0;
    log->n_added = 0;
    log->stride = 1;
}

void qn_clock_log_end(qn_clock_log *log) {
    if (log->n == QN_CLOCK_MOST) {
        log->n /= 2;
        log->stride *= 2;
        for (int i = 0; i < log->n; i++)
            memcpy(log->offsets[i], log->offsets[2 * i], sizeof log->offsets[i]);
    }
    for (int c = 0; c < QN_CLOCK_COUNT; c++)
        log->offsets[log->n][c] = qn_clock_compare((qn_clock)c);
    log->n++;
}

void qn_clock_log_add(qn_clock_log *log) {
    if (log->n_added++ % log->stride == 0)
        qn_clock_log_end(log);
}

/* ---- maps ---- */

int64_t qn_clock_map_apply(const qn_clock_map *map, int64_t file_ns) {
    int i = 0;
    while (i < map->n && map->points[i].file_ns <= file_ns)
        i++;
    if (i == 0 || i == map->n) {
        const qn_clock_point *p = &map->points[i == 0 ? 0 : map->n - 1];
        return file_ns - p->file_ns + p->our_ns;
    }
    const qn_clock_point *a = &map->points[i - 1], *b = &map->points[i];
    const double part = (double)(file_ns - a->file_ns) / (double)(b->file_ns - a->file_ns);
    return a->our_ns + (int64_t)(part * (double)(b->our_ns - a->our_ns));
}

/* The error of mapping times between two comparisons: a clock that was set in between may have
 * shown anything from the one difference to the other. */
static int64_t error_between(const qn_clock_offset *a, const qn_clock_offset *b) {
    return a->error_ns + b->error_ns + llabs(b->offset_ns - a->offset_ns);
}

static int64_t there_ns(const qn_clock_offset *o) {
    return o->at_ns + o->offset_ns;
}

/* The map of a clock from its comparisons, for times in [from_ns, to_ns] of the file, which are
 * base_ns less than the clock's. */
static void map_clock(const qn_clock_log *log, qn_clock clock, int64_t base_ns, int64_t from_ns,
                      int64_t to_ns, qn_clock_map *map) {
    map->n = 0;
    map->error_ns = 0;
    for (int i = 0; i < log->n; i++) {
        const qn_clock_offset *b = &log->offsets[i][clock], *a = i > 0 ? b - QN_CLOCK_COUNT : b;
        const int64_t begin_ns = there_ns(a) - base_ns, end_ns = there_ns(b) - base_ns;
        const int64_t error_ns = error_between(a, b);
        if (end_ns >= from_ns && begin_ns <= to_ns && error_ns > map->error_ns)
            map->error_ns = error_ns;
        if (map->n == 0 || end_ns > map->points[map->n - 1].file_ns)
            map->points[map->n++] = (qn_clock_point){end_ns, b->at_ns};
    }
    snprintf(map->how, sizeof map->how, "%s%s", clocks[clock].words,
             base_ns != 0 ? ", from the file's baseTimeNanoseconds" : "");
}

/* ---- marks ---- */

bool qn_clock_mark(const char *name, qn_clock *clock, int64_t *at_ns) {
    for (int c = 0; c < QN_CLOCK_COUNT; c++) {
        char *end;
        const size_t length = strlen(clocks[c].name);
        if (strncmp(name, clocks[c].name, length) != 0 || strncmp(name + length, "_ns=", 4) != 0)
            continue;
        errno = 0;
        *at_ns = strtoll(name + length + 4, &end, 10);
        *clock = (qn_clock)c;
        return errno == 0 && end > name + length + 4 && *end == 0 && *at_ns > 0;
    }
    return false;
}

/* Two marks in a row: the first began after its time and ended before the second's, so the clocks'
 * difference is known to within width_ns. */
typedef struct mark_pair {
    qn_clock_point point;
    int64_t width_ns; /* negative: no pair */
} mark_pair;

typedef struct marks {
    const qn_trace_slice_read *slices; /* (n) */
    size_t n;
    qn_clock_map maps[QN_CLOCK_COUNT]; /* of the clocks that marks name */
} marks;

static void marks_init(marks *m, const qn_clock_question *q) {
    m->slices = qn_trace_reading_slices(q->reading, &m->n);
    for (int c = 0; c < QN_CLOCK_COUNT; c++)
        map_clock(q->log, (qn_clock)c, 0, INT64_MIN, INT64_MAX, &m->maps[c]);
}

/* The time of a mark, ours. What a GPU did for one was later. */
static bool read_mark(const marks *m, size_t i, int64_t *our_ns) {
    qn_clock clock;
    int64_t at_ns;
    if (!qn_clock_mark(m->slices[i].name, &clock, &at_ns) ||
        strncmp(m->slices[i].category, "gpu", 3) == 0)
        return false;
    *our_ns = qn_clock_map_apply(&m->maps[clock], at_ns);
    return true;
}

/* The first mark from slice i on, or n. */
static size_t next_mark(const marks *m, size_t i) {
    int64_t our_ns;
    while (i < m->n && !read_mark(m, i, &our_ns))
        i++;
    return i;
}

static mark_pair pair_marks(const marks *m, size_t i, size_t next) {
    const qn_trace_slice_read *a = &m->slices[i], *b = &m->slices[next];
    int64_t a_ns, b_ns;
    if (a->track != b->track || b->begin_ns < a->end_ns || !read_mark(m, i, &a_ns) ||
        !read_mark(m, next, &b_ns))
        return (mark_pair){.width_ns = -1};
    const int64_t most_ns = a->begin_ns - a_ns, least_ns = a->end_ns - b_ns;
    return (mark_pair){{a->begin_ns, a_ns + (most_ns - least_ns) / 2}, most_ns - least_ns};
}

/* The tightest pair that begins in [from_ns, to_ns). */
static mark_pair find_pair(const marks *m, int64_t from_ns, int64_t to_ns) {
    mark_pair best = {.width_ns = -1};
    size_t next;
    for (size_t i = next_mark(m, 0); i < m->n; i = next) {
        next = next_mark(m, i + 1);
        if (next == m->n || m->slices[i].begin_ns < from_ns || m->slices[i].begin_ns >= to_ns)
            continue;
        const mark_pair pair = pair_marks(m, i, next);
        if (pair.width_ns >= 0 && (best.width_ns < 0 || pair.width_ns < best.width_ns))
            best = pair;
    }
    return best;
}

static bool is_tight(const mark_pair *pair) {
    return pair->width_ns >= 0 && pair->width_ns <= QN_CLOCK_MOST_ERROR_NS;
}

static void add_pair(qn_clock_map *map, const mark_pair *pair) {
    map->points[map->n++] = pair->point;
    if (pair->width_ns > map->error_ns)
        map->error_ns = pair->width_ns;
}

/* Whether a clock may run from one pair to a later one. */
static bool is_drift(const mark_pair *a, const mark_pair *b) {
    const int64_t file_ns = b->point.file_ns - a->point.file_ns;
    const int64_t our_ns = b->point.our_ns - a->point.our_ns;
    return (double)llabs(file_ns - our_ns) <=
           (double)(a->width_ns + b->width_ns) + MOST_DRIFT * (double)file_ns;
}

/* By the tightest pair, and one far before it and one far after, for the drift. */
static qn_status map_marks(const qn_clock_question *q, qn_clock_map *map) {
    marks m;
    marks_init(&m, q);
    const mark_pair best = find_pair(&m, INT64_MIN, INT64_MAX);
    if (!is_tight(&best))
        return qn_fail(QN_ERROR_FORMAT,
                       "%s: its clock marks are not accurate to a millisecond; let the program "
                       "record five in a row, each immediately after reading the clock",
                       q->path);
    const mark_pair pairs[] = {find_pair(&m, INT64_MIN, best.point.file_ns - FAR_NS), best,
                               find_pair(&m, best.point.file_ns + FAR_NS, INT64_MAX)};
    *map = (qn_clock_map){.n = 0};
    for (int i = 0; i < 3; i++) {
        if (is_tight(&pairs[i]))
            add_pair(map, &pairs[i]);
        if (i > 0 && is_tight(&pairs[i - 1]) && is_tight(&pairs[i]) &&
            !is_drift(&pairs[i - 1], &pairs[i]))
            return qn_fail(QN_ERROR_FORMAT,
                           "%s: its clock was changed during the recording; record it again",
                           q->path);
    }
    snprintf(map->how, sizeof map->how, "marks in the trace");
    return QN_OK;
}

static bool has_marks(const qn_clock_question *q) {
    marks m;
    marks_init(&m, q);
    return next_mark(&m, 0) < m.n;
}

/* ---- clocks that fit ---- */

/* First and last moment of the slices, of the file's clock. */
static void find_range(const qn_trace_reading *reading, int64_t *from_ns, int64_t *to_ns) {
    size_t n;
    const qn_trace_slice_read *slices = qn_trace_reading_slices(reading, &n);
    *from_ns = INT64_MAX;
    *to_ns = INT64_MIN;
    for (size_t i = 0; i < n; i++) {
        if (slices[i].begin_ns < *from_ns)
            *from_ns = slices[i].begin_ns;
        if (slices[i].end_ns > *to_ns)
            *to_ns = slices[i].end_ns;
    }
}

typedef struct candidates {
    const qn_clock_question *question;
    int64_t from_ns, to_ns; /* of the slices */
    int n_fits;
    bool differ;
    char both[2][160]; /* in words, if they differ */
} candidates;

/* Looks whether the slices lie within the run by this clock. The first that fits is taken. */
static void try_clock(candidates *c, qn_clock clock, int64_t base_ns, qn_clock_map *map) {
    const qn_clock_question *q = c->question;
    qn_clock_map tried;
    if (q->clock && strcmp(q->clock, clocks[clock].name) != 0)
        return;
    map_clock(q->log, clock, base_ns, c->from_ns, c->to_ns, &tried);
    const int64_t from_ns = qn_clock_map_apply(&tried, c->from_ns);
    if (from_ns < q->begin_ns - QN_CLOCK_MOST_ERROR_NS ||
        qn_clock_map_apply(&tried, c->to_ns) > q->end_ns + QN_CLOCK_MOST_ERROR_NS)
        return;
    if (c->n_fits++ == 0) {
        *map = tried;
    } else if (llabs(from_ns - qn_clock_map_apply(map, c->from_ns)) > QN_CLOCK_MOST_ERROR_NS) {
        c->differ = true;
        memcpy(c->both[0], map->how, sizeof c->both[0]);
        memcpy(c->both[1], tried.how, sizeof c->both[1]);
    }
}

static qn_status refuse_misfit(const candidates *c) {
    const qn_clock_question *q = c->question;
    const qn_clock_offset *o = q->log->offsets[0];
    const double ns = 1e-9;
    return qn_fail(QN_ERROR_FORMAT,
                   "%s: its times (%.6f s to %.6f s) match no clock%s%s: the program ran from %.6f "
                   "s to %.6f s by the wall clock, from %.6f s to %.6f s by the monotonic clock. "
                   "If the trace is of this run, it counts from its own start; let the program "
                   "record, five times in a row, an event named monotonic_ns=N, where N is the "
                   "clock's value (in Python time.monotonic_ns()): see docs/measuring-others.md",
                   q->path, (double)c->from_ns * ns, (double)c->to_ns * ns,
                   q->clock ? " named " : "", q->clock ? q->clock : "",
                   (double)(q->begin_ns + o[QN_CLOCK_REALTIME].offset_ns) * ns,
                   (double)(q->end_ns + o[QN_CLOCK_REALTIME].offset_ns) * ns,
                   (double)(q->begin_ns + o[QN_CLOCK_MONOTONIC].offset_ns) * ns,
                   (double)(q->end_ns + o[QN_CLOCK_MONOTONIC].offset_ns) * ns);
}

static qn_status map_by_overlap(const qn_clock_question *q, qn_clock_map *map) {
    candidates c = {.question = q};
    const char *base = qn_trace_reading_fact(q->reading, "baseTimeNanoseconds");
    const int64_t base_ns = base ? strtoll(base, NULL, 10) : 0;
    find_range(q->reading, &c.from_ns, &c.to_ns);
    if (base_ns > 0 && base_ns < INT64_MAX / 2)
        try_clock(&c, QN_CLOCK_REALTIME, base_ns, map);
    for (int clock = 0; clock < QN_CLOCK_COUNT; clock++)
        try_clock(&c, (qn_clock)clock, 0, map);
    if (c.n_fits == 0)
        return refuse_misfit(&c);
    if (c.differ)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s: its times match both %s and %s, which differ; choose one with --clock",
                       q->path, c.both[0], c.both[1]);
    if (map->error_ns > QN_CLOCK_MOST_ERROR_NS)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s: %s was changed by %.3f s while the program ran, so its times are not "
                       "accurate to a millisecond; measure again",
                       q->path, map->how, (double)map->error_ns * 1e-9);
    return QN_OK;
}

/* Marks may be of an earlier run. */
static qn_status check_range(const qn_clock_question *q, const qn_clock_map *map) {
    int64_t from_ns, to_ns;
    find_range(q->reading, &from_ns, &to_ns);
    if (qn_clock_map_apply(map, from_ns) >= q->begin_ns - QN_CLOCK_MOST_ERROR_NS &&
        qn_clock_map_apply(map, to_ns) <= q->end_ns + QN_CLOCK_MOST_ERROR_NS)
        return QN_OK;
    return qn_fail(
        QN_ERROR_FORMAT,
        "%s: its clock marks show that it is from another run; use the trace of this run", q->path);
}

qn_status qn_clock_map_find(const qn_clock_question *question, qn_clock_map *map) {
    size_t n;
    qn_trace_reading_slices(question->reading, &n);
    if (n == 0)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s: it contains no operations; check what the program records",
                       question->path);
    if (question->clock || !has_marks(question))
        return map_by_overlap(question, map);
    QN_TRY(map_marks(question, map));
    return check_range(question, map);
}
