/* Winograd's transforms of winograd_tiles.h in one dimension, over vectors. A file with it
 * defines `vector`, of floats, and LINE = 7. */
#ifndef QN_KERNELS_VECTOR_WINOGRAD_LINES_H
#define QN_KERNELS_VECTOR_WINOGRAD_LINES_H

/* Values at 0, 1, -1, the real part, the imaginary part, the sum of the
 * two, at infinity. */

static inline __attribute__((always_inline)) void input_line(const vector *d, vector *v) {
    const vector a = d[1] + d[3], b = d[2] + d[4], c = d[3] - d[1], e = d[4] - d[2];
    v[0] = d[0] - d[4];
    v[1] = b + a;
    v[2] = b - a;
    v[3] = c + e;
    v[4] = c - e;
    v[5] = c;
    v[6] = d[5] - d[1];
}

static inline __attribute__((always_inline)) void filter_line(const vector *g, vector *u) {
    const vector a = (g[0] + g[2]) * 0.25f, b = g[1] * 0.25f;
    const vector c = (g[0] - g[2]) * 0.5f, e = g[1] * 0.5f;
    u[0] = g[0];
    u[1] = a + b;
    u[2] = a - b;
    u[3] = c;
    u[4] = e;
    u[5] = -(c + e);
    u[6] = g[2];
}

static inline __attribute__((always_inline)) void output_line(const vector *m, vector *y) {
    const vector a = m[1] + m[2], b = m[1] - m[2], c = m[3] + m[5], e = m[4] + m[5];
    y[0] = m[0] + (a + c);
    y[1] = b + e;
    y[2] = a - c;
    y[3] = (b - e) + m[6];
}

/* The transposes of the last two: for the gradient of the filter. */

static inline __attribute__((always_inline)) void gradient_line(const vector *d, vector *v) {
    const vector a = d[0] + d[2], b = d[1] + d[3], c = d[0] - d[2], e = d[1] - d[3];
    v[0] = d[0];
    v[1] = a + b;
    v[2] = a - b;
    v[3] = c;
    v[4] = e;
    v[5] = c + e;
    v[6] = d[3];
}

static inline __attribute__((always_inline)) void filter_gradient_line(const vector *u, vector *g) {
    const vector a = (u[1] + u[2]) * 0.25f, c = (u[3] - u[5]) * 0.5f;
    g[0] = u[0] + (a + c);
    g[1] = (u[1] - u[2]) * 0.25f + (u[4] - u[5]) * 0.5f;
    g[2] = (a - c) + u[6];
}

#endif
