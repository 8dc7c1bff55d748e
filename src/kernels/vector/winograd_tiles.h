/* The transforms of a Winograd convolution F(4x4, 3x3): outputs of 4x4 pixels from inputs of 6x6 by
 * 49 products instead of 144. Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural
 * Networks" (2016), section 4.1, with the points 0, 1, -1, i, -i and infinity, of Meng and
 * Brothers, "Efficient Winograd Convolution via Integer Arithmetic" (2019), section 4: the two
 * complex ones are a product of complex numbers, of three real products. The usual points 0, 1, -1,
 * 2, -2 need 36 products, but their powers make rounding errors several times those of the direct
 * sum; here all factors are 1, 1/2 and 1/4, and results are about as good. */
#ifndef QN_KERNELS_VECTOR_WINOGRAD_TILES_H
#define QN_KERNELS_VECTOR_WINOGRAD_TILES_H

#include "kernels/vector/winograd_frame.h"

enum { LINE = QN_WINOGRAD_LINE };

#include "kernels/vector/winograd_lines.h"

/* ---- in two ---- */

static void winograd_input(const qn_winograd_tile *t, int64_t n, float *planes,
                           int64_t plane_stride) {
    pixels_to_planes(6, LINE, input_line, t, n, planes, plane_stride);
}

static void winograd_gradient(const qn_winograd_tile *t, int64_t n, float *planes,
                              int64_t plane_stride) {
    pixels_to_planes(4, LINE, gradient_line, t, n, planes, plane_stride);
}

static void winograd_output(const float *planes, int64_t plane_stride, int64_t n, const float *bias,
                            const qn_winograd_tile *t) {
    planes_to_pixels(false, 4, LINE, output_line, planes, plane_stride, n, bias, t);
}

static void winograd_filter(const float *taps, int64_t row_stride, int64_t tap_stride, int64_t n,
                            float *planes, int64_t plane_stride) {
    taps_to_planes(3, LINE, filter_line, taps, row_stride, tap_stride, n, planes, plane_stride);
}

static void winograd_filter_gradient(const float *planes, int64_t plane_stride, int64_t n,
                                     float *taps, int64_t row_stride, int64_t tap_stride,
                                     bool add) {
    planes_to_taps(3, LINE, filter_gradient_line, planes, plane_stride, n, taps, row_stride,
                   tap_stride, add);
}

const qn_winograd WINOGRAD = {winograd_input, winograd_gradient, winograd_output, winograd_filter,
                              winograd_filter_gradient};

#endif
