/* Simulation of a schedule: what is predicted when it runs. Operations side by side share the
 * memory's bandwidth: where they need more of it than there is, each takes longer by its part; and
 * those whose caches are slower beside others, by as much of the memory as the others use. */
#include "base/status.h"
#include "plan/schedule/timetable.h"

#include <string.h>

typedef struct simulation {
    const qn_tasks *tasks;
    const qn_cores *cores;
    qn_timetable *to;
    int32_t *n_blocking;            /* (n): tasks before it that are not done */
    int32_t next[QN_MAX_CORES];     /* (cores): rank of the next task that uses it; n: none */
    int32_t running[QN_MAX_CORES];  /* task that leads from a core, or -1 */
    double left_ns[QN_MAX_CORES];   /* of it, if it were alone */
    double demand[QN_MAX_CORES];    /* part of the bandwidth that it would like */
    double disturbed[QN_MAX_CORES]; /* part that it takes longer if others use all of it */
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
    if (rank >= s->to->n || s->running[core] >= 0)
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

static void begin(simulation *s, int core) {
    const int32_t task = s->to->order[s->next[core]];
    qn_turn *turn = &s->to->turns[task];
    const qn_curve *curve = &s->tasks->curves[task];
    const double ns = qn_curve_ns(curve, s->cores, turn->first, turn->width);
    turn->begin_ns = s->now_ns;
    s->running[core] = task;
    s->left_ns[core] = ns + (has_waited(s, task) ? s->cores->wait_ns : 0);
    s->demand[core] = qn_curve_demand(curve, s->cores, s->left_ns[core]);
    s->disturbed[core] = qn_curve_disturbance(curve, s->cores, s->left_ns[core]);
    s->n_begun++;
}

static double slowdown(const simulation *s, int core, double total) {
    const double demand = s->demand[core], others = total - demand;
    const double shared = total > 1 ? 1 + demand * (total - 1) : 1;
    return shared * (1 + s->disturbed[core] * (others < 0 ? 0 : others > 1 ? 1 : others));
}

/* Watts, and what all would like of the bandwidth. */
static double look(const simulation *s, double *demand) {
    double watts = s->cores->idle_watts;
    *demand = 0;
    for (int c = 0; c < s->cores->n; c++) {
        if (s->running[c] < 0)
            continue;
        *demand += s->demand[c];
        for (int i = c; i < c + s->to->turns[s->running[c]].width; i++)
            watts += s->cores->kinds[qn_cores_kind(s->cores, i)].watts;
    }
    return watts;
}

static void end(simulation *s, int core) {
    const int32_t task = s->running[core];
    const qn_task_list *after = &s->tasks->after;
    qn_turn *turn = &s->to->turns[task];
    turn->end_ns = s->now_ns;
    s->running[core] = -1;
    for (int c = core; c < core + turn->width; c++)
        s->next[c] = next_rank(s, c, turn->rank + 1);
    for (int32_t e = after->first[task]; e < after->first[task + 1]; e++)
        s->n_blocking[after->tasks[e]]--;
}

/* Goes on to the next end; false: nothing runs. */
static bool go_on(simulation *s) {
    double demand, least = -1;
    int first = -1;
    const double watts = look(s, &demand);
    for (int c = 0; c < s->cores->n; c++) {
        if (s->running[c] < 0)
            continue;
        const double ns = s->left_ns[c] * slowdown(s, c, demand);
        if (first >= 0 && ns >= least)
            continue;
        first = c;
        least = ns;
    }
    if (first < 0)
        return false;
    for (int c = 0; c < s->cores->n; c++)
        s->left_ns[c] -= s->running[c] >= 0 ? least / slowdown(s, c, demand) : 0;
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
        s->running[c] = -1;
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
