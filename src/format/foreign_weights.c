/* See foreign_weights.h. */
#include "format/foreign_weights.h"

#include "base/print.h"
#include "base/status.h"
#include "format/safetensors.h"
#include "tensor/number.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Where a tensor of the file goes. */
typedef struct item {
    const qn_safetensor *from;
    const qn_map_rule *rule; /* or null */
    int to;                  /* tensor of the engine; -1: nowhere */
} item;

/* What has come for a tensor of the engine: parts by bit. */
typedef struct target {
    uint64_t parts;
    int n_parts; /* 0: nothing yet */
    bool is_sum;
    const char *first; /* that came */
} target;

typedef struct loading {
    qn_engine *engine;
    const qn_foreign_options *options;
    const qn_allocator *allocator;
    qn_file *from;
    qn_safetensors file;
    item *items;      /* (file.n_tensors) */
    target *targets;  /* (n_targets), by tensor of the engine */
    size_t n_targets; /* its tensors */
    int64_t n_bad;
    qn_foreign_counts counts;
} loading;

static void tell(loading *l, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Names a tensor that does not fit. */
static void tell(loading *l, const char *format, ...) {
    char text[2 * QN_MAP_NAME + 256];
    va_list arguments;
    l->n_bad++;
    if (!l->options->tell)
        return;
    va_start(arguments, format);
    qn_print_list(text, sizeof text, format, arguments);
    va_end(arguments);
    l->options->tell(l->options->user, text);
}

/* ---- shapes ---- */

/* The elements of a parameter, or of a part of it, in their order here, and where each is in the
 * file: at the sum of index * stride. */
typedef struct view {
    int rank;
    int64_t extents[QN_MAX_RANK], strides[QN_MAX_RANK];
    int64_t begin; /* first element here */
} view;

static void set_strides(qn_shape shape, int64_t strides[QN_MAX_RANK]) {
    int64_t stride = 1;
    for (int i = shape.rank - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= shape.dims[i];
    }
}

/* Without extents of 1. */
static qn_shape squeeze(qn_shape shape) {
    qn_shape kept = {.rank = 0};
    for (int i = 0; i < shape.rank; i++) {
        if (shape.dims[i] != 1)
            kept.dims[kept.rank++] = shape.dims[i];
    }
    return kept;
}

/* Equal shapes, but for extents of 1 where only rows and columns are left. */
static bool view_same(qn_shape there, qn_shape here, view *v) {
    if (!qn_shape_equal(there, here)) {
        there = squeeze(there);
        if (there.rank > 2 || !qn_shape_equal(there, squeeze(here)))
            return false;
    }
    v->rank = there.rank;
    memcpy(v->extents, there.dims, sizeof v->extents);
    set_strides(there, v->strides);
    return true;
}

/* (K, C, space...) there, (K, space..., C) here. */
static bool view_filter(qn_shape there, qn_shape here, view *v) {
    int64_t strides[QN_MAX_RANK];
    const int last = here.rank - 1;
    if (there.rank != here.rank || here.rank < 3)
        return view_same(there, here, v);
    set_strides(there, strides);
    v->rank = here.rank;
    for (int i = 0; i <= last; i++) {
        const int at = i == 0 ? 0 : i == last ? 1 : i + 1;
        if (there.dims[at] != here.dims[i])
            return view_same(there, here, v) && squeeze(here).rank <= 2;
        v->extents[i] = here.dims[i];
        v->strides[i] = strides[at];
    }
    return true;
}

/* (in, out) there, (out, in) here. */
static bool view_swapped(qn_shape there, qn_shape here, view *v) {
    if (there.rank != 2 || here.rank != 2 || there.dims[0] != here.dims[1] ||
        there.dims[1] != here.dims[0])
        return false;
    *v = (view){.rank = 2, .extents = {here.dims[0], here.dims[1]}, .strides = {1, here.dims[0]}};
    return true;
}

/* (K, C H W) there, (K, H W C) here. */
static bool view_image(qn_shape there, qn_shape here, const int64_t chw[3], view *v) {
    const int64_t c = chw[0], h = chw[1], w = chw[2];
    if (here.rank != 2 || !qn_shape_equal(there, here) || h * w < 1 || c * h * w != here.dims[1])
        return false;
    *v = (view){.rank = 4, .extents = {here.dims[0], h, w, c}, .strides = {c * h * w, w, 1, h * w}};
    return true;
}

/* How a tensor of the file lies in a parameter; false: it does not fit. */
static bool find_view(const qn_safetensor *from, const qn_map_rule *rule, qn_shape here, view *v) {
    const qn_map_layout layout = rule ? rule->layout : QN_LAYOUT_BY_SHAPE;
    *v = (view){.rank = 0};
    if (layout == QN_LAYOUT_SAME)
        return view_same(from->shape, here, v);
    if (layout == QN_LAYOUT_SWAPPED)
        return view_swapped(from->shape, here, v);
    if (layout == QN_LAYOUT_IMAGE)
        return view_image(from->shape, here, rule->numbers, v);
    if (layout == QN_LAYOUT_PART) {
        if (here.rank < 1 || here.dims[0] % rule->numbers[1] != 0)
            return false;
        here.dims[0] /= rule->numbers[1];
        const bool fits = view_filter(from->shape, here, v);
        v->begin = rule->numbers[0] * qn_shape_count(here);
        return fits;
    }
    return view_filter(from->shape, here, v);
}

/* ---- matching ---- */

static int find_parameter(const qn_engine *engine, const char *name) {
    for (int i = 0; i < qn_engine_tensor_count(engine); i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(engine, i);
        if (!t.is_state && strcmp(t.name, name) == 0)
            return i;
    }
    return -1;
}

/* Notes that an item's tensor comes for its target. */
static void note_part(loading *l, const item *it) {
    target *t = &l->targets[it->to];
    const qn_map_layout layout = it->rule ? it->rule->layout : QN_LAYOUT_BY_SHAPE;
    const bool is_part = layout == QN_LAYOUT_PART;
    const int n_parts = is_part ? (int)it->rule->numbers[1] : 1;
    const uint64_t part = UINT64_C(1) << (is_part ? it->rule->numbers[0] : 0);
    const bool is_sum = layout == QN_LAYOUT_ADDED;
    if (t->n_parts > 0 &&
        (t->n_parts != n_parts || t->is_sum != is_sum || (!is_sum && t->parts & part))) {
        tell(l, "%s and %s both go to %s", t->first, it->from->name,
             qn_engine_tensor_at(l->engine, it->to).name);
        return;
    }
    if (t->n_parts == 0)
        t->first = it->from->name;
    t->n_parts = n_parts;
    t->is_sum = is_sum;
    t->parts |= part;
}

static qn_status match(loading *l, const qn_safetensor *from, item *it) {
    char name[QN_MAP_NAME], there[QN_SHAPE_TEXT], here[QN_SHAPE_TEXT];
    view v;
    *it = (item){.from = from, .to = -1};
    snprintf(name, sizeof name, "%s", from->name);
    if (l->options->map)
        QN_TRY(qn_name_map_apply(l->options->map, from->name, name, &it->rule));
    if (!*name) {
        l->counts.n_left_out++;
        return QN_OK;
    }
    it->to = find_parameter(l->engine, name);
    qn_shape_print(from->shape, there);
    if (it->to < 0) {
        if (strcmp(name, from->name) == 0)
            tell(l,
                 "%s (%s) of the file: no row of the map matches it, and the model has no such "
                 "parameter",
                 from->name, there);
        else
            tell(l, "%s (%s) of the file becomes %s, which the model does not have", from->name,
                 there, name);
        return QN_OK;
    }
    const qn_shape shape = qn_engine_tensor_at(l->engine, it->to).shape;
    l->counts.n_used++;
    note_part(l, it);
    if (!qn_dtype_is_float(from->dtype))
        tell(l, "%s of the file is of type %s; weights are F32, F64, F16, BF16, F8_E4M3 or F8_E5M2",
             from->name, from->type);
    else if (!find_view(from, it->rule, shape, &v))
        tell(l, "%s (%s) of the file does not fit %s (%s)%s", from->name, there, name,
             qn_shape_print(shape, here),
             it->rule && it->rule->layout != QN_LAYOUT_BY_SHAPE ? " in the map's layout" : "");
    return QN_OK;
}

static void check_targets(loading *l) {
    char shape[QN_SHAPE_TEXT];
    for (size_t i = 0; i < l->n_targets; i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(l->engine, (int)i);
        const target *to = &l->targets[i];
        const uint64_t all = to->n_parts == 64 ? UINT64_MAX : (UINT64_C(1) << to->n_parts) - 1;
        if (t.is_state)
            continue;
        l->counts.n_filled += to->n_parts > 0;
        l->counts.n_kept += to->n_parts == 0;
        if (to->n_parts == 0 && !l->options->is_partial)
            tell(l, "%s (%s) of the model: no tensor of the file goes to it", t.name,
                 qn_shape_print(t.shape, shape));
        else if (to->parts != all)
            tell(l, "%s of the model: not all of its %d parts are in the file", t.name,
                 to->n_parts);
    }
}

/* ---- filling ---- */

/* Adds to elements, or sets them. */
static void scatter(const qn_safetensor *from, const void *data, const view *v, bool adds,
                    const qn_stored_tensor *to) {
    int64_t index[QN_MAX_RANK] = {0}, at = 0, count = 1;
    for (int i = 0; i < v->rank; i++)
        count *= v->extents[i];
    for (int64_t i = 0; i < count; i++) {
        const double value = qn_number_get(from->dtype, data, at);
        const double before = adds ? qn_number_get(to->dtype, to->data, v->begin + i) : 0;
        qn_number_set(to->dtype, to->data, v->begin + i, value + before);
        for (int axis = v->rank - 1; axis >= 0; axis--) {
            at += v->strides[axis];
            if (++index[axis] < v->extents[axis])
                break;
            at -= v->strides[axis] * v->extents[axis];
            index[axis] = 0;
        }
    }
}

static qn_status fill(loading *l, const item *it) {
    const qn_stored_tensor to = qn_engine_tensor_at(l->engine, it->to);
    target *t = &l->targets[it->to];
    void *data;
    view v;
    find_view(it->from, it->rule, to.shape, &v);
    QN_TRY(qn_allocate(l->allocator, it->from->bytes, 1, &data));
    const qn_status status =
        qn_file_read(l->from, l->file.data_offset + it->from->begin, data, it->from->bytes);
    if (status == QN_OK)
        scatter(it->from, data, &v, t->is_sum && t->first == NULL, &to);
    t->first = NULL; /* it has come */
    qn_release(l->allocator, data, it->from->bytes, 1);
    return status;
}

static qn_status load(loading *l) {
    l->file.takes_any_type = true;
    QN_TRY(qn_safetensors_read(&l->file, l->from));
    QN_TRY(qn_allocate(l->allocator, l->file.n_tensors, sizeof *l->items, &l->items));
    QN_TRY(qn_allocate(l->allocator, l->n_targets, sizeof *l->targets, &l->targets));
    for (size_t i = 0; i < l->file.n_tensors; i++)
        QN_TRY(match(l, &l->file.tensors[i], &l->items[i]));
    check_targets(l);
    if (l->n_bad > 0)
        return qn_fail(QN_ERROR_FORMAT, "%s: %lld tensors do not fit the model",
                       qn_file_path(l->from), (long long)l->n_bad);
    for (size_t i = 0; i < l->file.n_tensors; i++) {
        if (l->items[i].to >= 0)
            QN_TRY(fill(l, &l->items[i]));
    }
    return QN_OK;
}

qn_status qn_foreign_weights_load(qn_engine *engine, const char *path,
                                  const qn_foreign_options *options, qn_foreign_counts *counts) {
    loading l = {.engine = engine,
                 .options = options,
                 .allocator = qn_engine_allocator(engine),
                 .n_targets = (size_t)qn_engine_tensor_count(engine)};
    QN_TRY(qn_file_open(l.allocator, path, &l.from));
    qn_safetensors_init(&l.file, l.allocator);
    const qn_status status = load(&l);
    qn_release(l.allocator, l.items, l.file.n_tensors, sizeof *l.items);
    qn_release(l.allocator, l.targets, l.n_targets, sizeof *l.targets);
    qn_safetensors_deinit(&l.file);
    qn_file_close(l.from);
    *counts = l.counts;
    return status;
}
