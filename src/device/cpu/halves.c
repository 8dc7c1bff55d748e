/* Operators on 16-bit floats by their rows for QN_F32 (half.h): parts of the batch are widened into
 * the workspace, the row makes them in f32, and what it makes is rounded. The bits are those of
 * whole tensors that are converted, because no part depends on another. Parts are rows (all axes
 * but the last), which threads take for themselves, or samples, on which all threads work together.
 * 16-bit operands are input 0, an input 1 of the same shape, and output 0; of samples, what else
 * has their axis is cut likewise; the rest, as numbers of channels, belongs to every part. */
#include "base/memory.h"
#include "device/cpu/half.h"
#include "ops/network/pool.h"
#include "ops/shared.h"

#include <string.h>

enum {
    SLICE_FLOATS = 256 * 1024, /* of samples, about: in the second cache */
    ROW_FLOATS = 2048,         /* of rows of one tensor: in the first */
    MOST_OPERANDS = 8,
    ATTRIBUTES = 256, /* bytes */
};

typedef struct slices {
    int64_t n, count;        /* samples of the batch, and of a slice */
    size_t x_bytes, y_bytes; /* of a slice of input 0, and of output 0, in the workspace */
} slices;

static int64_t sample_of(qn_tensor tensor) {
    return tensor.shape.dims[0] > 0 ? qn_shape_count(tensor.shape) / tensor.shape.dims[0] : 0;
}

static size_t aligned(int64_t floats) {
    const size_t bytes = (size_t)floats * sizeof(float);
    return (bytes + QN_ALIGNMENT - 1) / QN_ALIGNMENT * QN_ALIGNMENT;
}

static slices slices_of(qn_tensor x, qn_tensor y) {
    const int64_t n = x.shape.dims[0], count = SLICE_FLOATS / (2 * sample_of(x) + sample_of(y) + 1);
    slices s = {.n = n, .count = count < 1 ? 1 : count > n ? n : count};
    s.x_bytes = aligned(s.count * sample_of(x));
    s.y_bytes = aligned(s.count * sample_of(y));
    return s;
}

size_t qn_cpu_on_half_samples_workspace(const qn_kernels *kernels, const void *attributes,
                                        const qn_tensor *inputs, const qn_tensor *outputs,
                                        int n_threads) {
    const slices s = slices_of(inputs[0], outputs[0]);
    (void)kernels;
    (void)attributes;
    (void)n_threads;
    return 2 * s.x_bytes + s.y_bytes;
}

/* ---- parts ---- */

/* A call on a part, and what it points to. */
typedef struct slice_call {
    qn_call call;
    qn_tensor inputs[MOST_OPERANDS], outputs[QN_MAX_OUTPUTS];
    void *in[MOST_OPERANDS], *out[QN_MAX_OUTPUTS];
    union {
        char bytes[ATTRIBUTES];
        double aligned;
    } attributes;
} slice_call;

static bool is_sliced(qn_tensor tensor, int64_t n) {
    return tensor.shape.rank > 1 && tensor.shape.dims[0] == n;
}

/* The numbers of a tensor from a sample on. */
static void *at_sample(void *base, qn_tensor tensor, int64_t sample) {
    return (char *)base + (size_t)(sample * sample_of(tensor)) * qn_dtype_bytes(tensor.dtype);
}

/* Attributes that count samples are those of a slice. */
static void set_count(slice_call *slice, int64_t count) {
    for (const qn_attribute *a = slice->call.node->op->attributes; a && a->name; a++) {
        if (a->type == QN_ATTRIBUTE_CONV2D)
            ((qn_convolution *)(void *)(slice->attributes.bytes + a->offset))->n = count;
    }
}

/* The widened inputs and the result lie in space, an input's bytes apart. */
static void begin_call(slice_call *slice, const qn_call *call, char *space, size_t x_bytes) {
    const qn_node *node = call->node;
    slice->call = *call;
    slice->call.inputs = slice->inputs;
    slice->call.outputs = slice->outputs;
    slice->call.in = slice->in;
    slice->call.out = slice->out;
    slice->call.in_strides = slice->call.out_strides = NULL;
    slice->call.is_placed = NULL;
    slice->call.cpu = call->cpu + 1;
    slice->call.kernels = qn_cpu_halves(call->kernels, call->inputs[0].dtype).wide;
    slice->call.attributes = slice->attributes.bytes;
    memcpy(slice->attributes.bytes, call->attributes, node->op->attributes_bytes);
    for (int i = 0; i < node->n_inputs; i++) {
        slice->inputs[i] = call->inputs[i];
        slice->in[i] = call->in[i];
        if (qn_dtype_is_half(call->inputs[i].dtype)) {
            slice->inputs[i].dtype = QN_F32;
            slice->in[i] = space + (size_t)i * x_bytes;
        }
    }
    for (int i = 0; i < node->n_outputs; i++)
        slice->outputs[i] = call->outputs[i];
    slice->outputs[0].dtype = QN_F32;
    slice->out[0] = space + 2 * x_bytes;
}

