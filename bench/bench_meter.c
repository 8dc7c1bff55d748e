/* What measuring costs: training steps with the meter against steps without, in turn within one
 * process, so that nothing but the meter differs. Usage: bench_meter [ROUNDS [MODEL:BATCH ...]].
 * A round runs a stretch of steps without the meter and one at each interval of sampling, in an
 * order that goes on by one from round to round. An interval's cost is the median over the rounds
 * of (median step with / median step without - 1); the quartiles beside it say how much the
 * machine's own unrest counts. The exit status is 1 where a cost is above what is allowed.
 * Stretches are short, since the machine's speed drifts, and rounds many; of a large model there
 * are fewer, ten at the least and no more after five minutes. */
#include "base/memory.h"
#include "os/os.h"
#include "quern/quern.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_SETTINGS = 3, MOST_ROUNDS = 10000, MOST_STEPS = 4096 };
enum { WARM_STEPS = 3, LEAST_STEPS = 3, STRETCH_NS = 30000000, LEAST_ROUNDS = 10 };

#define MOST_NS (INT64_C(300) * 1000000000)

/* Setting 0 is without the meter. */
static const int interval_ms[N_SETTINGS] = {0, 10, 1};
static const double allowed[N_SETTINGS] = {0, 0.01, 0.03};

typedef struct cell {
    qn_trainer *trainer;
    float *x;
    int32_t *y;
    int64_t batch;
    int n_steps;                             /* of a stretch */
    double step_ms[N_SETTINGS][MOST_ROUNDS]; /* mean of a stretch */
} cell;

static void stop_if(qn_status status) {
    if (status == QN_OK)
        return;
    fprintf(stderr, "%s\n", qn_error_message());
    exit(2);
}

