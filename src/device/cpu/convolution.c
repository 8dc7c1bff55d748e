/* How the CPU runs convolutions, transposed convolutions, and the products of their gradients. */
#include "ops/network/convolution.h"
#include "device/cpu/half.h"
#include "ops/shared.h"

/* How the convolution is to be done: by the rules and tilings beside the kernels. */
static qn_conv2d_shape planned(const qn_kernels *kernels, const qn_convolution *c,
                               int64_t y_stride) {
    qn_conv2d_shape d = qn_cpu_window(c, y_stride);
    d.rules = kernels->rules;
    d.tilings = kernels->tilings;
    return d;
}

static size_t count_workspace(const qn_kernels *kernels, const qn_convolution *c,
                              qn_conv2d_pass pass, int n_threads) {
    const qn_conv2d_shape d = planned(kernels, c, 0);
    return kernels->conv2d_workspace(&d, pass, n_threads);
}

/* ---- conv2d ---- */

static size_t conv2d_workspace(const qn_kernels *kernels, const void *attributes,
                               const qn_tensor *inputs, const qn_tensor *outputs, int n_threads) {
    (void)outputs;
    const qn_convolution c = qn_conv2d_of(attributes, inputs);
    return count_workspace(kernels, &c, QN_CONV2D_FORWARD, n_threads);
}

static void conv2d_run(const qn_call *call) {
    const qn_conv2d_attributes *a = call->attributes;
    const void *bias = call->node->n_inputs > 2 ? call->in[2] : NULL;
    const qn_convolution c = qn_conv2d_of(a, call->inputs);
    const qn_conv2d_shape d = planned(call->kernels, &c, qn_call_out_stride(call, 0));
    call->kernels->conv2d_forward(call->team, &d, call->in[0], call->in[1], bias, a->activation,
                                  call->out[0], call->workspace);
}

static const qn_convolution *backward_of(const void *attributes) {
    return &((const qn_conv2d_backward_attributes *)attributes)->shape;
}

static size_t backward_data_workspace(const qn_kernels *kernels, const void *attributes,
                                      const qn_tensor *inputs, const qn_tensor *outputs,
                                      int n_threads) {
    (void)inputs;
    (void)outputs;
    return count_workspace(kernels, backward_of(attributes), QN_CONV2D_BACKWARD_DATA, n_threads);
}

static void backward_data_run(const qn_call *call) {
    const qn_conv2d_shape d =
        planned(call->kernels, backward_of(call->attributes), qn_call_in_stride(call, 0));
    call->kernels->conv2d_backward_data(call->team, &d, call->in[0], call->in[1], call->out[0],
                                        call->workspace);
}

static size_t backward_filter_workspace(const qn_kernels *kernels, const void *attributes,
                                        const qn_tensor *inputs, const qn_tensor *outputs,
                                        int n_threads) {
    (void)inputs;
    (void)outputs;
    return count_workspace(kernels, backward_of(attributes), QN_CONV2D_BACKWARD_FILTER, n_threads);
}

static void backward_filter_run(const qn_call *call) {
    qn_conv2d_shape d =
        planned(call->kernels, backward_of(call->attributes), qn_call_in_stride(call, 1));
    d.add = qn_call_goes_on(call, 2, 0);
    call->kernels->conv2d_backward_filter(call->team, &d, call->in[0], call->in[1], call->out[0],
                                          call->workspace);
}

static int64_t backward_filter_chunk(const qn_kernels *kernels, const void *attributes,
                                     const qn_tensor *inputs) {
    (void)inputs;
    const qn_conv2d_shape d = planned(kernels, backward_of(attributes), 0);
    return kernels->conv2d_filter_chunk(&d);
}

/* ---- conv2d transposed: a convolution's gradient with respect to its data ---- */

static size_t transpose_workspace(const qn_kernels *kernels, const void *attributes,
                                  const qn_tensor *inputs, const qn_tensor *outputs,
                                  int n_threads) {
    (void)outputs;
    const qn_convolution c = qn_conv2d_transpose_of(attributes, inputs);
    return count_workspace(kernels, &c, QN_CONV2D_BACKWARD_DATA, n_threads);
}

static void transpose_run(const qn_call *call) {
    const qn_convolution c = qn_conv2d_transpose_of(call->attributes, call->inputs);
    const qn_conv2d_shape d = planned(call->kernels, &c, 0);
    call->kernels->conv2d_backward_data(call->team, &d, call->in[0], call->in[1], call->out[0],
                                        call->workspace);
}

