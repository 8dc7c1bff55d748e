/* The fastest schedule of a few tasks: all orders, widths and places are tried, but for those whose
 * longest way or work left cannot be less than the best so far. */
#include "base/status.h"
#include "plan/schedule/timetable.h"

enum { MOST_NODES = 3000000 };

typedef struct searching {
    const qn_tasks *tasks;
    const qn_cores *cores;
    double least[QN_OPTIMUM_TASKS][2]; /* time of a task, and of a core for it, at least */
    double path_ns[QN_OPTIMUM_TASKS];  /* from its begin to the end of all, at least */
    qn_turn turns[QN_OPTIMUM_TASKS], best[QN_OPTIMUM_TASKS];
    double best_ns;
    int64_t n_nodes;
} searching;

typedef struct state {
    uint32_t done;
    int32_t n;
    double ns, free_ns[QN_MAX_CORES];
} state;

static void fill_least(searching *s) {
    for (int32_t i = s->tasks->n - 1; i >= 0; i--) {
        const qn_task_list *after = &s->tasks->after;
        double rest = 0;
        for (int first = 0; first < s->cores->n; first++) {
            for (int width = 1; first + width <= s->cores->n; width++) {
                const double ns = qn_curve_ns(&s->tasks->curves[i], s->cores, first, width);
                const bool is_first = first == 0 && width == 1;
                s->least[i][0] = is_first || ns < s->least[i][0] ? ns : s->least[i][0];
                s->least[i][1] =
                    is_first || ns * width < s->least[i][1] ? ns * width : s->least[i][1];
            }
        }
        for (int32_t e = after->first[i]; e < after->first[i + 1]; e++)
            rest = s->path_ns[after->tasks[e]] > rest ? s->path_ns[after->tasks[e]] : rest;
        s->path_ns[i] = rest + s->least[i][0];
    }
}

/* Whether a task may come next, and when its makers are done. */
static bool is_ready(const searching *s, const state *at, int32_t task, double *ready_ns) {
    const qn_task_list *before = &s->tasks->before;
    *ready_ns = 0;
    if (at->done >> task & 1)
        return false;
    for (int32_t e = before->first[task]; e < before->first[task + 1]; e++) {
        const int32_t maker = before->tasks[e];
        if (!(at->done >> maker & 1))
            return false;
        *ready_ns = s->turns[maker].end_ns > *ready_ns ? s->turns[maker].end_ns : *ready_ns;
    }
    return true;
}

/* No schedule that goes on from here ends earlier. */
static double bound(const searching *s, const state *at) {
    double work = 0, most = at->ns;
    for (int c = 0; c < s->cores->n; c++)
        work += at->free_ns[c];
    for (int32_t i = 0; i < s->tasks->n; i++) {
        double ready_ns;
        if (at->done >> i & 1)
            continue;
        work += s->least[i][1];
        if (is_ready(s, at, i, &ready_ns) && ready_ns + s->path_ns[i] > most)
            most = ready_ns + s->path_ns[i];
    }
    return work / s->cores->n > most ? work / s->cores->n : most;
}

static void search(searching *s, const state *at);

static void try_turn(searching *s, const state *at, int32_t task, int first, int width,
                     double ready_ns) {
    state next = *at;
    double begin = ready_ns;
    for (int c = first; c < first + width; c++)
        begin = at->free_ns[c] > begin ? at->free_ns[c] : begin;
    const double end = begin + qn_curve_ns(&s->tasks->curves[task], s->cores, first, width);
    for (int c = first; c < first + width; c++)
        next.free_ns[c] = end;
    next.done |= 1u << task;
    next.n++;
    next.ns = end > next.ns ? end : next.ns;
    s->turns[task] = (qn_turn){.first = (int16_t)first,
                               .width = (int16_t)width,
                               .rank = at->n,
                               .begin_ns = begin,
                               .end_ns = end};
    search(s, &next);
}

static void search(searching *s, const state *at) {
    double ready_ns;
    if (++s->n_nodes > MOST_NODES || bound(s, at) >= s->best_ns)
        return;
    if (at->n == s->tasks->n) {
        s->best_ns = at->ns;
        for (int32_t i = 0; i < s->tasks->n; i++)
            s->best[i] = s->turns[i];
        return;
    }
    for (int32_t i = 0; i < s->tasks->n; i++) {
        if (!is_ready(s, at, i, &ready_ns))
            continue;
        for (int width = 1; width <= s->cores->n; width++) {
            for (int first = 0; first + width <= s->cores->n; first++)
                try_turn(s, at, i, first, width, ready_ns);
        }
    }
}

static void take(const searching *s, qn_timetable *schedule) {
    for (int32_t i = 0; i < s->tasks->n; i++) {
        schedule->turns[i] = s->best[i];
        schedule->order[s->best[i].rank] = i;
    }
}

qn_status qn_timetable_optimum(const qn_tasks *tasks, const qn_cores *cores,
                               qn_timetable *schedule) {
    searching s = {.tasks = tasks, .cores = cores};
    const state begin = {0};
    qn_cores alone = *cores;
    if (tasks->n > QN_OPTIMUM_TASKS)
        return qn_fail(QN_ERROR_UNSUPPORTED, "the optimum is searched for %d operations at most",
                       QN_OPTIMUM_TASKS);
    fill_least(&s);
    s.best_ns = 1;
    for (int32_t i = 0; i < tasks->n; i++)
        s.best_ns += tasks->curves[i].alone_ns * 2;
    search(&s, &begin);
    if (s.n_nodes > MOST_NODES)
        return qn_fail(QN_ERROR_UNSUPPORTED, "the optimum takes too many trials");
    take(&s, schedule);
    alone.help = 1;
    return qn_timetable_simulate(tasks, &alone, schedule);
}
