/* Elements and rows put by lists of indices. Where they are known at import, each round of puts is
 * rows picked from data and updates beside one another, or combined with what changes nothing.
 * Where indices change, the rows to pick follow from them in every step (scatter_source), and sums
 * are scattered (scatter_add). Of several updates of a row the last one counts. */
#include "base/status.h"
#include "onnx/axes.h"
#include "onnx/fold.h"
#include "onnx/integers.h"
#include "onnx/operators/rows.h"
#include "ops/integers.h"

#include <math.h>
#include <string.h>

enum { MOST_ROUNDS = 64 };

/* Updates (n, width) that are put into data (rows, width), each at a row. */
typedef struct scatter {
    int64_t rows, width, n;
    const int64_t *targets; /* (n), or null */
    qn_value changing;      /* (n), QN_I32, where they are not known */
    int64_t most;           /* updates that one row may get */
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

/* How integers are put together: of PUT the second. */
static const qn_integer_rule integer_rules[] = {
    [PUT] = QN_INTEGER_CAST,
    [PUT_SUM] = QN_INTEGER_ADD,
    [PUT_PRODUCT] = QN_INTEGER_MULTIPLY,
    [PUT_LEAST] = QN_INTEGER_LEAST,
    [PUT_MOST] = QN_INTEGER_MOST,
};

static qn_status fold_integers(qn_onnx_call *call, const scatter *s, const qn_onnx_constant *x,
                               const qn_onnx_constant *updates) {
    int64_t *y = qn_onnx_scratch(call, ((size_t)x->n + 1) * sizeof *y);
    if (!y)
        return QN_ERROR_MEMORY;
    memcpy(y, x->whole, (size_t)x->n * sizeof *y);
    for (int64_t i = 0; i < s->n * s->width; i++) {
        int64_t *to = &y[s->targets[i / s->width] * s->width + i % s->width];
        *to = s->how == PUT
                  ? updates->whole[i]
                  : qn_integer_apply(integer_rules[s->how], qn_onnx_integer_type_of(x->type), *to,
                                     updates->whole[i], 0);
    }
    return qn_onnx_give_whole(call, 0, x->type, x->shape, y);
}

static qn_status fold_scatter(qn_onnx_call *call, const scatter *s) {
    const qn_onnx_constant *x = qn_onnx_constant_of(call, 0), *u = qn_onnx_constant_of(call, 2);
    if (x && u && x->whole && u->whole)
        return fold_integers(call, s, x, u);
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
        qn_embedding(g, qn_onnx_side_name(call, "put"), both, qn_onnx_listed(call, from, s->rows));
    return s->how == PUT ? put
                         : qn_op_combine(g, qn_onnx_side_name(call, "with"), kinds[s->how], y, put);
}

/* ---- in values ---- */

/* Data and updates as rows. */
static void find_operands(qn_onnx_call *call, const scatter *s, qn_value *data, qn_value *updates) {
    qn_graph *g = call->graph;
    *data = qn_reshape(g, qn_onnx_side_name(call, "data"),
                       qn_onnx_as_reals(call, qn_onnx_plain(call, 0)), QN_SHAPE(s->rows, s->width));
    *updates = qn_reshape(g, qn_onnx_side_name(call, "updates"),
                          qn_onnx_as_reals(call, qn_onnx_plain(call, 2)), QN_SHAPE(s->n, s->width));
}

static qn_status too_many(void) {
    return qn_fail(QN_ERROR_UNSUPPORTED, "it may put more than %d updates into one row",
                   MOST_ROUNDS);
}

/* Rounds of puts that are known. */
static qn_status put_known(qn_onnx_call *call, const scatter *s, qn_value *y, qn_value updates) {
    bool is_last = false, *done = qn_onnx_scratch(call, (size_t)s->n + 1);
    if (!done)
        return QN_ERROR_MEMORY;
    memset(done, 0, (size_t)s->n + 1);
    for (int round = 0; !is_last && call->graph->status == QN_OK; round++) {
        int64_t *from = next_updates(call, s, done, &is_last);
        if (round == MOST_ROUNDS)
            return too_many();
        if (!from)
            return QN_ERROR_MEMORY;
        *y = put_round(call, s, *y, updates, from);
    }
    return call->graph->status;
}

/* Rows of data, or where `neutral` is one, of that, with updates put that change from step to step:
 * the nth of each row, or with nth -1 the last. */
static qn_value put_changing(qn_onnx_call *call, const scatter *s, qn_value data, qn_value updates,
                             int64_t nth) {
    qn_graph *g = call->graph;
    const qn_value both =
        qn_concat(g, qn_onnx_side_name(call, "both"), (qn_value[]){data, updates}, 2, 0);
    const qn_value from =
        qn_op_scatter_source(g, qn_onnx_side_name(call, "from"), s->changing, s->rows, nth);
    return qn_embedding(g, qn_onnx_side_name(call, "put"), both, from);
}

/* Rounds of products, least or largest numbers, as many as a row may get updates. */
static qn_status combine_changing(qn_onnx_call *call, const scatter *s, qn_value *y,
                                  qn_value updates) {
    static const qn_combination kinds[] = {
        [PUT_PRODUCT] = QN_COMBINE_MULTIPLY,
        [PUT_LEAST] = QN_COMBINE_LEAST,
        [PUT_MOST] = QN_COMBINE_MOST,
    };
    qn_graph *g = call->graph;
    if (s->most > MOST_ROUNDS)
        return too_many();
    for (int64_t nth = 0; nth < s->most && g->status == QN_OK; nth++) {
        const qn_value rest =
            s->how == PUT_PRODUCT
                ? qn_op_broadcast(g, qn_onnx_side_name(call, "rest"),
                                  qn_op_scalar(g, qn_onnx_side_name(call, "one"), 1),
                                  QN_SHAPE(s->rows, s->width), 1)
                : *y;
        *y = qn_op_combine(g, qn_onnx_side_name(call, "with"), kinds[s->how], *y,
                           put_changing(call, s, rest, updates, nth));
    }
    return g->status;
}

/* Whether rounds of known sums would be too many. */
static bool is_crowded(qn_onnx_call *call, const scatter *s) {
    int64_t *counts = qn_onnx_scratch(call, ((size_t)s->rows + 1) * sizeof *counts);
    bool is = false;
    if (!counts)
        return false;
    memset(counts, 0, (size_t)s->rows * sizeof *counts);
    for (int64_t i = 0; i < s->n; i++)
        is = is || ++counts[s->targets[i]] > MOST_ROUNDS;
    return is;
}

/* ---- integers that are combined ---- */

/* Of each element of the data, which of data, updates and what changes nothing, one after the
 * other, goes with it: rows (rows), of the data or, after those, the updates. */
static qn_value partners_of(qn_onnx_call *call, const scatter *s, qn_value rows) {
    const bool is_neutral = s->how == PUT_SUM || s->how == PUT_PRODUCT;
    const int64_t neutral = (s->rows + s->n) * s->width, width = s->width;
    int64_t *columns = qn_onnx_scratch(call, ((size_t)width + 1) * sizeof *columns);
    for (int64_t i = 0; columns && i < width; i++)
        columns[i] = i;
    qn_value steps[] = {
        qn_reshape(call->graph, qn_onnx_side_name(call, "rows"), rows, QN_SHAPE(s->rows, 1)),
        qn_onnx_integers_value(call, (qn_shape){.rank = 0}, &width)};
    const qn_value at[] = {
        qn_onnx_integer_rule(call, "steps", QN_INTEGER_MULTIPLY, QN_ONNX_INT64, steps, 2),
        qn_onnx_integers_value(call, QN_SHAPE(width), columns)};
    const qn_value places =
        qn_onnx_integer_rule(call, "places", QN_INTEGER_ADD, QN_ONNX_INT64, at, 2);
    if (!is_neutral)
        return places;
    steps[1] = qn_onnx_integers_value(call, (qn_shape){.rank = 0}, &s->rows);
    const qn_value chosen[] = {
        qn_onnx_integer_rule(call, "is_own", QN_INTEGER_LESS, QN_ONNX_INT64, steps, 2),
        qn_onnx_integers_value(call, (qn_shape){.rank = 0}, &neutral), places};
    return qn_onnx_integer_rule(call, "partners", QN_INTEGER_WHERE, QN_ONNX_INT64, chosen, 3);
}

static qn_value wide_rows(qn_onnx_call *call, int input) {
    const qn_value x = qn_onnx_plain(call, input);
    const int64_t n = qn_shape_count(qn_onnx_shape(call, input));
    return qn_reshape(
        call->graph, qn_onnx_side_name(call, "elements"),
        qn_onnx_integer_rule(call, "wide", QN_INTEGER_CAST, qn_onnx_type_at(call, input), &x, 1),
        QN_SHAPE(n));
}

/* y with the updates of a round, which rows says. */
static qn_value combine_round(qn_onnx_call *call, const scatter *s, qn_value y, qn_value updates,
                              qn_value rows) {
    const int64_t neutral = s->how == PUT_PRODUCT;
    const qn_value parts[] = {
        qn_reshape(call->graph, qn_onnx_side_name(call, "flat"), y, QN_SHAPE(s->rows * s->width)),
        updates, qn_onnx_integers_value(call, QN_SHAPE(1), &neutral)};
    qn_value all[3] = {parts[0], parts[1], QN_NO_VALUE};
    all[2] = qn_onnx_integer_rule(call, "neutral", QN_INTEGER_CAST, QN_ONNX_INT64, &parts[2], 1);
    const qn_value both[] = {
        y, qn_op_pick(call->graph, qn_onnx_side_name(call, "with"),
                      qn_concat(call->graph, qn_onnx_side_name(call, "all"), all, 3, 0),
                      partners_of(call, s, rows))};
    return qn_onnx_integer_rule(call, "combined", integer_rules[s->how], qn_onnx_type_at(call, 0),
                                both, 2);
}

/* Rounds of updates, as many as a row may get. */
static qn_status combine_integers(qn_onnx_call *call, const scatter *s) {
    const qn_value updates = wide_rows(call, 2);
    bool is_last = false, *done = qn_onnx_scratch(call, (size_t)s->n + 1);
    qn_value y = qn_reshape(call->graph, qn_onnx_side_name(call, "data"), wide_rows(call, 0),
                            QN_SHAPE(s->rows, s->width));
    if (!done)
        return QN_ERROR_MEMORY;
    memset(done, 0, (size_t)s->n + 1);
    if (!s->targets && s->most > MOST_ROUNDS)
        return too_many();
    for (int round = 0; s->targets ? !is_last : round < s->most; round++) {
        QN_TRY(call->graph->status);
        if (round == MOST_ROUNDS)
            return too_many();
        const qn_value rows =
            s->targets ? qn_onnx_listed(call, next_updates(call, s, done, &is_last), s->rows)
                       : qn_op_scatter_source(call->graph, qn_onnx_side_name(call, "from"),
                                              s->changing, s->rows, round);
        y = combine_round(call, s, y, updates, rows);
    }
    return qn_onnx_give_integers(call, 0, y, qn_onnx_shape(call, 0), qn_onnx_type_at(call, 0));
}

static qn_status give_scatter(qn_onnx_call *call, const scatter *s) {
    const qn_onnx_type type = qn_onnx_type_at(call, 0);
    const qn_shape shape = qn_onnx_shape(call, 0);
    qn_graph *g = call->graph;
    qn_value y, updates;
    if (qn_shape_count(qn_onnx_shape(call, 2)) != s->n * s->width)
        return qn_fail(QN_ERROR_FORMAT, "its updates are not as many as its indices");
    if (s->targets && qn_onnx_is_known(call, 0) && qn_onnx_is_known(call, 2))
        return fold_scatter(call, s);
    if (qn_onnx_type_is_integer(type) && s->how != PUT)
        return combine_integers(call, s);
    find_operands(call, s, &y, &updates);
    if (s->how == PUT_SUM && (!s->targets || is_crowded(call, s)))
        y = qn_add(g, qn_onnx_side_name(call, "with"), y,
                   qn_op_scatter_add(
                       g, qn_onnx_side_name(call, "sums"), updates,
                       s->targets ? qn_onnx_listed(call, s->targets, s->n) : s->changing, s->rows));
    else if (s->targets)
        QN_TRY(put_known(call, s, &y, updates));
    else if (s->how == PUT)
        y = put_changing(call, s, y, updates, -1);
    else
        QN_TRY(combine_changing(call, s, &y, updates));
    qn_onnx_give_as(call, qn_reshape(g, call->name, y, shape), false, type);
    return g->status;
}

static void set_rows(scatter *s, const qn_onnx_rows *r, int64_t most) {
    s->rows = r->rows;
    s->width = r->width;
    s->n = r->n;
    s->targets = r->known;
    s->changing = r->changing;
    s->most = most;
}

static qn_status build_scatter_nd(qn_onnx_call *call) {
    qn_onnx_rows r;
    qn_shape picked;
    scatter s;
    QN_TRY(read_reduction(call, &s));
    QN_TRY(qn_onnx_tuple_rows(call, 0, &r, &picked));
    set_rows(&s, &r, r.n);
    return give_scatter(call, &s);
}

static qn_status build_scatter_elements(qn_onnx_call *call) {
    qn_onnx_rows r;
    scatter s;
    int axis;
    QN_TRY(qn_onnx_axis(qn_onnx_int(call, "axis", 0), qn_onnx_shape(call, 0).rank, &axis));
    QN_TRY(read_reduction(call, &s));
    QN_TRY(qn_onnx_element_rows(call, axis, &r));
    set_rows(&s, &r, qn_onnx_shape(call, 1).dims[axis]);
    return give_scatter(call, &s);
}

const qn_onnx_translator qn_onnx_scatter_translators[] = {
    {"ScatterND", 3, 3, build_scatter_nd},
    {"ScatterElements", 3, 3, build_scatter_elements},
    {"Scatter", 3, 3, build_scatter_elements},
    {NULL, 0, 0, NULL},
};
