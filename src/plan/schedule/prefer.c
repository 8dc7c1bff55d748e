/* Which part of the cores to use: schedules for time, for energy, and under a ceiling of power. */
#include "base/status.h"
#include "plan/schedule/timetable.h"

#include <stdio.h>
#include <string.h>

typedef struct preferring {
    const qn_tasks *tasks;
    const qn_cores *cores;
    qn_prefer prefer;
    double watts; /* 0: no matter */
    qn_cores *part;
    qn_timetable *best, trial;
    bool has_best;
    int n_of_kind[QN_MAX_CORE_KINDS]; /* of the part that is tried */
    qn_trades *trades;                /* or null */
} preferring;

/* The power that no schedule of these cores is above. */
static double all_watts(const qn_cores *c) {
    double watts = c->idle_watts;
    for (int k = 0; k < c->n_kinds; k++)
        watts += c->kinds[k].n * c->kinds[k].watts;
    return watts;
}

/* Curves are of cores of kind 0; where those are left out, they are of the first kind that is left.
 */
static void change_kind(const preferring *p, const qn_cores *part, qn_curve *to) {
    int first = 0; /* core of the kind that is first now */
    for (int k = 0; k < p->cores->n_kinds; k++) {
        if (strcmp(p->cores->kinds[k].name, part->kinds[0].name) == 0)
            break;
        first += p->cores->kinds[k].n;
    }
    for (int32_t i = 0; i < p->tasks->n; i++) {
        const qn_curve *from = &p->tasks->curves[i];
        const double alone = qn_curve_ns(from, p->cores, first, 1) / part->speed;
        to[i] = *from;
        /* Where nothing changes, the ratio is 1 and the curve the same to the last bit. */
        to[i].serial_ns = from->alone_ns > 0 ? from->serial_ns * (alone / from->alone_ns) : 0;
        to[i].least_ns *= from->alone_ns > 0 ? alone / from->alone_ns : 1;
        to[i].alone_ns = alone;
    }
}

static bool is_as_good(const qn_trade *a, const qn_trade *b) {
    return a->ns <= b->ns && a->joules <= b->joules;
}

/* In its place by time, instead of those that are worse; a full curve stays as it is. */
static void add_trade(qn_trades *to, const qn_trade *trade) {
    int n = 0, at;
    for (int i = 0; i < to->n; i++) {
        if (is_as_good(&to->list[i], trade))
            return;
    }
    for (int i = 0; i < to->n; i++) {
        if (!is_as_good(trade, &to->list[i]))
            to->list[n++] = to->list[i];
    }
    to->n = n;
    if (n == QN_TRADES)
        return;
    for (at = to->n++; at > 0 && to->list[at - 1].ns > trade->ns; at--)
        to->list[at] = to->list[at - 1];
    to->list[at] = *trade;
}

static void note_trade(const preferring *p, const qn_cores *part) {
    qn_trade trade = {.speed = part->speed,
                      .ns = p->trial.ns,
                      .joules = p->trial.joules,
                      .most_watts = p->trial.most_watts};
    memcpy(trade.n_of_kind, p->n_of_kind, sizeof trade.n_of_kind);
    if (p->trades)
        add_trade(p->trades, &trade);
}

static qn_status judge(preferring *p, const qn_cores *part) {
    qn_tasks tasks = *p->tasks;
    const size_t n = (size_t)tasks.n + 1;
    QN_TRY(qn_allocate(tasks.allocator, n, sizeof *tasks.curves, &tasks.curves));
    change_kind(p, part, tasks.curves);
    const qn_status status = qn_timetable_choose(&tasks, part, p->prefer, &p->trial);
    qn_release(tasks.allocator, tasks.curves, n, sizeof *tasks.curves);
    if (status == QN_OK)
        note_trade(p, part);
    if (status != QN_OK || (p->has_best && qn_timetable_cost(&p->trial, p->prefer) >=
                                               qn_timetable_cost(p->best, p->prefer)))
        return status;
    const qn_timetable kept = *p->best;
    *p->best = p->trial;
    p->trial = kept;
    *p->part = *part;
    p->has_best = true;
    return QN_OK;
}

