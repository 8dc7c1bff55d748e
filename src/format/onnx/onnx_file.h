/* ONNX files as plain structures: reading checks everything that a file can get wrong, so that what
 * is handed out can be walked without looking again, and writing makes a file of the same
 * structures. Opset 6 to 28 of the default domain. Calls of functions of the file are replaced by
 * their bodies. What operators mean is no matter of this file (onnx/import.h).
 *
 * Guaranteed of what was read: no pointer of a count above 0 is null, texts end with 0, names of
 * values are given once (by one node output, input, or initialiser; an initialiser may stand for an
 * input), inputs of nodes are "" or values that are given, nodes are in an order in which each
 * value is given before it is read (files with another order are sorted; a cycle is refused),
 * tensors hold as many bytes as type and dims say. Not guaranteed: that an operator exists or its
 * attributes fit it. */
#ifndef QN_FORMAT_ONNX_ONNX_FILE_H
#define QN_FORMAT_ONNX_ONNX_FILE_H

#include "base/memory.h"

/* Numbers as in onnx.proto (TensorProto.DataType). */
typedef enum qn_onnx_type {
    QN_ONNX_NONE = 0,
    QN_ONNX_FLOAT = 1,
    QN_ONNX_UINT8 = 2,
    QN_ONNX_INT8 = 3,
    QN_ONNX_UINT16 = 4,
    QN_ONNX_INT16 = 5,
    QN_ONNX_INT32 = 6,
    QN_ONNX_INT64 = 7,
    QN_ONNX_STRING = 8, /* of tensors: refused */
    QN_ONNX_BOOL = 9,
    QN_ONNX_FLOAT16 = 10,
    QN_ONNX_DOUBLE = 11,
    QN_ONNX_UINT32 = 12,
    QN_ONNX_UINT64 = 13,
    QN_ONNX_BFLOAT16 = 16,
    QN_ONNX_FLOAT8E4M3FN = 17,
    QN_ONNX_FLOAT8E5M2 = 19,
    QN_ONNX_UINT4 = 21, /* two in a byte of the file; here each has a byte */
    QN_ONNX_INT4 = 22,
} qn_onnx_type;

/* "float", "int64", ...; "unknown" for others. Bytes of an element; 0 for others. */
const char *qn_onnx_type_name(qn_onnx_type type);
size_t qn_onnx_type_bytes(qn_onnx_type type);

/* Extents of a tensor are at most so many; every extent is 0 or more. */
enum { QN_ONNX_MOST_DIMS = 16 };

/* A pair of metadata_props. */
typedef struct qn_onnx_property {
    const char *key, *value;
} qn_onnx_property;

/* Numbers that are made while they are written, a piece at a time, so that all of them need no
 * memory. They may be asked for twice. */
typedef struct qn_onnx_source {
    qn_status (*read)(const struct qn_onnx_source *source, size_t offset, size_t bytes, void *to);
    const void *context;
} qn_onnx_source;

typedef struct qn_onnx_tensor {
    const char *name; /* "" where it has none */
    qn_onnx_type type;
    int n_dims; /* 0: a scalar */
    const int64_t *dims;
    size_t bytes;
    const void *data; /* dense, row by row, in this machine's byte order; aligned for its type, but
                         for a megabyte or more of a file, which may be at any address */
    int n_properties;
    const qn_onnx_property *properties;
    const qn_onnx_source *source; /* of one that is only written: has the data, and data is only
                                     the source's address; null: data has them */
} qn_onnx_tensor;

typedef enum qn_onnx_attribute_kind {
    QN_ONNX_ATTRIBUTE_OTHER = 0, /* a sparse tensor, a type: only its name is kept */
    QN_ONNX_ATTRIBUTE_FLOAT,
    QN_ONNX_ATTRIBUTE_INT,
    QN_ONNX_ATTRIBUTE_TEXT,
    QN_ONNX_ATTRIBUTE_TENSOR,
    QN_ONNX_ATTRIBUTE_FLOATS,
    QN_ONNX_ATTRIBUTE_INTS,
    QN_ONNX_ATTRIBUTE_TEXTS,
    QN_ONNX_ATTRIBUTE_GRAPH,
} qn_onnx_attribute_kind;

struct qn_onnx_model;

typedef struct qn_onnx_attribute {
    const char *name;
    qn_onnx_attribute_kind kind;
    float number;     /* FLOAT */
    int64_t count;    /* INT */
    const char *text; /* TEXT */
    qn_onnx_tensor tensor;
    int n; /* of the lists */
    const float *numbers;
    const int64_t *counts;
    const char *const *texts;
    const struct qn_onnx_model *graph; /* GRAPH: its nodes, values and initialisers alone; they may
                                          read names that are given around it */
    const char *reference; /* in a function: the call's attribute that it stands for; or null */
} qn_onnx_attribute;

typedef struct qn_onnx_node {
    const char *name;   /* may be "" */
    const char *type;   /* "Conv" */
    const char *domain; /* "" is the default one ("ai.onnx" is read as it) */
    int n_inputs, n_outputs, n_attributes;
    const char *const *inputs, *const *outputs; /* "": left out */
    const qn_onnx_attribute *attributes;
    const char *overload; /* of a function of the file; "" elsewhere, or null */
    int64_t opset;        /* of the function that it is of; 0: the model's */
} qn_onnx_node;

/* An input or output. dims -1: known at run time only, then symbols has its name or "". n_dims -1:
 * the rank is not known. */
