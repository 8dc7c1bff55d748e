/* Which execution mode is kept (run/cores/adapt.c), with made up times: the fastest is found;
 * noise and small gains change nothing; when other programs come and go, the fastest mode is found
 * within a few steps, and trials that change nothing become rare. */
#include "base/rng.h"
#include "check.h"
#include "run/cores/cores.h"

/* Milliseconds of a step by mode: all threads, side by side, half, a quarter of them. */
typedef struct world {
    double ms[4];
    double noise; /* a part of it, at most */
} world;

static const world quiet = {{50, 40, 80, 160}, 0.02};
static const world busy = {{100, 130, 82, 162}, 0.02};

/* What cores had nothing to do for. */
static int64_t idle_ns;

static int64_t get_idle_ns(void) {
    return idle_ns;
}

static qn_core_plans begin_for(bool has_beside, const qn_core_wish *wish) {
    static char other;
    qn_core_plans c = {.n_threads = 4, .get_idle_ns = get_idle_ns};
    if (has_beside)
        c.other_plan = (qn_plan *)&other;
    c.use.n_threads_used = 4;
    c.schedule.ns = 40e6;
    c.schedule.joules = 0.2; /* 5 W */
    qn_cores_begin_trials(&c, wish);
    return c;
}

static qn_core_plans begin(bool has_beside) {
    return begin_for(has_beside, &(qn_core_wish){0});
}

/* A step of a world, one unit of time long for each millisecond; the mode it took. */
static int step(qn_core_plans *c, const world *w, double unit_ns, uint64_t number) {
    const qn_rng rng = qn_rng_make(7, 1, 0);
    const double draw = (double)qn_rng_below(rng, number, 1000) / 1000;
    const int mode = c->adapting.mode;
    const double ns = unit_ns * w->ms[mode] * (1 + w->noise * draw);
    idle_ns += w == &busy ? 0 : (int64_t)(ns * (4 - qn_cores_threads(c, mode)));
    qn_cores_note(c, ns);
    return mode;
}

static int count_steps_until(qn_core_plans *c, const world *w, int mode, uint64_t number) {
    int n = 0;
    for (; n < 100 && (c->adapting.is_trial || c->adapting.kept != mode); n++)
        step(c, w, 1e6, number + (uint64_t)n);
    return n;
}

static void test_first(void) {
    qn_core_plans c = begin(true);
    int n = 0;
    for (; c.adapting.is_first && n < 100; n++)
        step(&c, &quiet, 1e6, (uint64_t)n);
    CHECK(c.adapting.kept == QN_CORES_BESIDE && c.use.is_beside && c.use.is_measured);
    CHECK(c.use.measured_gain > 1.2 && c.use.measured_gain < 1.3);
    CHECK(n <= 20 && c.use.n_changes == 0);
}

/* Without a second plan fewer threads may still be the best; a gain of less than 1 % is none. */
static void test_fewer(void) {
    const world narrow = {{50, 0, 45, 60}, 0.02}, equal = {{50, 49.8, 60, 70}, 0};
    qn_core_plans c = begin(false);
    for (uint64_t i = 0; i < 60; i++)
        CHECK(step(&c, &narrow, 1e6, i) != QN_CORES_BESIDE);
    CHECK(c.adapting.kept == QN_CORES_FEWER && c.use.n_threads_used == 2 && !c.use.is_measured);
    c = begin(true);
    for (uint64_t i = 0; i < 60; i++)
        step(&c, &equal, 1e6, i);
    CHECK(c.adapting.kept == QN_CORES_ALL && !c.use.is_beside);
}

/* What won only while another program worked beside the first trial is left soon after. */
static void test_disturbed(void) {
    const world disturbed = {{100, 110, 82, 162}, 0.02};
    for (int unit = 0; unit < 2; unit++) {
        qn_core_plans c = begin(true);
        int64_t n = 0;
        while (c.adapting.is_first && n < 100000)
            step(&c, &disturbed, unit == 0 ? 1e6 : 1e4, (uint64_t)n++);
        CHECK(c.adapting.kept == QN_CORES_FEWER);
        const world after = {{50, 60, 80, 160}, 0.02}; /* by few of more than a window's change */
        c.adapting.mean_ns = (unit == 0 ? 1e6 : 1e4) * 80;
        c.get_idle_ns = NULL; /* cores that are free do not tell either */
        for (int64_t i = 0; i < (unit == 0 ? 60 : 3000); i++)
            step(&c, &after, unit == 0 ? 1e6 : 1e4, (uint64_t)(n + i));
        CHECK(c.adapting.kept == QN_CORES_ALL && !c.adapting.is_trial && c.use.n_changes == 1);
    }
}

static void run_all(qn_core_plans *c, const world *w, uint64_t from, int n) {
    for (int i = 0; i < n; i++)
        step(c, w, 1e6, from + (uint64_t)i);
}

/* What the first trial preferred is left where it no longer gains, by however little it loses; what
 * still gains stays; and a mode that was not seen to gain then is found. */
static void test_looks(void) {
    const world at_first = {{50, 46, 80, 160}, 0.02}, lost = {{46, 46.4, 80, 160}, 0.02};
    const world still = {{50, 48, 80, 160}, 0.05};
    const world equal = {{50, 55, 50, 160}, 0.02}, fewer = {{50, 55, 46, 160}, 0.02};
    for (int k = 0; k < 2; k++) {
        qn_core_plans c = begin(true);
        run_all(&c, &at_first, 0, 40);
        CHECK(c.adapting.kept == QN_CORES_BESIDE && c.adapting.n_looks <= 1);
        run_all(&c, k == 0 ? &lost : &still, 40, 500);
        CHECK(c.adapting.n_looks == 3);
        CHECK(c.adapting.kept == (k == 0 ? QN_CORES_ALL : QN_CORES_BESIDE));
        CHECK(c.use.n_changes == (k == 0));
    }
    qn_core_plans c = begin(true);
    run_all(&c, &equal, 0, 40);
    CHECK(c.adapting.kept == QN_CORES_ALL);
    run_all(&c, &fewer, 40, 100);
    CHECK(c.adapting.kept == QN_CORES_FEWER && c.use.n_changes == 1);
    /* Looks end: later nearly all steps are run as the best mode was. */
    int n_others = 0;
    for (uint64_t i = 0; i < 500; i++)
        n_others += step(&c, &fewer, 1e6, 1000 + i) != QN_CORES_FEWER;
    CHECK(n_others <= 40);
}

