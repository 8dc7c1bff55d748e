/* The CPU as a device: runs every operator by its row (cpu.h). */
#include "device/cpu/cpu.h"

#include "device/host_queue.h"
#include "device/speed.h"

static const qn_cpu_operator *const families[] = {
    qn_cpu_convolution, qn_cpu_pool,       qn_cpu_product,     qn_cpu_norm,    qn_cpu_attention,
    qn_cpu_lstm,        qn_cpu_activation, qn_cpu_elementwise, qn_cpu_loss,    qn_cpu_layout,
    qn_cpu_reduce,      qn_cpu_update,     qn_cpu_quantise,    qn_cpu_integer, qn_cpu_round,
    qn_cpu_chunked,     qn_cpu_whole_norm, qn_cpu_exact,       qn_cpu_frozen,  qn_cpu_language,
};

/* ---- finding a row ---- */

/* An open-addressing table of first rows by their operator's address. Threads may fill it at once:
 * each one puts the same rows, in the same order, into the same slots. */
enum { SLOTS = 512 };
static const qn_cpu_operator *slots[SLOTS]; /* atomic, each by itself */
static bool is_filled;                      /* atomic */

static size_t slot_of(const qn_op *op) {
    return (size_t)((uintptr_t)op / sizeof(void *) * UINT64_C(0x9e3779b97f4a7c15) >> 55);
}

/* The slot of an operator, or the free one where it belongs. */
static const qn_cpu_operator **find_slot(const qn_op *op) {
    size_t i = slot_of(op);
    const qn_cpu_operator *row;
    while ((row = __atomic_load_n(&slots[i], __ATOMIC_RELAXED)) != NULL && row->op != op)
        i = (i + 1) % SLOTS;
    return &slots[i];
}

static void fill_slots(void) {
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        for (const qn_cpu_operator *row = families[f]; row->op; row++) {
            const qn_cpu_operator **slot = find_slot(row->op);
            if (!__atomic_load_n(slot, __ATOMIC_RELAXED))
                __atomic_store_n(slot, row, __ATOMIC_RELAXED);
        }
    }
    __atomic_store_n(&is_filled, true, __ATOMIC_RELEASE);
}

const qn_cpu_operator *qn_cpu_row(const qn_op *op) {
    if (!__atomic_load_n(&is_filled, __ATOMIC_ACQUIRE))
        fill_slots();
    return __atomic_load_n(find_slot(op), __ATOMIC_RELAXED);
}

/* ---- which types a row takes ---- */

static bool has_kernels(qn_dtype dtype) {
    return qn_dtype_is_real(dtype) || !qn_dtype_is_float(dtype);
}

static bool are_usual(const qn_query *q) {
    for (int i = 0; i < q->n_inputs; i++) {
        if (!has_kernels(q->inputs[i].dtype))
            return false;
    }
    for (int i = 0; i < q->n_outputs; i++) {
        if (!has_kernels(q->outputs[i].dtype))
            return false;
    }
    return true;
}

static bool takes(const qn_cpu_operator *row, const qn_query *q) {
    if (row->types == 0)
        return are_usual(q);
    return row->types >> (q->n_inputs > 0 ? q->inputs : q->outputs)[0].dtype & 1;
}

const qn_cpu_operator *qn_cpu_find(const qn_query *q) {
    const qn_cpu_operator *row = qn_cpu_row(q->op);
    for (; row && row->op == q->op; row++) {
        if (takes(row, q))
            return row;
    }
    return NULL;
}

bool qn_cpu_supports(const void *state, const qn_query *query) {
    (void)state;
    return query->op->is_view || qn_cpu_find(query);
}

/* ---- what a node needs ---- */

/* The real type of a node's first operand that has one: its kernels are that table's. */
static qn_dtype real_of(const qn_query *q) {
    for (int i = 0; i < q->n_outputs; i++) {
        if (q->outputs[i].dtype == QN_F32 || q->outputs[i].dtype == QN_F64)
            return q->outputs[i].dtype;
    }
    for (int i = 0; i < q->n_inputs; i++) {
        if (q->inputs[i].dtype == QN_F32 || q->inputs[i].dtype == QN_F64)
            return q->inputs[i].dtype;
    }
    return QN_F32;
}

static const qn_kernels *kernels_of(const qn_machine *machine, const qn_query *query) {
    return qn_machine_kernels(machine, real_of(query));
}

size_t qn_cpu_workspace(const qn_machine *machine, const void *state, const qn_query *q) {
    const qn_cpu_operator *row = qn_cpu_find(q);
    (void)state;
    return row && row->workspace ? row->workspace(kernels_of(machine, q), q->attributes, q->inputs,
                                                  q->outputs, q->n_threads)
                                 : 0;
}

double qn_cpu_cost_ns(const qn_machine *machine, const void *state, const qn_query *query,
                      const qn_cost *cost) {
    const qn_speed speed = qn_speed_typical(query->n_threads);
    (void)machine;
    (void)state;
    return query->op->is_view ? 0 : qn_speed_ns(&speed, cost);
}

int64_t qn_cpu_chunk(const qn_machine *machine, const qn_query *q) {
    const qn_cpu_operator *row = qn_cpu_find(q);
    return row && row->chunk ? row->chunk(kernels_of(machine, q), q->attributes, q->inputs) : 0;
}

void qn_cpu_run(const qn_call *call) {
    if (!call->finite || qn_cpu_may_change(call))
        call->cpu->run(call);
}

void qn_cpu_prepare(qn_call *call, const qn_machine *machine) {
    const qn_query query = {.op = call->node->op,
                            .n_inputs = call->node->n_inputs,
                            .n_outputs = call->node->n_outputs,
                            .inputs = call->inputs,
                            .outputs = call->outputs};
    call->cpu = qn_cpu_find(&query);
    call->kernels = kernels_of(machine, &query);
}

static qn_status cpu_queue_open(void *state, const qn_allocator *allocator,
                                const qn_queue_options *options, qn_queue **queue) {
    (void)state;
    return qn_host_queue_open(allocator, options->n_threads, qn_cpu_run, NULL, queue);
}

const qn_device qn_device_cpu = {
    .name = "cpu",
    .supports = qn_cpu_supports,
    .workspace = qn_cpu_workspace,
    .cost_ns = qn_cpu_cost_ns,
    .queue_open = cpu_queue_open,
    .queue_close = qn_host_queue_close,
    .queue_timeline = qn_host_queue_timeline,
    .submit = qn_host_queue_submit,
    .run = qn_cpu_run,
};