/* Numbers of cores that are tried of a kind: 0, then powers of two, and all. */
static int next_count(int n, int most) {
    return n == 0 ? 1 : n < most && 2 * n > most ? most : 2 * n;
}

/* A part at every level of its frequency that the ceiling allows. */
static qn_status try_levels(preferring *p, const qn_cores *part) {
    const bool is_all = part->n == p->cores->n;
    const bool is_any = p->prefer != QN_PREFER_TIME || p->watts > 0;
    if (part->n == 0 || (!is_any && !is_all))
        return QN_OK;
    for (int level = 0; level <= (is_any ? part->n_levels : 0); level++) {
        const qn_cores at = qn_cores_at(part, level);
        if (p->watts <= 0 || all_watts(&at) <= p->watts)
            QN_TRY(judge(p, &at));
    }
    return QN_OK;
}

/* All parts, a kind after the other. */
static qn_status try_kinds(preferring *p, int kind) {
    if (kind == p->cores->n_kinds) {
        const qn_cores part = qn_cores_part(p->cores, p->n_of_kind);
        return try_levels(p, &part);
    }
    const int most = p->cores->kinds[kind].n;
    for (int n = 0; n <= most; n = next_count(n, most)) {
        p->n_of_kind[kind] = n;
        QN_TRY(try_kinds(p, kind + 1));
    }
    return QN_OK;
}

static qn_status refuse_watts(const preferring *p) {
    double least = p->cores->kinds[0].watts;
    for (int level = 0; level <= p->cores->n_levels; level++) {
        const qn_cores at = qn_cores_at(p->cores, level);
        for (int k = 0; k < at.n_kinds; k++)
            least = at.kinds[k].watts < least ? at.kinds[k].watts : least;
    }
    return qn_fail(QN_ERROR_ARGUMENT,
                   "%g W are too few: the machine takes %g W with one core; give at least that",
                   p->watts, p->cores->idle_watts + least);
}

qn_status qn_timetable_prefer(const qn_tasks *tasks, const qn_cores *cores, qn_prefer prefer,
                              double watts, qn_cores *part, qn_timetable *schedule,
                              qn_trades *trades) {
    preferring p = {.tasks = tasks,
                    .cores = cores,
                    .prefer = prefer,
                    .watts = watts,
                    .part = part,
                    .best = schedule,
                    .trades = trades};
    QN_TRY(qn_timetable_init(tasks->allocator, tasks->n, &p.trial));
    qn_status status = try_kinds(&p, 0);
    if (status == QN_OK && !p.has_best)
        status = refuse_watts(&p);
    qn_timetable_deinit(&p.trial);
    return status;
}

qn_status qn_timetable_trade(const qn_tasks *tasks, const qn_cores *cores, double watts,
                             qn_trades *trades) {
    qn_timetable schedule;
    qn_cores part;
    QN_TRY(qn_timetable_init(tasks->allocator, tasks->n, &schedule));
    qn_status status = QN_OK;
    for (qn_prefer p = QN_PREFER_TIME; p <= QN_PREFER_BALANCED && status == QN_OK; p++)
        status = qn_timetable_prefer(tasks, cores, p, watts, &part, &schedule, trades);
    qn_timetable_deinit(&schedule);
    return status;
}

void qn_trade_name(const qn_trade *trade, const qn_cores *cores, char *text, size_t bytes) {
    size_t used = 0;
    text[0] = 0;
    for (int k = 0; k < cores->n_kinds && used < bytes; k++) {
        if (trade->n_of_kind[k] > 0)
            used += (size_t)snprintf(text + used, bytes - used, "%s%d %s", used > 0 ? ", " : "",
                                     trade->n_of_kind[k], cores->kinds[k].name);
    }
}
