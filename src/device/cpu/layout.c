/* How the CPU runs operators that move elements without changing them. */
#include "ops/layout.h"
#include "device/cpu/cpu.h"
#include "ops/shared.h"
#include "tensor/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- concat ---- */

/* Bytes of a row of the axes before the axis, and from one to the next. */
typedef struct concat_row_bytes {
    size_t row, step;
} concat_row_bytes;

/* row_step: of the last axis. */
static concat_row_bytes concat_bytes_of(const qn_call *call, qn_tensor tensor, int64_t row_stride) {
    const int axis = ((const qn_concat_attributes *)call->attributes)->axis;
    const size_t row =
        qn_tensor_bytes(tensor) / (size_t)qn_shape_count_range(tensor.shape, 0, axis);
    const bool is_last = axis == tensor.shape.rank - 1;
    return (concat_row_bytes){row,
                              is_last ? qn_dtype_bytes(tensor.dtype) * (size_t)row_stride : row};
}

/* A task is one row of the axes before the axis. */
static void concat_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const qn_call *call = context;
    const concat_row_bytes whole =
        concat_bytes_of(call, call->outputs[0], qn_call_out_stride(call, 0));
    char *to = call->out[0];
    for (int i = 0; i < call->node->n_inputs; i++) {
        const concat_row_bytes part =
            concat_bytes_of(call, call->inputs[i], qn_call_in_stride(call, i));
        const char *from = call->in[i];
        for (int64_t r = begin; r < end && !qn_call_is_placed(call, i); r++)
            memcpy(to + (size_t)r * whole.step, from + (size_t)r * part.step, part.row);
        to += part.row;
    }
}

static bool concat_is_placed(const qn_call *call) {
    for (int i = 0; i < call->node->n_inputs; i++) {
        if (!qn_call_is_placed(call, i))
            return false;
    }
    return true;
}

static void concat_run(const qn_call *call) {
    const int axis = ((const qn_concat_attributes *)call->attributes)->axis;
    qn_call copy = *call;
    if (!concat_is_placed(call))
        qn_team_run(call->team, qn_shape_count_range(call->outputs[0].shape, 0, axis), concat_task,
                    &copy);
}

/* ---- slice ---- */

/* Bytes of a row of the large tensor, of the part in it, and of what lies before that; of slices,
 * from one row to the next of both. */
typedef struct slice_rows {
    const char *from;
    char *to;
    size_t large, part, before;
    size_t from_stride, to_stride;
} slice_rows;

static slice_rows slice_make_rows(const qn_call *call, qn_shape large, qn_dtype dtype) {
    const qn_slice_attributes *a = call->attributes;
    const size_t unit =
        qn_dtype_bytes(dtype) * (size_t)qn_shape_count_range(large, a->axis + 1, large.rank);
    return (slice_rows){.from = call->in[0],
                        .to = call->out[0],
                        .large = unit * (size_t)large.dims[a->axis],
                        .part = unit * (size_t)(a->end - a->begin),
                        .before = unit * (size_t)a->begin};
}

static void slice_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const slice_rows *r = context;
    for (int64_t i = begin; i < end; i++)
        memcpy(r->to + (size_t)i * r->to_stride, r->from + (size_t)i * r->from_stride + r->before,
               r->part);
}

static void slice_run(const qn_call *call) {
    const qn_slice_attributes *a = call->attributes;
    const qn_tensor x = call->inputs[0];
    slice_rows r = slice_make_rows(call, x.shape, x.dtype);
    const bool is_last = a->axis == x.shape.rank - 1;
    const size_t size = qn_dtype_bytes(x.dtype);
    r.from_stride = is_last ? size * (size_t)qn_call_in_stride(call, 0) : r.large;
    r.to_stride = is_last ? size * (size_t)qn_call_out_stride(call, 0) : r.part;
    if (!qn_call_is_placed(call, 0))
        qn_team_run(call->team, qn_shape_count_range(x.shape, 0, a->axis), slice_task, &r);
}

static void slice_backward_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const slice_rows *r = context;
    for (int64_t i = begin; i < end; i++) {
        char *row = r->to + (size_t)i * r->large;
        memset(row, 0, r->before);
        memcpy(row + r->before, r->from + (size_t)i * r->part, r->part);
        memset(row + r->before + r->part, 0, r->large - r->before - r->part);
    }
}

static void slice_backward_run(const qn_call *call) {
    const qn_slice_attributes *a = call->attributes;
    slice_rows r = slice_make_rows(call, call->outputs[0].shape, call->outputs[0].dtype);
    qn_team_run(call->team, qn_shape_count_range(call->outputs[0].shape, 0, a->axis),
                slice_backward_task, &r);
}

