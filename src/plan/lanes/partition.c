/* See partition.h. A table gives, for every space, the value of the new graph that holds a value of
 * the old one. */
#include "plan/lanes/partition.h"

#include "base/status.h"
#include "ops/ops.h"
#include "passes/copy.h"

#include <string.h>

typedef struct partitioning {
    const qn_graph *from;
    const qn_assignment *wanted;
    qn_graph *to;
    qn_value *at[QN_MAX_SPACES]; /* (n_values of from) each: in that space, or QN_NO_VALUE */
    int16_t *home;               /* (n_values of from): the space where it is made */
    int16_t *lane;               /* (n_values of from): the lane that makes it */
    bool *is_late;               /* (n_nodes of from) */
    int n_results;               /* that are not made yet */
    size_t lane_capacity;
    int16_t *lane_of; /* (n_nodes of to) */
} partitioning;

static const qn_lane *lane_at(const partitioning *s, int lane) {
    return &s->wanted->lanes[lane];
}

/* The lane that a node can have. */
static int16_t choose_lane(const partitioning *s, int32_t id) {
    const qn_node *node = s->from->nodes[id];
    const int16_t lane = s->wanted->lane_of[id];
    if (lane_at(s, lane)->can_be_lost && s->is_late[id])
        return 0;
    for (int i = 0; i < node->n_outputs; i++) {
        const int32_t old = s->from->values[node->outputs[i].id]->overwrites;
        if (old >= 0 && lane_at(s, lane)->space != s->home[old])
            return s->lane[old];
    }
    return lane;
}

static qn_status note_lane(partitioning *s, int16_t lane) {
    const size_t n_nodes = (size_t)s->to->n_nodes;
    QN_TRY(qn_grow(s->to->allocator, &s->lane_of, &s->lane_capacity, n_nodes, sizeof *s->lane_of));
    s->lane_of[n_nodes - 1] = lane;
    return QN_OK;
}

static bool is_gradient_or_feature(qn_kind kind) {
    return kind == QN_KIND_GRADIENT || kind == QN_KIND_FEATURE;
}

/* Copies a value to a space, in a lane of the device that it comes from or goes to. */
static qn_status copy_value(partitioning *s, int32_t v, int from, int to, int16_t lane) {
    const qn_value_info *info = s->from->values[v];
    const char *name = qn_arena_format(&s->to->arena, "%s.space%d", info->name, to);
    name = name ? qn_graph_unique(s->to, name, false) : NULL;
    if (!name)
        return QN_ERROR_MEMORY;
    const qn_value copy = qn_op_copy(s->to, name, s->at[from][v], to);
    QN_TRY(qn_graph_finish(s->to));
    if (info->producer >= 0 && is_gradient_or_feature(info->kind))
        s->to->values[copy.id]->kind = info->kind;
    s->at[to][v] = copy;
    return note_lane(s, lane);
}

/* Makes a value be in a space, for a node of a lane there; by way of the host's. */
static qn_status bring(partitioning *s, int32_t v, int space, int16_t lane) {
    if (s->at[space][v].id >= 0)
        return QN_OK;
    if (s->at[0][v].id < 0)
        QN_TRY(copy_value(s, v, s->home[v], 0, s->lane[v]));
    return space == 0 ? QN_OK : copy_value(s, v, 0, space, lane);
}

/* Results come to the host when the last of them is made: nobody waits for what is behind it. */
static qn_status note_made(partitioning *s, int32_t made) {
    s->n_results -= s->from->values[made]->is_result;
    if (!s->from->values[made]->is_result || s->n_results > 0)
        return QN_OK;
    for (int v = 0; v < s->from->n_values; v++) {
        if (s->from->values[v]->is_result)
            QN_TRY(bring(s, v, 0, 0));
    }
    return QN_OK;
}

static qn_status add_view(partitioning *s, const qn_node *node) {
    const int32_t of = node->inputs[0].id, v = node->outputs[0].id;
    const int16_t space = s->home[of];
    if (!qn_copy_node(s->to, s->from, node, node->name, node->attributes, s->at[space]))
        return qn_graph_finish(s->to);
    s->home[v] = space;
    s->lane[v] = s->lane[of];
    QN_TRY(note_lane(s, 0));
    return note_made(s, v);
}

/* A copy to the swap space, or back: between the device and the host. What is the host's stays. */
static qn_status add_swap(partitioning *s, const qn_node *node) {
    const int32_t v = node->inputs[0].id, to = node->outputs[0].id;
    const bool is_store = node->op->output_space(node->attributes) != 0;
    const int16_t lane = s->lane[v], space = is_store ? 0 : lane_at(s, lane)->space;
    s->lane[to] = lane;
    s->home[to] = space;
    if (lane_at(s, lane)->space == 0) {
        s->at[0][to] = s->at[0][v];
        return QN_OK;
    }
    s->at[space][to] = qn_op_copy(s->to, node->name, s->at[s->home[v]][v], space);
    QN_TRY(qn_graph_finish(s->to));
    s->to->values[s->at[space][to].id]->kind = s->from->values[to]->kind;
    return note_lane(s, lane);
}

