/* Reports of a measurement: every allocation failing in turn, a disk that is full under each
 * format, sensors by the hundred, the stretch that charts show, and how numbers are printed. What
 * is in the files is looked at in tests/cli/test_report.py and test_trace.py. */
#include "data_files.h"
#include "made_recording.h"
#include "os/heap.h"

#include "os/os.h"
#include "quern/meter.h"
#include "report/profile.h"
#include "report/stretch.h"
#include "report/words.h"

#include <signal.h>
#include <sys/resource.h>

static void test_scaled(void) {
    static const struct {
        double value;
        const char *printed;
    } rows[] = {{0, "0 J"},         {1, "1.00 J"},      {-1.935, "-1.94 J"},
                {12.34, "12.3 J"},  {123.4, "123 J"},   {999.4, "999 J"},
                {999.5, "1.00 kJ"}, {0.9994, "999 mJ"}, {0.9996, "1.00 J"},
                {9.996, "10.0 J"},  {99.96, "100 J"},   {2.5e-6, "2.50 \u00b5J"},
                {1e-15, "0.00 pJ"}, {3.2e11, "320 GJ"}, {5e18, "5000 PJ"}};
    char text[QN_WORDS_NUMBER];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        qn_words_scaled(rows[i].value, "J", text);
        CHECK(strcmp(text, rows[i].printed) == 0);
        if (strcmp(text, rows[i].printed) != 0)
            printf("  %s, not %s\n", text, rows[i].printed);
    }
}

/* Ten readings of 10 ms; steps of 3 ms take seven steps for twenty... which are not there: all. */
static void test_stretch(void) {
    qn_reading readings[40];
    qn_step_row steps[10];
    for (int i = 0; i < 40; i++)
        readings[i] = (qn_reading){i * 10, i * 10 + 10, i};
    for (int i = 0; i < 10; i++)
        steps[i] = (qn_step_row){.begin_ns = 5 + i * 30, .end_ns = 35 + i * 30};
    const qn_series series = {.n = 40, .readings = readings};
    qn_measurement m = {.n_steps = 10,
                        .steps = steps,
                        .begin_ns = 5,
                        .end_ns = 305,
                        .n_series = 1,
                        .series = &series};
    qn_stretch s = qn_stretch_of(&m);
    /* 20 readings that begin after 0 end by 210: seven steps. */
    CHECK(s.n_steps == 7 && s.begin_ns == 5 && s.end_ns == 215);
    m.n_steps = 5;
    CHECK(qn_stretch_of(&m).n_steps == 5);
    m.n_series = 0;
    CHECK(qn_stretch_of(&m).n_steps == 3 && qn_stretch_of(&m).end_ns == 95);
    m.n_steps = 0;
    CHECK(qn_stretch_of(&m).n_steps == 0 && qn_stretch_of(&m).end_ns == 305);
    size_t n;
    CHECK(qn_stretch_readings(&series, 5, 35, &n) == readings && n == 4);
    CHECK(qn_stretch_readings(&series, 10, 30, &n) == readings + 1 && n == 2);
    qn_stretch_readings(&series, 400, 500, &n);
    CHECK(n == 0);
}

static void test_memory(const qn_measurement *m) {
    qn_status status = QN_ERROR_MEMORY;
    int n = 0;
    for (; status != QN_OK && n < 200; n++) {
        failing f = {.left = n};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        status = qn_report_html(&allocator, m, "title", at_root("@/memory.html"));
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        CHECK(f.held_bytes == 0);
        CHECK(qn_path_is_file(at_root("@/memory.html")) == (status == QN_OK));
    }
    CHECK(status == QN_OK && n > 10);
}

static qn_status write_as(const qn_measurement *m, int format, const char *path) {
    switch (format) {
    case 0:
        return qn_report_csv(m, path);
    case 1:
        return qn_report_trace(m, "title", path);
    case 2:
        return qn_report_json(m, "title", path);
    default:
        return qn_report_html(NULL, m, "title", path);
    }
}

