/* The safetensors format: 8 bytes with the header's length, a JSON header that describes every
 * tensor, and the tensors' bytes without gaps. The reader trusts nothing: a header with wrong
 * sizes, types or offsets is rejected before a tensor is read. Data moves between file and tensor
 * without an intermediate copy. Element types that quern does not support are rejected by name,
 * unless they are asked for. */
#ifndef QN_FORMAT_SAFETENSORS_H
#define QN_FORMAT_SAFETENSORS_H

#include "base/memory.h"
#include "os/files/room.h"
#include "os/os.h"
#include "tensor/tensor.h"

/* Largest header that the format allows. */
enum { QN_SAFETENSORS_MAX_HEADER = 100000000 };

/* A tensor in a file: bytes = extents' product * element size, lies at data_offset + begin. */
typedef struct qn_safetensor {
    const char *name;
    qn_dtype dtype; /* QN_NONE: one that quern has none of */
    qn_shape shape;
    int64_t begin;
    size_t bytes;
    const void *data; /* what is written; null when read */
    const char *type; /* as the file has it, "BF16"; null when written */
} qn_safetensor;

/* A text pair of the header's "__metadata__". */
typedef struct qn_safetensors_pair {
    const char *key, *value;
} qn_safetensors_pair;

/* Invariants: tensors and pairs are sorted by name and differ in it; all texts live in texts. */
typedef struct qn_safetensors {
    qn_arena texts;
    qn_safetensor *tensors;     /* (n_tensors) of capacity */
    qn_safetensors_pair *pairs; /* (n_pairs) */
    size_t n_tensors, capacity, n_pairs;
    int64_t data_offset;
    bool takes_any_type; /* set before reading: also types that quern has none of */
} qn_safetensors;

void qn_safetensors_init(qn_safetensors *file, const qn_allocator *allocator);
void qn_safetensors_deinit(qn_safetensors *file);

/* Fills an initialised *file from a header's text (not terminated) that is followed by n_data
 * bytes. place names the file in messages. */
qn_status qn_safetensors_parse(qn_safetensors *file, const char *place, const char *header,
                               size_t header_bytes, int64_t n_data);

/* Fills an initialised *file from the file's header. */
qn_status qn_safetensors_read(qn_safetensors *file, qn_file *from);

/* The tensor of a name, or null. */
const qn_safetensor *qn_safetensors_find(const qn_safetensors *file, const char *name);

/* Writes a file with its tensors and pairs in the order given, replacing path as a whole; begin is
 * not read. */
qn_status qn_safetensors_write(const qn_allocator *allocator, const char *path,
                               const qn_safetensor *tensors, size_t n_tensors,
                               const qn_safetensors_pair *pairs, size_t n_pairs);

/* The same into room that is kept for it (null: none), and the bytes that such a file has. */
qn_status qn_safetensors_write_in(const qn_allocator *allocator, qn_room *room, const char *path,
                                  const qn_safetensor *tensors, size_t n_tensors,
                                  const qn_safetensors_pair *pairs, size_t n_pairs);
qn_status qn_safetensors_measure(const qn_allocator *allocator, const qn_safetensor *tensors,
                                 size_t n_tensors, const qn_safetensors_pair *pairs, size_t n_pairs,
                                 int64_t *bytes);

/* "F32" and so on; null for a type that cannot be written. */
const char *qn_safetensors_type(qn_dtype dtype);

#endif
