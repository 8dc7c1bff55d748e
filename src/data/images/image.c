/* Images of any size to bytes of a given size, resized while they are decoded; see image.h. */
#include "data/images/image.h"

#include "base/memory.h"
#include "base/rng.h"
#include "base/status.h"
#include "base/text.h"
#include "data/prepare.h"
#include "data/source.h"
#include "os/heap.h"
#include "os/os.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* Between decoder and result: what a row goes through. A picture that is stored turned is fitted as
 * it is stored, to the size that is turned likewise, and then turned. */
typedef struct fitting {
    const qn_shape *size;
    bool centre_crop;
    qn_orientation orientation;
    int64_t stored[2]; /* the size, (W, H) where it is to be turned */
    qn_resizer resizer;
    int64_t from_c;
    float *wide;     /* (stored[1], from_c) */
    float *line;     /* (stored[1], C) */
    uint8_t *turned; /* (stored, C), where the orientation is not 1 */
    uint8_t *x;      /* where the next row goes */
    size_t row_bytes;
    uint64_t content; /* a hash of the rows so far, as they are stored */
} fitting;

static void add_content(fitting *f, const void *bytes, size_t n) {
    const uint64_t pair[2] = {f->content, qn_hash_bytes(bytes, n)};
    f->content = qn_hash_bytes(pair, sizeof pair);
}

static qn_status fitting_begin(void *context, int64_t h, int64_t w, int64_t c,
                               qn_orientation orientation) {
    fitting *f = context;
    const qn_allocator *heap = qn_allocator_default();
    const bool is_turned = orientation >= 5;
    f->orientation = orientation;
    f->stored[0] = f->size->dims[is_turned];
    f->stored[1] = f->size->dims[!is_turned];
    f->from_c = c;
    f->row_bytes = (size_t)(w * c);
    add_content(f, (const int64_t[]){h, w, c, (int64_t)orientation}, 4 * sizeof(int64_t));
    const size_t width = (size_t)f->stored[1];
    QN_TRY(qn_resizer_init(&f->resizer, heap, (int64_t[]){h, w, c}, f->stored, f->centre_crop));
    QN_TRY(qn_allocate(heap, width, (size_t)c * sizeof *f->wide, &f->wide));
    QN_TRY(qn_allocate(heap, width, (size_t)f->size->dims[2] * sizeof *f->line, &f->line));
    if (orientation == 1)
        return QN_OK;
    QN_TRY(qn_allocate(heap, (size_t)qn_shape_count(*f->size), 1, &f->turned));
    f->x = f->turned;
    return QN_OK;
}

static qn_status fitting_row(void *context, const uint8_t *row) {
    fitting *f = context;
    int64_t w = f->stored[1], c = f->size->dims[2];
    add_content(f, row, f->row_bytes);
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
    const size_t width = (size_t)f->stored[1];
    qn_release(heap, f->wide, width, (size_t)f->from_c * sizeof *f->wide);
    qn_release(heap, f->line, width, (size_t)f->size->dims[2] * sizeof *f->line);
    qn_release(heap, f->turned, (size_t)qn_shape_count(*f->size), 1);
    qn_resizer_deinit(&f->resizer);
}

void qn_pixels_drop_alpha(uint8_t *row, int64_t w, int c) {
    for (int64_t i = 0; i < w; i++) {
        int alpha = row[i * (c + 1) + c];
        for (int k = 0; k < c; k++)
            row[i * c + k] =
                (uint8_t)((row[i * (c + 1) + k] * alpha + 255 * (255 - alpha) + 127) / 255);
    }
}

const char *qn_image_format_name(const char *name) {
    static const char *const endings[][2] = {
        {".png", "PNG"},   {".jpg", "JPEG"},  {".jpeg", "JPEG"}, {".webp", "WebP"},
        {".heic", "HEIC"}, {".heif", "HEIC"}, {".avif", "AVIF"}, {".bmp", "BMP"},
        {".dib", "BMP"},   {".gif", "GIF"},   {".tif", "TIFF"},  {".tiff", "TIFF"}};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof endings / sizeof endings[0]; i++) {
        if (qn_text_is_same(dot, endings[i][0]))
            return endings[i][1];
    }
    return "";
}

bool qn_image_has_name(const char *name) {
    return *qn_image_format_name(name);
}

static bool is_jpeg(const uint8_t *data, size_t bytes) {
    return bytes >= 3 && memcmp(data, "\xff\xd8\xff", 3) == 0;
}

