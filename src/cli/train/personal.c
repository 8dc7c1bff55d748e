/* See personal.h. Energy is the meter's, where the device has a sensor for it. */
#include "cli/train/personal.h"

#include "base/decimal.h"
#include "base/print.h"
#include "base/status.h"
#include "cli/json.h"
#include "cli/terminal.h"
#include "os/os.h"
#include "os/process/interrupt.h"
#include "quern/meter.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const option options[] = {
    {.name = "personalise",
     .of = "language",
     .kind = OPTION_INPUT,
     .argument = "TEXT",
     .otherwise = "none",
     .help = "text of a user, a file or folder, which words are then learned from, too"},
    {.name = "personal-words",
     .of = "language",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 100,
     .most = 1e9,
     .fallback = "2000",
     .help = "words of the user's text to learn from; those behind them test"},
    {.name = "personal-rate",
     .of = "language",
     .kind = OPTION_NUMBER,
     .argument = "X",
     .most = 1,
     .otherwise = "a sixth of the recipe's",
     .help = "learning rate on the user's text"},
    {.name = "save-personal",
     .of = "language",
     .kind = OPTION_TARGET,
     .makes = QN_OWN_WEIGHTS,
     .argument = "FILE",
     .otherwise = "none",
     .help = "checkpoint of the network that was made the user's"},
};

const option_list personal_options = {options, sizeof options / sizeof options[0]};

typedef struct state {
    const training *t;
    qn_meter *meter;
    int64_t begin_ns;
    qn_personal result;
} state;

qn_status personal_check(const arguments *a) {
    const char *text = arguments_get(a, "personalise");
    if (!text && (arguments_has(a, "save-personal") || arguments_has(a, "personal-words")))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "--save-personal and --personal-words need --personalise TEXT");
    if (text && !qn_path_is_file(text) && !qn_path_is_folder(text))
        return qn_fail(QN_ERROR_IO, "--personalise %s: there is no such file or folder", text);
    return QN_OK;
}

qn_status personal_check_model(const arguments *a, const qn_model *model) {
    if (!arguments_get(a, "personalise") || model->has_words)
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT,
                   "--personalise needs a network that predicts words, such as next-word, not %s",
                   model->name);
}

/* ---- while it runs ---- */

static bool should_stop(void *user) {
    (void)user;
    return qn_was_interrupted();
}

static void step(void *user) {
    qn_meter_mark(((state *)user)->meter);
}

static void judge(void *user, int64_t epoch, const qn_metrics *m) {
    char line[120];
    (void)user;
    qn_print(line, sizeof line, "personalising, epoch %lld: validation perplexity %.1f",
             (long long)epoch, qn_metrics_get(m, "perplexity"));
    terminal_show(line);
}

/* ---- what came of it ---- */

/* Joules of all steps; NaN where nothing says them. *is_estimated: by a model of the device. */
static double find_joules(const state *s, bool *is_estimated) {
    qn_meter_summary summary;
    if (!s->meter || s->result.n_steps == 0 || qn_meter_report(s->meter, &summary) != QN_OK)
        return (double)NAN;
    *is_estimated = summary.energy_is_estimated;
    return summary.energy_mj_per_step * 1e-3 * (double)s->result.n_steps;
}

static void print_json(const state *s, double seconds, double joules, bool is_estimated) {
    static const char *const sides[] = {"before", "after"};
    const qn_personal *r = &s->result;
    json_begin();
    json_text("event", "personal");
    json_count("train_words", r->n_words[QN_TRAIN]);
    json_count("validation_words", r->n_words[QN_VALIDATION]);
    json_count("test_words", r->n_words[QN_TEST]);
    json_count("new_words", r->n_new);
    json_count("steps", r->n_steps);
    json_count("epoch", r->epoch);
    json_number("seconds", seconds);
    json_number("joules", joules);
    json_flag("joules_are_estimated", is_estimated);
    for (int i = 0; i < 2; i++) {
        const qn_metrics *m = i ? &r->after : &r->before;
        for (int j = 0; j < m->n; j++) {
            char key[64];
            snprintf(key, sizeof key, "%s_%s", m->list[j].name, sides[i]);
            json_number(key, m->list[j].value);
        }
    }
    json_end();
}

static void print_lines(const state *s, double seconds, double joules, bool is_estimated) {
    const qn_personal *r = &s->result;
    char energy[40] = "";
    if (isfinite(joules))
        qn_print(energy, sizeof energy, ", %.1f J%s", joules, is_estimated ? " (estimated)" : "");
    terminal_print(2,
                   "personalised with %lld words of the user, of which %lld validate; %lld words "
                   "are new; %lld steps, epoch %lld is kept, %.1f s%s",
                   (long long)(r->n_words[QN_TRAIN] + r->n_words[QN_VALIDATION]),
                   (long long)r->n_words[QN_VALIDATION], (long long)r->n_new, (long long)r->n_steps,
                   (long long)r->epoch, seconds, energy);
    printf("  of the next %lld words:   before    after\n", (long long)r->n_words[QN_TEST]);
    for (int i = 0; i < r->after.n; i++) {
        const qn_metric *b = &r->before.list[i], *m = &r->after.list[i];
        const double unit = m->is_fraction ? 100 : 1;
        char words[40];
        printf("  %-22s %8.2f %8.2f%s\n", metric_words(m->name, words, sizeof words),
               unit * b->value, unit * m->value, m->is_fraction ? " %" : "");
    }
    fflush(stdout);
}

static qn_status save(const training *t, const qn_task *task, const qn_metadata *pairs) {
    const char *path = arguments_get(t->a, "save-personal");
    if (!path)
        return QN_OK;
    QN_TRY(qn_checkpoint_save(qn_task_engine(task), pairs, path));
    if (!t->progress.is_json)
        printf("saved to %s\n", terminal_name(path));
    return QN_OK;
}

static qn_status personalise(state *s, qn_metadata *pairs) {
    const training *t = s->t;
    const char *rate = arguments_get(t->a, "personal-rate");
    const qn_personal_options o = {QN_OPTIONS_INIT(qn_personal_options),
                                   .text = arguments_get(t->a, "personalise"),
                                   .n_words = arguments_count(t->a, "personal-words"),
                                   .rate = rate ? qn_decimal_read(rate, NULL) : 0,
                                   .user = s,
                                   .stepped = step,
                                   .judged = judge,
                                   .should_stop = should_stop};
    qn_task *personal;
    bool is_estimated = false;
    QN_TRY(qn_task_personalise(t->s.task, &o, pairs, &personal, &s->result));
    const double seconds = (double)(qn_clock_ns() - s->begin_ns) * 1e-9;
    terminal_clear();
    qn_meter_stop(s->meter);
    const double joules = find_joules(s, &is_estimated);
    if (t->progress.is_json)
        print_json(s, seconds, joules, is_estimated);
    else
        print_lines(s, seconds, joules, is_estimated);
    const qn_status status = save(t, personal, pairs);
    qn_task_close(personal);
    return status;
}

qn_status personal_run(training *t) {
    state s = {.t = t, .begin_ns = qn_clock_ns()};
    const qn_meter_options metered = {QN_OPTIONS_INIT(qn_meter_options)};
    qn_metadata *pairs;
    if (!arguments_get(t->a, "personalise"))
        return QN_OK;
    QN_TRY(qn_metadata_create(NULL, &pairs));
    if (qn_meter_start(&metered, &s.meter) != QN_OK)
        s.meter = NULL;
    const qn_status status = personalise(&s, pairs);
    qn_meter_destroy(s.meter);
    qn_metadata_destroy(pairs);
    return status;
}
