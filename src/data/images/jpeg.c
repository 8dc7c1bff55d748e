/* JPEG through libjpeg-turbo: grey and colour, baseline and progressive. Truncated or damaged data
 * is an error, not a half-grey image. CMYK becomes RGB without a colour profile. An image much
 * larger than needed is decoded at a half, a quarter or an eighth of its size, which averages its
 * pixels and takes a fraction of the time. */
#include "base/status.h"
#include "data/images/image.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

/* All that a jump out of libjpeg must not lose. The first two: libjpeg knows pointers to them. */
typedef struct jpeg_state {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    jmp_buf jump;
    const qn_pixel_sink *sink;
    uint8_t *row;
    qn_status status;
} jpeg_state;

static void on_error(j_common_ptr jpeg) {
    jpeg_state *state = jpeg->client_data;
    char text[JMSG_LENGTH_MAX];
    jpeg->err->format_message(jpeg, text);
    state->status = jpeg->err->msg_code == JERR_OUT_OF_MEMORY
                        ? qn_fail(QN_ERROR_MEMORY, "no memory to decode a JPEG")
                        : qn_fail(QN_ERROR_FORMAT, "broken JPEG: %s", text);
    longjmp(state->jump, 1);
}

/* Warnings that mean lost pixels are errors; stray bytes between segments are not. */
static void on_message(j_common_ptr jpeg, int level) {
    int code = jpeg->err->msg_code;
    bool is_loss = code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE ||
                   code == JWRN_MUST_RESYNC || code == JWRN_ARITH_BAD_CODE;
    if (level < 0 && is_loss)
        on_error(jpeg);
}

static void fail(jpeg_state *state, qn_status status, const char *text) {
    state->status = qn_fail(status, "%s", text);
    longjmp(state->jump, 1);
}

/* Reads the header and chooses grey or RGB. */
static bool is_ink(const struct jpeg_decompress_struct *jpeg) {
    return jpeg->jpeg_color_space == JCS_CMYK || jpeg->jpeg_color_space == JCS_YCCK;
}

/* As small as can be without falling short of the wanted side. */
static void choose_scale(struct jpeg_decompress_struct *jpeg, int64_t wanted_side) {
    const int64_t w = jpeg->image_width, h = jpeg->image_height, side = w < h ? w : h;
    jpeg->scale_denom = 8;
    for (jpeg->scale_num = 8; jpeg->scale_num > 1; jpeg->scale_num /= 2) {
        if (side * (jpeg->scale_num / 2) / 8 < wanted_side || wanted_side < 1)
            return;
    }
}

static void set_up(jpeg_state *state, const uint8_t *data, size_t bytes) {
    struct jpeg_decompress_struct *jpeg = &state->jpeg;
    jpeg_create_decompress(jpeg);
    jpeg_mem_src(jpeg, data, bytes);
    jpeg_save_markers(jpeg, JPEG_APP0 + 1, 0xffff); /* EXIF */
    jpeg_read_header(jpeg, TRUE);
    if ((int64_t)jpeg->image_width * jpeg->image_height > QN_IMAGE_MAX_PIXELS)
        fail(state, QN_ERROR_FORMAT, "JPEG of too many pixels");
    choose_scale(jpeg, state->sink->wanted_side);
    jpeg->out_color_space = is_ink(jpeg)                              ? JCS_CMYK
                            : jpeg->jpeg_color_space == JCS_GRAYSCALE ? JCS_GRAYSCALE
                                                                      : JCS_RGB;
}

static qn_orientation find_orientation(const struct jpeg_decompress_struct *jpeg) {
    for (const struct jpeg_marker_struct *m = jpeg->marker_list; m; m = m->next) {
        if (m->marker == JPEG_APP0 + 1 && m->data_length > 6 && memcmp(m->data, "Exif", 5) == 0)
            return qn_orientation_parse(m->data, m->data_length);
    }
    return 1;
}

/* Ink to light, in place: Adobe's programs store what is left of the light, others the ink. */
static void lighten(uint8_t *row, int64_t w, bool is_light) {
    for (int64_t i = 0; i < w; i++) {
        const int black = is_light ? row[4 * i + 3] : 255 - row[4 * i + 3];
        for (int k = 0; k < 3; k++) {
            const int light = is_light ? row[4 * i + k] : 255 - row[4 * i + k];
            row[3 * i + k] = (uint8_t)((light * black + 127) / 255);
        }
    }
}

static void decode(jpeg_state *state, const uint8_t *data, size_t bytes) {
    struct jpeg_decompress_struct *jpeg = &state->jpeg;
    const qn_pixel_sink *sink = state->sink;
    if (setjmp(state->jump))
        return;
    set_up(state, data, bytes);
    jpeg_start_decompress(jpeg);
    state->row = malloc((size_t)jpeg->output_width * (size_t)jpeg->output_components);
    if (!state->row)
        fail(state, QN_ERROR_MEMORY, "no memory to decode a JPEG");
    state->status = sink->begin(sink->context, jpeg->output_height, jpeg->output_width,
                                is_ink(jpeg) ? 3 : jpeg->output_components, find_orientation(jpeg));
    while (jpeg->output_scanline < jpeg->output_height && state->status == QN_OK) {
        jpeg_read_scanlines(jpeg, &state->row, 1);
        if (is_ink(jpeg))
            lighten(state->row, jpeg->output_width, jpeg->saw_Adobe_marker);
        state->status = sink->row(sink->context, state->row);
    }
    if (state->status == QN_OK)
        jpeg_finish_decompress(jpeg);
}

qn_status qn_jpeg_decode(const uint8_t *data, size_t bytes, const qn_pixel_sink *sink) {
    jpeg_state state = {.sink = sink};
    state.jpeg.err = jpeg_std_error(&state.errors);
    state.jpeg.client_data = &state;
    state.errors.error_exit = on_error;
    state.errors.emit_message = on_message;
    decode(&state, data, bytes);
    free(state.row);
    jpeg_destroy_decompress(&state.jpeg);
    return state.status;
}
