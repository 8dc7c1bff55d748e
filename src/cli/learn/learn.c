/* quern learn: learning day by day. status says whether this device may train now; simulate replays
 * days of a device: when its policy lets it train, for how long and at what cost; and, with --data,
 * what a model learns meanwhile. */
#include "base/decimal.h"
#include "base/status.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/learn/service.h"
#include "cli/learn/status.h"
#include "cli/session.h"
#include "learn/days.h"
#include "learn/replay.h"
#include "os/heap.h"
#include "os/process/interrupt.h"
#include "report/document.h"
#include "tasks/tasks.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DAYS = 3660, CLOCK_TEXT = 64 };

static const option options[] = {
    {.name = "device",
     .kind = OPTION_TEXT,
     .argument = "DEVICE",
     .fallback = "snapdragon-phone",
     .help = "snapdragon-phone, intel-laptop, raspberry-pi-5 or jetson-tx2"},
    {.name = "days",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = MOST_DAYS,
     .fallback = "17",
     .help = "days to replay"},
    {.name = "trace",
     .kind = OPTION_INPUT,
     .argument = "FILE",
     .otherwise = "days drawn by --seed",
     .help =
         "CSV of recorded use: second, in_use, charging, battery, celsius, load, stall, memory"},
    {.name = "when",
     .kind = OPTION_TEXT,
     .argument = "RULES",
     .fallback = "idle,charging,cool",
     .help = "rules that must all hold: idle, charging, battery, cool, load, calm, memory, night; "
             "with limits as battery:60"},
    {.name = "joules",
     .kind = OPTION_NUMBER,
     .argument = "J",
     .most = 1e9,
     .otherwise = "the device's",
     .help = "energy that training may take a day; 0: no limit"},
    {.name = "minutes",
     .kind = OPTION_NUMBER,
     .argument = "M",
     .most = 1440,
     .otherwise = "the device's",
     .help = "time that training may take a day; 0: no limit"},
    {.name = "seed",
     .kind = OPTION_COUNT,
     .argument = "N",
     .most = 9e15,
     .fallback = "1",
     .help = "of the days, samples and initial weights"},
    {.name = "data",
     .kind = OPTION_DATA,
     .argument = "DATA",
     .otherwise = "none: nothing is learned",
     .help = "images with classes, of which the model's and the user's samples are taken"},
    {.name = "holdout",
     .kind = OPTION_NUMBER,
     .argument = "PART",
     .most = 0.9,
     .otherwise = "as the data comes",
     .help = "part of the samples to test on, of data without test samples"},
    {.name = "model",
     .kind = OPTION_TEXT,
     .argument = "MODEL",
     .fallback = "lenet5",
     .help = "a classifier of quern models"},
    {.name = "load",
     .kind = OPTION_INPUT,
     .argument = "FILE",
     .otherwise = "trained before the first day",
     .help = "weights of the model before the first day"},
    {.name = "drift",
     .kind = OPTION_TEXT,
     .argument = "DRIFT",
     .fallback = "rotate:20,bright:0.6,classes:2",
     .help = "how the user's images differ from those before: rotate:DEGREES, bright:FACTOR, "
             "classes:N that are new; or none"},
    {.name = "start",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 64,
     .most = 1e7,
     .fallback = "12000",
     .help = "samples before the first day; three quarters train the model"},
    {.name = "daily",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e6,
     .fallback = "64",
     .help = "samples that come in a day"},
    {.name = "keep",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 16,
     .most = 1e6,
     .fallback = "3000",
     .help = "samples kept to train on, of those before and of the user's; as many to judge"},
    {.name = "test",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e7,
     .fallback = "2000",
     .help = "test samples that accuracies are of"},
    {.name = "save",
     .kind = OPTION_TARGET,
     .makes = QN_OWN_WEIGHTS,
     .argument = "FILE",
     .otherwise = "none",
     .help = "the model after the last day"},
    {.name = "threads",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1024,
     .otherwise = "all cores",
     .help = "threads; the result does not depend on them"},
    {.name = "log",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "say every change of the decision, with its reason"},
    {.name = "html",
     .kind = OPTION_TARGET,
     .makes = QN_OWN_PAGE,
     .argument = "FILE",
     .otherwise = "none",
     .help = "write a page with the days"},
    {.name = "sysroot",
     .kind = OPTION_TEXT,
     .argument = "DIR",
     .otherwise = "this device",
     .help = "for status and start: recorded tree of /sys and /proc to look at"},
    {.name = "old",
     .kind = OPTION_DATA,
     .argument = "images:DIR",
     .otherwise = "none: forgetting is not measured",
     .help = "for start: images as the model was made for, best such that it was not trained with"},
    {.name = "memory",
     .kind = OPTION_SIZE,
     .argument = "SIZE",
     .otherwise = "200M",
     .help = "for start: memory of samples and training"},
    {.name = "disk",
     .kind = OPTION_SIZE,
     .argument = "SIZE",
     .otherwise = "500M",
     .help = "for start: room that DIR may take for samples and versions"},
    {.name = "power",
     .kind = OPTION_NUMBER,
     .argument = "W",
     .most = 1000,
     .fallback = "0",
     .help = "for start: mean power of training, which rests between steps; 0: no limit"},
    {.name = "watts",
     .kind = OPTION_NUMBER,
     .argument = "W",
     .most = 1000,
     .fallback = "5",
     .help = "for start: what training without rests is taken to need"},
    {.name = "fresh",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e6,
     .fallback = "16",
     .help = "for start: new samples of a round of learning"},
    {.name = "batch",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 4096,
     .otherwise = "4 to 32, by the model",
     .help = "for start: samples of a step, which ends before the user has the device back"},
    {.name = "once",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "for start: end when there is nothing to learn, or it may not"},
    {.name = "relearn",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "for forget: go back to the version before the sample, and learn again"},
    {.name = "last",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 10000,
     .fallback = "100",
     .help = "for log: lines"},
    {.name = "json", .kind = OPTION_FLAG, .fallback = "no", .help = "JSON objects"},
};

