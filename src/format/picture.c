/* See picture.h. */
#include "format/picture.h"

#include "base/memory.h"
#include "base/status.h"
#include "os/os.h"

#include <png.h>
#include <setjmp.h>
#include <string.h>

enum { MAX_SIDE = 65535, LINE = 2 };

/* What goes into the file, and all that a jump out of libpng must not lose. */
typedef struct picture {
    int64_t h, w;
    int c;
    const uint8_t *pixels; /* (h, w, c) */
    jmp_buf jump;
    png_structp png;
    png_infop info;
    qn_writer *writer;
    qn_status status;
} picture;

static void on_error(png_structp png, png_const_charp text) {
    picture *p = png_get_error_ptr(png);
    if (p->status == QN_OK)
        p->status = qn_fail(QN_ERROR_IO, "PNG: %s", text);
    longjmp(p->jump, 1);
}

static void on_warning(png_structp png, png_const_charp text) {
    (void)png;
    (void)text;
}

static void put_bytes(png_structp png, png_bytep data, size_t bytes) {
    picture *p = png_get_io_ptr(png);
    p->status = qn_writer_put(p->writer, data, bytes);
    if (p->status != QN_OK)
        png_error(png, "not written");
}

static void flush(png_structp png) {
    (void)png;
}

static void encode(picture *p) {
    if (setjmp(p->jump))
        return;
    png_set_write_fn(p->png, p, put_bytes, flush);
    png_set_IHDR(p->png, p->info, (png_uint_32)p->w, (png_uint_32)p->h, 8,
                 p->c == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    /* By this a later run knows that it may replace the file. */
    png_set_text(p->png, p->info,
                 &(png_text){.compression = PNG_TEXT_COMPRESSION_NONE,
                             .key = (char[]){"Software"},
                             .text = (char[]){"quern"},
                             .text_length = 5},
                 1);
    png_write_info(p->png, p->info);
    for (int64_t y = 0; y < p->h; y++)
        png_write_row(p->png, p->pixels + y * p->w * p->c);
    png_write_end(p->png, NULL);
}

static qn_status write(void *context, qn_writer *writer) {
    picture *p = context;
    p->writer = writer;
    p->png = png_create_write_struct(PNG_LIBPNG_VER_STRING, p, on_error, on_warning);
    p->info = p->png ? png_create_info_struct(p->png) : NULL;
    if (p->info)
        encode(p);
    else
        p->status = qn_fail_memory(sizeof *p);
    png_destroy_write_struct(&p->png, &p->info);
    return p->status;
}

qn_status qn_picture_write(const char *path, int64_t h, int64_t w, int c, const uint8_t *pixels) {
    picture p = {.h = h, .w = w, .c = c, .pixels = pixels};
    if (h < 1 || h > MAX_SIDE || w < 1 || w > MAX_SIDE || (c != 1 && c != 3))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "%s: a picture of %lldx%lldx%d cannot be written; sides go from 1 to %d, "
                       "channels are 1 or 3",
                       path, (long long)h, (long long)w, c, MAX_SIDE);
    return qn_file_replace(path, write, &p);
}

/* ---- grids ---- */

static uint8_t to_byte(float x) {
    const float level = (x + 1) * 127.5f + 0.5f;
    return level >= 255 ? 255 : level >= 0 ? (uint8_t)level : 0;
}

/* One image into the grid's pixels at (top, left); a row of them has so many bytes. */
static void put_image(const float *image, int64_t h, int64_t row, uint8_t *at, int64_t row_bytes) {
    for (int64_t y = 0; y < h; y++) {
        for (int64_t i = 0; i < row; i++)
            at[y * row_bytes + i] = to_byte(image[y * row + i]);
    }
}

qn_status qn_picture_write_grid(const qn_allocator *allocator, const char *path, int64_t n,
                                int64_t columns, int64_t h, int64_t w, int c, const float *images) {
    const int64_t rows = (n + columns - 1) / columns;
    const int64_t grid_h = rows * (h + LINE) - LINE, grid_w = columns * (w + LINE) - LINE;
    const size_t bytes = (size_t)grid_h * (size_t)grid_w * (size_t)c;
    uint8_t *pixels;
    QN_TRY(qn_allocate(allocator, 1, bytes, &pixels));
    memset(pixels, 255, bytes);
    for (int64_t i = 0; i < n; i++) {
        const int64_t top = i / columns * (h + LINE), left = i % columns * (w + LINE);
        put_image(images + i * h * w * c, h, w * c, pixels + (top * grid_w + left) * c, grid_w * c);
    }
    qn_status status = qn_picture_write(path, grid_h, grid_w, c, pixels);
    qn_release(allocator, pixels, 1, bytes);
    return status;
}
