/* Simulation of a schedule: what is predicted when it runs. Operations side by side share the
 * memory's bandwidth: where they need more of it than there is, every thread gets as much as any
 * other, but no more than it needs; and those whose caches are slower beside others take longer by
 * as much of the memory as the others use. A core whose own work may not begin yet takes part in
 * the first operation that has room for one more, as the runner's threads do (run/cores/runner.c).
 */
#include "base/status.h"
#include "plan/schedule/timetable.h"

#include <string.h>

/* An operation that runs, led by a core. */
typedef struct running {
    int32_t task;           /* or -1 */
    int n_threads;          /* that take part: its own cores, and those that help */
    double own_ns, left_ns; /* with its own cores alone: all of it; what is left */
    double rate;            /* so many times as fast as that with those that help */
    double demand;          /* part of the bandwidth that it would like */
    double disturbed;       /* part that it takes longer if others use all of it */
} running;

typedef struct simulation {
    const qn_tasks *tasks;
    const qn_cores *cores;
    qn_timetable *to;
    int32_t *n_blocking;           /* (n): tasks before it that are not done */
    int32_t next[QN_MAX_CORES];    /* (cores): rank of the next task that uses it; n: none */
    bool is_busy[QN_MAX_CORES];    /* (cores): with work of its own */
    bool is_helping[QN_MAX_CORES]; /* (cores) */
    running running[QN_MAX_CORES]; /* (cores): what each leads */
    double now_ns;
    int32_t n_begun;
} simulation;

static bool uses(const qn_turn *turn, int core) {
    return core >= turn->first && core < turn->first + turn->width;
}

/* Goes on from a rank to the next task that uses a core. */
static int32_t next_rank(const simulation *s, int core, int32_t rank) {
    while (rank < s->to->n && !uses(&s->to->turns[s->to->order[rank]], core))
        rank++;
    return rank;
}

static bool may_begin(const simulation *s, int core) {
    const int32_t rank = s->next[core];
    if (rank >= s->to->n || s->is_busy[core])
        return false;
    const int32_t task = s->to->order[rank];
    const qn_turn *turn = &s->to->turns[task];
    if (turn->first != core || s->n_blocking[task] > 0)
        return false;
    for (int c = core; c < core + turn->width; c++) {
        if (s->next[c] != rank)
            return false;
    }
    return true;
}

/* Whether something before it was done elsewhere: its core has to be told. */
static bool has_waited(const simulation *s, int32_t task) {
    const qn_task_list *before = &s->tasks->before;
    const qn_turn *turn = &s->to->turns[task];
    for (int32_t e = before->first[task]; e < before->first[task + 1]; e++) {
        if (s->to->turns[before->tasks[e]].first != turn->first)
            return true;
    }
    return false;
}

/* What depends on how many take part. */
static void set_rate(const simulation *s, running *r, double helped_ns) {
    const qn_curve *curve = &s->tasks->curves[r->task];
    r->rate = helped_ns < r->own_ns ? r->own_ns / helped_ns : 1;
    r->demand = qn_curve_demand(curve, s->cores, r->own_ns / r->rate);
    r->disturbed = qn_curve_disturbance(curve, s->cores, r->own_ns / r->rate);
}

static void begin(simulation *s, int core) {
    const int32_t task = s->to->order[s->next[core]];
    qn_turn *turn = &s->to->turns[task];
    const double ns = qn_curve_ns(&s->tasks->curves[task], s->cores, turn->first, turn->width) +
                      (has_waited(s, task) ? s->cores->wait_ns : 0);
    turn->begin_ns = s->now_ns;
    s->running[core] =
        (running){.task = task, .n_threads = turn->width, .own_ns = ns, .left_ns = ns};
    set_rate(s, &s->running[core], ns);
    for (int c = core; c < core + turn->width; c++)
        s->is_busy[c] = true;
    s->n_begun++;
}

/* Lends free cores from *from on to what a core leads, as many as there is room for. */
static void lend(simulation *s, int core, int *from) {
    running *r = &s->running[core];
    const qn_cores *cores = s->cores;
    const qn_curve *curve = &s->tasks->curves[r->task];
    const int width = s->to->turns[r->task].width;
    const int most = cores->help * width < cores->n ? cores->help * width : cores->n;
    double speed = 0;
    int n = 0;
    for (; n < most - width && *from < cores->n; ++*from) {
        if (s->is_busy[*from])
            continue;
        s->is_helping[*from] = true;
        speed += qn_curve_speed(curve, cores, *from);
        n++;
    }
    if (width + n == r->n_threads)
        return;
    r->n_threads = width + n;
    set_rate(s, r, n > 0 ? qn_curve_helped_ns(curve, cores, core, width, n, speed) : r->own_ns);
}