typedef struct simulation {
    const arguments *a;
    bool is_json;
    qn_trace trace;
    qn_replay replay;
    qn_replayed_day *days; /* (n_days) */
    int64_t n_days;
    /* with --data */
    qn_data_source data;
    qn_known_data known; /* of the weights to begin with */
    bool is_open;
    qn_days *learning;      /* null: nothing is learned */
    qn_day_result start;    /* before the first day */
    qn_day_result *results; /* (n_days) */
} simulation;

static const char *clock_text(int64_t second, char text[CLOCK_TEXT]) {
    const int in_day = (int)(second % QN_DAY_SECONDS);
    snprintf(text, CLOCK_TEXT, "day %" PRId64 " %02d:%02d:%02d", second / QN_DAY_SECONDS + 1,
             in_day / 3600, in_day / 60 % 60, in_day % 60);
    return text;
}

/* ---- setting up ---- */

static double given_or(const arguments *a, const char *name, double otherwise) {
    return arguments_has(a, name) ? qn_decimal_read(arguments_get(a, name), NULL) : otherwise;
}

static void print_decision(void *user, int64_t second, bool may_train, const char *why) {
    const simulation *s = user;
    char text[CLOCK_TEXT];
    clock_text(second, text);
    if (!s->is_json) {
        printf("  %s  %s  %s\n", text, may_train ? "may train  " : "may not    ", why);
        return;
    }
    json_begin();
    json_text("event", "decision");
    json_count("second", second);
    json_flag("may_train", may_train);
    json_text("why", why);
    json_end();
}

static qn_status set_up(simulation *s) {
    const arguments *a = s->a;
    qn_replay_options o = {
        .device = qn_learn_device_find(arguments_get(a, "device")),
        .seed = (uint64_t)arguments_count(a, "seed"),
        .user = s,
        .decided = arguments_flag(a, "log") ? print_decision : NULL,
    };
    if (!o.device)
        return QN_ERROR_ARGUMENT;
    QN_TRY(qn_policy_parse(arguments_get(a, "when"), o.device->cool_celsius, &o.policy));
    o.policy.budget_joules = given_or(a, "joules", o.device->day_joules);
    o.policy.budget_seconds = 60 * given_or(a, "minutes", o.device->day_minutes);
    if (arguments_has(a, "trace")) {
        QN_TRY(qn_trace_open(NULL, arguments_get(a, "trace"), &s->trace));
        o.trace = &s->trace;
    }
    qn_replay_init(&o, &s->replay);
    s->n_days = arguments_count(a, "days");
    const qn_allocator *heap = qn_allocator_default();
    QN_TRY(qn_allocate(heap, (size_t)s->n_days, sizeof *s->days, &s->days));
    return qn_allocate(heap, (size_t)s->n_days, sizeof *s->results, &s->results);
}

static qn_status open_data(simulation *s, const qn_model *model) {
    const char *holdout = arguments_get(s->a, "holdout");
    const qn_data_options how = {
        QN_OPTIONS_INIT(qn_data_options),
        .log = &session_log,
        .seed = (uint64_t)arguments_count(s->a, "seed"),
        .holdout = holdout ? qn_decimal_read(holdout, NULL) : 0,
        .sample = model->input,
        .n_classes = model->n_classes,
    };
    QN_TRY(qn_known_data_open(arguments_get(s->a, "load"), arguments_get(s->a, "data"), &how,
                              &s->known, &s->data));
    s->is_open = true;
    return QN_OK;
}

