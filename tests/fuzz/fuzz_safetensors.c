/* The safetensors reader, a checkpoint's pairs and the preparation among them: the input as a whole
 * file, and as a header alone that 4096 bytes of data follow. */
#define _GNU_SOURCE /* memfd_create */

#include "base/memory.h"
#include "format/metadata.h"
#include "format/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void try_preparation(qn_metadata *metadata) {
    qn_preparation p;
    if (qn_metadata_get_preparation(metadata, &p) != QN_OK)
        return;
    /* What was accepted must be usable, and keep its bits. */
    double sum = 0;
    for (int i = 0; i < p.n_statistics; i++)
        sum += (double)p.mean[i] / (double)p.std_dev[i];
    for (int i = 0; p.class_names && i < p.n_classes; i++)
        sum += (double)strlen(p.class_names[i]);
    volatile double kept = sum;
    (void)kept;
    if (qn_metadata_set_preparation(metadata, &p) != QN_OK)
        abort();
}

static void try_file(const uint8_t *data, size_t size) {
    char path[64];
    qn_metadata *metadata;
    const int descriptor = memfd_create("fuzz", 0);
    if (descriptor < 0)
        return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    if (write(descriptor, data, size) == (ssize_t)size &&
        qn_checkpoint_read(NULL, path, &metadata) == QN_OK) {
        try_preparation(metadata);
        qn_metadata_destroy(metadata);
    }
    close(descriptor);
}

/* Sorted, named and inside the data. */
static void check_header(const qn_safetensors *file, int64_t n_data) {
    for (size_t i = 0; i < file->n_tensors; i++) {
        const qn_safetensor *t = &file->tensors[i];
        if (!t->type || t->begin < 0 || t->begin + (int64_t)t->bytes > n_data ||
            qn_safetensors_find(file, t->name) != t)
            abort();
    }
}

static void try_header(const uint8_t *data, size_t size, bool takes_any_type) {
    enum { N_DATA = 4096 };
    qn_safetensors file;
    qn_safetensors_init(&file, NULL);
    file.takes_any_type = takes_any_type;
    if (qn_safetensors_parse(&file, "fuzz", (const char *)data, size, N_DATA) == QN_OK)
        check_header(&file, N_DATA);
    qn_safetensors_deinit(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    try_file(data, size);
    try_header(data, size, false);
    if (size > 8)
        try_header(data + 8, size - 8, true);
    return 0;
}
