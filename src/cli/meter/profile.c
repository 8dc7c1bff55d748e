/* quern profile: trains for some steps, or runs the network forward, with the meter on, and reports
 * the cost in time, bytes and energy. */
#include "report/profile.h"
#include "base/status.h"
#include "cli/json.h"
#include "cli/look/reading.h"
#include "cli/meter/measuring.h"
#include "cli/numbers/shifts.h"
#include "cli/terminal.h"
#include "cli/train/training.h"
#include "meter/load.h"
#include "meter/meter.h"
#include "os/process/interrupt.h"
#include "run/watch.h"

#include <math.h>
#include <stdio.h>

/* TRAINED: steps of training that are timed beside inference, after those that are left out. */
enum { STEPS = 20, TRAINED = 5 };

/* Nobody waits longer than this for a machine to become quiet. */
static const int64_t most_repeated_ns = INT64_C(60000000000);

static const option options[] = {
    {.name = "data",
     .kind = OPTION_DATA,
     .argument = "DATA",
     .is_kept = true,
     .fallback = "synthetic",
     .otherwise = "synthetic; on resume, the checkpoint's",
     .help = "what to train on"},
    {.name = "steps",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e9,
     .otherwise = "20",
     .help = "steps to measure; with --epochs, the shorter"},
    {.name = "epochs",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e9,
     .otherwise = "none",
     .help = "passes over the data, warm-up included"},
    {.name = "skip",
     .kind = OPTION_COUNT,
     .argument = "N",
     .most = 1e9,
     .fallback = "3",
     .help = "warm-up steps, not measured"},
    {.name = "repeat",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 100,
     .fallback = "3",
     .help =
         "measurements at most while other programs are busy, for a minute; the quietest counts"},
    {.name = "inference",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "measure inference on one batch"},
    {.name = "meter",
     .kind = OPTION_FLAG,
     .fallback = "yes",
     .help = "time whole steps only, to find the cost of measuring"},
    {.name = "json", .kind = OPTION_FLAG, .fallback = "no", .help = "print one JSON object a line"},
};

/* A run; meter is null where only the clock is read. */
typedef struct profile {
    training t;
    qn_meter_options options;
    qn_meter *meter;
    const qn_measurement *m; /* of the quietest measurement; null before */
    qn_measurement quietest; /* the kept meter's, with the interval of all */
    qn_meter *kept;
    char title[128];
    int64_t first, last;   /* steps (first, last] are run */
    int64_t skip, mark_ns; /* mark_ns: end of the last step */
    bool is_inference, is_json, was_stopped;
    bool is_enough;     /* no further measurement is needed */
    double training_ms; /* median of training steps beside inference; NaN otherwise */
} profile;

/* ---- opening ---- */

static qn_status check_usage(const arguments *a) {
    if (arguments_flag(a, "meter"))
        return QN_OK;
    for (int i = 0; i < report_options.n; i++) {
        if (arguments_has(a, report_options.rows[i].name))
            return qn_fail(QN_ERROR_ARGUMENT, "--%s has nothing to tell with --no-meter",
                           report_options.rows[i].name);
    }
    return QN_OK;
}

/* Steps are counted from the start of training, those that are measured from where this run begins.
 */
static qn_status set_length(profile *p) {
    const arguments *a = p->t.a;
    char text[24];
    const char *epochs = arguments_get(a, "epochs");
    if (epochs)
        QN_TRY(settings_set(&p->t.settings, "epochs", epochs));
    if (epochs && !arguments_has(a, "steps"))
        return QN_OK;
    const int64_t steps = arguments_has(a, "steps") ? arguments_count(a, "steps") : STEPS;
    snprintf(text, sizeof text, "%lld", (long long)(p->t.first_step + p->skip + steps));
    return settings_set(&p->t.settings, "steps", text);
}

