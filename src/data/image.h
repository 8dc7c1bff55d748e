/* PNG and JPEG to bytes of a wanted size. */
#ifndef QN_DATA_IMAGE_H
#define QN_DATA_IMAGE_H

#include "quern/data.h"

/* How pixels arrive: begin once, then every row (w, c), top first. Both may fail. */
typedef struct qn_pixel_sink {
    void *context;
    qn_status (*begin)(void *context, int64_t h, int64_t w, int64_t c); /* c: 1 or 3 */
    qn_status (*row)(void *context, const uint8_t *row);
} qn_pixel_sink;

/* The decoders: from the file's content. Messages name no file. */
qn_status qn_png_decode(const uint8_t *data, size_t bytes, const qn_pixel_sink *sink);
qn_status qn_jpeg_decode(const uint8_t *data, size_t bytes, const qn_pixel_sink *sink);

/* No image may have more pixels: what a few bytes of a file ask for must stay bounded. */
enum { QN_IMAGE_MAX_PIXELS = 1 << 27 };

/* Decodes by what the content says it is and resizes to (H, W, C) bytes; C: 1 or 3. Memory beside
 * the content is a few rows, or the image if it is stored in several passes. */
qn_status qn_image_decode(const uint8_t *data, size_t bytes, const qn_shape *size, bool centre_crop,
                          uint8_t *x);

/* The same of a file, whose path goes into the message. Uses the C library's heap. */
qn_status qn_image_load(const char *path, const qn_shape *size, bool centre_crop, uint8_t *x);

#endif
