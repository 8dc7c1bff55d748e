/* PNG through libpng: every colour type and depth. Palettes become colours, 16 bits are rounded to
 * 8, transparent pixels are blended with white; grey stays one channel. Gamma and profiles are
 * ignored, as in the usual training pipelines. */
#include "base/status.h"
#include "data/images/image.h"

#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All that a jump out of libpng must not lose. */
typedef struct png_state {
    jmp_buf jump;
    png_structp png;
    png_infop info;
    const uint8_t *at, *end; /* what is left of the file */
    const qn_pixel_sink *sink;
    uint8_t *pixels; /* one row, or all of them if interlaced */
    qn_status status;
} png_state;

static void on_error(png_structp png, png_const_charp text) {
    png_state *state = png_get_error_ptr(png);
    state->status = qn_fail(QN_ERROR_FORMAT, "broken PNG: %s", text);
    longjmp(state->jump, 1);
}

static void on_warning(png_structp png, png_const_charp text) {
    (void)png;
    (void)text;
}

static void read_bytes(png_structp png, png_bytep data, size_t bytes) {
    png_state *state = png_get_io_ptr(png);
    if (bytes > (size_t)(state->end - state->at))
        png_error(png, "truncated");
    memcpy(data, state->at, bytes);
    state->at += bytes;
}

/* From the chunk eXIf, which libpng knows since 1.6.32. */
static qn_orientation find_orientation(png_structp png, png_infop info) {
    png_uint_32 bytes = 0;
    png_bytep exif = NULL;
    return png_get_eXIf_1(png, info, &bytes, &exif) ? qn_orientation_parse(exif, bytes) : 1;
}

/* Reads the header and asks for 8 bits of grey or colour. */
static void set_up(png_state *state) {
    png_structp png = state->png;
    png_set_user_limits(png, 65535, 65535);
    png_set_read_fn(png, state, read_bytes);
    png_read_info(png, state->info);
    png_set_expand(png);
    png_set_scale_16(png);
}

static void read_rows(png_state *state) {
    png_structp png = state->png;
    int n_passes = png_set_interlace_handling(png);
    png_read_update_info(png, state->info);
    int64_t w = png_get_image_width(png, state->info), h = png_get_image_height(png, state->info);
    int channels = png_get_channels(png, state->info), c = channels < 3 ? 1 : 3;
    size_t row_bytes = png_get_rowbytes(png, state->info);
    if (w * h > QN_IMAGE_MAX_PIXELS)
        png_error(png, "too many pixels");
    state->pixels = calloc(n_passes > 1 ? (size_t)h : 1, row_bytes);
    if (!state->pixels)
        png_error(png, "out of memory");
    for (int pass = 0; pass + 1 < n_passes; pass++)
        for (int64_t y = 0; y < h; y++)
            png_read_row(png, state->pixels + (size_t)y * row_bytes, NULL);
    state->status =
        state->sink->begin(state->sink->context, h, w, c, find_orientation(png, state->info));
    for (int64_t y = 0; y < h && state->status == QN_OK; y++) {
        uint8_t *row = state->pixels + (n_passes > 1 ? (size_t)y * row_bytes : 0);
        png_read_row(png, row, NULL);
        if (channels != c)
            qn_pixels_drop_alpha(row, w, c);
        state->status = state->sink->row(state->sink->context, row);
    }
    if (state->status == QN_OK)
        png_read_end(png, NULL);
}

static void decode(png_state *state) {
    if (setjmp(state->jump))
        return;
    set_up(state);
    read_rows(state);
}

qn_status qn_png_decode(const uint8_t *data, size_t bytes, const qn_pixel_sink *sink) {
    png_state state = {.at = data, .end = data + bytes, .sink = sink};
    state.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &state, on_error, on_warning);
    state.info = state.png ? png_create_info_struct(state.png) : NULL;
    if (state.info)
        decode(&state);
    else
        state.status = qn_fail_memory(sizeof state);
    free(state.pixels);
    png_destroy_read_struct(&state.png, &state.info, NULL);
    return state.status;
}
