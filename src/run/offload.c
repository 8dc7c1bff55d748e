/* See offload.h. */
#include "run/offload.h"

#include "base/status.h"
#include "os/heap.h"
#include "os/team.h"

#include <stdio.h>
#include <string.h>

/* A way to run the graph: in these lanes. */
typedef struct way {
    qn_spread spread;
    qn_plan *plan;
    void *arena; /* (plan->arena_bytes) */
    qn_executor *executor;
} way;

struct qn_offload {
    const qn_allocator *allocator;
    qn_offload_options options;
    int16_t *lane_of; /* (n_nodes of the graph): without what was lost */
    void **bound;     /* (n_values of the graph): sources' memory; null: not bound yet */
    way now;
};

/* ---- a way ---- */

static void close_way(const qn_offload *o, way *w) {
    qn_executor_destroy(w->executor);
    if (w->plan)
        qn_release(o->allocator, w->arena, 1, w->plan->arena_bytes);
    qn_plan_destroy(w->plan);
    qn_graph_destroy(w->spread.graph);
    *w = (way){0};
}

static qn_status make_way(const qn_offload *o, way *w) {
    const qn_offload_options *options = &o->options;
    qn_assignment wanted = options->wanted;
    wanted.lane_of = o->lane_of;
    QN_TRY(qn_spread_make(options->graph, &wanted, &w->spread));
    QN_TRY(qn_plan_create_for_lanes(o->allocator, w->spread.graph, options->machine,
                                    &w->spread.assignment, &w->plan));
    QN_TRY(qn_allocate(o->allocator, 1, w->plan->arena_bytes, &w->arena));
    return qn_executor_create(o->allocator, w->spread.graph, w->plan, options->machine,
                              options->team, w->arena, &w->executor);
}

static qn_status open_way(const qn_offload *o, way *w) {
    *w = (way){0};
    const qn_status status = make_way(o, w);
    if (status != QN_OK) {
        close_way(o, w);
        return status;
    }
    for (int v = 0; v < o->options.graph->n_values; v++) {
        if (o->bound[v])
            qn_executor_bind(w->executor, w->spread.values[v], o->bound[v]);
    }
    return QN_OK;
}

/* ---- making ---- */

static qn_status make(qn_offload *o) {
    const qn_graph *graph = o->options.graph;
    const size_t n_nodes = (size_t)graph->n_nodes, n_values = (size_t)graph->n_values;
    QN_TRY(qn_allocate(o->allocator, n_nodes, sizeof *o->lane_of, &o->lane_of));
    memcpy(o->lane_of, o->options.wanted.lane_of, n_nodes * sizeof *o->lane_of);
    QN_TRY(qn_allocate(o->allocator, n_values, sizeof *o->bound, &o->bound));
    return open_way(o, &o->now);
}

qn_status qn_offload_create(const qn_offload_options *options, qn_offload **offload) {
    const qn_allocator *allocator = qn_allocator_or_default(options->allocator);
    qn_offload *o;
    QN_TRY(qn_allocate(allocator, 1, sizeof *o, &o));
    o->allocator = allocator;
    o->options = *options;
    const qn_status status = make(o);
    if (status != QN_OK) {
        qn_offload_destroy(o);
        return status;
    }
    *offload = o;
    return QN_OK;
}

void qn_offload_destroy(qn_offload *o) {
    if (!o)
        return;
    close_way(o, &o->now);
    qn_release(o->allocator, o->lane_of, (size_t)o->options.graph->n_nodes, sizeof *o->lane_of);
    qn_release(o->allocator, o->bound, (size_t)o->options.graph->n_values, sizeof *o->bound);
    qn_release(o->allocator, o, 1, sizeof *o);
}

void qn_offload_bind(qn_offload *o, qn_value value, void *memory) {
    o->bound[value.id] = memory;
    qn_executor_bind(o->now.executor, o->now.spread.values[value.id], memory);
}

void *qn_offload_get(const qn_offload *o, qn_value value) {
    return qn_executor_get(o->now.executor, o->now.spread.values[value.id]);
}

int qn_offload_count(const qn_offload *o, int lane) {
    int n = 0;
    for (int32_t s = 0; s < o->now.plan->n_steps; s++)
        n += o->now.plan->steps[s].lane == lane;
    return n;
}

/* ---- going on without a device ---- */

static const qn_machine_device *device_of(const qn_offload *o, int lane) {
    return &o->options.machine->devices[o->options.wanted.lanes[lane].device];
}

static bool is_lost(const qn_offload *o, int lane) {
    const qn_machine_device *d = device_of(o, lane);
    return lane > 0 && d->device->is_lost && d->device->is_lost(d->state);
}

static void tell(const qn_offload *o, int lane, int n) {
    char text[256];
    if (!o->options.log)
        return;
    snprintf(text, sizeof text,
             "the device %s was lost; its %d operations run on the CPU from now on, and the step "
             "is repeated: no result is lost",
             device_of(o, lane)->device->name, n);
    o->options.log->write(o->options.log->user, 1, text);
}

/* Gives the nodes in all lanes of a lane's device to lane 0; how many there were. */
static int take_out(const qn_offload *o, int lane) {
    int n = 0;
    for (int i = 0; i < o->options.graph->n_nodes; i++) {
        if (o->lane_of[i] == 0 || device_of(o, o->lane_of[i]) != device_of(o, lane))
            continue;
        o->lane_of[i] = 0;
        n++;
    }
    return n;
}

/* Plans anew without what is lost. Where that fails the way is as it was, and the next run tries
 * again. */
static qn_status go_on(qn_offload *o) {
    way made;
    for (int lane = 1; lane < o->options.wanted.n_lanes; lane++) {
        const int n = is_lost(o, lane) ? take_out(o, lane) : 0;
        if (n > 0)
            tell(o, lane, n);
    }
    QN_TRY(open_way(o, &made));
    close_way(o, &o->now);
    o->now = made;
    return QN_OK;
}

/* Every turn but the last takes out a device, or more. */
qn_status qn_offload_run(qn_offload *o, uint64_t seed, uint64_t step, const qn_watch *watch) {
    for (int turn = 0;; turn++) {
        const qn_status status = qn_executor_run(o->now.executor, seed, step, watch);
        if (status != QN_ERROR_DEVICE || turn == o->options.wanted.n_lanes)
            return status;
        QN_TRY(go_on(o));
    }
}
