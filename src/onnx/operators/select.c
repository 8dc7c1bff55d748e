/* Elements and rows picked and put by lists of indices. Whatever an operator calls it, a picked row
 * is a row of an embedding; what is put is a row of data and updates beside one another. Indices
 * below 0 count from the end. Where rows are put must be known at import; where rows are picked may
 * change while it runs. */
#include "base/status.h"
#include "onnx/axes.h"
#include "onnx/builder.h"
#include "onnx/fold.h"

#include <math.h>
#include <string.h>

/* Element numbers that a float tells apart. */
static const int64_t MOST_EXACT = 1 << 24;

/* ---- numbers of rows ---- */

/* A list that is known at import, as a value. */
static qn_value listed(qn_onnx_call *call, const int64_t *numbers, int64_t n) {
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

/* An index of n counted from the front; false: there is none such. */
static bool count_from_front(int64_t *index, int64_t n) {
    *index += *index < 0 ? n : 0;
    return *index >= 0 && *index < n;
}

static qn_status no_index(int64_t index, int64_t n) {
    return qn_fail(QN_ERROR_FORMAT, "index %lld is none of an axis of %lld", (long long)index,
                   (long long)n);
}

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

/* Of element by element indices: numbers of elements of the data, or null after a failure. */
static int64_t *element_numbers(qn_onnx_call *call, qn_shape data, int axis,
                                const qn_onnx_constant *indices) {
    const int64_t stride = qn_shape_count_range(data, axis + 1, data.rank);
    const qn_shape shape = qn_onnx_shape(call, 1);
    const int64_t n = qn_shape_count(shape);
    int64_t *numbers = qn_onnx_scratch(call, ((size_t)n + 1) * sizeof *numbers);
    for (int64_t i = 0; numbers && i < n; i++) {
        int64_t index = indices ? indices->whole[i] : 0;
        if (!count_from_front(&index, data.dims[axis])) {
            qn_graph_fail(call->graph, QN_ERROR_FORMAT, "%s: index %lld is none of an axis of %lld",
                          call->name, (long long)indices->whole[i], (long long)data.dims[axis]);
            return NULL;
        }
        numbers[i] = base_of(shape, data, i, axis) + index * stride;
    }
    return numbers;
}

/* Whole numbers (...) of n each times a stride, as reals. */
static qn_value times_stride(qn_onnx_call *call, qn_value indices, int64_t n, int64_t stride) {
    qn_graph *g = call->graph;
    if (indices.id >= 0 && qn_graph_tensor(g, indices).dtype != QN_I32)
        indices = qn_op_cast(g, qn_onnx_side_name(call, "whole"), indices, QN_I32);
    indices = qn_op_wrap_index(g, qn_onnx_side_name(call, "front"), indices, n);
    indices = qn_op_cast(g, qn_onnx_side_name(call, "reals"), indices, g->real);
    return qn_scale(g, qn_onnx_side_name(call, "stride"), indices, (double)stride);
}

/* Reals as numbers of rows, of which there are n. */
static qn_value row_numbers(qn_onnx_call *call, qn_value reals, int64_t n) {
    qn_graph *g = call->graph;
    if (n > MOST_EXACT) {
        qn_graph_fail(g, QN_ERROR_UNSUPPORTED,
                      "%s: it picks among %lld elements by indices that are known only when it "
                      "runs, and %lld are the most",
                      call->name, (long long)n, (long long)MOST_EXACT);
        return QN_NO_VALUE;
    }
    reals = qn_op_cast(g, qn_onnx_side_name(call, "rows"), reals, QN_I32);
    return qn_op_wrap_index(g, qn_onnx_side_name(call, "known"), reals, n);
}

/* ---- picking ---- */

/* Rows of input 0 as (n, width) in a shape. */
static qn_status give_rows(qn_onnx_call *call, int64_t n, int64_t width, qn_value numbers,
                           qn_shape shape) {
    qn_graph *g = call->graph;
    const qn_onnx_type type = qn_onnx_type_at(call, 0);
    const qn_value x = qn_onnx_as_reals(call, qn_onnx_plain(call, 0));
    const qn_value table = qn_reshape(g, qn_onnx_side_name(call, "table"), x, QN_SHAPE(n, width));
    qn_value y = qn_embedding(g, qn_onnx_side_name(call, "picked"), table, numbers);
    y = qn_reshape(g, call->name, y, shape);
    qn_onnx_give_as(call, y, false, type);
    return g->status;
}

/* The same of a constant. */
static qn_status fold_rows(qn_onnx_call *call, int64_t width, const int64_t *rows, int64_t n_rows,
                           qn_shape shape) {
    const qn_onnx_constant *x = qn_onnx_constant_of(call, 0);
    int64_t *whole = qn_onnx_scratch(call, ((size_t)(n_rows * width) + 1) * sizeof *whole);
    double *reals = (double *)(void *)whole;
    if (!x || !whole)
        return qn_onnx_give_constant(call, NULL);
    for (int64_t i = 0; i < n_rows * width; i++) {
        const int64_t from = rows[i / width] * width + i % width;
        if (x->reals)
            reals[i] = x->reals[from];
        else
            whole[i] = x->whole[from];
    }
    return x->reals ? qn_onnx_give_reals(call, 0, shape, reals)
                    : qn_onnx_give_whole(call, 0, x->type, shape, whole);
}

static const qn_onnx_constant *known_indices(qn_onnx_call *call) {
    const qn_onnx_constant *c = qn_onnx_is_known(call, 1) ? qn_onnx_constant_of(call, 1) : NULL;
    return c && c->whole ? c : NULL;
}

static qn_status build_gather_elements(qn_onnx_call *call) {
    const qn_shape data = qn_onnx_shape(call, 0), shape = qn_onnx_shape(call, 1);
    const qn_onnx_constant *indices = known_indices(call);
    const int64_t n = qn_shape_count(data);
    qn_graph *g = call->graph;
    int axis;
    QN_TRY(qn_onnx_axis(qn_onnx_int(call, "axis", 0), data.rank, &axis));
    if (data.rank != shape.rank)
        return qn_fail(QN_ERROR_FORMAT, "its indices have %d axes, its data %d", shape.rank,
                       data.rank);
    for (int i = 0; i < data.rank; i++) {
        if (i != axis && shape.dims[i] > data.dims[i])
            return qn_fail(QN_ERROR_FORMAT, "its indices reach beyond axis %d of the data", i);
    }
    int64_t *numbers = element_numbers(call, data, axis, indices);
    if (!numbers)
        return g->status;
    const int64_t picked = qn_shape_count(shape);
    if (indices && qn_onnx_is_known(call, 0))
        return fold_rows(call, 1, numbers, picked, shape);
    if (indices)
        return give_rows(call, n, 1, listed(call, numbers, picked), shape);
    double *bases = qn_onnx_scratch(call, ((size_t)picked + 1) * sizeof *bases);
    for (int64_t i = 0; bases && i < picked; i++)
        bases[i] = (double)numbers[i];
    const qn_onnx_constant base = {
        .type = QN_ONNX_FLOAT, .shape = shape, .n = picked, .reals = bases};
    qn_onnx_item item = {.name = qn_onnx_side_name(call, "bases"),
                         .type = QN_ONNX_FLOAT,
                         .value = QN_NO_VALUE,
                         .other = QN_NO_VALUE,
                         .row = QN_NO_VALUE,
                         .constant = &base};
    if (!bases || !item.name)
        return QN_ERROR_MEMORY;
    qn_value at = times_stride(call, qn_onnx_plain(call, 1), data.dims[axis],
                               qn_shape_count_range(data, axis + 1, data.rank));
    at = qn_op_combine(g, qn_onnx_side_name(call, "at"), QN_COMBINE_ADD, at,
                       qn_onnx_item_value(call->builder, &item));
    return give_rows(call, n, 1, row_numbers(call, at, n), shape);
}

/* Indices (..., k) of rows of data, whose first k axes they are of. */
typedef struct tuples {
    qn_shape data, indices;
    int k;
    int64_t n, rows, width; /* tuples; rows of the data, and what is in one */
} tuples;

static qn_status read_tuples(qn_onnx_call *call, tuples *t) {
    *t = (tuples){.data = qn_onnx_shape(call, 0), .indices = qn_onnx_shape(call, 1)};
    const int rank = t->indices.rank;
    if (rank < 1 || t->indices.dims[rank - 1] < 1 || t->indices.dims[rank - 1] > t->data.rank)
        return qn_fail(QN_ERROR_FORMAT, "its indices are no tuples of axes of its data");
    t->k = (int)t->indices.dims[rank - 1];
    t->n = qn_shape_count_range(t->indices, 0, rank - 1);
    t->rows = qn_shape_count_range(t->data, 0, t->k);
    t->width = qn_shape_count_range(t->data, t->k, t->data.rank);
    return QN_OK;
}

/* Rows that tuples known at import stand for. */
static qn_status tuple_rows(qn_onnx_call *call, const tuples *t, const qn_onnx_constant *indices,
                            int64_t **rows) {
    *rows = qn_onnx_scratch(call, ((size_t)t->n + 1) * sizeof **rows);
    if (!*rows)
        return QN_ERROR_MEMORY;
    for (int64_t i = 0; i < t->n; i++) {
        (*rows)[i] = 0;
        for (int j = 0; j < t->k; j++) {
            int64_t index = indices->whole[i * t->k + j];
            if (!count_from_front(&index, t->data.dims[j]))
                return no_index(index, t->data.dims[j]);
            (*rows)[i] = (*rows)[i] * t->data.dims[j] + index;
        }
    }
    return QN_OK;
}

/* The same of tuples that change. */
static qn_value changing_rows(qn_onnx_call *call, const tuples *t) {
    qn_graph *g = call->graph;
    const qn_value all =
        qn_reshape(g, qn_onnx_side_name(call, "tuples"),
                   qn_onnx_as_reals(call, qn_onnx_plain(call, 1)), QN_SHAPE(t->n, t->k));
    qn_value sum = QN_NO_VALUE;
    for (int j = 0; j < t->k; j++) {
        const qn_value one = qn_slice(g, qn_onnx_side_name(call, "index"), all, 1, j, j + 1);
        const qn_value part =
            times_stride(call, one, t->data.dims[j], qn_shape_count_range(t->data, j + 1, t->k));
        sum = j == 0 ? part : qn_add(g, qn_onnx_side_name(call, "sum"), sum, part);
    }
    sum = qn_reshape(g, qn_onnx_side_name(call, "numbers"), sum, QN_SHAPE(t->n));
    return row_numbers(call, sum, t->rows);
}

static qn_status build_gather_nd(qn_onnx_call *call) {
    const qn_onnx_constant *indices = known_indices(call);
    tuples t;
    int64_t *rows;
    if (qn_onnx_int(call, "batch_dims", 0) != 0)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "it picks along batch_dims; write it with Gather or GatherElements");
    QN_TRY(read_tuples(call, &t));
    qn_shape y = t.indices;
    y.rank--;
    if (y.rank + t.data.rank - t.k > QN_MAX_RANK)
        return qn_fail(QN_ERROR_UNSUPPORTED, "its result has %d axes, where %d are the most here",
                       y.rank + t.data.rank - t.k, QN_MAX_RANK);
    for (int i = t.k; i < t.data.rank; i++)
        y.dims[y.rank++] = t.data.dims[i];
    if (!indices)
        return give_rows(call, t.rows, t.width, changing_rows(call, &t), y);
    QN_TRY(tuple_rows(call, &t, indices, &rows));
    return qn_onnx_is_known(call, 0) ? fold_rows(call, t.width, rows, t.n, y)
                                     : give_rows(call, t.rows, t.width, listed(call, rows, t.n), y);
}

