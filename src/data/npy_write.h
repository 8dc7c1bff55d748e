/* Writes arrays as NumPy's .npy files of version 1.0, row by row. */
#ifndef QN_DATA_NPY_WRITE_H
#define QN_DATA_NPY_WRITE_H

#include "quern/graph.h"

typedef struct qn_npy_rows {
    const char *kind; /* NumPy's name of the type, as "<f4", "|u1", "<i8" */
    int64_t n_rows;
    qn_shape row; /* (n_rows,) + row is the array's shape; rank 0: numbers */
    size_t row_bytes;
    void *user;
    qn_status (*read)(void *user, int64_t index, void *row);
} qn_npy_rows;

/* The file is whole or not there. */
qn_status qn_npy_write(const char *path, const qn_npy_rows *rows);

#endif
