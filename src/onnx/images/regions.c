/* Regions of images. RoiAlign reads them over the cells of a grid (He et al. 2017); gradients flow
 * to what is read and to the regions. NonMaxSuppression chooses boxes, at import alone: how many
 * are left follows from the data, and what follows from them has no shape that could be planned. */
#include "base/status.h"
#include "onnx/axes.h"
#include "onnx/fold.h"
#include "onnx/images/sample.h"
#include "onnx/operators/formula.h"

#include <math.h>
#include <string.h>

enum { MOST_SAMPLES = 64 };

/* ---- RoiAlign ---- */

/* Of each axis, rows first: cells, the samples that a cell may have, and (n, 1) how many it has
 * where the region decides (QN_NO_VALUE: all). */
typedef struct regions {
    qn_onnx_sampling s;
    int64_t n;
    int64_t cells[2], samples[2];
    qn_value counts[2];
    double scale, shift;
    bool is_half_pixel, is_most, is_adaptive;
} regions;

/* As many samples as the largest region that is known has in a cell, or one as large as the image.
 */
static qn_status count_samples(qn_onnx_call *call, regions *r) {
    const qn_onnx_constant *c = qn_onnx_is_known(call, 1) ? qn_onnx_constant_of(call, 1) : NULL;
    const qn_shape x = qn_onnx_shape(call, 0);
    for (int axis = 0; axis < 2; axis++) {
        double most = c ? 0 : (double)x.dims[2 + axis] + 1;
        for (int64_t i = 0; c && c->reals && i < r->n; i++) {
            const double *box = c->reals + i * 4;
            most = fmax(most, (box[3 - axis] - box[1 - axis]) * r->scale);
        }
        const double samples = ceil(most / (double)r->cells[axis]);
        if (!(samples <= MOST_SAMPLES))
            return qn_fail(QN_ERROR_UNSUPPORTED,
                           "a cell of its largest region has %g samples along an axis, where %d "
                           "are the most: export with a sampling_ratio, such as 2",
                           samples, MOST_SAMPLES);
        r->samples[axis] = samples > 1 ? (int64_t)samples : 1;
    }
    return QN_OK;
}

static qn_status read_samples(qn_onnx_call *call, regions *r) {
    const int64_t given = qn_onnx_int(call, "sampling_ratio", 0);
    if (given < 0 || given > MOST_SAMPLES)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "sampling_ratio is %lld: export with one of 0 to %d, such as 2",
                       (long long)given, MOST_SAMPLES);
    r->is_adaptive = given == 0;
    r->samples[0] = r->samples[1] = given;
    if (r->is_adaptive)
        QN_TRY(count_samples(call, r));
    r->s.n = r->n * r->cells[0] * r->samples[0] * r->cells[1] * r->samples[1];
    return qn_onnx_check_made(r->s.n);
}

static qn_status read_regions(qn_onnx_call *call, regions *r) {
    const qn_shape rois = qn_onnx_shape(call, 1), which = qn_onnx_shape(call, 2);
    const char *mode = qn_onnx_text(call, "mode", "avg");
    const char *transform = qn_onnx_text(call, "coordinate_transformation_mode",
                                         call->opset < 16 ? "output_half_pixel" : "half_pixel");
    *r = (regions){
        .n = rois.dims[0],
        .cells = {qn_onnx_int(call, "output_height", 1), qn_onnx_int(call, "output_width", 1)},
        .counts = {QN_NO_VALUE, QN_NO_VALUE},
        .scale = qn_onnx_float(call, "spatial_scale", 1),
        .is_half_pixel = strcmp(transform, "half_pixel") == 0,
        .is_most = strcmp(mode, "max") == 0};
    r->shift = r->is_half_pixel ? -0.5 : 0;
    if (rois.rank != 2 || rois.dims[1] != 4 || which.rank != 1 || which.dims[0] != r->n ||
        qn_onnx_shape(call, 0).rank != 4)
        return qn_fail(QN_ERROR_FORMAT, "its regions are not four numbers each, and a sample's");
    for (int axis = 0; axis < 2; axis++) {
        if (r->cells[axis] < 1 || r->cells[axis] > 1 << 12)
            return qn_fail(QN_ERROR_FORMAT, "its output has %lld x %lld cells",
                           (long long)r->cells[0], (long long)r->cells[1]);
    }
    return read_samples(call, r);
}

