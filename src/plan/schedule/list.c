/* See list.h. */
#include "plan/schedule/list.h"

#include "base/status.h"

#include <string.h>

qn_status qn_lister_init(const qn_tasks *tasks, const qn_cores *cores, qn_lister *l) {
    const qn_allocator *a = tasks->allocator;
    const size_t n = (size_t)tasks->n + 1;
    *l = (qn_lister){.tasks = tasks, .cores = cores};
    qn_status status = qn_allocate(a, n, sizeof *l->widths, &l->widths);
    if (status == QN_OK)
        status = qn_allocate(a, n, sizeof *l->levels, &l->levels);
    if (status == QN_OK)
        status = qn_allocate(a, n, sizeof *l->n_blocking, &l->n_blocking);
    if (status == QN_OK)
        status = qn_allocate(a, n, sizeof *l->ready, &l->ready);
    if (status == QN_OK)
        status = qn_allocate(a, n, sizeof *l->came, &l->came);
    if (status == QN_OK)
        status = qn_allocate(a, n, sizeof *l->ready_ns, &l->ready_ns);
    if (status != QN_OK)
        qn_lister_deinit(l);
    return status;
}

void qn_lister_deinit(qn_lister *l) {
    const qn_allocator *a = l->tasks->allocator;
    const size_t n = (size_t)l->tasks->n + 1;
    qn_release(a, l->widths, n, sizeof *l->widths);
    qn_release(a, l->levels, n, sizeof *l->levels);
    qn_release(a, l->n_blocking, n, sizeof *l->n_blocking);
    qn_release(a, l->ready, n, sizeof *l->ready);
    qn_release(a, l->came, n, sizeof *l->came);
    qn_release(a, l->ready_ns, n, sizeof *l->ready_ns);
}

double qn_lister_ns(const qn_lister *l, int32_t task, int width) {
    return qn_curve_ns(&l->tasks->curves[task], l->cores, 0, width);
}

static int smaller(int a, int b) {
    return a < b ? a : b;
}

int qn_lister_next_width(const qn_lister *l, int width) {
    int step = 1;
    while (4 * step <= width)
        step *= 2;
    return width + step < l->cores->n ? width + step : l->cores->n;
}

int qn_lister_best_width(const qn_lister *l, int32_t task, int most) {
    int best = 1;
    for (int w = 1; w <= most;
         w = w == most ? most + 1 : smaller(qn_lister_next_width(l, w), most)) {
        if (qn_lister_ns(l, task, w) < qn_lister_ns(l, task, best))
            best = w;
    }
    return best;
}

double qn_lister_fill_levels(qn_lister *l) {
    const qn_task_list *after = &l->tasks->after;
    double longest = 0;
    for (int32_t i = l->tasks->n - 1; i >= 0; i--) {
        double rest = 0;
        for (int32_t e = after->first[i]; e < after->first[i + 1]; e++)
            rest = l->levels[after->tasks[e]] > rest ? l->levels[after->tasks[e]] : rest;
        l->levels[i] = rest + qn_lister_ns(l, i, l->widths[i]);
        longest = l->levels[i] > longest ? l->levels[i] : longest;
    }
    return longest;
}

/* What nothing waits for, as updates, is as urgent as what it comes after: what that made is not
 * kept until the end. */
static void raise_last(qn_lister *l) {
    const qn_task_list *before = &l->tasks->before, *after = &l->tasks->after;
    for (int32_t i = 0; i < l->tasks->n; i++) {
        for (int32_t e = before->first[i];
             after->first[i + 1] == after->first[i] && e < before->first[i + 1]; e++) {
            const double level = l->levels[before->tasks[e]];
            l->levels[i] = level > l->levels[i] ? level : l->levels[i];
        }
    }
}

/* ---- the list ---- */

/* Of the memory's bandwidth, that operations side by side may need. */
static const double MOST_DEMAND = 1.1;

typedef struct listing {
    qn_lister *l;
    qn_list_policy policy;
    qn_timetable *to;
    int32_t n_ready, n_begun, n_came;
    double now_ns;
    double free_ns[QN_MAX_CORES];  /* (cores): when a core is free */
    int32_t running[QN_MAX_CORES]; /* task that leads from a core, or -1 */
    double demand[QN_MAX_CORES];   /* of it, as a part of the memory's bandwidth */
} listing;