static qn_status decode_to(const uint8_t *data, size_t bytes, const qn_pixel_sink *sink) {
    if (bytes >= 8 && memcmp(data, "\x89PNG\r\n\x1a\n", 8) == 0)
        return qn_png_decode(data, bytes, sink);
    if (is_jpeg(data, bytes))
        return qn_jpeg_decode(data, bytes, sink);
    if (bytes >= 12 && memcmp(data, "RIFF", 4) == 0 && memcmp(data + 8, "WEBP", 4) == 0)
        return qn_webp_decode(data, bytes, sink);
    if (qn_heic_is(data, bytes))
        return qn_heic_decode(data, bytes, sink);
    if (bytes >= 6 && (memcmp(data, "GIF87a", 6) == 0 || memcmp(data, "GIF89a", 6) == 0))
        return qn_gif_decode(data, bytes, sink);
    if (qn_tiff_is(data, bytes))
        return qn_tiff_decode(data, bytes, sink);
    if (qn_bmp_is(data, bytes))
        return qn_bmp_decode(data, bytes, sink);
    return qn_fail(QN_ERROR_FORMAT, "neither PNG nor JPEG, WebP, HEIC, BMP, GIF or TIFF");
}

/* Most decoders call a picture broken when they have no memory, and it would be left out for good.
 * The failed allocation is in errno: none of them allocates by the picture's word alone, since the
 * number of pixels is limited. */
static qn_status decode_or_lack(const uint8_t *data, size_t bytes, const qn_pixel_sink *sink) {
    errno = 0;
    const qn_status status = decode_to(data, bytes, sink);
    return status == QN_ERROR_FORMAT && errno == ENOMEM
               ? qn_fail(QN_ERROR_MEMORY, "no memory to decode a picture")
               : status;
}

/* A JPEG's pixels depend on how large they are wanted, its bytes do not. */
static qn_status decode(const uint8_t *data, size_t bytes, const qn_shape *size, bool centre_crop,
                        uint8_t *x, uint64_t *content) {
    const int64_t h = size->dims[0], w = size->dims[1];
    fitting f = {.size = size, .centre_crop = centre_crop, .x = x};
    const qn_pixel_sink sink = {&f, fitting_begin, fitting_row, h > w ? h : w};
    const qn_status status = decode_or_lack(data, bytes, &sink);
    if (status == QN_OK && f.turned)
        qn_orientation_apply(f.orientation, f.turned, h, w, size->dims[2], x);
    *content = is_jpeg(data, bytes) ? qn_hash_bytes(data, bytes) : f.content;
    fitting_deinit(&f);
    return status;
}

qn_status qn_image_decode(const uint8_t *data, size_t bytes, const qn_shape *size, bool centre_crop,
                          uint8_t *x) {
    uint64_t content;
    return decode(data, bytes, size, centre_crop, x, &content);
}

qn_status qn_image_fit(const qn_image *image, const qn_shape *size, bool centre_crop, uint8_t *x) {
    fitting f = {.size = size, .centre_crop = centre_crop, .x = x};
    const int64_t row_bytes = image->width * image->channels;
    qn_status status = fitting_begin(&f, image->height, image->width, image->channels, 1);
    for (int64_t y = 0; y < image->height && status == QN_OK; y++)
        status = fitting_row(&f, image->pixels + y * row_bytes);
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

qn_status qn_image_load_known(const char *path, const qn_shape *size, bool centre_crop, uint8_t *x,
                              uint64_t *content) {
    uint8_t *data = NULL;
    size_t bytes = 0;
    qn_status status = read_whole(path, &data, &bytes);
    if (status == QN_OK) {
        status = decode(data, bytes, size, centre_crop, x, content);
        if (status != QN_OK)
            qn_fail_within(status, "%s", path);
    }
    qn_release(qn_allocator_default(), data, bytes, 1);
    return status;
}

qn_status qn_image_load(const char *path, const qn_shape *size, bool centre_crop, uint8_t *x) {
    uint64_t content;
    return qn_image_load_known(path, size, centre_crop, x, &content);
}

qn_status qn_image_prepare(const qn_allocator *allocator, const char *path,
                           const qn_preparation *preparation, float *x) {
    QN_NEED(path, "path");
    QN_NEED(preparation, "preparation");
    QN_NEED(x, "x");
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
