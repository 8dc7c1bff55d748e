/* Replayed power: the energy of known waveforms (steps, ramps, a counter that wraps) as it is added
 * up from readings at uneven moments, against what they hold by formula; files that make no sense.
 */
#define _GNU_SOURCE

#include "power_source.h"

static char path[128];

static qn_status open_text(power_source *s, const device_files *files, const char *text) {
    device_files_put(files, "power.csv", "%s", text);
    return power_source_open(s, &qn_source_replay, "", (qn_source_options){.replay = path});
}

/* Energy of all channels up to so many ms, read every 7 to 13 ms; readings must join. */
static void add_up(power_source *s, double ms, double *joules) {
    int64_t ends[MOST_CHANNELS] = {0};
    double at = 0;
    for (int i = 0; i < s->n; i++)
        joules[i] = 0;
    power_source_read(s, 0);
    for (int k = 0; at < ms; k++) {
        at = fmin(at + 7 + (double)(k * 5 % 7), ms);
        power_source_read(s, at);
        for (int i = 0; i < s->n; i++) {
            const qn_reading *r = &s->readings[i];
            if (r->end_ns == 0)
                continue;
            CHECK(r->end_ns > r->begin_ns && r->value >= 0 && isfinite(r->value));
            CHECK(ends[i] == 0 || ends[i] == r->begin_ns);
            ends[i] = r->end_ns;
            joules[i] += r->value * (double)(r->end_ns - r->begin_ns) * 1e-9;
        }
    }
}

static bool is_true(double value, double truth) {
    return fabs(value - truth) <= 1e-6 * truth; /* 0.5 % is demanded */
}

/* 5 W, a burst of 20 W from 1.0 to 1.35 s, 5 W, and a ramp from 5 W to 12 W from 2 to 4 s; and the
 * same burst seen by a counter of millijoules that begins again at 10000. */
static void test_waveform(const device_files *files) {
    power_source s;
    double joules[MOST_CHANNELS], count = 0;
    char text[8192] = "# made up\ntime_s,system:input:W,cpu:burst:mJ:wrap=10000:inside=input\r\n";
    static const double rows[][2] = {{0, 5},    {1, 5}, {1, 20}, {1.35, 20},
                                     {1.35, 5}, {2, 5}, {4, 12}, {5, 12}};
    for (int i = 0; i < 8; i++) {
        const double before = i > 0 ? rows[i][0] - rows[i - 1][0] : 0;
        if (i > 0) /* the counter's own waveform: 8 W but 2 W in the ramp */
            count += before * (i == 6 ? 2000 : 8000);
        snprintf(text + strlen(text), sizeof text - strlen(text), "%g, %g, %.3f\n", rows[i][0] + 7,
                 rows[i][1], fmod(count, 10000));
    }
    CHECK_OK(open_text(&s, files, text));
    CHECK(s.n == 2 && s.channels[1].inside == 0 && s.channels[0].inside == -1);
    CHECK(s.channels[0].part == QN_PART_SYSTEM && s.channels[1].part == QN_PART_CPU);
    add_up(&s, 5500, joules);
    CHECK(is_true(joules[0], 5 * 1.65 + 20 * 0.35 + 8.5 * 2 + 12));
    CHECK(is_true(joules[1], 8 * 3 + 2 * 2));
    CHECK(s.n_lines == 1 && power_source_said(&s, "ends after 5 s"));
    CHECK(isnan(power_source_watts(&s, "input")));
    power_source_close(&s);
    check_failing_memory(&qn_source_replay, "", (qn_source_options){.replay = path});
}

/* A burst's edges fall between two looks: the looks share it by time. */
static void test_edges(const device_files *files) {
    power_source s;
    CHECK_OK(
        open_text(&s, files, "time_s,gpu:g:W\n0,1\n0.014,1\n0.014,11\n0.018,11\n0.018,1\n1,1"));
    power_source_read(&s, 0);
    power_source_read(&s, 10);
    CHECK(is_near(power_source_watts(&s, "g"), 1));
    power_source_read(&s, 16);
    CHECK(is_near(power_source_watts(&s, "g"), (4 * 1 + 2 * 11) / 6.0));
    power_source_read(&s, 26);
    CHECK(is_near(power_source_watts(&s, "g"), (2 * 11 + 8 * 1) / 10.0));
    power_source_close(&s);
}

