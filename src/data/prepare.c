/* Fits samples to a network; see prepare.h. */
#include "data/prepare.h"

#include "base/status.h"
#include "data/source.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool qn_channels_match(int64_t from, int64_t to) {
    return from == to || from == 1 || (from == 3 && to == 1);
}

void qn_channels_convert(const float *in, int64_t n, int64_t from, int64_t to, float *out) {
    if (from == to) {
        memcpy(out, in, (size_t)(n * to) * sizeof *out);
        return;
    }
    for (int64_t i = 0; i < n && from == 3; i++)
        out[i] = 0.299f * in[3 * i] + 0.587f * in[3 * i + 1] + 0.114f * in[3 * i + 2];
    for (int64_t i = 0; i < n && from == 1; i++)
        for (int64_t k = 0; k < to; k++)
            out[i * to + k] = in[i];
}

/* Decides what is to be done: the same number of elements where one of the two is a row of numbers,
 * else images, which can be resized. */
static qn_status match_shapes(qn_preparer *p, const qn_shape *from, const qn_shape *to) {
    char from_text[QN_SHAPE_TEXT], to_text[QN_SHAPE_TEXT];
    int64_t elements = qn_shape_count(*to);
    bool are_images = from->rank == 3 && to->rank == 3;
    qn_shape_print(*from, from_text);
    qn_shape_print(*to, to_text);
    if (!are_images && qn_shape_count(*from) != elements)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "samples of %s numbers cannot feed an input of %s; use --input or a model "
                       "that fits",
                       from_text, to_text);
    if (are_images && !qn_channels_match(from->dims[2], to->dims[2]))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "images of %s cannot feed an input of %s: the channels do not match",
                       from_text, to_text);
    p->rows = to->rank == 3 ? to->dims[0] : 1;
    p->row = elements / p->rows;
    p->is_resized = are_images && !qn_shape_equal(*from, *to);
    p->pixels = are_images ? to->dims[1] : p->row;
    p->from_c = are_images ? from->dims[2] : 1;
    p->to_c = are_images ? to->dims[2] : 1;
    return QN_OK;
}

/* Statistics are one for all, one for each channel, or one for each element. */
static qn_status match_statistics(qn_preparer *p, const qn_preparation *preparation) {
    const qn_shape *to = &preparation->sample;
    int64_t n = preparation->n_statistics, elements = p->rows * p->row;
    if (n == elements && n > 1) {
        p->rows = p->is_resized ? p->rows : 1;
        p->row = elements / p->rows;
    }
    bool is_fine = n == 0 || n == 1 || n == to->dims[to->rank - 1] || n == p->row;
    if (!is_fine)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "means and deviations of %" PRId64 " channels cannot prepare %" PRId64
                       "; use a model whose input has as many",
                       n, to->dims[to->rank - 1]);
    for (int64_t i = 0; i < n; i++)
        if (!(preparation->std_dev[i] > 0))
            return qn_fail(QN_ERROR_ARGUMENT, "deviation %g of channel %" PRId64 " is not above 0",
                           (double)preparation->std_dev[i], i);
    return QN_OK;
}

static void set_affine(qn_preparer *p, const qn_preparation *preparation) {
    int64_t n = preparation->n_statistics;
    double unit = p->dtype == QN_U8 ? 1.0 / 255 : 1.0;
    for (int64_t i = 0; i < p->row; i++) {
        double mean = n > 0 ? preparation->mean[i % n] : 0.0;
        double std_dev = n > 0 ? preparation->std_dev[i % n] : 1.0;
        p->scale[i] = (float)(unit / std_dev);
        p->shift[i] = (float)(-mean / std_dev);
    }
}

static qn_status allocate_lines(qn_preparer *p, const qn_shape *from, bool centre_crop) {
    size_t row = (size_t)p->row, wide = (size_t)(p->pixels * p->from_c);
    QN_TRY(qn_allocate(p->allocator, row, sizeof *p->scale, &p->scale));
    QN_TRY(qn_allocate(p->allocator, row, sizeof *p->shift, &p->shift));
    if (!p->is_resized)
        return QN_OK;
    QN_TRY(qn_allocate(p->allocator, wide, sizeof *p->wide, &p->wide));
    QN_TRY(qn_allocate(p->allocator, row, sizeof *p->line, &p->line));
    return qn_resizer_init(&p->resizer, p->allocator, from->dims, (int64_t[]){p->rows, p->pixels},
                           centre_crop);
}

static bool is_sample(const qn_shape *shape) {
    if ((shape->rank != 1 && shape->rank != 3) || !qn_shape_is_valid(*shape))
        return false;
    for (int i = 0; i < shape->rank; i++)
        if (shape->dims[i] < 1 || shape->dims[i] > INT32_MAX)
            return false;
    return true;
}

