/* The storage of every value, and its lifetime. Values from outside have storages of their own that
 * are bound to memory later. Updates and results in place share the storage of their input. Values
 * stored inside others share theirs, from the first writer to the last reader. */
#include "base/status.h"
#include "plan/lanes/uses.h"

typedef struct lifetimes {
    qn_plan *plan;
    const qn_graph *graph;
    const qn_machine *machine;
    qn_berth *berths; /* (n_values) */
    int32_t *owner;   /* (n_values): the outermost value that this one lies in, or itself */
    int32_t *last;    /* (n_values), of owners: last step that reads or writes in it, or -1 */
    int32_t *storage; /* (n_values), of owners; -1: none yet */
    qn_uses uses;     /* of owners, by lane, where there are several */
} lifetimes;

static void find_owners(lifetimes *l) {
    for (int32_t v = 0; v < l->graph->n_values; v++) {
        l->owner[v] = v;
        l->last[v] = l->storage[v] = -1;
        while (l->berths[l->owner[v]].outer >= 0)
            l->owner[v] = l->berths[l->owner[v]].outer;
    }
}

/* A reshape is dense: the rows of what lies in it have nothing to do with those of its input. */
static bool is_reshape(const lifetimes *l, int32_t value) {
    const int32_t producer = l->graph->values[value]->producer;
    return producer >= 0 && l->graph->nodes[producer]->op->is_view;
}

/* Whether a value is all of its owner, dense. */
static bool is_whole(const lifetimes *l, int32_t value) {
    while (is_reshape(l, value))
        value = l->berths[value].outer;
    return l->owner[value] == value;
}

static void note_use(lifetimes *l, int32_t owner, int32_t step) {
    l->last[owner] = step;
    qn_uses_note(&l->uses, owner, step);
}

static void find_last_reads(lifetimes *l) {
    for (int32_t s = 0; s < l->plan->n_steps; s++) {
        const qn_node *node = l->graph->nodes[l->plan->steps[s].node];
        for (int i = 0; i < node->n_inputs; i++) {
            if (node->inputs[i].id >= 0)
                note_use(l, l->owner[node->inputs[i].id], s);
        }
        for (int i = 0; i < node->n_outputs; i++)
            note_use(l, l->owner[node->outputs[i].id], s);
    }
    for (int v = 0; v < l->graph->n_values; v++) {
        if (l->graph->values[v]->is_result)
            l->last[l->owner[v]] = l->plan->n_steps;
    }
}

static qn_status add_storage(qn_plan *plan, qn_storage storage, int32_t *id) {
    const size_t alignment = qn_plan_arena(plan, storage.space).alignment;
    QN_TRY(qn_grow(plan->allocator, &plan->storages, &plan->storage_capacity,
                   (size_t)plan->n_storages + 1, sizeof *plan->storages));
    storage.bytes = (storage.bytes + alignment - 1) / alignment * alignment;
    plan->storages[plan->n_storages] = storage;
    *id = plan->n_storages++;
    return QN_OK;
}

/* Its rows are columns of the rows of the nearest value around it that is dense. */
static void place(lifetimes *l, int32_t value) {
    qn_placement *placement = &l->plan->placements[value];
    const qn_tensor tensor = l->graph->values[value]->tensor;
    int64_t column = 0;
    int32_t dense = value;
    for (; l->berths[dense].outer >= 0 && !is_reshape(l, dense); dense = l->berths[dense].outer)
        column += l->berths[dense].column;
    *placement = (qn_placement){.storage = l->storage[l->owner[value]],
                                .offset = (size_t)column * qn_dtype_bytes(tensor.dtype)};
    const qn_shape around = l->graph->values[dense]->tensor.shape, shape = tensor.shape;
    int64_t stride = 1;
    for (int axis = shape.rank - 1; axis >= 0; axis--) {
        placement->strides[axis] = stride;
        stride *= axis == shape.rank - 1 ? around.dims[around.rank - 1] : shape.dims[axis];
    }
}

static qn_status place_sources(lifetimes *l) {
    for (int v = 0; v < l->graph->n_values; v++) {
        const qn_value_info *info = l->graph->values[v];
        if (info->producer >= 0)
            continue;
        QN_TRY(add_storage(l->plan,
                           (qn_storage){.bytes = qn_tensor_bytes(info->tensor),
                                        .first = 0,
                                        .last = l->plan->n_steps,
                                        .kind = info->kind,
                                        .space = info->space,
                                        .is_bound = true},
                           &l->storage[v]));
    }
    return QN_OK;
}

/* The storage of an input that output 0 may take over: the input is all of it, no other input lies
 * in it, nobody else may still read it, it ends here, in this space, and it has the right size. -1:
 * none. */
static int32_t find_in_place(const lifetimes *l, const qn_node *node, int32_t step, int16_t space) {
    const size_t bytes = qn_tensor_bytes(qn_graph_tensor(l->graph, node->outputs[0]));
    for (int i = 0; i < node->n_inputs && i < 32; i++) {
        if (!(node->op->in_place >> i & 1) || node->inputs[i].id < 0 ||
            !is_whole(l, node->inputs[i].id))
            continue;
        int32_t id = l->storage[l->owner[node->inputs[i].id]];
        const qn_storage *storage = &l->plan->storages[id];
        int n_uses = 0;
        for (int j = 0; j < node->n_inputs; j++) {
            int32_t other = node->inputs[j].id;
            n_uses += other >= 0 && l->storage[l->owner[other]] == id;
        }
        if (!storage->is_bound && storage->last == step && n_uses == 1 && storage->space == space &&
            qn_uses_end_before(&l->uses, l->owner[node->inputs[i].id], step) &&
            bytes == qn_tensor_bytes(qn_graph_tensor(l->graph, node->inputs[i])))
            return id;
    }
    return -1;
}