/* Few rounds decide when other programs come; what they missed is found by looks behind them. */
static void test_looks_behind_changes(void) {
    const world came = {{100, 130, 99, 200}, 0.01}, later = {{100, 130, 82, 200}, 0.01};
    qn_core_plans c = begin(true);
    run_all(&c, &quiet, 0, 500);
    CHECK(c.adapting.kept == QN_CORES_BESIDE && c.adapting.n_looks == 3);
    c.get_idle_ns = NULL;
    run_all(&c, &came, 500, 12);
    CHECK(c.adapting.kept == QN_CORES_ALL && c.adapting.n_looks == 1);
    run_all(&c, &later, 600, 120);
    CHECK(c.adapting.kept == QN_CORES_FEWER);
}

/* Steps of 25 % of noise: what was kept stays, and nearly all steps are run by it. */
static void test_noise(void) {
    const world noisy = {{50, 48, 80, 160}, 0.25};
    for (int k = 0; k < 2; k++) {
        qn_core_plans c = begin(true);
        int64_t n_others = 0;
        const int64_t n = 20000;
        for (int64_t i = 0; i < n; i++)
            n_others += step(&c, &noisy, k == 0 ? 1e6 : 1e4, (uint64_t)i) != c.adapting.kept;
        CHECK(c.use.n_changes <= 2);
        CHECK(n_others < n / 40);
    }
}

/* Other programs come and go: within nine steps of a change the fastest of four modes is kept. */
static void test_phases(void) {
    qn_core_plans c = begin(true);
    for (uint64_t i = 0; i < 60; i++)
        step(&c, &quiet, 1e6, i);
    for (uint64_t phase = 1; phase <= 6; phase++) {
        const bool is_busy = phase % 2 == 1;
        const int n = count_steps_until(&c, is_busy ? &busy : &quiet,
                                        is_busy ? QN_CORES_FEWER : QN_CORES_BESIDE, 1000 * phase);
        CHECK(n <= 9);
        for (uint64_t i = 0; i < 200; i++)
            step(&c, is_busy ? &busy : &quiet, 1e6, 1000 * phase + 500 + i);
    }
    CHECK(c.use.n_changes == 6);
}

/* The watts of a mode decide what is kept: here one thread needs least energy, half of them least
 * of the product; points have all that was compared. */
static void test_energy(void) {
    const world w = {{50, 40, 62, 90}, 0.01};
    const double watts[] = {9, 5, 5, 3}; /* 1 idle, 2 a core; side by side by its schedule */
    qn_core_wish wish = {.core_watts = 2, .idle_watts = 1};
    static const qn_prefer prefers[] = {QN_PREFER_TIME, QN_PREFER_ENERGY, QN_PREFER_BALANCED};
    for (int p = 0; p < 3; p++) {
        wish.prefer = prefers[p];
        for (int has_beside = 0; has_beside < 2; has_beside++) {
            qn_core_plans c = begin_for(has_beside, &wish);
            for (uint64_t i = 0; i < 60; i++)
                step(&c, &w, 1e6, i);
            int best = 0;
            double least = 0;
            for (int mode = 0; mode < 4; mode++) {
                const double ms = w.ms[mode], cost = p == 0   ? ms
                                                     : p == 1 ? ms * watts[mode]
                                                              : ms * ms * watts[mode];
                if ((mode == QN_CORES_BESIDE && !has_beside) || (least > 0 && cost >= least))
                    continue;
                best = mode;
                least = cost;
            }
            CHECK(c.adapting.kept == best);
            CHECK(c.use.n_points == 3 + has_beside);
            for (int i = 0; i < c.use.n_points; i++) {
                const qn_core_point *at = &c.use.points[i];
                const int mode = has_beside || i == 0 ? i : i + 1;
                CHECK(at->is_beside == (mode == QN_CORES_BESIDE));
                CHECK(at->joules > 0.99 * at->ns * 1e-9 * watts[mode] &&
                      at->joules < 1.01 * at->ns * 1e-9 * watts[mode]);
            }
        }
    }
}

/* Side by side is left at the first long step, and not tried until steps are short again. */
static void test_busy_beside(void) {
    const world taken = {{80, 160, 100, 170}, 0.3};
    qn_core_plans c = begin(true);
    for (uint64_t i = 0; i < 60; i++)
        step(&c, &quiet, 1e6, i);
    CHECK(c.adapting.kept == QN_CORES_BESIDE);
    int n_beside = 0;
    for (uint64_t i = 0; i < 200; i++)
        n_beside += step(&c, &taken, 1e6, 100 + i) == QN_CORES_BESIDE;
    CHECK(n_beside <= 2 && c.adapting.kept == QN_CORES_ALL && c.use.n_changes == 1);
    CHECK(count_steps_until(&c, &quiet, QN_CORES_BESIDE, 1000) <= 12);
}

int main(void) {
    test_busy_beside();
    test_energy();
    test_first();
    test_fewer();
    test_disturbed();
    test_looks();
    test_looks_behind_changes();
    test_noise();
    test_phases();
    return checks_finish();
}
