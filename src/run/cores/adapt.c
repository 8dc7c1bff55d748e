/* See cores.h: which way of running steps is the fastest while other programs come and go. Times
 * are means of windows of some milliseconds, as a system gives processors away for that long. */
#include "os/os.h"
#include "run/cores/cores.h"

/* Windows between two trials for small changes; steps after which all ways are tried in any
 * case. */
enum { REST = 6, EVERY = 512 };

static const int64_t window_ns = 20000000;

/* A window that differs so much from those before it calls for a trial: after a rest; at once. */
static const double small = 1.2, large = 1.45;

static bool is_possible(const qn_core_plans *c, int way) {
    return way != QN_CORES_BESIDE || c->other_plan;
}

int qn_cores_threads(const qn_core_plans *c, int way) {
    const int n = way < QN_CORES_FEWER ? c->n_threads : c->n_threads >> (way - QN_CORES_FEWER + 1);
    return n < 1 ? 1 : n;
}

static int count_ways(const qn_core_plans *c) {
    int n = QN_CORES_FEWER;
    for (int threads = c->n_threads / 2; threads > 0 && n < QN_CORES_WAYS; threads /= 2)
        n++;
    return n;
}

static void begin_window(qn_core_adapting *a) {
    a->ns = 0;
    a->n_steps = 0;
}

static void keep(qn_core_plans *c) {
    qn_core_adapting *a = &c->adapting;
    int best = -1;
    for (int way = 0; way < count_ways(c); way++) {
        if (is_possible(c, way) && (best < 0 || a->means_ns[way] < a->means_ns[best]))
            best = way;
    }
    c->use.n_changes += best != a->kept;
    a->kept = a->way = best;
    a->is_trial = false;
    a->mean_ns = a->means_ns[best];
    a->n_windows = 0;
    c->use.is_beside = best == QN_CORES_BESIDE;
    c->use.n_threads_used = qn_cores_threads(c, best);
}

/* The next way that there is; behind the last the best is kept. */
static void go_on(qn_core_plans *c) {
    qn_core_adapting *a = &c->adapting;
    do
        a->way++;
    while (a->way < count_ways(c) && !is_possible(c, a->way));
    if (a->way >= count_ways(c))
        keep(c);
}

static bool differs(double a, double b, double by) {
    return a > by * b || b > by * a;
}

static void end_window(qn_core_plans *c) {
    qn_core_adapting *a = &c->adapting;
    const double mean = a->ns / (double)a->n_steps;
    a->n_all += a->n_steps;
    if (a->is_trial) {
        a->means_ns[a->way] = mean;
        go_on(c);
    } else if (a->n_windows > 0 &&
               (differs(mean, a->mean_ns, a->n_windows > REST ? small : large) ||
                a->n_all >= EVERY)) {
        a->n_all = 0;
        a->is_trial = true;
        a->way = QN_CORES_ALL;
    } else {
        a->mean_ns = a->n_windows == 0 ? mean : 0.75 * a->mean_ns + 0.25 * mean;
        a->n_windows++;
    }
    begin_window(a);
}

void qn_cores_note(qn_core_plans *c, double ns) {
    qn_core_adapting *a = &c->adapting;
    a->ns += ns;
    a->n_steps++;
    if (a->ns >= (double)window_ns)
        end_window(c);
}
