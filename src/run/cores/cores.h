/* Operations of training side by side on the cores: when plans are made, operations are timed in
 * the engine's arena before it holds anything, a schedule is chosen (plan/schedule), and a second
 * plan is made of it. The first steps run by both plans in turn, and the faster one is kept; now
 * and then they are compared again, as other programs may have come or gone. Equal bits. */
#ifndef QN_RUN_CORES_CORES_H
#define QN_RUN_CORES_CORES_H

#include "plan/schedule/timetable.h"
#include "run/engine.h"

/* What an engine with options.cores holds. The program's plan and executor are those of
 * `is_beside`; the others are kept here. */
typedef struct qn_core_plans {
    int program;
    qn_plan *other_plan;
    qn_executor *other_executor;
    bool is_beside; /* the program runs by the plan with operations side by side */
    bool is_kept;   /* what is better is known, until steps are compared again */
    int64_t n_runs, n_compared, n_won; /* steps compared; pairs in which side by side was faster */
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

/* Curves of a plan's steps: measured with one thread and with all of the engine's, those that
 * cannot be run before training predicted from the others. Fills use's errors. */
qn_status qn_cores_measure(qn_engine *engine, const qn_program *program, const qn_cores *cores,
                           qn_tasks *tasks, qn_cores_use *use);

#endif
