/* Building the planner's model of a graph; see model.h. */
#include "plan/budget/model.h"

#include "base/status.h"
#include "device/cpu/cpu.h"
#include "os/heap.h"

/* What is needed only while a model is made. */
typedef struct making {
    qn_budget_model *model;
    const qn_machine *machine;
    const qn_budget_options *options;
    qn_speed speed;
    qn_sequence base;
    int32_t *value_of;  /* (graph's n_values): in the model, or -1 */
    int32_t *turn_of;   /* (graph's n_nodes), or -1 */
    int32_t *overwrite; /* (graph's n_values): the turn that overwrites it, or n_turns */
} making;

static size_t round_up(size_t bytes) {
    return (bytes + QN_ALIGNMENT - 1) / QN_ALIGNMENT * QN_ALIGNMENT;
}

/* Whether a value lies in the host's arena in memory of its own. */
static bool is_own(const qn_node *maker, const qn_value_info *info) {
    return info->overwrites < 0 && !maker->op->is_wait &&
           !(maker->op->output_space && maker->op->output_space(maker->attributes) > 0);
}

/* What a node waits for is a copy: what it is copied from is held until then. */
static const qn_node *reader_of(const qn_graph *graph, const qn_node *node) {
    const int32_t maker = node->op->is_wait ? graph->values[node->inputs[0].id]->producer : -1;
    const bool comes_back =
        maker >= 0 && graph->nodes[maker]->op->output_space &&
        graph->nodes[maker]->op->output_space(graph->nodes[maker]->attributes) == 0;
    return maker >= 0 && !comes_back ? graph->nodes[maker] : node;
}

static qn_status allocate(making *m, const qn_graph *graph) {
    qn_budget_model *model = m->model;
    const size_t n_values = (size_t)graph->n_values + 1, n_nodes = (size_t)graph->n_nodes + 1;
    size_t n_reads = 1;
    for (size_t i = 0; i < m->base.n; i++)
        n_reads += (size_t)reader_of(graph, graph->nodes[m->base.items[i].id])->n_inputs;
    model->turns = qn_arena_allocate(&model->arena, m->base.n + 1, sizeof *model->turns);
    model->values = qn_arena_allocate(&model->arena, n_values, sizeof *model->values);
    model->reads = qn_arena_allocate(&model->arena, n_reads, sizeof *model->reads);
    m->value_of = qn_arena_allocate(&model->arena, n_values, sizeof *m->value_of);
    m->turn_of = qn_arena_allocate(&model->arena, n_nodes, sizeof *m->turn_of);
    m->overwrite = qn_arena_allocate(&model->arena, n_values, sizeof *m->overwrite);
    if (!model->turns || !model->values || !model->reads || !m->value_of || !m->turn_of ||
        !m->overwrite)
        return QN_ERROR_MEMORY;
    return QN_OK;
}

static void add_outputs(making *m, int32_t turn, const qn_node *node) {
    qn_budget_model *model = m->model;
    qn_budget_turn *t = &model->turns[turn];
    t->first_output = model->n_values;
    for (int i = 0; i < node->n_outputs; i++) {
        const int32_t v = node->outputs[i].id;
        const qn_value_info *info = model->graph->values[v];
        if (info->overwrites >= 0)
            m->overwrite[info->overwrites] = turn;
        if (!is_own(node, info))
            continue;
        const size_t bytes = qn_tensor_bytes(info->tensor);
        m->value_of[v] = model->n_values;
        model->values[model->n_values++] = (qn_budget_value){
            .turn = turn,
            .output = i,
            .bytes = bytes,
            .room = round_up(bytes),
            .may_be_strided = qn_plan_writes_strided(model->graph, node, i),
        };
    }
    t->n_outputs = model->n_values - t->first_output;
}

static void add_reads(making *m, int32_t turn, const qn_node *of) {
    qn_budget_model *model = m->model;
    const qn_graph *graph = model->graph;
    const qn_node *node = reader_of(graph, of);
    qn_budget_turn *t = &model->turns[turn];
    t->first_read = model->n_reads;
    for (int i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i].id < 0)
            continue;
        const qn_value whole = qn_graph_unview(graph, node->inputs[i]);
        const bool is_viewed = whole.id != node->inputs[i].id;
        const int32_t v = m->value_of[whole.id];
        if (v < 0)
            continue;
        const qn_columns c = qn_plan_columns(graph, node, i);
        qn_budget_read *read = &model->reads[model->n_reads++];
        *read = (qn_budget_read){
            .value = v,
            .may_be_strided = !is_viewed && qn_plan_reads_strided(graph, node, i),
            .may_take_place = i < 32 && (node->op->in_place >> i & 1),
            .is_joined = !is_viewed && c.inner == node->inputs[i].id,
            .is_slice = c.inner >= 0 && c.inner == node->outputs[0].id,
        };
        model->has_shared |= read->is_joined || read->is_slice;
    }
    t->n_reads = model->n_reads - t->first_read;
}

static size_t find_workspace(const making *m, const qn_node *node) {
    qn_tensor outputs[QN_MAX_OUTPUTS];
    const qn_query query = qn_machine_query(m->model->graph, node, m->machine->n_threads, outputs);
    return round_up(qn_machine_workspace(m->machine, 0, &query));
}

