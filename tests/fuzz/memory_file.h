/* Bytes as a file that has a path, for parsers that read files. */
#ifndef QN_TESTS_MEMORY_FILE_H
#define QN_TESTS_MEMORY_FILE_H

#include "os/os.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* Opens a file with the bytes; null where the system cannot. The descriptor is to be closed. */
static inline qn_file *memory_file_open(const uint8_t *data, size_t size, int *descriptor) {
    char path[64];
    qn_file *file = NULL;
    *descriptor = memfd_create("fuzz", 0);
    if (*descriptor < 0)
        return NULL;
    snprintf(path, sizeof path, "/proc/self/fd/%d", *descriptor);
    if (write(*descriptor, data, size) != (ssize_t)size || qn_file_open(NULL, path, &file) != QN_OK)
        file = NULL;
    return file;
}

#endif
