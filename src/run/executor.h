/* Runs a plan: lane 0 on the calling thread, further lanes (executor_lanes.h) beside it. All
 * pointers are computed when the executor is created; running allocates nothing and decides
 * nothing. */
#ifndef QN_RUN_EXECUTOR_H
#define QN_RUN_EXECUTOR_H

#include "base/events.h"
#include "device/call.h"
#include "plan/plan.h"

typedef struct qn_executor qn_executor;

/* An executor of a plan over the arena (plan->arena_bytes, QN_ALIGNMENT), which several executors
 * may share in turn; null: it can be looked at, but not run, and its lanes are not open. Graph,
 * plan, machine and team must outlive it. */
qn_status qn_executor_create(const qn_allocator *allocator, const qn_graph *graph,
                             const qn_plan *plan, const qn_machine *machine, qn_team *team,
                             void *arena, qn_executor **executor);
void qn_executor_destroy(qn_executor *executor);

/* Opens the lanes of a plan of several: queues of the machine's devices, which further spaces are
 * reserved from, but for one whose arena is given (space 0: none). Once, and before it runs; where
 * it is made with an arena, that is done already. */
qn_status qn_executor_open_lanes(qn_executor *executor, int space, char *arena);

/* Says where the arena is: again, if it has moved. Bits in it are nobody's here. Null: nowhere. */
void qn_executor_set_arena(qn_executor *executor, void *arena);

/* Says where a value given from outside (parameter, state, input, label) lies. */
void qn_executor_bind(qn_executor *executor, qn_value value, void *memory);

/* Where a value lies: a result after run. */
void *qn_executor_get(const qn_executor *executor, qn_value value);

/* Where a run may be given up (run/guard): the steps before loss_end make the first loss (0: not
 * known), those before first_change change nothing that lasts but running means.
 * counts: all that lasts is changed by updates that look at their numbers first, on the CPU;
 * can_try: and the steps may be run without them, and again.
 * are_ready: all numbers that updates look at are made before first_change. */
typedef struct qn_guard_marks {
    int32_t loss_end, first_change;
    bool counts, can_try, are_ready;
} qn_guard_marks;

/* Its updates look at their numbers from now on, and say there what they find. */
void qn_executor_check_updates(qn_executor *executor, qn_finite_check *check);

void qn_executor_set_marks(qn_executor *executor, qn_guard_marks marks);
qn_guard_marks qn_executor_get_marks(const qn_executor *executor);

/* Where a run is recorded, and as what. */
typedef struct qn_watch {
    qn_events *events;
    qn_event label; /* its program and step go into every record */
} qn_watch;

/* Runs all steps; or, where a disk fails, those before the one that needs what it should have held
 * (QN_ERROR_IO): updates up to there are done. QN_ERROR_DEVICE: a device was lost, and
 * nothing was updated. seed and step key the random streams.
 * Every outside value is bound. watch: null, or where each step is recorded; the team is watched
 * too then. */
qn_status qn_executor_run(qn_executor *executor, uint64_t seed, uint64_t step,
                          const qn_watch *watch);

/* The same from step *next on to before step end, and only until *stop (null: never), looked at
 * before each step of lane 0 and set by any thread, is not 0; a plan whose lanes are cores goes on
 * to the end. *next is then the step of lane 0 that would run next, or the end; all steps before it
 * are done, and none from it on. Further lanes of the plan do their steps in their turn (qn_lane).
 */
qn_status qn_executor_run_from(qn_executor *executor, int32_t *next, int32_t end, const int *stop,
                               uint64_t seed, uint64_t step, const qn_watch *watch);

/* Whether its runs may be given to a device ahead: all of its steps are the device's, and of the
 * host's memory they copy inputs, and what is small. */
bool qn_executor_can_go_ahead(const qn_executor *executor);

/* The same as run, but returns when the results are there: its other steps, updates among them, may
 * not have ended. Before an input is bound anew, or another value from outside changes,
 * await_begun; inputs stay as they are until finish, which waits for the end of all runs: before
 * anything else that the device or another executor does. QN_ERROR_DEVICE, of both: a device was
 * lost, and nothing is known of the runs since the last finish. */
qn_status qn_executor_run_ahead(qn_executor *executor, uint64_t seed, uint64_t step);
void qn_executor_await_begun(const qn_executor *executor);
qn_status qn_executor_finish(qn_executor *executor);

/* A step of the plan as it is called: node, descriptions of its tensors. */
const qn_call *qn_executor_get_call(const qn_executor *executor, int32_t step);

#endif
