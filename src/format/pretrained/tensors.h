/* The tensors of a pretrained model, whatever files they lie in: name, format, shape and mapped
 * bytes. Nothing is copied. */
#ifndef QN_FORMAT_PRETRAINED_TENSORS_H
#define QN_FORMAT_PRETRAINED_TENSORS_H

#include "base/memory.h"
#include "tensor/blocks.h"
#include "tensor/tensor.h"

/* shape has the slowest axis first: (rows, columns); blocks lie along the last. */
typedef struct qn_pretrained_tensor {
    const char *name;
    const char *type; /* as the file calls it, "Q4_K" */
    qn_blocks blocks; /* QN_BLOCKS_NONE: quern does not read the type */
    qn_shape shape;
    const uint8_t *data; /* (bytes) in the mapped file */
    size_t bytes;
} qn_pretrained_tensor;

/* After qn_tensors_finish the list is sorted by name, and no name is there twice. */
typedef struct qn_pretrained_tensors {
    const qn_allocator *allocator;
    qn_pretrained_tensor *list; /* (n) of capacity */
    size_t n, capacity;
} qn_pretrained_tensors;

void qn_tensors_deinit(qn_pretrained_tensors *tensors);

qn_status qn_tensors_add(qn_pretrained_tensors *tensors, const qn_pretrained_tensor *tensor);

/* Sorts; a name that is there twice is QN_ERROR_FORMAT. place names the model in messages. */
qn_status qn_tensors_finish(qn_pretrained_tensors *tensors, const char *place);

/* The tensor of a name, or null. */
const qn_pretrained_tensor *qn_tensors_find(const qn_pretrained_tensors *tensors, const char *name);

#endif