static void describe(profile *p) {
    const qn_task_facts facts = qn_task_get_facts(p->t.s.task);
    const int64_t n_batches = p->is_inference ? settings_count(&p->t.settings, "accumulate") : 1;
    snprintf(p->title, sizeof p->title, "%s, batch %lld%s", p->t.s.model->name,
             (long long)facts.batch, p->is_inference ? ", inference" : "");
    p->options.title = p->title;
    p->options.engine = qn_task_engine(p->t.s.task);
    p->options.samples_per_step = (double)facts.step_samples / (double)n_batches;
    p->options.skip_steps = p->skip;
    p->options.log = p->is_json ? &session_log : NULL; /* else the summary says it */
}

static qn_status open_profile(profile *p) {
    QN_TRY(check_usage(p->t.a));
    QN_TRY(measuring_read(p->t.a, &p->options));
    QN_TRY(training_begin(&p->t));
    QN_TRY(set_length(p));
    QN_TRY(training_open(&p->t));
    p->first = p->t.first_step;
    p->last = p->t.total_steps;
    if (p->last - p->first <= p->skip)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "%lld steps remain, and the first %lld are left out; give more --epochs or "
                       "--frames, or a smaller --skip",
                       (long long)(p->last - p->first), (long long)p->skip);
    describe(p);
    return QN_OK;
}

/* ---- the run ---- */

/* From mark to mark, as the meter counts. */
static qn_status do_step(profile *p, int64_t step, bool is_inference) {
    qn_metrics metrics = {0};
    qn_task *task = p->t.s.task;
    QN_TRY(is_inference ? qn_task_infer(task) : qn_task_step(task, &metrics));
    if (p->meter)
        qn_meter_mark(p->meter);
    const int64_t now_ns = qn_clock_ns();
    progress_step(&p->t.progress, step, &metrics, now_ns - p->mark_ns);
    p->mark_ns = now_ns;
    return QN_OK;
}

static void begin_progress(profile *p, int64_t first, int64_t last) {
    training_prepare_progress(&p->t);
    p->t.progress.is_quiet = p->is_json;
    p->t.progress.first_step = first;
    p->t.progress.total_steps = last;
    p->t.progress.epoch_steps = 0;
    p->t.progress.times.n_skipped = p->skip;
    progress_begin(&p->t.progress);
    p->mark_ns = qn_clock_ns();
}

static qn_status run_steps(profile *p, int64_t first, int64_t last, bool is_inference) {
    begin_progress(p, first, last);
    for (int64_t step = first + 1; step <= last && !p->was_stopped; step++) {
        const qn_status status = do_step(p, step, is_inference);
        p->was_stopped = qn_was_interrupted() && step < last;
        if (status == QN_ERROR_INTERRUPTED) /* within the step, which does not count */
            p->was_stopped = true;
        else
            QN_TRY(status);
    }
    progress_clear(&p->t.progress);
    return QN_OK;
}

/* Inference is of the last step's batch, so that there must be one. */
static qn_status train_before(profile *p) {
    const int64_t n =
        p->last - p->first - p->skip < TRAINED ? p->last - p->first - p->skip : TRAINED;
    QN_TRY(run_steps(p, p->first, p->first + p->skip + n, false));
    p->training_ms = progress_median_ms(&p->t.progress);
    return QN_OK;
}

/* Keeps the measurement of the meter, or the one before where that was quieter: a meter of each. */
static void keep_quieter(profile *p, const qn_measurement *m) {
    qn_measurement all = *m;
    if (p->m) {
        all = m->others < p->m->others ? *m : p->quietest;
        all.step_ms_low = fmin(m->step_ms_low, p->m->step_ms_low);
        all.step_ms_high = fmax(m->step_ms_high, p->m->step_ms_high);
        all.n_measurements = p->m->n_measurements + 1;
    }
    if (!p->m || m->others < p->m->others) {
        qn_meter_destroy(p->kept);
        p->kept = p->meter;
    } else {
        qn_meter_destroy(p->meter);
    }
    p->meter = NULL;
    all.cpu_watts = settings_number(&p->t.settings, "cpu-watts");
    all.device_watts = settings_number(&p->t.settings, "device-watts");
    p->quietest = all;
    p->m = &p->quietest;
}

/* Measures the steps that are asked for. A measurement that Ctrl-C ends counts only if there is no
 * other. */