/* Samples [first, first + count) as the row gets them. */
static void take_slice(slice_call *slice, const qn_call *call, int64_t n, int64_t first,
                       int64_t count) {
    const qn_halves how = qn_cpu_halves(call->kernels, call->inputs[0].dtype);
    const qn_node *node = call->node;
    set_count(slice, count);
    for (int i = 0; i < node->n_inputs; i++) {
        const qn_tensor whole = call->inputs[i];
        if (!call->in[i] || !is_sliced(whole, n))
            continue;
        slice->inputs[i].shape.dims[0] = count;
        if (qn_dtype_is_half(whole.dtype)) {
            const int64_t rows = qn_shape_rows(whole.shape) / n, step = qn_call_in_stride(call, i);
            qn_halves_widen(&how, call->team, count * rows, qn_shape_columns(whole.shape), step,
                            (const uint16_t *)call->in[i] + first * rows * step, slice->in[i]);
        } else {
            slice->in[i] = at_sample(call->in[i], whole, first);
        }
    }
    for (int i = 0; i < node->n_outputs; i++) {
        slice->outputs[i].shape.dims[0] = count;
        if (i > 0)
            slice->out[i] = at_sample(call->out[i], call->outputs[i], first);
    }
}

void qn_cpu_run_on_half_samples(const qn_call *call) {
    const slices s = slices_of(call->inputs[0], call->outputs[0]);
    const qn_shape y = call->outputs[0].shape;
    const qn_halves how = qn_cpu_halves(call->kernels, call->inputs[0].dtype);
    const int64_t rows = qn_shape_rows(y) / s.n, step = qn_call_out_stride(call, 0);
    slice_call slice;
    begin_call(&slice, call, call->workspace, s.x_bytes);
    for (int64_t first = 0; first < s.n; first += s.count) {
        const int64_t count = s.n - first < s.count ? s.n - first : s.count;
        take_slice(&slice, call, s.n, first, count);
        slice.call.cpu->run(&slice.call);
        qn_halves_narrow(&how, call->team, count * rows, qn_shape_columns(y), step, slice.out[0],
                         (uint16_t *)call->out[0] + first * rows * step);
    }
}

/* ---- rows ---- */

static int64_t rows_at_once(int64_t c) {
    return c < ROW_FLOATS ? ROW_FLOATS / c : 1;
}

size_t qn_cpu_on_half_rows_workspace(const qn_kernels *kernels, const void *attributes,
                                     const qn_tensor *inputs, const qn_tensor *outputs,
                                     int n_threads) {
    const int64_t c = qn_shape_columns(inputs[0].shape);
    (void)kernels;
    (void)attributes;
    (void)outputs;
    return 3 * (size_t)n_threads * aligned(rows_at_once(c) * c);
}

/* A task is rows_at_once rows. */
static void rows_task(void *context, int64_t begin, int64_t end, int thread) {
    const qn_call *call = context;
    const qn_shape x = call->inputs[0].shape;
    const int64_t rows = qn_shape_rows(x), c = qn_shape_columns(x), at_once = rows_at_once(c);
    const int64_t out_step = qn_call_out_stride(call, 0);
    const qn_half_rows how = qn_half_rows_of(call->inputs[0].dtype, call->kernels->isa);
    const size_t bytes = aligned(at_once * c);
    slice_call slice;
    begin_call(&slice, call, (char *)call->workspace + 3 * (size_t)thread * bytes, bytes);
    slice.call.team = NULL;
    for (int64_t first = begin * at_once; first < end * at_once && first < rows; first += at_once) {
        const int64_t count = rows - first < at_once ? rows - first : at_once;
        const qn_shape shape = QN_SHAPE(count, c);
        for (int i = 0; i < call->node->n_inputs; i++) {
            const int64_t step = qn_call_in_stride(call, i);
            if (!call->in[i] || !qn_dtype_is_half(call->inputs[i].dtype))
                continue;
            slice.inputs[i].shape = shape;
            qn_half_rows_widen(&how, count, c, (const uint16_t *)call->in[i] + first * step, step,
                               slice.in[i]);
        }
        slice.outputs[0].shape = shape;
        slice.call.cpu->run(&slice.call);
        qn_half_rows_narrow(&how, count, c, slice.out[0],
                            (uint16_t *)call->out[0] + first * out_step, out_step);
    }
}

void qn_cpu_run_on_half_rows(const qn_call *call) {
    const qn_shape x = call->inputs[0].shape;
    const int64_t at_once = rows_at_once(qn_shape_columns(x));
    qn_call copy = *call;
    qn_team_run(call->team, (qn_shape_rows(x) + at_once - 1) / at_once, rows_task, &copy);
}
