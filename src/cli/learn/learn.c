/* quern learn: learning day by day. simulate replays days of a device: when its policy lets it
 * train, for how long and at what cost. */
#include "base/status.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "learn/replay.h"
#include "os/heap.h"
#include "os/process/interrupt.h"
#include "report/document.h"

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
     .kind = OPTION_TEXT,
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
     .help = "of the days"},
    {.name = "log",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "say every change of the decision, with its reason"},
    {.name = "html",
     .kind = OPTION_TARGET,
     .argument = "FILE",
     .otherwise = "none",
     .help = "write a page with the days"},
    {.name = "json", .kind = OPTION_FLAG, .fallback = "no", .help = "one JSON object a day"},
};

typedef struct simulation {
    const arguments *a;
    bool is_json;
    qn_trace trace;
    qn_replay replay;
    qn_replayed_day *days; /* (n_days) */
    int64_t n_days;
} simulation;

static const char *clock_text(int64_t second, char text[CLOCK_TEXT]) {
    const int in_day = (int)(second % QN_DAY_SECONDS);
    snprintf(text, CLOCK_TEXT, "day %" PRId64 " %02d:%02d:%02d", second / QN_DAY_SECONDS + 1,
             in_day / 3600, in_day / 60 % 60, in_day % 60);
    return text;
}

/* ---- setting up ---- */

static double given_or(const arguments *a, const char *name, double otherwise) {
    return arguments_has(a, name) ? strtod(arguments_get(a, name), NULL) : otherwise;
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
    return qn_allocate(qn_allocator_default(), (size_t)s->n_days, sizeof *s->days, &s->days);
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

static void print_day_json(const simulation *s, const qn_replayed_day *d) {
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
    json_end();
}

static void print_day(const simulation *s, const qn_replayed_day *d) {
    double hours;
    if (s->is_json) {
        print_day_json(s, d);
        return;
    }
    const char *reason = main_reason(s, d, &hours);
    printf("day %" PRId64 ": trained %.1f min in %" PRId64 " slices, %.0f J", d->day,
           (double)d->train_seconds / 60, d->n_slices, d->joules);
    if (d->train_seconds > 0)
        printf(", at most %.1f C", d->hottest_celsius);
    if (reason)
        printf("; most in the way: %s (%.1f h)", reason, hours);
    printf("\n");
    fflush(stdout);
}

static qn_status run_days(simulation *s) {
    for (int64_t i = 0; i < s->n_days; i++) {
        qn_replay_next(&s->replay, QN_DAY_SECONDS, &s->days[i]);
        print_day(s, &s->days[i]);
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
    const size_t n = 3 * (size_t)s->n_days;
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
    const char *html = arguments_get(s->a, "html");
    QN_TRY(set_up(s));
    qn_interrupt_watch(EXIT_FAILED);
    QN_TRY(run_days(s));
    return html ? write_page(s, html) : QN_OK;
}

static int run(const arguments *a) {
    simulation s = {.a = a, .is_json = arguments_flag(a, "json")};
    const qn_status status =
        strcmp(a->words[0], "simulate") == 0
            ? simulate(&s)
            : qn_fail(QN_ERROR_ARGUMENT, "%s is not an action: simulate", a->words[0]);
    qn_trace_close(&s.trace);
    qn_release(qn_allocator_default(), s.days, (size_t)s.n_days, sizeof *s.days);
    return status == QN_OK ? EXIT_DONE : report_failure(status);
}

const command command_learn = {
    .name = "learn",
    .words = "ACTION",
    .least_words = 1,
    .most_words = 1,
    .summary = "Learn day by day, while a device is idle, charging and cool",
    .description =
        "learn simulate     replays days of a device: when --when lets it train\n"
        "\n"
        "Days are drawn by --seed, or come from a --trace. A device never trains when it is hot\n"
        "or its battery is low, whatever the rules. --log says every decision and its reason.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .run = run,
    .makes_files = true,
};
