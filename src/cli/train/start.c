/* See start.h. */
#include "cli/train/start.h"

#include "base/print.h"
#include "base/status.h"
#include "cli/data_name.h"
#include "cli/json.h"
#include "cli/terminal.h"
#include "os/process/interrupt.h"
#include "tasks/tasks.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

/* Published networks have their form for photos from 128 pixels on; 260 are what the largest of
 * them was trained for. */
enum { LEAST_SIDE = 128, MOST_SIDE = 260, BATCH = 8 };

static const char usual_model[] = "squeezenet"; /* of photos, from random weights */

static const option rows[] = {
    {.name = "start",
     .of = "classification",
     .kind = OPTION_TEXT,
     .argument = "NAME|auto|none",
     .is_kept = true,
     .otherwise = "none with a MODEL, else auto",
     .help = "weights to fit a head to, for images:DIR (quern pretrained)"},
};

const option_list start_options = {rows, sizeof rows / sizeof rows[0]};

/* What steps, the body or another beginning need, and a fit has not. */
static const char *const of_steps[] = {
    "load",         "head",      "train-only",    "freeze",          "requires-grad",
    "update",       "lr-for",    "lora",          "epochs",          "steps",
    "lr",           "optimizer", "momentum",      "nesterov",        "proximal",
    "weight-decay", "beta1",     "schedule",      "warmup",          "clip-norm",
    "accumulate",   "augment",   "early-stop",    "label-smoothing", "numerics",
    "personalise",  "device",    "class-weights", "schedule-steps",  "plan"};

static const char *option_value(const training *t, const char *name) {
    return option_find(t->a->command, name) < 0 ? NULL : arguments_get(t->a, name);
}

static bool are_photos(const char *data) {
    return data && strncmp(data, "images:", 7) == 0;
}

static qn_status check_options(const training *t) {
    for (size_t i = 0; i < sizeof of_steps / sizeof *of_steps; i++) {
        if (option_find(t->a->command, of_steps[i]) >= 0 && arguments_has(t->a, of_steps[i]))
            return qn_fail(QN_ERROR_ARGUMENT,
                           "--%s changes nothing with a start, whose head is fitted at once; "
                           "leave it out, or train in steps: MODEL --start none",
                           of_steps[i]);
    }
    return QN_OK;
}

static qn_status refuse(const pretrained_list *list, const char *wanted) {
    char names[512] = "";
    size_t used = 0;
    for (size_t i = 0; i < list->n && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                                 list->files[i].name);
    return qn_fail(QN_ERROR_ARGUMENT,
                   "no trained weights %s in %s; there are: %s (script/pretrained fetches some)",
                   wanted, list->folder ? list->folder : "a data folder", *names ? names : "none");
}

/* The first of a model for pictures. */
static const pretrained_file *find_best(const pretrained_list *list, const char *model) {
    for (size_t i = 0; i < list->n; i++) {
        const pretrained_file *file = &list->files[i];
        qn_shape input;
        if ((!model || strcmp(model, file->model) == 0) && qn_shape_parse(file->input, &input) &&
            input.rank == 3 && input.dims[0] >= LEAST_SIDE)
            return file;
    }
    return NULL;
}

static void say_random(const training *t, const char *model) {
    if (!arguments_flag(t->a, "json"))
        terminal_note("start: random weights of %s; a start from trained weights needs far fewer "
                      "pictures: script/pretrained fetches some",
                      model);
}

static qn_status choose_among(training *t, const char *wanted, const char **name) {
    const bool is_auto = !wanted || strcmp(wanted, "auto") == 0;
    const char *model = t->a->n_words > 0 ? t->a->words[0] : NULL;
    const pretrained_file *file =
        is_auto ? find_best(&t->starts, model) : pretrained_find(&t->starts, wanted);
    if (!file && !is_auto)
        return refuse(&t->starts, wanted);
    if (!file) {
        *name = model ? model : usual_model;
        say_random(t, *name);
        return QN_OK;
    }
    if (model && strcmp(model, file->model) != 0)
        return qn_fail(QN_ERROR_ARGUMENT, "%s is of %s, not of %s; leave the model out", file->path,
                       file->model, model);
    t->start = file;
    *name = file->model;
    return check_options(t);
}

qn_status start_choose(training *t, const char **name) {
    const char *wanted = option_value(t, "start"), *data = option_value(t, "data");
    const bool is_asked = wanted && strcmp(wanted, "none") != 0;
    if (option_find(t->a->command, "start") < 0 || arguments_has(t->a, "resume"))
        return QN_OK;
    if (is_asked && !are_photos(data))
        return qn_fail(QN_ERROR_ARGUMENT, "--start %s is for photos in folders: --data images:DIR",
                       wanted);
    if (!are_photos(data) || (*name && !is_asked))
        return QN_OK;
    if (wanted && !is_asked) {
        *name = usual_model;
        return QN_OK;
    }
    t->has_starts = true;
    QN_TRY(pretrained_list_open(NULL, &t->starts));
    return choose_among(t, wanted, name);
}

