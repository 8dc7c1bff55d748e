/* How a GPU runs operators: a row each, in the table of its family's file. A row sets
 * numbers and starts kernels; it never waits. */
#ifndef QN_DEVICE_OPENCL_OPERATORS_H
#define QN_DEVICE_OPENCL_OPERATORS_H

#include "device/gpu/lists.h"

/* A queue while it starts the kernels of a call. */
typedef struct qn_gpu_line {
    qn_gpu *device;
    void *stream;
    qn_gpu_lists *lists;         /* that take the kernels; null: they are started at once */
    const qn_gpu_buffer *buffer; /* where all operands of the call lie; null: none yet */
    bool has_failed;
} qn_gpu_line;

typedef struct qn_gpu_operator {
    const qn_op *op; /* null ends a table */
    void (*run)(qn_gpu_line *line, const qn_call *call);
    /* Besides types and sizes; null: always. */
    bool (*supports)(const qn_query *query);
    size_t (*workspace)(const qn_query *query); /* null: none */
} qn_gpu_operator;

/* The row of an operator; null: it runs on the CPU. */
const qn_gpu_operator *qn_gpu_find(const qn_op *op);

extern const qn_gpu_operator qn_gpu_products[], qn_gpu_elementwise[], qn_gpu_reductions[],
    qn_gpu_sequences[], qn_gpu_updates[];

/* The bytes from the buffer's begin to an operand; 0 for null. */
uint64_t qn_gpu_place(qn_gpu_line *line, const void *address);

/* Starts a kernel over x * y * z items, or, of a tiled one, groups. */
void qn_gpu_start(qn_gpu_line *line, qn_gpu_kernel kernel, const qn_gpu_arguments *a, int64_t x,
                  int64_t y, int64_t z);

/* Products of matrices that lie dense one behind the other, but that rows of a may be row_a
 * elements apart (0: dense): (m, n) = op(a) op(b), a dense matrix each. */
typedef struct qn_gpu_matrices {
    int64_t m, n, k, matrices;
    bool transpose_a, transpose_b;
    int64_t row_a;
} qn_gpu_matrices;

void qn_gpu_start_matrices(qn_gpu_line *line, const qn_gpu_matrices *x, const void *a,
                           const void *b, const void *to);

/* Products of n x n, and sums of n elements, by themselves: to measure a device by. */
void qn_gpu_multiply(qn_gpu_line *line, const float *a, const float *b, float *to, int64_t n);
void qn_gpu_add_vectors(qn_gpu_line *line, const float *a, const float *b, float *to, int64_t n);

/* The sums of columns of rows that lie dense. */
void qn_gpu_add_rows(qn_gpu_line *line, uint64_t from, int64_t rows, int64_t columns, uint64_t to);

/* Chunks of at least `least` of n things, at most `most` chunks: things of a chunk. */
int32_t qn_gpu_chunk(int64_t n, int64_t least, int64_t most);

/* Numbers of rows that may lie apart: columns, rows and steps of up to three operands, which become
 * one row if all are dense. */
void qn_gpu_rows(qn_gpu_arguments *a, qn_shape shape, int64_t step0, int64_t step1, int64_t step2);

#endif
