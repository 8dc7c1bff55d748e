/* The ways of running a training step over the cores, by turns in one process, once training has
 * chosen among them: one by one on all threads, on half of them, ..., and side by side.
 *     bench_ways [SECONDS [BATCH,... [MODEL...]]]    as bench_ways 1 1,4 googlenet
 * A cell opens the model as `quern train --cores auto --data synthetic` does, trains until a way is
 * kept and has been compared once more, and then runs every way by turns, a window of steps each,
 * for so many seconds. Medians are of windows behind the choice, so none of them is better by
 * having been chosen. A line has milliseconds of a step by way, what was kept, how many times as
 * fast that is as one by one on all threads and as the best number of threads (the least of both
 * is 1 where one by one is kept), the bound (all cores always busy), and steps from the first to
 * the choice. Then geometric means. Set XDG_CACHE_HOME to an empty folder, as schedules are kept
 * there; with LATER=1 the schedule is found in training's own steps, as without --cores. */
#include "base/status.h"
#include "os/os.h"
#include "quern/quern.h"
#include "run/cores/cores.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROUNDS = 400, LEAST_ROUNDS = 8, MOST_STEPS = 100000 };

static const double window_ns = 10e6;

typedef struct cell {
    const char *model;
    int64_t batch;
    int n_threads, kept, n_steps; /* n_steps: until the choice */
    int n_rounds;
    double ns[QN_CORES_WAYS]; /* of a step, 0: there is no such way */
    double bound_ns, profile_ns;
    bool is_cached;
} cell;

typedef struct totals {
    int n;
    double over_all, over_best, bound, beside, least, most;
} totals;

static double seconds = 1;

static void stop(const char *what) {
    fprintf(stderr, "bench_ways: %s: %s\n", what, qn_error_message());
    exit(2);
}

static void check(qn_status status, const char *what) {
    if (status != QN_OK)
        stop(what);
}

static int by_value(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, by_value);
    return n == 0 ? 0 : (values[(n - 1) / 2] + values[n / 2]) / 2;
}

static qn_task *open_task(const char *model, int64_t batch) {
    qn_task_options options = {QN_TASK_OPTIONS_INIT, .model = qn_model_find(model),
                               .training = true};
    char text[32];
    qn_task *task;
    if (!options.model)
        stop(model);
    options.engine.cores = getenv("LATER") ? QN_CORES_LATER : QN_CORES_AUTO;
    snprintf(text, sizeof text, "%lld", (long long)batch);
    check(qn_metadata_create(NULL, &options.settings), model);
    check(qn_metadata_set(options.settings, "data", "synthetic"), model);
    check(qn_metadata_set(options.settings, "batch", text), model);
    check(qn_metadata_set(options.settings, "lr", "1e-7"), model);
    check(qn_metadata_set(options.settings, "steps", "1000000"), model);
    check(qn_task_open(&options, &task), model);
    return task;
}

static double run_step(qn_task *task, const char *model) {
    qn_metrics metrics;
    const int64_t begin_ns = qn_clock_ns();
    check(qn_task_step(task, &metrics), model);
    return (double)(qn_clock_ns() - begin_ns);
}

/* A window one way; what training would do next does not change. */
static double run_window(qn_task *task, qn_core_plans *c, int way, const char *model) {
    const qn_core_adapting kept = c->adapting;
    double ns = 0;
    int n = -1; /* the first step finds caches as the way before left them */
    while (n < 1 || ns < window_ns) {
        c->adapting = kept;
        c->adapting.way = way;
        const double step_ns = run_step(task, model);
        ns += n < 0 ? 0 : step_ns;
        n++;
    }
    c->adapting = kept;
    return ns / n;
}

static int count_ways(const qn_core_plans *c) {
    int n = QN_CORES_FEWER;
    while (n < QN_CORES_WAYS && (c->n_threads >> (n - QN_CORES_FEWER + 1)) > 0)
        n++;
    return n;
}

static void run_rounds(qn_task *task, qn_core_plans *c, cell *to) {
    static double ns[QN_CORES_WAYS][MOST_ROUNDS];
    const int64_t begin_ns = qn_clock_ns();
    int n = 0;
    while (n < MOST_ROUNDS &&
           (n < LEAST_ROUNDS || (double)(qn_clock_ns() - begin_ns) < seconds * 1e9)) {
        for (int way = 0; way < count_ways(c); way++)
            ns[way][n] =
                way == QN_CORES_BESIDE && !c->other_plan ? 0 : run_window(task, c, way, to->model);
        n++;
    }
    to->n_rounds = n;
    for (int way = 0; way < count_ways(c); way++)
        to->ns[way] = median(ns[way], n);
}

