/* Operations of training side by side on the cores: when plans are made, or where that waits until
 * a run is long (later.c), operations are timed in rehearsed steps or in training's own, a schedule
 * is chosen (plan/schedule), and a second plan is made of it; it is tried too, times are corrected
 * by it, and the schedule is chosen anew. Then steps run by turns by the fastest plan and by the
 * one that runs operations one by one, on all threads and on fewer, and the fastest way is kept;
 * they are compared again when steps take longer or shorter than they did. Equal bits. */
#ifndef QN_RUN_CORES_CORES_H
#define QN_RUN_CORES_CORES_H

#include "plan/schedule/timetable.h"
#include "run/cores/schedule_file.h"
#include "run/engine.h"
#include "run/rehearsal.h"

/* Ways of running a step: operations one by one on all threads, side by side, and one by one on
 * half the threads, a quarter, ... */
enum { QN_CORES_ALL, QN_CORES_BESIDE, QN_CORES_FEWER, QN_CORES_MODES = QN_CORES_FEWER + 4 };

/* Counted rounds of a trial at most. */
enum { QN_CORES_ROUNDS = 24 };

/* A way in a trial: the mean time of a step in each round's window. */
typedef struct qn_core_mode {
    double rounds_ns[QN_CORES_ROUNDS]; /* (n) */
    double least_ns;                   /* of them */
    int n;
    bool is_out;
} qn_core_mode;

/* Which way is kept, or, in a trial, is tried now. A window is some steps one way. */
typedef struct qn_core_adapting {
    int mode, kept, before;  /* before: kept when the trial began */
    bool is_trial, is_first; /* is_first: the trial that training begins with */
    bool is_look;            /* a trial that confirms what an earlier one preferred */
    int n_looks;
    bool is_slow; /* steps became much longer: without operations side by side until that ends */
    int n_rounds, n_warm;          /* left of the trial: counted, and those before them */
    bool is_long;                  /* a window of it was one step */
    double ns;                     /* of the window so far */
    int64_t n_steps;               /* likewise */
    double mean_ns;                /* of a step, over the last windows */
    int64_t n_windows;             /* since the last trial */
    int n_odd;                     /* windows in a row that differ from those before */
    double idle_ns, idle_share;    /* of all cores: so far; in a window after the last trial */
    int n_idle;                    /* windows in a row with more of it */
    int64_t rest, every;           /* windows until a trial */
    double watts[QN_CORES_MODES];  /* of a way: a model; 0: unknown */
    double weight[QN_CORES_MODES]; /* what is to be least is this times the nanoseconds */
    qn_core_mode modes[QN_CORES_MODES];
} qn_core_adapting;

/* The state of the policy qn_policy_cores (run/policy.h). The program's plan and executor are those
 * of `is_beside`; the others are kept here. */
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
    bool is_cached;              /* the schedule is in the cache folder */
    struct qn_core_later *later; /* a schedule is to be found in training's own steps; null: not */
    double parts;                /* of the time so far, in which what is tried then may be one */
    qn_cores_use use;
} qn_core_plans;

/* Of an engine; null: its operations run one by one. */
static inline qn_core_plans *qn_cores_of(const qn_engine *engine) {
    return engine->policies[QN_POLICY_CORES];
}

/* So many cores like those of facts (null, or without caches measured: typical ones), with the
 * watts of the wish where it has some. */
qn_cores qn_cores_for(const qn_cores *facts, const qn_core_wish *wish, int n);

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
int qn_cores_threads(const qn_core_plans *plans, int mode);

/* Where schedules of a program are tried. */
typedef struct qn_core_trying {
    qn_engine *e;
    qn_core_plans *c;
    qn_program *p;
    qn_cores cores;
    const qn_rehearsal *rehearsal; /* null: training's own steps */
    qn_tasks *tasks;
    qn_timetable *t, *seen; /* chosen now, and its shortest run */
    double one_by_one_ns;   /* predicted by the same times as t */
} qn_core_trying;

/* Shortest times of operations, n of them, so many bytes apart, below 0: none. Together they are
 * shorter than any step: in the same proportion they become as long as the shortest, least_ns. */
void qn_cores_scale_times(double *ns, size_t apart, int32_t n, double least_ns);

/* The schedule to be tried next, by the times that are known, and one by one beside it:
 * predictions by different times cannot be compared. */
qn_status qn_cores_choose(qn_core_trying *y);

/* Makes the second plan of y->t, and its executor over the engine's arena; with no other one. */
qn_status qn_cores_open(const qn_core_trying *y);

/* Behind its tries, of which the shortest took ns: it stays if it is faster than the one before,
 * which is dropped then; else that one comes back. before: as all was before it was opened. */
void qn_cores_decide(const qn_core_trying *y, const qn_core_plans *before, bool is_good, double ns);

/* The schedule that is kept in the cache folder, as y->t, if there is one that the steps allow;
 * then what is known of it, once its plan is open. */
bool qn_cores_load_cached(qn_core_trying *y, qn_schedule_times *times);
void qn_cores_take_cached(qn_core_trying *y, const qn_schedule_times *times);
void qn_cores_save(qn_core_plans *plans);
void qn_cores_fill_key(const qn_engine *engine, qn_core_plans *plans);

/* No second plan. */
void qn_cores_drop(qn_core_plans *plans);

/* What an engine begins with whose schedule is found later, and what it ends with. */
qn_status qn_cores_begin_later(qn_engine *engine, qn_core_plans *plans);
void qn_cores_end_later(qn_core_plans *plans);

/* Before a step, when the program has its usual plan: what is due is done. Then the way of the
 * step, its threads, and where it is recorded (null: nowhere); behind it, what it took. */
void qn_cores_go_on_later(qn_engine *engine, qn_core_plans *plans);
int qn_cores_later_mode(const qn_core_plans *plans);
int qn_cores_later_threads(const qn_core_plans *plans);
const qn_watch *qn_cores_later_watch(const qn_core_plans *plans);
void qn_cores_note_later(qn_core_plans *plans, double ns);

/* What a schedule does when it runs. Begin allocates, the end releases; between them each run is
 * seen, and in the end what an operation took beside others is what it takes. */
typedef struct qn_core_seeing {
    const qn_allocator *allocator;
    const qn_timetable *timetable;
    const qn_cores *cores;
    qn_tasks *tasks;
    qn_timetable *seen; /* the shortest run */
    qn_events *events;  /* where runs are recorded */
    double *ns;         /* (n): shortest, by task; below 0: none was recorded */
    qn_turn *turns;     /* (n), by task: in the last run */
} qn_core_seeing;

qn_status qn_cores_begin_seeing(const qn_allocator *allocator, qn_core_seeing *seeing);
void qn_cores_see(const qn_core_seeing *seeing, int64_t begin_ns, double ns, bool is_least);
void qn_cores_correct(const qn_core_seeing *seeing);
void qn_cores_end_seeing(qn_core_seeing *seeing);

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
