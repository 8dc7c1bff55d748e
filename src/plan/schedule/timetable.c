/* See timetable.h. */
#include "plan/schedule/timetable.h"

#include "base/rng.h"
#include "base/status.h"
#include "plan/schedule/list.h"

#include <string.h>

qn_status qn_timetable_init(const qn_allocator *allocator, int32_t n, qn_timetable *s) {
    *s = (qn_timetable){.allocator = allocator, .n = n};
    qn_status status = qn_allocate(allocator, (size_t)n + 1, sizeof *s->turns, &s->turns);
    if (status == QN_OK)
        status = qn_allocate(allocator, (size_t)n + 1, sizeof *s->order, &s->order);
    if (status != QN_OK)
        qn_timetable_deinit(s);
    return status;
}

void qn_timetable_deinit(qn_timetable *s) {
    if (!s->allocator)
        return;
    qn_release(s->allocator, s->turns, (size_t)s->n + 1, sizeof *s->turns);
    qn_release(s->allocator, s->order, (size_t)s->n + 1, sizeof *s->order);
    *s = (qn_timetable){0};
}

void qn_timetable_fill_behind(qn_timetable *s) {
    int32_t n = 0;
    for (int32_t rank = 0; rank < s->n; rank++) {
        qn_turn *turn = &s->turns[s->order[rank]];
        while (n < rank && s->turns[s->order[n]].end_ns <= turn->begin_ns)
            n++;
        turn->behind = n;
    }
}

void qn_timetable_keep_close(qn_timetable *s, int32_t most) {
    for (int32_t rank = most; rank < s->n; rank++) {
        qn_turn *turn = &s->turns[s->order[rank]];
        turn->behind = turn->behind > rank - most ? turn->behind : rank - most;
    }
}

static void exchange(qn_timetable *a, qn_timetable *b) {
    const qn_timetable kept = *a;
    *a = *b;
    *b = kept;
}

static void set_widths(qn_lister *l, int width) {
    for (int32_t i = 0; i < l->tasks->n; i++)
        l->widths[i] = (int16_t)width;
}

static void set_best_widths(qn_lister *l) {
    for (int32_t i = 0; i < l->tasks->n; i++)
        l->widths[i] = (int16_t)qn_lister_best_width(l, i, l->cores->n);
}

/* ---- rules ---- */

static void run_rule(qn_lister *l, qn_timetable_rule rule, int width, qn_timetable *to) {
    switch (rule) {
    case QN_TIMETABLE_ONE_BY_ONE:
        set_widths(l, l->cores->n);
        qn_lister_run(l, (qn_list_policy){.order = QN_LIST_PLAN, .is_strict = true}, to);
        break;
    case QN_TIMETABLE_FIFO:
        set_widths(l, width < l->cores->n ? width : l->cores->n);
        qn_lister_run(l, (qn_list_policy){.order = QN_LIST_READY, .is_strict = true}, to);
        break;
    case QN_TIMETABLE_HEFT:
        qn_lister_run_heft(l, to);
        break;
    case QN_TIMETABLE_BEST_WIDTH:
        set_best_widths(l);
        qn_lister_run(l, (qn_list_policy){.order = QN_LIST_READY}, to);
        break;
    }
}

qn_status qn_timetable_make(const qn_tasks *tasks, const qn_cores *cores, qn_timetable_rule rule,
                            int width, qn_timetable *schedule) {
    qn_lister l;
    qn_cores alone = *cores;
    alone.help = 1;
    QN_TRY(qn_lister_init(tasks, cores, &l));
    run_rule(&l, rule, width < 1 ? 1 : width, schedule);
    qn_lister_deinit(&l);
    return qn_timetable_simulate(tasks, &alone, schedule);
}

/* ---- ours ---- */

/* What a schedule that keeps more must cost of another. */
static const double late_gain = 0.97;

/* Many cores; changes that are tried, in tasks that are placed anew. */
enum { MANY = 4, MOST_PLACED = 100000, MOST_CHANGES = 400, STAGES = 24 };

typedef struct choosing {
    qn_lister l;
    qn_prefer prefer;
    qn_list_policy best_policy;
    int16_t *best_widths; /* (n) */
    qn_timetable *best, trial;
    bool has_best;
} choosing;

double qn_timetable_cost(const qn_timetable *s, qn_prefer prefer) {
    switch (prefer) {
    case QN_PREFER_ENERGY:
        return s->joules;
    case QN_PREFER_BALANCED:
        return s->joules * s->ns;
    default:
        return s->ns;
    }
}

