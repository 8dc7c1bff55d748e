/* Writing ONNX files: the structures of onnx_file.h become messages that point to the same texts
 * and data, and go to the file a piece at a time. Outside data go to a file that is named by what
 * is in it, PATH.SUM.data, before the model's file is renamed; those of the model that was there go
 * after that. So whatever ends the program, a model and its own data are there. Only initialisers
 * of some size go outside, since runtimes look at small ones when they work out shapes. */
#include "base/rng.h"
#include "base/status.h"
#include "format/onnx/onnx_parts.h"
#include "os/heap.h"
#include "os/os.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Bytes of a file that is read again, with room for all that is not data; of a tensor that may go
 * outside, and what its place there is a multiple of. */
static const int64_t most_bytes = INT32_MAX - ((int64_t)64 << 20);
enum { LEAST_OUTSIDE = 1024, OUTSIDE_ALIGNMENT = 64, PIECE_BYTES = 1 << 20 };

/* The first failure is kept. */
typedef struct writing {
    qn_arena arena;
    const qn_onnx_file *file; /* that some tensors are read from; or null */
    const qn_onnx_model *model;
    const Onnx__ModelProto *given; /* all but the initialisers; null: the model says it */
    const qn_onnx_source *sources; /* (n_sources) of tensors of the message */
    int n_sources;
    void *piece; /* (PIECE_BYTES) of a source; null: there is none */
    const char *path, *data_path;
    bool is_outside;
    int64_t end; /* of the outside data so far */
    Onnx__ModelProto *message;
    qn_status status;
} writing;

/* count * size zeroed bytes; null after a failure. */
static void *place(writing *w, int count, size_t size) {
    void *memory = NULL;
    if (w->status == QN_OK)
        memory = qn_arena_allocate(&w->arena, count > 0 ? (size_t)count : 1, size);
    if (!memory)
        w->status = QN_ERROR_MEMORY;
    return memory;
}

/* Gives a list of n messages, each initialised, or returns. */
#define MAKE_LIST(w, n, list, initialize)                                                          \
    do {                                                                                           \
        (list) = place(w, n, sizeof *(list));                                                      \
        for (int make_i = 0; (list) && make_i < (n); make_i++) {                                   \
            (list)[make_i] = place(w, 1, sizeof **(list));                                         \
            if ((list)[make_i])                                                                    \
                initialize((list)[make_i]);                                                        \
        }                                                                                          \
        if ((w)->status != QN_OK)                                                                  \
            return;                                                                                \
    } while (0)

/* ---- tensors ---- */

static void put_entry(writing *w, Onnx__StringStringEntryProto *entry, const char *key,
                      const char *value) {
    (void)w;
    entry->key = (char *)key;
    entry->value = (char *)value;
}

/* Numbers of four bits are bytes of their own here, and two a byte in files. */
static bool is_packed(const qn_onnx_tensor *t) {
    return t->type == QN_ONNX_INT4 || t->type == QN_ONNX_UINT4;
}

static bool goes_outside(const writing *w, const qn_onnx_tensor *from) {
    return w->is_outside && from->bytes >= LEAST_OUTSIDE && !is_packed(from);
}

static int64_t aligned(int64_t offset) {
    return (offset + OUTSIDE_ALIGNMENT - 1) / OUTSIDE_ALIGNMENT * OUTSIDE_ALIGNMENT;
}

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void point_outside(writing *w, const qn_onnx_tensor *from, Onnx__TensorProto *to) {
    MAKE_LIST(w, 3, to->external_data, onnx__string_string_entry_proto__init);
    char *offset = qn_arena_format(&w->arena, "%lld", (long long)w->end);
    char *length = qn_arena_format(&w->arena, "%zu", from->bytes);
    if (!offset || !length) {
        w->status = QN_ERROR_MEMORY;
        return;
    }
    put_entry(w, to->external_data[0], "location", last_part(w->data_path));
    put_entry(w, to->external_data[1], "offset", offset);
    put_entry(w, to->external_data[2], "length", length);
    to->n_external_data = 3;
    to->has_data_location = true;
    to->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    w->end = aligned(w->end + (int64_t)from->bytes);
}

