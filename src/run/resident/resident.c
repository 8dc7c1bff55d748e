/* See resident.h. */
#include "run/resident/resident.h"

#include "base/memory.h"
#include "base/status.h"
#include "os/heap.h"

#include <string.h>

static const qn_machine_device *device_of(const qn_engine *e) {
    return qn_offload_opened(e);
}

static int space_of(const qn_engine *e) {
    return device_of(e)->first_space;
}

static int find_tensor(const qn_engine *e, const char *name) {
    const qn_stored_tensor *found = qn_store_find(&e->store, name);
    return found ? (int)(found - e->store.tensors) : -1;
}

bool qn_resident_is_active(const qn_engine *e) {
    return qn_offload_of(e)->resident && qn_offload_of(e)->resident->is_active &&
           qn_engine_device(e) > 0;
}

bool qn_resident_has(const qn_engine *e, const char *name) {
    const int i = qn_resident_is_active(e) ? find_tensor(e, name) : -1;
    return i >= 0 && i < qn_offload_of(e)->resident->n_tensors &&
           qn_offload_of(e)->resident->is_there[i];
}

/* ---- choosing ---- */

/* The value from outside that one is, seen as another shape or after updates. */
static const qn_value_info *origin_of(const qn_graph *graph, int32_t value) {
    const qn_value_info *info = graph->values[qn_graph_unview(graph, (qn_value){value}).id];
    while (info->overwrites >= 0)
        info = graph->values[info->overwrites];
    return info;
}

/* What a node changes, and what it reads: the first has to be there for the second to be of use.
 * False: it changes something that cannot be there. */
static bool note_node(const qn_engine *e, const qn_graph *graph, const qn_node *node,
                      bool is_on_device) {
    const qn_resident *r = qn_offload_of(e)->resident;
    for (int i = 0; i < node->n_outputs; i++) {
        const qn_value_info *info = graph->values[node->outputs[i].id];
        if (info->overwrites < 0)
            continue;
        const int tensor = find_tensor(e, origin_of(graph, info->overwrites)->name);
        if (!is_on_device || tensor < 0)
            return false;
        r->is_there[tensor] = true;
    }
    for (int i = 0; is_on_device && i < node->n_inputs; i++) {
        const qn_value_info *info =
            node->inputs[i].id < 0 ? NULL : origin_of(graph, node->inputs[i].id);
        const int tensor = info && info->producer < 0 ? find_tensor(e, info->name) : -1;
        if (tensor >= 0)
            r->is_there[tensor] = true;
    }
    return true;
}

static qn_status note_program(const qn_engine *e, const qn_program *p, bool *is_fit) {
    const size_t n_nodes = (size_t)p->graph->n_nodes;
    int16_t *lane_of;
    QN_TRY(qn_allocate(&e->allocator, n_nodes, sizeof *lane_of, &lane_of));
    const qn_status status = qn_engine_fill_lane_of(e, p, lane_of);
    for (int n = 0; status == QN_OK && n < p->graph->n_nodes; n++)
        *is_fit = *is_fit && note_node(e, p->graph, p->graph->nodes[n], lane_of[n] > 0);
    qn_release(&e->allocator, lane_of, n_nodes, sizeof *lane_of);
    return status;
}

/* A device that goes on after a failure has its works done again, so it must not have changed what
 * they read. Sums of gradients are the host's. */
static bool is_possible(const qn_engine *e) {
    const qn_device *d = device_of(e)->device;
    return qn_engine_device(e) > 0 && d->copy_in && d->copy_out && space_of(e) > 0 &&
           !d->take_failure && e->options.update.accumulate == 1 && !e->options.ranks;
}

static void place_tensors(qn_engine *e) {
    qn_resident *r = qn_offload_of(e)->resident;
    const size_t alignment = e->machine.spaces[space_of(e)].space->alignment;
    r->bytes = 0;
    for (int i = 0; i < r->n_tensors; i++) {
        r->offsets[i] = r->bytes;
        if (r->is_there[i])
            r->bytes += (e->store.tensors[i].bytes + alignment - 1) / alignment * alignment;
    }
}

static qn_status create(qn_engine *e) {
    const size_t n = (size_t)e->store.n_tensors;
    QN_TRY(qn_allocate(&e->allocator, 1, sizeof *qn_offload_of(e)->resident,
                       &qn_offload_of(e)->resident));
    qn_offload_of(e)->resident->n_tensors = e->store.n_tensors;
    QN_TRY(qn_allocate(&e->allocator, n, sizeof *qn_offload_of(e)->resident->is_there,
                       &qn_offload_of(e)->resident->is_there));
    return qn_allocate(&e->allocator, n, sizeof *qn_offload_of(e)->resident->offsets,
                       &qn_offload_of(e)->resident->offsets);
}

