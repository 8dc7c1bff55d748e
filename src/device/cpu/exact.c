/* How the CPU runs operators of exact integers (ops/integers.h). */
#include "device/cpu/cpu.h"
#include "ops/integers.h"
#include "ops/shared.h"

#include <math.h>
#include <string.h>

static void rule_run(const qn_call *call) {
    const qn_integer_attributes *a = call->attributes;
    const int n = call->node->n_inputs;
    const qn_broadcast b = qn_broadcast_of(call->inputs, n, call->outputs[0].shape);
    qn_dtype dtypes[3];
    const void *operands[3];
    for (int i = 0; i < n; i++) {
        dtypes[i] = call->inputs[i].dtype;
        operands[i] = call->in[i];
    }
    qn_integer_combine((qn_integer_rule)a->rule, (qn_integer_type){a->bits, a->is_signed}, &b,
                       qn_call_count(call), n, dtypes, operands, call->outputs[0].dtype,
                       call->out[0]);
}

static void axis_run(const qn_call *call) {
    const qn_shape s = call->inputs[0].shape;
    qn_integer_reduce(call->attributes, call->inputs[0].dtype, call->in[0], s.dims[0], s.dims[1],
                      s.dims[2], call->out[0]);
}

/* ---- places of the largest, and products ---- */

static size_t ranked_workspace(const qn_kernels *kernels, const void *attributes,
                               const qn_tensor *inputs, const qn_tensor *outputs, int n_threads) {
    (void)kernels;
    (void)attributes;
    (void)outputs;
    (void)n_threads;
    return (size_t)inputs[0].shape.dims[1] * sizeof(qn_ranked);
}

static void ranked_run(const qn_call *call) {
    const qn_ranking_attributes *a = call->attributes;
    const qn_integer_ranking ranking = {a->k, a->is_largest, a->is_unsigned};
    const qn_shape s = call->inputs[0].shape;
    qn_integer_rank(&ranking, call->inputs[0].dtype, call->in[0], s.dims[0], s.dims[1], s.dims[2],
                    call->workspace, call->out[0]);
}

static void matmul_run(const qn_call *call) {
    const qn_integer_matmul_attributes *a = call->attributes;
    const qn_shape left = call->inputs[0].shape, right = call->inputs[1].shape;
    const qn_integer_matrices m = {.type = {a->bits, a->is_signed},
                                   .a = call->inputs[0].dtype,
                                   .b = call->inputs[1].dtype,
                                   .n_matrices = left.dims[0],
                                   .rows = left.dims[1],
                                   .n = left.dims[2],
                                   .columns = right.dims[2]};
    qn_integer_multiply(&m, call->in[0], call->in[1], call->out[0]);
}

/* ---- places ---- */

/* What stands where there is no element. */
static void put_none(qn_dtype dtype, void *to) {
    const int64_t least = INT64_MIN;
    const int32_t least_32 = INT32_MIN;
    const double nan_64 = NAN;
    const float nan_32 = NAN;
    const void *from = dtype == QN_I64   ? (const void *)&least
                       : dtype == QN_I32 ? (const void *)&least_32
                       : dtype == QN_F64 ? (const void *)&nan_64
                                         : (const void *)&nan_32;
    if (dtype == QN_I64 || dtype == QN_I32 || dtype == QN_F64 || dtype == QN_F32)
        memcpy(to, from, qn_dtype_bytes(dtype));
    else
        memset(to, 0, qn_dtype_bytes(dtype));
}

static void pick_run(const qn_call *call) {
    const qn_dtype dtype = call->inputs[0].dtype;
    const size_t bytes = qn_dtype_bytes(dtype);
    const int64_t n = qn_shape_count(call->inputs[0].shape);
    const char *from = call->in[0];
    char *to = call->out[0];
    for (int64_t i = 0; i < qn_call_count(call); i++, to += bytes) {
        const int64_t place = qn_integer_at(call->inputs[1].dtype, call->in[1], i);
        if (place >= 0 && place < n)
            memcpy(to, from + (size_t)place * bytes, bytes);
        else
            put_none(dtype, to);
    }
}

const qn_cpu_operator qn_cpu_exact[] = {
    {&qn_op_integer_rule, .types = QN_TYPES_ANY, .run = rule_run},
    {&qn_op_integer_axis, .types = QN_TYPES_ANY, .run = axis_run},
    {&qn_op_integer_matmul, .types = QN_TYPES_ANY, .run = matmul_run},
    {&qn_op_ranked_places, .types = QN_TYPES_ANY, .run = ranked_run, .workspace = ranked_workspace},
    {&qn_op_pick_elements, .types = QN_TYPES_ANY, .run = pick_run},
    {0},
};
