/* Parsers of file headers from memory, so that they can be fuzzed separately. Their messages
 * contain no file name; the caller adds it. */
#ifndef QN_DATA_HEADERS_H
#define QN_DATA_HEADERS_H

#include "quern/data.h"

/* Unsigned bytes; data_bytes = product of the dims, every one at least 1. */
typedef struct qn_idx_header {
    int64_t dims[3];
    int64_t header_bytes, data_bytes;
} qn_idx_header;

/* rank 1 (labels) or 3 (images). */
qn_status qn_idx_parse(const unsigned char *data, size_t bytes, int rank, qn_idx_header *header);

/* data_bytes = element_bytes * product of the dims. */
typedef struct qn_npy_header {
    char kind; /* f (4 or 8 bytes), i, u or b (truths, of one byte); texts: U (UTF-32), S (bytes) */
    int element_bytes;
    bool is_fortran;
    qn_shape shape;
    int64_t header_bytes, data_bytes;
} qn_npy_header;

enum { QN_NPY_MAX_HEADER = 4096, QN_NPY_TEXT = 1023 /* characters of a text */ };

/* From the first bytes of the file, at least QN_NPY_MAX_HEADER of them if it has so many. */
qn_status qn_npy_parse(const unsigned char *data, size_t bytes, qn_npy_header *header);

/* An element of such an array from its bytes, rounded once. */
float qn_npy_float(const qn_npy_header *header, const unsigned char *at);

#endif