/* As it was measured; else by the speed that is given, or by what the device says. */
static double find_ns(const making *m, int32_t node) {
    const qn_budget_options *o = m->options;
    if (o->node_ns)
        return o->node_ns[node];
    if (o->speed.flops_per_ns <= 0 && o->speed.bytes_per_ns <= 0)
        return qn_machine_cost_ns(m->machine, 0, m->model->graph, m->model->graph->nodes[node]);
    return qn_estimate_ns(m->model->graph, node, &m->speed);
}

static qn_status add_turn(making *m, int32_t turn) {
    qn_budget_model *model = m->model;
    const int32_t id = m->base.items[turn].id;
    const qn_node *node = model->graph->nodes[id];
    qn_budget_turn *t = &model->turns[turn];
    t->node = id;
    t->ns = find_ns(m, id);
    if (!(t->ns >= 0))
        t->ns = 0;
    m->turn_of[id] = turn;
    model->base_ns += t->ns;
    add_reads(m, turn, node);
    add_outputs(m, turn, node);
    t->workspace = find_workspace(m, node);
    return QN_OK;
}

static void mark_results(making *m) {
    const qn_graph *graph = m->model->graph;
    for (int v = 0; v < graph->n_values; v++) {
        if (!graph->values[v]->is_result)
            continue;
        const int32_t whole = m->value_of[qn_graph_unview(graph, (qn_value){v}).id];
        if (whole >= 0)
            m->model->values[whole].is_result = true;
    }
}

/* Updates run once, and so do copies between spaces, waits and what says so; the rest may run again
 * while what it reads has not been updated. */
static void find_latest(making *m, int32_t turn) {
    const qn_budget_model *model = m->model;
    qn_budget_turn *t = &model->turns[turn];
    const qn_node *node = model->graph->nodes[t->node];
    t->latest = model->n_turns;
    for (int i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i].id < 0)
            continue;
        const int32_t overwrite = m->overwrite[qn_graph_unview(model->graph, node->inputs[i]).id];
        t->latest = overwrite < t->latest ? overwrite : t->latest;
    }
    if (t->n_outputs < node->n_outputs || node->op->output_space || node->op->runs_once)
        t->latest = -1;
}

/* What a turn holds at least: its outputs and workspace, and what it reads once, but for the input
 * that output 0 can take over. */
static size_t working_set(const qn_budget_model *model, const qn_budget_turn *t) {
    const qn_budget_read *reads = &model->reads[t->first_read];
    size_t bytes = t->workspace, in_place = 0;
    for (int32_t i = 0; i < t->n_outputs; i++)
        bytes += model->values[t->first_output + i].room;
    for (int32_t i = 0; i < t->n_reads; i++) {
        const size_t room = model->values[reads[i].value].room;
        bool is_new = true;
        for (int32_t j = 0; j < i; j++)
            is_new &= reads[j].value != reads[i].value;
        bytes += is_new ? room : 0;
        if (room > in_place && (reads[i].may_take_place || reads[i].is_joined || reads[i].is_slice))
            in_place = room;
    }
    const bool joins = t->n_reads > 0 && reads[0].is_joined;
    if (joins && t->n_outputs > 0)
        in_place = model->values[t->first_output].room;
    return bytes - in_place;
}

static qn_status make(making *m) {
    qn_budget_model *model = m->model;
    QN_TRY(qn_sequence_base(m->base.allocator, model->graph, &m->base));
    QN_TRY(allocate(m, model->graph));
    model->n_turns = (int32_t)m->base.n;
    for (int v = 0; v < model->graph->n_values; v++) {
        m->value_of[v] = -1;
        m->overwrite[v] = model->n_turns;
    }
    for (int32_t t = 0; t < model->n_turns; t++)
        QN_TRY(add_turn(m, t));
    mark_results(m);
    for (int32_t t = 0; t < model->n_turns; t++) {
        const size_t bytes = working_set(model, &model->turns[t]);
        find_latest(m, t);
        model->least_bytes = bytes > model->least_bytes ? bytes : model->least_bytes;
    }
    return QN_OK;
}

qn_status qn_budget_model_init(const qn_allocator *allocator, const qn_graph *graph,
                               const qn_machine *machine, const qn_budget_options *options,
                               qn_budget_model *model) {
    making m = {.model = model, .machine = machine, .options = options};
    m.speed = qn_speed_typical(machine->n_threads);
    if (options->speed.flops_per_ns > 0)
        m.speed.flops_per_ns = options->speed.flops_per_ns;
    if (options->speed.bytes_per_ns > 0)
        m.speed.bytes_per_ns = options->speed.bytes_per_ns;
    *model = (qn_budget_model){.graph = graph};
    qn_arena_init(&model->arena, qn_allocator_or_default(allocator));
    qn_sequence_init(&m.base, allocator);
    const qn_status status = make(&m);
    qn_sequence_deinit(&m.base);
    if (status != QN_OK)
        qn_budget_model_deinit(model);
    return status;
}

void qn_budget_model_deinit(qn_budget_model *model) {
    qn_arena_deinit(&model->arena);
}
