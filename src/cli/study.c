/* quern study: characterises training on this machine. Each cell is a run of quern profile, or a
 * drip training, in a process of its own; the floor `study` starts them and collects their files.
 */
#include "study/study.h"

#include "base/decimal.h"
#include "base/print.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/meter/measuring.h"
#include "cli/session.h"
#include "cli/terminal.h"
#include "meter/load.h"
#include "os/heap.h"
#include "os/process/interrupt.h"
#include "study/drip.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_MODELS = 64, MOST_BATCHES = 32, MOST_SETTINGS = 16 };

static const option options[] = {
    {.name = "models",
     .kind = OPTION_TEXT,
     .argument = "LIST",
     .otherwise = "all; with --quick five",
     .help = "comma-separated names, or all"},
    {.name = "batches",
     .kind = OPTION_TEXT,
     .argument = "LIST",
     .otherwise = "4,8,16,32,64; with --quick 4,16",
     .help = "samples in a batch"},
    {.name = "out",
     .kind = OPTION_TEXT,
     .argument = "DIR",
     .fallback = "study",
     .help = "folder of cells and results; an existing study is continued"},
    {.name = "quick",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "five models, two batches, few steps, a light drip training"},
    {.name = "steps",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e6,
     .otherwise = "20; with --quick 6",
     .help = "minimum measured steps of a cell"},
    {.name = "seconds",
     .kind = OPTION_NUMBER,
     .argument = "X",
     .most = 3600,
     .otherwise = "3; with --quick 1",
     .help = "minimum measuring time of a cell; short steps are repeated"},
    {.name = "repeat",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 100,
     .fallback = "3",
     .help = "measurements of a cell at most, while other programs are busy"},
    {.name = "data",
     .kind = OPTION_DATA,
     .argument = "DATA",
     .fallback = "fashion-mnist",
     .help = "data of drip training; all else uses synthetic data"},
    {.name = "drip", .kind = OPTION_FLAG, .fallback = "yes", .help = "skip drip training"},
    {.name = "memory-limit",
     .kind = OPTION_COUNT,
     .argument = "BYTES",
     .least = 1,
     .most = 9e18,
     .otherwise = "the memory that is free when a cell begins",
     .help = "skip cells whose plan needs more"},
    {.name = "threads",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 256,
     .otherwise = "all processors",
     .help = "threads of a cell"},
    {.name = "retry", .kind = OPTION_FLAG, .fallback = "no", .help = "run failed cells again"},
    {.name = "only",
     .kind = OPTION_TEXT,
     .argument = "CELL",
     .otherwise = "none",
     .help = "run a drip training alone, as drip-b16, in this process"},
};

/* What differs between a study and a quick one. */
typedef struct scale {
    const char *models, *batches, *drip_model;
    int64_t steps;
    double least_s;
    int64_t n_pretraining, n_epochs, n_test;
} scale;

static const scale full = {.models = "all",
                           .batches = "4,8,16,32,64",
                           .drip_model = "densenet40",
                           .steps = 20,
                           .least_s = 3,
                           .n_pretraining = 6400,
                           .n_epochs = 2,
                           .n_test = 2000};
static const scale quick = {.models = "lenet5,squeezenet,mobilenet-v2,char-lstm,dqn",
                            .batches = "4,16",
                            .drip_model = "lenet5",
                            .steps = 6,
                            .least_s = 1,
                            .n_pretraining = 1280,
                            .n_epochs = 1,
                            .n_test = 2000};
static const int64_t drip_batches[] = {4, 16, 64};

enum { N_DRIP_BATCHES = sizeof drip_batches / sizeof drip_batches[0] };

/* A study as the command line says; in the order in which it is made. */
typedef struct command_line {
    const arguments *a;
    const scale *scale;
    qn_meter_options measuring;
    char steps[24];
    const qn_model *models[MOST_MODELS];
    int64_t batches[MOST_BATCHES];
    qn_study_setting settings[MOST_SETTINGS];
    qn_study_options options;
} command_line;

/* ---- reading the command line ---- */

/* Calls add for each name of a list; a name is cut at 63 bytes. */
static qn_status read_list(const char *name, const char *list, command_line *l,
                           qn_status (*add)(command_line *l, const char *word)) {
    for (const char *at = list;;) {
        char word[64];
        const size_t length = strcspn(at, ",");
        snprintf(word, sizeof word, "%.*s", (int)(length < 63 ? length : 63), at);
        if (length == 0)
            return qn_fail(QN_ERROR_ARGUMENT, "--%s \"%s\": there is nothing beside a comma", name,
                           list);
        QN_TRY(add(l, word));
        if (!at[length])
            return QN_OK;
        at += length + 1;
    }
}