/* Extents (n, 1) of an axis, and where the regions begin. */
static qn_value region_extent(const regions *r, qn_value rois, int axis, qn_value *begin) {
    qn_onnx_call *call = r->s.call;
    qn_value ends[2];
    for (int i = 0; i < 2; i++) {
        const int column = (axis == 0 ? 1 : 0) + 2 * i;
        ends[i] =
            qn_slice(call->graph, qn_onnx_side_name(call, "end"), rois, 1, column, column + 1);
        ends[i] = qn_onnx_line(call, "scaled", ends[i], r->scale, r->shift);
    }
    *begin = ends[0];
    const qn_value size = qn_onnx_combine(call, "size", QN_COMBINE_SUBTRACT, ends[1], ends[0]);
    return r->is_half_pixel ? size : qn_onnx_cut(call, "least", size, 1, (double)INT32_MAX);
}

/* Samples of a cell, (n, 1): as many as its extent has elements, rounded up. No region may have
 * more than there is room for: then it is no number, which stops training. */
static qn_value region_count(const regions *r, qn_value size, int axis) {
    qn_onnx_call *call = r->s.call;
    const qn_value less = qn_onnx_line(call, "cell", size, -1 / (double)r->cells[axis], 0);
    const qn_value n = qn_onnx_line(
        call, "count", qn_onnx_apply_kind(call, "whole", less, QN_FUNCTION_FLOOR), -1, 0);
    const qn_value inside =
        qn_onnx_combine(call, "fits", QN_COMBINE_EQUAL, n,
                        qn_onnx_cut(call, "room", n, -INFINITY, (double)r->samples[axis]));
    const qn_value none = qn_onnx_line(call, "none", inside, -1, 1);
    return qn_onnx_where(call, "counted", none, qn_onnx_scalar(call, "nothing", NAN),
                         qn_onnx_cut(call, "counts", n, 0, (double)r->samples[axis]));
}

/* Of each sample of a line: its place among all in shares of the region, the number of its cell, or
 * its place among those of its cell. */
typedef enum line_kind { OF_REGION, OF_CELLS, OF_CELL } line_kind;

static qn_value line_numbers(const regions *r, int axis, line_kind kind) {
    const int64_t each = r->samples[axis], n = r->cells[axis] * each;
    double *numbers = qn_onnx_scratch(r->s.call, (size_t)(n + 1) * sizeof *numbers);
    for (int64_t i = 0; numbers && i < n; i++)
        numbers[i] = kind == OF_REGION  ? ((double)i + 0.5) / (double)n
                     : kind == OF_CELLS ? (double)(i / each)
                                        : (double)(i % each) + 0.5;
    return numbers ? qn_onnx_made_value(r->s.call, "parts", QN_SHAPE(1, n), numbers) : QN_NO_VALUE;
}

/* Coordinates along an axis of all samples of a region's cells, (n, cells * samples):
 *     begin + (cell + (sample + 1/2) / count) / cells * size */
static qn_value region_line(regions *r, qn_value rois, int axis) {
    qn_onnx_call *call = r->s.call;
    qn_value begin, size = region_extent(r, rois, axis, &begin), at;
    if (r->is_adaptive) {
        r->counts[axis] = region_count(r, size, axis);
        at = qn_onnx_combine(call, "share", QN_COMBINE_DIVIDE, line_numbers(r, axis, OF_CELL),
                             qn_onnx_cut(call, "one", r->counts[axis], 1, INFINITY));
        at = qn_onnx_combine(call, "cell", QN_COMBINE_ADD, at, line_numbers(r, axis, OF_CELLS));
        at = qn_onnx_line(call, "shares", at, 1 / (double)r->cells[axis], 0);
    } else {
        at = line_numbers(r, axis, OF_REGION);
    }
    at = qn_onnx_combine(call, "part", QN_COMBINE_MULTIPLY, size, at);
    return qn_onnx_combine(call, "places", QN_COMBINE_ADD, at, begin);
}

