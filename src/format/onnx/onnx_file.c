/* See onnx_file.h: opening and closing. protobuf-c unpacks by recursion and joins what is given
 * twice at a cost that grows with its square, so a file's bytes are walked first, and messages that
 * nest deeper than any model's, or are given twice where one is meant, are refused. */
#include "base/rng.h"
#include "base/status.h"
#include "format/onnx/onnx_parts.h"
#include "os/heap.h"
#include "os/os.h"

#include <limits.h>
#include <string.h>

enum { MOST_NESTED = 64, LARGE_BYTES = 4 << 20 };

const char *qn_onnx_text_or_empty(const char *text) {
    return text ? text : "";
}

qn_status qn_onnx_place(qn_onnx_reading *reading, size_t count, size_t size, void *memory) {
    void *block = qn_arena_allocate(&reading->file->arena, count > 0 ? count : 1, size);
    memcpy(memory, &block, sizeof block);
    return block ? QN_OK : QN_ERROR_MEMORY;
}

/* ---- looking before unpacking ---- */

bool qn_onnx_take_number(qn_onnx_span *from, uint64_t *number) {
    *number = 0;
    for (int shift = 0; shift < 64 && from->at < from->end; shift += 7) {
        const uint8_t byte = *from->at++;
        *number |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

bool qn_onnx_take_field(qn_onnx_span *from, int wire_type, qn_onnx_span *inside) {
    uint64_t n;
    if (wire_type == PROTOBUF_C_WIRE_TYPE_VARINT)
        return qn_onnx_take_number(from, &n);
    if (wire_type == PROTOBUF_C_WIRE_TYPE_64BIT)
        n = 8;
    else if (wire_type == PROTOBUF_C_WIRE_TYPE_32BIT)
        n = 4;
    else if (wire_type != PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED || !qn_onnx_take_number(from, &n))
        return false;
    if (n > (uint64_t)(from->end - from->at))
        return false;
    *inside = (qn_onnx_span){from->at, from->at + n};
    from->at += n;
    return true;
}

/* What is wrong with a message's bytes, or null. */
static const char *look(const ProtobufCMessageDescriptor *message, qn_onnx_span from,
                        int n_nested) {
    uint64_t seen = 0; /* single messages, by their place in the descriptor */
    if (n_nested > MOST_NESTED)
        return "graphs or types nest too deeply";
    while (from.at < from.end) {
        uint64_t tag;
        qn_onnx_span inside = {NULL, NULL};
        if (!qn_onnx_take_number(&from, &tag) || tag > UINT32_MAX ||
            !qn_onnx_take_field(&from, (int)(tag & 7), &inside))
            return "its messages are cut short, or it is something else";
        const ProtobufCFieldDescriptor *field =
            protobuf_c_message_descriptor_get_field(message, (unsigned)(tag >> 3));
        if (!field || field->type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        const uint64_t bit = (uint64_t)1 << ((field - message->fields) & 63);
        if (field->label != PROTOBUF_C_LABEL_REPEATED && (seen & bit))
            return "a part is given twice";
        seen |= bit;
        const char *wrong = look(field->descriptor, inside, n_nested + 1);
        if (wrong)
            return wrong;
    }
    return NULL;
}

/* ---- unpacking ---- */

typedef struct unpacking {
    qn_arena *arena;
    bool is_out_of_memory;
    const void *mapped; /* what is unpacked, where that is a mapped file; else null */
    size_t n_copied;    /* bytes since the file's memory was given back */
} unpacking;

/* Weights are copied as they are placed: those that are there need no memory of the file. */
static void *place_message(void *user, size_t n) {
    unpacking *u = user;
    u->n_copied += n;
    if (u->n_copied > LARGE_BYTES) {
        qn_file_forget(u->mapped);
        u->n_copied = n;
    }
    void *memory = qn_arena_allocate(u->arena, n > 0 ? n : 1, 1);
    u->is_out_of_memory |= !memory;
    return memory;
}

static void leave_message(void *user, void *memory) {
    (void)user;
    (void)memory; /* goes with the arena */
}

qn_status qn_onnx_unpack(qn_onnx_reading *reading, const ProtobufCMessageDescriptor *descriptor,
                         const void *from, size_t n, void *message) {
    unpacking u = {.arena = &reading->file->arena, .mapped = reading->is_mapped ? from : NULL};
    ProtobufCAllocator allocator = {place_message, leave_message, &u};
    if (n > INT32_MAX)
        return QN_ONNX_FAIL(reading, QN_ERROR_UNSUPPORTED,
                            "%zu bytes, and ONNX files are below 2 GB: keep its initialisers "
                            "outside of it, as external data",
                            n);
    const qn_onnx_span all = {from,
                              n > 0 ? (const uint8_t *)from + n : from}; /* an empty file is null */
    const char *wrong = look(descriptor, all, 0);
    if (wrong)
        return QN_ONNX_FAIL(reading, QN_ERROR_FORMAT, "not a valid ONNX file: %s", wrong);
    ProtobufCMessage *unpacked = protobuf_c_message_unpack(descriptor, &allocator, n, from);
    memcpy(message, &unpacked, sizeof unpacked);
    if (u.is_out_of_memory)
        return QN_ERROR_MEMORY;
    return unpacked ? QN_OK
                    : QN_ONNX_FAIL(reading, QN_ERROR_FORMAT, "not a valid ONNX file: %s",
                                   "its fields are of other types");
}

/* ---- models ---- */

static bool is_default_domain(const char *domain) {
    return !domain || !domain[0] || strcmp(domain, "ai.onnx") == 0;
}

static qn_status read_opset(qn_onnx_reading *reading, const Onnx__ModelProto *from,
                            int64_t *opset) {
    *opset = 0;
    for (size_t i = 0; i < from->n_opset_import; i++) {
        if (is_default_domain(from->opset_import[i]->domain))
            *opset = from->opset_import[i]->version;
    }
    if (*opset >= QN_ONNX_LEAST_OPSET && *opset <= QN_ONNX_MOST_OPSET)
        return QN_OK;
    return QN_ONNX_FAIL(
        reading, QN_ERROR_UNSUPPORTED,
        "operators of opset %lld; quern reads %d to %d: export it again with one of "
        "these (torch.onnx.export has opset_version)",
        (long long)*opset, QN_ONNX_LEAST_OPSET, QN_ONNX_MOST_OPSET);
}

static qn_status read_properties(qn_onnx_reading *reading, const Onnx__ModelProto *from,
                                 qn_onnx_model *model) {
    qn_onnx_property *properties;
    QN_TRY(qn_onnx_place(reading, from->n_metadata_props, sizeof *properties, &properties));
    for (size_t i = 0; i < from->n_metadata_props; i++) {
        properties[i].key = qn_onnx_text_or_empty(from->metadata_props[i]->key);
        properties[i].value = qn_onnx_text_or_empty(from->metadata_props[i]->value);
    }
    model->n_properties = (int)from->n_metadata_props;
    model->properties = properties;
    return QN_OK;
}

static qn_status read_model(qn_onnx_reading *reading, const void *from, size_t n) {
    qn_onnx_model *model = &reading->file->model;
    Onnx__ModelProto *message;
    QN_TRY(qn_onnx_unpack_model(reading, from, n, &message));
    if (!message->graph)
        return QN_ONNX_FAIL(reading, QN_ERROR_FORMAT, "not a valid ONNX file: %s",
                            "there is no graph in it");
    reading->file->message = message;
    model->ir_version = message->ir_version;
    model->producer = qn_onnx_text_or_empty(message->producer_name);
    model->producer_version = qn_onnx_text_or_empty(message->producer_version);
    model->text = qn_onnx_text_or_empty(message->doc_string);
    QN_TRY(read_opset(reading, message, &model->opset));
    QN_TRY(read_properties(reading, message, model));
    QN_TRY(qn_onnx_read_graph(reading, message->graph, model));
    QN_TRY(qn_onnx_part_tensors(reading, message, model));
    QN_TRY(qn_onnx_place_functions(reading, message, model));
    return qn_onnx_check_names(reading, model);
}

static qn_status read_tensor(qn_onnx_reading *reading, const void *from, size_t n) {
    Onnx__TensorProto *message;
    QN_TRY(qn_onnx_unpack(reading, &onnx__tensor_proto__descriptor, from, n, &message));
    return qn_onnx_read_tensor(reading, "tensor", message, &reading->file->tensor);
}

/* ---- files ---- */

typedef qn_status reader(qn_onnx_reading *reading, const void *from, size_t n);

static qn_status open_bytes(const qn_allocator *allocator, reader *read, const void *from, size_t n,
                            qn_onnx_reading *how, qn_onnx_file **file) {
    qn_onnx_file *opened;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *opened, &opened));
    opened->allocator = allocator;
    qn_arena_init(&opened->arena, allocator);
    how->file = opened;
    const qn_status status = read(how, from, n);
    if (status != QN_OK) {
        qn_onnx_file_close(opened);
        return status;
    }
    *file = opened;
    return QN_OK;
}

/* The folder of a path, as text of the arena; null when memory is out. */
static char *folder_of(qn_arena *arena, const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash)
        return qn_arena_text(arena, ".");
    return qn_arena_format(arena, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

static qn_status open_mapped(const qn_allocator *allocator, reader *read, qn_file *from,
                             qn_onnx_reading *how, qn_onnx_file **file) {
    const void *memory;
    const size_t n = (size_t)qn_file_bytes(from);
    qn_arena arena;
    QN_TRY(qn_file_map(from, &memory));
    qn_arena_init(&arena, qn_allocator_or_default(allocator));
    how->folder = folder_of(&arena, how->name);
    qn_status status =
        how->folder ? open_bytes(allocator, read, memory, n, how, file) : QN_ERROR_MEMORY;
    const qn_status mapped = qn_file_map_check(memory);
    if (mapped != QN_OK && status == QN_OK)
        qn_onnx_file_close(*file);
    status = mapped != QN_OK ? mapped : status;
    qn_arena_deinit(&arena);
    if (status == QN_OK && how->is_kept_mapped) {
        qn_file_forget(memory);
        (*file)->mapped = memory;
        (*file)->mapped_bytes = n;
    } else {
        qn_file_unmap(memory, n);
    }
    return status;
}

static qn_status open_path(const qn_allocator *allocator, reader *read, const char *path,
                           bool follows_links, qn_onnx_file **file) {
    qn_onnx_reading how = {.name = path, .is_mapped = true, .follows_links = follows_links};
    qn_file *from;
    QN_TRY(qn_file_open(allocator, path, &from));
    const qn_status status = open_mapped(allocator, read, from, &how, file);
    qn_file_close(from);
    return status;
}

qn_status qn_onnx_file_open_bytes(const qn_allocator *allocator, const void *bytes, size_t n,
                                  const char *folder, const char *name, qn_onnx_file **file) {
    qn_onnx_reading how = {.name = name, .folder = folder};
    return open_bytes(allocator, read_model, bytes, n, &how, file);
}

qn_status qn_onnx_file_open(const qn_allocator *allocator, const char *path, bool follows_links,
                            qn_onnx_file **file) {
    return open_path(allocator, read_model, path, follows_links, file);
}

qn_status qn_onnx_tensor_open(const qn_allocator *allocator, const char *path, qn_onnx_file **file,
                              const qn_onnx_tensor **tensor) {
    QN_TRY(open_path(allocator, read_tensor, path, false, file));
    *tensor = &(*file)->tensor;
    return QN_OK;
}

void qn_onnx_file_close(qn_onnx_file *file) {
    if (!file)
        return;
    for (qn_onnx_mapping *m = file->mappings; m; m = m->next)
        qn_file_unmap(m->memory, m->bytes);
    qn_file_unmap(file->mapped, file->mapped_bytes);
    qn_arena_deinit(&file->arena);
    qn_release(file->allocator, file, 1, sizeof *file);
}

qn_status qn_onnx_file_check(const qn_onnx_file *file) {
    for (const qn_onnx_mapping *m = file->mappings; m; m = m->next)
        QN_TRY(qn_file_map_check_same(m->memory));
    return qn_file_map_check_same(file->mapped);
}

/* As qn_hash_bytes, in little memory. */
static uint64_t hash_mapped(const void *memory, size_t bytes) {
    uint64_t hash = qn_hash_begin(bytes);
    for (size_t at = 0, n; at < bytes; at += n) {
        n = bytes - at < LARGE_BYTES ? bytes - at : LARGE_BYTES;
        hash = qn_hash_add(hash, (const char *)memory + at, n);
        qn_file_forget(memory);
    }
    return qn_hash_end(hash);
}

uint64_t qn_onnx_file_hash_outside(const qn_onnx_file *file) {
    uint64_t sum = 0;
    for (const qn_onnx_mapping *m = file->mappings; m; m = m->next)
        sum += qn_hash_text(m->location) * 3 ^ hash_mapped(m->memory, m->bytes);
    return sum;
}

const char *qn_onnx_file_followed(const qn_onnx_file *file, int index) {
    for (const qn_onnx_mapping *m = file->mappings; m; m = m->next) {
        if (m->followed && index-- == 0)
            return m->followed;
    }
    return NULL;
}

const char *qn_onnx_file_outside(const qn_onnx_file *file, int index) {
    const qn_onnx_mapping *m = file->mappings;
    while (m && index-- > 0)
        m = m->next;
    return m ? m->location : NULL;
}

const qn_onnx_model *qn_onnx_file_model(const qn_onnx_file *file) {
    return &file->model;
}
