/* How the CPU runs elementwise operators, column sums, constants and casts. */
#include "ops/elementwise.h"
#include "device/cpu/half.h"
#include "ops/shared.h"
#include "tensor/number.h"

/* ---- add ---- */

static void add_run(const qn_call *call) {
    const qn_activation_attributes *a = call->attributes;
    qn_rows rows = qn_call_rows(call);
    rows.strides[0] = qn_call_in_stride(call, 0);
    rows.strides[1] = qn_call_in_stride(call, 1);
    rows.strides[2] = qn_call_out_stride(call, 0);
    call->kernels->add(call->team, &rows, call->in[0], call->in[1], a->activation, call->out[0]);
}

/* ---- multiply ---- */

static void multiply_run(const qn_call *call) {
    call->kernels->multiply(call->team, qn_call_count(call), call->in[0], call->in[1],
                            call->out[0]);
}

/* ---- scale ---- */

static void scale_run(const qn_call *call) {
    const qn_scale_attributes *a = call->attributes;
    call->kernels->scale(call->team, qn_call_count(call), a->factor, call->in[0], call->out[0]);
}

/* ---- bias ---- */

static void bias_run(const qn_call *call) {
    const qn_shape shape = call->inputs[0].shape;
    call->kernels->bias(call->team, qn_shape_rows(shape), qn_shape_columns(shape), call->in[0],
                        call->in[1], call->out[0]);
}

/* The rows of a sample of x, of which there are as many as its first extent. */
static int64_t column_sum_rows(qn_shape x) {
    return x.rank > 1 ? qn_shape_count_range(x, 1, x.rank - 1) : 1;
}

static int64_t column_sum_samples(qn_shape x) {
    return x.rank > 1 ? x.dims[0] : 1;
}

static size_t column_sum_workspace(const qn_kernels *kernels, const void *attributes,
                                   const qn_tensor *inputs, const qn_tensor *outputs,
                                   int n_threads) {
    (void)attributes;
    (void)outputs;
    const qn_shape shape = inputs[0].shape;
    return kernels->column_sum_workspace(column_sum_samples(shape), column_sum_rows(shape),
                                         qn_shape_columns(shape), n_threads);
}

static void column_sum_run(const qn_call *call) {
    const qn_shape shape = call->inputs[0].shape;
    call->kernels->column_sum(call->team, column_sum_samples(shape), column_sum_rows(shape),
                              qn_shape_columns(shape), call->in[0], qn_call_goes_on(call, 1, 0),
                              call->out[0], call->workspace);
}

static int64_t column_sum_chunk(const qn_kernels *kernels, const void *attributes,
                                const qn_tensor *inputs) {
    const qn_shape x = inputs[0].shape;
    (void)attributes;
    return x.rank > 1 ? kernels->column_sum_chunk(column_sum_rows(x), qn_shape_columns(x)) : 0;
}

/* ---- broadcast ---- */

static void broadcast_run(const qn_call *call) {
    const qn_broadcast_attributes *a = call->attributes;
    call->kernels->broadcast(call->team, qn_call_count(call), a->factor, call->in[0], call->out[0]);
}

/* ---- combine ---- */

static void combine_run_rule(const qn_call *call, qn_combination kind) {
    const qn_broadcast shape =
        qn_broadcast_of(call->inputs, call->node->n_inputs, call->outputs[0].shape);
    call->kernels->combine(call->team, kind, &shape, call->in[0], call->in[1],
                           call->node->n_inputs > 2 ? call->in[2] : NULL, call->out[0]);
}

static void combine_run(const qn_call *call) {
    combine_run_rule(call, ((const qn_combine_attributes *)call->attributes)->kind);
}

static void combine_where_run(const qn_call *call) {
    combine_run_rule(call, QN_COMBINE_WHERE);
}

/* ---- dropout ---- */

static void dropout_run(const qn_call *call) {
    const qn_dropout_attributes *a = call->attributes;
    const qn_rng rng = qn_rng_make(call->seed, qn_dropout_key(call->node), call->step);
    call->kernels->dropout(call->team, qn_call_count(call), rng, (uint64_t)a->first, a->rate,
                           call->in[0], call->out[0]);
}

/* ---- function ---- */

static void function_run(const qn_call *call) {
    call->kernels->function_forward(call->team, call->attributes, qn_call_count(call), call->in[0],
                                    call->out[0]);
}

static void function_backward_run(const qn_call *call) {
    call->kernels->function_backward(call->team, call->attributes, qn_call_count(call), call->in[0],
                                     call->in[1], call->out[0]);
}

/* ---- cast ---- */

enum { CAST_AT_ONCE = 4096 }; /* numbers of a task */

/* Numbers [begin, end) by a kernel of the instruction set; false: there is none for the types. */
static bool cast_fast(const qn_call *call, int64_t begin, int64_t end) {
    const qn_dtype from = call->inputs[0].dtype, to = call->outputs[0].dtype;
    const qn_half_rows rows =
        qn_half_rows_of(qn_dtype_is_half(from) ? from : to, call->kernels->isa);
    const int64_t n = end - begin;
    if (from == QN_F32 && qn_dtype_is_half(to))
        rows.narrow(n, (const float *)call->in[0] + begin, (uint16_t *)call->out[0] + begin);
    else if (to == QN_F32 && qn_dtype_is_half(from))
        rows.widen(n, (const uint16_t *)call->in[0] + begin, (float *)call->out[0] + begin);
    else
        return false;
    return true;
}

static void cast_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const qn_call *call = context;
    const int64_t n = qn_call_count(call), first = begin * CAST_AT_ONCE;
    const int64_t last = end * CAST_AT_ONCE < n ? end * CAST_AT_ONCE : n;
    if (!cast_fast(call, first, last))
        qn_numbers_convert(call->inputs[0].dtype, call->in[0], call->outputs[0].dtype, call->out[0],
                           first, last);
}

static void cast_run(const qn_call *call) {
    qn_call copy = *call;
    qn_team_run(call->team, (qn_call_count(call) + CAST_AT_ONCE - 1) / CAST_AT_ONCE, cast_task,
                &copy);
}

/* ---- constant ---- */

static void constant_run(const qn_call *call) {
    const qn_constant_attributes *a = call->attributes;
    if (a->dtype == QN_F64)
        *(double *)call->out[0] = a->value;
    else
        *(float *)call->out[0] = (float)a->value;
}

const qn_cpu_operator qn_cpu_elementwise[] = {
    {&qn_op_add, QN_CPU_ON_HALF(rows)},
    {&qn_op_add, .run = add_run},
    {&qn_op_multiply, .run = multiply_run},
    {&qn_op_scale, .run = scale_run},
    {&qn_op_bias, .run = bias_run},
    {&qn_op_column_sum, .run = column_sum_run, .workspace = column_sum_workspace,
     .chunk = column_sum_chunk},
    {&qn_op_broadcast_scalar, .run = broadcast_run},
    {&qn_op_combine_forward, .run = combine_run},
    {&qn_op_where_forward, .run = combine_where_run},
    {&qn_op_dropout, .run = dropout_run},
    {&qn_op_function_forward, .run = function_run},
    {&qn_op_function_backward, .run = function_backward_run},
    {&qn_op_cast_forward, .types = QN_TYPES_ANY, .run = cast_run},
    {&qn_op_constant, .run = constant_run},
    {0},
};