static void put_packed(writing *w, const qn_onnx_tensor *from, Onnx__TensorProto *to) {
    const uint8_t *numbers = from->data;
    to->raw_data.len = (from->bytes + 1) / 2;
    to->raw_data.data = place(w, 1, to->raw_data.len);
    for (size_t i = 0; to->raw_data.data && i < from->bytes; i++)
        to->raw_data.data[i / 2] |= (uint8_t)((numbers[i] & 15) << 4 * (i % 2));
}

static void put_tensor(writing *w, const qn_onnx_tensor *from, bool may_go, Onnx__TensorProto *to) {
    to->name = from->name && from->name[0] ? (char *)from->name : NULL;
    to->has_data_type = true;
    to->data_type = (int32_t)from->type;
    to->n_dims = (size_t)from->n_dims;
    to->dims = (int64_t *)from->dims;
    if (may_go && goes_outside(w, from)) {
        point_outside(w, from, to);
        return;
    }
    to->has_raw_data = true;
    if (is_packed(from)) {
        put_packed(w, from, to);
        return;
    }
    to->raw_data.len = from->bytes;
    to->raw_data.data = (uint8_t *)from->data;
}

/* ---- nodes ---- */

static void put_texts(writing *w, const qn_onnx_attribute *from, Onnx__AttributeProto *to) {
    to->strings = place(w, from->n, sizeof *to->strings);
    for (int i = 0; to->strings && i < from->n; i++)
        to->strings[i] = (ProtobufCBinaryData){strlen(from->texts[i]), (uint8_t *)from->texts[i]};
    to->n_strings = (size_t)from->n;
}

static void put_attribute(writing *w, const qn_onnx_attribute *from, Onnx__AttributeProto *to) {
    static const Onnx__AttributeProto__AttributeType types[] = {
        [QN_ONNX_ATTRIBUTE_FLOAT] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT,
        [QN_ONNX_ATTRIBUTE_INT] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT,
        [QN_ONNX_ATTRIBUTE_TEXT] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING,
        [QN_ONNX_ATTRIBUTE_TENSOR] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR,
        [QN_ONNX_ATTRIBUTE_FLOATS] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS,
        [QN_ONNX_ATTRIBUTE_INTS] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS,
        [QN_ONNX_ATTRIBUTE_TEXTS] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS,
    };
    to->name = (char *)from->name;
    to->has_type = true;
    to->type = types[from->kind];
    to->has_f = from->kind == QN_ONNX_ATTRIBUTE_FLOAT;
    to->f = from->number;
    to->has_i = from->kind == QN_ONNX_ATTRIBUTE_INT;
    to->i = from->count;
    if (from->kind == QN_ONNX_ATTRIBUTE_TEXT) {
        to->has_s = true;
        to->s = (ProtobufCBinaryData){strlen(from->text), (uint8_t *)from->text};
    } else if (from->kind == QN_ONNX_ATTRIBUTE_TENSOR) {
        to->t = place(w, 1, sizeof *to->t);
        if (!to->t)
            return;
        onnx__tensor_proto__init(to->t);
        put_tensor(w, &from->tensor, false, to->t);
    } else if (from->kind == QN_ONNX_ATTRIBUTE_FLOATS) {
        to->n_floats = (size_t)from->n;
        to->floats = (float *)from->numbers;
    } else if (from->kind == QN_ONNX_ATTRIBUTE_INTS) {
        to->n_ints = (size_t)from->n;
        to->ints = (int64_t *)from->counts;
    } else if (from->kind == QN_ONNX_ATTRIBUTE_TEXTS) {
        put_texts(w, from, to);
    }
}

static void put_node(writing *w, const qn_onnx_node *from, int index, Onnx__NodeProto *to) {
    char text[QN_ONNX_NODE_TEXT];
    to->name = from->name[0] ? (char *)from->name : NULL;
    to->op_type = (char *)from->type;
    to->domain = from->domain && from->domain[0] ? (char *)from->domain : NULL;
    to->n_input = (size_t)from->n_inputs;
    to->input = (char **)from->inputs;
    to->n_output = (size_t)from->n_outputs;
    to->output = (char **)from->outputs;
    MAKE_LIST(w, from->n_attributes, to->attribute, onnx__attribute_proto__init);
    for (int i = 0; i < from->n_attributes && w->status == QN_OK; i++) {
        if (from->attributes[i].kind == QN_ONNX_ATTRIBUTE_OTHER)
            w->status =
                qn_fail(QN_ERROR_UNSUPPORTED, "%s: attribute '%s' of %s cannot be written", w->path,
                        from->attributes[i].name, qn_onnx_node_text(from, index, text));
        else
            put_attribute(w, &from->attributes[i], to->attribute[i]);
    }
    to->n_attribute = (size_t)from->n_attributes;
}