static qn_status add_model(command_line *l, const char *word) {
    const qn_model *model = qn_model_find(word);
    if (!model)
        return QN_ERROR_ARGUMENT;
    for (int i = 0; i < l->options.n_models; i++) {
        if (l->models[i] == model)
            return QN_OK;
    }
    if (l->options.n_models == MOST_MODELS)
        return qn_fail(QN_ERROR_ARGUMENT, "--models: more than %d", MOST_MODELS);
    l->models[l->options.n_models++] = model;
    return QN_OK;
}

/* Kept in rising order. */
static qn_status add_batch(command_line *l, const char *word) {
    char *end;
    const long long batch = strtoll(word, &end, 10);
    int at = l->options.n_batches;
    if (*end || batch < 1 || batch > 1000000)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "--batches %s: it must be a whole number from 1 to 1000000", word);
    if (at == MOST_BATCHES)
        return qn_fail(QN_ERROR_ARGUMENT, "--batches: more than %d", MOST_BATCHES);
    for (int i = 0; i < at; i++) {
        if (l->batches[i] == batch)
            return QN_OK;
    }
    for (; at > 0 && l->batches[at - 1] > batch; at--)
        l->batches[at] = l->batches[at - 1];
    l->batches[at] = batch;
    l->options.n_batches++;
    return QN_OK;
}

static qn_status read_models(command_line *l) {
    const char *list = arguments_get(l->a, "models");
    list = list ? list : l->scale->models;
    if (strcmp(list, "all") != 0)
        return read_list("models", list, l, add_model);
    for (int i = 0; qn_model_at(i); i++)
        QN_TRY(add_model(l, qn_model_at(i)->name));
    return QN_OK;
}

static qn_status read_batches(command_line *l) {
    const char *list = arguments_get(l->a, "batches");
    return read_list("batches", list ? list : l->scale->batches, l, add_batch);
}

static void add_setting(command_line *l, const char *name, const char *value) {
    l->settings[l->options.n_settings++] = (qn_study_setting){name, value};
}

/* What cells depend on. */
static void read_settings(command_line *l) {
    static const char *const names[] = {"interval",    "sysroot", "power",
                                        "description", "threads", "data"};
    snprintf(l->steps, sizeof l->steps, "%lld", (long long)l->options.steps);
    add_setting(l, "steps", l->steps);
    add_setting(l, "quick", l->scale == &quick ? "yes" : "no");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        add_setting(l, names[i], arguments_get(l->a, names[i]));
}

/* Pre-training, which the batch sizes share, tests of all days, and the days. */
static double drip_flops(const qn_model *model, const scale *s) {
    qn_model_size size = {0};
    if (qn_model_measure(model, model->input, model->n_classes, &size) != QN_OK)
        return 0;
    const double pretraining = 3.0 * (double)(s->n_pretraining * s->n_epochs) / N_DRIP_BATCHES;
    const double tests = (double)s->n_test * (QN_DRIP_DAYS + 1);
    return (double)size.forward_flops * (pretraining + tests + 3.0 * QN_DRIP_DAYS * QN_DRIP_IMAGES);
}

static qn_status command_of(void *user, const qn_cell *cell, int64_t steps, const char *path,
                            qn_arena *texts, const char **arguments);

static bool should_stop(void *user) {
    (void)user;
    return qn_was_interrupted();
}

static void tell(void *user, const qn_study *study, const qn_cell *cell);

static void warn(void *user, const char *text) {
    (void)user;
    terminal_note("warning: %s; the cell is run again", text);
}

static qn_status read_command_line(command_line *l) {
    const arguments *a = l->a;
    qn_study_options *o = &l->options;
    l->scale = arguments_flag(a, "quick") ? &quick : &full;
    QN_TRY(measuring_read(a, &l->measuring));
    QN_TRY(read_models(l));
    QN_TRY(read_batches(l));
    o->folder = arguments_get(a, "out");
    o->models = l->models;
    o->batches = l->batches;
    o->drip_model = qn_model_find(l->scale->drip_model);
    o->n_drip_batches = arguments_flag(a, "drip") ? N_DRIP_BATCHES : 0;
    o->drip_batches = drip_batches;
    o->drip_flops = drip_flops(o->drip_model, l->scale);
    o->steps = arguments_has(a, "steps") ? arguments_count(a, "steps") : l->scale->steps;
    o->least_s = arguments_has(a, "seconds") ? qn_decimal_read(arguments_get(a, "seconds"), NULL)
                                             : l->scale->least_s;
    o->n_threads = (int)arguments_count(a, "threads");
    o->memory_limit = (double)arguments_count(a, "memory-limit");
    o->retries = arguments_flag(a, "retry");
    o->sysroot = l->measuring.sysroot;
    o->settings = l->settings;
    o->user = l;
    o->command = command_of;
    o->should_stop = should_stop;
    o->tell = tell;
    o->warn = warn;
    read_settings(l);
    return QN_OK;
}

