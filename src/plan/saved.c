/* See saved.h. */
#include "plan/saved.h"

#include "base/rng.h"
#include "base/status.h"

#include <string.h>

static uint64_t mix(uint64_t sum, uint64_t more) {
    return (sum ^ more) * UINT64_C(0x9E3779B97F4A7C15) ^ (sum >> 29);
}

uint64_t qn_saved_fingerprint(const qn_graph *graph) {
    uint64_t sum = 1;
    for (int v = 0; v < graph->n_values; v++) {
        const qn_value_info *info = graph->values[v];
        sum = mix(sum, qn_hash_text(info->name));
        sum = mix(sum, (uint64_t)info->tensor.dtype << 8 | (uint64_t)info->kind);
        for (int i = 0; i < info->tensor.shape.rank; i++)
            sum = mix(sum, (uint64_t)info->tensor.shape.dims[i]);
    }
    for (int n = 0; n < graph->n_nodes; n++) {
        const qn_node *node = graph->nodes[n];
        sum = mix(sum, qn_hash_text(node->op->name));
        for (int i = 0; i < node->n_inputs; i++)
            sum = mix(sum, (uint64_t)(uint32_t)node->inputs[i].id);
    }
    return sum;
}

/* ---- taking ---- */

static qn_status take_items(qn_arena *memory, const qn_graph *base, const qn_sequence *sequence,
                            qn_saved_program *saved) {
    saved->n_items = sequence->n;
    saved->items = qn_arena_allocate(memory, sequence->n + 1, sizeof *saved->items);
    if (!saved->items)
        return QN_ERROR_MEMORY;
    for (size_t i = 0; i < sequence->n; i++) {
        const qn_item *item = &sequence->items[i];
        const char *name = item->action == QN_ACTION_RUN ? base->nodes[item->id]->name
                                                         : base->values[item->id]->name;
        saved->items[i] = (qn_saved_item){item->action, qn_arena_text(memory, name)};
        if (!saved->items[i].name)
            return QN_ERROR_MEMORY;
    }
    return QN_OK;
}

static qn_status take_storages(qn_arena *memory, const qn_graph *graph, const qn_plan *plan,
                               qn_saved_program *saved) {
    saved->n_storages = (size_t)plan->n_storages;
    saved->storages = qn_arena_allocate(memory, saved->n_storages + 1, sizeof *saved->storages);
    if (!saved->storages)
        return QN_ERROR_MEMORY;
    for (int32_t i = 0; i < plan->n_storages; i++) {
        const char *name = qn_arena_text(memory, qn_plan_name_of(plan, graph, i));
        saved->storages[i] = (qn_saved_storage){plan->storages[i], name};
        if (!name)
            return QN_ERROR_MEMORY;
    }
    return QN_OK;
}

/* Whether lane 0 does all but what stands in the items to be copied. */
static bool follows_from_items(const qn_plan *plan) {
    for (int i = 1; plan->lanes && i < plan->lanes->n_lanes; i++) {
        if (!plan->lanes->lanes[i].in_turn)
            return false;
    }
    return true;
}

qn_status qn_saved_take(qn_arena *memory, const char *name, const qn_graph *base,
                        const qn_budget_plan *planned, qn_saved_program *saved) {
    qn_saved_program taken = {.name = qn_arena_text(memory, name),
                              .graph = qn_saved_fingerprint(base),
                              .arena_bytes = planned->plan->arena_bytes};
    if (!taken.name)
        return QN_ERROR_MEMORY;
    if (!follows_from_items(planned->plan))
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "%s: a plan with several lanes cannot be saved unless all of them swap",
                       name);
    QN_TRY(take_items(memory, base, &planned->sequence, &taken));
    QN_TRY(take_storages(memory, planned->graph, planned->plan, &taken));
    *saved = taken;
    return QN_OK;
}

/* ---- restoring ---- */