typedef struct qn_onnx_value {
    const char *name;
    qn_onnx_type type;
    int n_dims;
    const int64_t *dims;
    const char *const *symbols; /* (n_dims), "" where there is none */
    int n_properties;
    const qn_onnx_property *properties;
} qn_onnx_value;

typedef struct qn_onnx_model {
    int64_t ir_version, opset;                                   /* of the default domain */
    const char *producer, *producer_version, *graph_name, *text; /* "" where not said */
    int n_nodes, n_initializers, n_inputs, n_outputs, n_infos, n_properties;
    const qn_onnx_node *nodes;
    const qn_onnx_tensor *initializers;
    const qn_onnx_value *inputs; /* initialisers that old files list here too are left out */
    const qn_onnx_value *outputs;
    const qn_onnx_value *infos;         /* what the file says of values in between (value_info) */
    const qn_onnx_property *properties; /* metadata_props */
} qn_onnx_model;

/* What was read, with its memory. */
typedef struct qn_onnx_file qn_onnx_file;

/* Reads a file. Large initialisers are mapped, not copied, and so are those kept outside of it,
 * which come from its folder (paths that lead out of that folder, by "..", "/" or, unless links are
 * followed, a link, are refused). QN_ERROR_FORMAT names
 * what is wrong and where ("model.onnx: node 'conv1' reads 'x7', which nothing gives"); opsets that
 * are not known are QN_ERROR_UNSUPPORTED. */
qn_status qn_onnx_file_open(const qn_allocator *allocator, const char *path, bool follows_links,
                            qn_onnx_file **file);

/* The same of bytes in memory, which may go away afterwards. folder: of outside data; null: such
 * data is refused. name: for messages. */
qn_status qn_onnx_file_open_bytes(const qn_allocator *allocator, const void *bytes, size_t n,
                                  const char *folder, const char *name, qn_onnx_file **file);
void qn_onnx_file_close(qn_onnx_file *file);
const qn_onnx_model *qn_onnx_file_model(const qn_onnx_file *file);

/* After numbers were read: fails if something of them was gone, or others were written over it. */
qn_status qn_onnx_file_check(const qn_onnx_file *file);

/* The path of data that a link out of the model's folder led to; null: there are no more than
 * index such. */
const char *qn_onnx_file_followed(const qn_onnx_file *file, int index);

/* Where data outside of the model's file are, from its folder on; null: there are no more than
 * index such files. */
const char *qn_onnx_file_outside(const qn_onnx_file *file, int index);

/* A number of what the file keeps outside of itself; 0: nothing. */
uint64_t qn_onnx_file_hash_outside(const qn_onnx_file *file);

/* One TensorProto file (the .pb of test data). The tensor lives until the file is closed. */
qn_status qn_onnx_tensor_open(const qn_allocator *allocator, const char *path, qn_onnx_file **file,
                              const qn_onnx_tensor **tensor);

/* Writes a model, whole or not at all. Where all of it would be above 2 GB minus a margin, or
 * is_outside, initialisers go to PATH.SUM.data beside it, SUM being 16 digits of what is in it: a
 * model that is replaced has its own data until its successor is there. */
qn_status qn_onnx_file_write(const qn_allocator *allocator, const qn_onnx_model *model,
                             const char *path, bool is_outside);

/* What changes of a file that is written again. All else stays as it came. */
typedef enum qn_onnx_change_kind {
    QN_ONNX_CHANGE_NUMBERS, /* of the initialiser, or node "Constant", of the tensor's name */
    QN_ONNX_CHANGE_ADD,     /* a tensor in place of the node that gave its name */
    QN_ONNX_CHANGE_READ,    /* a tensor that one node reads in place of one that others read, too */
} qn_onnx_change_kind;

typedef struct qn_onnx_change {
    qn_onnx_change_kind kind;
    qn_onnx_tensor tensor;
    const char *node; /* READ: its first output, and which input it is */
    int input;
} qn_onnx_change;

typedef struct qn_onnx_changes {
    int n_tensors, n_properties, n_nodes, n_front, n_sources;
    const qn_onnx_change *tensors;
    const qn_onnx_source *sources;      /* (n_sources): all of the tensors' */
    const qn_onnx_property *properties; /* added, in place of those of the same
                                           key; without a value that goes */
    const qn_onnx_node *nodes;    /* (n_nodes), the first n_front put first, the others last */
    const char *input, *prepared; /* what other nodes read of the one, they read of the other that
                                     the first nodes make; prepared null: it stays */
    const char *output, *inner;   /* what other nodes call the one becomes the other, which the last
                                     nodes read; inner null: it stays */
    int64_t old_width, width;     /* of outputs; equal: they stay */
    bool is_trained;              /* parted tensors stay so, norms and dropouts are for inference */
} qn_onnx_changes;

/* Writes a file that was read again. Where and when as qn_onnx_file_write. */
qn_status qn_onnx_file_rewrite(const qn_onnx_file *file, const qn_onnx_changes *changes,
                               const char *path, bool is_outside);

/* Whether its initialisers are too much for one file: more than 2 GB minus 64 MB. */
bool qn_onnx_is_beyond_file(const qn_onnx_model *model);

/* The value of a key, or null. */
const char *qn_onnx_find_property(const qn_onnx_property *properties, int n, const char *key);

/* An attribute by name, or null. */
const qn_onnx_attribute *qn_onnx_find_attribute(const qn_onnx_node *node, const char *name);

#endif