/* ---- putting ---- */

/* Updates (n, width) that are put into data (rows, width), each at a row. */
typedef struct scatter {
    int64_t rows, width, n;
    const int64_t *targets;
    enum { PUT, PUT_SUM, PUT_PRODUCT, PUT_LEAST, PUT_MOST } how;
} scatter;

static qn_status read_reduction(const qn_onnx_call *call, scatter *s) {
    static const char *const names[] = {"none", "add", "mul", "min", "max"};
    const char *name = qn_onnx_text(call, "reduction", "none");
    for (int i = 0; i < 5; i++) {
        s->how = i;
        if (strcmp(name, names[i]) == 0)
            return QN_OK;
    }
    return qn_fail(QN_ERROR_FORMAT, "there is no reduction %s", name);
}

static double put(const scatter *s, double old, double new) {
    return s->how == PUT           ? new
           : s->how == PUT_SUM     ? old + new
           : s->how == PUT_PRODUCT ? old *new
           : s->how == PUT_LEAST   ? fmin(old, new)
                                   : fmax(old, new);
}

static qn_status fold_scatter(qn_onnx_call *call, const scatter *s) {
    const qn_onnx_constant *x = qn_onnx_constant_of(call, 0), *u = qn_onnx_constant_of(call, 2);
    const double *data = x ? qn_onnx_numbers(call, x) : NULL;
    const double *updates = u ? qn_onnx_numbers(call, u) : NULL;
    double *y = x ? qn_onnx_scratch(call, ((size_t)x->n + 1) * sizeof *y) : NULL;
    if (!data || !updates || !y)
        return qn_onnx_give_constant(call, NULL);
    memcpy(y, data, (size_t)x->n * sizeof *y);
    for (int64_t i = 0; i < s->n * s->width; i++) {
        double *to = &y[s->targets[i / s->width] * s->width + i % s->width];
        *to = put(s, *to, updates[i]);
    }
    return qn_onnx_give_constant(call, qn_onnx_make_constant(call, x->type, x->shape, y));
}