static bool is_chosen(const qn_core_plans *c) {
    return !c->later && !c->adapting.is_first && !c->adapting.is_trial && c->adapting.n_looks > 0;
}

static void measure(cell *to) {
    qn_task *task = open_task(to->model, to->batch);
    const qn_engine *engine = qn_task_engine(task);
    qn_core_plans *c = qn_cores_of(engine);
    if (!c)
        stop("one thread");
    while (!is_chosen(c) && to->n_steps < MOST_STEPS) {
        run_step(task, to->model);
        to->n_steps++;
    }
    const qn_cores_use use = qn_engine_get_cores(engine);
    to->kept = c->adapting.kept;
    to->n_threads = c->n_threads;
    to->bound_ns = use.bound_ns;
    to->profile_ns = (double)(use.measuring_ns + use.planning_ns);
    run_rounds(task, c, to);
    qn_task_close(task);
}

static const char *name_of(const cell *c, int way, char text[32]) {
    if (way == QN_CORES_BESIDE)
        return "beside";
    snprintf(text, 32, "%d",
             way < QN_CORES_FEWER ? c->n_threads : c->n_threads >> (way - QN_CORES_FEWER + 1));
    return text;
}

static void print_cell(const cell *c, totals *t) {
    char text[32];
    double best = c->ns[QN_CORES_ALL];
    printf("%-13s %3lld ", c->model, (long long)c->batch);
    for (int way = 0; way < QN_CORES_WAYS; way++) {
        if (c->ns[way] > 0)
            printf(" %s: %8.3f", name_of(c, way, text), c->ns[way] * 1e-6);
        if (way != QN_CORES_BESIDE && c->ns[way] > 0 && c->ns[way] < best)
            best = c->ns[way];
    }
    const double all = c->ns[QN_CORES_ALL] / c->ns[c->kept], over = best / c->ns[c->kept];
    const double beside = c->ns[QN_CORES_BESIDE];
    const double gain = beside > 0 ? c->ns[QN_CORES_ALL] / beside : 1;
    printf("  beside %.3f, kept %s: %.3f, over the best width %.3f; bound %.3f; chosen after %d "
           "steps, %.0f ms before; %d rounds\n",
           gain, name_of(c, c->kept, text), all, over, c->ns[QN_CORES_ALL] / c->bound_ns,
           c->n_steps, c->profile_ns * 1e-6, c->n_rounds);
    fflush(stdout);
    t->n++;
    t->over_all += log(all);
    t->over_best += log(over);
    t->bound += log(c->ns[QN_CORES_ALL] / c->bound_ns);
    t->beside += log(gain);
    t->least = t->n == 1 || over < t->least ? over : t->least;
    t->most = t->n == 1 || all > t->most ? all : t->most;
}

static void print_totals(const totals *t, const char *batch) {
    printf("batch %s, %d models, geometric means: kept over one by one %.3f, over the best width "
           "%.3f (least %.3f, best %.3f); side by side %.3f; bound %.3f\n",
           batch, t->n, exp(t->over_all / t->n), exp(t->over_best / t->n), t->least, t->most,
           exp(t->beside / t->n), exp(t->bound / t->n));
}

static void measure_batch(const char *batch, char **models, int n) {
    totals t = {0};
    for (int i = 0; i < n; i++) {
        cell c = {.model = models[i], .batch = strtoll(batch, NULL, 10)};
        measure(&c);
        print_cell(&c, &t);
    }
    if (t.n > 0)
        print_totals(&t, batch);
}

int main(int n_arguments, char **arguments) {
    char batches[64] = "1";
    if (n_arguments > 1)
        seconds = strtod(arguments[1], NULL);
    if (n_arguments > 2)
        snprintf(batches, sizeof batches, "%s", arguments[2]);
    for (char *at = batches, *batch; (batch = strsep(&at, ",")) != NULL;)
        measure_batch(batch, arguments + 3, n_arguments - 3);
    return 0;
}
