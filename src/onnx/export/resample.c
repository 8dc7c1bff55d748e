/* How axes that are sampled anew are written: as Slice, Pad, Tile, Expand or Gather where elements
 * are taken as they are, else as Resize. Nodes of one kind for one axis after the other, as an
 * import makes them, become one node again. Left out: a border that is wrapped around an open
 * batch, for which there is no operator, and sizes that a Resize has no scale for. */
#include "onnx/export/export.h"
#include "quern/ops.h"
#include "tensor/tensor.h"

#include <limits.h>
#include <math.h>
#include <string.h>

typedef enum kind { EXPAND, SLICE, PAD, TILE, GATHER, RESIZE } kind;

/* A node's attributes. Element i is what lies at (i + shift) * step / scale + offset. */
typedef struct sampled {
    const qn_node *node;
    kind kind;
    int axis;
    int64_t from, to;
    int interpolation, border;
    double value, shift, step, scale, offset, cubic;
    bool leaves_outs;
} sampled;

/* Several, for one axis each, the first of which reads x. */
typedef struct chain {
    sampled all[QN_MAX_RANK];
    int n;
    qn_value x;
} chain;

/* ---- what a node is ---- */

static bool is_inside(const sampled *s, double place) {
    return place >= 0 && place <= (double)(s->from - 1);
}

/* Of what takes elements as they are, at places that are whole numbers. */
static kind kind_of_places(const sampled *s) {
    const double last = s->offset + (double)(s->to - 1) * s->step;
    if (is_inside(s, s->offset) && is_inside(s, last) && (s->step != 0 || s->to == 1))
        return SLICE;
    const bool is_wrapped = s->border == QN_BORDER_WRAP;
    const double most = s->border == QN_BORDER_REFLECT ? (double)(s->from - 1) : INT_MAX;
    if (s->step == 1 && is_wrapped && s->offset == 0 && s->to % s->from == 0)
        return TILE;
    if (s->step == 1 && !is_wrapped && -s->offset <= most && last - (double)(s->from - 1) <= most)
        return PAD;
    return s->border == QN_BORDER_VALUE ? RESIZE : GATHER;
}

static kind find_kind(const sampled *s) {
    if (s->step == 0 && s->from == 1 && s->offset == 0 && s->border == QN_BORDER_EDGE)
        return EXPAND;
    const bool takes_as_is = s->interpolation < QN_LINEAR || s->to == 1;
    const bool is_whole = s->offset == floor(s->offset) && s->step == floor(s->step) &&
                          s->shift == 0 && (s->scale == 1 || s->step == 0);
    return takes_as_is && is_whole ? kind_of_places(s) : RESIZE;
}

static sampled read_node(const qn_node *node) {
    sampled s = {.node = node};
    s.axis = *(const int *)qn_onnx_field(node, "axis");
    s.from = *(const int64_t *)qn_onnx_field(node, "from");
    s.to = *(const int64_t *)qn_onnx_field(node, "to");
    s.interpolation = *(const int *)qn_onnx_field(node, "interpolation");
    s.border = *(const int *)qn_onnx_field(node, "border");
    const char *const names[] = {"value", "shift", "step", "scale", "offset", "cubic"};
    double *const numbers[] = {&s.value, &s.shift, &s.step, &s.scale, &s.offset, &s.cubic};
    for (int i = 0; i < 6; i++)
        *numbers[i] = *(const double *)qn_onnx_field(node, names[i]);
    s.leaves_outs = *(const bool *)qn_onnx_field(node, "leaves_outs");
    s.kind = find_kind(&s);
    return s;
}

/* How ONNX says where elements come from; null: it cannot. */
static const char *find_places(const sampled *s) {
    const bool is_asymmetric = s->step == 1 && floor((double)s->from * s->scale) == (double)s->to;
    if (s->border == QN_BORDER_VALUE)
        return "tf_crop_and_resize";
    if (s->border != QN_BORDER_EDGE)
        return NULL;
    if (s->shift == 0.5 && s->step == 1 && (s->offset == -0.5 || s->offset == 0))
        return s->offset == 0 ? "tf_half_pixel_for_nn" : "half_pixel";
    if (s->shift != 0 || s->offset != 0)
        return NULL;
    return is_asymmetric ? "asymmetric" : s->step == (double)(s->from - 1) ? "align_corners" : NULL;
}

/* ---- one after the other ---- */