/* The node of a name: that of its first output, which has the name too. */
static int32_t find_node(const qn_graph *graph, const char *name) {
    const qn_value value = qn_graph_find(graph, name);
    const int32_t producer = value.id < 0 ? -1 : graph->values[value.id]->producer;
    return producer >= 0 && strcmp(graph->nodes[producer]->name, name) == 0 ? producer : -1;
}

static qn_status add_item(const qn_graph *base, const qn_saved_item *item, size_t index,
                          qn_sequence *sequence) {
    const bool is_run = item->action == QN_ACTION_RUN;
    const int32_t id = is_run ? find_node(base, item->name) : qn_graph_find(base, item->name).id;
    if (id < 0)
        return qn_fail(QN_ERROR_FORMAT, "item %zu: the graph has no %s %s", index,
                       is_run ? "node" : "value", item->name);
    return qn_sequence_add(sequence, item->action, id);
}

static bool is_equal(const qn_storage *a, const qn_storage *b) {
    return a->bytes == b->bytes && a->first == b->first && a->last == b->last &&
           a->kind == b->kind && a->space == b->space && a->is_bound == b->is_bound;
}

static const char *bound_word(const qn_storage *storage) {
    return storage->is_bound ? "outside" : "in the arena";
}

/* A storage must be what the graph asks for; only where it lies is the plan's to say. */
static qn_status take_offset(const qn_saved_program *saved, const qn_graph *graph, qn_plan *plan,
                             int32_t i) {
    const qn_storage *said = &saved->storages[i].place;
    qn_storage *place = &plan->storages[i];
    if (!is_equal(said, place))
        return qn_fail(QN_ERROR_FORMAT,
                       "storage %d (%s): %zu bytes of kind %s from step %d to %d, %s; the graph "
                       "needs %zu of kind %s from %d to %d, %s, for %s",
                       i, saved->storages[i].value, said->bytes, qn_kind_name(said->kind),
                       said->first, said->last, bound_word(said), place->bytes,
                       qn_kind_name(place->kind), place->first, place->last, bound_word(place),
                       qn_plan_name_of(plan, graph, i));
    place->offset = said->offset;
    if (place->space > 0) {
        size_t *bytes = &plan->lanes->further[place->space - 1].bytes;
        const size_t end = place->offset + place->bytes;
        *bytes = end > *bytes ? end : *bytes;
    }
    return QN_OK;
}

static qn_status place_all(const qn_saved_program *saved, const qn_graph *graph, qn_plan *plan) {
    if (saved->n_storages != (size_t)plan->n_storages)
        return qn_fail(QN_ERROR_FORMAT, "%zu storages; the graph needs %d", saved->n_storages,
                       plan->n_storages);
    for (int32_t i = 0; i < plan->n_storages; i++)
        QN_TRY(take_offset(saved, graph, plan, i));
    plan->arena_bytes = saved->arena_bytes;
    return qn_plan_check(plan, graph);
}

static qn_status fill_sequence(const qn_saved_program *saved, const qn_graph *base,
                               qn_sequence *sequence) {
    for (size_t i = 0; i < saved->n_items; i++)
        QN_TRY(add_item(base, &saved->items[i], i, sequence));
    return QN_OK;
}

/* Times as estimated; of swapping nothing is known here. */
static void add_times(const qn_graph *base, qn_budget_plan *made) {
    const qn_speed typical = qn_speed_typical(made->plan->n_threads);
    for (int n = 0; n < made->graph->n_nodes; n++) {
        const int32_t node = made->origins.node_of[n];
        if (node >= 0)
            made->extra_ns += qn_estimate_ns(base, node, &typical);
    }
    for (int n = 0; n < base->n_nodes; n++)
        made->base_ns += qn_estimate_ns(base, n, &typical);
    made->extra_ns =
        made->n_again > 0 && made->extra_ns > made->base_ns ? made->extra_ns - made->base_ns : 0;
}

