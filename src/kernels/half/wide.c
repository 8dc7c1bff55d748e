/* Products of 16-bit floats by the float kernels (half.h): operands are converted into the
 * workspace, those of a batch in slices that stay in the caches, and results are rounded. The bits
 * are those of whole tensors that are converted, because a kernel's do not depend on the samples
 * beside it, and filter gradients are cut where their kernel's chunks end. */
#include "base/memory.h"
#include "kernels/half.h"

enum { SLICE_FLOATS = 1024 * 1024 }; /* of both sides of a slice, about */

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static size_t floats(int64_t n) {
    const size_t bytes = (size_t)n * sizeof(float);
    return (bytes + QN_ALIGNMENT - 1) / QN_ALIGNMENT * QN_ALIGNMENT;
}

static qn_activation activation_of(const qn_half_result *y) {
    return (qn_activation){y->relu ? QN_ACTIVATION_RELU : QN_ACTIVATION_NONE, 0};
}

/* ---- products ---- */

static void gemm(const qn_halves *how, qn_team *team, const qn_gemm_shape *d, const uint16_t *a,
                 const uint16_t *b, const qn_half_result *y, void *workspace) {
    float *a32 = workspace, *b32 = a32 + floats(d->m * d->k) / sizeof(float);
    float *space = b32 + floats(d->k * d->n) / sizeof(float);
    float *y32 = y->halves ? space : y->sums;
    if (y->halves)
        space += floats(d->m * d->n) / sizeof(float);
    qn_halves_widen(how, team, 1, d->m * d->k, d->m * d->k, a, a32);
    qn_halves_widen(how, team, 1, d->k * d->n, d->k * d->n, b, b32);
    how->wide->gemm(team, d, a32, b32, y->bias, activation_of(y), y32, space);
    if (y->halves)
        qn_halves_narrow(how, team, 1, d->m * d->n, d->m * d->n, y32, y->halves);
}

static size_t gemm_workspace(const qn_halves *how, const qn_gemm_shape *d, int n_threads) {
    return floats(d->m * d->k) + floats(d->k * d->n) + floats(d->m * d->n) +
           how->wide->gemm_workspace(d, n_threads);
}

static int64_t gemm_chunk(const qn_halves *how) {
    return how->wide->gemm_chunk;
}

/* ---- convolutions ---- */

/* A convolution in slices of samples. */
typedef struct slices {
    qn_conv2d_shape d; /* of a slice */
    int64_t n, x_sample, y_sample, filter, step;
} slices;

static slices slices_of(const qn_halves *how, const qn_conv2d_shape *d, qn_conv2d_pass pass) {
    slices s = {.d = *d,
                .n = d->n,
                .x_sample = d->h * d->w * d->c,
                .y_sample = d->p * d->q * d->k,
                .filter = d->k * d->r * d->s * (d->c / d->groups),
                .step = d->y_stride ? d->y_stride : d->k};
    int64_t chunk = 1, count = SLICE_FLOATS / (s.x_sample + s.y_sample + 1);
    s.d.batch = d->batch ? d->batch : d->n;
    s.d.y_stride = 0;
    s.d.rules = how->wide->rules;
    s.d.tilings = NULL;
    if (pass == QN_CONV2D_BACKWARD_FILTER)
        chunk = how->wide->conv2d_filter_chunk(&s.d);
    count = chunk > 0 ? count / chunk * chunk : d->n;
    s.d.n = least(d->n, count > 0 ? count : chunk);
    return s;
}

/* Of whole slices and the last one. */
static size_t kernel_bytes(const qn_halves *how, const slices *s, qn_conv2d_pass pass,
                           int n_threads) {
    qn_conv2d_shape last = s->d;
    last.n = s->n % s->d.n ? s->n % s->d.n : s->d.n;
    const size_t whole = how->wide->conv2d_workspace(&s->d, pass, n_threads);
    const size_t rest = how->wide->conv2d_workspace(&last, pass, n_threads);
    return whole > rest ? whole : rest;
}

static size_t conv2d_workspace(const qn_halves *how, const qn_conv2d_shape *d, qn_conv2d_pass pass,
                               int n_threads) {
    const slices s = slices_of(how, d, pass);
    return floats(s.filter) + floats(s.d.n * s.x_sample) + floats(s.d.n * s.y_sample) +
           kernel_bytes(how, &s, pass, n_threads);
}

