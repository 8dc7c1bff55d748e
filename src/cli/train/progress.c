/* See progress.h. */
#include "cli/train/progress.h"

#include "base/print.h"
#include "cli/json.h"
#include "cli/session.h"
#include "cli/terminal.h"
#include "os/os.h"
#include "os/terminal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t second_ns = 1000000000;

void progress_begin(progress *p) {
    p->has_bar = terminal_moves() && !(p->is_json && qn_terminal_is_output()) && !p->is_quiet;
    p->times.stride = 1;
    p->begin_ns = p->shown_ns = qn_clock_ns();
}

void progress_clear(progress *p) {
    fflush(stdout);
    if (p->has_bar)
        terminal_clear();
}

/* ---- step times ---- */

static void note_time(step_times *t, int64_t nanoseconds) {
    const int64_t i = t->n_seen++ - t->n_skipped;
    if (i < 0 || i % t->stride != 0)
        return;
    if (t->n_times == PROGRESS_TIMES) {
        t->n_times /= 2;
        t->stride *= 2;
        for (int k = 0; k < t->n_times; k++)
            t->ns[k] = t->ns[2 * k];
        if (i % t->stride != 0)
            return;
    }
    t->ns[t->n_times++] = nanoseconds;
}

static int compare_times(const void *left, const void *right) {
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

double progress_median_ms(progress *p) {
    step_times *t = &p->times;
    const int n = t->n_times;
    if (n == 0)
        return NAN;
    qsort(t->ns, (size_t)n, sizeof t->ns[0], compare_times);
    return ((double)t->ns[(n - 1) / 2] + (double)t->ns[n / 2]) / 2e6;
}

double progress_mean_ms(const progress *p) {
    double sum = 0;
    for (int i = 0; i < p->times.n_times; i++)
        sum += (double)p->times.ns[i] * 1e-6;
    return sum / p->times.n_times;
}

double progress_samples_per_second(const progress *p) {
    return p->training_ns > 0
               ? (double)(p->n_steps * p->step_samples) / ((double)p->training_ns * 1e-9)
               : NAN;
}

/* ---- what a person sees ---- */

static void format_duration(double seconds, char *text, size_t bytes) {
    const long long s = seconds < 1e9 ? (long long)(seconds + 0.5) : 1000000000;
    if (s < 3600)
        snprintf(text, bytes, "%lld:%02lld", s / 60, s % 60);
    else
        snprintf(text, bytes, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
}

/* "loss 0.3211   accuracy 88.1 %   ", of the first n metrics at most. */
static void format_metrics(const progress *p, int n, char *text, size_t bytes) {
    char words[40];
    size_t used = 0;
    *text = 0;
    for (int i = 0; i < p->sums.n && i < n; i++) {
        const qn_metric *m = &p->sums.list[i];
        if (p->weights[i] > 0 && used < bytes)
            used += (size_t)qn_print(text + used, bytes - used,
                                     m->is_fraction ? "%s %.1f %%   "
                                     : m->is_count  ? "%s %.0f   "
                                                    : "%s %.4f   ",
                                     metric_words(m->name, words, sizeof words),
                                     (m->is_fraction ? 100 : 1) * m->value / p->weights[i]);
    }
}

/* "12345 samples/s   " */
static void format_rate(const progress *p, char *text, size_t bytes) {
    const double rate = progress_samples_per_second(p);
    qn_print(text, bytes, "%.*f %s/s   ", rate < 10 ? 2 : 0, rate, p->unit);
}

/* "0:12 left" */
static void format_left(const progress *p, int64_t step, int64_t now_ns, char *text, size_t bytes) {
    char left[32];
    const double elapsed = (double)(now_ns - p->begin_ns) * 1e-9;
    format_duration(elapsed / (double)p->n_steps * (double)(p->total_steps - step), left,
                    sizeof left);
    snprintf(text, bytes, "%s left", left);
}

/* "epoch 2/3" */
static void format_epoch(const progress *p, int64_t step, char *text, size_t bytes) {
    if (!(p->epoch_steps > 0)) {
        snprintf(text, bytes, "step %lld/%lld", (long long)step, (long long)p->total_steps);
        return;
    }
    const double n_epochs = ceil((double)p->total_steps / p->epoch_steps - 1e-9);
    const double epoch = floor((double)(step - 1) / p->epoch_steps) + 1;
    qn_print(text, bytes, "epoch %.0f/%.0f", epoch < n_epochs ? epoch : n_epochs, n_epochs);
}

/* What a line has when it gets ever shorter: width of the bar (0: none), metrics, the rate. */
static const struct {
    int bar, n_metrics;
    bool has_rate;
} contents[] = {{20, 8, true}, {10, 8, true}, {10, 8, false}, {10, 2, false},
                {0, 2, false}, {0, 1, false}, {0, 0, false}};

static void format_bar(const progress *p, int64_t step, int width, char *text) {
    const int n_full = (int)(width * step / p->total_steps);
    *text = 0;
    if (width == 0)
        return;
    *text++ = '[';
    for (int i = 0; i < width; i++)
        *text++ = i < n_full ? '#' : '.';
    memcpy(text, "] ", sizeof "] ");
}

/* The fullest line that fits the columns. */
static void draw_bar(const progress *p, int64_t step, int64_t now_ns) {
    enum { N_CONTENTS = sizeof contents / sizeof contents[0] };
    const int columns = terminal_columns();
    char line[512], epoch[64], bar[32], metrics[320], rate[64], left[48];
    format_epoch(p, step, epoch, sizeof epoch);
    format_rate(p, rate, sizeof rate);
    format_left(p, step, now_ns, left, sizeof left);
    for (int i = 0; i < N_CONTENTS; i++) {
        format_bar(p, step, contents[i].bar, bar);
        format_metrics(p, contents[i].n_metrics, metrics, sizeof metrics);
        const int n = snprintf(line, sizeof line, "%s %s%s%s%s", epoch, bar, metrics,
                               contents[i].has_rate ? rate : "", left);
        if (n <= columns)
            break;
    }
    terminal_show(line);
}

static void print_plain(const progress *p, int64_t step, int64_t now_ns) {
    char epoch[64], metrics[320], rate[64], left[48];
    format_epoch(p, step, epoch, sizeof epoch);
    format_metrics(p, p->sums.n, metrics, sizeof metrics);
    format_rate(p, rate, sizeof rate);
    format_left(p, step, now_ns, left, sizeof left);
    if (p->epoch_steps > 0)
        printf("%s   step %lld/%lld   %s%s%s\n", epoch, (long long)step, (long long)p->total_steps,
               metrics, rate, left);
    else
        printf("%s   %s%s%s\n", epoch, metrics, rate, left);
    fflush(stdout);
}

static void show(progress *p, int64_t step, int64_t now_ns) {
    if (p->has_bar) {
        draw_bar(p, step, now_ns);
        return;
    }
    print_plain(p, step, now_ns);
    p->sums.n = 0;
}

/* Plain lines come every 5 seconds at first, then ever more rarely. */
static bool is_due(const progress *p, int64_t now_ns) {
    const int64_t tenth = (now_ns - p->begin_ns) / 10;
    const int64_t pause = p->has_bar              ? second_ns / 10
                          : tenth > 5 * second_ns ? tenth
                                                  : 5 * second_ns;
    return now_ns - p->shown_ns >= pause;
}

static void print_step_json(int64_t step, const qn_metrics *metrics) {
    json_begin();
    json_text("event", "step");
    json_count("step", step);
    for (int i = 0; i < metrics->n; i++)
        json_number(metrics->list[i].name, metrics->list[i].value);
    json_end();
}

/* Adds a step to the sums. A metric that there is not yet (no episode has ended) counts for
 * nothing. */
static void add_metrics(progress *p, const qn_metrics *metrics) {
    const double fade = p->has_bar ? 0.98 : 1;
    for (int i = 0; i < metrics->n; i++) {
        if (p->sums.n <= i) {
            p->sums.list[i] = metrics->list[i];
            p->sums.list[i].value = p->weights[i] = 0;
            p->sums.n = i + 1;
        }
        if (isnan(metrics->list[i].value))
            continue;
        const double kept = metrics->list[i].is_count ? 0 : fade;
        p->sums.list[i].value = p->sums.list[i].value * kept + metrics->list[i].value;
        p->weights[i] = p->weights[i] * kept + 1;
    }
}

void progress_step(progress *p, int64_t step, const qn_metrics *metrics, int64_t nanoseconds) {
    p->n_steps++;
    p->step = step;
    p->training_ns += nanoseconds;
    p->epoch_ns += nanoseconds;
    p->n_epoch_steps++;
    p->epoch_loss += qn_metrics_get(metrics, "loss");
    note_time(&p->times, nanoseconds);
    add_metrics(p, metrics);
    if (p->is_quiet)
        return;
    if (p->is_json)
        print_step_json(step, metrics);
    const int64_t now_ns = qn_clock_ns();
    if ((p->is_json && !p->has_bar) || !is_due(p, now_ns))
        return;
    show(p, step, now_ns);
    p->shown_ns = now_ns;
}

void progress_add_test(const progress *p) {
    const qn_metrics *names = p->has_test ? &p->test : &p->sums;
    char name[64];
    for (int i = 0; i < names->n; i++) {
        snprintf(name, sizeof name, "test_%s", names->list[i].name);
        json_number(name, p->has_test ? names->list[i].value : NAN);
    }
    for (int i = 0; p->has_validation && i < p->validation.n; i++) {
        snprintf(name, sizeof name, "validation_%s", p->validation.list[i].name);
        json_number(name, p->validation.list[i].value);
    }
}

void progress_test_text(const progress *p, size_t bytes, char *text) {
    const qn_metrics *both[] = {p->has_validation ? &p->validation : NULL,
                                p->has_test ? &p->test : NULL};
    char words[40];
    *text = 0;
    for (int k = 0; k < 2; k++) {
        for (int i = 0; both[k] && i < both[k]->n; i++) {
            const qn_metric *m = &both[k]->list[i];
            const size_t used = strlen(text);
            qn_print(text + used, bytes - used, m->is_fraction ? ", %s %s %.2f %%" : ", %s %s %.4f",
                     k ? "test" : "validation", metric_words(m->name, words, sizeof words),
                     m->is_fraction ? 100 * m->value : m->value);
        }
    }
}

static double epoch_rate(const progress *p) {
    return p->epoch_ns ? 1e9 * (double)(p->n_epoch_steps * p->step_samples) / (double)p->epoch_ns
                       : 0;
}

static double train_loss(const progress *p) {
    return p->n_epoch_steps ? p->epoch_loss / (double)p->n_epoch_steps : NAN;
}

static void print_epoch_json(const progress *p, int64_t epoch) {
    json_begin();
    json_text("event", "epoch");
    json_count("epoch", epoch);
    json_number("train_loss", train_loss(p));
    progress_add_test(p);
    json_number("samples_per_second", epoch_rate(p));
    json_end();
}

static void print_epoch(const progress *p, int64_t epoch) {
    char test[512];
    /* A run of --steps may end within an epoch. */
    if (!(p->epoch_steps > 0) || (double)p->step - (double)epoch * p->epoch_steps >= 1)
        printf("after step %lld", (long long)p->step);
    else
        printf("epoch %lld", (long long)epoch);
    if (p->n_epoch_steps > 0)
        printf(": train loss %.4f", train_loss(p));
    progress_test_text(p, sizeof test, test);
    fputs(test, stdout);
    if (p->n_epoch_steps > 0)
        printf(", %.*f %s/s", epoch_rate(p) < 10 ? 2 : 0, epoch_rate(p), p->unit);
    putchar('\n');
}

void progress_epoch(progress *p, int64_t epoch, const qn_metrics *test,
                    const qn_metrics *validation) {
    p->has_test = test != NULL;
    p->has_validation = validation != NULL;
    if (test)
        p->test = *test;
    if (validation)
        p->validation = *validation;
    progress_clear(p);
    if (p->is_json)
        print_epoch_json(p, epoch);
    else
        print_epoch(p, epoch);
    fflush(stdout);
    p->epoch_loss = 0;
    p->n_epoch_steps = p->epoch_ns = 0;
    if (!p->has_bar)
        p->shown_ns = qn_clock_ns();
}