/* Of a line of an axis, (n, cells * samples), one for all places, (places, 1). */
static qn_value spread_line(const regions *r, qn_value line, int axis) {
    const int64_t rows = r->cells[0] * r->samples[0], columns = r->cells[1] * r->samples[1];
    line = qn_onnx_reshaped(r->s.call, "line", line,
                            axis == 0 ? QN_SHAPE(r->n, rows, 1) : QN_SHAPE(r->n, 1, columns));
    line = qn_expand(r->s.call->graph, qn_onnx_side_name(r->s.call, "spread"), line,
                     QN_SHAPE(r->n, rows, columns));
    return qn_onnx_reshaped(r->s.call, "flat", line, QN_SHAPE(r->s.n, 1));
}

/* 1 where a coordinate is not more than 1 before the first and after the last element. */
static qn_value is_near(const regions *r, int axis, qn_value at) {
    return qn_onnx_combine(r->s.call, "near", QN_COMBINE_EQUAL, at,
                           qn_onnx_cut(r->s.call, "cut", at, -1, (double)r->s.extents[axis]));
}

/* 1 where a sample is one of those that its cell has, (places, 1). */
static qn_value is_counted(const regions *r, int axis) {
    qn_onnx_call *call = r->s.call;
    const qn_value is = qn_onnx_combine(call, "counted", QN_COMBINE_LESS,
                                        line_numbers(r, axis, OF_CELL), r->counts[axis]);
    return spread_line(r, is, axis);
}

/* The samples of each cell as one number. counted: 1 for those that count, or QN_NO_VALUE. */
static qn_value join_samples(const regions *r, qn_value y, qn_value counted, int64_t channels) {
    qn_onnx_call *call = r->s.call;
    const int rows = (int)r->samples[0], columns = (int)r->samples[1];
    const qn_window window = {
        .kernel_h = rows, .kernel_w = columns, .stride_h = rows, .stride_w = columns};
    const char *name = r->is_adaptive ? qn_onnx_side_name(call, "joined") : call->name;
    if (r->is_adaptive)
        y = qn_onnx_where(call, "those", counted, y,
                          qn_onnx_scalar(call, "others", r->is_most ? -INFINITY : 0));
    y = qn_onnx_reshaped(call, "samples", y,
                         QN_SHAPE(r->n, r->cells[0] * rows, r->cells[1] * columns, channels));
    y = r->is_most ? qn_max_pool(call->graph, name, y, window)
                   : qn_average_pool(call->graph, name, y, window);
    if (!r->is_adaptive)
        return y;
    const qn_value n =
        qn_onnx_combine(call, "all", QN_COMBINE_MULTIPLY, r->counts[0], r->counts[1]);
    const qn_value each = qn_onnx_reshaped(call, "each", n, QN_SHAPE(r->n, 1, 1, 1));
    if (r->is_most) { /* of no samples 0 */
        const qn_value some =
            qn_onnx_combine(call, "some", QN_COMBINE_LESS, qn_onnx_scalar(call, "zero", 0), each);
        return qn_onnx_where(call, NULL, some, y, qn_onnx_line(call, "no", each, 1, 0));
    }
    y = qn_onnx_line(call, "sum", y, (double)rows * columns, 0);
    return qn_onnx_combine(call, NULL, QN_COMBINE_DIVIDE, y,
                           qn_onnx_cut(call, "count", each, 1, INFINITY));
}