qn_status qn_resident_choose(qn_engine *e) {
    if (qn_engine_device(e) == 0)
        return QN_OK;
    if (!qn_offload_of(e)->resident)
        QN_TRY(create(e));
    qn_resident *r = qn_offload_of(e)->resident;
    bool is_fit = is_possible(e);
    for (int i = 0; i < r->n_tensors; i++)
        r->is_there[i] = false;
    for (int i = 0; is_fit && i < e->n_programs; i++)
        QN_TRY(note_program(e, &e->programs[i], &is_fit));
    for (int i = 0; !is_fit && i < r->n_tensors; i++)
        r->is_there[i] = false;
    r->is_active = is_fit;
    place_tensors(e);
    return QN_OK;
}

/* ---- memory ---- */

static qn_status reserve(qn_engine *e) {
    qn_resident *r = qn_offload_of(e)->resident;
    const qn_machine_device *d = device_of(e);
    const int space = space_of(e);
    r->arena_bytes = 0;
    if (space == 0)
        return QN_OK;
    for (int i = 0; i < e->n_programs; i++) {
        const size_t bytes = qn_plan_arena(e->programs[i].plan, space).bytes;
        r->arena_bytes = bytes > r->arena_bytes ? bytes : r->arena_bytes;
    }
    if (r->bytes + r->arena_bytes == 0)
        return QN_OK;
    return d->device->reserve(d->state, e->machine.spaces[space].row, r->bytes + r->arena_bytes,
                              &r->memory);
}

/* Inputs take half as much again as parameters, but enough for small steps; within a budget few
 * steps are kept. */
static void measure_runs(const qn_engine *e, qn_runs *runs) {
    enum { LEAST_BYTES = 16 << 20 };
    const size_t half = e->store.bytes / 2, most = half > LEAST_BYTES ? half : LEAST_BYTES;
    qn_runs_measure(runs, e->programs, e->n_programs, e->options.memory_budget_bytes ? 0 : most);
}

size_t qn_resident_host_bytes(const qn_engine *e) {
    qn_runs runs;
    if (!qn_resident_is_active(e) || qn_offload_of(e)->resident->spare)
        return 0;
    measure_runs(e, &runs);
    return qn_offload_of(e)->resident->bytes + qn_runs_bytes(&runs);
}

/* Where they are kept meanwhile. */
static qn_status make_room(qn_engine *e) {
    qn_resident *r = qn_offload_of(e)->resident;
    if (!r->is_active || r->spare)
        return QN_OK;
    measure_runs(e, &r->runs);
    if (e->options.plan_only) {
        e->memory.planned_bytes += r->bytes + qn_runs_bytes(&r->runs);
        return QN_OK;
    }
    QN_TRY(qn_allocate_unset(&e->allocator, 1, r->bytes, &r->spare));
    r->spare_bytes = r->bytes;
    return qn_runs_create(&e->allocator, &r->runs);
}

static void bind(const qn_engine *e, const qn_program *p) {
    const qn_resident *r = qn_offload_of(e)->resident;
    for (int v = 0; v < p->graph->n_values; v++) {
        const qn_value_info *info = p->graph->values[v];
        if (info->producer < 0 && info->space > 0)
            qn_executor_bind(p->executor, (qn_value){v},
                             r->memory.base + r->offsets[find_tensor(e, info->name)]);
    }
}

qn_status qn_resident_open(qn_engine *e) {
    qn_resident *r = qn_offload_of(e)->resident;
    if (qn_engine_device(e) == 0)
        return QN_OK;
    QN_TRY(make_room(e));
    if (e->options.plan_only)
        return QN_OK;
    QN_TRY(reserve(e));
    r->is_device_old = true;
    r->is_host_old = false;
    const int space = r->memory.base ? space_of(e) : 0;
    char *arena = r->memory.base ? r->memory.base + r->bytes : NULL;
    for (int i = 0; i < e->n_programs; i++) {
        QN_TRY(qn_executor_open_lanes(e->programs[i].executor, space, arena));
        bind(e, &e->programs[i]);
    }
    return QN_OK;
}

void qn_resident_close(qn_engine *e) {
    const qn_machine_device *d = device_of(e);
    if (qn_offload_of(e)->resident)
        qn_offload_of(e)->resident->ahead = 0;
    if (qn_offload_of(e)->resident && qn_offload_of(e)->resident->memory.base)
        d->device->release(d->state, &qn_offload_of(e)->resident->memory);
}

void qn_resident_destroy(qn_engine *e) {
    const qn_allocator *a = &e->allocator;
    qn_resident *r = qn_offload_of(e)->resident;
    if (!r)
        return;
    qn_resident_close(e);
    qn_runs_destroy(a, &r->runs);
    qn_release(a, r->spare, 1, r->spare_bytes);
    qn_release(a, r->is_there, (size_t)r->n_tensors, sizeof *r->is_there);
    qn_release(a, r->offsets, (size_t)r->n_tensors, sizeof *r->offsets);
    qn_release(a, r, 1, sizeof *r);
    qn_offload_of(e)->resident = NULL;
}

/* ---- copies ---- */

qn_status qn_resident_load(qn_engine *e) {
    qn_resident *r = qn_offload_of(e)->resident;
    const qn_machine_device *d = device_of(e);
    if (!qn_resident_is_active(e) || !r->is_device_old)
        return QN_OK;
    for (int i = 0; i < r->n_tensors; i++) {
        const qn_stored_tensor *t = &e->store.tensors[i];
        if (r->is_there[i])
            QN_TRY(d->device->copy_in(d->state, &r->memory, r->offsets[i], t->data, t->bytes));
    }
    r->is_device_old = false;
    return QN_OK;
}

