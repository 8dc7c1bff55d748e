/* Pictures come back as they were written; grids; what cannot be written leaves the old file. */
#include "data_files.h"

#include "data/images/image.h"
#include "format/picture.h"
#include "os/heap.h"

static void check_round_trip(void) {
    enum { H = 5, W = 7 };
    uint8_t pixels[H * W * 3], back[H * W * 3];
    for (int i = 0; i < H * W * 3; i++)
        pixels[i] = (uint8_t)(i * 37 + i * i);
    for (int c = 1; c <= 3; c += 2) {
        const qn_shape size = QN_SHAPE(H, W, c);
        CHECK_OK(qn_picture_write(at_root("@/a.png"), H, W, c, pixels));
        CHECK_OK(qn_image_load(at_root("@/a.png"), &size, false, back));
        CHECK(memcmp(pixels, back, (size_t)(H * W * c)) == 0);
    }
}

/* Three images of 2x2x1 in two columns: 6 wide, 6 high. */
static void check_grid(void) {
    const float images[3 * 4] = {-1, 1, 0, -7, 0.5f, 9, -0.5f, 0, 1, 1, -1, -1};
    const uint8_t wanted[6 * 6] = {0,   255, 255, 255, 191, 255, /* rows of images 0 and 1 */
                                   128, 0,   255, 255, 64,  128, /* */
                                   255, 255, 255, 255, 255, 255, /* the line between */
                                   255, 255, 255, 255, 255, 255, /* */
                                   255, 255, 255, 255, 255, 255, /* image 2, and none */
                                   0,   0,   255, 255, 255, 255};
    uint8_t pixels[6 * 6];
    const qn_shape size = QN_SHAPE(6, 6, 1);
    const qn_allocator *heap = qn_allocator_or_default(NULL);
    CHECK_OK(qn_picture_write_grid(heap, at_root("@/grid.png"), 3, 2, 2, 2, 1, images));
    CHECK_OK(qn_image_load(at_root("@/grid.png"), &size, false, pixels));
    CHECK(memcmp(pixels, wanted, sizeof wanted) == 0);
}

static void check_refusals(void) {
    const uint8_t grey[4] = {1, 2, 3, 4};
    uint8_t pixels[4];
    const qn_shape size = QN_SHAPE(2, 2, 1);
    CHECK_OK(qn_picture_write(at_root("@/b.png"), 2, 2, 1, grey));
    CHECK_FAILS(qn_picture_write(at_root("@/b.png"), 2, 1, 2, grey), QN_ERROR_ARGUMENT, "b.png");
    CHECK_FAILS(qn_picture_write(at_root("@/b.png"), 0, 2, 1, grey), QN_ERROR_ARGUMENT, "0x2x1");
    CHECK_FAILS(qn_picture_write(at_root("@/b.png"), 2, 65536, 1, grey), QN_ERROR_ARGUMENT,
                "65535");
    CHECK_FAILS(qn_picture_write(at_root("@/none/b.png"), 2, 2, 1, grey), QN_ERROR_IO, "none");
    CHECK_OK(qn_image_load(at_root("@/b.png"), &size, false, pixels));
    CHECK(memcmp(pixels, grey, sizeof grey) == 0);
}

int main(void) {
    files_begin();
    check_round_trip();
    check_grid();
    check_refusals();
    files_end();
    return checks_finish();
}
