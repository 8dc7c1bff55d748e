/* See training.h. */
#include "cli/train/training.h"

#include "base/decimal.h"
#include "base/print.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/json.h"
#include "cli/model.h"
#include "cli/numbers/shifts.h"
#include "cli/terminal.h"
#include "cli/train/core_choice.h"
#include "cli/train/core_facts.h"
#include "cli/train/no_effect.h"
#include "cli/train/ranks.h"
#include "cli/train/start.h"
#include "meter/core_power.h"
#include "os/affinity.h"
#include "os/heap.h"
#include "os/os.h"
#include "run/inspect.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening ---- */

/* Of what was given: a recipe's momentum is no error with adam. */
static qn_status check_settings(const arguments *a, const settings *s, const qn_model *model) {
    const int64_t n_head = settings_count(s, "head"), n_classes = arguments_count(a, "classes");
    if (n_head > 0 && strcmp(qn_task_of(model), "classification") != 0)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "%s is not a classifier, so its number of outputs is fixed; --head data "
                       "replaces its last layer by a new one of the same size",
                       model->name);
    if (n_head > 0 && n_classes > 0 && n_head != n_classes)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "--head and --classes have different numbers; leave one out");
    const char *lora = settings_get(s, "lora");
    if (lora && !strstr(lora, "layers=") && strcmp(qn_task_of(model), "tokens") != 0)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "--lora of %s needs the layers that adapters stand beside: "
                       "rank=N,layers=PATTERN",
                       model->name);
    const bool is_sgd = strcmp(settings_get(s, "optimizer"), "sgd") == 0;
    if (!is_sgd && (arguments_has(a, "momentum") || arguments_flag(a, "nesterov")))
        return qn_fail(QN_ERROR_ARGUMENT, "--momentum and --nesterov need --optimizer sgd, not %s",
                       settings_get(s, "optimizer"));
    if (settings_flag(s, "nesterov") && !(settings_number(s, "momentum") > 0))
        return qn_fail(QN_ERROR_ARGUMENT, "--nesterov needs a --momentum above 0");
    if (arguments_has(a, "prefer") && !qn_device_is_chosen(settings_get(s, "device")) &&
        !core_choice_is_auto(a))
        return qn_fail(
            QN_ERROR_ARGUMENT,
            "--prefer is what --device auto and --cores auto choose by; add one of them");
    return QN_OK;
}

static qn_status read_settings(training *t) {
    if (t->s.kept) {
        const char *step = qn_metadata_get(t->s.kept, "step");
        t->first_step = step ? strtoll(step, NULL, 10) : 0;
    }
    QN_TRY(settings_resolve(t->a, t->s.model, t->s.kept, &t->settings));
    return check_settings(t->a, &t->settings, t->s.model);
}

/* What the task is opened with, and what its checkpoints say. */
static qn_status make_pairs(training *t) {
    QN_TRY(qn_metadata_set(t->s.pairs, "format", "quern checkpoint 1"));
    QN_TRY(qn_metadata_set(t->s.pairs, "model", t->s.model->name));
    if (model_hash(t->s.model))
        QN_TRY(qn_metadata_set(t->s.pairs, "model_hash", model_hash(t->s.model)));
    QN_TRY(settings_store(&t->settings, t->s.pairs));
    /* What is not a setting was found out by the task; a setting that is gone stays gone. */
    for (int i = 0; t->s.kept && i < qn_metadata_count(t->s.kept); i++) {
        const char *key, *value;
        qn_metadata_at(t->s.kept, i, &key, &value);
        if (option_find(t->a->command, key) < 0 && strcmp(key, "step") != 0)
            QN_TRY(qn_metadata_set(t->s.pairs, key, value));
    }
    return QN_OK;
}

void training_init(training *t, const arguments *a) {
    t->a = a;
    qn_plan_file_init(&t->plan, NULL);
    session_init(&t->s);
}

void training_deinit(training *t) {
    qn_power_ceiling_close(t->ceiling);
    qn_frequency_close(t->clock);
    qn_plan_file_deinit(&t->plan);
    if (t->has_starts)
        pretrained_list_close(&t->starts);
    settings_deinit(&t->settings);
    session_deinit(&t->s);
}

/* The plan's settings, but for its data, where neither the command line nor a checkpoint says
 * anything: a plan is of one graph. */