static qn_status restore(const qn_allocator *allocator, const qn_saved_program *saved,
                         const qn_graph *base, const qn_machine *machine, qn_sequence *sequence,
                         qn_budget_plan *restored) {
    QN_TRY(fill_sequence(saved, base, sequence));
    QN_TRY(qn_budget_plan_make(allocator, base, machine, sequence, restored));
    QN_TRY(place_all(saved, restored->graph, restored->plan));
    add_times(base, restored);
    return QN_OK;
}

static qn_status check_graph(const qn_saved_program *saved, const qn_graph *base) {
    if (saved->graph == qn_saved_fingerprint(base))
        return QN_OK;
    return qn_fail(QN_ERROR_FORMAT,
                   "%s: the plan was made for another graph: another model, batch, shape or "
                   "optimizer, or another version of quern; make a new plan",
                   saved->name);
}

/* What fails is the file's fault, unless memory was out. */
static qn_status fail_within(const qn_saved_program *saved, qn_status status) {
    qn_fail_within(status, "%s", saved->name);
    return status == QN_ERROR_MEMORY ? status : QN_ERROR_FORMAT;
}

qn_status qn_saved_restore(const qn_allocator *allocator, const qn_saved_program *saved,
                           const qn_graph *base, const qn_machine *machine,
                           qn_budget_plan *restored) {
    qn_budget_plan made = {0};
    qn_sequence sequence;
    QN_TRY(check_graph(saved, base));
    qn_sequence_init(&sequence, allocator);
    const qn_status status = restore(allocator, saved, base, machine, &sequence, &made);
    qn_sequence_deinit(&sequence);
    if (status != QN_OK) {
        qn_budget_plan_deinit(&made);
        return fail_within(saved, status);
    }
    *restored = made;
    return QN_OK;
}

static qn_status find_usual(const qn_allocator *allocator, const qn_saved_program *saved,
                            const qn_graph *base, bool *is_usual) {
    qn_sequence usual;
    QN_TRY(qn_sequence_base(allocator, base, &usual));
    *is_usual = usual.n == saved->n_items;
    for (size_t i = 0; i < usual.n && *is_usual; i++)
        *is_usual = saved->items[i].action == QN_ACTION_RUN &&
                    strcmp(base->nodes[usual.items[i].id]->name, saved->items[i].name) == 0;
    qn_sequence_deinit(&usual);
    return QN_OK;
}

qn_status qn_saved_restore_usual(const qn_allocator *allocator, const qn_saved_program *saved,
                                 const qn_graph *base, const qn_machine *machine, qn_plan **plan) {
    bool is_usual;
    qn_plan *fresh;
    *plan = NULL;
    QN_TRY(check_graph(saved, base));
    QN_TRY(find_usual(allocator, saved, base, &is_usual));
    if (!is_usual)
        return QN_OK;
    QN_TRY(qn_plan_create(allocator, base, machine, &fresh));
    const qn_status status = place_all(saved, base, fresh);
    if (status != QN_OK) {
        qn_plan_destroy(fresh);
        return fail_within(saved, status);
    }
    *plan = fresh;
    return QN_OK;
}

qn_status qn_saved_find(const qn_saved_plan *plan, int index, const char *name, int n_threads,
                        const char *isa, const qn_saved_program **program) {
    if (plan->n_threads != n_threads)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "the plan was made for %d threads, not %d, and workspace depends on their "
                       "number; use --threads %d, or make a new plan",
                       plan->n_threads, n_threads, plan->n_threads);
    if (strcmp(plan->isa, isa) != 0)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "the plan was made for %s, but this machine uses %s; make a new plan",
                       plan->isa, isa);
    if (index >= plan->n_programs || strcmp(plan->programs[index].name, name) != 0)
        return qn_fail(QN_ERROR_FORMAT, "the plan has no program %d, %s; make a new plan", index,
                       name);
    *program = &plan->programs[index];
    return QN_OK;
}
