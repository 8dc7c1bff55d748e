/* What the files of onnx_file.h share. Messages of protobuf-c (names Onnx__...) are unpacked into
 * the file's arena, and what is handed out points into them. Numbers in ONNX files are
 * little-endian; so must the machine be. */
#ifndef QN_FORMAT_ONNX_ONNX_PARTS_H
#define QN_FORMAT_ONNX_ONNX_PARTS_H

#include "format/onnx/onnx_file.h"

#include <onnx.pb-c.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "raw data of ONNX are little-endian");

/* A file of outside data, mapped. */
typedef struct qn_onnx_mapping {
    struct qn_onnx_mapping *next;
    const char *location;
    const char *followed; /* where it is, if a link led out of the folder; or null */
    const void *memory;   /* (bytes), null where there are none */
    size_t bytes;
} qn_onnx_mapping;

/* An input of a node that reads a tensor of its own again (onnx_merged.c). */
typedef struct qn_onnx_parted {
    const struct qn_onnx_parted *next;
    const char *output; /* the node's first */
    int input;
    const char *name;
} qn_onnx_parted;

struct qn_onnx_file {
    const qn_allocator *allocator;
    qn_arena arena;
    qn_onnx_mapping *mappings; /* of outside data */
    const void *mapped; /* (mapped_bytes) itself, where large initialisers are read; or null */
    size_t mapped_bytes;
    qn_onnx_model model;
    const qn_onnx_parted *parted;
    int n_parted; /* initialisers at the end of the model's that the message has not */
    const Onnx__ModelProto *message; /* what the model was read from */
    qn_onnx_tensor tensor;           /* where it is of a tensor alone */
};

/* While a file is read. */
typedef struct qn_onnx_reading {
    qn_onnx_file *file;
    const char *name;    /* for messages */
    const char *folder;  /* of outside data; null: none is read */
    bool is_mapped;      /* what is read is a file in memory, */
    bool is_kept_mapped; /* which some tensors stay in */
    bool follows_links;  /* outside data may be links that lead out of the folder */
} qn_onnx_reading;

/* A failure that begins with the file's name. */
#define QN_ONNX_FAIL(reading, status, format, ...)                                                 \
    qn_fail(status, "%s: " format, (reading)->name, __VA_ARGS__)

/* count * size zeroed bytes that live as long as the file, never null. */
qn_status qn_onnx_place(qn_onnx_reading *reading, size_t count, size_t size, void *memory);

/* place: "initialiser", for messages. */
qn_status qn_onnx_read_tensor(qn_onnx_reading *reading, const char *place,
                              const Onnx__TensorProto *from, qn_onnx_tensor *tensor);

enum { QN_ONNX_LEAST_OPSET = 6, QN_ONNX_MOST_OPSET = 28 };

/* What is left of bytes. */
typedef struct qn_onnx_span {
    const uint8_t *at, *end;
} qn_onnx_span;

/* Takes a number, or a field's content; *inside is what the field holds where it has a length.
 * False: the bytes end before. */
bool qn_onnx_take_number(qn_onnx_span *from, uint64_t *number);
bool qn_onnx_take_field(qn_onnx_span *from, int wire_type, qn_onnx_span *inside);

/* A model out of bytes; large initialisers of a mapped file stay in it (onnx_weights.c). */
qn_status qn_onnx_unpack_model(qn_onnx_reading *reading, const void *from, size_t n,
                               Onnx__ModelProto **message);

/* A message out of bytes, which are looked at first: deeply nested ones are refused. */
qn_status qn_onnx_unpack(qn_onnx_reading *reading, const ProtobufCMessageDescriptor *descriptor,
                         const void *from, size_t n, void *message);

qn_status qn_onnx_read_attribute(qn_onnx_reading *reading, const Onnx__AttributeProto *from,
                                 qn_onnx_attribute *attribute);

qn_status qn_onnx_read_nodes(qn_onnx_reading *reading, Onnx__NodeProto *const *from, size_t n,
                             const qn_onnx_node **nodes, int *n_nodes);

/* Which of several functions of one name a node calls; "" where it does not say. */
qn_status qn_onnx_read_overload(qn_onnx_reading *reading, const Onnx__NodeProto *from,
                                const char **overload);

/* Puts the bodies of the file's functions in place of the nodes that call them. */
qn_status qn_onnx_place_functions(qn_onnx_reading *reading, const Onnx__ModelProto *message,
                                  qn_onnx_model *model);

/* Parts tensors that the exporter made one. */
qn_status qn_onnx_part_tensors(qn_onnx_reading *reading, const Onnx__ModelProto *message,
                               qn_onnx_model *model);

/* The pairs in a field of a message, whether or not the schema that this was compiled with knows
 * the field: those of values and tensors came with version 10 of the format. */
enum { QN_ONNX_PROPERTIES_OF_VALUE = 4, QN_ONNX_PROPERTIES_OF_TENSOR = 16 };
qn_status qn_onnx_read_properties(qn_onnx_reading *reading, const ProtobufCMessage *message,
                                  unsigned tag, const qn_onnx_property **properties, int *n);

/* A graph: the file's, or one inside of an attribute. */
qn_status qn_onnx_read_graph(qn_onnx_reading *reading, const Onnx__GraphProto *graph,
                             qn_onnx_model *model);

/* Names given once, what is read is given; sorts the nodes if need be. */
qn_status qn_onnx_check_names(qn_onnx_reading *reading, qn_onnx_model *model);

/* Writes a message with the initialisers of a list in place of its own. sources: (n_sources) of
 * all tensors that have one. */
typedef struct qn_onnx_written {
    const qn_onnx_file *file; /* that some of them are in */
    const Onnx__ModelProto *message;
    const qn_onnx_model *list;
    const qn_onnx_source *sources;
    int n_sources;
} qn_onnx_written;
qn_status qn_onnx_write_message(const qn_allocator *allocator, const qn_onnx_written *what,
                                const char *path, bool is_outside);

/* Nodes as messages in the arena. */
qn_status qn_onnx_make_nodes(qn_arena *arena, const qn_onnx_node *nodes, int n,
                             Onnx__NodeProto **messages);

/* "node 'conv1' (Conv)", or by its place where it has no name. */
enum { QN_ONNX_NODE_TEXT = 160 };
const char *qn_onnx_node_text(const qn_onnx_node *node, int index, char text[QN_ONNX_NODE_TEXT]);

/* The text, or "" for null. */
const char *qn_onnx_text_or_empty(const char *text);

#endif
