/* quern plan --max-batch: the largest and the fastest batch within a budget; see plan.h. The batch
 * is doubled while it fits; then follows a binary search. */
#include "base/status.h"
#include "base/text.h"
#include "cli/json.h"
#include "cli/plan/plan.h"
#include "cli/terminal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MOST_TRIES = 64 };

/* A batch that fits. */
typedef struct trial {
    int64_t batch;
    size_t peak_bytes;
    double base_ns, extra_ns; /* of a step: all training programs */
} trial;

typedef struct search {
    planning *p;
    int n_trials;
    trial trials[MOST_TRIES]; /* (n_trials), by batch */
    int64_t fits, fails;      /* largest that fits; smallest that does not, 0: unknown */
    bool is_data_limit;       /* the data has no larger batch */
} search;

/* Where somebody looks on. */
static void show_progress(const search *s, int64_t batch) {
    char line[80];
    snprintf(line, sizeof line, "planning batch %" PRId64 " ...", batch);
    if (!arguments_flag(s->p->a, "json"))
        terminal_show(line);
}

static void add_trial(search *s, const planned_task *task, int64_t batch) {
    const qn_engine *engine = planned_engine(task);
    trial t = {.batch = batch, .peak_bytes = planned_peak_bytes(task)};
    for (int i = 0; i < qn_engine_program_count(engine); i++) {
        qn_report_program program = planned_program(task, i);
        if (!program.is_training)
            continue;
        planned_times(&program);
        t.base_ns += program.base_ns;
        t.extra_ns += program.extra_ns;
    }
    int at = s->n_trials < MOST_TRIES ? s->n_trials++ : MOST_TRIES - 1;
    for (; at > 0 && s->trials[at - 1].batch > batch; at--)
        s->trials[at] = s->trials[at - 1];
    s->trials[at] = t;
}

/* Whether a batch can be planned within the budget. Too large a batch for the data counts as too
 * large, unless it is the first. */
static qn_status try_batch(search *s, int64_t batch, bool *does_fit) {
    const planned_as as = {.batch = batch, .is_search = true};
    planned_task task;
    show_progress(s, batch);
    qn_status status = planned_open(&task, s->p, &as);
    *does_fit = status == QN_OK;
    if (status == QN_OK)
        add_trial(s, &task, batch);
    planned_close(&task);
    s->is_data_limit = status == QN_ERROR_FORMAT;
    const bool is_too_large = status == QN_ERROR_MEMORY || status == QN_ERROR_FORMAT;
    return is_too_large && s->fits > 0 ? QN_OK : status;
}

static qn_status search_batches(search *s) {
    while (s->fails == 0 || s->fails - s->fits > 1) {
        const int64_t batch =
            s->fails == 0 ? s->fits > 0 ? 2 * s->fits : 1 : s->fits + (s->fails - s->fits) / 2;
        bool does_fit;
        QN_TRY(try_batch(s, batch, &does_fit));
        if (does_fit)
            s->fits = batch;
        else
            s->fails = batch;
        if (batch > INT32_MAX / 4)
            break;
    }
    return QN_OK;
}

static double step_ns(const trial *t) {
    return t->base_ns + t->extra_ns;
}

static const trial *find_fastest(const search *s) {
    const trial *best = &s->trials[0];
    for (int i = 1; i < s->n_trials; i++) {
        const trial *t = &s->trials[i];
        if (step_ns(t) * (double)best->batch < step_ns(best) * (double)t->batch)
            best = t;
    }
    return best;
}

static void print_batches(const search *s) {
    char peak[QN_SIZE_TEXT];
    printf("%8s %12s %12s %12s %10s\n", "batch", "peak", "ms a step", "ms a sample", "slowdown");
    for (int i = 0; i < s->n_trials; i++) {
        const trial *t = &s->trials[i];
        printf("%8" PRId64 " %12s %12.2f %12.4f %10.3f\n", t->batch,
               qn_text_print_size(t->peak_bytes, peak), step_ns(t) * 1e-6,
               step_ns(t) * 1e-6 / (double)t->batch, step_ns(t) / t->base_ns);
    }
    printf("the largest batch that fits is %" PRId64
           "%s; the fastest a sample, as estimated, %" PRId64 "\n\n",
           s->fits, s->is_data_limit ? ", as far as the data goes" : "", find_fastest(s)->batch);
}

static void print_batches_json(const search *s) {
    json_begin();
    json_text("event", "batches");
    json_count("largest_batch", s->fits);
    json_count("fastest_batch", find_fastest(s)->batch);
    json_open_list("batches");
    for (int i = 0; i < s->n_trials; i++) {
        const trial *t = &s->trials[i];
        json_begin_item();
        json_count("batch", t->batch);
        json_count("peak_bytes", (int64_t)t->peak_bytes);
        json_number("step_ms", step_ns(t) * 1e-6);
        json_number("sample_ms", step_ns(t) * 1e-6 / (double)t->batch);
        json_number("slowdown", step_ns(t) / t->base_ns);
        json_end_item();
    }
    json_close_list();
    json_end();
}

qn_status plan_batches(planning *p) {
    search s = {.p = p};
    char batch[24];
    const qn_status status = search_batches(&s);
    terminal_clear();
    if (status != QN_OK)
        return status;
    if (arguments_flag(p->a, "json"))
        print_batches_json(&s);
    else
        print_batches(&s);
    snprintf(batch, sizeof batch, "%" PRId64, s.fits);
    return settings_set(&p->settings, "batch", batch);
}