/* Of each row where it comes from: itself, or, as rows + its number, the next update that is put
 * there and is not done. *is_last: no update is left. */
static int64_t *next_updates(qn_onnx_call *call, const scatter *s, bool *done, bool *is_last) {
    int64_t *from = qn_onnx_scratch(call, ((size_t)s->rows + 1) * sizeof *from);
    *is_last = true;
    for (int64_t r = 0; from && r < s->rows; r++)
        from[r] = r;
    for (int64_t i = 0; from && i < s->n; i++) {
        const int64_t r = s->targets[i];
        if (done[i])
            continue;
        if (s->how != PUT && from[r] != r) {
            *is_last = false;
            continue;
        }
        from[r] = s->rows + i;
        done[i] = true;
    }
    return from;
}

/* y with the updates of a round: where none is put, data are combined with what changes nothing. */
static qn_value put_round(qn_onnx_call *call, const scatter *s, qn_value y, qn_value updates,
                          int64_t *from) {
    static const qn_combination kinds[] = {QN_COMBINE_ADD, QN_COMBINE_ADD, QN_COMBINE_MULTIPLY,
                                           QN_COMBINE_LEAST, QN_COMBINE_MOST};
    qn_graph *g = call->graph;
    qn_value rest = y;
    if (s->how == PUT_SUM || s->how == PUT_PRODUCT) {
        rest = qn_op_broadcast(
            g, qn_onnx_side_name(call, "rest"),
            qn_op_scalar(g, qn_onnx_side_name(call, "neutral"), s->how == PUT_PRODUCT),
            QN_SHAPE(1, s->width), 1);
        for (int64_t r = 0; r < s->rows; r++)
            from[r] = from[r] < s->rows ? 0 : from[r] - s->rows + 1;
    }
    const qn_value both =
        qn_concat(g, qn_onnx_side_name(call, "both"), (qn_value[]){rest, updates}, 2, 0);
    const qn_value put =
        qn_embedding(g, qn_onnx_side_name(call, "put"), both, listed(call, from, s->rows));
    return s->how == PUT ? put
                         : qn_op_combine(g, qn_onnx_side_name(call, "with"), kinds[s->how], y, put);
}