/* ---- the process of a cell ---- */

/* A command line that grows; full once memory is out. */
typedef struct words {
    qn_arena *texts;
    const char **to; /* (QN_STUDY_ARGUMENTS) with a null at its end */
    int n;
    bool is_out;
} words;

static void add(words *w, const char *word) {
    if (!word || w->n + 1 >= QN_STUDY_ARGUMENTS)
        w->is_out = true;
    else
        w->to[w->n++] = word;
}

static void add_option(words *w, const char *name, const char *value) {
    if (!value)
        return;
    add(w, qn_arena_format(w->texts, "--%s", name));
    add(w, value);
}

static void add_count(words *w, const char *name, int64_t count) {
    add_option(w, name, qn_arena_format(w->texts, "%lld", (long long)count));
}

static void add_profile(words *w, const command_line *l, const qn_cell *cell, int64_t steps,
                        const char *path) {
    static const char *const same[] = {"interval", "sysroot", "power", "description"};
    add(w, "profile");
    add(w, cell->model->name);
    add_option(w, "data", "synthetic");
    add_count(w, "batch", cell->batch);
    add_count(w, "steps", steps);
    add_count(w, "repeat", arguments_count(l->a, "repeat"));
    if (cell->kind == QN_CELL_INFERENCE)
        add(w, "--inference");
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        add_option(w, same[i], arguments_get(l->a, same[i]));
    /* The file of a cell that failed before is no file of measurements. */
    add_option(w, "metrics", path);
    add(w, "--force");
}

static void add_drip(words *w, const command_line *l, const qn_cell *cell) {
    char name[64];
    qn_cell_name(cell, name, sizeof name);
    add(w, "study");
    add_option(w, "only", qn_arena_text(w->texts, name));
    add_option(w, "out", l->options.folder);
    add_option(w, "data", arguments_get(l->a, "data"));
    if (l->scale == &quick)
        add(w, "--quick");
}

static qn_status command_of(void *user, const qn_cell *cell, int64_t steps, const char *path,
                            qn_arena *texts, const char **to) {
    const command_line *l = user;
    words w = {.texts = texts, .to = to};
    add(&w, "/proc/self/exe");
    if (cell->kind == QN_CELL_DRIP)
        add_drip(&w, l, cell);
    else
        add_profile(&w, l, cell, steps, qn_arena_text(texts, path));
    add_option(&w, "threads", arguments_get(l->a, "threads"));
    return w.is_out ? QN_ERROR_MEMORY : QN_OK;
}

/* ---- telling ---- */

