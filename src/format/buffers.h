/* CSV files of buffers to be packed: a header line with the columns id, lower, upper and size, in
 * any order and among any others; then one buffer a line, alive in [lower, upper), all integers.
 * Writing keeps every line unchanged and adds the column offset, or replaces its fields if it
 * exists. Fields may be quoted, and quoted fields may contain line ends. */
#ifndef QN_FORMAT_BUFFERS_H
#define QN_FORMAT_BUFFERS_H

#include "plan/packing/packing.h"

/* A buffer's text: [begin, end) of the file without its line's end; its offset's field, from
 * `field`, or empty at the end of the line. */
typedef struct qn_buffer_row {
    size_t begin, end, field, field_bytes;
} qn_buffer_row;

/* boxes[i] is of rows[1 + i]; rows[0] is of the names. */
typedef struct qn_buffers {
    const qn_allocator *allocator;
    char *text; /* (text_bytes + 1) the file */
    size_t text_bytes;
    qn_buffer_row *rows; /* (n + 1 of row_capacity) */
    qn_box *boxes;       /* (n of box_capacity) */
    size_t row_capacity, box_capacity;
    int32_t n;
    bool has_offsets; /* a column of them was there */
} qn_buffers;

/* Takes a text of bytes + 1 bytes from the allocator; path is for messages, which name the line. */
qn_status qn_buffers_parse(const qn_allocator *allocator, const char *path, char *text,
                           size_t bytes, qn_buffers *buffers);
qn_status qn_buffers_read(const qn_allocator *allocator, const char *path, qn_buffers *buffers);
void qn_buffers_deinit(qn_buffers *buffers);

/* Writes the file with the boxes' offsets, whole or not at all. */
qn_status qn_buffers_write(const qn_buffers *buffers, const char *path);

#endif
