/* Unpacking of gzip, up to a megabyte. */
#define _GNU_SOURCE /* memfd_create */

#include "base/status.h"
#include "format/gzip.h"

#include "memory_file.h"

static qn_status count(void *context, const void *data, size_t bytes) {
    size_t *total = context;
    (void)data;
    *total += bytes;
    return *total < 1 << 20 ? QN_OK : qn_fail(QN_ERROR_IO, "full");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int descriptor;
    size_t total = 0;
    qn_file *file = memory_file_open(data, size, &descriptor);
    if (file)
        (void)qn_gzip_unpack(NULL, file, (qn_sink){&total, count});
    qn_file_close(file);
    close(descriptor);
    return 0;
}