static bool goes_on(const sampled *first, const sampled *s) {
    const char *a = find_places(first), *b = find_places(s);
    return first->kind == s->kind && s->kind != EXPAND && s->kind != GATHER &&
           first->axis < s->axis && first->interpolation == s->interpolation &&
           first->border == s->border && first->value == s->value && first->cubic == s->cubic &&
           first->leaves_outs == s->leaves_outs &&
           (s->kind != RESIZE || (a && b && strcmp(a, b) == 0));
}

static void find_chain(const qn_graph *graph, const qn_node *node, chain *c) {
    sampled s = read_node(node);
    *c = (chain){.n = 0};
    c->all[QN_MAX_RANK - 1 - c->n++] = s;
    for (bool more = true; more && c->n < QN_MAX_RANK;) {
        const qn_value_info *x = qn_graph_value(graph, s.node->inputs[0]);
        const qn_node *before = x->producer >= 0 ? graph->nodes[x->producer] : NULL;
        more = before && before->op == node->op;
        const sampled first = more ? read_node(before) : s;
        more = more && goes_on(&first, &s);
        if (more)
            c->all[QN_MAX_RANK - 1 - c->n++] = s = first;
    }
    memmove(c->all, c->all + QN_MAX_RANK - c->n, (size_t)c->n * sizeof *c->all);
    c->x = s.node->inputs[0];
}

int qn_onnx_read_resample(const qn_graph *graph, const qn_node *node,
                          qn_value read[QN_ONNX_MOST_READ]) {
    chain c;
    find_chain(graph, node, &c);
    read[0] = c.x;
    return 1;
}

/* ---- nodes ---- */

/* What is written: the chain, its input's name and shape in the order that it is written in. */
typedef struct writing {
    qn_onnx_exporter *e;
    const qn_node *node; /* the last */
    const chain *chain;
    qn_onnx_order order;
    const char *x;
    int rank;
} writing;

static int axis_of(const writing *w, const sampled *s) {
    return (int)qn_onnx_axis_in(w->order, s->axis, w->rank);
}

static qn_onnx_node *put(const writing *w, const char *type, const char *const *inputs, int n) {
    const char *y = qn_onnx_call_it(w->e, w->node->outputs[0], w->order, NULL);
    return qn_onnx_put(w->e, type, w->node->name, inputs, n, y);
}

static const char *put_list(const writing *w, const char *suffix, const int64_t *values, int n) {
    return qn_onnx_whole(w->e, qn_onnx_part(w->e, w->node, suffix), values, n);
}

/* The same with another batch. */
static sampled other_of(const writing *w, const sampled *s) {
    return read_node(qn_onnx_other_node(w->e, s->node));
}

/* A slice that ends where a batch does ends beyond all of them. */
static void write_slices(const writing *w) {
    int64_t lists[4][QN_MAX_RANK]; /* starts, ends, axes, steps */
    static const char *const suffixes[] = {"begin", "end", "axis", "step"};
    const char *inputs[5] = {w->x};
    for (int i = 0; i < w->chain->n; i++) {
        const sampled *s = &w->chain->all[i];
        const bool is_open = other_of(w, s).to != s->to;
        const int64_t step = s->step == 0 ? 1 : (int64_t)s->step;
        const int64_t begin = (int64_t)s->offset, end = begin + (s->to - 1) * step;
        lists[0][i] = begin;
        lists[1][i] = step > 0 ? (is_open ? INT64_MAX : end + 1) : end > 0 ? end - 1 : -s->from - 1;
        lists[2][i] = axis_of(w, s);
        lists[3][i] = step;
        if (is_open && step < 0)
            qn_onnx_export_fail(w->e, QN_ERROR_UNSUPPORTED, "a batch that is taken backwards");
    }
    for (int i = 0; i < 4; i++)
        inputs[1 + i] = put_list(w, suffixes[i], lists[i], w->chain->n);
    put(w, "Slice", inputs, 5);
}

