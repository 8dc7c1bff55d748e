/* See examples.h. */
#include "label/examples.h"

#include "base/fmath.h"
#include "base/fmath_inline.h"
#include "quern/label.h"

#include <string.h>

enum { LANES = QN_CLUSTER_LANES, STEPS = 8, LEAST_SAMPLES = 50 };

static const float nothing = -1e30f; /* logarithm of a density */

static size_t round_up(int n) {
    return ((size_t)n + LANES - 1) / LANES * LANES;
}

size_t qn_examples_floats(int d, int n) {
    return 2 + round_up(n) * ((size_t)d + 3) + qn_clusters_floats(d, LANES);
}

void qn_examples_lay(qn_examples *e, int d, int n, float *block) {
    e->n = n;
    e->d = d;
    e->capacity = (int)round_up(n);
    e->share = block;
    e->limit = block + 1;
    e->weight = block + 2;
    e->class_of = e->weight + e->capacity;
    e->alone = e->class_of + e->capacity;
    qn_clusters_lay(&e->kernel, d, LANES, e->alone + e->capacity);
    e->points = e->alone + e->capacity + qn_clusters_floats(d, LANES);
}

void qn_examples_clear(qn_examples *e) {
    memset(e->share, 0, qn_examples_floats(e->d, e->capacity) * sizeof(float));
    qn_clusters_clear(&e->kernel);
    e->n = 0;
}

void qn_examples_add(qn_examples *e, int class, const float *x, int n, float weight) {
    for (int i = 0; i < n; i++) {
        const int at = e->n++;
        float *block = e->points + (size_t)(at / LANES) * (size_t)(e->d * LANES);
        for (int j = 0; j < e->d; j++)
            block[j * LANES + at % LANES] = x[(size_t)i * (size_t)e->d + (size_t)j];
        e->weight[at] = weight;
        e->class_of[at] = (float)class;
    }
}

/* Squared distances u (capacity) of x. */
static void measure(const qn_examples *e, const float *x, float *u) {
    for (int first = 0; first < e->capacity; first += LANES) {
        const float *block = e->points + (size_t)first * (size_t)e->d;
        float lane[LANES];
        for (int k = 0; k < LANES; k++)
            lane[k] = e->kernel.smooth[0];
        for (int j = 0; j < e->d; j++)
            for (int k = 0; k < LANES; k++) {
                const float off = x[j] - block[j * LANES + k];
                lane[k] += off * off;
            }
        memcpy(u + first, lane, sizeof lane);
    }
}

/* Logarithms p (capacity) of the kernels' densities. */
static void look_at_all(const qn_examples *e, const float *u, float *p) {
    const float power = e->kernel.shape[0] - 0.5f * (float)e->d, scale = e->kernel.scale[0];
    for (int i = 0; i < e->capacity; i++)
        p[i] = e->kernel.constant[0] + power * qn_ln_inline_f32(u[i]) - u[i] / scale;
}

float qn_examples_look(const qn_examples *e, const float *x, int n_classes, float *base,
                       float *part) {
    float u[QN_MOST_EXAMPLES], p[QN_MOST_EXAMPLES], sum = 0, highest = *base;
    memset(part, 0, (size_t)n_classes * sizeof *part);
    measure(e, x, u);
    look_at_all(e, u, p);
    for (int i = 0; i < e->n; i++)
        highest = e->weight[i] > 0 && p[i] > highest ? p[i] : highest;
    for (int i = 0; i < e->capacity; i++) {
        const float off = p[i] - highest;
        p[i] = e->weight[i] * qn_exp_inline_f32(off < 0 ? off : 0.0f);
    }
    for (int i = 0; i < e->n; i++)
        part[(int)e->class_of[i]] += p[i];
    for (int c = 0; c < n_classes; c++)
        sum += part[c];
    *base = highest;
    return sum;
}

void qn_examples_get(const qn_examples *e, int i, float *x) {
    const float *block = e->points + (size_t)(i / LANES) * (size_t)(e->d * LANES);
    for (int j = 0; j < e->d; j++)
        x[j] = block[j * LANES + i % LANES];
}

/* ---- fitting ---- */