typedef struct places {
    float *w, *x, *y;
    void *space;
} places;

static places places_in(const slices *s, void *workspace) {
    char *at = workspace;
    places p = {.w = workspace};
    p.x = (float *)(void *)(at += floats(s->filter));
    p.y = (float *)(void *)(at += floats(s->d.n * s->x_sample));
    p.space = at + floats(s->d.n * s->y_sample);
    return p;
}

static void conv2d_forward(const qn_halves *how, qn_team *team, const qn_conv2d_shape *d,
                           const uint16_t *x, const uint16_t *w, const qn_half_result *y,
                           void *workspace) {
    slices s = slices_of(how, d, QN_CONV2D_FORWARD);
    const places p = places_in(&s, workspace);
    const int64_t pixels = d->p * d->q;
    qn_halves_widen(how, team, 1, s.filter, s.filter, w, p.w);
    for (int64_t n = 0, count = s.d.n; n < s.n; n += count) {
        s.d.n = least(count, s.n - n);
        qn_halves_widen(how, team, 1, s.d.n * s.x_sample, s.d.n * s.x_sample, x + n * s.x_sample,
                        p.x);
        how->wide->conv2d_forward(team, &s.d, p.x, p.w, y->bias, activation_of(y), p.y, p.space);
        qn_halves_narrow(how, team, s.d.n * pixels, d->k, s.step, p.y,
                         y->halves + n * pixels * s.step);
    }
}

static void conv2d_backward_data(const qn_halves *how, qn_team *team, const qn_conv2d_shape *d,
                                 const uint16_t *dy, const uint16_t *w, const qn_half_result *dx,
                                 void *workspace) {
    slices s = slices_of(how, d, QN_CONV2D_BACKWARD_DATA);
    const places p = places_in(&s, workspace);
    const int64_t pixels = d->p * d->q;
    qn_halves_widen(how, team, 1, s.filter, s.filter, w, p.w);
    for (int64_t n = 0, count = s.d.n; n < s.n; n += count) {
        s.d.n = least(count, s.n - n);
        qn_halves_widen(how, team, s.d.n * pixels, d->k, s.step, dy + n * pixels * s.step, p.y);
        how->wide->conv2d_backward_data(team, &s.d, p.y, p.w, p.x, p.space);
        qn_halves_narrow(how, team, 1, s.d.n * s.x_sample, s.d.n * s.x_sample, p.x,
                         dx->halves + n * s.x_sample);
    }
}

static void conv2d_backward_filter(const qn_halves *how, qn_team *team, const qn_conv2d_shape *d,
                                   const uint16_t *x, const uint16_t *dy, const qn_half_result *dw,
                                   void *workspace) {
    slices s = slices_of(how, d, QN_CONV2D_BACKWARD_FILTER);
    const places p = places_in(&s, workspace);
    const int64_t pixels = d->p * d->q;
    for (int64_t n = 0, count = s.d.n; n < s.n; n += count) {
        s.d.n = least(count, s.n - n);
        s.d.add = d->add || n > 0;
        qn_halves_widen(how, team, 1, s.d.n * s.x_sample, s.d.n * s.x_sample, x + n * s.x_sample,
                        p.x);
        qn_halves_widen(how, team, s.d.n * pixels, d->k, s.step, dy + n * pixels * s.step, p.y);
        how->wide->conv2d_backward_filter(team, &s.d, p.x, p.y, dw->sums, p.space);
    }
}

static int64_t conv2d_filter_chunk(const qn_halves *how, const qn_conv2d_shape *d) {
    const slices s = slices_of(how, d, QN_CONV2D_FORWARD);
    return how->wide->conv2d_filter_chunk(&s.d);
}

const qn_half_kernels qn_half_wide = {
    .name = "wide",
    .gemm = gemm,
    .gemm_workspace = gemm_workspace,
    .gemm_chunk = gemm_chunk,
    .conv2d_forward = conv2d_forward,
    .conv2d_backward_data = conv2d_backward_data,
    .conv2d_backward_filter = conv2d_backward_filter,
    .conv2d_workspace = conv2d_workspace,
    .conv2d_filter_chunk = conv2d_filter_chunk,
};
