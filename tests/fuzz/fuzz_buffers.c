/* CSV files of buffers: what is read is packed, written, and read again with the same offsets. */
#define _GNU_SOURCE /* memfd_create */

#include "base/memory.h"
#include "format/buffers.h"
#include "os/heap.h"
#include "os/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static qn_status parse(const uint8_t *data, size_t size, qn_buffers *buffers) {
    char *text;
    if (qn_allocate(qn_allocator_default(), size + 1, 1, &text) != QN_OK)
        abort();
    memcpy(text, data, size);
    return qn_buffers_parse(NULL, "fuzz.csv", text, size, buffers);
}

/* Writes to a file and reads it back. */
static void check_written(const qn_buffers *b) {
    char path[64];
    qn_buffers back;
    snprintf(path, sizeof path, "/tmp/quern-fuzz-buffers-%d", (int)getpid());
    if (qn_buffers_write(b, path) != QN_OK || qn_buffers_read(NULL, path, &back) != QN_OK ||
        back.n != b->n || !back.has_offsets)
        abort();
    unlink(path);
    for (int32_t i = 0; i < b->n; i++) {
        const qn_buffer_row *row = &back.rows[1 + i];
        if (back.boxes[i].lower != b->boxes[i].lower || back.boxes[i].bytes != b->boxes[i].bytes ||
            strtoull(back.text + row->field, NULL, 10) != b->boxes[i].offset)
            abort();
    }
    qn_buffers_deinit(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const qn_packing_options options = {.most_work = 2000};
    qn_buffers b;
    qn_packing packing;
    if (parse(data, size, &b) != QN_OK)
        return 0;
    if (qn_pack(NULL, b.boxes, b.n, &options, &packing) != QN_OK ||
        qn_packing_check(b.boxes, b.n, packing.top_bytes) != QN_OK)
        abort();
    check_written(&b);
    qn_buffers_deinit(&b);
    return 0;
}
