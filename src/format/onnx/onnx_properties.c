/* Pairs of texts that ONNX files have beside models, values and tensors ("metadata_props").
 * Messages of an older schema keep a field that they do not know as bytes; the pairs are read
 * from these. */
#include "base/status.h"
#include "format/onnx/onnx_parts.h"

#include <string.h>

typedef Onnx__StringStringEntryProto entry;

const char *qn_onnx_find_property(const qn_onnx_property *properties, int n, const char *key) {
    for (int i = 0; i < n; i++) {
        if (strcmp(properties[i].key, key) == 0)
            return properties[i].value;
    }
    return NULL;
}

static qn_onnx_property property_of(const entry *from) {
    return (qn_onnx_property){qn_onnx_text_or_empty(from->key), qn_onnx_text_or_empty(from->value)};
}

static qn_status read_known(qn_onnx_reading *reading, const ProtobufCMessage *message,
                            const ProtobufCFieldDescriptor *field,
                            const qn_onnx_property **properties, int *n) {
    const char *base = (const char *)message;
    size_t count;
    entry *const *entries;
    qn_onnx_property *list;
    memcpy(&count, base + field->quantifier_offset, sizeof count);
    memcpy(&entries, base + field->offset, sizeof entries);
    QN_TRY(qn_onnx_place(reading, count, sizeof *list, &list));
    for (size_t i = 0; i < count; i++)
        list[i] = property_of(entries[i]);
    *properties = list;
    *n = (int)count;
    return QN_OK;
}

static void *place_entry(void *user, size_t n) {
    return qn_arena_allocate(user, n > 0 ? n : 1, 1);
}

static void leave_entry(void *user, void *memory) {
    (void)user;
    (void)memory; /* goes with the arena */
}

/* A pair in the bytes of an unknown field, which begin with their length; null: it is no pair. */
static const entry *unpack_entry(qn_onnx_reading *reading,
                                 const ProtobufCMessageUnknownField *field) {
    ProtobufCAllocator allocator = {place_entry, leave_entry, &reading->file->arena};
    size_t begin = 0;
    while (begin < field->len && field->data[begin] >= 0x80)
        begin++;
    if (field->wire_type != PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED || begin >= field->len)
        return NULL;
    return (const entry *)protobuf_c_message_unpack(&onnx__string_string_entry_proto__descriptor,
                                                    &allocator, field->len - begin - 1,
                                                    field->data + begin + 1);
}

qn_status qn_onnx_read_properties(qn_onnx_reading *reading, const ProtobufCMessage *message,
                                  unsigned tag, const qn_onnx_property **properties, int *n) {
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field(message->descriptor, tag);
    qn_onnx_property *list = NULL;
    *n = 0;
    if (field && field->label == PROTOBUF_C_LABEL_REPEATED &&
        field->descriptor == &onnx__string_string_entry_proto__descriptor)
        return read_known(reading, message, field, properties, n);
    for (unsigned i = 0; i < message->n_unknown_fields; i++) {
        if (message->unknown_fields[i].tag != tag)
            continue;
        const entry *pair = unpack_entry(reading, &message->unknown_fields[i]);
        if (!list)
            QN_TRY(qn_onnx_place(reading, message->n_unknown_fields, sizeof *list, &list));
        if (pair)
            list[(*n)++] = property_of(pair);
    }
    *properties = list;
    return QN_OK;
}