/* Where the outputs of a node lie: in its lane's space, or where it copies them to. */
static int16_t space_of(const lifetimes *l, const qn_node *node, int32_t step) {
    if (node->op->output_space)
        return (int16_t)node->op->output_space(node->attributes);
    return qn_plan_lane(l->plan, l->plan->steps[step].lane).space;
}

/* Gives the owner of an output a storage, unless something else that lies in it came first. */
static qn_status place_output(lifetimes *l, const qn_node *node, int index, int32_t step) {
    const int32_t value = node->outputs[index].id, owner = l->owner[value];
    const qn_value_info *info = l->graph->values[owner];
    int32_t id = -1;
    const int16_t space = space_of(l, node, step);
    if (l->storage[owner] >= 0)
        return QN_OK;
    if (info->overwrites >= 0)
        id = l->storage[info->overwrites];
    else if (index == 0 && owner == value)
        id = find_in_place(l, node, step, space);
    if (id < 0) {
        QN_TRY(add_storage(l->plan,
                           (qn_storage){.bytes = qn_tensor_bytes(info->tensor),
                                        .first = step,
                                        .last = l->last[owner],
                                        .kind = info->kind,
                                        .space = space},
                           &id));
    }
    if (l->plan->storages[id].last < l->last[owner])
        l->plan->storages[id].last = l->last[owner];
    l->storage[owner] = id;
    return QN_OK;
}

/* A device that does not run a node is not given it. */
static qn_status check_support(const lifetimes *l, int device, const qn_node *node,
                               const qn_query *query) {
    char x[QN_SHAPE_TEXT], y[QN_SHAPE_TEXT];
    if (qn_machine_supports(l->machine, device, query))
        return QN_OK;
    const qn_tensor in = node->n_inputs > 0 ? query->inputs[0] : query->outputs[0];
    return qn_fail(QN_ERROR_UNSUPPORTED,
                   "plan: the device %s does not support %s, %s of %s %s with the result %s %s; %s",
                   l->machine->devices[device].device->name, node->name, node->op->name,
                   qn_dtype_name(in.dtype), qn_shape_print(in.shape, x),
                   qn_dtype_name(query->outputs[0].dtype),
                   qn_shape_print(query->outputs[0].shape, y),
                   device > 0 ? "place it in another lane" : "cast its inputs to f32");
}

static qn_status place_workspace(lifetimes *l, const qn_node *node, int32_t step) {
    const qn_step *at = &l->plan->steps[step];
    qn_tensor outputs[QN_MAX_OUTPUTS];
    const qn_query query =
        qn_machine_query(l->graph, node, qn_plan_team_size(l->plan, step), outputs);
    const int device = qn_plan_lane(l->plan, at->lane).device;
    QN_TRY(check_support(l, device, node, &query));
    const size_t bytes = qn_machine_workspace(l->machine, device, &query);
    if (bytes == 0)
        return QN_OK;
    return add_storage(
        l->plan,
        (qn_storage){.bytes = bytes,
                     .first = step,
                     .last = step,
                     .kind = QN_KIND_WORKSPACE,
                     .space = qn_plan_lane(l->plan, l->plan->steps[step].lane).space},
        &l->plan->steps[step].workspace);
}

static qn_status place_all(lifetimes *l) {
    QN_TRY(qn_plan_share(l->plan, l->graph, l->berths));
    find_owners(l);
    find_last_reads(l);
    QN_TRY(place_sources(l));
    for (int32_t s = 0; s < l->plan->n_steps; s++) {
        const qn_node *node = l->graph->nodes[l->plan->steps[s].node];
        for (int i = 0; i < node->n_outputs; i++)
            QN_TRY(place_output(l, node, i, s));
        QN_TRY(place_workspace(l, node, s));
    }
    for (int32_t v = 0; v < l->graph->n_values; v++)
        place(l, v);
    return qn_uses_lengthen(&l->uses, l->plan, l->storage);
}

qn_status qn_plan_lifetimes(qn_plan *plan, const qn_graph *graph, const qn_machine *machine) {
    const size_t n_values = (size_t)graph->n_values;
    lifetimes l = {.plan = plan, .graph = graph, .machine = machine};
    const qn_allocator *a = plan->allocator;
    qn_status status = qn_allocate(a, n_values, sizeof *l.berths, &l.berths);
    if (status == QN_OK)
        status = qn_allocate(a, n_values, sizeof *l.owner, &l.owner);
    if (status == QN_OK)
        status = qn_allocate(a, n_values, sizeof *l.last, &l.last);
    if (status == QN_OK)
        status = qn_allocate(a, n_values, sizeof *l.storage, &l.storage);
    if (status == QN_OK) {
        plan->n_values = graph->n_values;
        status = qn_allocate(a, n_values, sizeof *plan->placements, &plan->placements);
    }
    if (status == QN_OK)
        status = qn_uses_init(&l.uses, plan, graph->n_values);
    if (status == QN_OK)
        status = place_all(&l);
    qn_uses_deinit(&l.uses);
    qn_release(a, l.berths, n_values, sizeof *l.berths);
    qn_release(a, l.owner, n_values, sizeof *l.owner);
    qn_release(a, l.last, n_values, sizeof *l.last);
    qn_release(a, l.storage, n_values, sizeof *l.storage);
    return status;
}
