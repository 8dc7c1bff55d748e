/* Writes reports of made-up content into the folder that is the argument: document.html, with every
 * part that a document can have, and those of a made-up measurement: measured.* with power that was
 * measured, estimated.* with power of a model, bare.* with nothing but marks; and real.*, of a
 * small network that is trained here under a meter, N_REAL steps after 3. */
#define _GNU_SOURCE

#include "check.h"
#include "made_recording.h"
#include "os/heap.h"
#include "quern/quern.h"
#include "report/document.h"
#include "report/profile.h"
#include "small_models.h"

#include <stdlib.h>
#include <time.h>

enum { N_LONG = 100000, SPIKE = 61234, N_REAL = 60, BATCH = 6 };

/* Text that must come through unharmed, and do no harm. */
static const char nasty[] =
    "</script><b>\"it's\" & \\ <!-- \xe2\x80\xa8 \xf0\x9f\x8c\xb3 h\xc3\xbcllo";

static void add_tables(qn_document *d) {
    const char *const columns[] = {"operation", "calls", "time (ms)", "remark"};
    const char *const names[] = {"conv2d", "batch_norm", "relu", nasty, "linear"};
    const double times[] = {812.51, 40.25, NAN, 9.125, 110.75};
    qn_document_heading(d, "Tables");
    qn_document_begin_table(d, "Operations by type", 4, columns);
    for (int i = 0; i < 5; i++) {
        qn_document_cell_text(d, names[i]);
        qn_document_cell_number(d, 20 * (i + 1), 0);
        qn_document_cell_number(d, times[i], 2);
        qn_document_cell_text(d, i == 2
                                     ? "a remark that is too long for a line of a table and goes "
                                       "over several of them"
                                     : "");
    }
    qn_document_end_table(d);
    qn_document_begin_table(d, "A long table, wider than a phone", 14,
                            (const char *const[]){"a column", "b column", "c column", "d column",
                                                  "e column", "f column", "g column", "h column",
                                                  "i column", "j column", "k column", "l column",
                                                  "m column", "n column"});
    for (int i = 0; i < 14 * 60; i++)
        qn_document_cell_number(d, i * 37 % 1009 / 8.0, 3);
    qn_document_end_table(d);
}

static void add_bars(qn_document *d) {
    static const char *const batches[] = {"4", "8", "16", "32", "64"};
    static const char *const types[] = {"conv2d_weight_gradient", "conv2d", "batch_norm", nasty};
    const double first[] = {9.1, 16.4, 28.8, 41.5, 55.2}, second[] = {30, 44, NAN, 61, 66};
    const double times[] = {410.2, 380.1, 64.9, 3.3};
    qn_document_begin_chart(d, &(qn_chart){QN_CHART_BAR, "Throughput by batch size", "batch size",
                                           "throughput (samples/s)", false, false, 5, batches});
    qn_document_series(d, "resnet50", 5, NULL, first);
    qn_document_series(d, "squeezenet", 5, NULL, second);
    qn_document_end_chart(d);
    qn_document_begin_chart(d, &(qn_chart){QN_CHART_STACKED, "Memory by kind", "batch size",
                                           "memory (MiB)", false, false, 5, batches});
    qn_document_series(d, "parameters", 5, NULL, (double[]){90, 90, 90, 90, 90});
    qn_document_series(d, "feature maps", 5, NULL, (double[]){120, 230, 450, 910, 1800});
    qn_document_end_chart(d);
    qn_document_begin_chart(d, &(qn_chart){QN_CHART_BARS_ACROSS, "Time by type of operation", "",
                                           "time (ms)", false, false, 4, types});
    qn_document_series(d, "time", 4, NULL, times);
    qn_document_end_chart(d);
}

static void add_points(qn_document *d) {
    static const char *const names[] = {"conv1", "conv2", "relu", nasty};
    const double x[] = {10, 55, 0.25, 2}, y[] = {30, 75, 0.9, 8};
    qn_document_begin_chart(d, &(qn_chart){QN_CHART_POINTS, "Roofline", "FLOPs per byte", "GFLOP/s",
                                           true, true, 4, names});
    qn_document_series(d, "forward", 2, x, y);
    qn_document_series(d, "backward", 2, x + 2, y + 2);
    qn_document_guide(d, "roof", 3, (double[]){0.1, 10, 100}, (double[]){1, 100, 100});
    qn_document_end_chart(d);
}

/* A line so long that it must be thinned, with one point that must be seen, and steps with a gap.
 */
