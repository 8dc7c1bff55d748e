/* See progress.h. */
#include "cli/progress.h"

#include "cli/json.h"
#include "os/os.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const int64_t second_ns = 1000000000;

void progress_begin(progress *p) {
    p->has_bar = isatty(STDERR_FILENO) && !(p->is_json && isatty(STDOUT_FILENO));
    p->times.stride = 1;
    p->begin_ns = p->shown_ns = qn_clock_ns();
}

void progress_clear(progress *p) {
    fflush(stdout);
    if (p->has_bar)
        fputs("\r\033[K", stderr);
}

/* ---- step times ---- */

static void note_time(step_times *t, int64_t nanoseconds) {
    enum { SKIPPED = 3 };
    const int64_t i = t->n_seen++ - SKIPPED;
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

/* "loss 0.3211   accuracy 88.1 %   12345 samples/s   0:12 left" */
static void format_state(const progress *p, const qn_step_result *result, int64_t now_ns,
                         char *text, size_t bytes) {
    char left[32], accuracy[40] = "";
    const double elapsed = (double)(now_ns - p->begin_ns) * 1e-9;
    const double remaining = (double)(p->total_steps - result->step);
    format_duration(elapsed / (double)p->n_steps * remaining, left, sizeof left);
    if (!p->is_regression)
        snprintf(accuracy, sizeof accuracy, "   accuracy %.1f %%", 100 * p->accuracy / p->weight);
    const double rate = progress_samples_per_second(p);
    snprintf(text, bytes, "loss %.4f%s   %.*f samples/s   %s left", p->loss / p->weight, accuracy,
             rate < 10 ? 2 : 0, rate, left);
}

/* "epoch 2/3" */
static void format_epoch(const progress *p, const qn_step_result *result, char *text,
                         size_t bytes) {
    const double n_epochs = ceil((double)p->total_steps / p->epoch_steps - 1e-9);
    const double epoch = floor((double)(result->step - 1) / p->epoch_steps) + 1;
    snprintf(text, bytes, "epoch %.0f/%.0f", epoch < n_epochs ? epoch : n_epochs, n_epochs);
}

static void draw_bar(progress *p, const qn_step_result *result, const char *epoch,
                     const char *state) {
    enum { WIDTH = 20 };
    char bar[WIDTH + 1];
    const int n_full = (int)(WIDTH * result->step / p->total_steps);
    for (int i = 0; i < WIDTH; i++)
        bar[i] = i < n_full ? '#' : '.';
    bar[WIDTH] = 0;
    fprintf(stderr, "\r%s [%s] %s\033[K", epoch, bar, state);
    fflush(stderr);
}

static void show(progress *p, const qn_step_result *result, int64_t now_ns) {
    char epoch[40], state[160];
    format_epoch(p, result, epoch, sizeof epoch);
    format_state(p, result, now_ns, state, sizeof state);
    if (p->has_bar) {
        draw_bar(p, result, epoch, state);
        return;
    }
    printf("%s   step %lld/%lld   %s\n", epoch, (long long)result->step, (long long)p->total_steps,
           state);
    fflush(stdout);
    p->loss = p->accuracy = p->weight = 0;
}

/* Plain lines come every 5 seconds at first, then ever more rarely. */
static bool is_due(const progress *p, int64_t now_ns) {
    const int64_t tenth = (now_ns - p->begin_ns) / 10;
    const int64_t pause = p->has_bar              ? second_ns / 10
                          : tenth > 5 * second_ns ? tenth
                                                  : 5 * second_ns;
    return now_ns - p->shown_ns >= pause;
}

static void print_step_json(const qn_step_result *result, bool is_regression) {
    json_begin();
    json_text("event", "step");
    json_count("step", result->step);
    json_number("loss", result->loss);
    json_number("accuracy", is_regression ? NAN : result->accuracy);
    json_end();
}

void progress_step(progress *p, const qn_step_result *result, int64_t nanoseconds) {
    const double fade = p->has_bar ? 0.98 : 1;
    p->n_steps++;
    p->step = result->step;
    p->training_ns += nanoseconds;
    note_time(&p->times, nanoseconds);
    p->loss = p->loss * fade + result->loss;
    p->accuracy = p->accuracy * fade + result->accuracy;
    p->weight = p->weight * fade + 1;
    if (p->is_json)
        print_step_json(result, p->is_regression);
    const int64_t now_ns = qn_clock_ns();
    if ((p->is_json && !p->has_bar) || !is_due(p, now_ns))
        return;
    show(p, result, now_ns);
    p->shown_ns = now_ns;
}

static void print_epoch_json(const progress *p, const qn_epoch_result *result) {
    json_begin();
    json_text("event", "epoch");
    json_count("epoch", result->epoch);
    json_number("train_loss", result->train_loss);
    json_number("test_loss", result->has_test ? result->test_loss : NAN);
    json_number("test_accuracy",
                result->has_test && !p->is_regression ? result->test_accuracy : NAN);
    json_number("samples_per_second", result->samples_per_second);
    json_end();
}

static void print_epoch(const progress *p, const qn_epoch_result *result) {
    /* A run of --steps may end within an epoch. */
    if ((double)p->step - (double)result->epoch * p->epoch_steps >= 1)
        printf("after step %lld", (long long)p->step);
    else
        printf("epoch %lld", (long long)result->epoch);
    printf(": train loss %.4f", result->train_loss);
    if (result->has_test)
        printf(", test loss %.4f", result->test_loss);
    if (result->has_test && !p->is_regression)
        printf(", test accuracy %.2f %%", 100 * result->test_accuracy);
    printf(", %.*f samples/s\n", result->samples_per_second < 10 ? 2 : 0,
           result->samples_per_second);
}

void progress_epoch(progress *p, const qn_epoch_result *result) {
    p->has_test = result->has_test;
    p->test_loss = result->test_loss;
    p->test_accuracy = result->test_accuracy;
    progress_clear(p);
    if (p->is_json)
        print_epoch_json(p, result);
    else
        print_epoch(p, result);
    fflush(stdout);
    if (!p->has_bar)
        p->shown_ns = qn_clock_ns();
}
