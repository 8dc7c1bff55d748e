/* Places of an image that are worked out: AffineGrid makes them (Jaderberg et al. 2015, equation
 * 1), GridSample reads an image or a volume there. Gradients flow to what is read and to the
 * places. */
#include "base/status.h"
#include "onnx/axes.h"
#include "onnx/fold.h"
#include "onnx/images/sample.h"
#include "onnx/operators/formula.h"
#include "onnx/operators/rows.h"

#include <string.h>

/* ---- GridSample ---- */

typedef struct grid {
    qn_onnx_sampling s;
    enum { LINEAR, NEAREST, CUBIC } mode;
    enum { ZEROS, BORDER, REFLECTION } padding;
    bool is_aligned;
} grid;

static qn_status read_modes(const qn_onnx_call *call, grid *g) {
    static const struct {
        const char *name;
        int mode;
    } modes[] = {{"linear", LINEAR},
                 {"bilinear", LINEAR},
                 {"nearest", NEAREST},
                 {"cubic", CUBIC},
                 {"bicubic", CUBIC}};
    static const char *const paddings[] = {"zeros", "border", "reflection"};
    const char *mode = qn_onnx_text(call, "mode", "linear");
    const char *padding = qn_onnx_text(call, "padding_mode", "zeros");
    int found = 0;
    g->is_aligned = qn_onnx_int(call, "align_corners", 0) != 0;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (strcmp(mode, modes[i].name) == 0) {
            g->mode = modes[i].mode;
            found |= 1;
        }
    }
    for (int i = 0; i < 3; i++) {
        if (strcmp(padding, paddings[i]) == 0) {
            g->padding = i;
            found |= 2;
        }
    }
    return found == 3 ? QN_OK
                      : qn_fail(QN_ERROR_FORMAT, "there is no mode %.40s with padding %.40s", mode,
                                padding);
}

/* Mirrored at the edges until it is inside: span - ||x - least| mod 2 span - span| + least. */
static qn_value reflect(const grid *g, int axis, qn_value x) {
    qn_onnx_call *call = g->s.call;
    const double size = (double)g->s.extents[axis];
    const double least = g->is_aligned ? 0 : -0.5, span = g->is_aligned ? size - 1 : size;
    if (span <= 0)
        return qn_onnx_line(call, "one", x, 0, 0);
    x = qn_onnx_apply_kind(call, "distance", qn_onnx_line(call, "moved", x, 1, -least),
                           QN_FUNCTION_ABS);
    qn_value turns = qn_onnx_line(call, "turns", x, 0.5 / span, 0);
    turns = qn_onnx_line(call, "full", qn_onnx_apply_kind(call, "whole", turns, QN_FUNCTION_FLOOR),
                         2 * span, span);
    x = qn_onnx_combine(call, "rest", QN_COMBINE_SUBTRACT, x, turns);
    return qn_onnx_line(call, "mirrored", qn_onnx_apply_kind(call, "size", x, QN_FUNCTION_ABS), -1,
                        span + least);
}

/* Coordinates with what is outside of the edges moved to where it is read. */
static qn_value move_inside(const grid *g, int axis, qn_value x) {
    const double last = (double)g->s.extents[axis] - 1;
    if (g->padding == ZEROS) /* farther out nothing is read either */
        return qn_onnx_cut(g->s.call, "near", x, -2, last + 2);
    if (g->padding == REFLECTION)
        x = reflect(g, axis, x);
    return qn_onnx_cut(g->s.call, "within", x, 0, last);
}

/* Coordinate number i of the grid, (n, 1), in elements from the first. */
static qn_value coordinate_of(const grid *g, qn_value places, int axis) {
    const int column = g->s.n_axes - 1 - axis;
    const double size = (double)g->s.extents[axis], half = (size - 1) / 2;
    const qn_value x = qn_slice(g->s.call->graph, qn_onnx_side_name(g->s.call, "column"), places, 1,
                                column, column + 1);
    return qn_onnx_line(g->s.call, "place", x, g->is_aligned ? half : size / 2, half);
}

static qn_value sample_nearest(const grid *g, const qn_value *at) {
    qn_value whole[QN_ONNX_MOST_SPACE], y;
    for (int i = 0; i < g->s.n_axes; i++)
        whole[i] = qn_onnx_apply_kind(g->s.call, "nearest", at[i], QN_FUNCTION_ROUND);
    y = qn_onnx_pick(&g->s, whole);
    for (int i = 0; i < g->s.n_axes && g->padding == ZEROS; i++)
        y = qn_onnx_combine(g->s.call, "kept", QN_COMBINE_MULTIPLY, y,
                            qn_onnx_is_inside(&g->s, i, whole[i]));
    return y;
}

