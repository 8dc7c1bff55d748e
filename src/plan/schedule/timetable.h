/* Which operation runs when, and on which cores: schedules of a graph of tasks, made by a rule, and
 * judged by simulation. An operation takes neighbouring cores and keeps them to its end.
 *
 * What is chosen (qn_timetable_choose) is by prediction never slower than one operation after
 * another on all cores, as that is among what it chooses from. Everything is deterministic. */
#ifndef QN_PLAN_SCHEDULE_TIMETABLE_H
#define QN_PLAN_SCHEDULE_TIMETABLE_H

#include "plan/schedule/tasks.h"
#include "quern/engine.h"

/* A task's cores, its place in the order of begins, and when it is predicted to run. */
typedef struct qn_turn {
    int16_t first, width;
    int32_t rank;
    int32_t behind; /* so many of the first by rank have to be done before it begins */
    double begin_ns, end_ns;
} qn_turn;

/* Invariants: order is a permutation in which a task comes after those before it; on a core one
 * task ends before the next begins; ns is the last end. */
typedef struct qn_timetable {
    const qn_allocator *allocator;
    int32_t n;
    qn_turn *turns; /* (n), by task */
    int32_t *order; /* (n): tasks by rank */
    double ns, joules;
    double most_watts; /* at any time */
} qn_timetable;

qn_status qn_timetable_init(const qn_allocator *allocator, int32_t n, qn_timetable *schedule);
void qn_timetable_deinit(qn_timetable *schedule);

/* Fills `behind` by the times predicted: what ends before a task begins is done then. */
void qn_timetable_fill_behind(qn_timetable *schedule);

/* Makes each wait for all but so many of those before it by rank: less memory, and less freedom. */
void qn_timetable_keep_close(qn_timetable *schedule, int32_t most);

/* The rules. */
typedef enum qn_timetable_rule {
    QN_TIMETABLE_ONE_BY_ONE, /* all cores for each, in the plan's order */
    QN_TIMETABLE_FIFO,       /* groups of `width` cores take what is ready first: the two numbers
                               of threads of other frameworks */
    QN_TIMETABLE_HEFT,       /* one core for each, where it ends first, longest way to the end first
                               (Topcuoglu, Hariri and Wu, 2002) */
    QN_TIMETABLE_BEST_WIDTH, /* each as wide as is fastest alone; others fill free cores */
} qn_timetable_rule;

/* Makes a schedule by a rule, and simulates it, with cores that do not help each other; width: of
 * FIFO. */
qn_status qn_timetable_make(const qn_tasks *tasks, const qn_cores *cores, qn_timetable_rule rule,
                            int width, qn_timetable *schedule);

/* What is to be least of a schedule. */
double qn_timetable_cost(const qn_timetable *schedule, qn_prefer prefer);

/* Ours: widths and starts chosen together, from several beginnings, then improved by small changes.
 * The best by what is preferred. */
qn_status qn_timetable_choose(const qn_tasks *tasks, const qn_cores *cores, qn_prefer prefer,
                              qn_timetable *schedule);

/* The fastest there is, by trying all, for at most QN_OPTIMUM_TASKS tasks; QN_ERROR_UNSUPPORTED:
 * there are more, or too many ways. */
enum { QN_OPTIMUM_TASKS = 12 };
qn_status qn_timetable_optimum(const qn_tasks *tasks, const qn_cores *cores,
                               qn_timetable *schedule);

/* No schedule takes less than any of these. */
typedef struct qn_timetable_bounds {
    double critical_path_ns; /* each at its fastest width */
    double work_ns;          /* all cores always busy, no threads to pay for */
    double memory_ns;        /* all bytes that are not in caches, by the memory */
} qn_timetable_bounds;

qn_status qn_timetable_bound(const qn_tasks *tasks, const qn_cores *cores,
                             qn_timetable_bounds *bounds);

/* Predicts begins and ends of turns whose cores and order are given: operations that run side by
 * side share the memory's bandwidth. Fills begin_ns, end_ns, ns, joules and most_watts. */
qn_status qn_timetable_simulate(const qn_tasks *tasks, const qn_cores *cores,
                                qn_timetable *schedule);

/* A schedule of some of the cores. */
typedef struct qn_trade {
    int n_of_kind[QN_MAX_CORE_KINDS];
    double speed; /* part of the full clock */
    double ns, joules, most_watts;
} qn_trade;

/* The curve of time against energy: schedules of which none is both as fast and as cheap as
 * another, the fastest first. */
enum { QN_TRADES = 24 };
typedef struct qn_trades {
    int n;
    qn_trade list[QN_TRADES]; /* (n) */
} qn_trades;

/* The same as choose for a part of the cores, so many of each kind, that suits best: the fastest,
 * the one with least energy, or the least energy times time; at most so many watts at any time (0:
 * no matter). The schedule counts the cores of *part. *trades, which may have some and may be null,
 * gets the parts that were tried. QN_ERROR_ARGUMENT: so few watts are too few for one core; the
 * message says how many it takes. */
qn_status qn_timetable_prefer(const qn_tasks *tasks, const qn_cores *cores, qn_prefer prefer,
                              double watts, qn_cores *part, qn_timetable *schedule,
                              qn_trades *trades);

/* The curve of a machine: what is preferred for time, energy and both, and all that was tried. */
qn_status qn_timetable_trade(const qn_tasks *tasks, const qn_cores *cores, double watts,
                             qn_trades *trades);

/* "2 big, 4 little" */
void qn_trade_name(const qn_trade *trade, const qn_cores *cores, char *text, size_t bytes);

#endif
