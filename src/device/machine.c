/* See machine.h. */
#include "device/machine.h"

#include "base/status.h"
#include "device/cpu/cpu.h"
#include "ops/ops.h"

static const qn_space host = {
    .name = "host",
    .physical = QN_PHYSICAL_HOST,
    .is_host = true,
    .alignment = QN_ALIGNMENT,
};

qn_machine qn_machine_cpu(const qn_kernels *kernels, int n_threads) {
    qn_machine m = qn_machine_of_isa(QN_ISA_REF, n_threads);
    qn_machine_set_kernels(&m, kernels);
    return m;
}

qn_machine qn_machine_of_isa(qn_isa isa, int n_threads) {
    return (qn_machine){.n_threads = n_threads,
                        .n_devices = 1,
                        .n_spaces = 1,
                        .f32 = qn_kernels_get(QN_F32, isa),
                        .f64 = qn_kernels_get(QN_F64, isa),
                        .devices = {{.device = &qn_device_cpu}},
                        .spaces = {{.space = &host}}};
}

void qn_machine_set_kernels(qn_machine *m, const qn_kernels *kernels) {
    if (kernels->real == QN_F64)
        m->f64 = kernels;
    else
        m->f32 = kernels;
}

const qn_kernels *qn_machine_kernels(const qn_machine *m, qn_dtype real) {
    return real == QN_F64 ? m->f64 : m->f32;
}

qn_status qn_machine_add(qn_machine *m, const qn_device *device, void *state, int *row) {
    const int n_spaces = device->shares && device->shares(state) ? 0 : device->n_spaces;
    if (m->n_devices == QN_MAX_DEVICES || m->n_spaces + n_spaces > QN_MAX_SPACES)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "a machine can have %d devices and %d memory spaces; there is no room for "
                       "the device %s",
                       QN_MAX_DEVICES, QN_MAX_SPACES, device->name);
    *row = m->n_devices++;
    m->devices[*row] = (qn_machine_device){
        .device = device,
        .state = state,
        .first_space = (int16_t)(n_spaces > 0 ? m->n_spaces : 0),
    };
    for (int i = 0; i < n_spaces; i++)
        m->spaces[m->n_spaces++] = (qn_machine_space){
            .space = &device->spaces[i], .device = (int16_t)*row, .row = (int16_t)i};
    return QN_OK;
}

int qn_machine_disk(const qn_machine *m) {
    for (int i = 0; i < m->n_spaces; i++) {
        if (m->spaces[i].space->physical == QN_PHYSICAL_DISK)
            return i;
    }
    return -1;
}

bool qn_machine_same_memory(const qn_machine *m, int space, int other) {
    const qn_machine_space *a = &m->spaces[space], *b = &m->spaces[other];
    return a->space->physical == b->space->physical &&
           (a->space->physical != QN_PHYSICAL_DEVICE || a->device == b->device);
}

qn_query qn_machine_query(const qn_graph *graph, const qn_node *node, int n_threads,
                          qn_tensor outputs[QN_MAX_OUTPUTS]) {
    for (int i = 0; i < node->n_outputs; i++)
        outputs[i] = qn_graph_tensor(graph, node->outputs[i]);
    return (qn_query){.op = node->op,
                      .attributes = node->attributes,
                      .n_inputs = node->n_inputs,
                      .n_outputs = node->n_outputs,
                      .inputs = node->input_tensors,
                      .outputs = outputs,
                      .n_threads = n_threads};
}

size_t qn_machine_workspace(const qn_machine *m, int device, const qn_query *query) {
    const qn_machine_device *d = &m->devices[device];
    return d->device->workspace ? d->device->workspace(m, d->state, query)
                                : qn_cpu_workspace(m, NULL, query);
}

bool qn_machine_supports(const qn_machine *m, int device, const qn_query *query) {
    const qn_machine_device *d = &m->devices[device];
    return !d->device->supports || d->device->supports(d->state, query);
}

double qn_machine_cost_ns(const qn_machine *m, int device, const qn_graph *graph,
                          const qn_node *node) {
    const qn_machine_device *d = &m->devices[device];
    qn_tensor outputs[QN_MAX_OUTPUTS];
    const qn_query query = qn_machine_query(graph, node, m->n_threads, outputs);
    const qn_cost cost = qn_node_cost(graph, node);
    return d->device->cost_ns ? d->device->cost_ns(m, d->state, &query, &cost) : -1;
}

int64_t qn_machine_chunk(const qn_machine *m, const qn_query *query) {
    return qn_cpu_chunk(m, query);
}