static qn_status give_scatter(qn_onnx_call *call, const scatter *s) {
    enum { MOST_ROUNDS = 64 };
    const qn_onnx_type type = qn_onnx_type_at(call, 0);
    const qn_shape shape = qn_onnx_shape(call, 0);
    qn_graph *g = call->graph;
    bool is_last = false;
    if (qn_onnx_is_known(call, 0) && qn_onnx_is_known(call, 2))
        return fold_scatter(call, s);
    bool *done = qn_onnx_scratch(call, (size_t)s->n + 1);
    if (!done)
        return QN_ERROR_MEMORY;
    memset(done, 0, (size_t)s->n + 1);
    qn_value y =
        qn_reshape(g, qn_onnx_side_name(call, "data"),
                   qn_onnx_as_reals(call, qn_onnx_plain(call, 0)), QN_SHAPE(s->rows, s->width));
    const qn_value updates =
        qn_reshape(g, qn_onnx_side_name(call, "updates"),
                   qn_onnx_as_reals(call, qn_onnx_plain(call, 2)), QN_SHAPE(s->n, s->width));
    for (int round = 0; !is_last && g->status == QN_OK; round++) {
        int64_t *from = next_updates(call, s, done, &is_last);
        if (round == MOST_ROUNDS)
            return qn_fail(QN_ERROR_UNSUPPORTED, "it puts more than %d updates into one row",
                           MOST_ROUNDS);
        if (!from)
            return QN_ERROR_MEMORY;
        y = put_round(call, s, y, updates, from);
    }
    qn_onnx_give_as(call, qn_reshape(g, call->name, y, shape), false, type);
    return g->status;
}