void qn_resident_forget(qn_engine *e) {
    if (!qn_offload_of(e)->resident)
        return;
    qn_offload_of(e)->resident->is_device_old = true;
    qn_offload_of(e)->resident->is_host_old = false;
    qn_offload_of(e)->resident->runs.n = 0;
}

/* Waits for the end of all runs. */
static qn_status finish(const qn_engine *e) {
    const int ahead = qn_offload_of(e)->resident->ahead;
    qn_offload_of(e)->resident->ahead = 0;
    return ahead > 0 ? qn_executor_finish(e->programs[ahead - 1].executor) : QN_OK;
}

/* All of them, or none. */
static qn_status read_back(const qn_engine *e) {
    qn_resident *r = qn_offload_of(e)->resident;
    const qn_machine_device *d = device_of(e);
    QN_TRY(finish(e));
    if (r->bytes > 0)
        QN_TRY(d->device->copy_out(d->state, &r->memory, 0, r->spare, r->bytes));
    for (int i = 0; i < r->n_tensors; i++) {
        const qn_stored_tensor *t = &e->store.tensors[i];
        if (r->is_there[i])
            memcpy(t->data, r->spare + r->offsets[i], t->bytes);
    }
    r->is_host_old = false;
    r->runs.n = 0;
    return QN_OK;
}

qn_status qn_resident_fetch(qn_engine *e) {
    qn_resident *r = qn_offload_of(e)->resident;
    if (!qn_resident_is_active(e) || !e->planning.is_done)
        return QN_OK;
    const qn_status status = r->is_host_old ? read_back(e) : QN_OK;
    r->is_device_old = true;
    return status == QN_ERROR_DEVICE ? qn_engine_leave_device(e) : status;
}

/* ---- runs ---- */

static bool goes_ahead(const qn_engine *e, int program, const qn_watch *watch) {
    return qn_resident_is_active(e) && e->programs[program].training && !watch &&
           qn_executor_can_go_ahead(e->programs[program].executor);
}

qn_status qn_resident_prepare(qn_engine *e, int program) {
    const qn_resident *r = qn_offload_of(e)->resident;
    if (!qn_resident_is_active(e) || r->ahead == 0)
        return QN_OK;
    if (r->ahead == program + 1 && !e->run.events && r->runs.n < r->runs.n_slots &&
        !r->is_device_old) {
        qn_executor_await_begun(e->programs[program].executor);
        return QN_OK;
    }
    const qn_status status = finish(e);
    return status == QN_ERROR_DEVICE ? qn_engine_leave_device(e) : status;
}

qn_status qn_resident_run(qn_engine *e, int program, uint64_t step, const qn_watch *watch) {
    qn_executor *executor = qn_engine_get_program(e, program)->executor;
    if (!goes_ahead(e, program, watch))
        return qn_executor_run(executor, e->options.seed, step, watch);
    QN_TRY(qn_executor_run_ahead(executor, e->options.seed, step));
    qn_offload_of(e)->resident->ahead = program + 1;
    return QN_OK;
}

qn_status qn_resident_begin_run(qn_engine *e, int program) {
    qn_resident *r = qn_offload_of(e)->resident;
    if (!qn_resident_is_active(e))
        return QN_OK;
    QN_TRY(qn_resident_load(e));
    if (!e->programs[program].training)
        return QN_OK;
    if (r->runs.n == r->runs.n_slots)
        QN_TRY(read_back(e));
    qn_runs_take_inputs(&r->runs, &e->programs[program]);
    return QN_OK;
}

void qn_resident_end_run(qn_engine *e, int program, uint64_t step) {
    qn_resident *r = qn_offload_of(e)->resident;
    if (!qn_resident_is_active(e) || !e->programs[program].training)
        return;
    qn_kept_run *run = &r->runs.runs[r->runs.n++];
    run->program = program;
    run->step = step;
    memcpy(run->hyper, e->memory.hyper, sizeof run->hyper);
    r->is_host_old = true;
}

qn_status qn_resident_repeat(qn_engine *e, int *n) {
    qn_resident *r = qn_offload_of(e)->resident;
    double hyper[QN_HYPER_COUNT];
    *n = r && r->is_host_old ? r->runs.n : 0;
    memcpy(hyper, e->memory.hyper, sizeof hyper);
    for (int i = 0; i < *n; i++) {
        const qn_kept_run *run = &r->runs.runs[i];
        const qn_program *p = &e->programs[run->program];
        qn_runs_bind(&r->runs, i, p);
        memcpy(e->memory.hyper, run->hyper, sizeof run->hyper);
        QN_TRY(qn_executor_run(p->executor, e->options.seed, run->step, NULL));
    }
    memcpy(e->memory.hyper, hyper, sizeof hyper);
    qn_resident_forget(e);
    return QN_OK;
}
