/* quern meter: runs another program and reports its time, processors, memory and energy, by
 * operation if the program recorded a trace. Standard output belongs to the program. */
#include "base/status.h"
#include "cli/json.h"
#include "cli/meter/measuring.h"
#include "cli/session.h"
#include "cli/terminal.h"
#include "meter/results/foreign_run.h"
#include "os/process/foreground.h"
#include "report/profile.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const option options[] = {
    {.name = "ops",
     .kind = OPTION_INPUT,
     .argument = "FILE",
     .otherwise = "none",
     .help = "trace that the command writes (Chrome trace events; may be gzipped)"},
    {.name = "clock",
     .kind = OPTION_CHOICE,
     .argument = "realtime|monotonic|boottime",
     .otherwise = "found from the trace",
     .help = "clock of the trace's times"},
    {.name = "skip",
     .kind = OPTION_COUNT,
     .argument = "N",
     .most = 1e9,
     .fallback = "0",
     .help = "steps (ProfilerStep#N) to skip at the start of the trace"},
    {.name = "json",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "print one JSON object instead of the summary, also on standard error"},
};

/* Between two comparisons of clocks; and how late a file system's time may be. */
enum { COMPARE_NS = 1000000000, FILE_TIME_NS = 100000000 };

typedef struct metering {
    const arguments *a;
    qn_meter_options from; /* where samples come from */
    qn_foreground program;
    qn_sampler *sampler;
    qn_clock_log clocks;
    int64_t compared_ns;
    qn_foreign_run *outside;
    char title[160];
} metering;

/* ---- running ---- */

/* On the sampler's thread; clocks is its own until the sampler stops. */
static void on_tick(void *user) {
    metering *m = user;
    const int64_t now_ns = qn_clock_ns();
    if (now_ns - m->compared_ns < COMPARE_NS)
        return;
    m->compared_ns = now_ns;
    qn_clock_log_add(&m->clocks);
}

static qn_status start_sampler(metering *m) {
    const qn_sampler_options sampler = {.log = m->from.log,
                                        .interval_ns = m->from.interval_ns,
                                        .root = m->from.sysroot,
                                        .pid = m->program.id,
                                        .replay = m->from.replay,
                                        .description = m->from.description,
                                        .user = m,
                                        .on_tick = on_tick};
    QN_TRY(qn_sampler_create(&sampler, &m->sampler));
    m->compared_ns = qn_clock_ns();
    qn_clock_log_init(&m->clocks);
    qn_clock_log_add(&m->clocks);
    return qn_sampler_start(m->sampler);
}

/* Sampling begins before the program does, and ends before its process is gone. */
static qn_status run_program(metering *m) {
    const char *const *words = m->a->words;
    QN_TRY(qn_foreground_hold(&m->program, words));
    const qn_status status = start_sampler(m);
    if (status != QN_OK) {
        qn_foreground_cancel(&m->program);
        m->program.exit_status = status == QN_ERROR_ARGUMENT ? EXIT_USAGE : EXIT_FAILED;
        return status;
    }
    QN_TRY(qn_foreground_release(&m->program, words));
    qn_foreground_wait(&m->program);
    qn_sampler_stop(m->sampler);
    qn_clock_log_end(&m->clocks);
    qn_foreground_finish(&m->program);
    return QN_OK;
}

/* ---- what was measured ---- */

/* A trace of an earlier run would fit no clock, or worse, some. */
static qn_status check_fresh(const metering *m, const char *path) {
    const int64_t begin_ns =
        m->program.begin_ns + m->clocks.offsets[0][QN_CLOCK_REALTIME].offset_ns;
    const int64_t modified_ns = qn_file_modified_ns(path);
    if (!qn_path_is_file(path))
        return qn_fail(QN_ERROR_IO, "%s: the command has not written it", path);
    if (modified_ns > 0 && modified_ns < begin_ns - FILE_TIME_NS)
        return qn_fail(QN_ERROR_IO, "%s: the command has not written it; it is %.0f s older", path,
                       (double)(begin_ns - modified_ns) * 1e-9);
    return QN_OK;
}

static qn_status measure(metering *m, const char *ops) {
    const qn_foreign_run_options outside = {.sampler = m->sampler,
                                            .clocks = &m->clocks,
                                            .begin_ns = m->program.begin_ns,
                                            .end_ns = m->program.end_ns,
                                            .skip_steps = arguments_count(m->a, "skip"),
                                            .operations = ops,
                                            .clock = arguments_get(m->a, "clock")};
    if (ops)
        QN_TRY(check_fresh(m, ops));
    return qn_foreign_run_create(&outside, &m->outside);
}

/* "python3 train.py" */
static void make_title(metering *m) {
    size_t used = 0;
    for (int i = 0; i < m->a->n_words && used < sizeof m->title - 1; i++)
        used += (size_t)snprintf(m->title + used, sizeof m->title - used, "%s%s", i ? " " : "",
                                 m->a->words[i]);
}

/* ---- telling ---- */

static void put_line(void *user, const char *line) {
    fprintf(user, "%s\n", line);
}

/* Energy as far as it is known. */
static void print_energy(const qn_measurement *run) {
    if (isfinite(run->energy_j))
        fprintf(stderr, ", %.3f J%s", run->energy_j,
                run->energy_is_estimated ? " (estimated)" : "");
    fputc('\n', stderr);
}