qn_status qn_preparer_init(qn_preparer *preparer, const qn_allocator *allocator,
                           const qn_shape *sample, qn_dtype dtype,
                           const qn_preparation *preparation) {
    *preparer = (qn_preparer){.allocator = allocator, .dtype = dtype};
    if (!is_sample(sample) || !is_sample(&preparation->sample))
        return qn_fail(QN_ERROR_ARGUMENT, "samples are of shape (H, W, C) or (C)");
    if (dtype != QN_U8 && dtype != QN_F32)
        return qn_fail(QN_ERROR_ARGUMENT, "samples are bytes or floats");
    QN_TRY(match_shapes(preparer, sample, &preparation->sample));
    QN_TRY(match_statistics(preparer, preparation));
    qn_status status = allocate_lines(preparer, sample, preparation->centre_crop);
    if (status != QN_OK) {
        qn_preparer_deinit(preparer);
        return status;
    }
    set_affine(preparer, preparation);
    return QN_OK;
}

void qn_preparer_deinit(qn_preparer *preparer) {
    qn_preparer *p = preparer;
    qn_resizer_deinit(&p->resizer);
    qn_release(p->allocator, p->scale, (size_t)p->row, sizeof *p->scale);
    qn_release(p->allocator, p->shift, (size_t)p->row, sizeof *p->shift);
    qn_release(p->allocator, p->wide, (size_t)(p->pixels * p->from_c), sizeof *p->wide);
    qn_release(p->allocator, p->line, (size_t)p->row, sizeof *p->line);
    *p = (qn_preparer){0};
}

static void scale_u8(const uint8_t *restrict x, const float *restrict scale,
                     const float *restrict shift, int64_t n, float *restrict out) {
    for (int64_t i = 0; i < n; i++)
        out[i] = (float)x[i] * scale[i] + shift[i];
}

static void scale_f32(const float *restrict x, const float *restrict scale,
                      const float *restrict shift, int64_t n, float *restrict out) {
    for (int64_t i = 0; i < n; i++)
        out[i] = x[i] * scale[i] + shift[i];
}

static void apply_resized(qn_preparer *p, const char *x, float *out) {
    size_t stride = (size_t)(p->resizer.in_w * p->from_c) * qn_dtype_bytes(p->dtype);
    qn_resizer_restart(&p->resizer);
    for (int64_t y = 0; y < p->resizer.in_h; y++) {
        qn_resizer_put(&p->resizer, p->dtype, x + (size_t)y * stride);
        for (; qn_resizer_take(&p->resizer, p->wide); out += p->row) {
            qn_channels_convert(p->wide, p->pixels, p->from_c, p->to_c, p->line);
            scale_f32(p->line, p->scale, p->shift, p->row, out);
        }
    }
}

void qn_preparer_apply(qn_preparer *preparer, const void *x, float *out) {
    const qn_preparer *p = preparer;
    if (p->is_resized) {
        apply_resized(preparer, x, out);
        return;
    }
    for (int64_t y = 0; y < p->rows; y++, out += p->row) {
        if (p->dtype == QN_U8)
            scale_u8((const uint8_t *)x + y * p->row, p->scale, p->shift, p->row, out);
        else
            scale_f32((const float *)x + y * p->row, p->scale, p->shift, p->row, out);
    }
}

/* ---- augmentation ---- */

/* In [-limit, limit]. */
static int64_t draw_shift(uint32_t word, int64_t limit) {
    return (int64_t)((uint64_t)word * (uint64_t)(2 * limit + 1) >> 32) - limit;
}

qn_augmentation qn_augmentation_draw(qn_rng rng, uint64_t index, const qn_shape *sample, bool crop,
                                     bool flip) {
    uint32_t words[4];
    qn_rng_block(rng, index, words);
    qn_augmentation drawn = {0};
    if (crop) {
        drawn.dy = draw_shift(words[0], sample->dims[0] / 8);
        drawn.dx = draw_shift(words[1], sample->dims[1] / 8);
    }
    drawn.is_mirrored = flip && words[2] >> 31;
    return drawn;
}

static void copy_mirrored(const float *in, int64_t n, int64_t c, float *out) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < c; k++)
            out[i * c + k] = in[(n - 1 - i) * c + k];
}

void qn_augmentation_apply(const qn_augmentation *augmentation, const qn_shape *sample,
                           const float *in, float *out) {
    int64_t h = sample->dims[0], w = sample->dims[1], c = sample->dims[2], row = w * c;
    int64_t dx = augmentation->dx, begin = dx > 0 ? dx : 0, end = dx < 0 ? w + dx : w;
    int64_t from = begin - dx, n = end - begin;
    memset(out, 0, (size_t)(h * row) * sizeof *out);
    for (int64_t y = 0; y < h; y++) {
        int64_t source_y = y - augmentation->dy;
        if (source_y < 0 || source_y >= h)
            continue;
        const float *in_row = in + source_y * row;
        float *to = out + y * row + begin * c;
        if (augmentation->is_mirrored) /* the mirror image's pixels from on are these, backwards */
            copy_mirrored(in_row + (w - from - n) * c, n, c, to);
        else
            memcpy(to, in_row + from * c, (size_t)(n * c) * sizeof *to);
    }
}
