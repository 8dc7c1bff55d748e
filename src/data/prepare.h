/* Converts a sample from its source to a network's input: bilinear resize, channels, mean and
 * deviation, and augmentation. Memory is allocated when a preparer is created. */
#ifndef QN_DATA_PREPARE_H
#define QN_DATA_PREPARE_H

#include "base/memory.h"
#include "base/rng.h"
#include "quern/data.h"

/* ---- resize ---- */

/* Bilinear resize of an image that is given row by row, with the centres of pixels at half numbers
 * (as align_corners = false elsewhere), without a low-pass filter. Rows come out as soon as the two
 * that they lie between are in. Crop: both axes are scaled by the short side's factor and the
 * centre is taken, else each by its own. Of equal sizes the result equals the input.
 *     0 <= left[i] < right(i) = min(left[i] + 1, in_w - 1), 0 <= weight[i] < 1 */
typedef struct qn_resizer {
    const qn_allocator *allocator;
    int64_t in_h, in_w, out_h, out_w, c;
    int64_t next_out; /* row that comes out next */
    int64_t n_in;     /* rows given so far */
    double scale_y, offset_y;
    int64_t *left;  /* (out_w) */
    float *weight;  /* (out_w) */
    float *line[2]; /* (out_w, c): row y of the input, resized, is in line[y % 2] */
} qn_resizer;

qn_status qn_resizer_init(qn_resizer *resizer, const qn_allocator *allocator,
                          const int64_t in[3] /* h, w, c */, const int64_t out[2] /* h, w */,
                          bool centre_crop);
void qn_resizer_deinit(qn_resizer *resizer);

/* Begins an image of the same size anew. */
void qn_resizer_restart(qn_resizer *resizer);

/* Gives the next row (in_w, c), of QN_U8 or QN_F32. Then takes must follow until there is none. */
void qn_resizer_put(qn_resizer *resizer, qn_dtype dtype, const void *row);

/* The next finished row (out_w, c), if there is one. */
bool qn_resizer_take(qn_resizer *resizer, float *row);

/* ---- channels ---- */

/* Whether pixels of `from` channels can become pixels of `to`: equal, grey repeated, or the
 * luminance of three (0.299, 0.587, 0.114). */
bool qn_channels_match(int64_t from, int64_t to);

/* n pixels (n, from) to (n, to). */
void qn_channels_convert(const float *in, int64_t n, int64_t from, int64_t to, float *out);

/* ---- the whole ---- */

/* Sample of the source -> preparation->sample: y = x * scale + shift by place in a row. Where
 * nothing is resized, rows * row = elements of both samples. */
typedef struct qn_preparer {
    const qn_allocator *allocator;
    qn_dtype dtype;
    int64_t rows, row;            /* of the result: (rows, row), row = W * C, or all for one row */
    int64_t pixels, from_c, to_c; /* pixels in a row, channels of source and result */
    bool is_resized;              /* resized or of other channels */
    qn_resizer resizer;
    float *scale, *shift; /* (row) */
    float *wide, *line;   /* (pixels, from_c), (row): resized, then of the right channels */
} qn_preparer;

/* sample: the source's, dense. A sample that cannot be matched is an error that says why. */
qn_status qn_preparer_init(qn_preparer *preparer, const qn_allocator *allocator,
                           const qn_shape *sample, qn_dtype dtype,
                           const qn_preparation *preparation);
void qn_preparer_deinit(qn_preparer *preparer);

/* x: the source's sample; out: the network's, not overlapping. */
void qn_preparer_apply(qn_preparer *preparer, const void *x, float *out);

/* ---- augmentation ---- */

/* Shift (down and right, zeros where nothing is) and mirroring, the same for all pixels. */
typedef struct qn_augmentation {
    int64_t dy, dx;
    bool is_mirrored;
} qn_augmentation;

/* What sample `index` gets in the epoch of the stream: shifts within an eighth of each side. */
qn_augmentation qn_augmentation_draw(qn_rng rng, uint64_t index, const qn_shape *sample, bool crop,
                                     bool flip);

/* in, out (H, W, C) of the shape, not overlapping. */
void qn_augmentation_apply(const qn_augmentation *augmentation, const qn_shape *sample,
                           const float *in, float *out);

#endif