static void add_lines(qn_document *d) {
    double *x = malloc(N_LONG * sizeof *x), *y = malloc(N_LONG * sizeof *y);
    if (!x || !y)
        exit(2);
    for (int i = 0; i < N_LONG; i++) {
        x[i] = i * 0.5;
        y[i] = i == SPIKE ? 50 : 10 + sin(i * 0.001) + i % 7 * 0.1;
    }
    qn_document_begin_chart(d, &(qn_chart){QN_CHART_LINE, "A hundred thousand points", "time (ms)",
                                           "power (W)", false, false, 0, NULL});
    qn_document_series(d, "package", N_LONG, x, y);
    qn_document_end_chart(d);
    qn_document_begin_chart(d, &(qn_chart){QN_CHART_STEP, "Steps with a gap", "time (ms)",
                                           "utilisation (%)", false, false, 0, NULL});
    for (int core = 0; core < 10; core++) {
        char name[16];
        for (int i = 0; i < 40; i++)
            y[i] = i == 20 ? NAN : (i * (core + 3) % 11) * 10;
        snprintf(name, sizeof name, "cpu%d", core);
        qn_document_series(d, name, 40, x, y);
    }
    qn_document_reference(d, "another machine", 2, (double[]){0, 19.5}, (double[]){40, 60});
    qn_document_end_chart(d);
    free(x);
    free(y);
}

static qn_status write_document(const char *folder) {
    char path[4096];
    qn_document *d;
    qn_status status = qn_document_create(NULL, nasty, &d);
    if (status != QN_OK)
        return status;
    qn_document_figure(d, "step time", "184.2 ms", "median of 20 steps");
    qn_document_figure(d, "energy per step", "1.93 J", "estimated, no sensor");
    qn_document_figure(d, "throughput", "86.9 samples/s", "");
    qn_document_figure(d, "memory", "870 MiB", NULL);
    qn_document_figure(d, nasty, nasty, nasty);
    qn_document_warning(d, nasty);
    qn_document_text(d, nasty);
    qn_document_find(
        d, &(qn_document_finding){QN_JUDGED_UNSURE, "uncertain", nasty, nasty, nasty, "elsewhere"});
    qn_document_find(
        d, &(qn_document_finding){QN_JUDGED_GOOD, "confirmed", "1. A claim.", "here", NULL, NULL});
    add_tables(d);
    qn_document_heading(d, "Charts");
    add_bars(d);
    add_points(d);
    add_lines(d);
    snprintf(path, sizeof path, "%s/document.html", folder);
    status = qn_document_write(d, path);
    qn_document_destroy(d);
    return status;
}

static const char *path_of(const char *folder, const char *name, const char *format) {
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s.%s", folder, name, format);
    return path;
}

static void write_measurement(const char *folder, const char *name, const qn_measurement *m) {
    const char *title = "resnet <18>, batch 16";
    CHECK_OK(qn_report_csv(m, path_of(folder, name, "csv")));
    CHECK_OK(qn_report_trace(m, title, path_of(folder, name, "trace.json")));
    CHECK_OK(qn_report_json(m, title, path_of(folder, name, "json")));
    CHECK_OK(qn_report_html(NULL, m, title, path_of(folder, name, "html")));
}

static void write_measurements(const char *folder) {
    made a;
    CHECK_OK(made_init(&a, qn_allocator_default(), false));
    write_measurement(folder, "measured", &a.measurement);
    made_deinit(&a);
    CHECK_OK(made_init(&a, qn_allocator_default(), true));
    write_measurement(folder, "estimated", &a.measurement);
    qn_measurement_deinit(&a.measurement);
    a.recording.n_events = 0;
    a.recording.n_operations = a.recording.n_series = a.recording.n_said = 0;
    a.recording.memory = (qn_memory_use){.peak_bytes = 0};
    CHECK_OK(qn_measurement_init(&a.recording, &a.measurement));
    write_measurement(folder, "bare", &a.measurement);
    made_deinit(&a);
}

static void train_and_write(const char *folder) {
    static _Alignas(64) float x[BATCH * 8 * 8 * 3];
    static _Alignas(64) int32_t y[BATCH];
    static const char *const formats[] = {"csv", "trace.json", "html", "json"};
    qn_trainer_options o = qn_trainer_options_for(&small_conv);
    qn_trainer *trainer;
    qn_meter *meter;
    o.engine.n_threads = 2;
    CHECK_OK(qn_trainer_create(&o, &trainer));
    CHECK_OK(qn_meter_start(&(qn_meter_options){QN_OPTIONS_INIT(qn_meter_options),
                                                .engine = qn_trainer_engine(trainer),
                                                .samples_per_step = BATCH, .skip_steps = -1,
                                                .interval_ns = 1000000, .title = "small network"},
                            &meter));
    for (int i = 0; i < N_REAL + 3; i++) {
        qn_step_result result;
        CHECK_OK(qn_trainer_step(trainer, x, y, &result));
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); /* cores are read every 10 ms */
        qn_meter_mark(meter);
    }
    qn_meter_stop(meter);
    for (int i = QN_METER_CSV; i <= QN_METER_JSON; i++)
        CHECK_OK(qn_meter_write(meter, (qn_meter_format)i, path_of(folder, "real", formats[i])));
    qn_meter_destroy(meter);
    qn_trainer_destroy(trainer);
}

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    CHECK_OK(write_document(argv[1]));
    write_measurements(argv[1]);
    train_and_write(argv[1]);
    return checks_finish();
}
