/* List scheduling of tasks that take several cores (Graham, "Bounds on multiprocessing timing
 * anomalies", 1969; widths as in Radulescu and van Gemund's CPA, 2001). For the files of this room.
 */
#ifndef QN_PLAN_SCHEDULE_LIST_H
#define QN_PLAN_SCHEDULE_LIST_H

#include "plan/schedule/timetable.h"

typedef enum qn_list_order {
    QN_LIST_PLAN,  /* the plan's */
    QN_LIST_READY, /* what was ready first */
    QN_LIST_LEVEL, /* the longest way to the end */
} qn_list_order;

typedef struct qn_list_policy {
    qn_list_order order;
    bool is_strict; /* nothing overtakes a task that waits for more cores */
    bool spreads;   /* a task waits while others need so much of the memory that it would be slow */
    bool grows;     /* a task takes more cores than its width where others need none */
} qn_list_policy;

/* Memory for schedules of so many tasks. */
typedef struct qn_lister {
    const qn_tasks *tasks;
    const qn_cores *cores;
    int16_t *widths;     /* (n): wanted; the caller's to set */
    double *levels;      /* (n): way to the end, with these widths */
    int32_t *n_blocking; /* (n) */
    int32_t *ready;      /* (n): those that may begin, the first first */
    int32_t *came;       /* (n): when a task became ready, as a count */
    double *ready_ns;    /* (n) */
    bool is_late; /* what nothing waits for comes when cores are free: faster, but more is kept */
} qn_lister;

qn_status qn_lister_init(const qn_tasks *tasks, const qn_cores *cores, qn_lister *lister);
void qn_lister_deinit(qn_lister *lister);

/* Nanoseconds of a task with a width, on the fastest cores. */
double qn_lister_ns(const qn_lister *lister, int32_t task, int width);

/* The width with which a task takes least, of at most so many. */
int qn_lister_best_width(const qn_lister *lister, int32_t task, int most);

/* The next width that is tried: the double, or all cores. */
int qn_lister_next_width(const qn_lister *lister, int width);

/* Ways to the end, with the widths that are set; the longest. */
double qn_lister_fill_levels(qn_lister *lister);

/* Fills first, width, rank and order of a schedule. */
void qn_lister_run(qn_lister *lister, qn_list_policy policy, qn_timetable *schedule);

/* One core for each task, where it ends first. */
void qn_lister_run_heft(qn_lister *lister, qn_timetable *schedule);

#endif
