/* See runs.h. */
#include "run/resident/runs.h"

#include "base/memory.h"
#include "base/status.h"

#include <string.h>

static size_t aligned(size_t bytes) {
    return (bytes + QN_ALIGNMENT - 1) / QN_ALIGNMENT * QN_ALIGNMENT;
}

static size_t input_bytes(const qn_program *p, int input) {
    return qn_tensor_bytes(qn_graph_tensor(p->graph, p->inputs[input]));
}

static size_t inputs_bytes(const qn_program *p) {
    size_t bytes = 0;
    for (int i = 0; i < p->n_inputs; i++)
        bytes += aligned(input_bytes(p, i));
    return bytes;
}

void qn_runs_measure(qn_runs *runs, const qn_program *programs, int n_programs, size_t bytes) {
    enum { FEW = 4, MANY = 64 };
    *runs = (qn_runs){.n = 0};
    for (int i = 0; i < n_programs; i++) {
        const size_t slot = programs[i].training ? inputs_bytes(&programs[i]) : 0;
        runs->slot_bytes = slot > runs->slot_bytes ? slot : runs->slot_bytes;
    }
    const size_t n = runs->slot_bytes > 0 ? bytes / runs->slot_bytes : MANY;
    runs->n_slots = n < FEW ? FEW : n > MANY ? MANY : (int)n;
}

size_t qn_runs_bytes(const qn_runs *runs) {
    return (size_t)runs->n_slots * (runs->slot_bytes + sizeof *runs->runs);
}

qn_status qn_runs_create(const qn_allocator *allocator, qn_runs *runs) {
    QN_TRY(qn_allocate(allocator, (size_t)runs->n_slots, sizeof *runs->runs, &runs->runs));
    return qn_allocate_unset(allocator, (size_t)runs->n_slots, runs->slot_bytes, &runs->inputs);
}

void qn_runs_destroy(const qn_allocator *allocator, qn_runs *runs) {
    qn_release(allocator, runs->runs, (size_t)runs->n_slots, sizeof *runs->runs);
    qn_release(allocator, runs->inputs, (size_t)runs->n_slots, runs->slot_bytes);
    *runs = (qn_runs){.n = 0};
}

void qn_runs_take_inputs(const qn_runs *runs, const qn_program *p) {
    char *to = runs->inputs + (size_t)runs->n * runs->slot_bytes;
    for (int i = 0; i < p->n_inputs; i++) {
        memcpy(to, qn_executor_get(p->executor, p->inputs[i]), input_bytes(p, i));
        to += aligned(input_bytes(p, i));
    }
    qn_runs_bind(runs, runs->n, p);
}

void qn_runs_bind(const qn_runs *runs, int run, const qn_program *p) {
    char *at = runs->inputs + (size_t)run * runs->slot_bytes;
    for (int i = 0; i < p->n_inputs; i++) {
        qn_executor_bind(p->executor, p->inputs[i], at);
        at += aligned(input_bytes(p, i));
    }
}