/* Which sample each place reads, (places, 1). */
static qn_value spread_samples(const regions *r) {
    qn_onnx_call *call = r->s.call;
    qn_value which = qn_onnx_as_reals(call, qn_onnx_plain(call, 2));
    which = qn_onnx_reshaped(call, "which", which, QN_SHAPE(r->n, 1, 1));
    which = qn_expand(call->graph, qn_onnx_side_name(call, "each"), which,
                      QN_SHAPE(r->n, r->cells[0] * r->samples[0], r->cells[1] * r->samples[1]));
    return qn_onnx_reshaped(call, "sample", which, QN_SHAPE(r->s.n, 1));
}

static qn_status build_roi_align(qn_onnx_call *call) {
    const int64_t channels = qn_onnx_shape(call, 0).dims[1];
    qn_value at[2], near = QN_NO_VALUE, counted = QN_NO_VALUE;
    regions r;
    QN_TRY(read_regions(call, &r));
    QN_TRY(qn_onnx_sampling_init(call, r.s.n, &r.s));
    const qn_value rois = qn_onnx_as_reals(call, qn_onnx_plain(call, 1));
    r.s.sample = spread_samples(&r);
    for (int i = 0; i < 2; i++) {
        at[i] = spread_line(&r, region_line(&r, rois, i), i);
        const qn_value is = is_near(&r, i, at[i]);
        near = i == 0 ? is : qn_onnx_combine(call, "both", QN_COMBINE_MULTIPLY, near, is);
        at[i] = qn_onnx_cut(call, "within", at[i], 0, (double)r.s.extents[i] - 1);
        if (r.is_adaptive) {
            const qn_value has = is_counted(&r, i);
            counted =
                i == 0 ? has : qn_onnx_combine(call, "counts", QN_COMBINE_MULTIPLY, counted, has);
        }
    }
    qn_value y = qn_onnx_sample_linear(&r.s, at, r.is_most);
    y = qn_onnx_combine(call, "kept", QN_COMBINE_MULTIPLY, y, near);
    qn_onnx_give(call, 0, join_samples(&r, y, counted, channels), true);
    return call->graph->status;
}

/* ---- NonMaxSuppression ---- */

/* What is chosen from, of one sample and class at a time. */
typedef struct choice {
    const double *boxes, *scores; /* (n, 4), (n) */
    int64_t n, most;
    double overlap, least;
    bool has_least, is_centred;
    int64_t *chosen; /* (most) */
    int64_t n_chosen;
} choice;

/* Least and most of an axis of a box: its ends in either order, or its centre and extent. */
static void box_ends(const choice *c, int64_t box, int axis, double ends[2]) {
    const double *b = c->boxes + box * 4;
    const double a = b[axis], z = b[axis + 2];
    ends[0] = c->is_centred ? a - z / 2 : fmin(a, z);
    ends[1] = c->is_centred ? a + z / 2 : fmax(a, z);
}

/* Whether what two boxes share is more of what they cover than the limit. */
static bool do_overlap(const choice *c, int64_t i, int64_t j) {
    double both = 1, areas[2] = {1, 1};
    for (int axis = 0; axis < 2; axis++) {
        double a[2], b[2];
        box_ends(c, i, axis, a);
        box_ends(c, j, axis, b);
        both *= fmax(0, fmin(a[1], b[1]) - fmax(a[0], b[0]));
        areas[0] *= a[1] - a[0];
        areas[1] *= b[1] - b[0];
    }
    const double all = areas[0] + areas[1] - both;
    return areas[0] > 0 && areas[1] > 0 && all > 0 && both / all > c->overlap;
}

/* The best score that is neither taken nor like one that is; -1: none is left. */
static int64_t choose_next(const choice *c) {
    int64_t best = -1;
    for (int64_t i = 0; i < c->n; i++) {
        bool is_free = !c->has_least || c->scores[i] > c->least;
        for (int64_t k = 0; is_free && k < c->n_chosen; k++)
            is_free = c->chosen[k] != i && !do_overlap(c, c->chosen[k], i);
        if (is_free && (best < 0 || c->scores[i] > c->scores[best]))
            best = i;
    }
    return best;
}

static void choose_boxes(choice *c) {
    c->n_chosen = 0;
    while (c->n_chosen < c->most) {
        const int64_t next = choose_next(c);
        if (next < 0)
            return;
        c->chosen[c->n_chosen++] = next;
    }
}

