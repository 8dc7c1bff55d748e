/* The machine with a GPU, and a graph that is given to it, for tests: every node that
 * the device supports runs there, and what such nodes update lies there. Where there is no driver,
 * tests say so and end well. */
#ifndef QN_TESTS_GPU_LANES_H
#define QN_TESTS_GPU_LANES_H

#include "base/memory.h"
#include "base/status.h"
#include "check.h"
#include "device/gpu/gpu.h"
#include "os/heap.h"
#include "os/team.h"
#include "plan/lanes/partition.h"
#include "run/executor.h"

#include <stdio.h>
#include <stdlib.h>

static const qn_lane gpu_lanes[2] = {
    {.n_threads = 1},
    {.device = 1, .space = 1, .n_threads = 1},
};

typedef struct gpu_run {
    qn_machine machine;
    void *state;
    qn_partition spread;
    qn_plan *plan;
    qn_team *team;
    void *arena;
    qn_memory memory;  /* what lies on the device, then its arena */
    size_t kept_bytes; /* of what lies there */
    qn_executor *executor;
    int n_steps; /* on the device, without copies */
} gpu_run;

/* False, with a word, where there is no device. */
static inline bool gpu_open(const qn_device *device, const void *options, void **state) {
    const qn_status status = device->open(NULL, options, state);
    if (status == QN_ERROR_UNSUPPORTED)
        printf("skipped: %s\n", qn_error_message());
    else
        CHECK_OK(status);
    return status == QN_OK;
}

static inline int16_t *gpu_lane_of(const qn_machine *machine, const qn_graph *graph) {
    int16_t *lane_of = calloc((size_t)graph->n_nodes + 1, sizeof *lane_of);
    if (!lane_of)
        abort();
    for (int n = 0; n < graph->n_nodes; n++) {
        qn_tensor outputs[QN_MAX_OUTPUTS];
        const qn_query query = qn_machine_query(graph, graph->nodes[n], 1, outputs);
        lane_of[n] = !graph->nodes[n]->op->is_view && qn_machine_supports(machine, 1, &query);
    }
    return lane_of;
}

/* Where values from outside lie: those that the device updates there. */
static inline int16_t *gpu_space_of(const qn_graph *graph, const int16_t *lane_of) {
    int16_t *space_of = calloc((size_t)graph->n_values + 1, sizeof *space_of);
    if (!space_of)
        abort();
    for (int v = 0; v < graph->n_values; v++) {
        const qn_value_info *info = graph->values[v];
        if (info->overwrites >= 0 && graph->values[info->overwrites]->producer < 0)
            space_of[info->overwrites] = lane_of[info->producer];
    }
    return space_of;
}

/* Binds what lies on the device, each value to a place of its own. */
static inline void gpu_run_reserve(gpu_run *r, const qn_device *device) {
    const qn_graph *graph = r->spread.graph;
    size_t offset = 0;
    for (int v = 0; v < graph->n_values; v++) {
        if (graph->values[v]->space > 0)
            r->kept_bytes += (qn_tensor_bytes(graph->values[v]->tensor) + 255) / 256 * 256;
    }
    CHECK_OK(device->reserve(r->state, 0, r->kept_bytes + qn_plan_arena(r->plan, 1).bytes + 256,
                             &r->memory));
    CHECK_OK(qn_executor_open_lanes(r->executor, 1, r->memory.base + r->kept_bytes));
    for (int v = 0; v < graph->n_values; v++) {
        if (graph->values[v]->space == 0)
            continue;
        qn_executor_bind(r->executor, (qn_value){v}, r->memory.base + offset);
        offset += (qn_tensor_bytes(graph->values[v]->tensor) + 255) / 256 * 256;
    }
}

/* Copies what lies on the device in (from a value of the graph before) or out. */
static inline bool gpu_run_copy(const gpu_run *r, int value, void *host, bool is_out) {
    const qn_device *device = r->machine.devices[1].device;
    const qn_value v = r->spread.values[value];
    const qn_value_info *info = r->spread.graph->values[v.id];
    const size_t bytes = qn_tensor_bytes(info->tensor);
    if (info->space == 0)
        return false;
    const size_t at = (size_t)((char *)qn_executor_get(r->executor, v) - r->memory.base);
    CHECK_OK(is_out ? device->copy_out(r->state, &r->memory, at, host, bytes)
                    : device->copy_in(r->state, &r->memory, at, host, bytes));
    return true;
}

/* Plans a graph with all that the device supports on it. */
static inline void gpu_run_open(gpu_run *r, const qn_graph *graph, const qn_kernels *kernels,
                                const qn_device *device, void *state) {
    const qn_allocator *a = qn_allocator_default();
    int row;
    *r = (gpu_run){.machine = qn_machine_cpu(kernels, 1), .state = state};
    CHECK_OK(qn_machine_add(&r->machine, device, state, &row));
    int16_t *lane_of = gpu_lane_of(&r->machine, graph);
    int16_t *space_of = gpu_space_of(graph, lane_of);
    const qn_assignment wanted = {
        .n_lanes = 2, .n_spaces = 2, .lanes = gpu_lanes, .lane_of = lane_of, .space_of = space_of};
    CHECK_OK(qn_partition_make(graph, &wanted, &r->spread));
    free(lane_of);
    free(space_of);
    CHECK_OK(
        qn_plan_create_for_lanes(a, r->spread.graph, &r->machine, &r->spread.assignment, &r->plan));
    CHECK_OK(qn_plan_check(r->plan, r->spread.graph));
    for (int32_t s = 0; s < r->plan->n_steps; s++)
        r->n_steps += r->plan->steps[s].lane == 1 &&
                      !r->spread.graph->nodes[r->plan->steps[s].node]->op->output_space;
    CHECK_OK(qn_team_create(a, 1, &r->team));
    CHECK_OK(qn_allocate(a, 1, r->plan->arena_bytes, &r->arena));
    CHECK_OK(
        qn_executor_create(a, r->spread.graph, r->plan, &r->machine, r->team, NULL, &r->executor));
    qn_executor_set_arena(r->executor, r->arena);
    gpu_run_reserve(r, device);
}

static inline void gpu_run_close(gpu_run *r) {
    const qn_allocator *a = qn_allocator_default();
    qn_executor_destroy(r->executor);
    r->machine.devices[1].device->release(r->state, &r->memory);
    qn_release(a, r->arena, 1, r->plan->arena_bytes);
    qn_plan_destroy(r->plan);
    qn_graph_destroy(r->spread.graph);
    qn_team_destroy(r->team);
}

#endif
