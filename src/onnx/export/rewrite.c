/* Imported networks go out as the file that they came from, with other numbers: what was trained is
 * put where it was read, in the file's order of axes and its type; all else stays (names, types,
 * layout, open axes, operators, what the file says of itself). Only where a head has another width
 * does an output get another extent. */
#include "base/status.h"
#include "format/safetensors.h"
#include "onnx/export/export.h"
#include "onnx/import.h"
#include "onnx/properties/class_names.h"
#include "onnx/properties/inside.h"
#include "passes/head.h"
#include "tensor/number.h"

#include <stdio.h>
#include <string.h>

typedef struct rewriting {
    const qn_onnx_export_options *options;
    qn_onnx_exporter *exporter; /* for its memory, and nodes of the preparation */
    qn_onnx_network *network;
    qn_file *file; /* of the options' weights, mapped; null: the engine has them */
    const void *mapped;
    qn_safetensors stored;
    qn_onnx_changes changes;
    qn_onnx_change *tensors;
    qn_onnx_source *sources;
    qn_onnx_property *properties;
} rewriting;

enum { SLICES_BYTES = 4 << 20, MOST_ADDED = 4, MOST_CHANGED = 2 };

/* A parameter whose numbers become a tensor of the file. */
typedef struct conversion {
    const qn_onnx_record *record;
    qn_stored_tensor stored; /* in memory, or in a mapped checkpoint */
    qn_dtype dtype;          /* of the file's */
    bool is_same;            /* the bytes are the file's */
    const int64_t *dims;     /* (n_dims) of the file's */
    int64_t strides[QN_MAX_RANK];
} conversion;

/* Where element i of the file's tensor is in the parameter. */
static int64_t place_of(const conversion *c, int64_t i) {
    const qn_onnx_record *record = c->record;
    int64_t at = 0;
    for (int axis = record->n_dims - 1; axis >= 0; i /= c->dims[axis--]) {
        for (int k = 0; k < record->n_dims; k++)
            at += record->order[k] == axis ? i % c->dims[axis] * c->strides[k] : 0;
    }
    return at;
}

static void convert_one(const conversion *c, int64_t i, void *to) {
    const double one = qn_number_get(c->stored.dtype, c->stored.data, place_of(c, i));
    qn_numbers_convert(QN_F64, &one, c->dtype, to, 0, 1);
}

/* Where the numbers of some slices of the parameter's first axis are among those of the file: slice
 * s has run numbers from every (i * n + s) * run on. */
typedef struct slices {
    int64_t n, run, first, behind;
} slices;

/* Numbers [begin, end) of the file's tensor, as far as they are of these slices. */
static void convert_slices(const conversion *c, const slices *s, int64_t begin, int64_t end,
                           char *to) {
    const size_t width = qn_dtype_bytes(c->dtype);
    const int64_t block = s->n * s->run;
    for (int64_t start = begin - begin % block; start < end; start += block) {
        const int64_t from = start + s->first * s->run, behind = start + s->behind * s->run;
        for (int64_t i = from < begin ? begin : from; i < (behind < end ? behind : end); i++)
            convert_one(c, i, to + (size_t)(i - begin) * width);
    }
}

/* The same of all slices, some at a time: a checkpoint in another order of axes is never in memory
 * as a whole. */
static void convert_numbers(const conversion *c, int64_t begin, int64_t end, char *to) {
    const qn_onnx_record *record = c->record;
    slices s = {.n = record->n_dims > 0 ? c->stored.shape.dims[0] : 1, .run = 1};
    const int64_t bytes = (int64_t)c->stored.bytes / s.n;
    const int64_t at_once = bytes > 0 && bytes < SLICES_BYTES ? SLICES_BYTES / bytes : 1;
    for (int i = record->n_dims - 1; i >= 0 && i > record->order[0]; i--)
        s.run *= c->dims[i];
    for (; s.first < s.n; s.first += at_once) {
        s.behind = s.first + at_once < s.n ? s.first + at_once : s.n;
        convert_slices(c, &s, begin, end, to);
        qn_file_forget(c->stored.data);
    }
}