static qn_status use_plan(training *t, const char *path) {
    if (strcmp(t->plan.model, t->s.model->name) != 0)
        return qn_fail(QN_ERROR_ARGUMENT, "%s is a plan of %s, not of %s", path, t->plan.model,
                       t->s.model->name);
    for (size_t i = 0; !t->s.kept && i < t->plan.n_settings; i++) {
        const qn_plan_setting *s = &t->plan.settings[i];
        const int row = option_find(t->a->command, s->key);
        const bool is_kept = row >= 0 && option_at(t->a->command, row)->is_kept;
        if (is_kept && !t->a->values[row] && strcmp(s->key, "data") != 0)
            QN_TRY(settings_set(&t->settings, s->key, s->value));
    }
    return QN_OK;
}

qn_status training_begin(training *t) {
    const bool saves = option_find(t->a->command, "save-best") >= 0 &&
                       (arguments_has(t->a, "save") || arguments_has(t->a, "save-best"));
    if (arguments_flag(t->a, "override") && !arguments_has(t->a, "resume") && !saves)
        return qn_fail(QN_ERROR_ARGUMENT, "--override needs --resume, or a --save to replace");
    const char *resume = arguments_get(t->a, "resume");
    const char *name = t->a->n_words > 0 ? t->a->words[0] : NULL;
    QN_TRY(start_choose(t, &name));
    if (!name && !resume)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "quern %s needs a MODEL, or --resume FILE; quern models lists the models",
                       t->a->command->name);
    model_read_options(t->a);
    const char *plan = option_find(t->a->command, "plan") < 0 ? NULL : arguments_get(t->a, "plan");
    if (plan) {
        QN_TRY(qn_plan_file_read(&t->plan, plan));
        if (!resume)
            QN_TRY(model_read_plan(&t->plan));
    }
    QN_TRY(session_begin(&t->s, name, arguments_get(t->a, "data"), resume));
    QN_TRY(model_say(t->s.model));
    QN_TRY(read_settings(t));
    QN_TRY(start_set(t));
    if (plan)
        QN_TRY(use_plan(t, plan));
    return ranks_share(t);
}

/* Threads that were asked for, else those of the plan that is to be followed; 0: all there are. */
static int count_threads(const training *t) {
    const int n_asked = (int)arguments_count(t->a, "threads");
#ifdef QN_WITH_MPI
    if (ranks_are_used(t) && n_asked == 0)
        return qn_ranks_threads(t->s.how.engine.ranks);
#endif
    return n_asked == 0 && t->n_cores > 0  ? t->n_cores
           : t->plan.model && n_asked == 0 ? t->plan.plan.n_threads
                                           : n_asked;
}

static qn_kernel_tuning tuning_of(const arguments *a) {
    const char *value = option_find(a->command, "tune") < 0 ? "off" : arguments_get(a, "tune");
    return strcmp(value, "full") == 0    ? QN_TUNE_FULL
           : strcmp(value, "quick") == 0 ? QN_TUNE_QUICK
                                         : QN_TUNE_OFF;
}

/* For energy or a ceiling: where the system lets clocks be set, until training ends. */
static qn_status choose_clock(training *t) {
    qn_core_wish *wish = &t->s.how.engine.core_wish;
    const int n = t->n_cores > 0 ? t->n_cores : qn_cpu_count();
    double level;
    t->clock_level = t->clock ? t->clock_level : 1;
    if (t->clock || (wish->prefer == QN_PREFER_TIME && wish->most_watts <= 0))
        return QN_OK;
    QN_TRY(qn_core_power_begin("", n, wish, &t->clock, &level));
    t->clock_level = level;
    if (t->clock && !arguments_flag(t->a, "json"))
        terminal_print(2, "clock: cores are kept to %.0f %% until training ends", 100 * level);
    return QN_OK;
}

/* Before threads are started: --threads counts further, among the cores that are kept to. */
static qn_status choose_cores(training *t) {
    const char *cores =
        option_find(t->a->command, "cores") < 0 ? NULL : arguments_get(t->a, "cores");
    t->s.how.engine.cores = core_choice_of(t->a);
    if (cores && core_choice_is_by_hand(cores))
        QN_TRY(core_choice_keep(cores, &t->n_cores));
    if (t->s.how.engine.cores != QN_CORES_ONE_BY_ONE) {
        QN_TRY(core_facts_load(&t->core_facts));
        t->s.how.engine.core_facts = &t->core_facts;
    }
    QN_TRY(core_choice_wish(t->a, &t->settings, &t->s.how.engine.core_wish));
    return choose_clock(t);
}

