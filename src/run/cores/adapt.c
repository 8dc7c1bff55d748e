/* See cores.h: which way of running steps is the best: the fastest, or that of least energy by the
 * watts that a way is said to take. In a trial the ways run by turns, round after round, a window
 * of steps each; one that is clearly slower drops out. The way that was kept before gives way to
 * another only if that one won seven of eight rounds, or 17 of 24, which by chance happens once in
 * thirty times, and its gain in the median round is large enough. Another program may have worked
 * during a trial: some windows later, and at longer and longer distances, all ways are compared
 * again (a look), and what does not still gain over one by one is left for that. Windows last some
 * milliseconds, as a system gives processors away for that long. */
#include "os/os.h"
#include "run/cores/cores.h"

#include <math.h>
#include <stdlib.h>

/* Rounds of the first trial and of looks, where a window is one long step, and where it is not;
 * rounds before them that do not count: steps touch memory for the first time. Rounds of later
 * trials, likewise. */
enum {
    FIRST_ROUNDS = 8,
    SHORT_ROUNDS = QN_CORES_ROUNDS,
    WARM_ROUNDS = 2,
    ROUNDS = 3,
    LONG_ROUNDS = 2
};

/* Windows between two trials for small changes; at most, as trials that change nothing make them
 * rarer; windows after which all ways are tried in any case, for the first time. */
enum { REST = 6, MOST_REST = 96, EVERY = 512 };

/* Looks, and windows before the first one; before each further one so many times as many. */
enum { LOOKS = 3, FIRST_LOOK = 16, LOOKS_APART = 4 };

static const int64_t first_window_ns = 2000000, window_ns = 20000000;

/* A window that differs so much from those before it calls for a trial: after a rest, if the next
 * does too; at once. */
static const double small = 1.2, large = 1.45;

/* A way that takes so many times as long as the best drops out: after a round; after more. */
static const double hopeless[] = {1.5, 1.25};

/* What the median must be shorter by: at first; later, when rounds are few. */
static const double least_gain = 1.01, least_later_gain = 1.03;

int qn_cores_threads(const qn_core_plans *c, int mode) {
    const int n =
        mode < QN_CORES_FEWER ? c->n_threads : c->n_threads >> (mode - QN_CORES_FEWER + 1);
    return n < 1 ? 1 : n;
}

static int count_modes(const qn_core_plans *c) {
    int n = QN_CORES_FEWER;
    for (int threads = c->n_threads / 2; threads > 0 && n < QN_CORES_MODES; threads /= 2)
        n++;
    return n;
}

static bool is_live(const qn_core_plans *c, int mode) {
    return (mode != QN_CORES_BESIDE || c->other_plan) && !c->adapting.modes[mode].is_out;
}

/* The first way from one on that is in the trial, or the number of ways. */
static int next_live(const qn_core_plans *c, int mode) {
    while (mode < count_modes(c) && !is_live(c, mode))
        mode++;
    return mode;
}

/* Lanes wait for one another, so that side by side a step is held up by every thread whose core
 * another program takes: then one by one goes on at once, and side by side is in no trial. */
static void begin_trial(qn_core_plans *c, int n_rounds, int n_warm) {
    qn_core_adapting *a = &c->adapting;
    a->before = a->kept;
    if (a->is_slow && a->kept == QN_CORES_BESIDE)
        a->kept = QN_CORES_ALL;
    a->is_trial = true;
    a->is_long = false;
    a->n_rounds = n_rounds;
    a->n_warm = n_warm;
    for (int mode = 0; mode < QN_CORES_MODES; mode++)
        a->modes[mode] = (qn_core_mode){0};
    a->modes[QN_CORES_BESIDE].is_out = a->is_slow;
    a->mode = next_live(c, 0);
}

/* Cores take their watts until an operation of theirs ends, as threads that wait for it turn; side
 * by side, as long as the schedule has them work. */
static double watts_of(const qn_core_plans *c, int mode, const qn_core_wish *wish) {
    const qn_timetable *s = &c->schedule;
    if (wish->core_watts <= 0)
        return 0;
    if (mode == QN_CORES_BESIDE)
        return s->ns > 0 && !c->is_cached ? s->joules / (s->ns * 1e-9) : 0;
    return wish->idle_watts + qn_cores_threads(c, mode) * wish->core_watts;
}

/* Energy is watts times time; energy times time is least where time times the root of watts is. */
static double weight_of(qn_prefer prefer, double watts) {
    return watts <= 0 || prefer == QN_PREFER_TIME ? 1
           : prefer == QN_PREFER_ENERGY           ? watts
                                                  : sqrt(watts);
}

void qn_cores_begin_trials(qn_core_plans *c, const qn_core_wish *wish) {
    qn_core_adapting *a = &c->adapting;
    *a = (qn_core_adapting){.kept = QN_CORES_ALL, .is_first = true, .rest = REST, .every = EVERY};
    for (int mode = 0; mode < QN_CORES_MODES; mode++) {
        a->watts[mode] = watts_of(c, mode, wish);
        a->weight[mode] = weight_of(wish->prefer, a->watts[mode]);
    }
    begin_trial(c, SHORT_ROUNDS, WARM_ROUNDS);
}

