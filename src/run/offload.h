/* A graph that runs in several lanes, some of them on devices that may be lost. A lost device is
 * removed from the plan: its nodes move to lane 0, the graph is spread and planned again, and the
 * step is repeated from the host's values, none of which has been updated (plan.h). The user is
 * told; the bits are those of a run without the device. */
#ifndef QN_RUN_OFFLOAD_H
#define QN_RUN_OFFLOAD_H

#include "plan/lanes/spread.h"
#include "run/executor.h"

typedef struct qn_offload qn_offload;

/* All that is pointed to must outlive it, but for lane_of. */
typedef struct qn_offload_options {
    const qn_allocator *allocator; /* null: the heap */
    const qn_graph *graph;
    const qn_machine *machine;
    qn_team *team;        /* of lane 0 */
    qn_assignment wanted; /* of the graph's nodes */
    const qn_log *log;    /* told of what is lost; null: nobody */
} qn_offload_options;

qn_status qn_offload_create(const qn_offload_options *options, qn_offload **offload);
void qn_offload_destroy(qn_offload *offload);

/* As of an executor, by values of the options' graph: sources and results. */
void qn_offload_bind(qn_offload *offload, qn_value value, void *memory);
void *qn_offload_get(const qn_offload *offload, qn_value value);

/* A run; again without a device that is lost in it. On failure nothing was updated, unless the swap
 * file failed (qn_executor_run). */
qn_status qn_offload_run(qn_offload *offload, uint64_t seed, uint64_t step, const qn_watch *watch);

/* Nodes that run in a lane. */
int qn_offload_count(const qn_offload *offload, int lane);

#endif