/* Before threads are started. */
static void give_way(training *t) {
    const char *frames = arguments_get(t->a, "foreground");
    if (!frames)
        return;
    t->s.how.engine.foreground_hz = qn_decimal_read(frames, NULL);
    if (!qn_thread_give_way())
        terminal_note("--foreground: this system has no idle priority; only the device's work "
                      "gives way");
}

/* What a task of these settings is opened with, and its budget. */
static qn_status prepare(training *t) {
    if (!settings_get(&t->settings, "data"))
        return qn_fail(QN_ERROR_ARGUMENT, "the checkpoint does not name its data; use --data");
    QN_TRY(make_pairs(t));
    t->s.how.engine.micro_batch = arguments_count(t->a, "micro-batch");
    t->s.how.engine.recompute = session_recompute(t->a);
    const bool has_plan = t->plan.model != NULL;
    const size_t given = (size_t)arguments_count(t->a, "memory");
    session_set_budget(&t->s, given == 0 && has_plan ? t->plan.budget_bytes : given);
    t->s.how.engine.saved_plan = has_plan ? &t->plan.plan : NULL;
    t->s.how.engine.swap_folder = arguments_get(t->a, "swap");
    t->s.how.engine.tune = tuning_of(t->a);
    give_way(t);
    return choose_cores(t);
}

/* The task that is opened next finds out anew what the last one did. */
static qn_status forget_pairs(training *t) {
    qn_metadata_destroy(t->s.pairs);
    t->s.pairs = NULL;
    return qn_metadata_create(&t->s.allocator, &t->s.pairs);
}

qn_status training_measure(training *t) {
    QN_TRY(prepare(t));
    QN_TRY(session_measure(&t->s, count_threads(t)));
    return forget_pairs(t);
}

static qn_status open_task(training *t) {
    qn_status status;
    do {
        QN_TRY(prepare(t));
        status = session_open_task(&t->s, true, count_threads(t));
    } while (status == QN_ERROR_MEMORY && start_shrinks_batch(t) && forget_pairs(t) == QN_OK);
    QN_TRY(status);
    if (t->s.how.engine.memory_budget_bytes > 0)
        qn_memory_give_back(); /* what planning took */
    t->total_steps = qn_task_get_facts(t->s.task).total_steps;
    if (t->total_steps < 1)
        return qn_fail(QN_ERROR_ARGUMENT, "the length of training is not set; use --steps");
    return QN_OK;
}

void training_prepare_progress(training *t) {
    const qn_task_facts facts = qn_task_get_facts(t->s.task);
    memset(&t->progress, 0, sizeof t->progress);
    t->progress.is_json = arguments_flag(t->a, "json");
    t->progress.first_step = t->first_step;
    t->progress.total_steps = t->total_steps;
    t->progress.epoch_steps = facts.epoch_steps;
    t->progress.step_samples = facts.step_samples;
    t->progress.unit = facts.unit;
    t->progress.times.n_skipped = 3;
}

/* Watts that are given by hand are what the user wants to be reckoned with. */
static qn_status open_ceiling(training *t) {
    const qn_engine *engine = qn_task_engine(t->s.task);
    const qn_core_wish *wish = &t->s.how.engine.core_wish;
    const qn_source_options here = {.allocator = qn_allocator_default(), .root = ""};
    if (wish->most_watts <= 0 || settings_number(&t->settings, "cpu-watts") > 0)
        return QN_OK;
    return qn_power_ceiling_open(&here, wish, qn_engine_get_options(engine)->n_threads, t->clock,
                                 t->clock_level, &t->ceiling);
}

void training_hold_power(training *t) {
    if (!t->ceiling || !qn_power_ceiling_look(t->ceiling, qn_clock_ns()))
        return;
    const int n = qn_power_ceiling_threads(t->ceiling);
    const double watts = qn_power_ceiling_watts(t->ceiling);
    const double level = qn_power_ceiling_level(t->ceiling);
    qn_engine_limit_threads(qn_task_engine(t->s.task), n);
    if (!t->progress.is_json) {
        terminal_print(2, "power: %.2f W in the last second; %d thread%s at %.0f %% of the clock",
                       watts, n, n == 1 ? "" : "s", 100 * level);
        return;
    }
    json_begin();
    json_text("event", "power");
    json_number("watts", watts);
    json_count("threads", n);
    json_number("clock", level);
    json_end();
}