static const char *const changing =
    "where it puts its updates is known only when it runs: export with constant indices";

static qn_status build_scatter_nd(qn_onnx_call *call) {
    const qn_onnx_constant *indices = known_indices(call);
    int64_t *targets;
    tuples t;
    scatter s;
    QN_TRY(read_tuples(call, &t));
    QN_TRY(read_reduction(call, &s));
    if (!indices)
        return qn_fail(QN_ERROR_UNSUPPORTED, "%s", changing);
    QN_TRY(tuple_rows(call, &t, indices, &targets));
    s.rows = t.rows;
    s.width = t.width;
    s.n = t.n;
    s.targets = targets;
    if (qn_shape_count(qn_onnx_shape(call, 2)) != s.n * s.width)
        return qn_fail(QN_ERROR_FORMAT, "its updates are not as many as its indices");
    return give_scatter(call, &s);
}

static qn_status build_scatter_elements(qn_onnx_call *call) {
    const qn_shape data = qn_onnx_shape(call, 0), shape = qn_onnx_shape(call, 1);
    const qn_onnx_constant *indices = known_indices(call);
    scatter s;
    int axis;
    QN_TRY(qn_onnx_axis(qn_onnx_int(call, "axis", 0), data.rank, &axis));
    QN_TRY(read_reduction(call, &s));
    if (!indices)
        return qn_fail(QN_ERROR_UNSUPPORTED, "%s", changing);
    for (int i = 0; i < data.rank; i++) {
        if (shape.rank != data.rank || (i != axis && shape.dims[i] > data.dims[i]))
            return qn_fail(QN_ERROR_FORMAT, "its indices reach beyond its data");
    }
    s.targets = element_numbers(call, data, axis, indices);
    s.rows = qn_shape_count(data);
    s.width = 1;
    s.n = qn_shape_count(shape);
    if (!s.targets)
        return call->graph->status;
    if (qn_shape_count(qn_onnx_shape(call, 2)) != s.n)
        return qn_fail(QN_ERROR_FORMAT, "its updates are not as many as its indices");
    return give_scatter(call, &s);
}

const qn_onnx_translator qn_onnx_select_translators[] = {
    {"GatherElements", 2, 2, build_gather_elements},
    {"GatherND", 2, 2, build_gather_nd},
    {"ScatterND", 3, 3, build_scatter_nd},
    {"ScatterElements", 3, 3, build_scatter_elements},
    {"Scatter", 3, 3, build_scatter_elements},
    {NULL, 0, 0, NULL},
};