/* ---- the same of I8, with sums of I32 ---- */

static size_t integer_bytes(const qn_kernels *kernels, const qn_convolution *c, qn_conv2d_pass pass,
                            int n_threads) {
    const qn_conv2d_shape d = qn_cpu_window(c, 0);
    return qn_integer_kernels_get(kernels->isa)->conv2d_workspace(&d, pass, n_threads);
}

static size_t integer_conv2d_workspace(const qn_kernels *kernels, const void *attributes,
                                       const qn_tensor *inputs, const qn_tensor *outputs,
                                       int n_threads) {
    (void)outputs;
    const qn_convolution c = qn_conv2d_of(attributes, inputs);
    return integer_bytes(kernels, &c, QN_CONV2D_FORWARD, n_threads);
}

static void integer_conv2d(const qn_call *call, const qn_integer_result *to) {
    const qn_conv2d_attributes *a = call->attributes;
    qn_integer_result y = *to;
    y.relu = a->activation.kind == QN_ACTIVATION_RELU;
    const qn_convolution c = qn_conv2d_of(a, call->inputs);
    const qn_conv2d_shape d = qn_cpu_window(&c, qn_call_out_stride(call, 0));
    qn_integer_kernels_get(call->kernels->isa)
        ->conv2d_forward(call->team, &d, call->in[0], call->in[1], &y, call->workspace);
}

static void integer_conv2d_run(const qn_call *call) {
    const void *bias = call->node->n_inputs > 2 ? call->in[2] : NULL;
    integer_conv2d(call, &(qn_integer_result){.sums = call->out[0], .bias = bias});
}

static size_t integer_data_workspace(const qn_kernels *kernels, const void *attributes,
                                     const qn_tensor *inputs, const qn_tensor *outputs,
                                     int n_threads) {
    (void)inputs;
    (void)outputs;
    return integer_bytes(kernels, backward_of(attributes), QN_CONV2D_BACKWARD_DATA, n_threads);
}

static void integer_data(const qn_call *call, const qn_integer_result *dx) {
    const qn_conv2d_shape d =
        qn_cpu_window(backward_of(call->attributes), qn_call_in_stride(call, 0));
    qn_integer_kernels_get(call->kernels->isa)
        ->conv2d_backward_data(call->team, &d, call->in[0], call->in[1], dx, call->workspace);
}

static void integer_data_run(const qn_call *call) {
    integer_data(call, &(qn_integer_result){.sums = call->out[0]});
}

static size_t integer_filter_workspace(const qn_kernels *kernels, const void *attributes,
                                       const qn_tensor *inputs, const qn_tensor *outputs,
                                       int n_threads) {
    (void)inputs;
    (void)outputs;
    return integer_bytes(kernels, backward_of(attributes), QN_CONV2D_BACKWARD_FILTER, n_threads);
}

static void make_filter(const qn_call *call, bool adds, const qn_integer_result *dw) {
    qn_conv2d_shape d = qn_cpu_window(backward_of(call->attributes), qn_call_in_stride(call, 1));
    d.add = adds;
    qn_integer_kernels_get(call->kernels->isa)
        ->conv2d_backward_filter(call->team, &d, call->in[0], call->in[1], dw, call->workspace);
}

static void integer_filter(const qn_call *call, const qn_integer_result *dw) {
    make_filter(call, false, dw);
}

static void integer_filter_run(const qn_call *call) {
    make_filter(call, qn_call_goes_on(call, 2, 0), &(qn_integer_result){.sums = call->out[0]});
}

/* Sums of whole numbers may be cut anywhere. */
static int64_t integer_chunk(const qn_kernels *kernels, const void *attributes,
                             const qn_tensor *inputs) {
    (void)kernels;
    (void)attributes;
    (void)inputs;
    return 1;
}

/* ---- the same, whose sums are shifted ---- */

