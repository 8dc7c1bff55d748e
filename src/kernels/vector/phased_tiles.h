/* The transforms of a Winograd convolution F(3x3, 2x2): outputs of 3x3 pixels from inputs of 4x4 by
 * 16 products instead of 36, with the points 0, 1, -1 and infinity. They serve filters of 4x4 at
 * stride 2, whose every other row and column, a phase, is a filter of 2x2 at stride 1 over every
 * other row and column of the image (winograd.h). All factors are 1 and 1/2. */
#ifndef QN_KERNELS_VECTOR_PHASED_TILES_H
#define QN_KERNELS_VECTOR_PHASED_TILES_H

#include "kernels/vector/winograd_frame.h"

enum { PHASED_LINE = 4 };

/* ---- in one dimension ----  Values at 0, 1, -1 and infinity. */

INLINED void phased_input_line(const vector *d, vector *v) {
    v[0] = d[0] - d[2];
    v[1] = d[1] + d[2];
    v[2] = d[2] - d[1];
    v[3] = d[3] - d[1];
}

INLINED void phased_gradient_line(const vector *d, vector *v) {
    const vector a = d[0] + d[2];
    v[0] = d[0];
    v[1] = a + d[1];
    v[2] = a - d[1];
    v[3] = d[2];
}

INLINED void phased_filter_line(const vector *g, vector *u) {
    u[0] = g[0];
    u[1] = (g[0] + g[1]) * 0.5f;
    u[2] = (g[0] - g[1]) * 0.5f;
    u[3] = g[1];
}

INLINED void phased_output_line(const vector *m, vector *y) {
    const vector a = m[1] + m[2];
    y[0] = m[0] + a;
    y[1] = m[1] - m[2];
    y[2] = a + m[3];
}

INLINED void phased_filter_gradient_line(const vector *u, vector *g) {
    g[0] = u[0] + (u[1] + u[2]) * 0.5f;
    g[1] = (u[1] - u[2]) * 0.5f + u[3];
}

/* ---- in two ---- */

static void phased_input(const qn_winograd_tile *t, int64_t n, float *planes,
                         int64_t plane_stride) {
    pixels_to_planes(4, PHASED_LINE, phased_input_line, t, n, planes, plane_stride);
}

static void phased_gradient(const qn_winograd_tile *t, int64_t n, float *planes,
                            int64_t plane_stride) {
    pixels_to_planes(3, PHASED_LINE, phased_gradient_line, t, n, planes, plane_stride);
}

static void phased_output(const float *planes, int64_t plane_stride, int64_t n, const float *bias,
                          const qn_winograd_tile *t) {
    planes_to_pixels(true, 3, PHASED_LINE, phased_output_line, planes, plane_stride, n, bias, t);
}

static void phased_filter(const float *taps, int64_t row_stride, int64_t tap_stride, int64_t n,
                          float *planes, int64_t plane_stride) {
    taps_to_planes(2, PHASED_LINE, phased_filter_line, taps, row_stride, tap_stride, n, planes,
                   plane_stride);
}

static void phased_filter_gradient(const float *planes, int64_t plane_stride, int64_t n,
                                   float *taps, int64_t row_stride, int64_t tap_stride, bool add) {
    planes_to_taps(2, PHASED_LINE, phased_filter_gradient_line, planes, plane_stride, n, taps,
                   row_stride, tap_stride, add);
}

const qn_winograd PHASED = {phased_input, phased_gradient, phased_output, phased_filter,
                            phased_filter_gradient};

#endif
