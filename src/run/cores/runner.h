/* Running a plan whose lanes are cores. A thread of the team stands for each lane and does the
 * lane's steps in their order, each when what it waits for is done. A thread that cannot go on
 * takes pieces of what others are at, so that a step planned for one core ends sooner where another
 * core has nothing to do; and does a step of another lane whose own thread is not there, as
 * another program may have its processor. Which thread does a step changes no bits, and the order
 * within a lane, which memory is planned by, stays. Running allocates nothing. */
#ifndef QN_RUN_CORES_RUNNER_H
#define QN_RUN_CORES_RUNNER_H

#include "run/executor.h"

typedef struct qn_core_runner qn_core_runner;

/* calls (n_steps) and the team must outlive it; the calls get teams of the runner's. */
qn_status qn_core_runner_create(const qn_allocator *allocator, const qn_plan *plan, qn_call *calls,
                                qn_team *team, qn_core_runner **runner);
void qn_core_runner_destroy(qn_core_runner *runner);

/* Runs steps from one on to before another; those before are done. */
void qn_core_runner_run(qn_core_runner *runner, int32_t begin, int32_t end, const qn_watch *watch);

#endif