static qn_status read_numbers(const qn_onnx_source *source, size_t offset, size_t bytes, void *to) {
    const conversion *c = source->context;
    const int64_t width = (int64_t)qn_dtype_bytes(c->dtype), begin = (int64_t)offset / width;
    if (c->is_same)
        memcpy(to, (const char *)c->stored.data + offset, bytes);
    else
        convert_numbers(c, begin, begin + (int64_t)bytes / width, to);
    qn_file_forget(c->stored.data); /* what was read need not stay in memory */
    return qn_file_map_check_same(c->stored.data);
}

static bool is_in_order(const qn_onnx_record *record) {
    bool is = true;
    for (int i = 0; i < record->n_dims; i++)
        is = is && record->order[i] == i;
    return is;
}

static qn_status begin_conversion(rewriting *r, const qn_onnx_record *record,
                                  const qn_stored_tensor *stored, qn_onnx_type type,
                                  conversion **begun) {
    const int rank = record->n_dims;
    int64_t *dims = qn_onnx_room(r->exporter, (size_t)rank + 1, sizeof *dims);
    conversion *c = qn_onnx_room(r->exporter, 1, sizeof *c);
    if (!dims || !c)
        return QN_ERROR_MEMORY;
    *c = (conversion){
        .record = record, .stored = *stored, .dtype = qn_onnx_dtype_of(type), .dims = dims};
    c->is_same = c->dtype == stored->dtype && is_in_order(record);
    for (int i = 0; i < rank; i++) {
        dims[record->order[i]] = stored->shape.dims[i];
        c->strides[i] = qn_shape_count_range(stored->shape, i + 1, rank);
    }
    *begun = c;
    return QN_OK;
}

static bool has_shape_of(const qn_onnx_tensor *tensor, const int64_t *dims, int n) {
    return tensor->n_dims == n &&
           (n == 0 || memcmp(tensor->dims, dims, (size_t)n * sizeof *dims) == 0);
}

/* The parameter's numbers as the file has them: made now, or, where they are many of the file's own
 * shape, when they are written. */
static qn_status convert(rewriting *r, const qn_onnx_record *record, const qn_stored_tensor *stored,
                         qn_onnx_tensor *tensor) {
    conversion *c;
    QN_TRY(begin_conversion(r, record, stored, tensor->type, &c));
    qn_onnx_source *source = &r->sources[r->changes.n_sources++];
    *source = (qn_onnx_source){read_numbers, c};
    const bool is_later = has_shape_of(tensor, c->dims, record->n_dims) && tensor->bytes > 4096;
    tensor->n_dims = record->n_dims;
    tensor->dims = c->dims;
    tensor->bytes = (size_t)qn_shape_count(stored->shape) * qn_onnx_type_bytes(tensor->type);
    if (is_later) {
        tensor->source = source;
        tensor->data = source;
        return QN_OK;
    }
    void *data = qn_onnx_room(r->exporter, tensor->bytes + 1, 1);
    tensor->data = data;
    return data ? read_numbers(source, 0, tensor->bytes, data) : QN_ERROR_MEMORY;
}

/* The width of a head that was made anew, from what has another shape than the file's. */
static void note_width(rewriting *r, const qn_onnx_tensor *old, const qn_onnx_tensor *new) {
    for (int i = 0; i < new->n_dims; i++) {
        if (old->dims[i] != new->dims[i]) {
            r->changes.old_width = old->dims[i];
            r->changes.width = new->dims[i];
        }
    }
}