/* Weights of the four elements around t of 0 to 1 (Keys 1981, with a = -0.75): element i is at
 * i - 1. (n, 1) */
static qn_value cubic_weight(qn_onnx_call *call, qn_value t, int i) {
    const double a = -0.75;
    /* of the distance d: near ((a + 2) d - (a + 3)) d d + 1, far a (((d - 5) d + 8) d - 4) */
    const double near[] = {a + 2, -(a + 3), 0, 1}, far[] = {a, -5 * a, 8 * a, -4 * a};
    const double *c = i == 1 || i == 2 ? near : far;
    const qn_value d = qn_onnx_line(call, "distance", t, i < 2 ? 1 : -1, i < 2 ? 1 - i : i - 1);
    qn_value y = qn_onnx_line(call, "cubic", d, c[0], c[1]);
    for (int k = 2; k < 4; k++)
        y = qn_onnx_line(call, "cubic", qn_onnx_combine(call, "power", QN_COMBINE_MULTIPLY, y, d),
                         1, c[k]);
    return y;
}

/* A row of four elements around a place along an axis: coordinates and weights. */
typedef struct four {
    qn_value at[4], weights[4];
} four;

static four four_of(const grid *g, int axis, qn_value at) {
    qn_onnx_call *call = g->s.call;
    const qn_value below = qn_onnx_apply_kind(call, "below", at, QN_FUNCTION_FLOOR);
    const qn_value t = qn_onnx_combine(call, "fraction", QN_COMBINE_SUBTRACT, at, below);
    four f;
    for (int i = 0; i < 4; i++) {
        f.at[i] = qn_onnx_line(call, "tap", below, 1, i - 1);
        f.weights[i] = cubic_weight(call, t, i);
        if (g->padding == ZEROS)
            f.weights[i] = qn_onnx_combine(call, "weight", QN_COMBINE_MULTIPLY, f.weights[i],
                                           qn_onnx_is_inside(&g->s, axis, f.at[i]));
        else
            f.at[i] = move_inside(g, axis, f.at[i]);
    }
    return f;
}

static qn_value sample_cubic(const grid *g, const qn_value *at) {
    qn_onnx_call *call = g->s.call;
    const four rows = four_of(g, 0, at[0]), columns = four_of(g, 1, at[1]);
    qn_value sum = QN_NO_VALUE;
    for (int i = 0; i < 4; i++) {
        qn_value line = QN_NO_VALUE;
        for (int j = 0; j < 4; j++) {
            const qn_value part = qn_onnx_combine(
                call, "weighed", QN_COMBINE_MULTIPLY,
                qn_onnx_pick(&g->s, (qn_value[]){rows.at[i], columns.at[j]}), columns.weights[j]);
            line = j == 0 ? part : qn_onnx_combine(call, "line", QN_COMBINE_ADD, line, part);
        }
        line = qn_onnx_combine(call, "weighed", QN_COMBINE_MULTIPLY, line, rows.weights[i]);
        sum = i == 0 ? line : qn_onnx_combine(call, "sum", QN_COMBINE_ADD, sum, line);
    }
    return sum;
}

/* Where the elements of each place's sample begin. */
static qn_status read_bases(grid *g, int64_t n_samples) {
    qn_onnx_sampling *s = &g->s;
    int64_t elements = 1;
    for (int i = 0; i < s->n_axes; i++)
        elements *= s->extents[i];
    QN_TRY(qn_onnx_check_made(s->n));
    if (n_samples == 1)
        return QN_OK;
    int64_t *bases = qn_onnx_scratch(s->call, ((size_t)s->n + 1) * sizeof *bases);
    for (int64_t i = 0; bases && i < s->n; i++)
        bases[i] = i / (s->n / n_samples) * elements;
    s->base = bases ? qn_onnx_listed(s->call, bases, s->n) : QN_NO_VALUE;
    return s->call->graph->status;
}

static qn_status check_grid(qn_shape x, qn_shape places) {
    const int space = x.rank - 2;
    if (places.rank != x.rank || places.dims[0] != x.dims[0] || places.dims[x.rank - 1] != space)
        return qn_fail(QN_ERROR_FORMAT, "its grid is not one of %d coordinates for each sample",
                       space);
    return QN_OK;
}