/* ---- join ---- */

/* A task is a row. */
static void join_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const qn_call *call = context;
    const qn_tensor x = call->inputs[0];
    const size_t row = qn_tensor_bytes(x) / (size_t)x.shape.dims[0];
    const int64_t first = ((const qn_join_attributes *)call->attributes)->first;
    memcpy((char *)call->out[0] + (size_t)(first + begin) * row,
           (const char *)call->in[0] + (size_t)begin * row, (size_t)(end - begin) * row);
}

static void join_run(const qn_call *call) {
    qn_call copy = *call;
    qn_call_goes_on(call, 1, 0);
    qn_team_run(call->team, call->inputs[0].shape.dims[0], join_task, &copy);
}

/* ---- gather ---- */

static void gather_run(const qn_call *call) {
    const qn_shape x = call->inputs[0].shape;
    call->kernels->gather(x.dims[0], x.dims[1], call->in[0], call->in[1], call->out[0]);
}

static void gather_backward_run(const qn_call *call) {
    const qn_shape dx = call->outputs[0].shape;
    call->kernels->gather_backward(dx.dims[0], dx.dims[1], call->in[0], call->in[1], call->out[0]);
}

/* ---- transpose ---- */

/* Extents and strides of the result, where axes that follow each other in x are one. */
typedef struct transpose_layout {
    int rank;
    int64_t extents[QN_MAX_RANK], strides[QN_MAX_RANK];
} transpose_layout;

static transpose_layout transpose_layout_of(const qn_shape order, qn_shape x) {
    transpose_layout l = {0};
    for (int i = 0; i < order.rank; i++) {
        const int axis = (int)order.dims[i];
        if (i > 0 && order.dims[i - 1] + 1 == axis) {
            l.extents[l.rank - 1] *= x.dims[axis];
        } else {
            l.extents[l.rank++] = x.dims[axis];
        }
        l.strides[l.rank - 1] = qn_shape_count_range(x, axis + 1, x.rank);
    }
    return l;
}

static void transpose_run(const qn_call *call) {
    const qn_transpose_attributes *a = call->attributes;
    transpose_layout l = transpose_layout_of(a->order, call->inputs[0].shape);
    if (l.rank == 1) {
        l = (transpose_layout){.rank = 2, .extents = {1, l.extents[0]}, .strides = {0, 1}};
    }
    call->kernels->transpose(call->team, l.rank, l.extents, l.strides, call->in[0], call->out[0]);
}

/* ---- embedding ---- */

static void embedding_run(const qn_call *call) {
    const qn_shape table = call->inputs[0].shape;
    call->kernels->embedding(call->team, qn_shape_count(call->inputs[1].shape), table.dims[1],
                             table.dims[0], call->in[0], call->in[1], call->out[0]);
}

static void embedding_backward_run(const qn_call *call) {
    const qn_shape table = call->outputs[0].shape;
    call->kernels->embedding_backward(call->team, qn_shape_count(call->inputs[1].shape),
                                      table.dims[1], table.dims[0], call->in[0], call->in[1],
                                      qn_call_goes_on(call, 2, 0), call->out[0]);
}

/* Row by row. */
static int64_t embedding_backward_chunk(const qn_kernels *kernels, const void *attributes,
                                        const qn_tensor *inputs) {
    (void)kernels;
    (void)attributes;
    (void)inputs;
    return 1;
}

/* ---- indices ---- */

static void wrap_index_run(const qn_call *call) {
    const int64_t n = ((const qn_wrap_attributes *)call->attributes)->n;
    const bool is_wide = call->inputs[0].dtype == QN_I64;
    int32_t *to = call->out[0];
    for (int64_t i = 0; i < qn_call_count(call); i++) {
        const int64_t given =
            is_wide ? ((const int64_t *)call->in[0])[i] : ((const int32_t *)call->in[0])[i];
        const int64_t index = given < 0 ? given + n : given;
        to[i] = index >= 0 && index < n ? (int32_t)index : QN_NO_INDEX;
    }
}

