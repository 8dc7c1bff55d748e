/* The works of the DSP's program (src/driver/hexagon/dsp/works.h) as plain loops without vectors:
 * what the vectors' instruction packets are compared with. Linked with that program's main.c. */
#include "works.h"

/* ---- products ---- */

static int dot(int n, const signed char *a, int a_step, const signed char *b, int b_step) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += a[i * a_step] * b[i * b_step];
    return sum;
}

static int forward_sum(const qn_dsp_window *d, const signed char *x, const signed char *w, int n,
                       int p, int q, int k) {
    int sum = 0;
    for (int r = 0; r < d->r; r++) {
        const int y = p * d->stride_h + r - d->pad_top;
        for (int s = 0; s < d->s && y >= 0 && y < d->h; s++) {
            const int at = q * d->stride_w + s - d->pad_left;
            if (at >= 0 && at < d->w)
                sum += dot(d->c, x + ((n * d->h + y) * d->w + at) * d->c, 1,
                           w + ((k * d->r + r) * d->s + s) * d->c, 1);
        }
    }
    return sum;
}

static int data_sum(const qn_dsp_window *d, const signed char *dy, const signed char *w, int n,
                    int y, int x, int c) {
    const int taps = d->r * d->s;
    int sum = 0;
    for (int r = 0; r < d->r; r++) {
        const int p = y + d->pad_top - r;
        for (int s = 0; s < d->s && p >= 0 && p < d->p; s++) {
            const int q = x + d->pad_left - s;
            if (q >= 0 && q < d->q)
                sum += dot(d->k, dy + ((n * d->p + p) * d->q + q) * d->y_stride, 1,
                           w + (r * d->s + s) * d->c + c, taps * d->c);
        }
    }
    return sum;
}

static int filter_sum(const qn_dsp_window *d, const signed char *x, const signed char *dy, int k,
                      int r, int s, int c) {
    int sum = 0;
    for (int n = 0; n < d->n; n++) {
        for (int p = 0; p < d->p; p++) {
            const int y = p * d->stride_h + r - d->pad_top;
            int from = 0, end = d->q;
            while (from < end && from * d->stride_w + s < d->pad_left)
                from++;
            while (end > from && (end - 1) * d->stride_w + s - d->pad_left >= d->w)
                end--;
            if (y < 0 || y >= d->h)
                continue;
            const int first = (n * d->h + y) * d->w + from * d->stride_w + s - d->pad_left;
            const int error = (n * d->p + p) * d->q + from;
            sum += dot(end - from, x + first * d->c + c, d->stride_w * d->c,
                       dy + error * d->y_stride + k, d->y_stride);
        }
    }
    return sum;
}

static int *sum_at(const prepared *p, int row, int column) {
    return (int *)(place(p, p->work.workspace) + p->places.sums) + row * p->places.lanes + column;
}

static void store(const prepared *p, int row, int column, int sum, uint32_t *largest) {
    if (p->work.relu && sum < 0)
        sum = 0;
    const uint32_t size = sum < 0 ? -(uint32_t)sum : (uint32_t)sum;
    *sum_at(p, row, column) = sum;
    *largest = size > *largest ? size : *largest;
}

static uint32_t make_images(const prepared *p, int height, int width) {
    const qn_dsp_window *d = &p->work.window;
    const signed char *a = (signed char *)place(p, p->work.in[0]);
    const signed char *b = (signed char *)place(p, p->work.in[1]);
    uint32_t largest = 0;
    int row = 0;
    for (int n = 0; n < d->n; n++) {
        for (int y = 0; y < height; y++) {
            for (int x = 0; x < width; x++, row++) {
                for (int i = 0; i < p->places.columns; i++)
                    store(p, row, i,
                          p->work.kind == QN_DSP_DATA ? data_sum(d, a, b, n, y, x, i)
                                                      : forward_sum(d, a, b, n, y, x, i),
                          &largest);
            }
        }
    }
    return largest;
}

static uint32_t make_filters(const prepared *p) {
    const qn_dsp_window *d = &p->work.window;
    const signed char *x = (signed char *)place(p, p->work.in[0]);
    const signed char *dy = (signed char *)place(p, p->work.in[1]);
    uint32_t largest = 0;
    for (int k = 0; k < d->k; k++) {
        int column = 0;
        for (int r = 0; r < d->r; r++) {
            for (int s = 0; s < d->s; s++) {
                for (int c = 0; c < d->c; c++)
                    store(p, k, column++, filter_sum(d, x, dy, k, r, s, c), &largest);
            }
        }
    }
    return largest;
}

/* ---- shifts ---- */

static signed char shift_one(int sum, int shift, bool is_pseudo) {
    const uint32_t size = sum < 0 ? -(uint32_t)sum : (uint32_t)sum;
    const int half_bits = shift >> 1;
    const uint32_t rest = size & (uint32_t)((1ULL << shift) - 1);
    uint32_t y = size >> shift;
    if (is_pseudo)
        y += rest >> half_bits > (rest & ((1U << half_bits) - 1)) << (shift & 1);
    else
        y += shift > 0 && (size >> (shift - 1) & 1);
    y = y > 127 ? 127 : y;
    return (signed char)(sum < 0 ? -(int)y : (int)y);
}