static qn_status measure_once(profile *p) {
    const qn_measurement *m;
    QN_TRY(qn_meter_start(&p->options, &p->meter));
    QN_TRY(run_steps(p, p->first, p->last, p->is_inference));
    qn_meter_stop(p->meter);
    if (p->was_stopped && p->m) {
        p->was_stopped = false;
        p->is_enough = true;
        return QN_OK;
    }
    QN_TRY(qn_meter_measure(p->meter, &m));
    p->is_enough = p->was_stopped || !(m->others >= QN_LOAD_NOTED);
    keep_quieter(p, m);
    return QN_OK;
}

static void tell_repeat(const profile *p, double others, int64_t n_done) {
    if (p->is_json) {
        json_begin();
        json_text("event", "busy");
        json_number("others", others);
        json_count("measurements", n_done);
        json_end();
        return;
    }
    printf("other programs used %.0f %% of the processors; measuring again\n", 100 * others);
    fflush(stdout);
}

static qn_status measure(profile *p) {
    const int64_t most = arguments_count(p->t.a, "repeat");
    qn_interrupt_watch(EXIT_FAILED);
    qn_engine_stop_on(qn_task_engine(p->t.s.task), qn_interrupt_flag(), true);
    if (p->is_inference)
        QN_TRY(train_before(p));
    if (!arguments_flag(p->t.a, "meter"))
        return run_steps(p, p->first, p->last, p->is_inference);
    const int64_t begin_ns = qn_clock_ns();
    for (int64_t n = 0; n < most && !p->is_enough; n++) {
        if (n > 0 && qn_clock_ns() - begin_ns > most_repeated_ns)
            break;
        if (n > 0)
            tell_repeat(p, p->m->others, n);
        QN_TRY(measure_once(p));
    }
    return QN_OK;
}

/* ---- results ---- */

static void print_steps_json(const qn_measurement *m) {
    for (int i = 0; i < m->n_steps; i++) {
        const qn_step_row *step = &m->steps[i];
        json_begin();
        json_text("event", "step");
        json_count("step", m->skipped_steps + i + 1);
        json_number("ms", (double)(step->end_ns - step->begin_ns) * 1e-6);
        json_number("operations_ms", step->operations_ms);
        json_number("idle_ms", step->idle_ms);
        json_number("energy_mj", step->energy_mj);
        json_end();
    }
}

static void add_measured_json(const qn_measurement *m) {
    json_count("steps", m->n_steps);
    json_count("skipped_steps", m->skipped_steps);
    json_number("median_step_ms", m->step_ms_median);
    json_number("step_ms_mean", m->step_ms_mean);
    json_number("step_ms_deviation", m->step_ms_deviation);
    json_number("step_ms_low", m->step_ms_low);
    json_number("step_ms_high", m->step_ms_high);
    json_number("others", m->others);
    json_count("measurements", m->n_measurements);
    json_number("operations_ms_per_step", m->operations_ms_per_step);
    json_number("idle_ms_per_step", m->idle_ms_per_step);
    json_number("energy_mj_per_step", m->energy_mj_per_step);
    json_number("energy_mj_per_sample", m->energy_mj_per_sample);
    json_flag("energy_is_estimated", m->energy_is_estimated);
    json_number("idle_energy_mj_per_step", 1e3 * m->idle_energy_j / m->n_steps);
    json_number("samples_per_second", m->throughput);
    json_number("gflops", m->gflops);
    json_number("cpu_utilisation", m->cpu_utilisation);
    json_number("gpu_utilisation", m->gpu_utilisation);
    json_number("resident_peak_bytes", m->resident_peak_bytes);
    json_count("meter_bytes", (int64_t)m->meter_bytes);
    json_count("samplings", m->n_ticks);
    json_count("missed_samplings", m->n_missed_ticks);
    json_count("lost_events", m->n_lost_events);
}

static void add_clocked_json(profile *p) {
    const progress *r = &p->t.progress;
    json_count("steps", r->n_steps > p->skip ? r->n_steps - p->skip : 0);
    json_count("skipped_steps", p->skip);
    json_number("median_step_ms", progress_median_ms(&p->t.progress));
    json_number("step_ms_mean", progress_mean_ms(r));
    json_number("samples_per_second", progress_samples_per_second(r));
}

