/* What can be observed of a running engine: the operations of its programs and, while it is
 * watched, when each of them ran. */
#ifndef QN_RUN_WATCH_H
#define QN_RUN_WATCH_H

#include "base/events.h"
#include "quern/engine.h"

/* Number of the program that updates parameters from accumulated gradients. */
enum { QN_PROGRAM_UPDATE = -1 };

typedef enum qn_pass { QN_PASS_FORWARD, QN_PASS_BACKWARD, QN_PASS_UPDATE } qn_pass;

/* A step of a program's plan. Texts are the engine's. */
typedef struct qn_operation {
    const char *type;   /* operator: "conv2d" */
    const char *name;   /* node: "conv1", "conv1.weight_gradient" */
    const char *device; /* "cpu" */
    qn_pass pass;
    int n_threads; /* that may take part */
    int64_t flops; /* a multiply-add is two */
    int64_t bytes; /* that must move */
    bool is_whole; /* it reads and makes whole numbers alone */
} qn_operation;

/* Programs 0 to n - 1; the update program, if there is one, is QN_PROGRAM_UPDATE. */
int qn_engine_program_count(const qn_engine *engine);
const char *qn_engine_program_name(const qn_engine *engine, int program);

/* Operations of a program, by step of its plan; 0 for an update program that is not there. */
int qn_engine_operation_count(const qn_engine *engine, int program);
qn_operation qn_engine_operation_at(const qn_engine *engine, int program, int item);

/* Lanes that a program has at most besides the thread that runs the plan. */
int qn_engine_lane_count(const qn_engine *engine);

/* From now on every run is recorded in events, which has a ring for every thread of the team and
 * every further lane, and must outlive the watch; null: no longer. What has no ring is not
 * recorded. Not while a program runs. Bits never depend on it. */
void qn_engine_watch(qn_engine *engine, qn_events *events);

/* From now on a run on the CPU ends between two operations once *stop is not zero, with
 * QN_ERROR_INTERRUPTED. A step of training ends so before its updates begin alone, and has changed
 * nothing; later it goes on to its end, unless it may spoil: parameters are then those of no step.
 * Changing budgets and ranks end with the step. Null: never. */
void qn_engine_stop_on(qn_engine *engine, const int *stop, bool may_spoil);

#endif