/* Whether an item is a name of its own for a tensor, and what changes in the file then. */
static qn_onnx_change_kind kind_of(const rewriting *r, const qn_onnx_record *record) {
    const qn_onnx_model *m = r->network->source;
    if (strcmp(record->item, record->tensor->name) == 0 || record->is_constant_node)
        return QN_ONNX_CHANGE_NUMBERS;
    for (int n = 0; n < m->n_nodes; n++) {
        if (m->nodes[n].n_outputs > 0 && strcmp(m->nodes[n].outputs[0], record->item) == 0)
            return QN_ONNX_CHANGE_ADD;
    }
    return QN_ONNX_CHANGE_READ;
}

/* A parameter of the checkpoint, or of the engine. */
static qn_stored_tensor find_stored(const rewriting *r, const char *name) {
    if (!r->file)
        return qn_engine_find(r->options->engine, name);
    const qn_safetensor *t = qn_safetensors_find(&r->stored, name);
    qn_stored_tensor stored = {.name = name};
    if (t) {
        stored.dtype = t->dtype;
        stored.shape = t->shape;
        stored.bytes = t->bytes;
        stored.data = (char *)r->mapped + r->stored.data_offset + t->begin;
    }
    return stored;
}

static qn_status add_record(rewriting *r, const qn_onnx_record *record) {
    const qn_stored_tensor stored = find_stored(r, record->parameter);
    qn_onnx_change *c = &r->tensors[r->changes.n_tensors];
    if (!stored.data || stored.shape.rank != record->n_dims)
        return qn_fail(QN_ERROR_ARGUMENT, "the weights have no %s of the network's shape",
                       record->parameter);
    *c = (qn_onnx_change){.kind = kind_of(r, record),
                          .tensor = *record->tensor,
                          .node = record->node,
                          .input = record->input};
    QN_TRY(convert(r, record, &stored, &c->tensor));
    c->tensor.name = record->item;
    note_width(r, record->tensor, &c->tensor);
    r->changes.n_tensors++;
    return QN_OK;
}

/* Every parameter that the network has. */
static qn_status add_records(rewriting *r) {
    int n = 0;
    for (const qn_onnx_record *record = r->network->records; record; record = record->next)
        n++;
    r->tensors =
        qn_onnx_room(r->exporter, (size_t)n + MOST_ADDED + MOST_CHANGED, sizeof *r->tensors);
    r->sources = qn_onnx_room(r->exporter, (size_t)n + 1, sizeof *r->sources);
    if (!r->tensors || !r->sources)
        return QN_ERROR_MEMORY;
    r->changes.sources = r->sources;
    for (const qn_onnx_record *record = r->network->records;
         record && (r->options->engine || r->file); record = record->next)
        QN_TRY(add_record(r, record));
    return QN_OK;
}

/* ---- properties ---- */

/* Names of classes that the file had in another program's way are no longer so, where the outputs
 * are other classes now. */
static qn_status drop_names(rewriting *r, qn_onnx_property **to) {
    const qn_onnx_model *m = r->network->source;
    const qn_preparation *p = r->options->preparation;
    const qn_class_list now = {p && p->class_names ? p->n_classes : 0, p ? p->class_names : NULL};
    qn_class_list before;
    for (int i = 0; i < m->n_properties && now.n > 0; i++) {
        const qn_onnx_property *was = &m->properties[i];
        if (!qn_onnx_is_class_key(was->key))
            continue;
        QN_TRY(qn_class_list_read(was->value, strlen(was->value), &r->network->arena, &before));
        if (before.n > 0 && !qn_class_list_equal(&before, &now))
            *(*to)++ = (qn_onnx_property){was->key, NULL};
    }
    return QN_OK;
}

