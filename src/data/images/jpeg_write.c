/* JPEG files in memory through libjpeg-turbo, for thumbnails: grey or RGB, baseline. */
#include "base/status.h"
#include "data/images/image.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

/* All that a jump out of libjpeg must not lose. The first two: libjpeg knows pointers to them. */
typedef struct jpeg_making {
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    jmp_buf jump;
    unsigned char *data;
    unsigned long bytes;
    bool has_failed;
} jpeg_making;

static void on_error(j_common_ptr jpeg) {
    jpeg_making *making = jpeg->client_data;
    making->has_failed = true;
    longjmp(making->jump, 1);
}

static void on_message(j_common_ptr jpeg, int level) {
    (void)jpeg;
    (void)level;
}

static void encode(jpeg_making *making, const qn_image *image, int quality) {
    struct jpeg_compress_struct *jpeg = &making->jpeg;
    if (setjmp(making->jump))
        return;
    jpeg_create_compress(jpeg);
    jpeg_mem_dest(jpeg, &making->data, &making->bytes);
    jpeg->image_width = (JDIMENSION)image->width;
    jpeg->image_height = (JDIMENSION)image->height;
    jpeg->input_components = image->channels;
    jpeg->in_color_space = image->channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
    jpeg_set_defaults(jpeg);
    jpeg_set_quality(jpeg, quality, TRUE);
    jpeg_start_compress(jpeg, TRUE);
    while (jpeg->next_scanline < jpeg->image_height) {
        const size_t row = (size_t)jpeg->next_scanline * (size_t)image->width;
        JSAMPROW line = (JSAMPROW)(uintptr_t)(image->pixels + row * (size_t)image->channels);
        jpeg_write_scanlines(jpeg, &line, 1);
    }
    jpeg_finish_compress(jpeg);
}

qn_status qn_jpeg_encode(const qn_image *image, int quality, uint8_t **data, size_t *bytes) {
    enum { FIRST_BYTES = 1 << 14 };
    /* Of its own: libjpeg takes a larger one where it needs it, and says so at the end alone. */
    unsigned char *const own = malloc(FIRST_BYTES);
    jpeg_making making = {.data = own, .bytes = FIRST_BYTES};
    if (!own)
        return qn_fail_memory(FIRST_BYTES);
    making.jpeg.err = jpeg_std_error(&making.errors);
    making.jpeg.client_data = &making;
    making.errors.error_exit = on_error;
    making.errors.emit_message = on_message;
    encode(&making, image, quality);
    jpeg_destroy_compress(&making.jpeg);
    if (making.has_failed || making.data != own)
        free(own);
    if (making.has_failed)
        return qn_fail(QN_ERROR_MEMORY, "a JPEG of %dx%d cannot be made", (int)image->width,
                       (int)image->height);
    *data = making.data;
    *bytes = making.bytes;
    return QN_OK;
}
