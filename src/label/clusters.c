/* See clusters.h. */
#include "label/clusters.h"

#include "base/fmath.h"
#include "base/fmath_inline.h"

#include <string.h>

#define LN_PI 1.1447298858494002

size_t qn_clusters_floats(int d, int capacity) {
    return (size_t)(d + 5) * (size_t)capacity;
}

void qn_clusters_lay(qn_clusters *set, int d, int capacity, float *block) {
    const size_t row = (size_t)capacity;
    set->d = d;
    set->capacity = capacity;
    set->centre = block;
    set->shape = block + row * (size_t)d;
    set->scale = set->shape + row;
    set->smooth = set->scale + row;
    set->constant = set->smooth + row;
    set->weight = set->constant + row;
}

void qn_clusters_clear(qn_clusters *set) {
    memset(set->centre, 0, qn_clusters_floats(set->d, set->capacity) * sizeof(float));
    for (int k = 0; k < set->capacity; k++)
        set->shape[k] = set->scale[k] = set->smooth[k] = 1.0f;
    set->n = 0;
}

size_t qn_cluster_sums_floats(int d, int capacity) {
    return (size_t)(d + 5) * (size_t)capacity;
}

void qn_cluster_sums_lay(qn_cluster_sums *sums, int d, int capacity, float *block) {
    const size_t row = (size_t)capacity;
    sums->d = d;
    sums->capacity = capacity;
    sums->pulled = block;
    sums->count = block + row * (size_t)d;
    sums->pull = sums->count + row;
    sums->square = sums->pull + row;
    sums->log_square = sums->square + row;
    sums->gain = sums->log_square + row;
}

void qn_cluster_sums_clear(qn_cluster_sums *sums) {
    memset(sums->pulled, 0, qn_cluster_sums_floats(sums->d, sums->capacity) * sizeof(float));
}

float qn_ln(float x) {
    return qn_ln_inline_f32(x);
}

/* ln of the gamma function of x > 0: Stirling's series above 8, to which it is raised. */
static double log_gamma(double x) {
    double below = 1.0;
    for (; x < 8.0; x += 1.0)
        below *= x;
    const double r = 1.0 / x, s = r * r;
    const double series =
        r * (1.0 / 12 - s * (1.0 / 360 - s * (1.0 / 1260 - s * (1.0 / 1680 - s / 1188))));
    return (x - 0.5) * (double)qn_ln((float)x) - x + 0.91893853320467274 + series -
           (double)qn_ln((float)below);
}

float qn_clusters_look(const qn_clusters *set, const float *x, float least_base,
                       qn_cluster_view *view) {
    const int n = (set->n + QN_CLUSTER_LANES - 1) / QN_CLUSTER_LANES * QN_CLUSTER_LANES;
    const float half = 0.5f * (float)set->d;
    float *u = view->square, *l = view->log_square, *p = view->density;
    for (int k = 0; k < n; k++)
        u[k] = set->smooth[k];
    for (int j = 0; j < set->d; j++) {
        const float *centre = set->centre + (size_t)j * (size_t)set->capacity, at = x[j];
        for (int k = 0; k < n; k++) {
            const float off = at - centre[k];
            u[k] += off * off;
        }
    }
    for (int k = 0; k < n; k++) {
        l[k] = qn_ln_inline_f32(u[k]);
        p[k] = set->constant[k] + (set->shape[k] - half) * l[k] - u[k] / set->scale[k];
    }
    float base = least_base;
    for (int k = 0; k < set->n; k++)
        base = set->weight[k] > 0 && p[k] > base ? p[k] : base;
    float sum = 0;
    for (int k = 0; k < n; k++) {
        const float off = p[k] - base; /* above 0 only where the weight is 0 */
        p[k] = set->weight[k] * qn_exp_inline_f32(off < 0 ? off : 0.0f);
    }
    for (int k = 0; k < n; k++)
        sum += p[k];
    view->base = base;
    return sum;
}

