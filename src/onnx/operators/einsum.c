/* Einsum: operands are joined two at a time, each time by one matrix product: letters that both
 * have and somebody asks for later are its batch, those that nobody asks for are summed. Of a
 * letter twice in one operand its diagonal is taken before. */
#include "base/status.h"
#include "base/text.h"
#include "onnx/axes.h"
#include "onnx/fold.h"

#include <string.h>

enum { N_LETTERS = 26 + 26 + QN_MAX_RANK }; /* a to z, A to Z, axes of an ellipsis */

/* What is to be summed: a value and the letters of its axes. */
typedef struct term {
    qn_value x;
    int rank, letters[QN_MAX_RANK];
} term;

typedef struct einsum {
    qn_onnx_call *call;
    int n_terms;
    term *terms;
    int rank, letters[QN_MAX_RANK]; /* of the result */
    int n_dots;                     /* axes that an ellipsis stands for */
    int64_t extents[N_LETTERS];     /* 0: not there */
} einsum;

static int letter_of(char c) {
    return c >= 'a' && c <= 'z' ? c - 'a' : 26 + c - 'A';
}

/* Letters up to a comma, an arrow or the end; rank -1: an ellipsis has n_dots axes. */
static qn_status read_letters(einsum *e, const char **text, int rank, int *letters, int *n) {
    const char *c = *text;
    bool has_dots = false;
    *n = 0;
    for (; *c && *c != ',' && *c != '-'; c++) {
        if (*c == ' ')
            continue;
        if (strncmp(c, "...", 3) == 0 && !has_dots) {
            int named = 0;
            for (const char *k = *text; *k && *k != ',' && *k != '-'; k++)
                named += qn_text_is_letter(*k);
            const int dots = rank < 0 ? e->n_dots : rank - named;
            e->n_dots = dots > e->n_dots ? dots : e->n_dots;
            has_dots = true;
            c += 2;
            for (int i = 0; i < dots && *n < QN_MAX_RANK; i++)
                letters[(*n)++] = 52 + QN_MAX_RANK - dots + i;
            continue;
        }
        if (!qn_text_is_letter(*c) || *n == QN_MAX_RANK)
            return qn_fail(QN_ERROR_FORMAT, "its equation has a term that cannot be read");
        letters[(*n)++] = letter_of(*c);
    }
    *text = *c == ',' ? c + 1 : c;
    return QN_OK;
}

static bool has_letter(const int *letters, int n, int letter) {
    bool has = false;
    for (int i = 0; i < n; i++)
        has = has || letters[i] == letter;
    return has;
}

static qn_status note_extents(einsum *e, int input, const term *t) {
    const qn_shape shape = qn_onnx_shape(e->call, input);
    if (t->rank != shape.rank)
        return qn_fail(QN_ERROR_FORMAT, "its term %d has %d letters for %d axes", input, t->rank,
                       shape.rank);
    for (int i = 0; i < t->rank; i++) {
        int64_t *extent = &e->extents[t->letters[i]];
        const bool is_twice = has_letter(t->letters, i, t->letters[i]);
        if (is_twice && *extent != shape.dims[i])
            return qn_fail(QN_ERROR_FORMAT, "a letter has extents %lld and %lld",
                           (long long)*extent, (long long)shape.dims[i]);
        if (*extent > 1 && shape.dims[i] > 1 && *extent != shape.dims[i])
            return qn_fail(QN_ERROR_FORMAT, "a letter has extents %lld and %lld",
                           (long long)*extent, (long long)shape.dims[i]);
        *extent = shape.dims[i] > *extent ? shape.dims[i] : *extent;
    }
    return QN_OK;
}