static void row_numbers_run(const qn_call *call) {
    const qn_row_attributes *a = call->attributes;
    const int k = a->extents.rank;
    const int32_t *indices = call->in[0], *base = call->node->n_inputs > 1 ? call->in[1] : NULL;
    int32_t *to = call->out[0];
    for (int64_t i = 0; i < qn_call_count(call); i++) {
        int64_t row = 0;
        bool is_inside = true;
        for (int j = 0; j < k; j++) {
            const int64_t n = a->extents.dims[j], given = indices[i * k + j];
            const int64_t index = given < 0 ? given + n : given;
            is_inside = is_inside && index >= 0 && index < n;
            row = row * n + (is_inside ? index : 0);
        }
        row = row * a->stride + (base ? base[i] : 0);
        to[i] = is_inside ? (int32_t)row : QN_NO_INDEX;
    }
}

static int64_t clamped(int32_t index, int64_t rows) {
    return index < 0 ? 0 : index < rows ? index : rows - 1;
}

static bool has_no_index(const int32_t *indices, int64_t n) {
    bool has = false;
    for (int64_t i = 0; i < n; i++)
        has = has || indices[i] == QN_NO_INDEX;
    return has;
}

static void scatter_add_run(const qn_call *call) {
    const qn_shape y = call->outputs[0].shape;
    const int64_t n = call->inputs[0].shape.dims[0];
    call->kernels->embedding_backward(call->team, n, y.dims[1], y.dims[0], call->in[0], call->in[1],
                                      false, call->out[0]);
    if (!has_no_index(call->in[1], n))
        return;
    for (int64_t i = 0; i < y.dims[1]; i++) {
        if (call->outputs[0].dtype == QN_F64)
            ((double *)call->out[0])[i] = NAN;
        else
            ((float *)call->out[0])[i] = NAN;
    }
}

/* Counts the updates of a row in its place, as -1 - count, until the nth is found. */
static void scatter_source_run(const qn_call *call) {
    const qn_scatter_attributes *a = call->attributes;
    const int64_t n = call->inputs[0].shape.dims[0], rows = a->rows;
    const int32_t *indices = call->in[0];
    int32_t *from = call->out[0];
    for (int64_t r = 0; r < rows; r++)
        from[r] = -1;
    for (int64_t i = 0; i < n; i++) {
        int32_t *place = &from[clamped(indices[i], rows)];
        if (indices[i] == QN_NO_INDEX)
            continue;
        if (a->nth < 0 || *place == -1 - a->nth)
            *place = (int32_t)(rows + i);
        else if (*place < 0)
            --*place;
    }
    for (int64_t r = 0; r < rows; r++)
        from[r] = from[r] < 0 ? (int32_t)r : from[r];
    if (has_no_index(indices, n))
        from[0] = QN_NO_INDEX;
}

/* ---- parts ---- */

/* Elements along an axis, as rows of the axes before it. */
typedef struct part_rows {
    const qn_call *call;
    int64_t n, extent; /* channels of the part, and of the whole */
    size_t unit;       /* bytes of a channel in a row */
} part_rows;

static part_rows part_make_rows(const qn_call *call, qn_tensor whole, int64_t n) {
    const int axis = ((const qn_take_attributes *)call->attributes)->axis;
    const qn_shape s = whole.shape;
    return (part_rows){.call = call,
                       .n = n,
                       .extent = s.dims[axis],
                       .unit = qn_dtype_bytes(whole.dtype) *
                               (size_t)qn_shape_count_range(s, axis + 1, s.rank)};
}

static size_t part_place(const part_rows *p, int64_t row, const int32_t *channels, int64_t i) {
    return (size_t)(row * p->extent + channels[i] - 1) * p->unit;
}

static void take_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const part_rows *p = context;
    const char *from = p->call->in[0];
    const int32_t *channels = p->call->in[1];
    char *to = (char *)p->call->out[0] + (size_t)(begin * p->n) * p->unit;
    for (int64_t row = begin; row < end; row++) {
        for (int64_t i = 0; i < p->n; i++, to += p->unit) {
            const char *place = from + part_place(p, row, channels, i);
            if (p->unit == sizeof(float)) /* of a length that the compiler knows */
                memcpy(to, place, sizeof(float));
            else
                memcpy(to, place, p->unit);
        }
    }
}

static void take_run(const qn_call *call) {
    const int axis = ((const qn_take_attributes *)call->attributes)->axis;
    part_rows p = part_make_rows(call, call->inputs[0], call->inputs[1].shape.dims[0]);
    qn_team_run(call->team, qn_shape_count_range(call->inputs[0].shape, 0, axis), take_task, &p);
}

static void put_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const part_rows *p = context;
    const int32_t *channels = p->call->in[1];
    char *to = p->call->out[0];
    const char *from = (const char *)p->call->in[0] + (size_t)(begin * p->n) * p->unit;
    for (int64_t row = begin; row < end; row++) {
        for (int64_t i = 0; i < p->n; i++, from += p->unit)
            memcpy(to + part_place(p, row, channels, i), from, p->unit);
    }
}

