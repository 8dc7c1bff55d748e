/* How a GPU runs updates in place, and the factor that clips gradients. */
#include "device/cpu/cpu.h"
#include "device/gpu/operators.h"
#include "ops/network/norm.h"
#include "ops/shared.h"
#include "ops/update.h"

/* The numbers in n (kernels/updates.cl). */
enum { COUNT, HAS_FACTOR, HAS_STATE, IS_OTHER };

static void accumulate_run(qn_gpu_line *line, const qn_call *call) {
    qn_gpu_add_vectors(line, call->in[0], call->in[1], call->out[0], qn_call_count(call));
}

/* Inputs: hyper, factor, gradient; then what is changed, in the place of the outputs. */
static void start_step(qn_gpu_line *line, const qn_call *call, qn_gpu_kernel kernel, double rate,
                       bool is_other) {
    qn_gpu_arguments a = {.n = {[COUNT] = (int32_t)qn_call_count(call),
                                [HAS_FACTOR] = call->in[1] != NULL,
                                [HAS_STATE] = call->node->n_outputs > 1,
                                [IS_OTHER] = is_other},
                          .f = {(float)rate}};
    for (int i = 0; i < 3; i++)
        a.p[i] = qn_gpu_place(line, call->in[i]);
    for (int i = 0; i < call->node->n_outputs; i++)
        a.p[3 + i] = qn_gpu_place(line, call->out[i]);
    qn_gpu_start(line, kernel, &a, a.n[COUNT], 1, 1);
}

static void sgd_run(qn_gpu_line *line, const qn_call *call) {
    const qn_sgd_attributes *s = call->attributes;
    start_step(line, call, QN_GPU_sgd, s->rate, s->nesterov);
}

static void adam_run(qn_gpu_line *line, const qn_call *call) {
    const qn_adam_attributes *s = call->attributes;
    start_step(line, call, QN_GPU_adam, s->rate, s->decoupled);
}

static void statistics_run(qn_gpu_line *line, const qn_call *call) {
    const qn_batch_norm_running_attributes *s = call->attributes;
    const double rows = (double)s->rows;
    const qn_gpu_arguments a = {
        .p = {qn_gpu_place(line, call->in[0]), qn_gpu_place(line, call->in[1]),
              qn_gpu_place(line, call->out[0]), qn_gpu_place(line, call->out[1])},
        .n = {[COUNT] = (int32_t)qn_call_count(call)},
        .f = {(float)s->epsilon, (float)s->momentum, (float)(rows > 1 ? rows / (rows - 1) : 1)}};
    qn_gpu_start(line, QN_GPU_move_statistics, &a, a.n[COUNT], 1, 1);
}

/* ---- clipping ---- */

enum { PARTS = 1024 }; /* sums of each gradient: neighbours read neighbours */

static size_t clip_workspace(const qn_query *query) {
    const qn_clip_attributes *c = query->attributes;
    return (size_t)c->n_gradients * (PARTS + 1) * sizeof(float);
}

/* Parts (PARTS, gradients), then a sum of each gradient, then the factor. */
static void clip_run(qn_gpu_line *line, const qn_call *call) {
    const qn_clip_attributes *c = call->attributes;
    const uint64_t parts = qn_gpu_place(line, call->workspace);
    const uint64_t sums = parts + (uint64_t)c->n_gradients * PARTS * sizeof(float);
    for (int i = 0; i < c->n_gradients; i++) {
        const qn_gpu_arguments a = {
            .p = {qn_gpu_place(line, call->in[i + 1]), parts},
            .n = {(int32_t)qn_shape_count(call->inputs[i + 1].shape), PARTS, i, c->n_gradients}};
        qn_gpu_start(line, QN_GPU_sum_squares, &a, PARTS, 1, 1);
    }
    qn_gpu_add_rows(line, parts, PARTS, c->n_gradients, sums);
    const qn_gpu_arguments a = {
        .p = {qn_gpu_place(line, call->in[0]), sums, qn_gpu_place(line, call->out[0])},
        .n = {c->n_gradients},
        .f = {(float)c->limit}};
    qn_gpu_start(line, QN_GPU_clip_factor, &a, 1, 1, 1);
}

static bool has_all_inputs(const qn_query *query) {
    for (int i = 0; i < query->n_inputs; i++) {
        if (query->inputs[i].dtype != QN_F32)
            return false;
    }
    return true;
}

const qn_gpu_operator qn_gpu_updates[] = {
    {&qn_op_accumulation, .run = accumulate_run},
    {&qn_op_sgd_step, .run = sgd_run},
    {&qn_op_adam_step, .run = adam_run},
    {&qn_op_batch_norm_running, .run = statistics_run},
    {&qn_op_clip, .run = clip_run, .supports = has_all_inputs, .workspace = clip_workspace},
    {0},
};
