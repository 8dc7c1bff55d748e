/* Resizing against values computed by hand, channels, statistics and augmentation. */
#include "check.h"
#include "data/prepare.h"
#include "data/source.h"
#include "os/heap.h"

static bool is_near(double a, double b) {
    return fabs(a - b) < 1e-5;
}

/* Resizes (h, w, c) to (oh, ow, c). */
static void resize(const float *in, int64_t h, int64_t w, int64_t c, int64_t oh, int64_t ow,
                   bool crop, float *out) {
    qn_resizer resizer;
    CHECK_OK(qn_resizer_init(&resizer, qn_allocator_default(), (int64_t[]){h, w, c},
                             (int64_t[]){oh, ow}, crop));
    int64_t n_out = 0;
    for (int64_t y = 0; y < h; y++) {
        qn_resizer_put(&resizer, QN_F32, in + y * w * c);
        while (qn_resizer_take(&resizer, out + n_out * ow * c))
            n_out++;
    }
    CHECK(n_out == oh);
    qn_resizer_deinit(&resizer);
}

static void check_resize(void) {
    const float row[] = {0, 10, 20, 30};
    const float up[] = {0, 2.5f, 7.5f, 12.5f, 17.5f, 22.5f, 27.5f, 30};
    float out[64];
    resize(row, 1, 4, 1, 1, 8, false, out);
    for (int i = 0; i < 8; i++)
        CHECK(is_near(out[i], up[i]));
    resize(row, 1, 4, 1, 1, 2, false, out); /* centres at 0.5 and 2.5 */
    CHECK(is_near(out[0], 5) && is_near(out[1], 25));
    resize(row, 4, 1, 1, 2, 1, false, out);
    CHECK(is_near(out[0], 5) && is_near(out[1], 25));
    resize(row, 4, 1, 1, 8, 1, false, out);
    for (int i = 0; i < 8; i++)
        CHECK(is_near(out[i], up[i]));
    resize(row, 2, 2, 1, 3, 3, false, out); /* the middle is the mean of all */
    CHECK(is_near(out[0], 0) && is_near(out[4], 15) && is_near(out[8], 30) && is_near(out[1], 5));
    const float pairs[] = {0, 100, 10, 110}; /* two channels stay apart */
    resize(pairs, 1, 2, 2, 1, 4, false, out);
    CHECK(is_near(out[2], 2.5) && is_near(out[3], 102.5) && is_near(out[7], 110));
}

static void check_crop(void) {
    float in[3 * 5], out[9];
    for (int i = 0; i < 15; i++)
        in[i] = (float)i;
    resize(in, 3, 5, 1, 3, 3, true, out); /* the middle three columns, unchanged */
    for (int y = 0; y < 3; y++)
        for (int x = 0; x < 3; x++)
            CHECK(out[3 * y + x] == in[5 * y + x + 1]);
    resize(in, 5, 3, 1, 3, 3, true, out); /* the middle three rows */
    for (int i = 0; i < 9; i++)
        CHECK(out[i] == in[3 + i]);
    resize(in, 3, 3, 1, 3, 3, false, out); /* equal sizes: equal values */
    CHECK(memcmp(in, out, sizeof out) == 0);
    for (int64_t h = 1; h < 9; h++) /* any size to any size gives all rows */
        for (int64_t w = 1; w < 5; w++) {
            float many[40], result[49];
            for (int i = 0; i < 40; i++)
                many[i] = 3;
            resize(many, h, w, 1, 7, 7, w % 2, result);
            CHECK(is_near(result[0], 3) && is_near(result[48], 3));
        }
}

