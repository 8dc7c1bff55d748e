/* Clocks of other programs' traces, against clocks made by hand: each is found and mapped to
 * within a millisecond, with drift; marks in a trace; what cannot be decided is refused. */
#define _GNU_SOURCE

#include "base/status.h"
#include "data_files.h"
#include "meter/clocks.h"

#include <time.h>

#define S  1000000000LL
#define MS 1000000LL

/* Our clock runs from 1000 s; the others are ahead of it by so much. */
enum { BEGIN_S = 1000, END_S = 1060 };

#define REALTIME_AHEAD (1790000000LL * S + 123456789)
#define BOOTTIME_AHEAD (5000LL * S)

/* A comparison every 10 s. realtime gains drift_ns every second and is set by step_ns after 30 s.
 */
static void make_log(qn_clock_log *log, int64_t drift_ns, int64_t step_ns, int64_t boottime_ahead) {
    qn_clock_log_init(log);
    for (int i = 0; i <= 6; i++) {
        const int64_t at = (BEGIN_S + 10 * i) * S;
        const int64_t ahead = REALTIME_AHEAD + 10 * i * drift_ns + (i > 3 ? step_ns : 0);
        log->offsets[i][QN_CLOCK_REALTIME] = (qn_clock_offset){at, ahead, 100};
        log->offsets[i][QN_CLOCK_MONOTONIC] = (qn_clock_offset){at, 0, 100};
        log->offsets[i][QN_CLOCK_BOOTTIME] = (qn_clock_offset){at, boottime_ahead, 100};
        log->n++;
    }
}

/* Reads a trace of one slice for each name, from times[i] for 50 us. facts: before its events. */
static qn_trace_reading *read_events(const char *facts, int n, const char *const *names,
                                     const int64_t *times_ns) {
    char text[8192];
    qn_trace_reading *reading = NULL;
    int used = snprintf(text, sizeof text, "{%s\"traceEvents\":[", facts);
    for (int i = 0; i < n; i++)
        used += snprintf(text + used, sizeof text - (size_t)used,
                         "%s{\"ph\":\"X\",\"name\":\"%s\",\"ts\":%lld.%03d,\"dur\":50}",
                         i ? "," : "", names ? names[i] : "op", (long long)(times_ns[i] / 1000),
                         (int)(times_ns[i] % 1000));
    snprintf(text + used, sizeof text - (size_t)used, "]}");
    write_text("@/t.json", text);
    CHECK_OK(qn_trace_read(NULL, at_root("@/t.json"), &reading));
    return reading;
}

static qn_status find(const qn_trace_reading *reading, const qn_clock_log *log, const char *clock,
                      qn_clock_map *map) {
    const qn_clock_question question = {.path = "t.json",
                                        .reading = reading,
                                        .log = log,
                                        .begin_ns = BEGIN_S * S,
                                        .end_ns = END_S * S,
                                        .clock = clock};
    return qn_clock_map_find(&question, map);
}

static bool is_near(const qn_clock_map *map, int64_t file_ns, int64_t our_ns) {
    const int64_t off_ns = qn_clock_map_apply(map, file_ns) - our_ns;
    return off_ns > -MS / 2 && off_ns < MS / 2 && map->error_ns <= MS;
}

/* ---- clocks that fit ---- */

static void test_each_clock(void) {
    static const struct {
        int64_t ahead;
        const char *how;
    } cases[] = {{REALTIME_AHEAD, "the wall clock"},
                 {0, "the monotonic clock"},
                 {BOOTTIME_AHEAD, "the clock since boot"}};
    qn_clock_log log;
    make_log(&log, 0, 0, BOOTTIME_AHEAD);
    for (int i = 0; i < 3; i++) {
        qn_clock_map map;
        const int64_t at = cases[i].ahead + (BEGIN_S + 17) * S + 42;
        qn_trace_reading *r = read_events("", 1, NULL, &at);
        CHECK_OK(find(r, &log, NULL, &map));
        CHECK(strcmp(map.how, cases[i].how) == 0);
        CHECK(qn_clock_map_apply(&map, at) == (BEGIN_S + 17) * S + 42);
        qn_trace_reading_destroy(r);
    }
}

/* PyTorch from 2.4 on writes times from a base. */
static void test_base(void) {
    qn_clock_log log;
    qn_clock_map map;
    const int64_t base = 1789999000LL * S + 7;
    const int64_t at = REALTIME_AHEAD + (BEGIN_S + 5) * S - base;
    make_log(&log, 0, 0, BOOTTIME_AHEAD);
    qn_trace_reading *r =
        read_events("\"baseTimeNanoseconds\": 1789999000000000007,", 1, NULL, &at);
    CHECK_OK(find(r, &log, NULL, &map));
    CHECK(strstr(map.how, "baseTimeNanoseconds"));
    CHECK(qn_clock_map_apply(&map, at) == (BEGIN_S + 5) * S);
    qn_trace_reading_destroy(r);
}