/* The input that was asked for, or that of the weights. */
static qn_status set_input(training *t) {
    const char *text = option_value(t, "input");
    qn_shape shape;
    char input[QN_SHAPE_TEXT];
    if (!qn_shape_parse(text ? text : t->start->input, &shape) || shape.rank != 3 ||
        shape.dims[0] != shape.dims[1] || shape.dims[0] < LEAST_SIDE || shape.dims[0] > MOST_SIDE ||
        shape.dims[2] != 3)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "--input is %s; a start takes colour pictures of %d to %d pixels a side: "
                       "--input %d",
                       text ? text : t->start->input, LEAST_SIDE, MOST_SIDE, LEAST_SIDE);
    return settings_set(&t->settings, "input", qn_shape_print(shape, input));
}

/* The largest batch of features that a budget has room for, by what the first stages of these
 * networks hold of a picture; 1 where it has none. */
static int64_t fit_batch(const training *t) {
    const int64_t budget = arguments_count(t->a, "memory"), fixed = 20 << 20, of_pixel = 160;
    int64_t batch = BATCH;
    qn_shape shape;
    if (!qn_shape_parse(settings_get(&t->settings, "input"), &shape))
        return batch;
    while (budget > 0 && batch > 1 &&
           fixed + batch * of_pixel * shape.dims[0] * shape.dims[1] > budget)
        batch /= 2;
    return batch;
}

bool start_shrinks_batch(training *t) {
    const int64_t batch = settings_count(&t->settings, "batch");
    char text[24];
    if (!t->start || arguments_has(t->a, "batch") || arguments_count(t->a, "memory") <= 0 ||
        batch < 2)
        return false;
    snprintf(text, sizeof text, "%lld", (long long)batch / 2);
    return settings_set(&t->settings, "batch", text) == QN_OK;
}

qn_status start_set(training *t) {
    char batch[24];
    if (!t->start)
        return QN_OK;
    QN_TRY(set_input(t));
    snprintf(batch, sizeof batch, "%lld", (long long)fit_batch(t));
    QN_TRY(settings_set(&t->settings, "start", t->start->name));
    QN_TRY(settings_set(&t->settings, "load", t->start->path));
    QN_TRY(settings_set(&t->settings, "head", "data"));
    QN_TRY(settings_set(&t->settings, "train-only", "head"));
    QN_TRY(settings_set(&t->settings, "augment", "none"));
    QN_TRY(settings_set(&t->settings, "steps", "1"));
    return arguments_has(t->a, "batch") ? QN_OK : settings_set(&t->settings, "batch", batch);
}

bool start_is_due(const training *t) {
    const char *start = qn_metadata_get(t->s.pairs, QN_START);
    return start && strcmp(start, "none") != 0 && qn_engine_steps(qn_task_engine(t->s.task)) == 0;
}

static bool should_stop(void *user) {
    (void)user;
    return qn_was_interrupted();
}

static void print_json(const char *start, int64_t n_made, double seconds, const qn_head_fit *fit) {
    json_begin();
    json_text("event", "head");
    json_text("start", start);
    json_count("pictures_computed", n_made);
    json_number("seconds", seconds);
    json_count("folds", fit->n_folds);
    json_number("decay", fit->decay);
    if (fit->n_folds > 0) {
        json_number("accuracy", fit->accuracy);
        json_number("calibration_error", fit->calibration_error);
        json_number("temperature", fit->temperature);
        json_number("unsure_below", fit->unsure);
        json_number("answered", fit->answered);
    }
    json_end();
}

static void print_held_out(const qn_head_fit *fit) {
    char unsure[160] = "no answer is sure enough to be right 95 times in 100: all are unsure";
    if (fit->answered > 0)
        qn_print(unsure, sizeof unsure,
                 "below %.1f %% an answer is unsure; at least 95 %% of the others are right, which "
                 "are %.0f %% of all",
                 100 * fit->unsure, 100 * fit->answered);
    terminal_print(2,
                   "held out in turn (%d parts): accuracy %.1f %%, calibration error %.1f %%; %s",
                   fit->n_folds, 100 * fit->accuracy, 100 * fit->calibration_error, unsure);
}

static void print_fit(const training *t, int64_t n_made, double seconds, const qn_head_fit *fit) {
    const qn_task_facts facts = qn_task_get_facts(t->s.task);
    terminal_print(2,
                   "features: %lld pictures and their mirror images, %lld of them computed now; "
                   "head fitted, decay %.3g; %.1f s",
                   (long long)facts.n_samples[QN_TRAIN], (long long)n_made, fit->decay, seconds);
    if (fit->n_folds > 0)
        print_held_out(fit);
    else
        terminal_print(2, "a class has a single picture: how sure answers are is not known");
    fflush(stdout);
}

qn_status start_fit(training *t) {
    qn_task *task = t->s.task;
    const char *start = qn_metadata_get(t->s.pairs, QN_START);
    const int64_t begin_ns = qn_clock_ns();
    int64_t n_made = 0;
    qn_head_fit fit;
    if (!task->kind->fit_head)
        return qn_fail(QN_ERROR_UNSUPPORTED, "--start is for classifiers of pictures");
    QN_TRY(task->kind->fit_head(task, should_stop, NULL, &n_made, &fit));
    qn_engine_set_steps(qn_task_engine(task), 1);
    t->first_step = 1;
    const double seconds = (double)(qn_clock_ns() - begin_ns) / 1e9;
    if (arguments_flag(t->a, "json"))
        print_json(start, n_made, seconds, &fit);
    else
        print_fit(t, n_made, seconds, &fit);
    return QN_OK;
}