static qn_status set_up_learning(simulation *s) {
    const arguments *a = s->a;
    qn_days_options o = {
        .model = qn_model_find(arguments_get(a, "model")),
        .data = &s->data,
        .n_start = arguments_count(a, "start"),
        .n_daily = arguments_count(a, "daily"),
        .n_kept = arguments_count(a, "keep"),
        .n_test = arguments_count(a, "test"),
        .start_epochs = 5,
        .weights = arguments_get(a, "load"),
        .n_threads = arguments_has(a, "threads") ? (int)arguments_count(a, "threads") : 0,
        .seed = (uint64_t)arguments_count(a, "seed"),
    };
    if (!arguments_has(a, "data"))
        return arguments_has(a, "save")
                   ? qn_fail(QN_ERROR_ARGUMENT, "--save needs --data: nothing is learned without")
                   : QN_OK;
    if (!o.model)
        return QN_ERROR_ARGUMENT;
    QN_TRY(qn_drift_parse(arguments_get(a, "drift"), &o.drift));
    QN_TRY(open_data(s, o.model));
    return qn_days_create(&o, &s->learning, &s->start);
}

/* ---- days ---- */

/* The rule that stood in the way longest; null: none did. */
static const char *main_reason(const simulation *s, const qn_replayed_day *d, double *hours) {
    int64_t most = d->over_budget_seconds;
    const char *name = most > 0 ? "budget" : NULL;
    for (int i = 0; i < s->replay.o.policy.n_rules; i++) {
        if (d->refused_seconds[i] > most) {
            most = d->refused_seconds[i];
            name = s->replay.o.policy.rules[i].kind->name;
        }
    }
    *hours = (double)most / 3600;
    return name;
}

static void print_start(const simulation *s) {
    if (!s->learning)
        return;
    if (!s->is_json) {
        printf("before: %.2f %% of the user's images, %.2f %% of those the model was made for\n",
               100 * s->start.user_accuracy, 100 * s->start.old_accuracy);
        return;
    }
    json_begin();
    json_text("event", "start");
    json_number("user_accuracy", s->start.user_accuracy);
    json_number("old_accuracy", s->start.old_accuracy);
    json_end();
}

static void print_comparison_json(const char *of, const qn_comparison *c) {
    static const char *const names[] = {"samples", "became_right", "became_wrong"};
    const int64_t values[] = {c->n, c->n_better, c->n_worse};
    for (int i = 0; i < 3; i++) {
        char key[48];
        snprintf(key, sizeof key, "%s_%s", of, names[i]);
        json_count(key, values[i]);
    }
}

static void print_learned_json(const qn_day_result *r) {
    const qn_learned *l = &r->learned;
    json_number("user_accuracy", r->user_accuracy);
    json_number("old_accuracy", r->old_accuracy);
    json_flag("has_tried", l->has_tried);
    json_flag("has_replaced", l->has_replaced);
    json_text("trained", l->has_tried ? l->is_head ? "head" : "network" : "nothing");
    json_count("version", l->version);
    json_count("steps", l->n_steps);
    json_number("flops", l->flops);
    print_comparison_json("recent", &l->recent);
    json_number("recent_chance", l->chance);
    print_comparison_json("old", &l->old);
}

static void print_learned(const qn_day_result *r) {
    const qn_learned *l = &r->learned;
    if (!l->has_tried)
        printf("\n  nothing learned: too few samples, or too little time");
    else
        printf("\n  %s, %" PRId64 " steps: of %" PRId64 " recent samples %" PRId64
               " became right, %" PRId64 " wrong; of %" PRId64 " old ones %" PRId64 ", %" PRId64
               "; %s",
               l->is_head ? "head" : "network", l->n_steps, l->recent.n, l->recent.n_better,
               l->recent.n_worse, l->old.n, l->old.n_better, l->old.n_worse,
               l->has_replaced ? "kept as version " : "not kept");
    if (l->has_replaced)
        printf("%" PRId64, l->version);
    printf("\n  now %.2f %% of the user's images, %.2f %% of old ones", 100 * r->user_accuracy,
           100 * r->old_accuracy);
}