/* ---- values ---- */

static void put_dims(writing *w, const qn_onnx_value *from, Onnx__TensorShapeProto *to) {
    MAKE_LIST(w, from->n_dims, to->dim, onnx__tensor_shape_proto__dimension__init);
    for (int i = 0; i < from->n_dims; i++) {
        Onnx__TensorShapeProto__Dimension *dim = to->dim[i];
        if (from->dims[i] >= 0) {
            dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
            dim->dim_value = from->dims[i];
        } else if (from->symbols && from->symbols[i] && from->symbols[i][0]) {
            dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
            dim->dim_param = (char *)from->symbols[i];
        }
    }
    to->n_dim = (size_t)from->n_dims;
}

static void put_value(writing *w, const qn_onnx_value *from, Onnx__ValueInfoProto *to) {
    to->name = (char *)from->name;
    if (from->type == QN_ONNX_NONE)
        return;
    to->type = place(w, 1, sizeof *to->type);
    Onnx__TypeProto__Tensor *tensor = place(w, 1, sizeof *tensor);
    Onnx__TensorShapeProto *shape = place(w, 1, sizeof *shape);
    if (!shape)
        return;
    onnx__type_proto__init(to->type);
    onnx__type_proto__tensor__init(tensor);
    onnx__tensor_shape_proto__init(shape);
    to->type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    to->type->tensor_type = tensor;
    tensor->has_elem_type = true;
    tensor->elem_type = (int32_t)from->type;
    if (from->n_dims < 0)
        return;
    tensor->shape = shape;
    put_dims(w, from, shape);
}

static void put_values(writing *w, const qn_onnx_value *from, int n, Onnx__ValueInfoProto ***to,
                       size_t *n_to) {
    MAKE_LIST(w, n, *to, onnx__value_info_proto__init);
    for (int i = 0; i < n && w->status == QN_OK; i++)
        put_value(w, &from[i], (*to)[i]);
    *n_to = (size_t)n;
}

/* ---- the model ---- */

static void put_graph(writing *w, Onnx__GraphProto *to) {
    const qn_onnx_model *m = w->model;
    to->name = (char *)m->graph_name;
    put_values(w, m->inputs, m->n_inputs, &to->input, &to->n_input);
    put_values(w, m->outputs, m->n_outputs, &to->output, &to->n_output);
    put_values(w, m->infos, m->n_infos, &to->value_info, &to->n_value_info);
    MAKE_LIST(w, m->n_initializers, to->initializer, onnx__tensor_proto__init);
    for (int i = 0; i < m->n_initializers && w->status == QN_OK; i++)
        put_tensor(w, &m->initializers[i], true, to->initializer[i]);
    to->n_initializer = (size_t)m->n_initializers;
    MAKE_LIST(w, m->n_nodes, to->node, onnx__node_proto__init);
    for (int i = 0; i < m->n_nodes && w->status == QN_OK; i++)
        put_node(w, &m->nodes[i], i, to->node[i]);
    to->n_node = (size_t)m->n_nodes;
}

static void put_model(writing *w, Onnx__ModelProto *to) {
    const qn_onnx_model *m = w->model;
    to->has_ir_version = true;
    to->ir_version = m->ir_version;
    to->producer_name = (char *)m->producer;
    to->producer_version = (char *)m->producer_version;
    to->doc_string = m->text && m->text[0] ? (char *)m->text : NULL;
    MAKE_LIST(w, 1, to->opset_import, onnx__operator_set_id_proto__init);
    to->n_opset_import = 1;
    to->opset_import[0]->domain = (char *)"";
    to->opset_import[0]->has_version = true;
    to->opset_import[0]->version = m->opset;
    MAKE_LIST(w, m->n_properties, to->metadata_props, onnx__string_string_entry_proto__init);
    for (int i = 0; i < m->n_properties; i++)
        put_entry(w, to->metadata_props[i], m->properties[i].key, m->properties[i].value);
    to->n_metadata_props = (size_t)m->n_properties;
    to->graph = place(w, 1, sizeof *to->graph);
    if (!to->graph)
        return;
    onnx__graph_proto__init(to->graph);
    put_graph(w, to->graph);
}