qn_status training_open(training *t) {
    const char *resume = arguments_get(t->a, "resume");
    QN_TRY(open_task(t));
    QN_TRY(no_effect_check(t));
    QN_TRY(open_ceiling(t));
    training_prepare_progress(t);
    const char *start = qn_metadata_get(t->s.pairs, "load");
    if (start && !resume)
        return session_load_start(&t->s, start);
    return resume ? session_load(&t->s, resume, !t->settings.is_new_optimizer) : QN_OK;
}

/* ---- what is said ---- */

/* Numbers of parameters that no step changes, where some are frozen. */
static int64_t count_frozen(const training *t) {
    const qn_engine *engine = qn_task_engine(t->s.task);
    int64_t n_frozen = 0;
    for (int i = 0; i < qn_engine_tensor_count(engine); i++) {
        const qn_stored_tensor tensor = qn_engine_tensor_at(engine, i);
        n_frozen += tensor.is_frozen && !tensor.is_state ? qn_shape_count(tensor.shape) : 0;
    }
    return n_frozen;
}

int64_t training_count_parameters(const training *t) {
    const qn_engine *engine = qn_task_engine(t->s.task);
    int64_t n_parameters = 0;
    for (int i = 0; i < qn_engine_tensor_count(engine); i++) {
        const qn_stored_tensor tensor = qn_engine_tensor_at(engine, i);
        n_parameters += tensor.trainable && !tensor.is_state ? qn_shape_count(tensor.shape) : 0;
    }
    return n_parameters;
}

static void print_samples(const qn_task_facts *facts) {
    char validation[48] = "";
    if (facts->n_samples[QN_VALIDATION] > 0)
        snprintf(validation, sizeof validation, ", %lld validation",
                 (long long)facts->n_samples[QN_VALIDATION]);
    terminal_print(2, "%s: %lld training%s and %lld test %s", facts->data,
                   (long long)facts->n_samples[QN_TRAIN], validation,
                   (long long)facts->n_samples[QN_TEST], facts->unit);
}

void training_print_opening(const training *t) {
    const qn_task_facts facts = qn_task_get_facts(t->s.task);
    const qn_engine *engine = qn_task_engine(t->s.task);
    const qn_engine_options *o = qn_engine_get_options(engine);
    char parameters[32];
    terminal_print(2, "%s: %s parameters, input %s, %s", t->s.model->name,
                   grouped(training_count_parameters(t), parameters), facts.input, facts.output);
    if (t->start)
        terminal_print(
            2, "start: %s of %s%s%s; pictures are cropped to their middle square and shrunk to %s",
            t->start->name, t->start->path, *t->start->licence ? ", licence " : "",
            t->start->licence, facts.input);
    if (count_frozen(t) > 0)
        printf("trainable; %s other parameters are frozen\n", grouped(count_frozen(t), parameters));
    if (facts.n_samples[QN_TRAIN] > 0)
        print_samples(&facts);
    else
        terminal_print(2, "%s", facts.data);
    char update[160] = "integer steps without a rate";
    if (t->start)
        snprintf(update, sizeof update, "the head is fitted at once");
    else if (qn_engine_has_rate(engine))
        snprintf(update, sizeof update, "%s, rate %s, schedule %s",
                 settings_get(&t->settings, "optimizer"), qn_metadata_get(t->s.pairs, "lr"),
                 settings_get(&t->settings, "schedule"));
    terminal_print(2, "%s, batch %lld, steps %lld to %lld, seed %llu, %d thread%s", update,
                   (long long)facts.batch, (long long)t->first_step + 1, (long long)t->total_steps,
                   (unsigned long long)o->seed, o->n_threads, o->n_threads == 1 ? "" : "s");
    ranks_print_opening(t);
    if (facts.n_left_out > 0)
        terminal_print(2, "the last %lld %s of each epoch do not fill a batch and are left out",
                       (long long)facts.n_left_out, facts.unit);
    fflush(stdout);
}