static void print_day_json(const simulation *s, const qn_replayed_day *d, const qn_day_result *r) {
    json_begin();
    json_text("event", "day");
    json_count("day", d->day);
    json_count("train_seconds", d->train_seconds);
    json_number("joules", d->joules);
    json_count("slices", d->n_slices);
    json_count("returns", d->n_returns);
    json_count("use_seconds", d->use_seconds);
    json_count("charging_seconds", d->charging_seconds);
    json_number("hottest_celsius", d->hottest_celsius);
    json_number("lowest_battery", d->lowest_battery);
    for (int i = 0; i < s->replay.o.policy.n_rules; i++) {
        char key[48];
        snprintf(key, sizeof key, "refused_by_%s_seconds", s->replay.o.policy.rules[i].kind->name);
        json_count(key, d->refused_seconds[i]);
    }
    json_count("refused_by_budget_seconds", d->over_budget_seconds);
    if (s->learning)
        print_learned_json(r);
    json_end();
}

static void print_day(const simulation *s, const qn_replayed_day *d, const qn_day_result *r) {
    double hours;
    if (s->is_json) {
        print_day_json(s, d, r);
        return;
    }
    const char *reason = main_reason(s, d, &hours);
    printf("day %" PRId64 ": trained %.1f min in %" PRId64 " slices, %.0f J", d->day,
           (double)d->train_seconds / 60, d->n_slices, d->joules);
    if (d->train_seconds > 0)
        printf(", at most %.1f C", d->hottest_celsius);
    if (reason)
        printf("; most in the way: %s (%.1f h)", reason, hours);
    if (s->learning)
        print_learned(r);
    printf("\n");
    fflush(stdout);
}

/* Without --data the device trains as long as it may. */
static qn_status run_day(simulation *s, qn_replayed_day *day, qn_day_result *result) {
    const double speed = s->replay.o.device->flops;
    double wanted = 0;
    if (s->learning)
        QN_TRY(qn_days_receive(s->learning, &wanted));
    qn_replay_next(&s->replay, s->learning ? wanted / speed : QN_DAY_SECONDS, day);
    if (!s->learning)
        return QN_OK;
    return qn_days_learn(s->learning, fmin((double)day->train_seconds * speed, wanted), result);
}

static qn_status run_days(simulation *s) {
    for (int64_t i = 0; i < s->n_days; i++) {
        QN_TRY(run_day(s, &s->days[i], &s->results[i]));
        print_day(s, &s->days[i], &s->results[i]);
        if (qn_was_interrupted())
            return qn_fail(QN_ERROR_INTERRUPTED, "stopped after day %" PRId64, i + 1);
    }
    return QN_OK;
}

/* ---- the page ---- */

static double joules_of(const qn_replayed_day *d) {
    return d->joules;
}

static double minutes_of(const qn_replayed_day *d) {
    return (double)d->train_seconds / 60;
}

static void draw(qn_document *d, const simulation *s, const char *title, const char *label,
                 double (*of)(const qn_replayed_day *day), double budget, double *room) {
    const size_t n = (size_t)s->n_days;
    double *x = room, *y = room + n, *limit = room + 2 * n;
    const qn_chart chart = {
        .kind = QN_CHART_LINE, .title = title, .x_label = "day", .y_label = label};
    for (size_t i = 0; i < n; i++) {
        x[i] = (double)s->days[i].day;
        y[i] = of(&s->days[i]);
        limit[i] = budget > 0 ? budget : (double)NAN;
    }
    qn_document_begin_chart(d, &chart);
    qn_document_series(d, label, s->n_days, x, y);
    qn_document_guide(d, "budget", s->n_days, x, limit);
    qn_document_end_chart(d);
}

static void draw_learning(qn_document *d, const simulation *s, double *room) {
    const size_t n = (size_t)s->n_days + 1;
    double *x = room, *user = room + n, *old = room + 2 * n;
    const qn_chart chart = {.kind = QN_CHART_LINE,
                            .title = "Accuracy on test samples",
                            .x_label = "day",
                            .y_label = "%"};
    for (size_t i = 0; i < n; i++) {
        const qn_day_result *r = i == 0 ? &s->start : &s->results[i - 1];
        x[i] = (double)i;
        user[i] = 100 * r->user_accuracy;
        old[i] = 100 * r->old_accuracy;
    }
    qn_document_begin_chart(d, &chart);
    qn_document_series(d, "the user's images", (int64_t)n, x, user);
    qn_document_series(d, "images as before", (int64_t)n, x, old);
    qn_document_end_chart(d);
}