/* Without an arrow the result has the letters that occur once, in their order. */
static void imply_result(einsum *e) {
    for (int i = 0; i < e->n_dots; i++)
        e->letters[e->rank++] = 52 + QN_MAX_RANK - e->n_dots + i;
    static const char order[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    for (const char *c = order; *c && e->rank < QN_MAX_RANK; c++) {
        int count = 0;
        for (int t = 0; t < e->n_terms; t++) {
            for (int i = 0; i < e->terms[t].rank; i++)
                count += e->terms[t].letters[i] == letter_of(*c);
        }
        if (count == 1)
            e->letters[e->rank++] = letter_of(*c);
    }
}

static qn_status read_equation(einsum *e) {
    const char *text = qn_onnx_text(e->call, "equation", "");
    e->n_terms = e->call->n_inputs;
    e->terms = qn_onnx_scratch(e->call, (size_t)e->n_terms * sizeof *e->terms);
    if (!e->terms)
        return QN_ERROR_MEMORY;
    for (int i = 0; i < e->n_terms; i++) {
        term *t = &e->terms[i];
        QN_TRY(read_letters(e, &text, qn_onnx_shape(e->call, i).rank, t->letters, &t->rank));
        QN_TRY(note_extents(e, i, t));
    }
    if (strncmp(text, "->", 2) == 0) {
        text += 2;
        QN_TRY(read_letters(e, &text, -1, e->letters, &e->rank));
    } else {
        imply_result(e);
    }
    for (int i = 0; i < e->rank; i++) {
        if (e->extents[e->letters[i]] == 0)
            return qn_fail(QN_ERROR_FORMAT, "its result has a letter that no term has");
    }
    return QN_OK;
}

/* Whether a letter is in the result or in a term from `first` on. */
static bool is_asked_for(const einsum *e, int first, int letter) {
    bool is = has_letter(e->letters, e->rank, letter);
    for (int i = first; i < e->n_terms; i++)
        is = is || has_letter(e->terms[i].letters, e->terms[i].rank, letter);
    return is;
}

/* The term with its letters in an order, those that it lacks with an extent of 1, or whole. */
static qn_value ordered(einsum *e, const term *t, const int *letters, int n, bool is_whole) {
    qn_graph *g = e->call->graph;
    int order[QN_MAX_RANK], rank = 0;
    qn_shape shape = {.rank = n}, whole = {.rank = n};
    const qn_shape own = qn_graph_shape(g, t->x);
    for (int i = 0; i < n; i++) {
        shape.dims[i] = 1;
        whole.dims[i] = e->extents[letters[i]];
        for (int k = 0; k < t->rank; k++) {
            if (t->letters[k] == letters[i]) {
                order[rank++] = k;
                shape.dims[i] = own.dims[k];
            }
        }
    }
    qn_value x = t->x;
    bool is_moved = false;
    for (int i = 0; i < rank; i++)
        is_moved = is_moved || order[i] != i;
    if (is_moved)
        x = qn_transpose(g, qn_onnx_side_name(e->call, "order"), x, order);
    x = qn_reshape(g, qn_onnx_side_name(e->call, "axes"), x, shape);
    return is_whole && !qn_shape_equal(shape, whole)
               ? qn_expand(g, qn_onnx_side_name(e->call, "whole"), x, whole)
               : x;
}

/* Sums letters that only this term has. */
static void sum_own(einsum *e, term *t, const term *other, int first) {
    qn_graph *g = e->call->graph;
    for (int i = t->rank - 1; i >= 0; i--) {
        const int letter = t->letters[i];
        if (is_asked_for(e, first, letter) ||
            (other && has_letter(other->letters, other->rank, letter)))
            continue;
        t->x = qn_reduce(g, qn_onnx_side_name(e->call, "sum"), t->x, i, QN_SUM);
        for (int k = i; k + 1 < t->rank; k++)
            t->letters[k] = t->letters[k + 1];
        t->rank--;
    }
}

/* Letters of a term by where the product has them: 0 batch, 1 this one's alone, 2 summed. */
static int list_letters(const einsum *e, const term *t, const term *other, int first, int kind,
                        int *list) {
    int n = 0;
    for (int i = 0; i < t->rank; i++) {
        const int letter = t->letters[i];
        const bool is_shared = has_letter(other->letters, other->rank, letter);
        const int is = !is_shared ? 1 : is_asked_for(e, first, letter) ? 0 : 2;
        if (is == kind)
            list[n++] = letter;
    }
    return n;
}

static int64_t count_of(const einsum *e, const int *letters, int n) {
    int64_t count = 1;
    for (int i = 0; i < n; i++)
        count *= e->extents[letters[i]];
    return count;
}

/* a (batch, rows, summed) by b (batch, summed, columns). */
static qn_status join(einsum *e, term *a, term *b, int first) {
    int batch[QN_MAX_RANK], rows[QN_MAX_RANK], columns[QN_MAX_RANK], summed[QN_MAX_RANK];
    int left[3 * QN_MAX_RANK], right[3 * QN_MAX_RANK];
    qn_graph *g = e->call->graph;
    sum_own(e, a, b, first);
    sum_own(e, b, a, first);
    const int n_batch = list_letters(e, a, b, first, 0, batch);
    const int n_rows = list_letters(e, a, b, first, 1, rows);
    const int n_columns = list_letters(e, b, a, first, 1, columns);
    const int n_summed = list_letters(e, a, b, first, 2, summed);
    if (n_batch + n_rows + n_columns > QN_MAX_RANK)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "a product of two terms has %d axes, where %d are the "
                       "most here",
                       n_batch + n_rows + n_columns, QN_MAX_RANK);
    int n = 0, m = 0;
    for (int i = 0; i < n_batch; i++)
        left[n++] = right[m++] = batch[i];
    for (int i = 0; i < n_rows; i++)
        left[n++] = rows[i];
    for (int i = 0; i < n_summed; i++)
        left[n++] = right[m++] = summed[i];
    for (int i = 0; i < n_columns; i++)
        right[m++] = columns[i];
    const int64_t size = count_of(e, batch, n_batch), k = count_of(e, summed, n_summed);
    qn_value x = ordered(e, a, left, n, true), y = ordered(e, b, right, m, true);
    x = qn_reshape(g, qn_onnx_side_name(e->call, "left"), x,
                   QN_SHAPE(size, count_of(e, rows, n_rows), k));
    y = qn_reshape(g, qn_onnx_side_name(e->call, "right"), y,
                   QN_SHAPE(size, k, count_of(e, columns, n_columns)));
    b->x = qn_matmul(g, qn_onnx_side_name(e->call, "product"), x, y, false, false);
    qn_shape shape = {.rank = 0};
    b->rank = 0;
    for (int i = 0; i < n_batch; i++)
        b->letters[b->rank++] = batch[i];
    for (int i = 0; i < n_rows; i++)
        b->letters[b->rank++] = rows[i];
    for (int i = 0; i < n_columns; i++)
        b->letters[b->rank++] = columns[i];
    for (int i = 0; i < b->rank; i++)
        shape.dims[shape.rank++] = e->extents[b->letters[i]];
    b->x = qn_reshape(g, qn_onnx_side_name(e->call, "joined"), b->x, shape);
    return g->status;
}

