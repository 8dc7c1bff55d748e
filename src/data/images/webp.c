/* WebP through libwebp, which is opened when the first such file is found, since few folders have
 * any. Transparent pixels are blended with white; EXIF's orientation is applied. Animations are not
 * supported, as in libwebp's simple interface. */
#include "base/status.h"
#include "data/images/image.h"
#include "data/images/little.h"
#include "os/library.h"

#include <string.h>

/* As webp/decode.h declares them. */
typedef struct webp_library {
    int (*get_info)(const uint8_t *data, size_t bytes, int *width, int *height);
    uint8_t *(*decode)(const uint8_t *data, size_t bytes, int *width, int *height); /* RGBA */
    void (*release)(void *pixels);
} webp_library;

/* Once opened, it stays: one handle more, and no loading again for the next file. */
static qn_status open_library(webp_library *l) {
    qn_library *library;
    if (qn_library_open("libwebp.so.7", &library) != QN_OK)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "WebP needs libwebp, which is not installed (Debian: apt-get install "
                       "libwebp7); or convert it to JPEG");
    if (qn_library_find(library, "WebPGetInfo", &l->get_info) &&
        qn_library_find(library, "WebPDecodeRGBA", &l->decode) &&
        qn_library_find(library, "WebPFree", &l->release))
        return QN_OK;
    return qn_fail(QN_ERROR_UNSUPPORTED, "libwebp lacks a function that is needed");
}

/* RIFF's chunks: four letters, a length, as many bytes, one more if that is odd. */
static qn_orientation find_orientation(const uint8_t *data, size_t bytes) {
    for (size_t at = 12; at + 8 <= bytes;) {
        const size_t length = qn_read_le32(data + at + 4), left = bytes - at - 8;
        if (length > left)
            break;
        if (memcmp(data + at, "EXIF", 4) == 0)
            return qn_orientation_parse(data + at + 8, length);
        at += 8 + length + (length & 1 && length < left);
    }
    return 1;
}

static qn_status give_rows(const qn_pixel_sink *sink, uint8_t *pixels, int64_t h, int64_t w) {
    for (int64_t y = 0; y < h; y++) {
        uint8_t *row = pixels + y * w * 4;
        qn_pixels_drop_alpha(row, w, 3);
        QN_TRY(sink->row(sink->context, row));
    }
    return QN_OK;
}

qn_status qn_webp_decode(const uint8_t *data, size_t bytes, const qn_pixel_sink *sink) {
    webp_library library;
    int w, h;
    QN_TRY(open_library(&library));
    if (!library.get_info(data, bytes, &w, &h))
        return qn_fail(QN_ERROR_FORMAT, "broken WebP");
    if ((int64_t)w * h > QN_IMAGE_MAX_PIXELS)
        return qn_fail(QN_ERROR_FORMAT, "WebP of too many pixels");
    uint8_t *pixels = library.decode(data, bytes, &w, &h);
    if (!pixels)
        return qn_fail(QN_ERROR_FORMAT, "broken WebP, or an animation");
    qn_status status = sink->begin(sink->context, h, w, 3, find_orientation(data, bytes));
    if (status == QN_OK)
        status = give_rows(sink, pixels, h, w);
    library.release(pixels);
    return status;
}