/* 50 us a second is more than any clock drifts; after a minute it would be 3 ms. */
static void test_drift(void) {
    qn_clock_log log;
    qn_clock_map map;
    const int64_t times[] = {REALTIME_AHEAD + BEGIN_S * S,
                             REALTIME_AHEAD + (BEGIN_S + 25) * S + 25 * 50000,
                             REALTIME_AHEAD + (BEGIN_S + 59) * S + 59 * 50000};
    make_log(&log, 50000, 0, BOOTTIME_AHEAD);
    qn_trace_reading *r = read_events("", 3, NULL, times);
    CHECK_OK(find(r, &log, NULL, &map));
    CHECK(is_near(&map, times[0], BEGIN_S * S) && is_near(&map, times[1], (BEGIN_S + 25) * S) &&
          is_near(&map, times[2], (BEGIN_S + 59) * S));
    qn_trace_reading_destroy(r);
}

/* A clock that was set while operations ran is refused; before or after them it does no harm. */
static void test_step(void) {
    qn_clock_log log;
    qn_clock_map map;
    const int64_t across[] = {REALTIME_AHEAD + (BEGIN_S + 5) * S,
                              REALTIME_AHEAD + (BEGIN_S + 55) * S};
    const int64_t before[] = {REALTIME_AHEAD + (BEGIN_S + 5) * S,
                              REALTIME_AHEAD + (BEGIN_S + 25) * S};
    const int64_t after = REALTIME_AHEAD + (BEGIN_S + 50) * S + 30 * MS;
    make_log(&log, 0, 30 * MS, BOOTTIME_AHEAD);
    qn_trace_reading *r = read_events("", 2, NULL, across);
    CHECK_FAILS(find(r, &log, NULL, &map), QN_ERROR_FORMAT,
                "the wall clock was changed by 0.030 s");
    qn_trace_reading_destroy(r);
    r = read_events("", 2, NULL, before);
    CHECK_OK(find(r, &log, NULL, &map));
    CHECK(qn_clock_map_apply(&map, before[1]) == (BEGIN_S + 25) * S);
    qn_trace_reading_destroy(r);
    r = read_events("", 1, NULL, &after);
    CHECK_OK(find(r, &log, NULL, &map));
    CHECK(qn_clock_map_apply(&map, after) == (BEGIN_S + 50) * S);
    qn_trace_reading_destroy(r);
    /* Backwards. */
    make_log(&log, 0, -3 * S, BOOTTIME_AHEAD);
    r = read_events("", 2, NULL, across);
    CHECK_FAILS(find(r, &log, NULL, &map), QN_ERROR_FORMAT, "was changed by 3.000 s");
    qn_trace_reading_destroy(r);
}

static void test_undecided(void) {
    qn_clock_log log;
    qn_clock_map map;
    const int64_t times[] = {(BEGIN_S + 20) * S, (BEGIN_S + 21) * S}, own[] = {0, S};
    /* Monotonic and since boot, 3 s apart. */
    make_log(&log, 0, 0, 3 * S);
    qn_trace_reading *r = read_events("", 2, NULL, times);
    CHECK_FAILS(find(r, &log, NULL, &map), QN_ERROR_FORMAT,
                "match both the monotonic clock and the clock since boot");
    CHECK_OK(find(r, &log, "boottime", &map));
    CHECK(qn_clock_map_apply(&map, times[0]) == (BEGIN_S + 17) * S);
    CHECK_FAILS(find(r, &log, "realtime", &map), QN_ERROR_FORMAT, "match no clock named realtime");
    /* They are one where the machine never slept. */
    make_log(&log, 0, 0, 2000);
    CHECK_OK(find(r, &log, NULL, &map));
    qn_trace_reading_destroy(r);
    r = read_events("", 2, NULL, own);
    CHECK_FAILS(find(r, &log, NULL, &map), QN_ERROR_FORMAT, "named monotonic_ns=N");
    CHECK(
        strstr(qn_error_message(), "t.json: its times (0.000000 s to 1.000050 s) match no clock"));
    qn_trace_reading_destroy(r);
    r = read_events("", 0, NULL, own);
    CHECK_FAILS(find(r, &log, NULL, &map), QN_ERROR_FORMAT, "contains no operations");
    qn_trace_reading_destroy(r);
}

/* ---- marks ---- */

/* A clock that starts at 0 at our 1010 s and gains drift_ns every second. Marks follow each other
 * by gap_ns, each 20 us after it was read, n at the beginning and n after 30 s. */
static qn_trace_reading *read_marks(const char *clock, int64_t ahead, int n, int64_t gap_ns,
                                    int64_t drift_ns, int64_t step_ns) {
    static char texts[64][48];
    const char *names[64];
    int64_t times[64];
    for (int i = 0; i < 2 * n; i++) {
        const int64_t since = (i / n) * 30 * S + i % n * gap_ns;
        snprintf(texts[i], sizeof texts[i], "%s_ns=%lld", clock,
                 (long long)(ahead + 1010 * S + since));
        names[i] = texts[i];
        times[i] = since + (i / n) * (30 * drift_ns + step_ns) + 20000;
    }
    return read_events("", 2 * n, names, times);
}