static void print_run(const metering *m) {
    const qn_foreground *p = &m->program;
    fprintf(stderr, "whole run     %.3f s, %.3f s of processor time, %.1f MiB at most",
            (double)(p->end_ns - p->begin_ns) * 1e-9, (double)p->cpu_ns * 1e-9,
            (double)p->peak_bytes / (1 << 20));
    print_energy(qn_foreign_run_whole(m->outside));
}

static void print_trace(const qn_foreign_run_trace *trace) {
    fprintf(stderr,
            "trace         %lld operations on %lld %s, %.3f ms of their own\n"
            "clock         %s, to %.3f ms\n",
            (long long)trace->n_slices, (long long)trace->n_tracks,
            trace->n_tracks == 1 ? "thread" : "threads", trace->self_ms, trace->clock,
            trace->clock_error_ms);
}

static void print_summary(const metering *m) {
    const qn_foreign_run_trace *trace = qn_foreign_run_get_trace(m->outside);
    fflush(stdout);
    qn_report_summary(qn_foreign_run_steps(m->outside), m->title, terminal_columns(), stderr,
                      put_line);
    print_run(m);
    if (trace)
        print_trace(trace);
}

static void print_json(const metering *m) {
    const qn_measurement *run = qn_foreign_run_whole(m->outside),
                         *steps = qn_foreign_run_steps(m->outside);
    const qn_foreign_run_trace *trace = qn_foreign_run_get_trace(m->outside);
    const qn_foreground *p = &m->program;
    json_to(stderr);
    json_begin();
    json_text("event", "done");
    json_count("exit_status", p->exit_status);
    json_count("begin_ns", p->begin_ns);
    json_number("seconds", (double)(p->end_ns - p->begin_ns) * 1e-9);
    json_number("processor_seconds", (double)p->cpu_ns * 1e-9);
    json_number("cpu_utilisation", run->cpu_utilisation);
    json_number("gpu_utilisation", run->gpu_utilisation);
    json_count("peak_rss_bytes", p->peak_bytes);
    json_number("resident_peak_bytes", run->resident_peak_bytes);
    json_number("energy_j", run->energy_j);
    json_text("energy_is", run->energy_is_estimated ? "estimated" : "measured");
    json_count("steps", trace ? trace->n_steps : 0);
    if (trace) {
        json_number("median_step_ms", steps->step_ms_median);
        json_number("step_ms_mean", steps->step_ms_mean);
        json_number("operations_ms_per_step", steps->operations_ms_per_step);
        json_number("idle_ms_per_step", steps->idle_ms_per_step);
        json_number("energy_mj_per_step", steps->energy_mj_per_step);
        json_count("operations", trace->n_slices);
        json_number("self_ms", trace->self_ms);
        json_number("covered_ms", trace->covered_ms);
        json_text("clock", trace->clock);
        json_number("clock_error_ms", trace->clock_error_ms);
    }
    json_end();
}

/* False: not everything that was asked for could be written; it has been said. */
static bool tell(const metering *m) {
    const bool is_json = arguments_flag(m->a, "json");
    if (is_json)
        print_json(m);
    else
        print_summary(m);
    return measuring_write(m->a, qn_foreign_run_steps(m->outside), m->title,
                           is_json ? NULL : stderr);
}

/* What was asked for and could not be had is said, and the rest is told all the same. A failure of
 * the program's own goes before one of ours. */
static int report(metering *m) {
    const char *ops = arguments_get(m->a, "ops");
    bool is_whole = true;
    if (ops && measure(m, ops) != QN_OK) {
        report_failed_run();
        is_whole = false;
    }
    if (!m->outside && measure(m, NULL) != QN_OK) {
        report_failed_run();
        is_whole = false;
    }
    if (m->outside && !tell(m))
        is_whole = false;
    return m->program.exit_status == EXIT_DONE && !is_whole ? EXIT_FAILED : m->program.exit_status;
}

static qn_status check_usage(const arguments *a) {
    if (!arguments_has(a, "ops") && arguments_has(a, "clock"))
        return qn_fail(QN_ERROR_ARGUMENT, "--clock needs --ops");
    if (!arguments_has(a, "ops") && arguments_has(a, "skip"))
        return qn_fail(QN_ERROR_ARGUMENT, "--skip needs --ops");
    return QN_OK;
}

static int run(const arguments *a) {
    static metering m;
    m = (metering){.a = a};
    qn_status status = check_usage(a);
    if (status == QN_OK)
        status = measuring_read(a, &m.from);
    if (status != QN_OK)
        return report_failure(status);
    make_title(&m);
    int result;
    if (run_program(&m) != QN_OK) {
        report_failed_run();
        result = m.program.exit_status;
    } else {
        result = report(&m);
    }
    qn_foreign_run_destroy(m.outside);
    qn_sampler_destroy(m.sampler);
    return result;
}

const command command_meter = {
    .name = "meter",
    .words = "COMMAND [ARGUMENT...]",
    .least_words = 1,
    .most_words = -1,
    .summary = "Measure another program: time, processors, memory and energy",
    .description =
        "quern meter OPTIONS -- COMMAND ARGUMENTS: everything after -- is the command. Its output\n"
        "is not changed, signals are passed on to it, and its exit status becomes quern's: 128\n"
        "plus the signal that ended it, 127 if it was not found. The summary goes to standard\n"
        "error, reports to the files given. See docs/measuring-others.md.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .shared = {&measuring_options, &report_options},
    .run = run,
};