static int by_value(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* The value below which a part of them lies. Sorts them. */
static double quantile(double *values, int n, double part) {
    qsort(values, (size_t)n, sizeof *values, by_value);
    const double at = part * (n - 1);
    const int low = (int)at, high = low + 1 < n ? low + 1 : low;
    return values[low] + (at - low) * (values[high] - values[low]);
}

static double step_ms(cell *c, qn_meter *meter) {
    qn_step_result result;
    const int64_t begin_ns = qn_clock_ns();
    stop_if(qn_trainer_step(c->trainer, c->x, c->y, &result));
    qn_meter_mark(meter);
    return (double)(qn_clock_ns() - begin_ns) * 1e-6;
}

/* The mean of the steps of a stretch, the slowest twentieth of them left out. Sorts them. */
static double mean_step(double *times, int n) {
    const int n_kept = n - n / 20;
    double sum = 0;
    qsort(times, (size_t)n, sizeof *times, by_value);
    for (int i = 0; i < n_kept; i++)
        sum += times[i];
    return sum / n_kept;
}

/* The mean step of a stretch at a setting. Its first step is left out. */
static double run_stretch(cell *c, int setting) {
    static double times[MOST_STEPS];
    const qn_meter_options options = {QN_OPTIONS_INIT(qn_meter_options),
                                      .engine = qn_trainer_engine(c->trainer),
                                      .samples_per_step = (double)c->batch,
                                      .interval_ns = (int64_t)interval_ms[setting] * 1000000};
    qn_meter *meter = NULL;
    if (setting > 0)
        stop_if(qn_meter_start(&options, &meter));
    step_ms(c, meter);
    for (int i = 0; i < c->n_steps; i++)
        times[i] = step_ms(c, meter);
    qn_meter_stop(meter);
    qn_meter_destroy(meter);
    return mean_step(times, c->n_steps);
}

static void open_cell(cell *c, const char *name, int64_t batch) {
    const qn_model *model = qn_model_find(name);
    if (!model || batch < 1) {
        fprintf(stderr, "%s:%lld: no such model or batch\n", name, (long long)batch);
        exit(2);
    }
    qn_trainer_options options = qn_trainer_options_for(model);
    options.batch = batch;
    options.update.rate = 1e-6; /* the same batch again and again: it is not to diverge */
    stop_if(qn_trainer_create(&options, &c->trainer));
    const qn_shape input = qn_trainer_get_options(c->trainer)->input;
    const int64_t n_classes = qn_trainer_get_options(c->trainer)->n_outputs;
    size_t n = (size_t)batch;
    for (int i = 0; i < input.rank; i++)
        n *= (size_t)input.dims[i];
    c->batch = batch;
    c->x = calloc(n, sizeof *c->x);
    c->y = calloc((size_t)batch, sizeof *c->y);
    if (!c->x || !c->y)
        exit(2);
    for (size_t i = 0; i < n; i++)
        c->x[i] = (float)(i * 2654435761u % 1000) / 500 - 1;
    for (int64_t i = 0; i < batch; i++)
        c->y[i] = (int32_t)(i % n_classes);
    for (int i = 1; i < WARM_STEPS; i++)
        step_ms(c, NULL);
    const double once_ns = 1e6 * step_ms(c, NULL);
    c->n_steps = once_ns * LEAST_STEPS > STRETCH_NS ? LEAST_STEPS : (int)(STRETCH_NS / once_ns);
    c->n_steps = c->n_steps < MOST_STEPS ? c->n_steps : MOST_STEPS;
}

static void close_cell(cell *c) {
    qn_trainer_destroy(c->trainer);
    free(c->x);
    free(c->y);
}

/* The line of a setting; whether its cost is allowed. */
static bool print_setting(const cell *c, const char *name, int setting, int n_rounds) {
    static double costs[MOST_ROUNDS], without[MOST_ROUNDS], with[MOST_ROUNDS];
    for (int i = 0; i < n_rounds; i++) {
        without[i] = c->step_ms[0][i];
        with[i] = c->step_ms[setting][i];
        costs[i] = with[i] / without[i] - 1;
    }
    const double cost = quantile(costs, n_rounds, 0.5);
    const double low = quantile(costs, n_rounds, 0.25), high = quantile(costs, n_rounds, 0.75);
    /* Of a normal distribution: quartiles 1.35 standard deviations apart, a median 1.25 as unsure
     * as a mean. */
    const double error = 1.25 * (high - low) / 1.35 / sqrt(n_rounds);
    const bool is_kept = cost <= allowed[setting];
    printf(
        "| %s | %lld | %d | %.3f | %.3f | %+.2f ± %.2f %% | %+.2f to %+.2f %% | %.0f %% | %s |\n",
        name, (long long)c->batch, interval_ms[setting], quantile(without, n_rounds, 0.5),
        quantile(with, n_rounds, 0.5), 100 * cost, 100 * error, 100 * low, 100 * high,
        100 * allowed[setting], is_kept ? "yes" : "NO");
    fflush(stdout);
    return is_kept;
}

static bool measure(const char *name, int64_t batch, int n_rounds) {
    static cell c;
    bool are_kept = true;
    int round = 0;
    memset(&c, 0, sizeof c);
    open_cell(&c, name, batch);
    const int64_t end_ns = qn_clock_ns() + MOST_NS;
    for (; round < n_rounds && (round < LEAST_ROUNDS || qn_clock_ns() < end_ns); round++)
        for (int i = 0; i < N_SETTINGS; i++) {
            const int setting = (round + i) % N_SETTINGS;
            c.step_ms[setting][round] = run_stretch(&c, setting);
        }
    for (int setting = 1; setting < N_SETTINGS; setting++)
        are_kept = print_setting(&c, name, setting, round) && are_kept;
    close_cell(&c);
    return are_kept;
}

int main(int argc, char **argv) {
    static char *usual[] = {"lenet5:32", "resnet50:16"};
    const int n_rounds = argc > 1 ? atoi(argv[1]) : 1500;
    char **cells = argc > 2 ? argv + 2 : usual;
    const int n_cells = argc > 2 ? argc - 2 : 2;
    bool are_kept = true;
    if (n_rounds < 2 || n_rounds > MOST_ROUNDS) {
        fprintf(stderr, "usage: bench_meter [ROUNDS (2 to %d) [MODEL:BATCH ...]]\n", MOST_ROUNDS);
        return 2;
    }
    puts("| model | batch | interval, ms | without, ms | with, ms | cost | quartiles | allowed | "
         "kept |\n"
         "|---|--:|--:|--:|--:|--:|--:|--:|---|");
    for (int i = 0; i < n_cells; i++) {
        char name[64] = "";
        long long batch = 0;
        sscanf(cells[i], "%63[^:]:%lld", name, &batch);
        are_kept = measure(name, batch, n_rounds) && are_kept;
    }
    return are_kept ? 0 : 1;
}