static bool comes_first(const listing *g, int32_t a, int32_t b) {
    const qn_lister *l = g->l;
    if (g->policy.order == QN_LIST_READY && l->came[a] != l->came[b])
        return l->came[a] < l->came[b];
    if (g->policy.order == QN_LIST_LEVEL &&
        (l->levels[a] > l->levels[b] || l->levels[a] < l->levels[b]))
        return l->levels[a] > l->levels[b];
    return a < b;
}

static void add_ready(listing *g, int32_t task) {
    int32_t *ready = g->l->ready, at = g->n_ready++;
    g->l->came[task] = g->n_came++;
    for (; at > 0 && comes_first(g, task, ready[at - 1]); at--)
        ready[at] = ready[at - 1];
    ready[at] = task;
}

static int count_free(const listing *g) {
    int n = 0;
    for (int c = 0; c < g->l->cores->n; c++)
        n += g->free_ns[c] <= g->now_ns;
    return n;
}

/* The first of so many free neighbours, or -1. */
static int find_free(const listing *g, int width) {
    int run = 0;
    for (int c = 0; c < g->l->cores->n; c++) {
        run = g->free_ns[c] <= g->now_ns ? run + 1 : 0;
        if (run == width)
            return c - width + 1;
    }
    return -1;
}

/* Its own; where it may grow, its part of the free cores, if that makes it faster. */
static int choose_width(const listing *g, int32_t task, int n_free) {
    const int own = g->l->widths[task];
    const int part = n_free / (g->n_ready > 0 ? g->n_ready : 1);
    if (!g->policy.grows || part <= own)
        return own;
    const int best = qn_lister_best_width(g->l, task, part);
    return best > own ? best : own;
}

static void begin(listing *g, int32_t task, int first, int width) {
    const qn_lister *l = g->l;
    const double ns = qn_curve_ns(&l->tasks->curves[task], l->cores, first, width);
    g->to->turns[task] = (qn_turn){.first = (int16_t)first,
                                   .width = (int16_t)width,
                                   .rank = g->n_begun,
                                   .begin_ns = g->now_ns,
                                   .end_ns = g->now_ns + ns};
    g->to->order[g->n_begun++] = task;
    for (int c = first; c < first + width; c++)
        g->free_ns[c] = g->now_ns + ns;
    g->running[first] = task;
    g->demand[first] = qn_curve_demand(&l->tasks->curves[task], l->cores, ns);
}

/* Whether a task would need more of the memory than those that run leave. */
static bool is_crowded(const listing *g, int32_t task, int width) {
    double demand = 0;
    for (int c = 0; c < g->l->cores->n; c++)
        demand += g->running[c] >= 0 ? g->demand[c] : 0;
    const double ns = qn_lister_ns(g->l, task, width);
    const double own = qn_curve_demand(&g->l->tasks->curves[task], g->l->cores, ns);
    return demand > 0 && own > 0.05 && demand + own > MOST_DEMAND;
}

static void begin_ready(listing *g) {
    int32_t *ready = g->l->ready;
    for (int32_t i = 0; i < g->n_ready;) {
        const int n_free = count_free(g), width = choose_width(g, ready[i], n_free);
        if (g->policy.spreads && n_free > 0 && is_crowded(g, ready[i], width)) {
            i++;
            continue;
        }
        int first = n_free > 0 ? find_free(g, width) : -1;
        if (n_free == 0 || (first < 0 && g->policy.is_strict))
            return;
        if (first < 0) {
            i++;
            continue;
        }
        const int32_t task = ready[i];
        memmove(ready + i, ready + i + 1, (size_t)(g->n_ready - i - 1) * sizeof *ready);
        g->n_ready--;
        begin(g, task, first, width);
    }
}

/* What comes after a task that ends. */
static void end(listing *g, int core) {
    const qn_task_list *after = &g->l->tasks->after;
    const int32_t task = g->running[core];
    g->running[core] = -1;
    for (int32_t e = after->first[task]; e < after->first[task + 1]; e++) {
        if (--g->l->n_blocking[after->tasks[e]] == 0)
            add_ready(g, after->tasks[e]);
    }
}