static void test_full_disk(const qn_measurement *m) {
    struct rlimit limit, before;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    for (int format = 0; format < 4; format++) {
        write_text("@/kept", "old");
        for (rlim_t bytes = 0; bytes < 4096; bytes += 2000) {
            limit = (struct rlimit){bytes, before.rlim_max};
            CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
            CHECK_FAILS(write_as(m, format, at_root("@/kept")), QN_ERROR_IO, "kept");
            CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
        }
        char *text;
        size_t n;
        CHECK_OK(qn_file_read_whole(NULL, at_root("@/kept"), &text, &n));
        CHECK(n == 3 && memcmp(text, "old", 3) == 0);
        qn_release(qn_allocator_default(), text, n + 1, 1);
        CHECK_OK(write_as(m, format, at_root("@/kept")));
        CHECK_FAILS(write_as(m, format, at_root("@/none/x")), QN_ERROR_IO, "none");
    }
}

/* More cores than a chart has lines: the busiest are shown, and the chart says so. */
static void test_many_cores(void) {
    enum { N = 100 };
    static const qn_reading reading = {0, 100, 0.5};
    static qn_series series[N];
    const qn_step_row step = {.begin_ns = 0, .end_ns = 100};
    for (int i = 0; i < N; i++) {
        series[i] = (qn_series){.n = 1, .readings = &reading, .mean = i * 37 % N};
        series[i].channel = (qn_channel){.source = "cores", .part = QN_PART_CORE, .index = i};
        snprintf(series[i].channel.name, sizeof series[i].channel.name, "<cpu%d>", i);
    }
    const qn_measurement m = {.n_steps = 1,
                              .steps = &step,
                              .end_ns = 100,
                              .energy_j = NAN,
                              .n_series = N,
                              .series = series};
    char *text;
    size_t n;
    CHECK_OK(qn_report_html(NULL, &m, "cores", at_root("@/cores.html")));
    CHECK_OK(qn_file_read_whole(NULL, at_root("@/cores.html"), &text, &n));
    CHECK(strstr(text, "Utilisation by core, over the run (the 12 highest of 100)") != NULL);
    for (int i = 0; i < N; i++) {
        char name[64];
        snprintf(name, sizeof name, "\"name\":\"\\u003ccpu%d\\u003e\"", i);
        CHECK((strstr(text, name) != NULL) == (i * 37 % N >= N - 12));
    }
    qn_release(qn_allocator_default(), text, n + 1, 1);
}

static void test_meter_write(void) {
    qn_meter *meter;
    CHECK_OK(qn_meter_start(&(qn_meter_options){QN_OPTIONS_INIT(qn_meter_options), .skip_steps = 0},
                            &meter));
    qn_meter_stop(meter);
    CHECK_FAILS(qn_meter_write(meter, QN_METER_CSV, at_root("@/none.csv")), QN_ERROR_ARGUMENT,
                "step");
    qn_meter_destroy(meter);
    CHECK_OK(qn_meter_start(&(qn_meter_options){QN_OPTIONS_INIT(qn_meter_options), .skip_steps = 0},
                            &meter));
    qn_meter_mark(meter);
    qn_meter_stop(meter);
    CHECK_OK(qn_meter_write(meter, QN_METER_TRACE, at_root("@/some.json")));
    CHECK(qn_path_is_file(at_root("@/some.json")) && !qn_path_is_file(at_root("@/none.csv")));
    CHECK_FAILS(qn_meter_write(meter, (qn_meter_format)9, at_root("@/some.json")),
                QN_ERROR_ARGUMENT, "format 9");
    qn_meter_destroy(meter);
}

int main(void) {
    made a;
    files_begin();
    test_scaled();
    test_stretch();
    test_many_cores();
    test_meter_write();
    CHECK_OK(made_init(&a, qn_allocator_default(), true));
    test_memory(&a.measurement);
    test_full_disk(&a.measurement);
    made_deinit(&a);
    files_end();
    return checks_finish();
}