/* A slow sensor leaves cells empty; what is before its first and behind its last is not known. */
static void test_empty_cells(const device_files *files) {
    power_source s;
    double joules[MOST_CHANNELS];
    CHECK_OK(
        open_text(&s, files, "time_s,cpu:fast:W,memory:slow:W\n0,1,\n1,1,2\n2,1,\n3,1,6\n4,1,\n"));
    add_up(&s, 4000, joules);
    CHECK(is_true(joules[0], 4) && is_true(joules[1], 8));
    power_source_close(&s);
    CHECK_OK(open_text(&s, files, "time_s,cpu:a:W,gpu:b:J\n0,1,\n1,1,7\n"));
    add_up(&s, 1000, joules);
    CHECK(is_true(joules[0], 1) && joules[1] == 0);
    power_source_close(&s);
}

static void test_nonsense(const device_files *files) {
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "must name the columns"},
        {"seconds,cpu:a:W\n0,1\n1,1\n", ":1: its first line must name the columns"},
        {"time_s\n0\n1\n", "needs a column"},
        {"time_s,cpu:a:W\n0,1\n", "two rows"},
        {"time_s,cpu:a:W\n3,1\n3,2\n", "two rows"},
        {"time_s,fpu:a:W\n", "unknown part in \"fpu\""},
        {"time_s,cpu:a:kW\n", "unknown unit in \"kW\""},
        {"time_s,cpu\n", "missing or too long name"},
        {"time_s,cpu:a:W:wrap=5\n", "wrap=5"},
        {"time_s,cpu:a:J:wrap=-5\n", "wrap=-5"},
        {"time_s,cpu:a:J:wrap=nan\n", "wrap=nan"},
        {"time_s,cpu:a:W,cpu:a:W\n", "two columns have the name \"a\""},
        {"time_s,cpu:a:W:inside=b,system:b:W\n0,1,1\n1,1,1\n", "inside"},
        {"time_s,cpu:a:W\n0,1\n1,x\n", ":3: \"x\" is not a number"},
        {"time_s,cpu:a:W\n0,1\n1,-1\n", "\"-1\" is not a number"},
        {"time_s,cpu:a:W\n0,1\n1,nan\n", "\"nan\" is not a number"},
        {"time_s,cpu:a:W\n0,1\n1,1e99\n", "\"1e99\" is not a number"},
        {"time_s,cpu:a:W\n0,1\n1,1,1\n", ":3: more values"},
        {"time_s,cpu:a:W,gpu:b:W\n0,1,1\n\n1,1\n", ":4: 2 values"},
        {"time_s,cpu:a:W\n1,1\n0,1\n", "must not decrease"},
        {"time_s,cpu:a:W\n0,1\n1e300,1\n", "must not decrease"},
        {"time_s,cpu:a:J\n0,5\n1,4\n", "falls at 1 s"},
        {"time_s,cpu:a:J:wrap=10\n0,5\n1,11\n", "exceeds its wrap"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        power_source s;
        CHECK_FAILS(open_text(&s, files, cases[i].text), QN_ERROR_FORMAT, cases[i].says);
        CHECK(!s.source);
    }
}

static void test_files(void) {
    power_source s;
    CHECK_OK(power_source_open(&s, &qn_source_replay, "", (qn_source_options){0}));
    CHECK(!s.source);
    CHECK_FAILS(
        power_source_open(&s, &qn_source_replay, "", (qn_source_options){.replay = "/nowhere.csv"}),
        QN_ERROR_IO, "/nowhere.csv");
    CHECK_FAILS(power_source_open(&s, &qn_source_replay, "", (qn_source_options){.replay = "/"}),
                QN_ERROR_IO, "no regular file");
}

int main(void) {
    const device_files files = device_files_make();
    snprintf(path, sizeof path, "%s/power.csv", files.root);
    test_waveform(&files);
    test_edges(&files);
    test_empty_cells(&files);
    test_nonsense(&files);
    test_files();
    device_files_remove(&files, "");
    return checks_finish();
}