/* Goes on to the next time at which tasks end. */
static void end_next(listing *g) {
    bool has_next = false;
    double next_ns = g->now_ns;
    for (int c = 0; c < g->l->cores->n; c++) {
        const double ns = g->running[c] >= 0 ? g->to->turns[g->running[c]].end_ns : 0;
        if (g->running[c] < 0 || (has_next && ns >= next_ns))
            continue;
        has_next = true;
        next_ns = ns;
    }
    g->now_ns = next_ns;
    for (int c = 0; c < g->l->cores->n; c++) {
        if (g->running[c] >= 0 && g->to->turns[g->running[c]].end_ns <= next_ns)
            end(g, c);
    }
}

static void count_blocking(qn_lister *l) {
    for (int32_t i = 0; i < l->tasks->n; i++)
        l->n_blocking[i] = l->tasks->before.first[i + 1] - l->tasks->before.first[i];
}

void qn_lister_run(qn_lister *l, qn_list_policy policy, qn_timetable *to) {
    listing g = {.l = l, .policy = policy, .to = to};
    for (int c = 0; c < l->cores->n; c++)
        g.running[c] = -1;
    if (policy.order == QN_LIST_LEVEL) {
        qn_lister_fill_levels(l);
        if (!l->is_late)
            raise_last(l);
    }
    count_blocking(l);
    for (int32_t i = 0; i < l->tasks->n; i++) {
        if (l->n_blocking[i] == 0)
            add_ready(&g, i);
    }
    while (g.n_begun < l->tasks->n) {
        begin_ready(&g);
        end_next(&g);
    }
}

/* ---- HEFT ---- */

static double ready_at(const qn_lister *l, const qn_timetable *to, int32_t task, int core) {
    const qn_task_list *before = &l->tasks->before;
    double ns = 0;
    for (int32_t e = before->first[task]; e < before->first[task + 1]; e++) {
        const qn_turn *t = &to->turns[before->tasks[e]];
        const double done = t->end_ns + (t->first == core ? 0 : l->cores->wait_ns);
        ns = done > ns ? done : ns;
    }
    return ns;
}

static void place_heft(const qn_lister *l, qn_timetable *to, int32_t task, double *free_ns) {
    double best_begin = 0, best_end = 0;
    int best = -1;
    for (int c = 0; c < l->cores->n; c++) {
        const double ready = ready_at(l, to, task, c);
        const double begin = ready > free_ns[c] ? ready : free_ns[c];
        const double end = begin + qn_curve_ns(&l->tasks->curves[task], l->cores, c, 1);
        if (best >= 0 && end >= best_end)
            continue;
        best = c;
        best_begin = begin;
        best_end = end;
    }
    to->turns[task] = (qn_turn){.first = (int16_t)best,
                                .width = 1,
                                .rank = to->turns[task].rank,
                                .begin_ns = best_begin,
                                .end_ns = best_end};
    free_ns[best] = best_end;
}

/* By levels, which fall along every edge, as no task takes no time. */
void qn_lister_run_heft(qn_lister *l, qn_timetable *to) {
    double free_ns[QN_MAX_CORES] = {0};
    listing g = {.l = l, .policy = {.order = QN_LIST_LEVEL}, .to = to};
    for (int32_t i = 0; i < l->tasks->n; i++)
        l->widths[i] = 1;
    qn_lister_fill_levels(l);
    count_blocking(l);
    for (int32_t i = 0; i < l->tasks->n; i++) {
        if (l->n_blocking[i] == 0)
            add_ready(&g, i);
    }
    for (int32_t rank = 0; rank < l->tasks->n; rank++) {
        const int32_t task = l->ready[0];
        memmove(l->ready, l->ready + 1, (size_t)--g.n_ready * sizeof *l->ready);
        to->order[rank] = task;
        to->turns[task].rank = rank;
        place_heft(l, to, task, free_ns);
        const qn_task_list *after = &l->tasks->after;
        for (int32_t e = after->first[task]; e < after->first[task + 1]; e++) {
            if (--l->n_blocking[after->tasks[e]] == 0)
                add_ready(&g, after->tasks[e]);
        }
    }
}