static qn_sums sums_of(const qn_kernels *kernels, const void *attributes, const qn_convolution *c,
                       qn_conv2d_pass pass) {
    static const qn_op *const twins[] = {&qn_op_rescaled_conv2d,
                                         &qn_op_rescaled_conv2d_backward_data,
                                         &qn_op_rescaled_conv2d_backward_filter};
    const qn_conv2d_shape d = qn_cpu_window(c, 0);
    const int64_t taps = d.r * d.s, pixels = d.n * d.p * d.q;
    const int64_t products = pass == QN_CONV2D_FORWARD         ? taps * d.c / d.groups
                             : pass == QN_CONV2D_BACKWARD_DATA ? taps * d.k / d.groups
                                                               : pixels;
    return qn_cpu_sums(qn_rescaling_of(twins[pass], attributes), products,
                       qn_integer_kernels_get(kernels->isa)->conv2d_keeps(&d, pass));
}

static size_t rescaled_bytes(const qn_kernels *kernels, const void *attributes,
                             const qn_convolution *c, qn_conv2d_pass pass, const qn_tensor *outputs,
                             int n_threads) {
    return qn_cpu_sums_bytes(outputs, sums_of(kernels, attributes, c, pass)) +
           integer_bytes(kernels, c, pass, n_threads);
}

static size_t rescaled_conv2d_workspace(const qn_kernels *kernels, const void *attributes,
                                        const qn_tensor *inputs, const qn_tensor *outputs,
                                        int n_threads) {
    const qn_convolution c = qn_conv2d_of(attributes, inputs);
    return rescaled_bytes(kernels, attributes, &c, QN_CONV2D_FORWARD, outputs, n_threads);
}

static void rescaled_conv2d_run(const qn_call *call) {
    const qn_convolution c = qn_conv2d_of(call->attributes, call->inputs);
    qn_cpu_rescale(call, integer_conv2d,
                   sums_of(call->kernels, call->attributes, &c, QN_CONV2D_FORWARD));
}

static size_t rescaled_data_workspace(const qn_kernels *kernels, const void *attributes,
                                      const qn_tensor *inputs, const qn_tensor *outputs,
                                      int n_threads) {
    (void)inputs;
    return rescaled_bytes(kernels, attributes, backward_of(attributes), QN_CONV2D_BACKWARD_DATA,
                          outputs, n_threads);
}

static void rescaled_data_run(const qn_call *call) {
    qn_cpu_rescale(call, integer_data,
                   sums_of(call->kernels, call->attributes, backward_of(call->attributes),
                           QN_CONV2D_BACKWARD_DATA));
}

static size_t rescaled_filter_workspace(const qn_kernels *kernels, const void *attributes,
                                        const qn_tensor *inputs, const qn_tensor *outputs,
                                        int n_threads) {
    (void)inputs;
    return rescaled_bytes(kernels, attributes, backward_of(attributes), QN_CONV2D_BACKWARD_FILTER,
                          outputs, n_threads);
}

static void rescaled_filter_run(const qn_call *call) {
    qn_cpu_rescale(call, integer_filter,
                   sums_of(call->kernels, call->attributes, backward_of(call->attributes),
                           QN_CONV2D_BACKWARD_FILTER));
}

/* ---- the same of BF16 or F16 ---- */

static size_t half_bytes(const qn_kernels *kernels, const qn_tensor *inputs,
                         const qn_convolution *c, qn_conv2d_pass pass, int n_threads) {
    const qn_halves how = qn_cpu_halves(kernels, inputs[0].dtype);
    const qn_conv2d_shape d = qn_cpu_window(c, 0);
    return qn_half_kernels_get(&how)->conv2d_workspace(&how, &d, pass, n_threads);
}

static size_t half_conv2d_workspace(const qn_kernels *kernels, const void *attributes,
                                    const qn_tensor *inputs, const qn_tensor *outputs,
                                    int n_threads) {
    (void)outputs;
    const qn_convolution c = qn_conv2d_of(attributes, inputs);
    return half_bytes(kernels, inputs, &c, QN_CONV2D_FORWARD, n_threads);
}

static void half_conv2d_run(const qn_call *call) {
    const qn_conv2d_attributes *a = call->attributes;
    const void *bias = call->node->n_inputs > 2 ? call->in[2] : NULL;
    const qn_halves how = qn_cpu_halves(call->kernels, call->inputs[0].dtype);
    const bool relu = a->activation.kind == QN_ACTIVATION_RELU;
    const qn_half_result y = {.halves = call->out[0], .bias = bias, .relu = relu};
    const qn_convolution c = qn_conv2d_of(a, call->inputs);
    const qn_conv2d_shape d = qn_cpu_window(&c, qn_call_out_stride(call, 0));
    qn_half_kernels_get(&how)->conv2d_forward(&how, call->team, &d, call->in[0], call->in[1], &y,
                                              call->workspace);
}

