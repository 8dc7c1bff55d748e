/* Running a plan's lanes: the queues of lanes 1 and up, the work submitted to them, and the memory
 * of further spaces. Everything is created before the first run. A run resets the timelines,
 * submits each lane's steps once, runs those of lane 0 on the calling thread, and waits for all. */
#ifndef QN_RUN_EXECUTOR_LANES_H
#define QN_RUN_EXECUTOR_LANES_H

#include "run/executor.h"

typedef struct qn_lane_runner qn_lane_runner;

/* calls (n_steps) must outlive it, and the devices of the machine. */
qn_status qn_lane_runner_create(const qn_allocator *allocator, const qn_plan *plan,
                                const qn_graph *graph, qn_call *calls, const qn_machine *machine,
                                qn_lane_runner **runner);
void qn_lane_runner_destroy(qn_lane_runner *runner);

/* Opens queues and reserves memory, but for the arena of a space that is given (0: of none). */
qn_status qn_lane_runner_open(qn_lane_runner *runner, int space, char *arena);

/* Where the arena of a space from 1 on begins, once it is open. */
char *qn_lane_runner_space(const qn_lane_runner *runner, int space);

/* Runs steps as qn_executor_run_from. QN_ERROR_DEVICE: a device was lost, and nothing was updated;
 * QN_ERROR_IO as qn_executor_run. */
qn_status qn_lane_runner_run(qn_lane_runner *runner, int32_t *next, int32_t end, const int *stop,
                             uint64_t seed, uint64_t step, const qn_watch *watch);

/* Whether all of its steps are those of one device which takes works ahead. */
bool qn_lane_runner_can_go_ahead(const qn_lane_runner *runner);

/* Runs all steps, behind those of the run before, which need not have ended; returns when what they
 * copy to the host is there. Before what the steps read of the host's changes, await_begun. */
qn_status qn_lane_runner_run_ahead(qn_lane_runner *runner, uint64_t seed, uint64_t step);
void qn_lane_runner_await_begun(const qn_lane_runner *runner);

/* Waits for the end of all runs. */
qn_status qn_lane_runner_finish(qn_lane_runner *runner);

#endif
