/* See timing.h. Times are stored with the programs. */
#include "run/timing.h"

#include "base/rng.h"
#include "base/status.h"
#include "run/inspect.h"
#include "run/policy.h"
#include "run/tuning/rules.h"

/* ---- times by node ---- */

static const qn_graph *built_graph(const qn_program *p) {
    return p->base ? p->base : p->graph;
}

static qn_status set_ns(qn_program *p, int32_t node, double ns) {
    qn_graph *graph = p->base ? p->base : p->graph;
    if (!p->node_ns) {
        double *all = qn_arena_allocate(&graph->arena, (size_t)graph->n_nodes + 1, sizeof *all);
        if (!all)
            return QN_ERROR_MEMORY;
        for (int n = 0; n < graph->n_nodes; n++)
            all[n] = -1;
        p->node_ns = all;
    }
    p->node_ns[node] = ns;
    return QN_OK;
}

qn_status qn_engine_set_time(qn_engine *e, int program, const char *node, double ns) {
    if (program < 0 || program >= e->n_programs || !(ns >= 0))
        return QN_OK;
    qn_program *p = &e->programs[program];
    const qn_value_info *output =
        qn_graph_value(built_graph(p), qn_graph_find(built_graph(p), node));
    if (!output || output->producer < 0)
        return QN_OK;
    return set_ns(p, output->producer, ns);
}

qn_status qn_engine_visit_times(const qn_engine *e,
                                qn_status (*visit)(void *context, int program, const char *node,
                                                   double ns),
                                void *context) {
    for (int i = 0; i < e->n_programs; i++) {
        const qn_program *p = &e->programs[i];
        const qn_graph *graph = built_graph(p);
        for (int n = 0; p->node_ns && n < graph->n_nodes; n++) {
            if (p->node_ns[n] >= 0)
                QN_TRY(visit(context, i, graph->nodes[n]->name, p->node_ns[n]));
        }
    }
    return QN_OK;
}

static uint64_t mix(uint64_t hash, uint64_t with) {
    return (hash ^ with) * UINT64_C(0x9e3779b97f4a7c15) + (hash >> 29);
}

static uint64_t hash_graph(const qn_graph *graph, uint64_t hash) {
    for (int n = 0; n < graph->n_nodes; n++) {
        const qn_node *node = graph->nodes[n];
        hash = mix(mix(hash, node->key), qn_hash_text(node->op->name));
        for (int i = 0; i < node->n_outputs; i++) {
            const qn_tensor tensor = qn_graph_tensor(graph, node->outputs[i]);
            hash = mix(hash, (uint64_t)tensor.dtype);
            for (int axis = 0; axis < tensor.shape.rank; axis++)
                hash = mix(hash, (uint64_t)tensor.shape.dims[axis]);
        }
    }
    return hash;
}

uint64_t qn_engine_hash(const qn_engine *e) {
    qn_isa isa;
    uint64_t hash = qn_hash_text(qn_version());
    hash = mix(hash, qn_hash_text(__VERSION__));
    hash = mix(hash, qn_cpu_isa(&isa) == QN_OK ? (uint64_t)isa : 0);
    hash = mix(hash, (uint64_t)qn_team_size(e->team));
    hash = mix(hash, qn_engine_rules_hash(e));
    for (int i = 0; i < e->n_programs; i++)
        hash = hash_graph(built_graph(&e->programs[i]), hash);
    return hash;
}

/* ---- measuring ---- */

static qn_events *timing_of(const qn_engine *e) {
    return e->policies[QN_POLICY_TIMING];
}

static bool times_batches(const qn_engine *e) {
    return timing_of(e) != NULL;
}

static void destroy(qn_engine *e) {
    qn_events_destroy(timing_of(e));
}

const qn_policy qn_policy_timing = {
    .name = "timing", .times_batches = times_batches, .destroy = destroy};

enum { BATCH = 256, ROOM = 3 }; /* ROOM: records for one node of the graph: it may run again */

static size_t count_nodes(const qn_engine *e) {
    size_t n = 0;
    for (int i = 0; i < e->n_programs; i++)
        n += (size_t)built_graph(&e->programs[i])->n_nodes;
    return n;
}

qn_status qn_engine_prepare_timing(qn_engine *e) {
    qn_events *timing;
    if (timing_of(e))
        return QN_OK;
    QN_TRY(qn_events_create(&e->allocator, qn_team_size(e->team), ROOM * count_nodes(e) + BATCH,
                            &timing));
    e->policies[QN_POLICY_TIMING] = timing;
    return QN_OK;
}

void qn_engine_begin_timing(qn_engine *e) {
    qn_engine_watch(e, timing_of(e));
}

static qn_status take_event(qn_engine *e, const qn_event *event) {
    if (event->kind != QN_EVENT_OPERATION || event->program < 0)
        return QN_OK;
    qn_program *p = &e->programs[event->program];
    const int32_t node = qn_program_built_node(p, p->plan->steps[event->item].node);
    const double ns = (double)(event->end_ns - event->begin_ns);
    if (node < 0 || (p->node_ns && p->node_ns[node] >= 0 && p->node_ns[node] <= ns))
        return QN_OK;
    return set_ns(p, node, ns);
}

qn_status qn_engine_take_times(qn_engine *e) {
    qn_event events[BATCH];
    for (int thread = 0; thread < qn_events_thread_count(timing_of(e)); thread++) {
        size_t n;
        while ((n = qn_events_take(timing_of(e), thread, events, BATCH)) > 0) {
            for (size_t i = 0; i < n; i++)
                QN_TRY(take_event(e, &events[i]));
        }
    }
    return QN_OK;
}
