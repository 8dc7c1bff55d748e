/* See cores.h: times of operations. Each is run with one thread and with all, in turn, and its
 * shortest times count. What was not run takes the ratio of its nearest neighbour, by FLOPs and
 * bytes, to its estimate. How good that is, is found by predicting those that were measured. */
#include "run/cores/cores.h"

#include "base/status.h"
#include "device/cpu/cpu.h"
#include "ops/ops.h"
#include "os/os.h"
#include "run/rehearsal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 4 };

static const int64_t most_ns = 3000000000;

/* A step: its work, and what was measured; ns[1] below 0: nothing. */
typedef struct timed {
    const qn_op *op;
    qn_cost cost;
    double ns[2]; /* on one core, on all */
} timed;

typedef struct timing {
    qn_engine *engine;
    const qn_program *program;
    const qn_cores *cores;
    timed *steps;   /* (n) */
    double *errors; /* (2 n) */
    int32_t n, n_errors;
} timing;

static double run_once(const timing *t, int32_t step, bool is_wide) {
    qn_call call = *qn_executor_get_call(t->program->executor, step);
    call.team = is_wide ? t->engine->team : NULL;
    const int64_t begin_ns = qn_clock_ns();
    qn_cpu_run(&call);
    return (double)(qn_clock_ns() - begin_ns);
}

static void time_step(const timing *t, int32_t step) {
    timed *s = &t->steps[step];
    for (int is_wide = 0; is_wide < 2; is_wide++) {
        const double ns = run_once(t, step, is_wide == 1);
        s->ns[is_wide] = s->ns[is_wide] < 0 || ns < s->ns[is_wide] ? ns : s->ns[is_wide];
    }
}

/* Step after step, as in training, so that caches hold what they do then. */
static void time_steps(const timing *t) {
    const int64_t until_ns = qn_clock_ns() + most_ns;
    for (int round = 0; round < ROUNDS && (round == 0 || qn_clock_ns() < until_ns); round++) {
        for (int32_t s = 0; s < t->n; s++) {
            if (qn_rehearsal_can_run(t->engine, qn_executor_get_call(t->program->executor, s)))
                time_step(t, s);
        }
    }
}

/* ---- prediction ---- */

static double distance(const timed *a, const timed *b) {
    const double flops = log((double)a->cost.flops + 1) - log((double)b->cost.flops + 1);
    const double bytes = log((double)a->cost.bytes + 1) - log((double)b->cost.bytes + 1);
    return fabs(flops) + fabs(bytes) + (a->op == b->op ? 0 : 20);
}

static bool is_alike(const timed *a, const timed *b) {
    return a->op == b->op && a->cost.flops == b->cost.flops && a->cost.bytes == b->cost.bytes;
}

/* The nearest that was measured, or -1; of those that are not alike only. */
static int32_t find_nearest(const timing *t, int32_t step, bool unlike) {
    int32_t nearest = -1;
    double least = 0;
    for (int32_t i = 0; i < t->n; i++) {
        if (i == step || t->steps[i].ns[1] < 0 ||
            (unlike && is_alike(&t->steps[i], &t->steps[step])))
            continue;
        const double d = distance(&t->steps[i], &t->steps[step]);
        if (nearest >= 0 && d >= least)
            continue;
        nearest = i;
        least = d;
    }
    return nearest;
}

/* Times of a step by a neighbour's: its time for each unit of the estimate's, and its speedup. */
static void predict(const timing *t, int32_t step, int32_t nearest, double ns[2]) {
    const timed *s = &t->steps[step], *by = &t->steps[nearest];
    const qn_curve own = qn_curve_estimate(t->cores, &s->cost);
    const qn_curve other = qn_curve_estimate(t->cores, &by->cost);
    ns[0] = by->ns[0] * own.alone_ns / other.alone_ns;
    ns[1] = by->ns[1] * own.alone_ns / other.alone_ns;
}

static int compare(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Predicts what was measured by those of other shapes. */
static void find_errors(timing *t, qn_cores_use *use) {
    for (int32_t s = 0; s < t->n; s++) {
        const int32_t nearest = t->steps[s].ns[1] < 0 ? -1 : find_nearest(t, s, true);
        double ns[2];
        if (nearest < 0)
            continue;
        predict(t, s, nearest, ns);
        for (int i = 0; i < 2; i++)
            t->errors[t->n_errors++] = fabs(ns[i] / t->steps[s].ns[i] - 1);
    }
    qsort(t->errors, (size_t)t->n_errors, sizeof *t->errors, compare);
    use->median_error = t->n_errors > 0 ? t->errors[t->n_errors / 2] : 0;
    use->most_errors = t->n_errors > 0 ? t->errors[t->n_errors * 9 / 10] : 0;
}

static void fill_curves(const timing *t, qn_tasks *tasks, qn_cores_use *use) {
    for (int32_t s = 0; s < t->n; s++) {
        timed *step = &t->steps[s];
        const int32_t nearest = step->ns[1] < 0 ? find_nearest(t, s, false) : -1;
        double ns[2] = {step->ns[0], step->ns[1]};
        use->n_measured += step->ns[1] >= 0;
        if (nearest >= 0)
            predict(t, s, nearest, ns);
        tasks->curves[s] = ns[1] < 0
                               ? qn_curve_estimate(t->cores, &step->cost)
                               : qn_curve_fit(t->cores, &step->cost, ns[0], ns[1], t->cores->n);
    }
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
    time_steps(t);
    find_errors(t, use);
    fill_curves(t, tasks, use);
}

qn_status qn_cores_measure(qn_engine *e, const qn_program *program, const qn_cores *cores,
                           qn_tasks *tasks, qn_cores_use *use) {
    timing t = {.engine = e, .program = program, .cores = cores, .n = tasks->n};
    const qn_status status = allocate(&t);
    if (status == QN_OK)
        measure(&t, tasks, use);
    qn_release(&e->allocator, t.steps, (size_t)t.n + 1, sizeof *t.steps);
    qn_release(&e->allocator, t.errors, 2 * (size_t)t.n + 1, sizeof *t.errors);
    return status;
}
