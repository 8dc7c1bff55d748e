/* .npy files: a header that is accepted holds its equations, and a file that is opened as samples
 * and as labels gives finite numbers and classes that there are. */
#define _GNU_SOURCE /* memfd_create */

#include "data/headers.h"
#include "quern/data.h"

#include "memory_file.h"

#include <math.h>

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_BYTES = 1 << 16 };

static void read_samples(const qn_data_source *source) {
    static _Alignas(64) float x[MOST_BYTES];
    static _Alignas(64) int32_t y[MOST_BYTES];
    for (int64_t i = 0; i < source->n_samples[QN_TRAIN] && i < 8; i++) {
        if (source->read(source->self, QN_TRAIN, i, x, y) != QN_OK)
            abort();
        if (source->n_targets == 0 && (y[0] < 0 || y[0] >= source->preparation.n_classes))
            abort();
        if (source->dtype == QN_F32 && !isfinite(x[0]))
            abort();
    }
}

static void open_samples(const uint8_t *data, size_t size) {
    static const char *const endings[] = {"", ",nchw", ",nct"};
    char text[128];
    int descriptor;
    qn_data_source source;
    qn_file *file = memory_file_open(data, size, &descriptor);
    for (int i = 0; file && i < 3; i++) {
        snprintf(text, sizeof text, "npy:/proc/self/fd/%d,/proc/self/fd/%d%s", descriptor,
                 descriptor, endings[i]);
        if (qn_data_open(text, NULL, &source) == QN_OK) {
            read_samples(&source);
            qn_data_close(&source);
        }
    }
    qn_file_close(file);
    close(descriptor);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qn_npy_header header;
    if (size < MOST_BYTES)
        open_samples(data, size);
    if (qn_npy_parse(data, size, &header) != QN_OK)
        return 0;
    __int128 bytes = header.element_bytes;
    for (int i = 0; i < header.shape.rank; i++)
        bytes *= header.shape.dims[i];
    if (bytes != header.data_bytes || bytes < 1 || !header.kind || !strchr("fiubUS", header.kind) ||
        header.header_bytes < 10 || header.header_bytes > (int64_t)size)
        abort();
    return 0;
}