/* Of one line of JSON, or of the one that an object adds to. */
static void add_budget_json(const training *t) {
    const qn_budget_use use = qn_engine_get_budget(qn_task_engine(t->s.task));
    json_count("memory_budget_bytes", (int64_t)use.budget_bytes);
    json_count("predicted_peak_bytes", (int64_t)use.peak_bytes);
    json_number("predicted_slowdown", use.slowdown);
    json_flag("slowdown_is_measured", use.is_measured);
    json_count("operations", use.n_operations);
    json_count("operations_again", use.n_again);
    json_count("swapped_bytes", (int64_t)use.swapped_bytes);
    json_count("micro_batch", use.micro_batch);
    json_number("planning_ms", (double)use.planning_ns * 1e-6);
    json_count("planner_bytes", (int64_t)use.planner_bytes);
}

static void add_tuning_json(const qn_kernel_tuning_use *use) {
    json_begin();
    json_text("event", "tuning");
    json_count("products", use->n_products);
    json_count("known", use->n_known);
    json_count("measured", use->n_measured);
    json_count("left", use->n_left);
    json_count("tiled", use->n_tiled);
    json_number("ms", (double)use->ns * 1e-6);
    json_count("bytes", (int64_t)use->bytes);
    json_flag("over_budget", use->is_over_budget);
    json_flag("cache_was_damaged", use->cache_is_damaged);
    json_end();
}

void training_print_tuning(const training *t) {
    const qn_kernel_tuning_use use = qn_engine_get_kernel_tuning(qn_task_engine(t->s.task));
    char bytes[QN_SIZE_TEXT];
    if (use.tune == QN_TUNE_OFF)
        return;
    if (use.cache_is_damaged)
        fputs("quern: warning: cached tuning results cannot be read and are ignored\n", stderr);
    if (t->progress.is_json) {
        add_tuning_json(&use);
        return;
    }
    qn_text_print_size(use.bytes, bytes);
    if (use.is_over_budget) {
        printf("tuning: skipped, because %s is too large a part of the budget\n", bytes);
    } else {
        printf("tuning: %lld products: %lld known, %lld measured in %.1f s",
               (long long)use.n_products, (long long)use.n_known, (long long)use.n_measured,
               (double)use.ns * 1e-9);
        if (use.n_left > 0)
            printf(", %lld left for the next time", (long long)use.n_left);
        printf("; %lld tiled otherwise than usual; %s\n", (long long)use.n_tiled, bytes);
    }
    fflush(stdout);
}

/* What is made again without a budget. */
static void print_layers(const training *t, const qn_budget_use *use) {
    const qn_engine *engine = qn_task_engine(t->s.task);
    char peak[QN_SIZE_TEXT];
    if (qn_engine_get_options(engine)->recompute != QN_RECOMPUTE_LAYERS || use->n_again == 0 ||
        t->progress.is_json)
        return;
    terminal_print(2,
                   "plan: %s; layers run again for their gradients, about %.2f times the time; "
                   "--recompute little keeps them",
                   qn_text_print_size(use->peak_bytes, peak), use->slowdown);
    fflush(stdout);
}

void training_print_plan(const training *t) {
    const qn_budget_use use = qn_engine_get_budget(qn_task_engine(t->s.task));
    char peak[QN_SIZE_TEXT], budget[QN_SIZE_TEXT];
    if (use.budget_bytes == 0) {
        print_layers(t, &use);
        return;
    }
    if (t->progress.is_json) {
        json_begin();
        json_text("event", "plan");
        add_budget_json(t);
        json_end();
        return;
    }
    char pieces[64] = "", swapped[64] = "", again[96] = "nothing runs again";
    if (use.micro_batch > 0)
        snprintf(pieces, sizeof pieces, "in pieces of %lld samples; ", (long long)use.micro_batch);
    if (use.swapped_bytes > 0)
        snprintf(swapped, sizeof swapped, "%s are swapped in a step, ",
                 qn_text_print_size(use.swapped_bytes, peak));
    if (use.n_again > 0 || use.swapped_bytes > 0)
        qn_print(again, sizeof again,
                 "%.0f %% of the operations run again, about %.2f times the time%s",
                 100 * (double)use.n_again / (double)(use.n_operations - use.n_again), use.slowdown,
                 use.is_measured ? " as measured" : "");
    terminal_print(2, "plan: %s of %s; %s%s%s", qn_text_print_size(use.peak_bytes, peak),
                   qn_text_print_size(use.budget_bytes, budget), pieces, swapped, again);
    fflush(stdout);
}