/* Sums over examples, each by the others of its class. */
typedef struct kernel_sums {
    double count, square, log_square;
} kernel_sums;

/* Adds what example i says, whose row is x; is_first: its nearest other alone counts. */
static void add_example(const qn_examples *e, int i, const float *x, bool is_first,
                        kernel_sums *sums) {
    float u[QN_MOST_EXAMPLES], p[QN_MOST_EXAMPLES];
    double all = 0, square = 0, log_square = 0;
    int best = -1;
    measure(e, x, u);
    look_at_all(e, u, p);
    for (int k = 0; k < e->n; k++) {
        const bool counts = k != i && e->class_of[k] == e->class_of[i];
        p[k] = !counts ? nothing : is_first ? -u[k] : p[k];
        best = counts && (best < 0 || p[k] > p[best]) ? k : best;
    }
    if (best < 0)
        return;
    for (int k = 0; k < e->n; k++) {
        const float off = p[k] - p[best];
        if (off < -30.0f || (is_first && k != best))
            continue;
        const double part = (double)qn_exp_f32(off);
        all += part;
        square += part * (double)u[k];
        log_square += part * (double)qn_ln(u[k]);
    }
    sums->count += 1;
    sums->square += square / all;
    sums->log_square += log_square / all;
}

void qn_examples_fit(qn_examples *e, const qn_cluster_prior *prior) {
    float x[QN_LABEL_MAX_FEATURES];
    qn_cluster_set(&e->kernel, 0, 1.0f, prior->spread, prior);
    for (int step = 0; step < STEPS; step++) {
        kernel_sums sums = {0};
        for (int i = 0; i < e->n; i++) {
            qn_examples_get(e, i, x);
            add_example(e, i, x, step == 0, &sums);
        }
        if (!(sums.count > 0))
            return;
        const float mean = (float)(sums.square / sums.count);
        const float spread = qn_ln(mean) - (float)(sums.log_square / sums.count);
        qn_cluster_set(&e->kernel, 0, mean, spread, prior);
    }
}

/* ---- the limit ---- */

/* Shell's order; qsort may allocate. */
static void put_in_order(float *x, int n) {
    for (int gap = n / 2; gap > 0; gap = gap == 2 ? 1 : gap * 5 / 11)
        for (int i = gap; i < n; i++) {
            const float moved = x[i];
            int at = i;
            for (; at >= gap && x[at - gap] > moved; at -= gap)
                x[at] = x[at - gap];
            x[at] = moved;
        }
}

/* How many of x, in order, are below the limit; from `at` on. */
static int below(const float *x, int n, int at, float limit) {
    while (at < n && x[at] < limit)
        at++;
    return at;
}

/* The largest share of known samples that explains both; the highest odds, of few samples, do not
 * count. */
static float known_share(const float *known, int n_known, const float *all, int n_all) {
    float least = 1.0f;
    for (int i = 0, at = 0; i < n_known - (int)(0.15f * (float)n_known); i++) {
        at = below(all, n_all, at, known[i]);
        const float share =
            (float)(n_all - at) / (float)n_all * (float)n_known / (float)(n_known - i);
        least = share < least ? share : least;
    }
    return least;
}

float qn_examples_find_limit(float *known, int n_known, float *all, int n_all) {
    put_in_order(known, n_known);
    put_in_order(all, n_all);
    if (n_all < LEAST_SAMPLES)
        return known[n_known / 20];
    const float share = known_share(known, n_known, all, n_all);
    const float fresh = 1.0f - share > 0.005f ? 1.0f - share : 0.005f;
    const float a = __builtin_sqrtf(share), b = 1.0f / __builtin_sqrtf(fresh);
    float best = 1e30f, limit = known[0];
    for (int i = 0, at = 0; i < n_known; i++) {
        at = below(all, n_all, at, known[i]);
        const float lost = (float)i / (float)n_known;
        const float missed = (float)(n_all - at) / (float)n_all - share * (1.0f - lost);
        const float cost = a * lost + b * (missed > 0 ? missed : 0);
        if (cost < best) {
            best = cost;
            limit = known[i];
        }
    }
    return limit;
}