static qn_status add_node(partitioning *s, int32_t id) {
    const qn_node *node = s->from->nodes[id];
    if (node->op->is_view)
        return add_view(s, node);
    if (node->op->is_wait) /* lanes wait by themselves */
        return QN_OK;
    if (node->op->output_space)
        return add_swap(s, node);
    const int16_t lane = choose_lane(s, id), space = lane_at(s, lane)->space;
    for (int i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i].id >= 0)
            QN_TRY(bring(s, node->inputs[i].id, space, lane));
    }
    if (!qn_copy_node(s->to, s->from, node, node->name, node->attributes, s->at[space]))
        return qn_graph_finish(s->to);
    s->to->nodes[s->to->n_nodes - 1]->key = node->key;
    for (int i = 0; i < node->n_outputs; i++) {
        s->home[node->outputs[i].id] = space;
        s->lane[node->outputs[i].id] = lane;
    }
    QN_TRY(note_lane(s, lane));
    for (int i = 0; i < node->n_outputs; i++)
        QN_TRY(note_made(s, node->outputs[i].id));
    return QN_OK;
}

static qn_status add_results(partitioning *s) {
    for (int v = 0; v < s->from->n_values; v++) {
        if (!s->from->values[v]->is_result)
            continue;
        QN_TRY(bring(s, v, 0, 0));
        s->to->values[s->at[0][v].id]->is_result = true;
    }
    qn_copy_results(s->to, s->from, s->at[0]);
    return QN_OK;
}

/* A value from outside is copied from its space in the first lane there. */
static void add_source(partitioning *s, int32_t v) {
    const int16_t space = s->wanted->space_of ? s->wanted->space_of[v] : 0;
    int16_t lane = 0;
    while (lane + 1 < s->wanted->n_lanes && lane_at(s, lane)->space != space)
        lane++;
    const qn_value source = qn_copy_source(s->to, s->from->values[v]);
    if (source.id >= 0)
        s->to->values[source.id]->space = space;
    s->home[v] = space;
    s->lane[v] = lane;
    s->at[space][v] = source;
}

static qn_status add_all(partitioning *s) {
    for (int v = 0; v < s->from->n_values; v++) {
        s->n_results += s->from->values[v]->is_result && s->from->values[v]->producer >= 0;
        for (int i = 0; i < s->wanted->n_spaces; i++)
            s->at[i][v] = QN_NO_VALUE;
        if (s->from->values[v]->producer < 0)
            add_source(s, v);
    }
    QN_TRY(qn_graph_finish(s->to));
    for (int32_t n = 0; n < s->from->n_nodes; n++)
        QN_TRY(add_node(s, n));
    QN_TRY(add_results(s));
    return qn_graph_finish(s->to);
}

static qn_status allocate_all(partitioning *s) {
    qn_arena *arena = &s->to->arena;
    const size_t n_values = (size_t)s->from->n_values + 1, n_nodes = (size_t)s->from->n_nodes + 1;
    for (int i = 0; i < s->wanted->n_spaces; i++) {
        s->at[i] = qn_arena_allocate(arena, n_values, sizeof *s->at[i]);
        if (!s->at[i])
            return QN_ERROR_MEMORY;
    }
    s->home = qn_arena_allocate(arena, n_values, sizeof *s->home);
    s->lane = qn_arena_allocate(arena, n_values, sizeof *s->lane);
    s->is_late = qn_arena_allocate(arena, n_nodes, sizeof *s->is_late);
    return s->home && s->lane && s->is_late ? QN_OK : QN_ERROR_MEMORY;
}

static qn_status keep(const partitioning *s, qn_partition *partition) {
    const size_t n_nodes = (size_t)s->to->n_nodes;
    int16_t *lane_of = qn_arena_allocate(&s->to->arena, n_nodes + 1, sizeof *lane_of);
    if (!lane_of)
        return QN_ERROR_MEMORY;
    if (n_nodes > 0)
        memcpy(lane_of, s->lane_of, n_nodes * sizeof *lane_of);
    for (int v = 0; v < s->from->n_values; v++) {
        if (s->at[0][v].id < 0)
            s->at[0][v] = s->at[s->home[v]][v];
    }
    *partition = (qn_partition){.graph = s->to, .assignment = *s->wanted, .values = s->at[0]};
    partition->assignment.lane_of = lane_of;
    partition->assignment.space_of = NULL; /* the graph says it */
    return QN_OK;
}

static qn_status make(partitioning *s, qn_partition *partition) {
    QN_TRY(allocate_all(s));
    qn_plan_find_late(s->from, s->is_late);
    QN_TRY(add_all(s));
    return keep(s, partition);
}

/* What swaps has copies between spaces of its own, and waits that hold only in the order of its
 * nodes. */
static qn_status check_in_one_space(const qn_graph *graph, int swap_space) {
    for (int n = 0; n < graph->n_nodes; n++) {
        const qn_node *node = graph->nodes[n];
        const int to = node->op->output_space ? node->op->output_space(node->attributes) : 0;
        if ((node->op->output_space || node->op->is_wait) && (swap_space == 0 || to > 0) &&
            to != swap_space)
            return qn_fail(
                QN_ERROR_ARGUMENT,
                "plan: %s (%s) copies between memory spaces already; assign the nodes of "
                "the graph before it was swapped",
                node->name, node->op->name);
    }
    return QN_OK;
}

qn_status qn_partition_make(const qn_graph *graph, const qn_assignment *wanted,
                            qn_partition *partition) {
    partitioning s = {.from = graph, .wanted = wanted};
    QN_TRY(check_in_one_space(graph, wanted->swap_space));
    QN_TRY(qn_copy_begin(graph, &s.to));
    const qn_status status = make(&s, partition);
    qn_release(graph->allocator, s.lane_of, s.lane_capacity, sizeof *s.lane_of);
    if (status != QN_OK)
        qn_graph_destroy(s.to);
    return status;
}
