/* See foreign_weights.h. */
#include "format/foreign/foreign_weights.h"

#include "base/print.h"
#include "base/status.h"
#include "format/foreign/foreign_tensor.h"
#include "format/foreign/state_dict.h"
#include "format/safetensors.h"
#include "tensor/number.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Where a tensor of the file goes. */
typedef struct item {
    const qn_foreign_tensor *from;
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
    qn_safetensors file;        /* where it is one */
    qn_state_dict dict;         /* likewise */
    qn_foreign_tensor *of_file; /* (n_tensors) made of the former; null: they are the latter's */
    const qn_foreign_tensor *tensors; /* (n_tensors) either */
    size_t n_tensors;
    item *items;      /* (n_tensors) */
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

/* Without extents of 1. */
static qn_foreign_tensor squeeze(qn_foreign_tensor t) {
    int rank = 0;
    for (int i = 0; i < t.shape.rank; i++) {
        if (t.shape.dims[i] == 1)
            continue;
        t.shape.dims[rank] = t.shape.dims[i];
        t.strides[rank++] = t.strides[i];
    }
    t.shape.rank = rank;
    return t;
}

static qn_shape squeeze_shape(qn_shape shape) {
    return squeeze((qn_foreign_tensor){.shape = shape}).shape;
}

/* Equal shapes, but for extents of 1 where only rows and columns are left. */
static bool view_same(const qn_foreign_tensor *from, qn_shape here, view *v) {
    qn_foreign_tensor there = *from;
    if (!qn_shape_equal(there.shape, here)) {
        there = squeeze(there);
        if (there.shape.rank > 2 || !qn_shape_equal(there.shape, squeeze_shape(here)))
            return false;
    }
    v->rank = there.shape.rank;
    memcpy(v->extents, there.shape.dims, sizeof v->extents);
    memcpy(v->strides, there.strides, sizeof v->strides);
    return true;
}

/* (K, C, space...) there, (K, space..., C) here. */
static bool view_filter(const qn_foreign_tensor *from, qn_shape here, view *v) {
    const int last = here.rank - 1;
    if (from->shape.rank != here.rank || here.rank < 3)
        return view_same(from, here, v);
    v->rank = here.rank;
    for (int i = 0; i <= last; i++) {
        const int at = i == 0 ? 0 : i == last ? 1 : i + 1;
        if (from->shape.dims[at] != here.dims[i])
            return view_same(from, here, v) && squeeze_shape(here).rank <= 2;
        v->extents[i] = here.dims[i];
        v->strides[i] = from->strides[at];
    }
    return true;
}

/* (in, out) there, (out, in) here. */
static bool view_swapped(const qn_foreign_tensor *from, qn_shape here, view *v) {
    const qn_shape there = from->shape;
    if (there.rank != 2 || here.rank != 2 || there.dims[0] != here.dims[1] ||
        there.dims[1] != here.dims[0])
        return false;
    *v = (view){.rank = 2,
                .extents = {here.dims[0], here.dims[1]},
                .strides = {from->strides[1], from->strides[0]}};
    return true;
}

/* (K, C H W) there, (K, H W C) here. */
static bool view_image(const qn_foreign_tensor *from, qn_shape here, const int64_t chw[3],
                       view *v) {
    const int64_t c = chw[0], h = chw[1], w = chw[2], step = from->strides[1];
    if (here.rank != 2 || !qn_shape_equal(from->shape, here) || h * w < 1 ||
        c * h * w != here.dims[1])
        return false;
    *v = (view){.rank = 4,
                .extents = {here.dims[0], h, w, c},
                .strides = {from->strides[0], w * step, step, h * w * step}};
    return true;
}

/* How a tensor of the file lies in a parameter; false: it does not fit. */
static bool find_view(const qn_foreign_tensor *from, const qn_map_rule *rule, qn_shape here,
                      view *v) {
    const qn_map_layout layout = rule ? rule->layout : QN_LAYOUT_BY_SHAPE;
    *v = (view){.rank = 0};
    if (layout == QN_LAYOUT_SAME)
        return view_same(from, here, v);
    if (layout == QN_LAYOUT_SWAPPED)
        return view_swapped(from, here, v);
    if (layout == QN_LAYOUT_IMAGE)
        return view_image(from, here, rule->numbers, v);
    if (layout == QN_LAYOUT_PART) {
        if (here.rank < 1 || here.dims[0] % rule->numbers[1] != 0)
            return false;
        here.dims[0] /= rule->numbers[1];
        const bool fits = view_filter(from, here, v);
        v->begin = rule->numbers[0] * qn_shape_count(here);
        return fits;
    }
    return view_filter(from, here, v);
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

static qn_status match(loading *l, const qn_foreign_tensor *from, item *it) {
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
static void scatter(const qn_foreign_tensor *from, const void *data, const view *v, bool adds,
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
    const qn_status status = qn_file_read(l->from, it->from->begin, data, it->from->bytes);
    if (status == QN_OK)
        scatter(it->from, data, &v, t->is_sum && t->first == NULL, &to);
    t->first = NULL; /* it has come */
    qn_release(l->allocator, data, it->from->bytes, 1);
    return status;
}

/* ---- the file ---- */

static qn_status read_safetensors(loading *l) {
    l->file.takes_any_type = true;
    QN_TRY(qn_safetensors_read(&l->file, l->from));
    l->n_tensors = l->file.n_tensors;
    QN_TRY(qn_allocate(l->allocator, l->n_tensors, sizeof *l->of_file, &l->of_file));
    for (size_t i = 0; i < l->n_tensors; i++) {
        const qn_safetensor *t = &l->file.tensors[i];
        l->of_file[i] = (qn_foreign_tensor){.name = t->name,
                                            .dtype = t->dtype,
                                            .type = t->type,
                                            .shape = t->shape,
                                            .begin = l->file.data_offset + t->begin,
                                            .bytes = t->bytes};
        qn_foreign_tensor_pack(&l->of_file[i]);
    }
    l->tensors = l->of_file;
    return QN_OK;
}

static qn_status read_state_dict(loading *l) {
    const size_t n_bytes = (size_t)qn_file_bytes(l->from);
    const void *memory;
    QN_TRY(qn_file_map(l->from, &memory));
    qn_status status = qn_state_dict_parse(&l->dict, memory, n_bytes, l->options->key);
    if (status == QN_OK)
        status = qn_file_map_check(memory);
    qn_file_unmap(memory, n_bytes);
    l->tensors = l->dict.tensors;
    l->n_tensors = l->dict.n_tensors;
    if (status != QN_OK)
        return qn_fail_within(status, "%s", qn_file_path(l->from));
    qn_print(l->counts.key, sizeof l->counts.key, "%s", l->dict.path);
    qn_print(l->counts.other, sizeof l->counts.other, "%s", l->dict.other ? l->dict.other : "");
    return QN_OK;
}

/* Which kind of file it is is in its first bytes. */
static qn_status read_file(loading *l) {
    unsigned char first[16];
    const bool is_long = qn_file_bytes(l->from) >= (int64_t)sizeof first;
    if (is_long)
        QN_TRY(qn_file_read(l->from, 0, first, sizeof first));
    if (is_long && qn_state_dict_is(first, sizeof first))
        return read_state_dict(l);
    if (l->options->key)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "%s is no file of PyTorch: its tensors are under no key (--key)",
                       qn_file_path(l->from));
    return read_safetensors(l);
}

static qn_status load(loading *l) {
    QN_TRY(read_file(l));
    QN_TRY(qn_allocate(l->allocator, l->n_tensors, sizeof *l->items, &l->items));
    QN_TRY(qn_allocate(l->allocator, l->n_targets, sizeof *l->targets, &l->targets));
    for (size_t i = 0; i < l->n_tensors; i++)
        QN_TRY(match(l, &l->tensors[i], &l->items[i]));
    check_targets(l);
    if (l->n_bad > 0)
        return qn_fail(QN_ERROR_FORMAT, "%s: %lld tensors do not fit the model",
                       qn_file_path(l->from), (long long)l->n_bad);
    for (size_t i = 0; i < l->n_tensors; i++) {
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
    qn_state_dict_init(&l.dict, l.allocator);
    const qn_status status = load(&l);
    qn_release(l.allocator, l.items, l.n_tensors, sizeof *l.items);
    qn_release(l.allocator, l.of_file, l.n_tensors, sizeof *l.of_file);
    qn_release(l.allocator, l.targets, l.n_targets, sizeof *l.targets);
    qn_safetensors_deinit(&l.file);
    qn_state_dict_deinit(&l.dict);
    qn_file_close(l.from);
    *counts = l.counts;
    return status;
}
