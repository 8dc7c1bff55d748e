/* Operations of training side by side on the cores: when plans are made, operations are timed in
 * rehearsed steps, a schedule is chosen (plan/schedule), and a second plan is made of it; it is
 * rehearsed too, times are corrected by it, and the schedule is chosen anew. The first steps run by
 * turns by the fastest plan and by the one that runs operations one by one, and the faster is kept;
 * they are compared again now and then, and when steps take longer or shorter than they did. Equal
 * bits. */
#ifndef QN_RUN_CORES_CORES_H
#define QN_RUN_CORES_CORES_H

#include "plan/schedule/timetable.h"
#include "run/engine.h"
#include "run/rehearsal.h"

/* Ways of running a step: operations one by one on all threads, side by side, and one by one on
 * half the threads, a quarter, ... */
enum { QN_CORES_ALL, QN_CORES_BESIDE, QN_CORES_FEWER, QN_CORES_WAYS = QN_CORES_FEWER + 4 };

/* Which way is kept, or, in a trial, is tried now. A window is some steps one way. */
typedef struct qn_core_adapting {
    int way, kept;
    bool is_trial;
    double ns;                      /* of the window so far */
    int64_t n_steps;                /* likewise */
    int64_t n_windows, n_all;       /* since the last trial; steps since then */
    double mean_ns;                 /* of a step, over the last windows */
    double means_ns[QN_CORES_WAYS]; /* of a step, of the last trial */
} qn_core_adapting;

/* What an engine with options.cores holds. The program's plan and executor are those of
 * `is_beside`; the others are kept here. */
typedef struct qn_core_plans {
    int program;
    qn_plan *other_plan;
    qn_executor *other_executor;
    bool is_beside; /* the program runs by the plan with operations side by side */
    bool is_kept;   /* the first steps are compared */
    int n_threads;  /* of the engine */
    qn_core_adapting adapting;
    int64_t n_compared, n_won; /* steps compared; pairs in which side by side was faster */
    int64_t begin_ns;
    qn_curve *curves; /* (n_curves): of the plan one by one, by step */
    size_t n_curves;
    double last_ns[2];  /* one by one, side by side: the last step of each */
    double least_ns[2]; /* the shortest of this comparison */
    qn_cores_use use;
} qn_core_plans;

/* After the engine is planned: makes the second plan of its first training program, if its options
 * ask for it and a schedule is predicted to be faster. */
qn_status qn_engine_plan_cores(qn_engine *engine);
void qn_engine_destroy_cores(qn_engine *engine);

/* Before a run of a program: takes the plan whose turn it is. After it: notes its time. */
void qn_cores_begin_run(qn_engine *engine, int program);
void qn_cores_end_run(qn_engine *engine, int program);

/* Measured curves of the first training program's steps, one by one; null: none were. */
const qn_curve *qn_cores_curves(const qn_engine *engine, int32_t *n);

/* ---- between the files of this room ---- */

/* Takes down a step by adapting.way, and says in it how the next is run. */
void qn_cores_note(qn_core_plans *plans, double ns);

/* Threads of a way. */
int qn_cores_threads(const qn_core_plans *plans, int way);

/* Curves of a plan's steps, measured with one thread and with all of the engine's. Fills use's
 * errors. */
qn_status qn_cores_measure(const qn_rehearsal *rehearsal, const qn_cores *cores, qn_tasks *tasks,
                           qn_cores_use *use);

/* Runs an executor of the program a few times, and gives the shortest time. */
qn_status qn_cores_rehearse(const qn_rehearsal *rehearsal, qn_executor *executor, double *ns);

/* The same for one of a timetable's plan, and corrects the curves: what an operation took beside
 * others is what it takes. */
qn_status qn_cores_correct(const qn_rehearsal *rehearsal, qn_executor *executor,
                           const qn_timetable *timetable, const qn_cores *cores, qn_tasks *tasks);

#endif