/* Keeps what was tried, if it is better. */
static qn_status judge(choosing *c, qn_list_policy policy) {
    QN_TRY(qn_timetable_simulate(c->l.tasks, c->l.cores, &c->trial));
    if (c->has_best &&
        qn_timetable_cost(&c->trial, c->prefer) >= qn_timetable_cost(c->best, c->prefer))
        return QN_OK;
    c->has_best = true;
    c->best_policy = policy;
    memcpy(c->best_widths, c->l.widths, (size_t)c->l.tasks->n * sizeof *c->best_widths);
    exchange(c->best, &c->trial);
    return QN_OK;
}

enum { ONE_BY_ONE = 4, FEW_POLICIES = 5, POLICIES = 8 };

/* Those behind the first few are for many cores, which need more of the memory than there is. */
static const qn_list_policy policies[POLICIES] = {
    {.order = QN_LIST_LEVEL},
    {.order = QN_LIST_LEVEL, .is_strict = true},
    {.order = QN_LIST_LEVEL, .grows = true},
    {.order = QN_LIST_PLAN, .grows = true},
    [ONE_BY_ONE] = {.order = QN_LIST_PLAN, .is_strict = true},
    {.order = QN_LIST_LEVEL, .spreads = true},
    {.order = QN_LIST_LEVEL, .spreads = true, .grows = true},
    {.order = QN_LIST_PLAN, .spreads = true},
};

static int count_policies(const choosing *c) {
    return c->l.cores->n < MANY ? FEW_POLICIES : POLICIES;
}

static qn_status try_policies(choosing *c) {
    for (int i = 0; i < count_policies(c); i++) {
        qn_lister_run(&c->l, policies[i], &c->trial);
        QN_TRY(judge(c, policies[i]));
    }
    return QN_OK;
}

/* Time of all cores together that the widths take. */
static double area_ns(const qn_lister *l) {
    double area = 0;
    for (int32_t i = 0; i < l->tasks->n; i++)
        area += l->widths[i] * qn_lister_ns(l, i, l->widths[i]);
    return area / l->cores->n;
}

/* Makes those on the longest way wider that gain most by core; false: none gains. */
static bool widen_longest(qn_lister *l) {
    const qn_task_list *after = &l->tasks->after;
    bool has_widened = false;
    int32_t at = 0;
    for (int32_t i = 1; i < l->tasks->n; i++)
        at = l->levels[i] > l->levels[at] ? i : at;
    while (at >= 0) {
        const int width = l->widths[at], wider = qn_lister_next_width(l, width);
        const double now = qn_lister_ns(l, at, width), then = qn_lister_ns(l, at, wider);
        if (wider > width && then < 0.97 * now && width * now > 0.5 * wider * then) {
            l->widths[at] = (int16_t)wider;
            has_widened = true;
        }
        int32_t next = -1;
        for (int32_t e = after->first[at]; e < after->first[at + 1]; e++) {
            if (next < 0 || l->levels[after->tasks[e]] > l->levels[next])
                next = after->tasks[e];
        }
        at = next;
    }
    return has_widened;
}

/* From one core for each on: the longest way becomes shorter, until the work is as long as it. */
static qn_status try_stages(choosing *c) {
    set_widths(&c->l, 1);
    for (int stage = 0; stage < STAGES; stage++) {
        QN_TRY(try_policies(c));
        const double longest = qn_lister_fill_levels(&c->l);
        if (longest <= area_ns(&c->l) || !widen_longest(&c->l))
            break;
    }
    return QN_OK;
}

static qn_status try_rules(choosing *c) {
    for (qn_timetable_rule rule = QN_TIMETABLE_ONE_BY_ONE; rule <= QN_TIMETABLE_BEST_WIDTH;
         rule++) {
        run_rule(&c->l, rule, 1, &c->trial);
        QN_TRY(judge(c, policies[rule == QN_TIMETABLE_ONE_BY_ONE ? ONE_BY_ONE : 0]));
    }
    for (int width = 1; width <= c->l.cores->n; width *= 2) {
        set_widths(&c->l, width);
        QN_TRY(try_policies(c));
    }
    set_best_widths(&c->l);
    return try_policies(c);
}

/* Small changes of the best: another width of one task in so many. */
static qn_status improve(choosing *c) {
    const int32_t n = c->l.tasks->n;
    const qn_rng rng = qn_rng_make(20, 1, 0);
    const int n_changes =
        MOST_PLACED / (n + 1) < MOST_CHANGES ? MOST_PLACED / (n + 1) : MOST_CHANGES;
    for (int i = 0; i < n_changes && n > 0 && c->l.cores->n > 1; i++) {
        const uint64_t at = 4 * (uint64_t)i;
        const int32_t first = (int32_t)qn_rng_below(rng, at, (uint64_t)n);
        const int32_t count = 1 + (int32_t)qn_rng_below(rng, at + 1, (uint64_t)n / 32 + 1);
        const bool is_wider = qn_rng_below(rng, at + 2, 2) == 0;
        const qn_list_policy policy =
            qn_rng_below(rng, at + 3, 4) == 0 ? policies[i % count_policies(c)] : c->best_policy;
        memcpy(c->l.widths, c->best_widths, (size_t)n * sizeof *c->best_widths);
        for (int32_t t = first; t < first + count && t < n; t++) {
            const int width = c->l.widths[t];
            c->l.widths[t] =
                (int16_t)(is_wider ? qn_lister_next_width(&c->l, width) : (width + 1) / 2);
        }
        qn_lister_run(&c->l, policy, &c->trial);
        QN_TRY(judge(c, policy));
    }
    return QN_OK;
}