static qn_status add_properties(rewriting *r, const qn_metadata *pairs) {
    const qn_model *model = r->options->model;
    const int n = qn_metadata_count(pairs);
    const size_t n_most = (size_t)n + (size_t)r->network->source->n_properties + 2;
    r->properties = qn_onnx_room(r->exporter, n_most, sizeof *r->properties);
    if (!r->properties)
        return QN_ERROR_MEMORY;
    qn_onnx_property *p = r->properties;
    if (n > 0)
        *p++ = (qn_onnx_property){"quern.task", model->task ? model->task : "classification"};
    for (int i = 0; i < n; i++, p++) {
        const char *key, *value;
        qn_metadata_at(pairs, i, &key, &value);
        p->key = qn_onnx_text_with(r->exporter, "quern.", key);
        p->value = value;
        if (!p->key)
            return QN_ERROR_MEMORY;
    }
    QN_TRY(drop_names(r, &p));
    r->changes.properties = r->properties;
    r->changes.n_properties = (int)(p - r->properties);
    return QN_OK;
}

/* ---- preparation ---- */

/* Nodes in front of the input. */
static qn_status add_preparation(rewriting *r) {
    const qn_onnx_place *place = qn_onnx_input(r->network, 0);
    if (qn_onnx_input_count(r->network) != 1)
        return r->options->with_preparation
                   ? qn_fail(QN_ERROR_UNSUPPORTED, "a preparation needs a network of one input")
                   : QN_OK;
    const char *name = qn_onnx_prepare(r->exporter, place->name, place->is_image,
                                       place->n_dims - (place->batch_axis >= 0));
    QN_TRY(qn_onnx_exporter_status(r->exporter));
    r->changes.input = place->name;
    r->changes.prepared = name == place->name ? NULL : name;
    qn_onnx_exporter_nodes(r->exporter, &r->changes.n_front);
    return QN_OK;
}

/* The scales of targets of a file that has some: those of the weights. */
static qn_status change_scales(rewriting *r) {
    static const char *const names[] = {QN_ONNX_TARGET_SCALE, QN_ONNX_TARGET_MEAN};
    const qn_shape tried = r->network->tried[0];
    const int64_t n = tried.rank > 0 ? tried.dims[tried.rank - 1] : 1;
    const int64_t width = r->changes.width != r->changes.old_width ? r->changes.width : n;
    int64_t *dims = qn_onnx_room(r->exporter, 1, sizeof *dims);
    if (!dims)
        return QN_ERROR_MEMORY;
    *dims = width;
    for (int i = 0; i < 2; i++) {
        const float *numbers = qn_onnx_target_numbers(r->exporter, i == 1, width);
        if (!numbers)
            return QN_ERROR_MEMORY;
        r->tensors[r->changes.n_tensors++] =
            (qn_onnx_change){.kind = QN_ONNX_CHANGE_NUMBERS,
                             .tensor = {.name = names[i],
                                        .type = QN_ONNX_FLOAT,
                                        .n_dims = 1,
                                        .dims = dims,
                                        .bytes = (size_t)width * sizeof *numbers,
                                        .data = numbers}};
    }
    return QN_OK;
}

/* Nodes that bring scaled targets back to their units: the file's own, or new ones at its end. */
static qn_status add_scales(rewriting *r) {
    const bool is_there = qn_onnx_property_of(r->network, QN_ONNX_TARGETS_INSIDE) != NULL;
    const qn_preparation *p = r->options->preparation;
    const char *output = r->network->outputs[0].name;
    if (r->network->n_outputs != 1 || !p)
        return QN_OK;
    if (is_there)
        return change_scales(r);
    const char *inner = qn_onnx_text_with(r->exporter, output, "/scaled");
    QN_TRY(qn_onnx_exporter_status(r->exporter));
    const char *name = qn_onnx_restore_targets(r->exporter, inner, p->n_scaled, output);
    QN_TRY(qn_onnx_exporter_status(r->exporter));
    r->changes.output = output;
    r->changes.inner = name == output ? inner : NULL;
    return QN_OK;
}