static void put_run(const qn_call *call) {
    const int axis = ((const qn_take_attributes *)call->attributes)->axis;
    part_rows p = part_make_rows(call, call->outputs[0], call->inputs[1].shape.dims[0]);
    qn_team_run(call->team, qn_shape_count_range(call->outputs[0].shape, 0, axis), put_task, &p);
}

static int compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Twice one for each channel. */
static size_t choose_workspace(const qn_kernels *kernels, const void *attributes,
                               const qn_tensor *inputs, const qn_tensor *outputs, int n_threads) {
    (void)kernels;
    (void)outputs;
    (void)n_threads;
    const int axis = ((const qn_choose_attributes *)attributes)->axis;
    return 2 * sizeof(double) * (size_t)inputs[0].shape.dims[axis];
}

/* How much a channel counts, the least first: by its sum of squares, where a NaN counts as 0. */
static void choose_weigh(const qn_call *call, double *counts) {
    const qn_choose_attributes *a = call->attributes;
    const qn_shape s = call->inputs[0].shape;
    const int64_t n = s.dims[a->axis], inner = qn_shape_count_range(s, a->axis + 1, s.rank);
    for (int64_t c = 0; c < n; c++)
        counts[c] = a->by == QN_PART_FIRST ? (double)c : 0;
    for (int64_t i = 0; i < qn_shape_count(s) && a->by != QN_PART_FIRST; i++) {
        const double w = qn_number_get(call->inputs[0].dtype, call->in[0], i);
        if (w == w)
            counts[i / inner % n] += a->by == QN_PART_LARGEST ? -w * w : w * w;
    }
}

static void choose_run(const qn_call *call) {
    const int64_t n = call->inputs[1].shape.dims[0];
    const int64_t all =
        call->inputs[0].shape.dims[((const qn_choose_attributes *)call->attributes)->axis];
    int32_t *channels = call->out[0];
    double *counts = call->workspace, *sorted = counts + all;
    bool is_chosen = true;
    for (int64_t i = 0; i < n; i++)
        is_chosen &= channels[i] > (i > 0 ? channels[i - 1] : 0) && channels[i] <= all;
    if (is_chosen)
        return;
    choose_weigh(call, counts);
    memcpy(sorted, counts, (size_t)all * sizeof *sorted);
    qsort(sorted, (size_t)all, sizeof *sorted, compare_doubles);
    int64_t n_equal = n; /* of those that count as the last one does, the first ones are taken */
    for (int64_t c = 0; c < all; c++)
        n_equal -= counts[c] < sorted[n - 1];
    for (int64_t c = 0, made = 0; c < all; c++) {
        if (counts[c] < sorted[n - 1] || (counts[c] == sorted[n - 1] && n_equal-- > 0))
            channels[made++] = (int32_t)c + 1;
    }
}

/* ---- copy ---- */

static void copy_run(const qn_call *call) {
    memcpy(call->out[0], call->in[0], qn_tensor_bytes(call->outputs[0]));
}

const qn_cpu_operator qn_cpu_layout[] = {
    {&qn_op_concat, .types = QN_TYPES_ANY, .run = concat_run},
    {&qn_op_slice, .types = QN_TYPES_ANY, .run = slice_run},
    {&qn_op_slice_backward, .run = slice_backward_run},
    {&qn_op_join, .types = QN_TYPES_ANY, .run = join_run},
    {&qn_op_gather, .run = gather_run},
    {&qn_op_gather_backward, .run = gather_backward_run},
    {&qn_op_transpose, .run = transpose_run},
    {&qn_op_embedding, .run = embedding_run},
    {&qn_op_embedding_backward, .run = embedding_backward_run, .chunk = embedding_backward_chunk},
    {&qn_op_wrap, .types = QN_TYPES_ANY, .run = wrap_index_run},
    {&qn_op_row_number, .run = row_numbers_run},
    {&qn_op_scatter_sum, .run = scatter_add_run},
    {&qn_op_scatter_place, .run = scatter_source_run},
    {&qn_op_choose_channels, .run = choose_run, .workspace = choose_workspace},
    {&qn_op_take_channels, .types = QN_TYPES_ANY, .run = take_run},
    {&qn_op_put_channels, .types = QN_TYPES_ANY, .run = put_run},
    {&qn_op_copy_value, .types = QN_TYPES_ANY, .run = copy_run},
    {0},
};