/* Axes first and second of a term, which have one letter, as one at the end: every element that is
 * as far along both. */
static void take_diagonal(einsum *e, term *t, int first, int second) {
    qn_graph *g = e->call->graph;
    const qn_shape shape = qn_graph_shape(g, t->x);
    const int64_t n = shape.dims[first];
    qn_shape flat = {.rank = 0};
    int order[QN_MAX_RANK], letters[QN_MAX_RANK];
    for (int i = 0; i < t->rank; i++) {
        if (i == first || i == second)
            continue;
        letters[flat.rank] = t->letters[i];
        order[flat.rank] = i;
        flat.dims[flat.rank++] = shape.dims[i];
    }
    order[flat.rank] = first;
    order[flat.rank + 1] = second;
    letters[flat.rank] = t->letters[first];
    flat.dims[flat.rank++] = n * n;
    qn_value x = qn_transpose(g, qn_onnx_side_name(e->call, "turned"), t->x, order);
    x = qn_reshape(g, qn_onnx_side_name(e->call, "flat"), x, flat);
    t->x = qn_slice_steps(g, qn_onnx_side_name(e->call, "diagonal"), x, flat.rank - 1, 0, n + 1, n);
    t->rank = flat.rank;
    memcpy(t->letters, letters, (size_t)t->rank * sizeof *letters);
}

static void take_diagonals(einsum *e, term *t) {
    for (int i = 1; i < t->rank && e->call->graph->status == QN_OK; i++) {
        for (int k = 0; k < i; k++) {
            if (t->letters[k] != t->letters[i])
                continue;
            take_diagonal(e, t, k, i);
            i = 0;
            break;
        }
    }
}

static qn_status build_einsum(qn_onnx_call *call) {
    einsum e = {.call = call};
    const qn_onnx_type type = qn_onnx_type_at(call, 0);
    QN_TRY(read_equation(&e));
    for (int i = 0; i < e.n_terms; i++)
        e.terms[i].x = qn_onnx_as_reals(call, qn_onnx_plain(call, i));
    QN_TRY(call->graph->status);
    for (int i = 0; i < e.n_terms; i++)
        take_diagonals(&e, &e.terms[i]);
    QN_TRY(call->graph->status);
    for (int i = 0; i + 1 < e.n_terms; i++)
        QN_TRY(join(&e, &e.terms[i], &e.terms[i + 1], i + 2));
    term *last = &e.terms[e.n_terms - 1];
    sum_own(&e, last, NULL, e.n_terms);
    const qn_value y = ordered(&e, last, e.letters, e.rank, true);
    qn_onnx_give_as(call, qn_reshape(call->graph, call->name, y, qn_graph_shape(call->graph, y)),
                    false, type);
    return call->graph->status;
}

const qn_onnx_translator qn_onnx_einsum_translators[] = {
    {"Einsum", 1, -1, build_einsum},
    {NULL, 0, 0, NULL},
};