static void write_pads(const writing *w) {
    static const char *const modes[] = {"constant", "edge", "reflect"};
    const bool is_whole =
        qn_graph_tensor(qn_onnx_exporter_graph(w->e), w->chain->x).dtype == QN_I32;
    int64_t pads[2 * QN_MAX_RANK] = {0};
    for (int i = 0; i < w->chain->n; i++) {
        const sampled *s = &w->chain->all[i];
        pads[axis_of(w, s)] = -(int64_t)s->offset;
        pads[w->rank + axis_of(w, s)] = s->to - s->from + (int64_t)s->offset;
    }
    const sampled *s = w->chain->all;
    const char *inputs[] = {
        w->x, put_list(w, "pads", pads, 2 * w->rank),
        qn_onnx_number(w->e, is_whole ? QN_ONNX_INT32 : QN_ONNX_FLOAT, s->value)};
    qn_onnx_put_text(w->e, put(w, "Pad", inputs, s->border == QN_BORDER_VALUE ? 3 : 2), "mode",
                     modes[s->border]);
}

static void write_tiles(const writing *w) {
    int64_t repeats[QN_MAX_RANK];
    for (int i = 0; i < w->rank; i++)
        repeats[i] = 1;
    for (int i = 0; i < w->chain->n; i++)
        repeats[axis_of(w, &w->chain->all[i])] = w->chain->all[i].to / w->chain->all[i].from;
    const char *inputs[] = {w->x, put_list(w, "repeats", repeats, w->rank)};
    put(w, "Tile", inputs, 2);
}

static void write_expand(const writing *w) {
    const sampled *s = w->chain->all;
    int64_t shape[QN_MAX_RANK], other[QN_MAX_RANK];
    for (int i = 0; i < w->rank; i++)
        shape[i] = other[i] = 1;
    shape[axis_of(w, s)] = s->to;
    other[axis_of(w, s)] = other_of(w, s).to;
    const char *name = qn_onnx_part(w->e, w->node, "shape");
    const char *inputs[] = {w->x, qn_onnx_shape_list(w->e, name, shape, other, w->rank)};
    put(w, "Expand", inputs, 2);
}

/* Wrapped or reflected places, further outside than a Pad goes. */
static void write_gather(const writing *w) {
    const sampled *s = w->chain->all;
    const int64_t period =
        s->border == QN_BORDER_REFLECT && s->from > 1 ? 2 * (s->from - 1) : s->from;
    const char *name = qn_onnx_part(w->e, w->node, "index");
    int64_t *places = qn_onnx_room(w->e, (size_t)s->to, sizeof *places);
    if (!places)
        return;
    for (int64_t i = 0; i < s->to; i++) {
        int64_t at = (int64_t)s->offset + i * (int64_t)s->step;
        if (s->border == QN_BORDER_EDGE)
            at = at < 0 ? 0 : at < s->from ? at : s->from - 1;
        at = (at % period + period) % period;
        places[i] = at < s->from ? at : period - at;
    }
    if (other_of(w, s).to != s->to)
        qn_onnx_export_fail(w->e, QN_ERROR_UNSUPPORTED, "a batch that is wrapped around");
    const char *inputs[] = {w->x, qn_onnx_whole(w->e, name, places, (int)s->to)};
    qn_onnx_put_int(w->e, put(w, "Gather", inputs, 2), "axis", axis_of(w, s));
}

/* ---- other sizes ---- */

/* The scale that an import would work places out by, as they are worked out here. */
static double scale_of(const sampled *s, const char *places) {
    const bool is_between = places[0] == 'a' && places[1] == 'l';
    return is_between || s->border == QN_BORDER_VALUE ? (s->scale + 1) / (double)s->from : s->scale;
}

/* Whether the scale, a float in the file, gives the extent and the places. */
static bool has_scale(const sampled *s, const char *places) {
    const double scale = scale_of(s, places);
    return (double)(float)scale == scale && floor((double)s->from * scale) == (double)s->to &&
           (s->to > 1 || places[0] != 'a' || places[1] != 'l');
}

/* Whether the extents alone give it. */
static bool has_size(const sampled *s, const char *places) {
    const double scale = scale_of(s, places);
    return s->to == 1 || fabs(scale - (double)s->to / (double)s->from) <= 1e-12 * scale;
}

static const char *put_sizes(const writing *w) {
    int64_t sizes[QN_MAX_RANK], other[QN_MAX_RANK];
    const qn_shape shape = qn_graph_shape(qn_onnx_exporter_graph(w->e), w->chain->x);
    for (int i = 0; i < w->rank; i++) {
        const int at = (int)qn_onnx_axis_in(w->order, i, w->rank);
        sizes[at] = shape.dims[i];
        other[at] = qn_onnx_other_extent(w->e, w->chain->x, i);
    }
    for (int i = 0; i < w->chain->n; i++) {
        const int at = axis_of(w, &w->chain->all[i]);
        sizes[at] = other[at] = w->chain->all[i].to;
    }
    return qn_onnx_shape_list(w->e, qn_onnx_part(w->e, w->node, "sizes"), sizes, other, w->rank);
}

