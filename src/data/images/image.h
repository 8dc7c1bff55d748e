/* Images as bytes of a given size: PNG, JPEG and BMP and, if their libraries are installed, WebP,
 * GIF, TIFF, HEIC and AVIF. Images are turned upright by EXIF. */
#ifndef QN_DATA_IMAGES_IMAGE_H
#define QN_DATA_IMAGES_IMAGE_H

#include "data/images/orientation.h"
#include "quern/data.h"

/* How pixels arrive: begin once, then every row (w, c), top first, as they are stored. Both may
 * fail. */
typedef struct qn_pixel_sink {
    void *context;
    qn_status (*begin)(void *context, int64_t h, int64_t w, int64_t c /* 1 or 3 */,
                       qn_orientation orientation);
    qn_status (*row)(void *context, const uint8_t *row);
    int64_t wanted_side; /* a picture of at least so many pixels on its short side is as good */
} qn_pixel_sink;

/* The decoders: from the file's content. Messages name no file. */
qn_status qn_png_decode(const uint8_t *data, size_t bytes, const qn_pixel_sink *sink);
qn_status qn_jpeg_decode(const uint8_t *data, size_t bytes, const qn_pixel_sink *sink);
qn_status qn_webp_decode(const uint8_t *data, size_t bytes, const qn_pixel_sink *sink);
qn_status qn_heic_decode(const uint8_t *data, size_t bytes, const qn_pixel_sink *sink);
qn_status qn_bmp_decode(const uint8_t *data, size_t bytes, const qn_pixel_sink *sink);
qn_status qn_gif_decode(const uint8_t *data, size_t bytes, const qn_pixel_sink *sink);
qn_status qn_tiff_decode(const uint8_t *data, size_t bytes, const qn_pixel_sink *sink);

/* Whether the content begins as that of a HEIC or AVIF, a BMP, a TIFF does. */
bool qn_heic_is(const uint8_t *data, size_t bytes);
bool qn_bmp_is(const uint8_t *data, size_t bytes);
bool qn_tiff_is(const uint8_t *data, size_t bytes);

/* Whether the name of a file ends as that of a picture does that there is a decoder for. */
bool qn_image_has_name(const char *name);

/* What the ending of such a name says: "PNG"; "" of other names. */
const char *qn_image_format_name(const char *name);

/* Pixels of c channels with alpha last -> without, on white. In place. */
void qn_pixels_drop_alpha(uint8_t *row, int64_t w, int c);

/* No image may have more pixels: what a few bytes of a file ask for must stay bounded. */
enum { QN_IMAGE_MAX_PIXELS = 1 << 27 };

/* Decodes by what the content says it is and resizes to (H, W, C) bytes; C: 1 or 3. Memory beside
 * the content is a few rows, or the image if it is stored in several passes. */
qn_status qn_image_decode(const uint8_t *data, size_t bytes, const qn_shape *size, bool centre_crop,
                          uint8_t *x);

/* The same of a file, whose path goes into the message. Uses the C library's heap. */
qn_status qn_image_load(const char *path, const qn_shape *size, bool centre_crop, uint8_t *x);

/* Likewise, with a hash that pictures of the same pixels share (JPEG: files of the same bytes). It
 * does not depend on the size asked for. */
qn_status qn_image_load_known(const char *path, const qn_shape *size, bool centre_crop, uint8_t *x,
                              uint64_t *content);

/* Makes a JPEG file of an image in memory, for free(); quality: 1 to 100. */
qn_status qn_jpeg_encode(const qn_image *image, int quality, uint8_t **data, size_t *bytes);

/* Resizes an image in memory to (H, W, C) bytes, as decoding does. */
qn_status qn_image_fit(const qn_image *image, const qn_shape *size, bool centre_crop, uint8_t *x);

#endif