static void print_done_json(profile *p) {
    const qn_task_facts facts = qn_task_get_facts(p->t.s.task);
    const qn_engine *engine = qn_task_engine(p->t.s.task);
    json_begin();
    json_text("event", "done");
    json_text("model", p->t.s.model->name);
    json_count("batch", facts.batch);
    json_text("mode", p->is_inference ? "inference" : "training");
    if (p->m)
        add_measured_json(p->m);
    else
        add_clocked_json(p);
    if (p->is_inference)
        json_number("training_step_ms", p->training_ms);
    json_text("unit", facts.unit);
    json_count("threads", qn_engine_get_options(engine)->n_threads);
    json_count("parameters", training_count_parameters(&p->t));
    json_count("peak_bytes", (int64_t)p->t.s.counter.peak_bytes);
    json_count("parameter_bytes", (int64_t)qn_engine_get_memory(engine).parameter_bytes);
    shifts_add_json(engine);
    json_end();
}

static void put_line(void *user, const char *line) {
    (void)user;
    puts(line);
}

static void print_for_people(profile *p) {
    if (p->m)
        qn_report_summary(p->m, p->title, terminal_table_columns(80), NULL, put_line);
    else
        printf("%s: %.3f ms a step, median; %.3f ms, mean\n", p->title,
               progress_median_ms(&p->t.progress), progress_mean_ms(&p->t.progress));
    if (p->is_inference)
        printf("a training step takes %.3f ms, median\n", p->training_ms);
    shifts_print(qn_task_engine(p->t.s.task));
}

static int finish(profile *p) {
    bool is_written = true;
    if (!p->is_json)
        print_for_people(p);
    if (p->m)
        is_written = measuring_write(p->t.a, p->m, p->title, p->is_json ? NULL : stdout);
    if (p->is_json && p->m)
        print_steps_json(p->m);
    if (p->is_json)
        print_done_json(p);
    return is_written && !p->was_stopped ? EXIT_DONE : EXIT_FAILED;
}

/* What was measured until then is told as if it had been all. */
static int run_profile(profile *p) {
    const qn_status status = measure(p);
    progress_clear(&p->t.progress);
    if (p->was_stopped)
        terminal_note("stopped after %lld of %lld steps", (long long)p->t.progress.n_steps,
                      (long long)(p->last - p->first));
    return status == QN_OK ? finish(p) : report_failed_run();
}

static int run(const arguments *a) {
    static profile p; /* half a megabyte of step times */
    training_init(&p.t, a);
    p.is_inference = arguments_flag(a, "inference");
    p.is_json = arguments_flag(a, "json");
    p.skip = arguments_count(a, "skip");
    p.training_ms = NAN;
    qn_status status = open_profile(&p);
    int result = EXIT_DONE;
    if (status != QN_OK) {
        result = report_failure(status);
    } else {
        if (!p.is_json)
            training_print_opening(&p.t);
        training_print_plan(&p.t);
        training_print_tuning(&p.t);
        training_print_cores(&p.t, false);
        result = run_profile(&p);
    }
    qn_meter_destroy(p.meter);
    qn_meter_destroy(p.kept);
    training_deinit(&p.t);
    return result;
}

const command command_profile = {
    .name = "profile",
    .words = "MODEL",
    .least_words = 1,
    .most_words = 1,
    .summary = "Profile training: time, memory and energy of each operation",
    .description =
        "Trains as quern train would and measures --steps steps: time of every operation,\n"
        "utilisation of each core, memory, power and energy. It names the sensors that the device\n"
        "lacks, and marks estimates. If other programs use 5 % of the processors or more, it\n"
        "measures again (--repeat) and reports the quietest measurement. The trained weights are\n"
        "discarded. Ctrl-C stops measuring and reports what was measured so far.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .shared = {&report_options, &measuring_options, &training_options, &reading_options,
               &by_plan_options, &onnx_options},
    .run = run,
    .makes_files = true,
};