static qn_status build_grid_sample(qn_onnx_call *call) {
    const qn_shape x = qn_onnx_shape(call, 0), shape = qn_onnx_shape(call, 1);
    qn_value at[QN_ONNX_MOST_SPACE], y;
    grid g;
    QN_TRY(read_modes(call, &g));
    QN_TRY(check_grid(x, shape));
    QN_TRY(qn_onnx_sampling_init(call, qn_shape_count_range(shape, 0, shape.rank - 1), &g.s));
    QN_TRY(read_bases(&g, x.dims[0]));
    if (g.mode == CUBIC && g.s.n_axes != 2)
        return qn_fail(QN_ERROR_UNSUPPORTED, "cubic over %d axes, where two are known", g.s.n_axes);
    g.s.is_zero_outside = g.padding == ZEROS;
    const qn_value places =
        qn_onnx_reshaped(call, "places", qn_onnx_as_reals(call, qn_onnx_plain(call, 1)),
                         QN_SHAPE(g.s.n, g.s.n_axes));
    for (int i = 0; i < g.s.n_axes; i++) {
        at[i] = coordinate_of(&g, places, i);
        if (g.mode != CUBIC)
            at[i] = move_inside(&g, i, at[i]);
    }
    y = g.mode == LINEAR    ? qn_onnx_sample_linear(&g.s, at, false)
        : g.mode == NEAREST ? sample_nearest(&g, at)
                            : sample_cubic(&g, at);
    qn_shape last = shape;
    last.dims[last.rank - 1] = x.dims[1];
    qn_onnx_give(call, 0, qn_onnx_reshaped(call, NULL, y, last), true);
    return call->graph->status;
}

/* ---- AffineGrid ---- */

/* The places of a grid over an output, as (x, y, 1) or (x, y, z, 1) each. */
static double *identity_places(qn_onnx_call *call, qn_shape space, bool is_aligned, int64_t n) {
    const int k = space.rank + 1;
    double *places = qn_onnx_scratch(call, (size_t)(n * k + 1) * sizeof *places);
    for (int64_t i = 0; places && i < n; i++) {
        for (int axis = 0; axis < space.rank; axis++) {
            const double size = (double)space.dims[axis];
            const double at =
                (double)(i / qn_shape_count_range(space, axis + 1, space.rank) % space.dims[axis]);
            places[i * k + space.rank - 1 - axis] =
                is_aligned ? (size > 1 ? 2 * at / (size - 1) - 1 : 0) : (2 * at + 1) / size - 1;
        }
        places[i * k + space.rank] = 1;
    }
    return places;
}

static qn_status build_affine_grid(qn_onnx_call *call) {
    const qn_shape theta = qn_onnx_shape(call, 0);
    const bool is_aligned = qn_onnx_int(call, "align_corners", 0) != 0;
    qn_graph *g = call->graph;
    qn_shape size, space = {.rank = 0};
    const int64_t *list;
    int n;
    QN_TRY(qn_onnx_list(call, NULL, 1, &list, &n));
    QN_TRY(qn_onnx_shape_of_list(list, n, &size));
    if (n < 4 || n > 5 || theta.rank != 3 || theta.dims[1] != n - 2 || theta.dims[2] != n - 1)
        return qn_fail(QN_ERROR_FORMAT, "its matrices do not fit an output of rank %d", n);
    for (int i = 2; i < n; i++)
        space.dims[space.rank++] = size.dims[i];
    const int64_t count = qn_shape_count(space);
    QN_TRY(qn_onnx_check_made(count * (n - 1) * theta.dims[0]));
    double *places = identity_places(call, space, is_aligned, count);
    if (!places)
        return QN_ERROR_MEMORY;
    qn_value base = qn_onnx_made_value(call, "places", QN_SHAPE(1, count, n - 1), places);
    base =
        qn_expand(g, qn_onnx_side_name(call, "each"), base, QN_SHAPE(theta.dims[0], count, n - 1));
    const qn_value y =
        qn_matmul(g, qn_onnx_side_name(call, "product"), base, qn_onnx_plain(call, 0), false, true);
    qn_shape shape = {.rank = n, .dims = {theta.dims[0]}};
    for (int i = 1; i < n; i++)
        shape.dims[i] = i < n - 1 ? space.dims[i - 1] : n - 2;
    qn_onnx_give(call, 0, qn_onnx_reshaped(call, NULL, y, shape), false);
    return g->status;
}

const qn_onnx_translator qn_onnx_grid_translators[] = {
    {"GridSample", 2, 2, build_grid_sample},
    {"AffineGrid", 2, 2, build_affine_grid},
    {NULL, 0, 0, NULL},
};