static size_t half_data_workspace(const qn_kernels *kernels, const void *attributes,
                                  const qn_tensor *inputs, const qn_tensor *outputs,
                                  int n_threads) {
    (void)outputs;
    return half_bytes(kernels, inputs, backward_of(attributes), QN_CONV2D_BACKWARD_DATA, n_threads);
}

static void half_data_run(const qn_call *call) {
    const qn_halves how = qn_cpu_halves(call->kernels, call->inputs[0].dtype);
    const qn_conv2d_shape d =
        qn_cpu_window(backward_of(call->attributes), qn_call_in_stride(call, 0));
    qn_half_kernels_get(&how)->conv2d_backward_data(&how, call->team, &d, call->in[0], call->in[1],
                                                    &(qn_half_result){.halves = call->out[0]},
                                                    call->workspace);
}

static size_t half_filter_workspace(const qn_kernels *kernels, const void *attributes,
                                    const qn_tensor *inputs, const qn_tensor *outputs,
                                    int n_threads) {
    (void)outputs;
    return half_bytes(kernels, inputs, backward_of(attributes), QN_CONV2D_BACKWARD_FILTER,
                      n_threads);
}

static void half_filter_run(const qn_call *call) {
    const qn_halves how = qn_cpu_halves(call->kernels, call->inputs[0].dtype);
    qn_conv2d_shape d = qn_cpu_window(backward_of(call->attributes), qn_call_in_stride(call, 1));
    d.add = qn_call_goes_on(call, 2, 0);
    qn_half_kernels_get(&how)->conv2d_backward_filter(
        &how, call->team, &d, call->in[0], call->in[1], &(qn_half_result){.sums = call->out[0]},
        call->workspace);
}

static int64_t half_filter_chunk(const qn_kernels *kernels, const void *attributes,
                                 const qn_tensor *inputs) {
    const qn_halves how = qn_cpu_halves(kernels, inputs[0].dtype);
    const qn_conv2d_shape d = qn_cpu_window(backward_of(attributes), 0);
    return qn_half_kernels_get(&how)->conv2d_filter_chunk(&how, &d);
}

const qn_cpu_operator qn_cpu_convolution[] = {
    {&qn_op_rescaled_conv2d, .types = QN_TYPES(QN_I8), .run = rescaled_conv2d_run,
     .workspace = rescaled_conv2d_workspace},
    {&qn_op_rescaled_conv2d_backward_data, .types = QN_TYPES(QN_I8), .run = rescaled_data_run,
     .workspace = rescaled_data_workspace},
    {&qn_op_rescaled_conv2d_backward_filter, .types = QN_TYPES(QN_I8), .run = rescaled_filter_run,
     .workspace = rescaled_filter_workspace},
    {&qn_op_conv2d, .types = QN_TYPES(QN_I8), .run = integer_conv2d_run,
     .workspace = integer_conv2d_workspace},
    {&qn_op_conv2d, .types = QN_TYPES_HALF, .run = half_conv2d_run,
     .workspace = half_conv2d_workspace},
    {&qn_op_conv2d, .run = conv2d_run, .workspace = conv2d_workspace, .takes_tiling = true},
    {&qn_op_conv2d_backward_data, .types = QN_TYPES(QN_I8), .run = integer_data_run,
     .workspace = integer_data_workspace},
    {&qn_op_conv2d_backward_data, .types = QN_TYPES_HALF, .run = half_data_run,
     .workspace = half_data_workspace},
    {&qn_op_conv2d_backward_data, .run = backward_data_run, .workspace = backward_data_workspace,
     .takes_tiling = true},
    {&qn_op_conv2d_backward_filter, .types = QN_TYPES(QN_I8), .run = integer_filter_run,
     .workspace = integer_filter_workspace, .chunk = integer_chunk},
    {&qn_op_conv2d_backward_filter, .types = QN_TYPES_HALF, .run = half_filter_run,
     .workspace = half_filter_workspace, .chunk = half_filter_chunk},
    {&qn_op_conv2d_backward_filter, .run = backward_filter_run,
     .workspace = backward_filter_workspace, .chunk = backward_filter_chunk, .takes_tiling = true},
    {&qn_op_conv2d_transpose, .run = transpose_run, .workspace = transpose_workspace,
     .takes_tiling = true},
    {0},
};