/* ---- judging ---- */

static int compare(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(const qn_core_mode *w) {
    double sorted[QN_CORES_ROUNDS];
    for (int i = 0; i < w->n; i++)
        sorted[i] = w->rounds_ns[i];
    qsort(sorted, (size_t)w->n, sizeof *sorted, compare);
    return w->n == 0 ? 0 : (sorted[(w->n - 1) / 2] + sorted[w->n / 2]) / 2;
}

/* What is to be least. */
static double cost(const qn_core_adapting *a, int mode) {
    return median(&a->modes[mode]) * a->weight[mode];
}

/* Rounds that both were in, in which one was better; *gain: how many times in the median round. */
static int count_won(const qn_core_adapting *a, int mode, int than, int *n, double *gain) {
    const qn_core_mode *x = &a->modes[mode], *y = &a->modes[than];
    qn_core_mode gains = {.n = x->n < y->n ? x->n : y->n};
    int n_won = 0;
    for (int i = 0; i < gains.n; i++) {
        gains.rounds_ns[i] =
            y->rounds_ns[i] * a->weight[than] / (x->rounds_ns[i] * a->weight[mode]);
        n_won += gains.rounds_ns[i] > 1;
    }
    *n = gains.n;
    *gain = median(&gains);
    return n_won;
}

static bool is_better(const qn_core_adapting *a, int mode, int than) {
    int n;
    double gain;
    const int n_won = count_won(a, mode, than, &n, &gain);
    return n > 0 && n_won >= fmin(n, 0.5 * n + 0.95 * sqrt(n)) &&
           gain >= (a->is_first || a->is_look ? least_gain : least_later_gain);
}

/* Whether a way is as good as one by one. */
static bool is_confirmed(const qn_core_plans *c, int mode) {
    int n;
    double gain;
    const int n_won = count_won(&c->adapting, mode, QN_CORES_ALL, &n, &gain);
    return mode == QN_CORES_ALL || (is_live(c, mode) && 2 * n_won >= n && gain >= 1);
}

static int find_best(const qn_core_plans *c) {
    const qn_core_adapting *a = &c->adapting;
    const int kept = a->is_look && !is_confirmed(c, a->kept) ? QN_CORES_ALL : a->kept;
    int best = kept;
    for (int mode = 0; mode < count_modes(c); mode++) {
        if (mode != kept && is_live(c, mode) && is_better(a, mode, kept) &&
            (best == kept || cost(a, mode) < cost(a, best)))
            best = mode;
    }
    return best;
}

/* What the first trial saw of each way. */
static void note_points(qn_core_plans *c) {
    const qn_core_adapting *a = &c->adapting;
    for (int mode = 0; mode < count_modes(c) && c->use.n_points < QN_CORE_POINTS; mode++) {
        const double ns = median(&a->modes[mode]);
        if (a->modes[mode].n > 0)
            c->use.points[c->use.n_points++] =
                (qn_core_point){.n_threads = qn_cores_threads(c, mode),
                                .is_beside = mode == QN_CORES_BESIDE,
                                .ns = ns,
                                .joules = ns * 1e-9 * a->watts[mode]};
    }
}

static void note_gain(qn_core_plans *c) {
    const qn_core_adapting *a = &c->adapting;
    int n;
    double gain;
    note_points(c);
    (void)count_won(a, QN_CORES_BESIDE, QN_CORES_ALL, &n, &gain);
    if (n == 0)
        return;
    c->use.is_measured = true; /* of times, whatever is preferred */
    c->use.measured_gain = gain * a->weight[QN_CORES_BESIDE] / a->weight[QN_CORES_ALL];
}

/* Trials that change nothing are made rarer, up to a limit; a change makes them usual again. */
static void keep(qn_core_plans *c) {
    qn_core_adapting *a = &c->adapting;
    const int best = find_best(c);
    if (a->is_first) {
        note_gain(c);
    } else if (a->is_look) {
        c->use.n_changes += best != a->before;
    } else {
        const bool is_change = best != a->before;
        c->use.n_changes += is_change;
        /* Beside other programs steps differ by more: it takes some that do to call for a trial. */
        const int64_t longer = 2 * a->rest < MOST_REST ? 2 * a->rest : MOST_REST;
        a->rest = is_change && !a->is_slow ? REST : longer;
        a->every = is_change ? EVERY : 2 * a->every;
    }
    a->kept = a->mode = best;
    a->is_trial = a->is_first = a->is_look = false;
    a->mean_ns = median(&a->modes[best]);
    a->n_windows = 0;
    a->n_odd = a->n_idle = 0;
    c->use.is_beside = best == QN_CORES_BESIDE;
    c->use.n_threads_used = qn_cores_threads(c, best);
}

/* ---- windows ---- */

/* Drops ways that can no longer win; how many are left. */
static int drop_slow(const qn_core_plans *c, qn_core_adapting *a) {
    double best = 0;
    int n = 0;
    for (int mode = 0; mode < count_modes(c); mode++) {
        const double least = a->modes[mode].least_ns * a->weight[mode];
        best = is_live(c, mode) && (best <= 0 || least < best) ? least : best;
    }
    for (int mode = 0; mode < count_modes(c); mode++) {
        if (!is_live(c, mode))
            continue;
        a->modes[mode].is_out =
            a->modes[mode].least_ns * a->weight[mode] > hopeless[a->modes[mode].n > 1] * best;
        n += !a->modes[mode].is_out;
    }
    return n;
}

static void end_round(qn_core_plans *c) {
    qn_core_adapting *a = &c->adapting;
    if (a->n_warm > 0)
        a->n_warm--;
    else if (--a->n_rounds <= (a->is_long ? SHORT_ROUNDS - FIRST_ROUNDS : 0) ||
             drop_slow(c, a) == 1) {
        keep(c);
        return;
    }
    a->mode = next_live(c, 0);
}

static void end_trial_window(qn_core_plans *c, double mean_ns) {
    qn_core_adapting *a = &c->adapting;
    qn_core_mode *w = &a->modes[a->mode];
    a->is_long = a->is_long || (a->n_steps == 1 && (a->is_first || a->is_look));
    if (a->n_warm == 0) {
        w->rounds_ns[w->n++] = mean_ns;
        w->least_ns = w->n == 1 || mean_ns < w->least_ns ? mean_ns : w->least_ns;
    }
    a->mode = next_live(c, a->mode + 1);
    if (a->mode == count_modes(c))
        end_round(c);
}

/* ---- calling for a trial ---- */

/* Whether cores that this way does not use have become free: its own times do not tell. */
static bool has_more_cores(qn_core_plans *c) {
    qn_core_adapting *a = &c->adapting;
    const int n_spare = c->n_threads - qn_cores_threads(c, a->kept);
    const double now_ns = n_spare > 0 && c->get_idle_ns ? (double)c->get_idle_ns() : -1;
    const double share = (now_ns - a->idle_ns) / a->ns;
    const bool is_known = now_ns >= 0 && a->idle_ns >= 0 && a->n_windows > 0;
    a->idle_ns = now_ns;
    if (!is_known)
        return false;
    if (a->n_windows == 1) /* windows begin behind the first */
        a->idle_share = share;
    a->n_idle = share > a->idle_share + 0.6 * n_spare ? a->n_idle + 1 : 0;
    return a->n_idle > 1 || (a->n_idle > 0 && a->n_steps == 1);
}

static bool differs(double a, double b, double by) {
    return a > by * b || b > by * a;
}

static int64_t windows_before_look(int n_looks) {
    int64_t n = FIRST_LOOK;
    for (; n_looks > 0; n_looks--)
        n *= LOOKS_APART;
    return n;
}

/* Rounds of the trial that a window calls for; 0: none. Where all is as before it may be long. */
static int call_for_trial(qn_core_plans *c, double mean_ns) {
    qn_core_adapting *a = &c->adapting;
    const bool is_large = differs(mean_ns, a->mean_ns, large);
    const bool has_cores = has_more_cores(c);
    int n_rounds = 0;
    a->n_odd = differs(mean_ns, a->mean_ns, small) ? a->n_odd + 1 : 0;
    a->n_windows++;
    if (has_cores || (is_large && a->n_windows > 1 && (a->rest == REST || a->n_odd > 2)) ||
        (a->n_odd > 1 && a->n_windows > a->rest))
        n_rounds = a->n_steps == 1 ? LONG_ROUNDS : ROUNDS;
    else if (a->n_windows >= a->every)
        n_rounds = FIRST_ROUNDS;
    else if (a->n_looks < LOOKS && a->n_windows >= windows_before_look(a->n_looks))
        a->is_look = true;
    if (a->is_look) {
        a->n_looks++;
        return SHORT_ROUNDS;
    }
    if (n_rounds > 0 && (is_large || has_cores || n_rounds == FIRST_ROUNDS))
        a->is_slow = is_large && !has_cores && mean_ns > a->mean_ns;
    if (n_rounds > 0 && (is_large || has_cores))
        a->n_looks = a->n_looks < 1 ? a->n_looks : 1; /* few rounds, while others come or go */
    return n_rounds;
}

static void end_window(qn_core_plans *c, double mean_ns) {
    qn_core_adapting *a = &c->adapting;
    const int n_rounds = call_for_trial(c, mean_ns);
    if (n_rounds > 0)
        begin_trial(c, n_rounds, 0);
    else if (a->n_odd == 0)
        a->mean_ns = 0.75 * a->mean_ns + 0.25 * mean_ns;
}

void qn_cores_note(qn_core_plans *c, double ns) {
    qn_core_adapting *a = &c->adapting;
    a->ns += ns;
    a->n_steps++;
    if (a->ns < (double)(a->is_first || a->is_look ? first_window_ns : window_ns))
        return;
    const double mean_ns = a->ns / (double)a->n_steps;
    if (a->is_trial)
        end_trial_window(c, mean_ns);
    else
        end_window(c, mean_ns);
    a->ns = 0;
    a->n_steps = 0;
}