void shift_sums(const prepared *p, int shift) {
    const int step = p->work.kind == QN_DSP_FORWARD ? p->work.window.y_stride : p->places.columns;
    signed char *to = (signed char *)place(p, p->work.out[0]);
    for (int row = 0; row < p->places.rows; row++) {
        for (int i = 0; i < p->places.columns; i++)
            to[row * step + i] = shift_one(*sum_at(p, row, i), shift, p->work.is_pseudo != 0);
    }
}

uint32_t make_sums(const prepared *p) {
    const qn_dsp_window *d = &p->work.window;
    return p->work.kind == QN_DSP_FILTER ? make_filters(p)
           : p->work.kind == QN_DSP_DATA ? make_images(p, d->h, d->w)
                                         : make_images(p, d->p, d->q);
}

/* ---- number by number ---- */

void relu(const prepared *p) {
    const qn_dsp_work *w = &p->work;
    const signed char *x = (signed char *)place(p, w->in[0]);
    signed char *y = (signed char *)place(p, w->out[0]);
    for (int i = 0; i < w->rows; i++) {
        for (int j = 0; j < w->columns; j++) {
            const signed char v = x[i * w->strides[0] + j];
            y[i * w->strides[2] + j] = v > 0 ? v : 0;
        }
    }
}

void relu_backward(const prepared *p) {
    const qn_dsp_work *w = &p->work;
    const signed char *y = (signed char *)place(p, w->in[0]);
    const signed char *dy = (signed char *)place(p, w->in[1]);
    signed char *dx = (signed char *)place(p, w->out[0]);
    for (int i = 0; i < w->rows; i++) {
        for (int j = 0; j < w->columns; j++)
            dx[i * w->strides[2] + j] =
                y[i * w->strides[0] + j] > 0 ? dy[i * w->strides[1] + j] : 0;
    }
}

/* ---- max pool ---- */

static void pool_one(const prepared *p, int n, int oy, int ox, int c, signed char *y,
                     uint16_t *index) {
    const qn_dsp_window *d = &p->work.window;
    const signed char *x = (signed char *)place(p, p->work.in[0]);
    bool is_first = true;
    *y = 0;
    *index = 0;
    for (int r = 0; r < d->r; r++) {
        const int iy = oy * d->stride_h + r * d->dilation_h - d->pad_top;
        for (int s = 0; s < d->s && iy >= 0 && iy < d->h; s++) {
            const int ix = ox * d->stride_w + s * d->dilation_w - d->pad_left;
            if (ix < 0 || ix >= d->w)
                continue;
            const signed char v = x[((n * d->h + iy) * d->w + ix) * d->c + c];
            if (is_first || v > *y) {
                *y = v;
                *index = (uint16_t)(r * d->s + s);
            }
            is_first = false;
        }
    }
}

void max_pool(const prepared *p) {
    const qn_dsp_window *d = &p->work.window;
    signed char *y = (signed char *)place(p, p->work.out[0]);
    uint16_t *index = (uint16_t *)place(p, p->work.out[1]);
    for (int n = 0; n < d->n; n++) {
        for (int oy = 0; oy < d->p; oy++) {
            for (int ox = 0; ox < d->q; ox++, y += d->y_stride, index += d->c) {
                for (int c = 0; c < d->c; c++)
                    pool_one(p, n, oy, ox, c, y + c, index + c);
            }
        }
    }
}

/* What each pixel passes is added to where it came from: 127 at most, as all of it is cut at the
 * end, and windows here overlap by few. */
void max_pool_backward(const prepared *p) {
    const qn_dsp_window *d = &p->work.window;
    const signed char *dy = (signed char *)place(p, p->work.in[0]);
    const uint16_t *index = (const uint16_t *)place(p, p->work.in[1]);
    signed char *dx = (signed char *)place(p, p->work.out[0]);
    for (int n = 0; n < d->n; n++) {
        for (int y = 0; y < d->h; y++) {
            for (int x = 0; x < d->w; x++, dx += d->c) {
                for (int c = 0; c < d->c; c++) {
                    int sum = 0;
                    for (int r = 0; r < d->r; r++) {
                        const int oy = y + d->pad_top - r * d->dilation_h;
                        if (oy < 0 || oy % d->stride_h != 0 || oy / d->stride_h >= d->p)
                            continue;
                        for (int s = 0; s < d->s; s++) {
                            const int ox = x + d->pad_left - s * d->dilation_w;
                            if (ox < 0 || ox % d->stride_w != 0 || ox / d->stride_w >= d->q)
                                continue;
                            const int out = (n * d->p + oy / d->stride_h) * d->q + ox / d->stride_w;
                            if (index[out * d->c + c] == r * d->s + s)
                                sum += dy[out * d->y_stride + c];
                        }
                    }
                    dx[c] = (signed char)(sum < -127 ? -127 : sum > 127 ? 127 : sum);
                }
            }
        }
    }
}