void qn_cluster_sums_add(qn_cluster_sums *sums, const qn_clusters *set, const float *x,
                         const qn_cluster_view *view, const float *part) {
    const int n = (set->n + QN_CLUSTER_LANES - 1) / QN_CLUSTER_LANES * QN_CLUSTER_LANES;
    const float half = 0.5f * (float)set->d;
    float pull[QN_MAX_LANES];
    for (int k = 0; k < n; k++) {
        pull[k] = part[k] * ((half - set->shape[k]) / view->square[k] + 1.0f / set->scale[k]);
        sums->count[k] += part[k];
        sums->pull[k] += pull[k];
        sums->square[k] += part[k] * view->square[k];
        sums->log_square[k] += part[k] * view->log_square[k];
    }
    for (int j = 0; j < set->d; j++) {
        float *pulled = sums->pulled + (size_t)j * (size_t)sums->capacity, at = x[j];
        for (int k = 0; k < n; k++)
            pulled[k] += pull[k] * at;
    }
}

void qn_cluster_set(qn_clusters *set, int k, float mean_square, float spread,
                    const qn_cluster_prior *prior) {
    const double half = 0.5 * set->d;
    const double y = spread > 1e-6f ? (double)spread : 1e-6;
    /* The maximum of the likelihood but for 1.5 % (Minka 2002, "Estimating a gamma distribution").
     */
    double a = (3.0 - y + __builtin_sqrt((y - 3.0) * (y - 3.0) + 24.0 * y)) / (12.0 * y);
    a = a > half ? half : a < 0.2 ? 0.2 : a;
    const double mean = mean_square > prior->least ? (double)mean_square : (double)prior->least;
    const double theta = mean / a;
    set->shape[k] = (float)a;
    set->scale[k] = (float)theta;
    set->smooth[k] = prior->smooth * (float)mean;
    set->constant[k] =
        (float)(log_gamma(half) - half * LN_PI - log_gamma(a) - a * (double)qn_ln((float)theta));
}

float qn_cluster_spread(const qn_clusters *set, int k) {
    /* ln a - digamma(a), by the series of digamma above 6, to which it is raised. */
    double a = set->shape[k], raised = 0.0;
    const double log_a = (double)qn_ln((float)a);
    for (; a < 6.0; a += 1.0)
        raised += 1.0 / a;
    const double r = 1.0 / a, s = r * r;
    const double digamma =
        (double)qn_ln((float)a) - 0.5 * r - s * (1.0 / 12 - s * (1.0 / 120 - s / 252)) - raised;
    return (float)(log_a - digamma);
}

void qn_cluster_fit(qn_clusters *set, int k, const qn_cluster_sums *sums,
                    const qn_cluster_prior *prior) {
    const float n = sums->count[k];
    if (!(n > 1e-3f) || !(sums->pull[k] > 0))
        return;
    for (int j = 0; j < set->d; j++)
        set->centre[(size_t)j * (size_t)set->capacity + (size_t)k] =
            sums->pulled[(size_t)j * (size_t)sums->capacity + (size_t)k] / sums->pull[k];
    const float mean = sums->square[k] / n;
    float spread = qn_ln(mean) - sums->log_square[k] / n;
    spread = (spread * n + prior->spread * prior->count) / (n + prior->count);
    qn_cluster_set(set, k, mean, spread, prior);
}

void qn_cluster_copy(const qn_clusters *set, int k, qn_clusters *other, int to) {
    for (int j = 0; j < set->d; j++)
        other->centre[(size_t)j * (size_t)other->capacity + (size_t)to] =
            set->centre[(size_t)j * (size_t)set->capacity + (size_t)k];
    other->shape[to] = set->shape[k];
    other->scale[to] = set->scale[k];
    other->smooth[to] = set->smooth[k];
    other->constant[to] = set->constant[k];
    other->weight[to] = set->weight[k];
}