/* ---- files ---- */

/* The source whose address data is; or null. */
static const qn_onnx_source *find_source(const writing *w, const void *data) {
    const uintptr_t first = (uintptr_t)w->sources, at = (uintptr_t)data;
    const bool is_one = at >= first && at < first + (size_t)w->n_sources * sizeof *w->sources;
    return is_one ? &w->sources[(at - first) / sizeof *w->sources] : NULL;
}

/* Bytes of a tensor, some at a time: use is given each piece in turn. */
static qn_status each_piece(const writing *w, const void *data, size_t n,
                            qn_status (*use)(void *user, const void *piece, size_t n), void *user) {
    const qn_onnx_source *source = find_source(w, data);
    for (size_t at = 0; at < n; at += PIECE_BYTES) {
        const size_t now = n - at < PIECE_BYTES ? n - at : PIECE_BYTES;
        if (source)
            QN_TRY(source->read(source, at, now, w->piece));
        QN_TRY(use(user, source ? w->piece : (const char *)data + at, now));
        qn_file_forget(data); /* of a mapped file */
    }
    return QN_OK;
}

static qn_status put_piece(void *user, const void *piece, size_t n) {
    return qn_writer_put(user, piece, n);
}

typedef struct packing {
    ProtobufCBuffer base;
    const writing *writing;
    qn_writer *writer;
    qn_status status;
} packing;

static void pack(ProtobufCBuffer *buffer, size_t n, const uint8_t *data) {
    packing *p = (packing *)buffer;
    if (p->status == QN_OK)
        p->status = each_piece(p->writing, data, n, put_piece, p->writer);
}

static qn_status write_data(void *context, qn_writer *writer) {
    static const char zeros[OUTSIDE_ALIGNMENT];
    const writing *w = context;
    for (int i = 0; i < w->model->n_initializers; i++) {
        const qn_onnx_tensor *t = &w->model->initializers[i];
        const int64_t bytes = (int64_t)t->bytes;
        if (!goes_outside(w, t))
            continue;
        QN_TRY(each_piece(w, t->data, t->bytes, put_piece, writer));
        QN_TRY(qn_writer_put(writer, zeros, (size_t)(aligned(bytes) - bytes)));
    }
    return w->file ? qn_onnx_file_check(w->file) : QN_OK;
}

static qn_status add_to_sum(void *user, const void *piece, size_t n) {
    uint64_t *sum = user;
    const uint64_t both[] = {*sum, qn_hash_bytes(piece, n)};
    *sum = qn_hash_bytes(both, sizeof both);
    return QN_OK;
}

/* A number of what goes outside. */
static qn_status sum_outside(const writing *w, uint64_t *sum) {
    *sum = 0;
    for (int i = 0; i < w->model->n_initializers; i++) {
        const qn_onnx_tensor *t = &w->model->initializers[i];
        if (goes_outside(w, t))
            QN_TRY(each_piece(w, t->data, t->bytes, add_to_sum, sum));
    }
    return QN_OK;
}

/* Whether a name is the model's, 16 digits and ".data". */
static bool is_data_of(const char *name, const char *model) {
    const size_t length = strlen(model);
    if (strncmp(name, model, length) != 0 || name[length] != '.')
        return false;
    name += length + 1;
    return strspn(name, "0123456789abcdef") == 16 && strcmp(name + 16, ".data") == 0;
}

/* Removes outside data that are not what the model has now. */
static qn_status remove_old(void *context, const char *name, bool is_folder) {
    const writing *w = context;
    char path[PATH_MAX];
    const int folder = (int)(last_part(w->path) - w->path);
    if (!is_folder && is_data_of(name, last_part(w->path)) &&
        (w->end == 0 || strcmp(name, last_part(w->data_path)) != 0) &&
        snprintf(path, sizeof path, "%.*s%s", folder, w->path, name) < (int)sizeof path)
        qn_file_remove(path);
    return QN_OK;
}

static void remove_all_old(writing *w) {
    const int folder = (int)(last_part(w->path) - w->path);
    const char *path = qn_arena_format(&w->arena, "%.*s", folder, folder > 0 ? w->path : "");
    if (path)
        (void)qn_folder_list(w->arena.allocator, folder > 0 ? path : ".", remove_old, w);
}