static void lend_free(simulation *s) {
    int from = 0;
    memset(s->is_helping, 0, sizeof s->is_helping);
    for (int c = 0; c < s->cores->n && s->cores->help > 1; c++) {
        if (s->running[c].task >= 0)
            lend(s, c, &from);
    }
}

/* What a thread gets of the bandwidth where all would like more than there is: as much as any other
 * thread, but no more than it needs. */
static double share_bandwidth(const simulation *s) {
    bool is_served[QN_MAX_CORES] = {false};
    double left = 1, share = 1;
    int n = 0;
    for (int c = 0; c < s->cores->n; c++)
        n += s->running[c].task >= 0 ? s->running[c].n_threads : 0;
    for (bool goes_on = n > 0; goes_on;) {
        goes_on = false;
        share = left / n;
        for (int c = 0; c < s->cores->n; c++) {
            const running *r = &s->running[c];
            if (r->task < 0 || is_served[c] || r->demand > share * r->n_threads)
                continue;
            is_served[c] = true;
            left -= r->demand;
            n -= r->n_threads;
            goes_on = n > 0;
        }
    }
    return share;
}

/* By what a thread gets of the bandwidth, and what all would like of it. */
static double slowdown(const running *r, double share, double total) {
    const double others = total - r->demand, own = share * r->n_threads;
    const double shared = total > 1 && r->demand > own ? r->demand / own : 1;
    return shared * (1 + r->disturbed * (others < 0 ? 0 : others > 1 ? 1 : others)) / r->rate;
}

/* Watts, and what all would like of the bandwidth. */
static double look(const simulation *s, double *demand) {
    double watts = s->cores->idle_watts;
    *demand = 0;
    for (int c = 0; c < s->cores->n; c++) {
        if (s->running[c].task >= 0)
            *demand += s->running[c].demand;
        if (s->is_busy[c] || s->is_helping[c])
            watts += s->cores->kinds[qn_cores_kind(s->cores, c)].watts;
    }
    return watts;
}

static void end(simulation *s, int core) {
    const int32_t task = s->running[core].task;
    const qn_task_list *after = &s->tasks->after;
    qn_turn *turn = &s->to->turns[task];
    turn->end_ns = s->now_ns;
    s->running[core].task = -1;
    for (int c = core; c < core + turn->width; c++) {
        s->is_busy[c] = false;
        s->next[c] = next_rank(s, c, turn->rank + 1);
    }
    for (int32_t e = after->first[task]; e < after->first[task + 1]; e++)
        s->n_blocking[after->tasks[e]]--;
}

/* Goes on to the next end; false: nothing runs. */
static bool go_on(simulation *s) {
    double demand, least = -1;
    int first = -1;
    lend_free(s);
    const double watts = look(s, &demand);
    const double share = demand > 1 ? share_bandwidth(s) : 1;
    for (int c = 0; c < s->cores->n; c++) {
        if (s->running[c].task < 0)
            continue;
        const double ns = s->running[c].left_ns * slowdown(&s->running[c], share, demand);
        if (first >= 0 && ns >= least)
            continue;
        first = c;
        least = ns;
    }
    if (first < 0)
        return false;
    for (int c = 0; c < s->cores->n; c++) {
        if (s->running[c].task >= 0)
            s->running[c].left_ns -= least / slowdown(&s->running[c], share, demand);
    }
    s->now_ns += least;
    s->to->joules += watts * least * 1e-9;
    s->to->most_watts = watts > s->to->most_watts ? watts : s->to->most_watts;
    end(s, first);
    return true;
}

static qn_status run(simulation *s) {
    for (int32_t i = 0; i < s->tasks->n; i++)
        s->n_blocking[i] = s->tasks->before.first[i + 1] - s->tasks->before.first[i];
    for (int c = 0; c < s->cores->n; c++) {
        s->running[c].task = -1;
        s->next[c] = next_rank(s, c, 0);
    }
    s->to->joules = 0;
    s->to->most_watts = s->cores->idle_watts;
    do {
        for (int c = 0; c < s->cores->n; c++) {
            if (may_begin(s, c))
                begin(s, c);
        }
    } while (go_on(s));
    s->to->ns = s->now_ns;
    if (s->n_begun == s->tasks->n)
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT, "schedule: task %d waits for a task behind it",
                   s->to->order[s->next[0] < s->to->n ? s->next[0] : 0]);
}

qn_status qn_timetable_simulate(const qn_tasks *tasks, const qn_cores *cores, qn_timetable *to) {
    simulation s = {.tasks = tasks, .cores = cores, .to = to};
    const size_t n = (size_t)tasks->n + 1;
    QN_TRY(qn_allocate(tasks->allocator, n, sizeof *s.n_blocking, &s.n_blocking));
    const qn_status status = run(&s);
    qn_release(tasks->allocator, s.n_blocking, n, sizeof *s.n_blocking);
    return status;
}
