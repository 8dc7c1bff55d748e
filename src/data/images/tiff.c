/* TIFF through libtiff, which is opened when the first such file is found: the first picture of a
 * file, whatever its packing and colours, as its library turns them into red, green and blue.
 * Transparent pixels are blended with white, and the picture is turned by its orientation. Leaves
 * out pixels of 32 bits and floats, which no picture for people has. */
#include "base/status.h"
#include "data/images/image.h"
#include "os/library.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As tiffio.h of version 4 declares them; a TIFF is never looked into. */
typedef struct tiff tiff;
typedef int64_t tiff_move(void *user, void *data, int64_t bytes);
typedef void tiff_tell(const char *module, const char *format, va_list arguments);

enum { WIDTH = 256, HEIGHT = 257, ORIENTATION = 274 };

typedef struct tiff_library {
    tiff *(*open)(const char *name, const char *mode, void *user, tiff_move *read, tiff_move *write,
                  uint64_t (*seek)(void *, uint64_t, int), int (*close)(void *),
                  uint64_t (*size)(void *), int (*map)(void *, void **, uint64_t *),
                  void (*unmap)(void *, void *, uint64_t));
    void (*close)(tiff *file);
    int (*field)(tiff *file, uint32_t tag, ...);
    int (*is_fine)(tiff *file, char message[1024]);
    int (*read)(tiff *file, uint32_t w, uint32_t h, uint32_t *pixels, int orientation, int stop);
    tiff_tell *(*on_error)(tiff_tell *tell);
    tiff_tell *(*on_warning)(tiff_tell *tell);
} tiff_library;

/* The file in memory. */
typedef struct tiff_bytes {
    const uint8_t *data;
    uint64_t bytes, at;
} tiff_bytes;

/* What the library says goes nowhere: a command says itself what cannot be read. */
static void be_quiet(const char *module, const char *format, va_list arguments) {
    (void)module;
    (void)format;
    (void)arguments;
}

/* Once opened, it stays: one handle more, and no loading again for the next file. */
static qn_status open_library(tiff_library *l) {
    qn_library *library;
    const struct {
        const char *name;
        void *function;
    } functions[] = {
        {"TIFFClientOpen", &l->open},
        {"TIFFClose", &l->close},
        {"TIFFGetField", &l->field},
        {"TIFFRGBAImageOK", &l->is_fine},
        {"TIFFReadRGBAImageOriented", &l->read},
        {"TIFFSetErrorHandler", &l->on_error},
        {"TIFFSetWarningHandler", &l->on_warning},
    };
    if (qn_library_open("libtiff.so.6", &library) != QN_OK &&
        qn_library_open("libtiff.so.5", &library) != QN_OK)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "TIFF needs libtiff, which is not installed (Debian: apt-get install "
                       "libtiff6); or convert it to PNG");
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        if (!qn_library_find(library, functions[i].name, functions[i].function))
            return qn_fail(QN_ERROR_UNSUPPORTED, "libtiff lacks %s", functions[i].name);
    }
    l->on_error(be_quiet);
    l->on_warning(be_quiet);
    return QN_OK;
}

/* ---- the file, as the library reads it ---- */

static int64_t read_bytes(void *user, void *to, int64_t n) {
    tiff_bytes *b = user;
    const uint64_t left = b->at < b->bytes ? b->bytes - b->at : 0;
    const uint64_t taken = n < 0 ? 0 : (uint64_t)n < left ? (uint64_t)n : left;
    if (taken > 0)
        memcpy(to, b->data + b->at, taken);
    b->at += taken;
    return (int64_t)taken;
}

static int64_t refuse_bytes(void *user, void *from, int64_t n) {
    (void)user;
    (void)from;
    (void)n;
    return 0;
}

static uint64_t seek(void *user, uint64_t offset, int from) {
    tiff_bytes *b = user;
    b->at = from == SEEK_SET ? offset : (from == SEEK_CUR ? b->at : b->bytes) + offset;
    return b->at;
}

static int close_bytes(void *user) {
    (void)user;
    return 0;
}

static uint64_t count_bytes(void *user) {
    const tiff_bytes *b = user;
    return b->bytes;
}

static int map(void *user, void **data, uint64_t *bytes) {
    (void)user;
    (void)data;
    (void)bytes;
    return 0;
}

static void unmap(void *user, void *data, uint64_t bytes) {
    (void)user;
    (void)data;
    (void)bytes;
}

/* ---- pixels ---- */

/* From pixels that are multiplied by their alpha, in place of the row: what is missing is white. */
static void convert_row(const uint32_t *from, int64_t w, uint8_t *row) {
    for (int64_t x = 0; x < w; x++) {
        const uint32_t pixel = from[x], white = 255 - (pixel >> 24);
        for (int k = 0; k < 3; k++) {
            const uint32_t value = (pixel >> (8 * k) & 255) + white;
            row[3 * x + k] = (uint8_t)(value < 255 ? value : 255);
        }
    }
}

static qn_status give_rows(const qn_pixel_sink *sink, uint32_t *pixels, int64_t h, int64_t w,
                           qn_orientation orientation) {
    QN_TRY(sink->begin(sink->context, h, w, 3, orientation));
    for (int64_t y = 0; y < h; y++) {
        uint8_t *row = (uint8_t *)(pixels + y * w); /* three bytes go where four were read */
        convert_row(pixels + y * w, w, row);
        QN_TRY(sink->row(sink->context, row));
    }
    return QN_OK;
}

static qn_status decode(const tiff_library *l, tiff *file, const qn_pixel_sink *sink) {
    char message[1024] = "";
    uint32_t w = 0, h = 0;
    uint16_t orientation = 1;
    if (!l->field(file, WIDTH, &w) || !l->field(file, HEIGHT, &h) || w < 1 || h < 1)
        return qn_fail(QN_ERROR_FORMAT, "broken TIFF: no pixels");
    if ((uint64_t)w * h > QN_IMAGE_MAX_PIXELS)
        return qn_fail(QN_ERROR_FORMAT, "TIFF of too many pixels");
    if (!l->is_fine(file, message))
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "TIFF that cannot be shown in colours: %.200s; convert "
                       "it to PNG",
                       message);
    if (!l->field(file, ORIENTATION, &orientation) || orientation < 1 || orientation > 8)
        orientation = 1;
    uint32_t *pixels = calloc((size_t)w * h, sizeof *pixels);
    if (!pixels)
        return qn_fail_memory((size_t)w * h * sizeof *pixels);
    qn_status status = l->read(file, w, h, pixels, orientation, 1)
                           ? give_rows(sink, pixels, h, w, orientation)
                           : qn_fail(QN_ERROR_FORMAT, "broken TIFF");
    free(pixels);
    return status;
}

bool qn_tiff_is(const uint8_t *data, size_t bytes) {
    return bytes >= 8 && (memcmp(data, "II*\0", 4) == 0 || memcmp(data, "MM\0*", 4) == 0 ||
                          memcmp(data, "II+\0", 4) == 0 || memcmp(data, "MM\0+", 4) == 0);
}

qn_status qn_tiff_decode(const uint8_t *data, size_t bytes, const qn_pixel_sink *sink) {
    tiff_library library;
    tiff_bytes b = {data, bytes, 0};
    QN_TRY(open_library(&library));
    tiff *file = library.open("picture", "rm", &b, read_bytes, refuse_bytes, seek, close_bytes,
                              count_bytes, map, unmap);
    if (!file)
        return qn_fail(QN_ERROR_FORMAT, "broken TIFF");
    const qn_status status = decode(&library, file, sink);
    library.close(file);
    return status;
}