/* What is put into the file beside the network, and its constants. */
static qn_status add_nodes(rewriting *r) {
    const qn_onnx_tensor *tensors;
    int n;
    if (!r->options->preparation)
        return QN_OK;
    QN_TRY(add_preparation(r));
    QN_TRY(add_scales(r));
    r->changes.nodes = qn_onnx_exporter_nodes(r->exporter, &r->changes.n_nodes);
    tensors = qn_onnx_exporter_tensors(r->exporter, &n);
    for (int i = 0; i < n && i < MOST_ADDED; i++)
        r->tensors[r->changes.n_tensors++] =
            (qn_onnx_change){.kind = QN_ONNX_CHANGE_ADD, .tensor = tensors[i]};
    return QN_OK;
}

/* Opening the file built the network once, which noted where each parameter is from; where it was
 * not built, it is now. */
static qn_status note_parameters(qn_onnx_network *network) {
    qn_graph *graph;
    if (network->records)
        return QN_OK;
    qn_value *outputs =
        qn_arena_allocate(&network->arena, (size_t)network->n_outputs + 1, sizeof *outputs);
    if (!outputs)
        return QN_ERROR_MEMORY;
    const qn_status status = qn_onnx_try(network, true, &graph, outputs);
    qn_graph_destroy(graph);
    return status;
}

static qn_status open_weights(rewriting *r) {
    const char *path = r->options->weights;
    if (!path)
        return QN_OK;
    QN_TRY(qn_file_open(r->network->allocator, path, &r->file));
    QN_TRY(qn_safetensors_read(&r->stored, r->file));
    return qn_file_map(r->file, &r->mapped);
}

static void close_weights(rewriting *r) {
    if (r->mapped)
        qn_file_unmap(r->mapped, (size_t)qn_file_bytes(r->file));
    qn_safetensors_deinit(&r->stored);
    qn_file_close(r->file);
}

/* Says that batch norms which worked with their batch's statistics no longer do. */
static void tell_modes(const rewriting *r) {
    const qn_onnx_model *m = r->network->source;
    const qn_log *log = r->network->log;
    int n = 0;
    for (int i = 0; i < m->n_nodes; i++) {
        const qn_onnx_attribute *mode = qn_onnx_find_attribute(&m->nodes[i], "training_mode");
        n += strcmp(m->nodes[i].type, "BatchNormalization") == 0 && mode && mode->count != 0 &&
             m->nodes[i].n_outputs > 1 && *m->nodes[i].outputs[1];
    }
    if (n == 0 || !r->changes.is_trained || !log || !log->write)
        return;
    char text[200];
    snprintf(text, sizeof text,
             "%d batch norms of the file normalise by their batch (training_mode); what is written "
             "is for inference, and normalises by the running statistics, as evaluate and predict",
             n);
    log->write(log->user, 0, text);
}

static qn_status rewrite(rewriting *r, qn_metadata **pairs, const char *path) {
    QN_TRY(open_weights(r));
    QN_TRY(note_parameters(r->network));
    QN_TRY(add_records(r));
    QN_TRY(qn_file_map_check_same(r->mapped));
    QN_TRY(add_nodes(r));
    QN_TRY(qn_onnx_describe_preparation(r->exporter, pairs));
    QN_TRY(add_properties(r, *pairs));
    r->changes.tensors = r->tensors;
    r->changes.is_trained = r->options->engine || r->file;
    tell_modes(r);
    if (r->changes.width != r->changes.old_width)
        QN_TRY(qn_onnx_check_changes(r->exporter, r->network, r->tensors, r->changes.n_tensors));
    return qn_onnx_file_rewrite(r->network->file, &r->changes, path, r->options->is_outside);
}

qn_status qn_onnx_export_again(qn_onnx_exporter *exporter, const qn_onnx_export_options *options,
                               qn_metadata **pairs, const char *path) {
    rewriting r = {
        .options = options, .exporter = exporter, .network = (qn_onnx_network *)options->source};
    qn_safetensors_init(&r.stored, r.network->allocator);
    const qn_status status = rewrite(&r, pairs, path);
    close_weights(&r);
    return status;
}