/* Begins and ends of a region, of all axes. */
static const char *put_region(const writing *w) {
    double region[2 * QN_MAX_RANK] = {0};
    for (int i = 0; i < w->rank; i++)
        region[w->rank + i] = 1;
    for (int i = 0; i < w->chain->n; i++) {
        const sampled *s = &w->chain->all[i];
        const int at = axis_of(w, s);
        const double last = s->from > 1 ? (double)(s->from - 1) : 1;
        region[at] = s->offset / last;
        region[w->rank + at] = (s->offset + s->step) / last;
    }
    return qn_onnx_reals(w->e, qn_onnx_part(w->e, w->node, "region"), region, 2 * w->rank);
}

static void put_attributes(const writing *w, qn_onnx_node *to, const char *places) {
    static const char *const modes[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
    const sampled *s = w->chain->all;
    qn_onnx_put_text(w->e, to, "coordinate_transformation_mode", places);
    qn_onnx_put_text(w->e, to, "mode",
                     s->interpolation == QN_LINEAR  ? "linear"
                     : s->interpolation == QN_CUBIC ? "cubic"
                                                    : "nearest");
    if (s->interpolation < QN_LINEAR)
        qn_onnx_put_text(w->e, to, "nearest_mode", modes[s->interpolation]);
    if (s->interpolation == QN_CUBIC)
        qn_onnx_put_float(w->e, to, "cubic_coeff_a", s->cubic);
    if (s->leaves_outs)
        qn_onnx_put_int(w->e, to, "exclude_outside", 1);
    if (s->border == QN_BORDER_VALUE)
        qn_onnx_put_float(w->e, to, "extrapolation_value", s->value);
}

static void write_resize(const writing *w) {
    const char *places = find_places(w->chain->all);
    double scales[QN_MAX_RANK];
    bool by_scales = places != NULL, by_sizes = places != NULL;
    for (int i = 0; i < w->rank; i++)
        scales[i] = 1;
    for (int i = 0; places && i < w->chain->n; i++) {
        const sampled *s = &w->chain->all[i], other = other_of(w, s);
        scales[axis_of(w, s)] = scale_of(s, places);
        by_scales = by_scales && has_scale(s, places) && has_scale(&other, places);
        by_sizes = by_sizes && has_size(s, places) && other.to == s->to;
    }
    if (!by_scales && !by_sizes) {
        qn_onnx_export_fail(w->e, QN_ERROR_UNSUPPORTED,
                            "an axis is sampled in a way that ONNX has no operator for");
        return;
    }
    const char *inputs[4] = {w->x, w->chain->all[0].border == QN_BORDER_VALUE ? put_region(w) : "",
                             ""};
    if (by_scales)
        inputs[2] = qn_onnx_reals(w->e, qn_onnx_part(w->e, w->node, "scales"), scales, w->rank);
    else
        inputs[3] = put_sizes(w);
    put_attributes(w, put(w, "Resize", inputs, by_scales ? 3 : 4), places);
}

void qn_onnx_write_resample(qn_onnx_exporter *e, const qn_node *node) {
    static void (*const writers[])(const writing *w) = {
        [EXPAND] = write_expand, [SLICE] = write_slices,  [PAD] = write_pads,
        [TILE] = write_tiles,    [GATHER] = write_gather, [RESIZE] = write_resize};
    chain c;
    find_chain(qn_onnx_exporter_graph(e), node, &c);
    const qn_onnx_order order = qn_onnx_order_of(e, c.x);
    const writing w = {.e = e,
                       .node = node,
                       .chain = &c,
                       .order = order,
                       .x = qn_onnx_name(e, c.x, order),
                       .rank = qn_graph_shape(qn_onnx_exporter_graph(e), c.x).rank};
    for (int i = 0; i < c.n; i++) {
        if (other_of(&w, &c.all[i]).kind != c.all[i].kind)
            qn_onnx_export_fail(e, QN_ERROR_UNSUPPORTED, "an axis that depends on the batch");
    }
    writers[c.all[0].kind](&w);
}
