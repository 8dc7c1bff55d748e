/* Operations of training side by side on the cores: when plans are made, operations are timed in
 * rehearsed steps, a schedule is chosen (plan/schedule), and a second plan is made of it; it is
 * rehearsed too, times are corrected by it, and the schedule is chosen anew. The first steps run by
 * turns by the fastest plan and by the one that runs operations one by one, on all threads and on
 * fewer, and the fastest way is kept; they are compared again now and then, and when steps take
 * longer or shorter than they did. Equal bits. */
#ifndef QN_RUN_CORES_CORES_H
#define QN_RUN_CORES_CORES_H

#include "plan/schedule/timetable.h"
#include "run/cores/schedule_file.h"
#include "run/engine.h"
#include "run/rehearsal.h"

/* Ways of running a step: operations one by one on all threads, side by side, and one by one on
 * half the threads, a quarter, ... */
enum { QN_CORES_ALL, QN_CORES_BESIDE, QN_CORES_FEWER, QN_CORES_WAYS = QN_CORES_FEWER + 4 };

/* Counted rounds of a trial at most. */
enum { QN_CORES_ROUNDS = 8 };

/* A way in a trial: the mean time of a step in each round's window. */
typedef struct qn_core_way {
    double rounds_ns[QN_CORES_ROUNDS]; /* (n) */
    double least_ns;                   /* of them */
    int n;
    bool is_out;
} qn_core_way;

/* Which way is kept, or, in a trial, is tried now. A window is some steps one way. */
typedef struct qn_core_adapting {
    int way, kept, before;   /* before: kept when the trial began */
    bool is_trial, is_first; /* is_first: the trial that training begins with */
    bool is_slow; /* steps became much longer: without operations side by side until that ends */
    int n_rounds, n_warm;         /* left of the trial: counted, and those before them */
    double ns;                    /* of the window so far */
    int64_t n_steps;              /* likewise */
    double mean_ns;               /* of a step, over the last windows */
    int64_t n_windows;            /* since the last trial */
    int n_odd;                    /* windows in a row that differ from those before */
    double idle_ns, idle_share;   /* of all cores: so far; in a window after the last trial */
    int n_idle;                   /* windows in a row with more of it */
    int64_t rest, every;          /* windows until a trial */
    double watts[QN_CORES_WAYS];  /* of a way: a model; 0: unknown */
    double weight[QN_CORES_WAYS]; /* what is to be least is this times the nanoseconds */
    qn_core_way ways[QN_CORES_WAYS];
} qn_core_adapting;

/* What an engine with options.cores holds. The program's plan and executor are those of
 * `is_beside`; the others are kept here. */
typedef struct qn_core_plans {
    int program;
    qn_plan *other_plan;
    qn_executor *other_executor;
    bool is_beside; /* the program runs by the plan with operations side by side */
    int n_threads;  /* of the engine */
    qn_core_adapting adapting;
    int64_t (*get_idle_ns)(void); /* of all cores so far, below 0: unknown; or null */
    int64_t begin_ns;
    qn_curve *curves; /* (n_curves): of the plan one by one, by step; null: from the cache */
    size_t n_curves;
    qn_timetable schedule; /* that the second plan was made of, as predicted; n 0: none */
    qn_timetable seen;     /* the same as it ran in rehearsal, where rank is that in the schedule;
                              end_ns 0: not seen */
    qn_schedule_key key;
    bool is_cached; /* the schedule is in the cache folder */
    qn_cores_use use;
} qn_core_plans;

/* So many cores like those of facts (null, or without caches measured: typical ones), with the
 * watts of the wish where it has some. */
qn_cores qn_cores_for(const qn_cores *facts, const qn_core_wish *wish, int n);

/* After the engine is planned: makes the second plan of its first training program, if its options
 * ask for it and a schedule is predicted to be faster. */
qn_status qn_engine_plan_cores(qn_engine *engine);
void qn_engine_destroy_cores(qn_engine *engine);

/* Before a run of a program: takes the plan whose turn it is. After it: notes its time. */
void qn_cores_begin_run(qn_engine *engine, int program);
void qn_cores_end_run(qn_engine *engine, int program);

/* Measured curves of the first training program's steps, one by one; null: none were. */
const qn_curve *qn_cores_curves(const qn_engine *engine, int32_t *n);

/* The fastest schedule, as predicted and as it ran in rehearsal (an end of 0: not seen), by step of
 * the plan one by one; false: none was found. */
bool qn_cores_schedule(const qn_engine *engine, const qn_timetable **predicted,
                       const qn_timetable **seen);

/* ---- between the files of this room ---- */

/* Begins to compare the ways that there are, for what is wished. */
void qn_cores_begin_trials(qn_core_plans *plans, const qn_core_wish *wish);

/* Takes down a step by adapting.way, and says in it how the next is run. */
void qn_cores_note(qn_core_plans *plans, double ns);

/* Threads of a way. */
int qn_cores_threads(const qn_core_plans *plans, int way);

/* Curves of a plan's steps, measured with one thread and with all of the engine's. Fills use's
 * errors. */
qn_status qn_cores_measure(const qn_rehearsal *rehearsal, const qn_cores *cores, qn_tasks *tasks,
                           qn_cores_use *use);

/* Runs an executor of the program a few times, and gives the shortest time. timetable: null, or
 * what its plan was made of; the curves are then corrected: what an operation took beside others is
 * what it takes; *seen is filled with the shortest run. */
qn_status qn_cores_rehearse(const qn_rehearsal *rehearsal, qn_executor *executor,
                            const qn_timetable *timetable, const qn_cores *cores, qn_tasks *tasks,
                            qn_timetable *seen, qn_cores_use *use, double *least_ns);

#endif