static void put_table(qn_document *d, const simulation *s) {
    static const char *const names[] = {"day", "minutes",   "slices",
                                        "J",   "hottest C", "lowest battery %"};
    qn_document_begin_table(d, "Days", 6, names);
    for (int64_t i = 0; i < s->n_days; i++) {
        const qn_replayed_day *day = &s->days[i];
        qn_document_cell_number(d, (double)day->day, 0);
        qn_document_cell_number(d, minutes_of(day), 1);
        qn_document_cell_number(d, (double)day->n_slices, 0);
        qn_document_cell_number(d, day->joules, 0);
        qn_document_cell_number(d, day->hottest_celsius, 1);
        qn_document_cell_number(d, day->lowest_battery, 0);
    }
    qn_document_end_table(d);
}

static qn_status write_page(const simulation *s, const char *path) {
    const qn_allocator *heap = qn_allocator_default();
    const size_t n = 3 * ((size_t)s->n_days + 1);
    const qn_policy *p = &s->replay.o.policy;
    double *room;
    qn_document *d;
    char title[120];
    snprintf(title, sizeof title, "%" PRId64 " days of %s", s->n_days, s->replay.o.device->name);
    QN_TRY(qn_allocate(heap, n, sizeof *room, &room));
    qn_status status = qn_document_create(NULL, title, &d);
    if (status == QN_OK) {
        qn_document_about(d, s->replay.o.device->name, 0);
        qn_document_figure(d, "Rules", arguments_get(s->a, "when"), "that must all hold");
        if (s->learning)
            draw_learning(d, s, room);
        draw(d, s, "Energy of training", "J", joules_of, p->budget_joules, room);
        draw(d, s, "Time of training", "minutes", minutes_of, p->budget_seconds / 60, room);
        put_table(d, s);
        status = qn_document_write(d, path);
        qn_document_destroy(d);
    }
    qn_release(heap, room, n, sizeof *room);
    return status;
}

static qn_status simulate(simulation *s) {
    const char *html = arguments_get(s->a, "html"), *save = arguments_get(s->a, "save");
    QN_TRY(set_up(s));
    QN_TRY(set_up_learning(s));
    if (save)
        QN_TRY(qn_days_keep_room(s->learning, save));
    qn_interrupt_watch(EXIT_FAILED);
    print_start(s);
    QN_TRY(run_days(s));
    if (save)
        QN_TRY(qn_days_save(s->learning, save));
    return html ? write_page(s, html) : QN_OK;
}

/* What works in a folder has its name behind it. */
static qn_status act(simulation *s) {
    const char *action = s->a->words[0];
    if (s->a->n_words > 1 || learn_needs_folder(action))
        return learn_in_folder(s->a);
    if (strcmp(action, "status") == 0)
        return learn_status(s->a);
    if (strcmp(action, "simulate") == 0)
        return simulate(s);
    return qn_fail(QN_ERROR_ARGUMENT, "%s is not an action: " LEARN_ACTIONS ", simulate", action);
}

static int run(const arguments *a) {
    simulation s = {.a = a, .is_json = arguments_flag(a, "json")};
    const qn_status status = act(&s);
    qn_days_destroy(s.learning);
    if (s.is_open)
        qn_data_close(&s.data);
    qn_known_data_deinit(&s.known);
    qn_trace_close(&s.trace);
    qn_release(qn_allocator_default(), s.results, (size_t)s.n_days, sizeof *s.results);
    qn_release(qn_allocator_default(), s.days, (size_t)s.n_days, sizeof *s.days);
    return status == QN_OK ? EXIT_DONE : report_failure(status);
}

const command command_learn = {
    .name = "learn",
    .words = "ACTION [DIR] [ID]",
    .least_words = 1,
    .most_words = 3,
    .summary = "Learn day by day, while a device is idle, charging and cool",
    .description =
        "learn status       whether this device may train now: each rule of --when and its value\n"
        "learn start DIR    learns in DIR from --data images:INBOX (INBOX/CLASS/FILE) while "
        "--when\n"
        "                   holds, beginning with --model FILE; DIR/model.safetensors is the\n"
        "                   model in use\n"
        "learn status DIR   what is learned there; learn versions DIR, learn samples DIR: all\n"
        "learn log DIR      every decision and its reason\n"
        "learn pause DIR    stops at the step under way, until learn resume DIR\n"
        "learn undo DIR     goes back to the version before\n"
        "learn forget DIR ID\n"
        "                   deletes a sample; --relearn also what was learned from it\n"
        "learn simulate     replays days of a device: when --when lets it train, and with --data\n"
        "                   what a model learns from a few samples a day\n"
        "\n"
        "Days are drawn by --seed, or come from a --trace. A device never trains when it is hot\n"
        "or its battery is low, whatever the rules. --log says every decision and its reason.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .run = run,
    .makes_files = true,
};
