/* See rows.h. */
#include "onnx/operators/rows.h"

#include "base/status.h"
#include "onnx/builder.h"
#include "onnx/fold.h"
#include "onnx/integers.h"

#include <string.h>

/* ---- values ---- */

qn_value qn_onnx_listed(qn_onnx_call *call, const int64_t *numbers, int64_t n) {
    const char *name = qn_onnx_side_name(call, "rows");
    qn_onnx_constant c = {.type = QN_ONNX_INT64, .shape = QN_SHAPE(n), .n = n, .whole = numbers};
    qn_onnx_item item = {.name = name,
                         .type = QN_ONNX_INT64,
                         .value = QN_NO_VALUE,
                         .other = QN_NO_VALUE,
                         .row = QN_NO_VALUE,
                         .constant = &c};
    return name ? qn_onnx_item_value(call->builder, &item) : QN_NO_VALUE;
}

qn_value qn_onnx_rows_value(qn_onnx_call *call, const qn_onnx_rows *rows) {
    return rows->known ? qn_onnx_listed(call, rows->known, rows->n) : rows->changing;
}

/* Indices that change as QN_I32, (n, k). */
static qn_value changing_indices(qn_onnx_call *call, int64_t n, int64_t k) {
    qn_graph *g = call->graph;
    qn_value indices = qn_onnx_plain(call, 1);
    indices = qn_onnx_as_index(call, indices);
    return qn_reshape(g, qn_onnx_side_name(call, "tuples"), indices, QN_SHAPE(n, k));
}

/* ---- indices that are known ---- */

static const qn_onnx_constant *known_indices(qn_onnx_call *call) {
    const qn_onnx_constant *c = qn_onnx_is_known(call, 1) ? qn_onnx_constant_of(call, 1) : NULL;
    return c && c->whole ? c : NULL;
}

/* An index of n counted from the front. */
static qn_status count_from_front(int64_t *index, int64_t n) {
    const int64_t given = *index;
    *index += given < 0 ? n : 0;
    return *index >= 0 && *index < n
               ? QN_OK
               : qn_fail(QN_ERROR_FORMAT, "index %lld is none of an axis of %lld", (long long)given,
                         (long long)n);
}

/* ---- elements ---- */

/* Coordinates of element i of a shape, along one axis. */
static int64_t coordinate(qn_shape shape, int64_t i, int axis) {
    return i / qn_shape_count_range(shape, axis + 1, shape.rank) % shape.dims[axis];
}

/* Where element i of the indices is in the data: as there, but along the axis, where it is 0. */
static int64_t base_of(qn_shape indices, qn_shape data, int64_t i, int axis) {
    int64_t at = 0;
    for (int k = 0; k < data.rank; k++)
        at = at * data.dims[k] + (k == axis ? 0 : coordinate(indices, i, k));
    return at;
}

static qn_status check_elements(qn_shape data, qn_shape indices, int axis) {
    if (data.rank != indices.rank)
        return qn_fail(QN_ERROR_FORMAT, "its indices have %d axes, its data %d", indices.rank,
                       data.rank);
    for (int i = 0; i < data.rank; i++) {
        if (i != axis && indices.dims[i] > data.dims[i])
            return qn_fail(QN_ERROR_FORMAT, "its indices reach beyond axis %d of the data", i);
    }
    return QN_OK;
}

qn_status qn_onnx_element_rows(qn_onnx_call *call, int axis, qn_onnx_rows *rows) {
    const qn_shape data = qn_onnx_shape(call, 0), shape = qn_onnx_shape(call, 1);
    const int64_t extent = data.dims[axis];
    const int64_t stride = qn_shape_count_range(data, axis + 1, data.rank);
    const qn_onnx_constant *indices = known_indices(call);
    QN_TRY(check_elements(data, shape, axis));
    *rows = (qn_onnx_rows){qn_shape_count(data), 1, qn_shape_count(shape), NULL, QN_NO_VALUE};
    QN_TRY(qn_onnx_check_made(rows->n));
    int64_t *numbers = qn_onnx_scratch(call, ((size_t)rows->n + 1) * sizeof *numbers);
    if (!numbers)
        return QN_ERROR_MEMORY;
    for (int64_t i = 0; i < rows->n; i++) {
        int64_t index = indices ? indices->whole[i] : 0;
        QN_TRY(count_from_front(&index, extent));
        numbers[i] = base_of(shape, data, i, axis) + index * stride;
    }
    if (indices) {
        rows->known = numbers;
        return QN_OK;
    }
    rows->changing = qn_op_row_numbers(
        call->graph, qn_onnx_side_name(call, "numbers"), changing_indices(call, rows->n, 1),
        qn_onnx_listed(call, numbers, rows->n), QN_SHAPE(extent), stride);
    return call->graph->status;
}

