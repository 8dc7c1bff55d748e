/* See measuring.h. */
#include "cli/meter/measuring.h"

#include "base/status.h"
#include "cli/commands.h"
#include "os/heap.h"
#include "os/os.h"
#include "report/profile.h"

#include <stdio.h>

static const option measuring_rows[] = {
    {.name = "interval",
     .kind = OPTION_COUNT,
     .argument = "MS",
     .least = 1,
     .most = 1000,
     .fallback = "10",
     .help = "milliseconds between samples"},
    {.name = "sysroot",
     .kind = OPTION_TEXT,
     .argument = "DIR",
     .otherwise = "this device",
     .help = "recorded tree of /sys and /proc to sample from"},
    {.name = "power",
     .kind = OPTION_INPUT,
     .argument = "FILE",
     .otherwise = "this device's sensors",
     .help = "recorded power to replay from the start of measuring on"},
    {.name = "description",
     .kind = OPTION_INPUT,
     .argument = "FILE",
     .otherwise = "none",
     .help = "power coefficients of the device, for estimates without a sensor"},
};

const option_list measuring_options = {measuring_rows,
                                       sizeof measuring_rows / sizeof measuring_rows[0]};

static const option report_rows[] = {
    {.name = "html",
     .kind = OPTION_OUTPUT,
     .makes = QN_OWN_PAGE,
     .argument = "FILE",
     .otherwise = "none",
     .help = "HTML report; one file, opens offline"},
    {.name = "trace",
     .kind = OPTION_OUTPUT,
     .makes = QN_OWN_TRACE,
     .argument = "FILE",
     .otherwise = "none",
     .help = "timeline of operations and samples, for Perfetto or Chrome"},
    {.name = "csv",
     .kind = OPTION_OUTPUT,
     .makes = QN_OWN_TIMES,
     .argument = "FILE",
     .otherwise = "none",
     .help = "table of operations, one row per node"},
    {.name = "metrics",
     .kind = OPTION_OUTPUT,
     .makes = QN_OWN_METRICS,
     .argument = "FILE",
     .otherwise = "none",
     .help = "all numbers of the run as JSON"},
};

const option_list report_options = {report_rows, sizeof report_rows / sizeof report_rows[0]};

qn_status measuring_read(const arguments *a, qn_meter_options *options) {
    const char *sysroot = arguments_get(a, "sysroot");
    if (sysroot && !qn_path_is_folder(sysroot))
        return qn_fail(QN_ERROR_ARGUMENT, "--sysroot %s: there is no such folder", sysroot);
    options->size = sizeof *options;
    options->interval_ns = arguments_count(a, "interval") * 1000000;
    options->sysroot = sysroot;
    options->replay = arguments_get(a, "power");
    options->description = arguments_get(a, "description");
    return QN_OK;
}

typedef qn_status (*writer)(const qn_measurement *m, const char *title, const char *path);

static qn_status write_html(const qn_measurement *m, const char *title, const char *path) {
    return qn_report_html(qn_allocator_default(), m, title, path);
}

static qn_status write_csv(const qn_measurement *m, const char *title, const char *path) {
    (void)title;
    return qn_report_csv(m, path);
}

static const struct {
    const char *option;
    writer write;
} writers[] = {{"html", write_html},
               {"trace", qn_report_trace},
               {"csv", write_csv},
               {"metrics", qn_report_json}};

bool measuring_write(const arguments *a, const qn_measurement *m, const char *title, FILE *lines) {
    bool is_written = true;
    for (size_t i = 0; i < sizeof writers / sizeof writers[0]; i++) {
        const char *path = arguments_get(a, writers[i].option);
        if (!path)
            continue;
        const qn_status status = writers[i].write(m, title, path);
        if (status != QN_OK)
            report_failed_run();
        else if (lines)
            fprintf(lines, "saved to %s\n", path);
        is_written &= status == QN_OK;
    }
    return is_written;
}