/* Where the arena is the system's, its peak and that of the rest need not be at once: never too
 * small. */
static size_t find_peak(const training *t) {
    return t->s.counter.peak_bytes + qn_engine_get_memory(qn_task_engine(t->s.task)).mapped_bytes;
}

static void print_done_json(training *t) {
    const qn_engine *engine = qn_task_engine(t->s.task);
    const qn_engine_options *o = qn_engine_get_options(engine);
    json_begin();
    json_text("event", "done");
    progress_add_test(&t->progress);
    json_number("median_step_ms", progress_median_ms(&t->progress));
    json_number("samples_per_second", progress_samples_per_second(&t->progress));
    json_count("steps", qn_engine_steps(engine));
    if (t->state.has_best)
        best_add_json(&t->state.best);
    if (t->state.has_best)
        json_flag("stopped_early", t->state.is_stopped);
    json_count("threads", o->n_threads);
    json_count("seed", (int64_t)o->seed);
    json_count("parameters", training_count_parameters(t));
    json_count("peak_bytes", (int64_t)find_peak(t));
    json_count("parameter_bytes", (int64_t)qn_engine_get_memory(engine).parameter_bytes);
    json_count("peak_rss_bytes", qn_process_peak_bytes());
    if (t->s.how.engine.memory_budget_bytes > 0)
        add_budget_json(t);
    shifts_add_json(engine);
    ranks_add_json(t);
    json_end();
}

static void print_done_line(training *t) {
    const double mib = 1.0 / (1 << 20);
    const qn_engine *engine = qn_task_engine(t->s.task);
    const progress *p = &t->progress;
    char test[512], speed[80] = "";
    progress_test_text(p, sizeof test, test);
    if (p->times.n_times > 0)
        qn_print(speed, sizeof speed, ", %.2f ms a step, %.0f %s/s",
                 progress_median_ms(&t->progress), progress_samples_per_second(p), p->unit);
    terminal_print(2, "done: %lld steps%s%s, %.1f MiB of memory (%.1f of them parameters)",
                   (long long)qn_engine_steps(engine), test, speed, (double)find_peak(t) * mib,
                   (double)qn_engine_get_memory(engine).parameter_bytes * mib);
    shifts_print(engine);
    ranks_print_done(t);
}

void training_print_done(training *t) {
    if (arguments_flag(t->a, "json"))
        print_done_json(t);
    else
        print_done_line(t);
}

/* In single quotes where a shell would cut it. */
static void print_quoted(const char *text) {
    if (*text && strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                              "_-./:,=+@%") == strlen(text)) {
        fputs(text, stderr);
        return;
    }
    fputc('\'', stderr);
    for (; *text; text++)
        fputs(*text == '\'' ? "'\\''" : (char[]){*text, 0}, stderr);
    fputc('\'', stderr);
}

static void print_option(const option *o, const char *value) {
    const bool is_negated = o->kind == OPTION_FLAG && strcmp(value, "no") == 0;
    fprintf(stderr, " --%s%s", is_negated ? "no-" : "", o->name);
    if (o->kind == OPTION_FLAG)
        return;
    fputc(' ', stderr);
    print_quoted(value);
}

/* What the checkpoint does not keep has to be said again. */
void training_print_resume_command(const training *t, const char *checkpoint) {
    static const char *const left_out[] = {"resume", "save", "measure", "override"};
    const bool is_old = t->state.saved_step < 0;
    fprintf(stderr, "resume with: quern train %s --resume ", t->s.model->name);
    print_quoted(checkpoint);
    if (!*t->folder.path) { /* a folder's is kept there again */
        fputs(" --save ", stderr);
        print_quoted(t->save);
    }
    for (int i = 0; i < option_count(t->a->command); i++) {
        const option *o = option_at(t->a->command, i);
        bool is_told = t->a->values[i] && (is_old || !o->is_kept);
        for (size_t k = 0; k < sizeof left_out / sizeof *left_out; k++)
            is_told = is_told && strcmp(o->name, left_out[k]) != 0;
        if (is_told)
            print_option(o, t->a->values[i]);
    }
    fputs(is_old && arguments_flag(t->a, "override") ? " --override\n" : "\n", stderr);
}
