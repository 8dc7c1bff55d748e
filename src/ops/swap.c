/* A value goes to the swap file and comes back. Four operators, so that the file works while others
 * run: a plan sees that the value's memory is read until it is stored, and that the copy's is
 * written from the load on. What passes between them in tickets is the request to wait for, and the
 * sum of the bytes that were written. They are added to graphs that are otherwise complete, so
 * there are no gradients; a failure of the file is the file's to tell (os/swap.h), and no node may
 * run behind it. */
#include "ops/shared.h"

#include <string.h>

/* The content of a ticket, an I32 tensor of TICKET_WORDS. */
typedef struct ticket {
    uint64_t sum;
    int32_t request, unused;
} ticket;

enum { TICKET_WORDS = sizeof(ticket) / sizeof(int32_t) };

typedef struct load_attributes {
    int dtype;
    qn_shape shape;
} load_attributes;

static const qn_attribute load_fields[] = {
    QN_FIELD(load_attributes, QN_ATTRIBUTE_INT, dtype),
    QN_FIELD(load_attributes, QN_ATTRIBUTE_SHAPE, shape),
    {0},
};

static const qn_tensor ticket_tensor = {QN_I32, {1, {TICKET_WORDS}}};

/* ---- shapes and costs ---- */

static qn_status check_ticket(const qn_infer *infer, int input) {
    QN_TRY(qn_infer_dtype(infer, input, QN_I32));
    return qn_infer_rank(infer, input, 1, "a ticket");
}

static qn_status store_infer(qn_infer *infer) {
    infer->outputs[0] = ticket_tensor;
    return QN_OK;
}

static qn_status stored_infer(qn_infer *infer) {
    QN_TRY(check_ticket(infer, 1));
    infer->outputs[0] = ticket_tensor;
    return QN_OK;
}

static qn_status load_infer(qn_infer *infer) {
    const load_attributes *a = infer->attributes;
    QN_TRY(check_ticket(infer, 0));
    infer->n_outputs = 2;
    infer->outputs[0] = (qn_tensor){(qn_dtype)a->dtype, a->shape};
    infer->outputs[1] = ticket_tensor;
    return QN_OK;
}

static qn_status loaded_infer(qn_infer *infer) {
    QN_TRY(check_ticket(infer, 1));
    infer->outputs[0] = infer->inputs[0];
    return QN_OK;
}

static qn_cost store_cost(const void *attributes, const qn_tensor *inputs,
                          const qn_tensor *outputs) {
    (void)attributes;
    (void)outputs;
    return (qn_cost){.bytes = (int64_t)qn_tensor_bytes(inputs[0])};
}

static qn_cost load_cost(const void *attributes, const qn_tensor *inputs,
                         const qn_tensor *outputs) {
    (void)attributes;
    (void)inputs;
    return (qn_cost){.bytes = (int64_t)qn_tensor_bytes(outputs[0])};
}

/* Waiting moves nothing but a ticket. */
static qn_cost wait_cost(const void *attributes, const qn_tensor *inputs,
                         const qn_tensor *outputs) {
    (void)attributes;
    (void)inputs;
    (void)outputs;
    return (qn_cost){.bytes = sizeof(ticket)};
}

/* ---- calls ---- */

static ticket read_ticket(const qn_call *call, int input) {
    ticket read;
    memcpy(&read, call->in[input], sizeof read);
    return read;
}

static void write_ticket(const qn_call *call, int output, ticket written) {
    memcpy(call->out[output], &written, sizeof written);
}

static void store_run(const qn_call *call) {
    const qn_swap_place *place = call->swap;
    qn_swap_begin_write(place->file, place->request, place->offset, call->in[0],
                        qn_tensor_bytes(call->inputs[0]));
    write_ticket(call, 0, (ticket){.request = place->request});
}

static void stored_run(const qn_call *call) {
    const int request = read_ticket(call, 1).request;
    write_ticket(call, 0, (ticket){.sum = qn_swap_end_write(call->swap->file, request)});
}

static void load_run(const qn_call *call) {
    const qn_swap_place *place = call->swap;
    qn_swap_begin_read(place->file, place->request, place->offset, call->out[0],
                       qn_tensor_bytes(call->outputs[0]));
    write_ticket(call, 1, (ticket){read_ticket(call, 0).sum, place->request, 0});
}

static void loaded_run(const qn_call *call) {
    const ticket loading = read_ticket(call, 1);
    qn_swap_end_read(call->swap->file, loading.request, loading.sum);
    if (call->out[0] != call->in[0])
        memcpy(call->out[0], call->in[0], qn_tensor_bytes(call->outputs[0]));
}

/* ---- the operators ---- */

enum { ANY_TYPE = 0xff };

const qn_op qn_op_swap_store_value = {
    .name = "swap_store",
    .min_inputs = 1,
    .max_inputs = 1,
    .integer_inputs = ANY_TYPE,
    .infer = store_infer,
    .cost = store_cost,
    .run = store_run,
    .swapping = QN_SWAPPING_STORE,
};

const qn_op qn_op_swap_stored_value = {
    .name = "swap_stored",
    .min_inputs = 2,
    .max_inputs = 2,
    .integer_inputs = ANY_TYPE,
    .infer = stored_infer,
    .cost = wait_cost,
    .run = stored_run,
    .swapping = QN_SWAPPING_STORED,
};

const qn_op qn_op_swap_load_value = {
    .name = "swap_load",
    .attributes_bytes = sizeof(load_attributes),
    .attributes = load_fields,
    .min_inputs = 1,
    .max_inputs = 1,
    .integer_inputs = ANY_TYPE,
    .output_names = {NULL, "ticket"},
    .infer = load_infer,
    .cost = load_cost,
    .run = load_run,
    .swapping = QN_SWAPPING_LOAD,
};

const qn_op qn_op_swap_loaded_value = {
    .name = "swap_loaded",
    .min_inputs = 2,
    .max_inputs = 2,
    .integer_inputs = ANY_TYPE,
    .infer = loaded_infer,
    .cost = wait_cost,
    .run = loaded_run,
    .in_place = 1 << 0,
    .swapping = QN_SWAPPING_LOADED,
};

qn_value qn_op_swap_store(qn_graph *graph, const char *name, qn_value value) {
    return qn_graph_add1(graph, &qn_op_swap_store_value, name, &value, 1, NULL);
}

qn_value qn_op_swap_stored(qn_graph *graph, const char *name, qn_value value, qn_value storing) {
    return qn_graph_add1(graph, &qn_op_swap_stored_value, name, (qn_value[]){value, storing}, 2,
                         NULL);
}

qn_value qn_op_swap_load(qn_graph *graph, const char *name, qn_tensor tensor, qn_value stored,
                         qn_value *loading) {
    const load_attributes attributes = {(int)tensor.dtype, tensor.shape};
    const qn_node *node =
        qn_graph_add(graph, &qn_op_swap_load_value, name, &stored, 1, &attributes);
    *loading = node ? node->outputs[1] : QN_NO_VALUE;
    return node ? node->outputs[0] : QN_NO_VALUE;
}

qn_value qn_op_swap_loaded(qn_graph *graph, const char *name, qn_value copy, qn_value loading) {
    return qn_graph_add1(graph, &qn_op_swap_loaded_value, name, (qn_value[]){copy, loading}, 2,
                         NULL);
}