static qn_status write_message(void *context, qn_writer *writer) {
    writing *w = context;
    packing p = {.base = {pack}, .writing = w, .writer = writer};
    protobuf_c_message_pack_to_buffer(&w->message->base, &p.base);
    QN_TRY(p.status);
    if (w->file)
        QN_TRY(qn_onnx_file_check(w->file));
    return w->end > 0 ? qn_file_replace(w->data_path, write_data, w) : QN_OK;
}

bool qn_onnx_is_beyond_file(const qn_onnx_model *model) {
    size_t left = (size_t)most_bytes;
    for (int i = 0; i < model->n_initializers; i++) {
        const size_t bytes = model->initializers[i].bytes;
        if (bytes > left)
            return true;
        left -= bytes;
    }
    return false;
}

/* A message that is given, with the model's initialisers. */
static void put_given(writing *w, Onnx__ModelProto *to) {
    const qn_onnx_model *m = w->model;
    *to = *w->given;
    to->graph = place(w, 1, sizeof *to->graph);
    if (!to->graph)
        return;
    *to->graph = *w->given->graph;
    MAKE_LIST(w, m->n_initializers, to->graph->initializer, onnx__tensor_proto__init);
    for (int i = 0; i < m->n_initializers && w->status == QN_OK; i++)
        put_tensor(w, &m->initializers[i], true, to->graph->initializer[i]);
    to->graph->n_initializer = (size_t)m->n_initializers;
}

static qn_status write_model(writing *w) {
    w->is_outside = w->is_outside || qn_onnx_is_beyond_file(w->model);
    uint64_t sum;
    if (w->n_sources > 0 && !(w->piece = place(w, PIECE_BYTES, 1)))
        return QN_ERROR_MEMORY;
    QN_TRY(sum_outside(w, &sum));
    w->data_path = qn_arena_format(&w->arena, "%s.%016" PRIx64 ".data", w->path, sum);
    w->message = place(w, 1, sizeof *w->message);
    if (!w->message || !w->data_path)
        return QN_ERROR_MEMORY;
    onnx__model_proto__init(w->message);
    if (w->given)
        put_given(w, w->message);
    else
        put_model(w, w->message);
    QN_TRY(w->status);
    if (protobuf_c_message_get_packed_size(&w->message->base) > INT32_MAX)
        return qn_fail(QN_ERROR_UNSUPPORTED, "%s would be larger than 2 GB without its data",
                       w->path);
    const bool was_there = w->end > 0 && qn_path_is_file(w->data_path);
    const qn_status status = qn_file_replace(w->path, write_message, w);
    if (status == QN_OK)
        remove_all_old(w);
    else if (w->end > 0 && !was_there)
        qn_file_remove(w->data_path);
    return status;
}

qn_status qn_onnx_file_write(const qn_allocator *allocator, const qn_onnx_model *model,
                             const char *path, bool is_outside) {
    writing w = {.model = model, .path = path, .is_outside = is_outside};
    qn_arena_init(&w.arena, qn_allocator_or_default(allocator));
    const qn_status status = write_model(&w);
    qn_arena_deinit(&w.arena);
    return status;
}

qn_status qn_onnx_write_message(const qn_allocator *allocator, const qn_onnx_written *what,
                                const char *path, bool is_outside) {
    writing w = {.file = what->file,
                 .model = what->list,
                 .given = what->message,
                 .sources = what->sources,
                 .n_sources = what->n_sources,
                 .path = path,
                 .is_outside = is_outside};
    qn_arena_init(&w.arena, qn_allocator_or_default(allocator));
    const qn_status status = write_model(&w);
    qn_arena_deinit(&w.arena);
    return status;
}

qn_status qn_onnx_make_nodes(qn_arena *arena, const qn_onnx_node *nodes, int n,
                             Onnx__NodeProto **messages) {
    writing w = {.path = "", .arena = *arena};
    for (int i = 0; i < n && w.status == QN_OK; i++) {
        messages[i] = place(&w, 1, sizeof **messages);
        if (!messages[i])
            break;
        onnx__node_proto__init(messages[i]);
        put_node(&w, &nodes[i], i, messages[i]);
    }
    *arena = w.arena;
    return w.status;
}
