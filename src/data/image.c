/* Images of any size to bytes of one size, while they are decoded; see image.h. */
#include "data/image.h"

#include "base/memory.h"
#include "base/status.h"
#include "data/prepare.h"
#include "data/source.h"
#include "os/os.h"

#include <inttypes.h>
#include <string.h>

/* Between decoder and result: what a row goes through. */
typedef struct fitting {
    const qn_shape *size;
    bool centre_crop;
    qn_resizer resizer;
    int64_t from_c;
    float *wide; /* (W, from_c) */
    float *line; /* (W, C) */
    uint8_t *x;  /* where the next row goes */
} fitting;

static qn_status fitting_begin(void *context, int64_t h, int64_t w, int64_t c) {
    fitting *f = context;
    const qn_allocator *heap = qn_allocator_default();
    size_t width = (size_t)f->size->dims[1];
    f->from_c = c;
    QN_TRY(qn_resizer_init(&f->resizer, heap, (int64_t[]){h, w, c}, f->size->dims, f->centre_crop));
    QN_TRY(qn_allocate(heap, width, (size_t)c * sizeof *f->wide, &f->wide));
    return qn_allocate(heap, width, (size_t)f->size->dims[2] * sizeof *f->line, &f->line);
}

static qn_status fitting_row(void *context, const uint8_t *row) {
    fitting *f = context;
    int64_t w = f->size->dims[1], c = f->size->dims[2];
    qn_resizer_put(&f->resizer, QN_U8, row);
    for (; qn_resizer_take(&f->resizer, f->wide); f->x += w * c) {
        qn_channels_convert(f->wide, w, f->from_c, c, f->line);
        for (int64_t i = 0; i < w * c; i++)
            f->x[i] = (uint8_t)(f->line[i] + 0.5f);
    }
    return QN_OK;
}

static void fitting_deinit(fitting *f) {
    const qn_allocator *heap = qn_allocator_default();
    size_t width = (size_t)f->size->dims[1];
    qn_release(heap, f->wide, width, (size_t)f->from_c * sizeof *f->wide);
    qn_release(heap, f->line, width, (size_t)f->size->dims[2] * sizeof *f->line);
    qn_resizer_deinit(&f->resizer);
}

qn_status qn_image_decode(const uint8_t *data, size_t bytes, const qn_shape *size, bool centre_crop,
                          uint8_t *x) {
    fitting f = {.size = size, .centre_crop = centre_crop, .x = x};
    qn_pixel_sink sink = {&f, fitting_begin, fitting_row};
    qn_status status;
    if (bytes >= 8 && memcmp(data, "\x89PNG\r\n\x1a\n", 8) == 0)
        status = qn_png_decode(data, bytes, &sink);
    else if (bytes >= 3 && memcmp(data, "\xff\xd8\xff", 3) == 0)
        status = qn_jpeg_decode(data, bytes, &sink);
    else
        status = qn_fail(QN_ERROR_FORMAT, "neither a PNG nor a JPEG");
    fitting_deinit(&f);
    return status;
}

static qn_status read_whole(const char *path, uint8_t **data, size_t *bytes) {
    qn_file *file = NULL;
    QN_TRY(qn_file_open(NULL, path, &file));
    *bytes = (size_t)qn_file_bytes(file);
    qn_status status = *bytes > 0 ? qn_allocate(qn_allocator_default(), *bytes, 1, data)
                                  : qn_fail(QN_ERROR_FORMAT, "%s: empty file", path);
    if (status == QN_OK)
        status = qn_file_read(file, 0, *data, *bytes);
    qn_file_close(file);
    return status;
}

qn_status qn_image_load(const char *path, const qn_shape *size, bool centre_crop, uint8_t *x) {
    uint8_t *data = NULL;
    size_t bytes = 0;
    qn_status status = read_whole(path, &data, &bytes);
    if (status == QN_OK) {
        status = qn_image_decode(data, bytes, size, centre_crop, x);
        if (status != QN_OK)
            qn_fail_within(status, "%s", path);
    }
    qn_release(qn_allocator_default(), data, bytes, 1);
    return status;
}

qn_status qn_image_prepare(const qn_allocator *allocator, const char *path,
                           const qn_preparation *preparation, float *x) {
    const qn_shape *size = &preparation->sample;
    qn_preparer preparer;
    uint8_t *pixels;
    allocator = qn_allocator_or_default(allocator);
    if (size->rank != 3 || (size->dims[2] != 1 && size->dims[2] != 3))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "%s: the network takes no images (H, W, 1 or 3), but rows of numbers", path);
    QN_TRY(qn_preparer_init(&preparer, allocator, size, QN_U8, preparation));
    size_t bytes = (size_t)qn_shape_count(*size);
    qn_status status = qn_allocate(allocator, bytes, 1, &pixels);
    if (status == QN_OK) {
        status = qn_image_load(path, size, preparation->centre_crop, pixels);
        if (status == QN_OK)
            qn_preparer_apply(&preparer, pixels, x);
        qn_release(allocator, pixels, bytes, 1);
    }
    qn_preparer_deinit(&preparer);
    return status;
}
