/* JPEG through libjpeg-turbo: grey and colour, baseline and progressive. What is cut off or whose
 * data are damaged is an error, not a half-grey picture; CMYK is not supported. */
#include "base/status.h"
#include "data/image.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

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
static void set_up(jpeg_state *state, const uint8_t *data, size_t bytes) {
    struct jpeg_decompress_struct *jpeg = &state->jpeg;
    jpeg_create_decompress(jpeg);
    jpeg_mem_src(jpeg, data, bytes);
    jpeg_read_header(jpeg, TRUE);
    if (jpeg->jpeg_color_space == JCS_CMYK || jpeg->jpeg_color_space == JCS_YCCK)
        fail(state, QN_ERROR_UNSUPPORTED, "JPEG in CMYK; convert it to RGB");
    if ((int64_t)jpeg->image_width * jpeg->image_height > QN_IMAGE_MAX_PIXELS)
        fail(state, QN_ERROR_FORMAT, "JPEG of too many pixels");
    jpeg->out_color_space = jpeg->jpeg_color_space == JCS_GRAYSCALE ? JCS_GRAYSCALE : JCS_RGB;
}

static void decode(jpeg_state *state, const uint8_t *data, size_t bytes) {
    struct jpeg_decompress_struct *jpeg = &state->jpeg;
    if (setjmp(state->jump))
        return;
    set_up(state, data, bytes);
    jpeg_start_decompress(jpeg);
    state->row = malloc((size_t)jpeg->output_width * (size_t)jpeg->output_components);
    if (!state->row)
        fail(state, QN_ERROR_MEMORY, "no memory to decode a JPEG");
    state->status = state->sink->begin(state->sink->context, jpeg->output_height,
                                       jpeg->output_width, jpeg->output_components);
    while (jpeg->output_scanline < jpeg->output_height && state->status == QN_OK) {
        jpeg_read_scanlines(jpeg, &state->row, 1);
        state->status = state->sink->row(state->sink->context, state->row);
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
