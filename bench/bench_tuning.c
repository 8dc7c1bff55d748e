/* What tuning gains: trains nothing, but makes a trainer for each model with `--tune full`, and
 * then times each product of its training step by the fixed rules and as it was tuned, in turn; the
 * times are others than those that chose the tiling.
 *     bench_tuning [THREADS [BATCH [PAIRS [MODEL...]]]]    as bench_tuning 1 16 30 resnet50
 * A time is the least of all pairs, of the processor's time where there is one thread, each after
 * so much else was read that the processor's own caches hold little of what the product needs.
 * Prints each product that is tiled otherwise, and for each model the geometric mean over its
 * products, that over those tiled otherwise, the worst and the best of them, and what the products
 * of a step take less. Set XDG_CACHE_HOME to an empty folder to tune anew. */
#include "device/cpu/cpu.h"
#include "quern/quern.h"
#include "run/tuning/tuner.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int n_threads = 1, n_pairs = 30;

static void stop(const char *what) {
    fprintf(stderr, "bench_tuning: %s: %s\n", what, qn_error_message());
    exit(2);
}

static double clock_ns(void) {
    return (double)(n_threads == 1 ? qn_thread_cpu_ns() : qn_clock_ns());
}

static double time_call(const qn_engine *e, const qn_call *call, qn_tiling tiling) {
    e->tuner->trial = (qn_tiling_trial){.tiling = tiling};
    qn_tuner_sweep(e);
    const double begin_ns = clock_ns();
    qn_cpu_run(call);
    return clock_ns() - begin_ns;
}

/* Sums over the products of a model. */
typedef struct totals {
    int n, n_tiled;
    double log_all, log_tiled, worst, best, fixed_ns, tuned_ns;
} totals;

static void print_tiling(const char *name, qn_tiling tiling, double fixed_ns, double gain) {
    printf("  %-44s %9.1f us  %.3f ", name, fixed_ns * 1e-3, gain);
    for (int kind = 0; kind < QN_TILING_COUNT; kind++) {
        if (tiling.kinds[kind])
            printf(" %s %d", qn_tiling_names[kind], tiling.kinds[kind]);
    }
    printf("\n");
}

static void time_product(const qn_engine *e, const qn_call *call, qn_tiling tiling, totals *sums) {
    const qn_tiling fixed = {{0}};
    double fixed_ns = INFINITY, tuned_ns = INFINITY;
    const bool is_tiled = memcmp(&tiling, &fixed, sizeof tiling) != 0;
    for (int i = 0; i < n_pairs; i++) {
        fixed_ns = fmin(fixed_ns, time_call(e, call, fixed));
        if (is_tiled)
            tuned_ns = fmin(tuned_ns, time_call(e, call, tiling));
    }
    if (!is_tiled)
        tuned_ns = fixed_ns;
    const double gain = fixed_ns / tuned_ns;
    sums->n++;
    sums->fixed_ns += fixed_ns;
    sums->tuned_ns += tuned_ns;
    sums->log_all += log(gain);
    if (!is_tiled)
        return;
    sums->worst = sums->n_tiled == 0 || gain < sums->worst ? gain : sums->worst;
    sums->best = sums->n_tiled == 0 || gain > sums->best ? gain : sums->best;
    sums->n_tiled++;
    sums->log_tiled += log(gain);
    print_tiling(call->node->name, tiling, fixed_ns, gain);
}

/* Each step counts, also where another has the same shape. */
static void time_program(qn_engine *e, totals *sums) {
    const qn_program *p = &e->programs[0];
    qn_tuner *t = e->tuner;
    t->tilings.trial = &t->trial;
    for (int32_t s = 0; s < p->plan->n_steps; s++) {
        const qn_call *call = qn_executor_get_call(p->executor, s);
        t->trial = (qn_tiling_trial){.is_question = true};
        if (!call->cpu->takes_tiling || !call->in[0] || !call->in[1])
            continue;
        qn_cpu_run(call);
        const size_t place = qn_tilings_place(&t->tilings, t->trial.key);
        if (qn_tilings_has(&t->tilings, t->trial.key))
            time_product(e, call, t->tilings.entries[place].tiling, sums);
    }
    t->tilings.trial = NULL;
}

static void bench_model(const char *name, int64_t batch) {
    const qn_model *model = qn_model_find(name);
    qn_trainer *trainer;
    totals sums = {0};
    if (!model)
        stop("no such model");
    qn_trainer_options o = qn_trainer_options_for(model);
    o.batch = batch;
    o.n_threads = n_threads;
    o.tune = QN_TUNE_FULL;
    printf("%s, batch %lld, %d thread%s\n", name, (long long)batch, n_threads,
           n_threads == 1 ? "" : "s");
    if (qn_trainer_create(&o, &trainer) != QN_OK)
        stop(name);
    qn_engine *e = qn_trainer_engine(trainer);
    const qn_kernel_tuning_use use = qn_engine_get_kernel_tuning(e);
    time_program(e, &sums);
    printf("  %lld products in %.1f s, %d steps, %d tiled otherwise: geometric mean %.4f, of those "
           "cut "
           "otherwise %.4f (%.3f to %.3f); all products of a step %.1f ms, %.1f ms tuned\n",
           (long long)use.n_products, (double)use.ns * 1e-9, sums.n, sums.n_tiled,
           exp(sums.log_all / fmax(1, sums.n)), exp(sums.log_tiled / fmax(1, sums.n_tiled)),
           sums.worst, sums.best, sums.fixed_ns * 1e-6, sums.tuned_ns * 1e-6);
    fflush(stdout);
    qn_trainer_destroy(trainer);
}

int main(int argc, char **argv) {
    static const char *const usual[] = {"squeezenet", "mobilenet-v2", "resnet50"};
    const int64_t batch = argc > 2 ? atoll(argv[2]) : 16;
    n_threads = argc > 1 ? atoi(argv[1]) : 1;
    n_pairs = argc > 3 ? atoi(argv[3]) : 30;
    for (int i = 4; i < argc; i++)
        bench_model(argv[i], batch);
    for (size_t i = 0; argc < 5 && i < sizeof usual / sizeof *usual; i++)
        bench_model(usual[i], batch);
    return 0;
}