/* Tasks of the longest way get so many cores at most, and all others so many: what nobody waits for
 * runs beside what all wait for, as filters' gradients beside data's. */
static void set_two_widths(qn_lister *l, const bool *is_long, int most, int others) {
    for (int32_t i = 0; i < l->tasks->n; i++)
        l->widths[i] = (int16_t)qn_lister_best_width(l, i, is_long[i] ? most : others);
}

/* Those through which the longest way is nearly as long as the longest of all. heads: scratch. */
static void find_long(qn_lister *l, double *heads, bool *is_long) {
    const qn_task_list *before = &l->tasks->before;
    set_best_widths(l);
    const double longest = qn_lister_fill_levels(l);
    for (int32_t i = 0; i < l->tasks->n; i++) {
        heads[i] = 0;
        for (int32_t e = before->first[i]; e < before->first[i + 1]; e++) {
            const int32_t b = before->tasks[e];
            const double end = heads[b] + qn_lister_ns(l, b, l->widths[b]);
            heads[i] = end > heads[i] ? end : heads[i];
        }
        is_long[i] = heads[i] + l->levels[i] > 0.95 * longest;
    }
}

static qn_status try_splits(choosing *c, const bool *is_long) {
    const int n = c->l.cores->n;
    for (int eighths = 3; eighths < 8; eighths++) {
        const int most = n * eighths / 8;
        for (int others = n - most; others > 0 && most > 0; others /= 2) {
            set_two_widths(&c->l, is_long, most, others);
            QN_TRY(try_policies(c));
        }
    }
    return QN_OK;
}

static qn_status try_two_widths(choosing *c) {
    const size_t n = (size_t)c->l.tasks->n + 1;
    const qn_allocator *a = c->l.tasks->allocator;
    double *heads = NULL;
    bool *is_long = NULL;
    qn_status status = qn_allocate(a, n, sizeof *heads, &heads);
    if (status == QN_OK)
        status = qn_allocate(a, n, sizeof *is_long, &is_long);
    if (status == QN_OK) {
        find_long(&c->l, heads, is_long);
        status = try_splits(c, is_long);
    }
    qn_release(a, heads, n, sizeof *heads);
    qn_release(a, is_long, n, sizeof *is_long);
    return status;
}

static qn_status choose(choosing *c) {
    QN_TRY(try_rules(c));
    QN_TRY(try_stages(c));
    return improve(c);
}

/* The same from another beginning, as small changes of it may lead further than those of the best,
 * and with updates when cores are free: the memory that this takes has to pay. */
static qn_status choose_anew(choosing *c) {
    qn_timetable *first = c->best, other;
    QN_TRY(qn_timetable_init(c->l.tasks->allocator, c->l.tasks->n, &other));
    c->best = &other;
    c->has_best = false;
    c->l.is_late = true;
    qn_status status = try_two_widths(c);
    if (status == QN_OK)
        status = improve(c);
    c->best = first;
    if (status == QN_OK &&
        qn_timetable_cost(&other, c->prefer) < late_gain * qn_timetable_cost(first, c->prefer))
        exchange(first, &other);
    qn_timetable_deinit(&other);
    return status;
}

qn_status qn_timetable_choose(const qn_tasks *tasks, const qn_cores *cores, qn_prefer prefer,
                              qn_timetable *schedule) {
    const size_t n = (size_t)tasks->n + 1;
    choosing c = {.prefer = prefer, .best = schedule};
    QN_TRY(qn_lister_init(tasks, cores, &c.l));
    qn_status status = qn_timetable_init(tasks->allocator, tasks->n, &c.trial);
    if (status == QN_OK)
        status = qn_allocate(tasks->allocator, n, sizeof *c.best_widths, &c.best_widths);
    if (status == QN_OK)
        status = choose(&c);
    if (status == QN_OK && cores->n >= MANY)
        status = choose_anew(&c);
    qn_release(tasks->allocator, c.best_widths, n, sizeof *c.best_widths);
    qn_timetable_deinit(&c.trial);
    qn_lister_deinit(&c.l);
    return status;
}