static void format_left(double seconds, char *text, size_t bytes) {
    const long long s = seconds < 1e9 ? (long long)(seconds + 0.5) : 1000000000;
    if (s >= 3600)
        snprintf(text, bytes, "%lld:%02lld:%02lld left", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(text, bytes, "%lld:%02lld left", s / 60, s % 60);
}

static void format_run(const qn_cell *c, char *text, size_t bytes) {
    const double resident = c->m.resident_peak_bytes;
    char size[QN_SIZE_TEXT] = "unknown", busy[64] = "";
    if (isfinite(resident))
        qn_text_print_size((uint64_t)resident, size);
    if (c->m.others >= QN_LOAD_NOTED)
        qn_print(busy, sizeof busy, "; uncertain: other programs used %.0f %%", 100 * c->m.others);
    qn_print(text, bytes, "%.2f ms a step (%.2f to %.2f), %.1f samples/s, %s%s",
             c->m.step_ms_median, c->m.step_ms_low, c->m.step_ms_high, qn_cell_throughput(c), size,
             busy);
}

static void format_outcome(const qn_cell *c, char *text, size_t bytes) {
    const qn_drip *d = &c->drip;
    if (c->state == QN_CELL_FAILED || c->state == QN_CELL_LEFT_OUT)
        snprintf(text, bytes, "%s: %s", c->state == QN_CELL_FAILED ? "failed" : "left out",
                 c->reason);
    else if (c->kind == QN_CELL_DRIP)
        qn_print(text, bytes, "%.2f to %.2f %% in %d days", 100 * d->days[0].accuracy,
                 100 * d->days[d->n_days - 1].accuracy, d->n_days - 1);
    else
        format_run(c, text, bytes);
}

static void tell(void *user, const qn_study *study, const qn_cell *cell) {
    char title[128], outcome[400], left[40];
    const int n = qn_study_count(study), n_left = qn_study_count_in(study, QN_CELL_WAITING);
    (void)user;
    if (cell->state == QN_CELL_WAITING)
        return;
    qn_cell_title(cell, title, sizeof title);
    format_outcome(cell, outcome, sizeof outcome);
    format_left(qn_study_seconds_left(study), left, sizeof left);
    terminal_print(2, n_left > 0 ? "%d/%d %s: %s; about %s" : "%d/%d %s: %s", n - n_left, n, title,
                   outcome, left);
    fflush(stdout);
}

static void print_opening(const qn_study *study) {
    char left[40];
    const int n = qn_study_count(study), n_left = qn_study_count_in(study, QN_CELL_WAITING);
    format_left(qn_study_seconds_left(study), left, sizeof left);
    printf("%s\n", qn_study_machine(study));
    terminal_print(2, "%d cells, %d of them already measured; about %s", n, n - n_left, left);
    fflush(stdout);
}

static void print_findings(const qn_study *study) {
    qn_arena arena;
    qn_study_facts facts;
    qn_finding findings[QN_OBSERVATIONS];
    qn_arena_init(&arena, qn_allocator_default());
    if (qn_study_facts_make(study, &arena, &facts) == QN_OK) {
        qn_observations_judge(&facts, findings);
        for (int i = 0; i < QN_OBSERVATIONS; i++)
            terminal_print(26, "%2d %-22s %s", findings[i].number,
                           qn_verdict_text(findings[i].verdict), findings[i].claim);
    }
    qn_arena_deinit(&arena);
}

static void print_done(const qn_study *study) {
    const int n_failed = qn_study_count_in(study, QN_CELL_FAILED);
    const int n_left_out = qn_study_count_in(study, QN_CELL_LEFT_OUT);
    print_findings(study);
    if (n_failed > 0)
        printf("%d cell%s failed; --retry runs them again\n", n_failed, n_failed == 1 ? "" : "s");
    if (n_left_out > 0)
        printf("%d cell%s left out for lack of memory\n", n_left_out, n_left_out == 1 ? "" : "s");
    printf("results: %s/report.html, study.csv, study.json\n",
           terminal_name(qn_study_get_options(study)->folder));
}

/* ---- running ---- */

static int run_study(command_line *l) {
    qn_study *study = NULL;
    qn_status status = qn_study_open(&l->options, &study);
    if (status != QN_OK)
        return report_failure(status);
    qn_interrupt_watch(EXIT_FAILED);
    print_opening(study);
    status = qn_study_run(study);
    if (status == QN_OK)
        print_done(study);
    qn_study_close(study);
    if (status == QN_ERROR_INTERRUPTED) {
        report_failed_run();
        fputs("quern: the same command goes on from here\n", stderr);
        return EXIT_FAILED;
    }
    return status == QN_OK ? EXIT_DONE : report_failed_run();
}

/* --only drip-bN: what the study runs in a process of its own. */
static qn_status run_drip(const command_line *l, const char *name) {
    char folder[PATH_MAX], cell[PATH_MAX + 64], weights[PATH_MAX + 64];
    const qn_study_options *o = &l->options;
    qn_drip_options dripping = {.log = &session_log,
                                .model = o->drip_model,
                                .data = arguments_get(l->a, "data"),
                                .n_pretraining = l->scale->n_pretraining,
                                .n_epochs = l->scale->n_epochs,
                                .n_test = l->scale->n_test,
                                .n_threads = o->n_threads,
                                .weights = weights};
    qn_drip drip;
    if (strncmp(name, "drip-b", 6) != 0)
        return qn_fail(QN_ERROR_ARGUMENT, "--only %s: it must be as drip-b16", name);
    dripping.batch = strtoll(name + 6, NULL, 10);
    if (snprintf(folder, sizeof folder, "%s/cells", o->folder) >= (int)sizeof folder)
        return qn_fail(QN_ERROR_ARGUMENT, "--out %s: the path is too long", o->folder);
    snprintf(cell, sizeof cell, "%s/drip-b%lld.json", folder, (long long)dripping.batch);
    snprintf(weights, sizeof weights, "%s/drip.safetensors", folder);
    QN_TRY(qn_folder_create(folder));
    QN_TRY(qn_drip_run(&dripping, &drip));
    return qn_drip_write(&drip, cell);
}

static int run(const arguments *a) {
    command_line l = {.a = a};
    const char *only = arguments_get(a, "only");
    qn_status status = read_command_line(&l);
    if (status == QN_OK && !only)
        return run_study(&l);
    if (status == QN_OK)
        status = run_drip(&l, only);
    return status == QN_OK ? EXIT_DONE : report_failure(status);
}

const command command_study = {
    .name = "study",
    .summary = "Characterise training on this machine",
    .description =
        "Trains models at several batch sizes, each in a process of its own; measures time,\n"
        "utilisation, memory and energy; runs a drip training; and checks the twelve observations\n"
        "of the TX2 study (Liu et al. 2019) against the numbers. Results: DIR/report.html,\n"
        "DIR/study.csv, DIR/study.json. If a study is interrupted, the same command continues it.\n"
        "Cells that fail, or do not fit in memory, are rows with the reason.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .shared = {&measuring_options},
    .run = run,
    .makes_files = true,
};
