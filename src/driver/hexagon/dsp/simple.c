/* What is done number by number, and maxima of windows. */
#include "vectors.h"
#include "works.h"

/* ---- ReLU ---- */

static void relu_row(const char *x, char *y, int n) {
    int i = 0;
    for (; i + VECTOR <= n; i += VECTOR)
        store(y + i, Q6_Vb_vmax_VbVb(load(x + i), Q6_V_vzero()));
    if (i < n)
        store_some(y + i, Q6_Vb_vmax_VbVb(load(x + i), Q6_V_vzero()), n - i);
}

void relu(const prepared *p) {
    const qn_dsp_work *w = &p->work;
    const char *x = place(p, w->in[0]);
    char *y = place(p, w->out[0]);
    for (int i = 0; i < w->rows; i++)
        relu_row(x + i * w->strides[0], y + i * w->strides[2], w->columns);
}

static inline vec pass_positive(vec y, vec dy) {
    return Q6_V_vmux_QVV(Q6_Q_vcmp_gt_VbVb(y, Q6_V_vzero()), dy, Q6_V_vzero());
}

static void relu_backward_row(const char *y, const char *dy, char *dx, int n) {
    int i = 0;
    for (; i + VECTOR <= n; i += VECTOR)
        store(dx + i, pass_positive(load(y + i), load(dy + i)));
    if (i < n)
        store_some(dx + i, pass_positive(load(y + i), load(dy + i)), n - i);
}

void relu_backward(const prepared *p) {
    const qn_dsp_work *w = &p->work;
    const char *y = place(p, w->in[0]), *dy = place(p, w->in[1]);
    char *dx = place(p, w->out[0]);
    for (int i = 0; i < w->rows; i++)
        relu_backward_row(y + i * w->strides[0], dy + i * w->strides[1], dx + i * w->strides[2],
                          w->columns);
}

/* ---- max pool ---- */

/* Up to 128 channels of a window: the first largest of each, and its tap. */
static void pool_channels(const prepared *p, int n, int oy, int ox, int c, char *y,
                          uint16_t *index) {
    const qn_dsp_window *d = &p->work.window;
    const char *x = place(p, p->work.in[0]);
    const int count = d->c - c < VECTOR ? d->c - c : VECTOR;
    vec best = Q6_V_vzero(), number = Q6_V_vzero();
    bool is_first = true;
    for (int r = 0; r < d->r; r++) {
        const int iy = oy * d->stride_h + r * d->dilation_h - d->pad_top;
        for (int s = 0; s < d->s && iy >= 0 && iy < d->h; s++) {
            const int ix = ox * d->stride_w + s * d->dilation_w - d->pad_left;
            if (ix < 0 || ix >= d->w)
                continue;
            const vec v = load(x + ((n * d->h + iy) * d->w + ix) * d->c + c);
            const vec tap = Q6_V_vsplat_R((r * d->s + s) * 0x01010101);
            const HVX_VectorPred is_more = Q6_Q_vcmp_gt_VbVb(v, best);
            best = is_first ? v : Q6_Vb_vmax_VbVb(v, best);
            number = is_first ? tap : Q6_V_vmux_QVV(is_more, tap, number);
            is_first = false;
        }
    }
    store_some(y + c, best, count);
    const pair wide = Q6_W_vshuff_VVR(Q6_V_vzero(), number, -1);
    store_some((char *)(index + c), Q6_V_lo_W(wide), count * 2 < VECTOR ? count * 2 : VECTOR);
    if (count * 2 > VECTOR)
        store_some((char *)(index + c) + VECTOR, Q6_V_hi_W(wide), count * 2 - VECTOR);
}

/* Windows that lie side by side, without margins: each number is in one at most. */
static bool is_tiled(const qn_dsp_window *d) {
    return d->stride_h == d->r && d->stride_w == d->s && d->dilation_h == 1 && d->dilation_w == 1 &&
           d->pad_top == 0 && d->pad_left == 0 && d->p * d->r <= d->h && d->q * d->s <= d->w;
}

/* Up to 128 channels of a window that is all in the image; what lies behind them is written too. */
static inline void pool_whole(const qn_dsp_window *d, const char *x, char *y, char *index) {
    vec best = load(x), number = Q6_V_vzero();
    int tap = 0;
    for (int r = 0; r < d->r; r++) {
        const char *at = x + r * d->w * d->c;
        for (int s = 0; s < d->s; s++, at += d->c, tap += 0x01010101) {
            const vec v = load(at);
            number = Q6_V_vmux_QVV(Q6_Q_vcmp_gt_VbVb(v, best), Q6_V_vsplat_R(tap), number);
            best = Q6_Vb_vmax_VbVb(v, best);
        }
    }
    const pair wide = Q6_W_vshuff_VVR(Q6_V_vzero(), number, -1);
    store(y, best);
    store(index, low(wide));
    if (d->c > VECTOR / 2)
        store(index + VECTOR, high(wide));
}

/* Those in whose order everything that is written too is written again by later ones: false: it is
 * none of them. */
static bool pool_tiles(const prepared *p, int n, int oy) {
    const qn_dsp_window *d = &p->work.window;
    const int row = n * d->p + oy, left = d->n * d->p - row - 1;
    if (!is_tiled(d) || d->c > VECTOR || d->y_stride != d->c || left * d->q * d->c < VECTOR)
        return false;
    const char *x = place(p, p->work.in[0]) + (n * d->h + oy * d->r) * d->w * d->c;
    char *y = place(p, p->work.out[0]) + row * d->q * d->c;
    char *index = place(p, p->work.out[1]) + row * d->q * d->c * 2;
    for (int ox = 0; ox < d->q; ox++, x += d->s * d->c, y += d->c, index += 2 * d->c)
        pool_whole(d, x, y, index);
    return true;
}

