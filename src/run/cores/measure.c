/* See cores.h: times of operations. Steps are run operation by operation, with all threads and with
 * one in turn, and the shortest times count, so caches hold what they do in training. How well
 * times of other shapes are predicted by those of the nearest, by FLOPs and bytes, is found by
 * predicting what was measured. */
#include "run/cores/cores.h"

#include "base/status.h"
#include "device/cpu/cpu.h"
#include "ops/ops.h"
#include "os/os.h"
#include "run/rehearsal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 4, MOST_ROUNDS = 12 };

static const int64_t most_ns = 3000000000, enough_ns = 300000000;

static const double least_distance = 0.05; /* of shapes, as logarithms */

/* A step: its work, and what was measured; ns[1] below 0: nothing. */
typedef struct timed {
    const qn_op *op;
    qn_cost cost;
    double ns[2]; /* on one core, on all */
} timed;

typedef struct timing {
    const qn_engine *engine;
    const qn_rehearsal *rehearsal;
    const qn_program *program;
    const qn_cores *cores;
    timed *steps;   /* (n) */
    double *errors; /* (2 n) */
    int32_t n, n_errors;
    double least_ns[2]; /* of a step's operations together, on one core, on all */
} timing;

static double run_once(const timing *t, int32_t step, bool is_wide) {
    qn_call call = *qn_executor_get_call(t->program->executor, step);
    call.team = is_wide ? t->engine->team : NULL;
    const int64_t begin_ns = qn_clock_ns();
    qn_cpu_run(&call);
    return (double)(qn_clock_ns() - begin_ns);
}

static double time_step(const timing *t, int32_t step, bool is_wide) {
    timed *s = &t->steps[step];
    const double ns = run_once(t, step, is_wide);
    s->ns[is_wide] = s->ns[is_wide] < 0 || ns < s->ns[is_wide] ? ns : s->ns[is_wide];
    return ns;
}

static void time_round(timing *t, bool is_wide) {
    double all_ns = 0;
    for (int32_t s = 0; s < t->n; s++)
        all_ns += time_step(t, s, is_wide);
    t->least_ns[is_wide] = t->least_ns[is_wide] > 0 ? fmin(t->least_ns[is_wide], all_ns) : all_ns;
}

void qn_cores_scale_times(double *ns, size_t apart, int32_t n, double least_ns) {
    const size_t every = apart / sizeof *ns;
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += fmax(0, ns[(size_t)i * every]);
    for (int32_t i = 0; i < n && sum > 0; i++)
        ns[(size_t)i * every] *= least_ns / sum;
}

/* Whole steps, the first with all threads, as training begins. */
static void time_steps(timing *t, qn_cores_use *use) {
    const int64_t begin_ns = qn_clock_ns();
    for (int round = 0; round < MOST_ROUNDS; round++) {
        const int64_t ns = qn_clock_ns() - begin_ns;
        if (ns > most_ns || (round >= ROUNDS && ns > enough_ns))
            return;
        for (int is_wide = 1; is_wide >= 0; is_wide--) {
            time_round(t, is_wide == 1);
            use->n_profiled++;
        }
    }
}

/* ---- prediction ---- */

static double distance(const timed *a, const timed *b) {
    const double flops = log((double)a->cost.flops + 1) - log((double)b->cost.flops + 1);
    const double bytes = log((double)a->cost.bytes + 1) - log((double)b->cost.bytes + 1);
    return fabs(flops) + fabs(bytes);
}

static bool is_alike(const timed *a, const timed *b) {
    return a->op == b->op && a->cost.flops == b->cost.flops && a->cost.bytes == b->cost.bytes;
}

/* Times of a step by those of other shapes: the mean of their times for each unit of the
 * estimate's, the nearer the heavier. */
static bool predict(const timing *t, int32_t step, double ns[2]) {
    const timed *s = &t->steps[step];
    const double own = qn_curve_estimate(t->cores, &s->cost).alone_ns;
    double logs[2] = {0, 0}, sum = 0;
    for (int32_t i = 0; i < t->n; i++) {
        const timed *by = &t->steps[i];
        if (by->op != s->op || is_alike(by, s))
            continue;
        const double d = distance(by, s) + least_distance, weight = 1 / (d * d * d * d);
        const double other = qn_curve_estimate(t->cores, &by->cost).alone_ns;
        for (int w = 0; w < 2; w++)
            logs[w] += weight * log((by->ns[w] + 1) / other);
        sum += weight;
    }
    for (int w = 0; w < 2 && sum > 0; w++)
        ns[w] = own * exp(logs[w] / sum);
    return sum > 0;
}

static int compare(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Predicts what was measured by those of other shapes. */
static void find_errors(timing *t, qn_cores_use *use) {
    for (int32_t s = 0; s < t->n; s++) {
        double ns[2];
        if (!predict(t, s, ns))
            continue;
        for (int i = 0; i < 2; i++)
            t->errors[t->n_errors++] = fabs(ns[i] / t->steps[s].ns[i] - 1);
    }
    qsort(t->errors, (size_t)t->n_errors, sizeof *t->errors, compare);
    use->median_error = t->n_errors > 0 ? t->errors[t->n_errors / 2] : 0;
    use->most_errors = t->n_errors > 0 ? t->errors[t->n_errors * 9 / 10] : 0;
}

static void fill_curves(const timing *t, qn_tasks *tasks, qn_cores_use *use) {
    for (int32_t s = 0; s < t->n; s++) {
        const timed *step = &t->steps[s];
        tasks->curves[s] =
            qn_curve_fit(t->cores, &step->cost, step->ns[0], step->ns[1], t->cores->n);
    }
    use->n_measured = t->n;
}

static qn_status allocate(timing *t) {
    const qn_allocator *a = &t->engine->allocator;
    QN_TRY(qn_allocate(a, (size_t)t->n + 1, sizeof *t->steps, &t->steps));
    return qn_allocate(a, 2 * (size_t)t->n + 1, sizeof *t->errors, &t->errors);
}

static void measure(timing *t, qn_tasks *tasks, qn_cores_use *use) {
    const qn_program *p = t->program;
    for (int32_t s = 0; s < t->n; s++) {
        const qn_node *node = p->graph->nodes[p->plan->steps[s].node];
        t->steps[s] = (timed){.op = node->op, .cost = qn_node_cost(p->graph, node), .ns = {-1, -1}};
    }
    qn_rehearsal_bind(t->rehearsal, p->executor);
    time_steps(t, use);
    for (int is_wide = 0; is_wide < 2; is_wide++)
        qn_cores_scale_times(&t->steps[0].ns[is_wide], sizeof *t->steps, t->n,
                             t->least_ns[is_wide]);
    find_errors(t, use);
    fill_curves(t, tasks, use);
}

qn_status qn_cores_measure(const qn_rehearsal *rehearsal, const qn_cores *cores, qn_tasks *tasks,
                           qn_cores_use *use) {
    qn_engine *e = rehearsal->engine;
    timing t = {.engine = e,
                .rehearsal = rehearsal,
                .program = rehearsal->program,
                .cores = cores,
                .n = tasks->n};
    const qn_status status = allocate(&t);
    if (status == QN_OK)
        measure(&t, tasks, use);
    qn_release(&e->allocator, t.steps, (size_t)t.n + 1, sizeof *t.steps);
    qn_release(&e->allocator, t.errors, 2 * (size_t)t.n + 1, sizeof *t.errors);
    return status;
}
