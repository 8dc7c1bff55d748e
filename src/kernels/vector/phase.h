/* The phases of a strided backward pass to the data: inputs whose coordinates leave the same rest
 * by the stride meet the same taps, and are a dense convolution of dy with them. */
#ifndef QN_KERNELS_VECTOR_PHASE_H
#define QN_KERNELS_VECTOR_PHASE_H

#include "kernels/ref/real.h"

/* One axis of one phase: inputs phase, phase + stride, ... meet taps first, first + stride, ...;
 * the last of them at output i + offset, the one before it a dilation further. */
typedef struct phase_axis {
    int64_t count, taps, first, offset;
} phase_axis;

static phase_axis phase_of(int64_t phase, int64_t size, int64_t taps, int64_t stride, int64_t pad,
                           int64_t dilation) {
    const int64_t first = (phase + pad) % stride;
    phase_axis axis = {.count = size > phase ? ceil_div(size - phase, stride) : 0,
                       .taps = taps > first ? ceil_div(taps - first, stride) : 0,
                       .first = first};
    axis.offset = (phase + pad - first) / stride - (axis.taps - 1) * dilation;
    return axis;
}

static phase_axis phase_h_of(const qn_conv2d_shape *d, int64_t phase) {
    return phase_of(phase, d->h, d->r, d->stride_h, d->pad_top, d->dilation_h);
}

static phase_axis phase_w_of(const qn_conv2d_shape *d, int64_t phase) {
    return phase_of(phase, d->w, d->s, d->stride_w, d->pad_left, d->dilation_w);
}

static bool is_strided_and_dilated(const qn_conv2d_shape *d) {
    return (d->stride_h > 1 && d->dilation_h > 1) || (d->stride_w > 1 && d->dilation_w > 1);
}

#endif