void max_pool(const prepared *p) {
    const qn_dsp_window *d = &p->work.window;
    char *y = place(p, p->work.out[0]);
    uint16_t *index = (uint16_t *)place(p, p->work.out[1]);
    for (int n = 0; n < d->n; n++) {
        for (int oy = 0; oy < d->p; oy++) {
            if (pool_tiles(p, n, oy)) {
                y += d->q * d->y_stride;
                index += d->q * d->c;
                continue;
            }
            for (int ox = 0; ox < d->q; ox++, y += d->y_stride, index += d->c) {
                for (int c = 0; c < d->c; c += VECTOR)
                    pool_channels(p, n, oy, ox, c, y, index);
            }
        }
    }
}

/* The output that a place of the input is a tap of; -1: none. */
static inline int output_of(int at, int stride, int n) {
    const int out = stride == 1   ? at
                    : stride == 2 ? (at & 1 ? -1 : at >> 1)
                                  : (at % stride == 0 ? at / stride : -1);
    return at >= 0 && out < n ? out : -1;
}

/* Up to 64 channels of what a pixel is passed, in words of 16 bits. */
static void pool_back_channels(const prepared *p, int n, int y, int x, int c, char *dx) {
    const qn_dsp_window *d = &p->work.window;
    const char *dy = place(p, p->work.in[0]), *index = place(p, p->work.in[1]);
    const int count = d->c - c < VECTOR / 2 ? d->c - c : VECTOR / 2;
    vec sum = Q6_V_vzero();
    for (int r = 0; r < d->r; r++) {
        const int oy = output_of(y + d->pad_top - r * d->dilation_h, d->stride_h, d->p);
        for (int s = 0; s < d->s && oy >= 0; s++) {
            const int ox = output_of(x + d->pad_left - s * d->dilation_w, d->stride_w, d->q);
            if (ox < 0)
                continue;
            const int out = (n * d->p + oy) * d->q + ox;
            const vec passed = low(Q6_Wh_vunpack_Vb(load(dy + out * d->y_stride + c)));
            const vec taken = load(index + (out * d->c + c) * 2);
            const HVX_VectorPred is_it =
                Q6_Q_vcmp_eq_VhVh(taken, Q6_V_vsplat_R((r * d->s + s) * 0x00010001));
            sum = Q6_Vh_vadd_VhVh(sum, Q6_V_vmux_QVV(is_it, passed, Q6_V_vzero()));
        }
    }
    sum = Q6_Vh_vmin_VhVh(sum, Q6_V_vsplat_R(127 * 0x00010001));
    sum = Q6_Vh_vmax_VhVh(sum, Q6_V_vsplat_R((int)0xff81ff81));
    store_some(dx + c, Q6_Vb_vpacke_VhVh(sum, sum), count);
}

/* 128 channels of dy, and where they are taken from, as bytes. */
static inline void scatter_tap(vec dy, vec index, int tap, char *dx) {
    const HVX_VectorPred is_it = Q6_Q_vcmp_eq_VbVb(index, Q6_V_vsplat_R(tap * 0x01010101));
    store(dx, Q6_V_vmux_QVV(is_it, dy, Q6_V_vzero()));
}

/* A row of dx from one of dy, up to 128 channels at a time; what lies behind it is written too. */
static void scatter_row(const qn_dsp_window *d, const char *dy, const char *index, int r, int c,
                        char *dx) {
    const vec least = Q6_V_vsplat_R((int)0x81818181);
    for (int q = 0; q < d->q; q++, dy += d->y_stride, index += 2 * d->c) {
        const vec taken = Q6_Vb_vpacke_VhVh(load(index + 2 * c + VECTOR), load(index + 2 * c));
        const vec passed = Q6_Vb_vmax_VbVb(load(dy + c), least);
        for (int s = 0; s < d->s; s++, dx += d->c)
            scatter_tap(passed, taken, r * d->s + s, dx + c);
    }
    for (int x = d->q * d->s; x < d->w; x++, dx += d->c)
        store(dx + c, Q6_V_vzero());
}

/* A row of an image at a time, pixel by pixel, where all that is written too is written again by
 * later ones: that is so if channels are few, or fill vectors. False: it is none of these. */
static bool scatter_tiles(const prepared *p, int n, int y, char *dx) {
    const qn_dsp_window *d = &p->work.window;
    const int left = (d->n - n) * d->h - y - 1, oy = y / d->r;
    if (!is_tiled(d) || (d->c > VECTOR && d->c % VECTOR != 0) || left * d->w * d->c < VECTOR)
        return false;
    if (oy >= d->p) {
        for (int i = 0; i < d->w * d->c; i += VECTOR)
            store(dx + i, Q6_V_vzero());
        return true;
    }
    const char *dy = place(p, p->work.in[0]) + (n * d->p + oy) * d->q * d->y_stride;
    const char *index = place(p, p->work.in[1]) + (n * d->p + oy) * d->q * d->c * 2;
    for (int c = 0; c < d->c; c += VECTOR)
        scatter_row(d, dy, index, y - oy * d->r, c, dx);
    return true;
}

void max_pool_backward(const prepared *p) {
    const qn_dsp_window *d = &p->work.window;
    char *dx = place(p, p->work.out[0]);
    for (int n = 0; n < d->n; n++) {
        for (int y = 0; y < d->h; y++) {
            if (scatter_tiles(p, n, y, dx)) {
                dx += d->w * d->c;
                continue;
            }
            for (int x = 0; x < d->w; x++, dx += d->c) {
                for (int c = 0; c < d->c; c += VECTOR / 2)
                    pool_back_channels(p, n, y, x, c, dx);
            }
        }
    }
}
