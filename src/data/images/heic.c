/* HEIC and AVIF through libheif, which is opened when the first such file is found, because it is
 * large and few machines have it. Only the primary image is read, oriented as the file says; alpha
 * is ignored. */
#include "base/status.h"
#include "data/images/image.h"
#include "os/library.h"

#include <string.h>

/* As libheif/heif.h declares them; pointers to its structures are never looked into. */
typedef struct heif_result {
    int code, subcode;
    const char *message;
} heif_result;

enum { COLORSPACE_RGB = 1, CHROMA_INTERLEAVED_RGB = 10, CHANNEL_INTERLEAVED = 10 };

typedef struct heif_library {
    void *(*context)(void);
    void (*release_context)(void *context);
    heif_result (*read)(void *context, const void *data, size_t bytes, const void *options);
    heif_result (*primary)(void *context, void **handle);
    void (*release_handle)(const void *handle);
    int (*handle_width)(const void *handle);
    int (*handle_height)(const void *handle);
    heif_result (*decode)(const void *handle, void **image, int colorspace, int chroma,
                          const void *options);
    void (*release_image)(const void *image);
    int (*width)(const void *image, int channel);
    int (*height)(const void *image, int channel);
    const uint8_t *(*plane)(const void *image, int channel, int *stride);
} heif_library;

/* Once opened, it stays: one handle more, and no loading again for the next file. */
static qn_status open_library(heif_library *l) {
    qn_library *library;
    const struct {
        const char *name;
        void *function;
    } functions[] = {
        {"heif_context_alloc", &l->context},
        {"heif_context_free", &l->release_context},
        {"heif_context_read_from_memory_without_copy", &l->read},
        {"heif_context_get_primary_image_handle", &l->primary},
        {"heif_image_handle_release", &l->release_handle},
        {"heif_image_handle_get_width", &l->handle_width},
        {"heif_image_handle_get_height", &l->handle_height},
        {"heif_decode_image", &l->decode},
        {"heif_image_release", &l->release_image},
        {"heif_image_get_width", &l->width},
        {"heif_image_get_height", &l->height},
        {"heif_image_get_plane_readonly", &l->plane},
    };
    if (qn_library_open("libheif.so.1", &library) != QN_OK)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "HEIC needs libheif, which is not installed (Debian: apt-get install "
                       "libheif1); or convert it to JPEG");
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        if (!qn_library_find(library, functions[i].name, functions[i].function))
            return qn_fail(QN_ERROR_UNSUPPORTED, "libheif lacks %s", functions[i].name);
    }
    return QN_OK;
}

static qn_status judge(heif_result result) {
    return result.code == 0
               ? QN_OK
               : qn_fail(QN_ERROR_FORMAT, "broken HEIC: %s", result.message ? result.message : "");
}

static qn_status give_image(const heif_library *l, const void *image, const qn_pixel_sink *sink) {
    int stride;
    const uint8_t *pixels = l->plane(image, CHANNEL_INTERLEAVED, &stride);
    const int w = l->width(image, CHANNEL_INTERLEAVED), h = l->height(image, CHANNEL_INTERLEAVED);
    if (!pixels || w < 1 || h < 1)
        return qn_fail(QN_ERROR_FORMAT, "broken HEIC: no pixels");
    QN_TRY(sink->begin(sink->context, h, w, 3, 1));
    for (int64_t y = 0; y < h; y++)
        QN_TRY(sink->row(sink->context, pixels + y * stride));
    return QN_OK;
}

static qn_status decode_handle(const heif_library *l, const void *handle,
                               const qn_pixel_sink *sink) {
    void *image = NULL;
    if ((int64_t)l->handle_width(handle) * l->handle_height(handle) > QN_IMAGE_MAX_PIXELS)
        return qn_fail(QN_ERROR_FORMAT, "HEIC of too many pixels");
    QN_TRY(judge(l->decode(handle, &image, COLORSPACE_RGB, CHROMA_INTERLEAVED_RGB, NULL)));
    const qn_status status = give_image(l, image, sink);
    l->release_image(image);
    return status;
}

static qn_status decode_context(const heif_library *l, void *context, const uint8_t *data,
                                size_t bytes, const qn_pixel_sink *sink) {
    void *handle = NULL;
    QN_TRY(judge(l->read(context, data, bytes, NULL)));
    QN_TRY(judge(l->primary(context, &handle)));
    const qn_status status = decode_handle(l, handle, sink);
    l->release_handle(handle);
    return status;
}

/* Brands of ISO's files (ISO/IEC 14496-12) that hold pictures; films have others. */
bool qn_heic_is(const uint8_t *data, size_t bytes) {
    static const char *const brands[] = {"heic", "heix", "heim", "heis", "hevc",
                                         "mif1", "msf1", "avif", "avis"};
    if (bytes < 12 || memcmp(data + 4, "ftyp", 4) != 0)
        return false;
    for (size_t i = 0; i < sizeof brands / sizeof brands[0]; i++) {
        if (memcmp(data + 8, brands[i], 4) == 0)
            return true;
    }
    return false;
}

qn_status qn_heic_decode(const uint8_t *data, size_t bytes, const qn_pixel_sink *sink) {
    heif_library library;
    QN_TRY(open_library(&library));
    void *context = library.context();
    if (!context)
        return qn_fail(QN_ERROR_MEMORY, "no memory to decode a HEIC");
    const qn_status status = decode_context(&library, context, data, bytes, sink);
    library.release_context(context);
    return status;
}
