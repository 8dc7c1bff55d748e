/* Writers of small PNG and JPEG files for tests, of kinds that ordinary tools rarely write. */
#ifndef QN_TESTS_IMAGE_FILES_H
#define QN_TESTS_IMAGE_FILES_H

#include "data_files.h"

#include <jpeglib.h>
#include <zlib.h>

/* Appends a chunk to a PNG. */
static inline void png_chunk(FILE *file, const char *type, const unsigned char *data, uint32_t n) {
    unsigned char head[8] = {(unsigned char)(n >> 24), (unsigned char)(n >> 16),
                             (unsigned char)(n >> 8), (unsigned char)n};
    memcpy(head + 4, type, 4);
    uLong crc = crc32(crc32(0, head + 4, 4), data, n);
    unsigned char tail[4] = {(unsigned char)(crc >> 24), (unsigned char)(crc >> 16),
                             (unsigned char)(crc >> 8), (unsigned char)crc};
    fwrite(head, 1, 8, file);
    fwrite(data, 1, n, file);
    fwrite(tail, 1, 4, file);
}

/* A PNG of w x h; rows are the filtered rows, each with its filter byte first. palette: 256 colours
 * of which colour i is (i, i, 255 - i), with alpha i; only for colour type 3. */
static inline void write_png(const char *path, int w, int h, int depth, int color, bool interlace,
                             const unsigned char *rows, size_t bytes) {
    unsigned char header[13] = {0,
                                0,
                                (unsigned char)(w >> 8),
                                (unsigned char)w,
                                0,
                                0,
                                (unsigned char)(h >> 8),
                                (unsigned char)h,
                                (unsigned char)depth,
                                (unsigned char)color,
                                0,
                                0,
                                interlace};
    unsigned char palette[768], alpha[256], packed[4096];
    uLongf n_packed = sizeof packed;
    for (int i = 0; i < 256; i++) {
        palette[3 * i] = palette[3 * i + 1] = alpha[i] = (unsigned char)i;
        palette[3 * i + 2] = (unsigned char)(255 - i);
    }
    CHECK(compress(packed, &n_packed, rows, bytes) == Z_OK);
    FILE *file = fopen(at_root(path), "wb");
    fwrite("\x89PNG\r\n\x1a\n", 1, 8, file);
    png_chunk(file, "IHDR", header, 13);
    if (color == 3) {
        png_chunk(file, "PLTE", palette, 3u << depth);
        png_chunk(file, "tRNS", alpha, 1u << depth);
    }
    png_chunk(file, "IDAT", packed, (uint32_t)n_packed);
    png_chunk(file, "IEND", header, 0);
    CHECK(fclose(file) == 0);
}

/* A grey PNG of one value. */
static inline void write_grey_png(const char *path, int w, int h, int value) {
    unsigned char rows[4096];
    size_t bytes = (size_t)(w + 1) * (size_t)h;
    memset(rows, value, bytes);
    for (int y = 0; y < h; y++)
        rows[(w + 1) * y] = 0;
    write_png(path, w, h, 8, 0, false, rows, bytes);
}

/* Where a JPEG says how it is to be turned, in EXIF's TIFF, of either order of bytes. */
static inline void put_orientation(struct jpeg_compress_struct *jpeg, int orientation) {
    const JOCTET little[] =
        "Exif\0\0II\x2a\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0?\0\0\0\0\0\0\0";
    const JOCTET big[] = "Exif\0\0MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0?\0\0\0\0\0\0";
    JOCTET exif[sizeof little - 1];
    const bool is_big = orientation % 2 == 0;
    memcpy(exif, is_big ? big : little, sizeof exif);
    *(JOCTET *)memchr(exif, '?', sizeof exif) = (JOCTET)orientation;
    jpeg_write_marker(jpeg, JPEG_APP0 + 1, exif, sizeof exif);
}

/* A JPEG of w x h with 1, 3 or 4 channels; pixels (h, w, channels). orientation 0: says nothing. */
static inline void write_jpeg_pixels(const char *path, int w, int h, int channels, JSAMPLE *pixels,
                                     bool progressive, int orientation) {
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    FILE *file = fopen(at_root(path), "wb");
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_stdio_dest(&jpeg, file);
    jpeg.image_width = (JDIMENSION)w;
    jpeg.image_height = (JDIMENSION)h;
    jpeg.input_components = channels;
    jpeg.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 100, TRUE);
    if (progressive)
        jpeg_simple_progression(&jpeg);
    jpeg_start_compress(&jpeg, TRUE);
    if (orientation > 0)
        put_orientation(&jpeg, orientation);
    for (int y = 0; y < h; y++) {
        JSAMPROW row = pixels + y * w * channels;
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    CHECK(fclose(file) == 0);
}

/* The same of one value in each channel. */
static inline void write_jpeg(const char *path, int w, int h, int channels, const JSAMPLE *value,
                              bool progressive) {
    static JSAMPLE pixels[16384];
    for (int i = 0; i < w * h * channels; i++)
        pixels[i] = value[i % channels];
    write_jpeg_pixels(path, w, h, channels, pixels, progressive, 0);
}

#endif