/* ---- tuples ---- */

/* What is named: n tuples of k indices for each of so many samples, in extents of the data. */
typedef struct tuples {
    int64_t n_samples, n, rows; /* n: of all samples together; rows: of one */
    int k;
    qn_shape extents;
} tuples;

static qn_status read_tuples(qn_onnx_call *call, int64_t batch_dims, tuples *t, qn_shape *picked) {
    const qn_shape data = qn_onnx_shape(call, 0), indices = qn_onnx_shape(call, 1);
    const int rank = indices.rank;
    const bool fits = rank >= 1 && batch_dims >= 0 && batch_dims < rank && batch_dims < data.rank;
    const int64_t k = fits ? indices.dims[rank - 1] : 0;
    if (!fits || k < 1 || batch_dims + k > data.rank)
        return qn_fail(QN_ERROR_FORMAT, "its indices are no tuples of axes of its data");
    const int batch = (int)batch_dims, first_whole = batch + (int)k;
    *t = (tuples){.n_samples = qn_shape_count_range(indices, 0, batch),
                  .n = qn_shape_count_range(indices, 0, rank - 1),
                  .rows = qn_shape_count_range(data, batch, first_whole),
                  .k = (int)k,
                  .extents = {.rank = (int)k}};
    for (int i = 0; i < batch; i++) {
        if (indices.dims[i] != data.dims[i])
            return qn_fail(QN_ERROR_FORMAT, "axis %d of its indices is none of its data's", i);
    }
    memcpy(t->extents.dims, data.dims + batch, (size_t)k * sizeof *data.dims);
    if (rank - 1 + data.rank - first_whole > QN_MAX_RANK)
        return qn_fail(QN_ERROR_UNSUPPORTED, "its result has %d axes, where %d are the most here",
                       rank - 1 + data.rank - first_whole, QN_MAX_RANK);
    *picked = indices;
    picked->rank--;
    for (int i = first_whole; i < data.rank; i++)
        picked->dims[picked->rank++] = data.dims[i];
    return QN_OK;
}

/* Where the rows of the sample of each tuple begin; null where all begin at 0, or memory is out. */
static int64_t *bases_of(qn_onnx_call *call, const tuples *t) {
    if (t->n_samples == 1)
        return NULL;
    int64_t *bases = qn_onnx_scratch(call, ((size_t)t->n + 1) * sizeof *bases);
    for (int64_t i = 0; bases && i < t->n; i++)
        bases[i] = i / (t->n / t->n_samples) * t->rows;
    return bases;
}

static qn_status known_tuples(qn_onnx_call *call, const tuples *t, const int64_t *bases,
                              const qn_onnx_constant *indices, const int64_t **known) {
    int64_t *rows = qn_onnx_scratch(call, ((size_t)t->n + 1) * sizeof *rows);
    if (!rows)
        return QN_ERROR_MEMORY;
    for (int64_t i = 0; i < t->n; i++) {
        int64_t row = 0;
        for (int j = 0; j < t->k; j++) {
            int64_t index = indices->whole[i * t->k + j];
            QN_TRY(count_from_front(&index, t->extents.dims[j]));
            row = row * t->extents.dims[j] + index;
        }
        rows[i] = row + (bases ? bases[i] : 0);
    }
    *known = rows;
    return QN_OK;
}

qn_status qn_onnx_tuple_rows(qn_onnx_call *call, int64_t batch_dims, qn_onnx_rows *rows,
                             qn_shape *picked) {
    const qn_onnx_constant *indices = known_indices(call);
    const qn_shape data = qn_onnx_shape(call, 0);
    tuples t;
    QN_TRY(read_tuples(call, batch_dims, &t, picked));
    QN_TRY(qn_onnx_check_made(t.n));
    const int64_t all = t.n_samples * t.rows;
    *rows = (qn_onnx_rows){all, all > 0 ? qn_shape_count(data) / all : 0, t.n, NULL, QN_NO_VALUE};
    const int64_t *bases = bases_of(call, &t);
    QN_TRY(call->graph->status);
    if (indices)
        return known_tuples(call, &t, bases, indices, &rows->known);
    rows->changing = qn_op_row_numbers(
        call->graph, qn_onnx_side_name(call, "numbers"), changing_indices(call, t.n, t.k),
        bases ? qn_onnx_listed(call, bases, t.n) : QN_NO_VALUE, t.extents, 1);
    return call->graph->status;
}