static void test_marks(void) {
    static const struct {
        const char *clock;
        int64_t ahead;
    } cases[] = {{"monotonic", 0}, {"realtime", REALTIME_AHEAD}, {"boottime", BOOTTIME_AHEAD}};
    qn_clock_log log;
    make_log(&log, 0, 0, BOOTTIME_AHEAD);
    for (int i = 0; i < 3; i++) {
        qn_clock_map map;
        qn_trace_reading *r = read_marks(cases[i].clock, cases[i].ahead, 3, 100000, 0, 0);
        CHECK_OK(find(r, &log, NULL, &map));
        CHECK(is_near(&map, 0, 1010 * S) && is_near(&map, 40 * S, 1050 * S));
        CHECK(map.n == 2 && map.error_ns <= 50000 && strcmp(map.how, "marks in the trace") == 0);
        qn_trace_reading_destroy(r);
    }
}

static void test_marks_drift(void) {
    qn_clock_log log;
    qn_clock_map map;
    make_log(&log, 0, 0, BOOTTIME_AHEAD);
    qn_trace_reading *r = read_marks("monotonic", 0, 2, 100000, 100000, 0);
    CHECK_OK(find(r, &log, NULL, &map));
    CHECK(is_near(&map, 0, 1010 * S) && is_near(&map, 15 * S + 15 * 100000, 1025 * S));
    qn_trace_reading_destroy(r);
    r = read_marks("monotonic", 0, 2, 100000, 0, 50 * MS);
    CHECK_FAILS(find(r, &log, NULL, &map), QN_ERROR_FORMAT, "its clock was changed");
    qn_trace_reading_destroy(r);
    /* Five milliseconds apart: too loose. */
    r = read_marks("monotonic", 0, 2, 5 * MS, 0, 0);
    CHECK_FAILS(find(r, &log, NULL, &map), QN_ERROR_FORMAT, "five in a row");
    qn_trace_reading_destroy(r);
}

/* Marks of a run before this one. */
static void test_marks_early(void) {
    qn_clock_log log;
    qn_clock_map map;
    make_log(&log, 0, 0, BOOTTIME_AHEAD);
    qn_trace_reading *r = read_marks("monotonic", -20 * S, 3, 100000, 0, 0);
    CHECK_FAILS(find(r, &log, NULL, &map), QN_ERROR_FORMAT, "it is from another run");
    qn_trace_reading_destroy(r);
}

static void test_mark_names(void) {
    qn_clock clock;
    int64_t at_ns;
    CHECK(qn_clock_mark("boottime_ns=7", &clock, &at_ns) && clock == QN_CLOCK_BOOTTIME);
    CHECK(at_ns == 7);
    CHECK(!qn_clock_mark("monotonic_ns=", &clock, &at_ns));
    CHECK(!qn_clock_mark("monotonic_ns=7x", &clock, &at_ns));
    CHECK(!qn_clock_mark("monotonic_ns=99999999999999999999", &clock, &at_ns));
    CHECK(!qn_clock_mark("aten::add", &clock, &at_ns));
}

/* ---- the machine's ---- */

static int64_t read_ns(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return t.tv_sec * S + t.tv_nsec;
}

static void test_compare(void) {
    for (int i = 0; i < 20; i++) {
        const int64_t before = read_ns(CLOCK_REALTIME) - qn_clock_ns();
        const qn_clock_offset offset = qn_clock_compare(QN_CLOCK_REALTIME);
        const int64_t after = read_ns(CLOCK_REALTIME) - qn_clock_ns();
        /* Ours was read after theirs, so these are too small by the time between. */
        CHECK(offset.error_ns >= 0 && offset.at_ns <= qn_clock_ns());
        CHECK(offset.offset_ns > (before < after ? before : after) - 1000);
    }
    CHECK(qn_clock_compare(QN_CLOCK_MONOTONIC).offset_ns == 0);
}

/* However long it goes on, the log spans all of it. */
static void test_log(void) {
    qn_clock_log log;
    qn_clock_log_init(&log);
    for (int i = 0; i < 5000; i++)
        qn_clock_log_add(&log);
    qn_clock_log_end(&log);
    CHECK(log.n > QN_CLOCK_MOST / 4 && log.n <= QN_CLOCK_MOST);
    for (int i = 1; i < log.n; i++)
        CHECK(log.offsets[i][0].at_ns > log.offsets[i - 1][0].at_ns);
}

int main(void) {
    files_begin();
    test_each_clock();
    test_base();
    test_drift();
    test_step();
    test_undecided();
    test_marks();
    test_marks_drift();
    test_marks_early();
    test_mark_names();
    test_compare();
    test_log();
    files_end();
    return checks_finish();
}