/* A number that may be left out. */
static qn_status read_limit(qn_onnx_call *call, int input, double fallback, double *number) {
    const qn_onnx_constant *c;
    const double *numbers;
    *number = fallback;
    if (!qn_onnx_has(call, input))
        return QN_OK;
    QN_TRY(qn_onnx_numbers_of(call, input, &c, &numbers));
    if (c->n != 1)
        return qn_fail(QN_ERROR_FORMAT, "its input %d is not one number", input);
    *number = numbers[0];
    return QN_OK;
}

static qn_status read_choice(qn_onnx_call *call, choice *c) {
    const qn_shape boxes = qn_onnx_shape(call, 0), scores = qn_onnx_shape(call, 1);
    double most;
    if (boxes.rank != 3 || boxes.dims[2] != 4 || scores.rank != 3 ||
        scores.dims[0] != boxes.dims[0] || scores.dims[2] != boxes.dims[1])
        return qn_fail(QN_ERROR_FORMAT, "its boxes and scores do not go together");
    *c = (choice){.n = boxes.dims[1],
                  .has_least = qn_onnx_has(call, 4),
                  .is_centred = qn_onnx_int(call, "center_point_box", 0) != 0};
    QN_TRY(read_limit(call, 2, 0, &most));
    QN_TRY(read_limit(call, 3, 0, &c->overlap));
    QN_TRY(read_limit(call, 4, 0, &c->least));
    c->most = most < 0 ? 0 : most < (double)c->n ? (int64_t)most : c->n;
    const double lists = (double)scores.dims[0] * (double)scores.dims[1];
    if (lists > 1e9 || lists * (double)c->n * (double)c->most * (double)c->most > 1e9)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "it chooses %lld of %lld boxes at import, which is "
                       "too many",
                       (long long)c->most, (long long)c->n);
    c->chosen = qn_onnx_scratch(call, ((size_t)c->most + 1) * sizeof *c->chosen);
    return c->chosen ? QN_OK : QN_ERROR_MEMORY;
}

static qn_status build_non_max(qn_onnx_call *call) {
    for (int i = 0; i < 2; i++) {
        if (!call->inputs[i]->constant && !call->inputs[i]->initializer)
            return qn_fail(QN_ERROR_UNSUPPORTED,
                           "how many boxes it chooses follows from the data, which a network that "
                           "trains cannot wait for: export what comes before it");
    }
    const qn_onnx_constant *boxes = qn_onnx_constant_of(call, 0),
                           *scores = qn_onnx_constant_of(call, 1);
    choice c;
    if (!boxes || !scores || !boxes->reals || !scores->reals)
        return qn_fail(QN_ERROR_FORMAT, "its boxes or scores are no reals");
    QN_TRY(read_choice(call, &c));
    const int64_t classes = scores->shape.dims[1], lists = scores->shape.dims[0] * classes;
    int64_t n = 0;
    int64_t *rows = qn_onnx_scratch(call, ((size_t)(lists * c.most) * 3 + 1) * sizeof *rows);
    for (int64_t list = 0; rows && list < lists; list++) {
        c.boxes = boxes->reals + list / classes * c.n * 4;
        c.scores = scores->reals + list * c.n;
        choose_boxes(&c);
        for (int64_t k = 0; k < c.n_chosen; k++, n++) {
            rows[3 * n] = list / classes;
            rows[3 * n + 1] = list % classes;
            rows[3 * n + 2] = c.chosen[k];
        }
    }
    return rows ? qn_onnx_give_whole(call, 0, QN_ONNX_INT64, QN_SHAPE(n, 3), rows)
                : QN_ERROR_MEMORY;
}

const qn_onnx_translator qn_onnx_region_translators[] = {
    {"RoiAlign", 3, 3, build_roi_align},
    {"NonMaxSuppression", 2, 5, build_non_max},
    {NULL, 0, 0, NULL},
};