static void check_preparer(void) {
    const uint8_t bytes[] = {0, 51, 102, 255};
    const float mean[] = {0.2f, 0.4f, 0.6f}, std_dev[] = {0.5f, 0.25f, 2.0f};
    qn_preparation wanted = {
        .sample = QN_SHAPE(2, 2, 1), .n_statistics = 1, .mean = mean, .std_dev = std_dev};
    qn_shape grey = QN_SHAPE(2, 2, 1), row = QN_SHAPE(4);
    qn_preparer p;
    float out[64];
    CHECK_OK(qn_preparer_init(&p, qn_allocator_default(), &grey, QN_U8, &wanted));
    qn_preparer_apply(&p, bytes, out);
    CHECK(is_near(out[0], -0.4) && is_near(out[1], 0) && is_near(out[2], 0.4) &&
          is_near(out[3], 1.6));
    qn_preparer_deinit(&p);
    wanted.sample = QN_SHAPE(2, 2, 3); /* grey is repeated, then normalised by channel */
    wanted.n_statistics = 3;
    CHECK_OK(qn_preparer_init(&p, qn_allocator_default(), &grey, QN_U8, &wanted));
    qn_preparer_apply(&p, bytes, out);
    CHECK(is_near(out[3], 0) && is_near(out[4], -0.8) && is_near(out[5], -0.2));
    qn_preparer_deinit(&p);
    wanted.sample = QN_SHAPE(4, 4, 3);
    CHECK_OK(qn_preparer_init(&p, qn_allocator_default(), &grey, QN_U8, &wanted));
    for (int twice = 0; twice < 2; twice++) {
        qn_preparer_apply(&p, bytes, out);
        CHECK(is_near(out[0], -0.4) && is_near(out[45], 1.6) && is_near(out[3], -0.3));
    }
    qn_preparer_deinit(&p);
    wanted.sample = QN_SHAPE(2, 2, 1); /* a row of numbers as an image, a statistic each */
    wanted.n_statistics = 4;
    wanted.mean = wanted.std_dev = (const float[]){1, 2, 3, 4};
    CHECK_OK(qn_preparer_init(&p, qn_allocator_default(), &row, QN_F32, &wanted));
    qn_preparer_apply(&p, (const float[]){1, 4, 9, 16}, out);
    CHECK(is_near(out[0], 0) && is_near(out[1], 1) && is_near(out[2], 2) && is_near(out[3], 3));
    qn_preparer_deinit(&p);
}

static void check_mismatches(void) {
    const float zero[] = {0, 0, 0}, one[] = {1, 1, 1};
    qn_shape grey = QN_SHAPE(2, 2, 1), colour = QN_SHAPE(2, 2, 3), row = QN_SHAPE(5);
    qn_shape two = QN_SHAPE(2, 2, 2);
    qn_preparation wanted = {.sample = grey};
    const qn_allocator *heap = qn_allocator_default();
    qn_preparer p;
    CHECK_FAILS(qn_preparer_init(&p, heap, &row, QN_F32, &wanted), QN_ERROR_ARGUMENT, "2x2x1");
    CHECK_FAILS(qn_preparer_init(&p, heap, &two, QN_F32, &wanted), QN_ERROR_ARGUMENT, "channels");
    wanted.n_statistics = 3;
    wanted.mean = zero;
    wanted.std_dev = one;
    CHECK_FAILS(qn_preparer_init(&p, heap, &colour, QN_U8, &wanted), QN_ERROR_ARGUMENT,
                "3 channels");
    wanted.n_statistics = 1;
    wanted.std_dev = zero;
    CHECK_FAILS(qn_preparer_init(&p, heap, &grey, QN_U8, &wanted), QN_ERROR_ARGUMENT, "deviation");
    wanted.n_statistics = 0; /* the luminance of colours */
    float out[4];
    CHECK_OK(qn_preparer_init(&p, heap, &colour, QN_F32, &wanted));
    qn_preparer_apply(&p, (const float[]){1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1}, out);
    CHECK(is_near(out[0], 0.299) && is_near(out[1], 0.587) && is_near(out[2], 0.114));
    CHECK(is_near(out[3], 1));
    qn_preparer_deinit(&p);
}

static void check_augmentation(void) {
    const float in[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    const float down_right[] = {0, 0, 0, 0, 1, 2, 0, 4, 5};
    const float up_left_mirrored[] = {5, 4, 0, 8, 7, 0, 0, 0, 0};
    qn_shape shape = QN_SHAPE(3, 3, 1), large = QN_SHAPE(32, 16, 3);
    float out[9];
    qn_augmentation_apply(&(qn_augmentation){1, 1, false}, &shape, in, out);
    CHECK(memcmp(out, down_right, sizeof out) == 0);
    qn_augmentation_apply(&(qn_augmentation){-1, -1, true}, &shape, in, out);
    CHECK(memcmp(out, up_left_mirrored, sizeof out) == 0);
    int64_t least = 0, most = 0, n_mirrored = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        qn_rng rng = qn_rng_make(7, 1, 3);
        qn_augmentation a = qn_augmentation_draw(rng, i, &large, true, true);
        least = a.dy < least ? a.dy : least;
        most = a.dy > most ? a.dy : most;
        n_mirrored += a.is_mirrored;
        CHECK(a.dx >= -2 && a.dx <= 2);
        a = qn_augmentation_draw(rng, i, &large, false, false);
        CHECK(a.dx == 0 && a.dy == 0 && !a.is_mirrored);
    }
    CHECK(least == -4 && most == 4 && n_mirrored > 400 && n_mirrored < 600);
}

int main(void) {
    check_resize();
    check_crop();
    check_preparer();
    check_mismatches();
    check_augmentation();
    return checks_finish();
}
