/* Rules with a margin: linear support vectors with pseudo-labels, and boosting. Both say new where
 * the margin is below that of nineteen of twenty labelled samples. Features are divided by their
 * deviations. */
#include "label/bench/rules.h"

#include "base/fmath.h"

#include "base/memory.h"
#include "base/rng.h"
#include "base/status.h"
#include "label/clusters.h"
#include "label/select.h"

#include <string.h>

enum { EPOCHS = 20, KEPT = 500, ROUNDS = 60, CUTS = 10 };

/* A decision: feature at or above a place speaks for one class, below it for another. */
typedef struct stump {
    int feature, above, below;
    float at, weight;
} stump;

typedef struct margins {
    bool boosts;
    int d, n_classes, n, n_kept;
    float *x; /* (n + KEPT, d) scaled: labelled ones, then pseudo-labelled ones */
    int32_t *label;
    float *mean, *scale; /* (d) */
    float *weight;       /* (n_classes, d + 1) of the support vectors */
    float *of_sample;    /* (n) weights of boosting */
    stump stumps[ROUNDS];
    int n_stumps;
    float limit;
} margins;

static void margins_destroy(const qn_allocator *allocator, void *self) {
    margins *r = self;
    if (!r)
        return;
    const size_t n = (size_t)r->n + KEPT, d = (size_t)r->d;
    qn_release(allocator, r->x, n, d * sizeof *r->x);
    qn_release(allocator, r->label, n, sizeof *r->label);
    qn_release(allocator, r->mean, 2 * d, sizeof *r->mean);
    qn_release(allocator, r->weight, (size_t)r->n_classes * (d + 1), sizeof *r->weight);
    qn_release(allocator, r->of_sample, n, sizeof *r->of_sample);
    qn_release(allocator, r, 1, sizeof *r);
}

static qn_status allocate(const qn_allocator *allocator, margins *r) {
    const size_t n = (size_t)r->n + KEPT, d = (size_t)r->d;
    QN_TRY(qn_allocate(allocator, n, d * sizeof *r->x, &r->x));
    QN_TRY(qn_allocate(allocator, n, sizeof *r->label, &r->label));
    QN_TRY(qn_allocate(allocator, 2 * d, sizeof *r->mean, &r->mean));
    QN_TRY(qn_allocate(allocator, (size_t)r->n_classes * (d + 1), sizeof *r->weight, &r->weight));
    r->scale = r->mean + d;
    return qn_allocate(allocator, n, sizeof *r->of_sample, &r->of_sample);
}

static void scale(const margins *r, const float *x, float *scaled) {
    for (int j = 0; j < r->d; j++)
        scaled[j] = (x[j] - r->mean[j]) * r->scale[j];
}

static void take_labelled(margins *r, const qn_label_known *known) {
    for (int j = 0; j < r->d; j++) {
        double sum = 0, square = 0;
        for (int i = 0; i < r->n; i++) {
            sum += (double)known->x[i * r->d + j];
            square += (double)known->x[i * r->d + j] * (double)known->x[i * r->d + j];
        }
        const double variance = square / r->n - sum / r->n * (sum / r->n);
        r->mean[j] = (float)(sum / r->n);
        r->scale[j] = variance > 1e-12 ? (float)(1.0 / __builtin_sqrt(variance)) : 1.0f;
    }
    for (int i = 0; i < r->n; i++)
        scale(r, known->x + (ptrdiff_t)i * r->d, r->x + (ptrdiff_t)i * r->d);
    memcpy(r->label, known->label, (size_t)r->n * sizeof *r->label);
}

/* ---- support vectors ---- */

static float decide(const margins *r, int class, const float *x) {
    const float *w = r->weight + (ptrdiff_t) class * (r->d + 1);
    float sum = w[r->d];
    for (int j = 0; j < r->d; j++)
        sum += w[j] * x[j];
    return sum;
}

/* One class against all others by steps along the gradient (Shalev-Shwartz et al. 2007, "Pegasos").
 */
static void learn_vectors(margins *r) {
    const int n = r->n + r->n_kept;
    const float penalty = 1e-3f;
    memset(r->weight, 0, (size_t)r->n_classes * ((size_t)r->d + 1) * sizeof *r->weight);
    for (int step = 1; step <= EPOCHS * n; step++) {
        const int i = (int)qn_rng_below(qn_rng_make(5, 1, 0), (uint64_t)step, (uint64_t)n);
        const float *x = r->x + (ptrdiff_t)i * r->d, rate = 1.0f / (penalty * (float)(step + n));
        for (int c = 0; c < r->n_classes; c++) {
            const float sign = r->label[i] == c ? 1.0f : -1.0f;
            float *w = r->weight + (ptrdiff_t)c * (r->d + 1);
            const bool is_within = sign * decide(r, c, x) < 1.0f;
            for (int j = 0; j < r->d; j++)
                w[j] += -rate * penalty * w[j] + (is_within ? rate * sign * x[j] : 0.0f);
            w[r->d] += is_within ? 0.1f * rate * sign : 0.0f;
        }
    }
}

/* ---- boosting ---- */

/* The heaviest class on each side of a cut; returns the weight that is right. */
static float weigh(const margins *r, stump *s) {
    float above[QN_RULES_CLASSES] = {0}, below[QN_RULES_CLASSES] = {0};
    for (int i = 0; i < r->n; i++)
        (r->x[i * r->d + s->feature] >= s->at ? above : below)[r->label[i]] += r->of_sample[i];
    s->above = s->below = 0;
    for (int c = 1; c < r->n_classes; c++) {
        s->above = above[c] > above[s->above] ? c : s->above;
        s->below = below[c] > below[s->below] ? c : s->below;
    }
    return above[s->above] + below[s->below];
}

static int side(const stump *s, const float *x) {
    return x[s->feature] >= s->at ? s->above : s->below;
}

/* Many classes (Zhu et al. 2009, "Multi-class AdaBoost"), with cuts at even places from -2 to 2. */
static void learn_stumps(margins *r) {
    for (int i = 0; i < r->n; i++)
        r->of_sample[i] = 1.0f / (float)r->n;
    for (r->n_stumps = 0; r->n_stumps < ROUNDS; r->n_stumps++) {
        stump best = {.weight = -1.0f};
        for (int t = 0; t < r->d * CUTS; t++) {
            stump s = {.feature = t / CUTS, .at = -2.0f + 4.0f / (CUTS - 1) * (float)(t % CUTS)};
            s.weight = weigh(r, &s);
            best = s.weight > best.weight ? s : best;
        }
        const float error = 1.0f - best.weight, others = (float)r->n_classes - 1.0f;
        best.weight = qn_ln((1.0f - error + 1e-4f) / (error + 1e-4f)) + qn_ln(others + 1e-6f);
        if (!(best.weight > 0))
            return;
        float sum = 0;
        for (int i = 0; i < r->n; i++) {
            if (side(&best, r->x + (ptrdiff_t)i * r->d) != r->label[i])
                r->of_sample[i] *= qn_exp_f32(best.weight);
            sum += r->of_sample[i];
        }
        for (int i = 0; i < r->n; i++)
            r->of_sample[i] /= sum;
        r->stumps[r->n_stumps] = best;
    }
}

/* ---- both ---- */

/* The likeliest class, and by how much it leads. */
static int judge(const margins *r, const float *x, float *margin) {
    float votes[QN_RULES_CLASSES] = {0};
    int best = 0;
    for (int k = 0; k < r->n_stumps; k++)
        votes[side(&r->stumps[k], x)] += r->stumps[k].weight;
    for (int c = 0; !r->boosts && c < r->n_classes; c++)
        votes[c] = decide(r, c, x);
    for (int c = 1; c < r->n_classes; c++)
        best = votes[c] > votes[best] ? c : best;
    float next = -3e38f;
    for (int c = 0; c < r->n_classes; c++)
        next = c != best && votes[c] > next ? votes[c] : next;
    *margin = r->boosts ? votes[best] - (r->n_classes > 1 ? next : 0.0f) : votes[best];
    return best;
}

static qn_status set_limit(const qn_allocator *allocator, margins *r) {
    float *margin;
    QN_TRY(qn_allocate(allocator, (size_t)r->n, sizeof *margin, &margin));
    for (int i = 0; i < r->n; i++)
        judge(r, r->x + (ptrdiff_t)i * r->d, &margin[i]);
    r->limit = qn_select_smallest(margin, r->n, r->n / 20);
    qn_release(allocator, margin, (size_t)r->n, sizeof *margin);
    return QN_OK;
}

static qn_status make(const qn_allocator *allocator, const qn_label_known *known, bool boosts,
                      void **self) {
    margins *r;
    QN_TRY(qn_allocate(allocator, 1, sizeof *r, &r));
    r->boosts = boosts;
    r->d = known->d;
    r->n_classes = known->n_classes;
    r->n = known->n;
    qn_status status = allocate(allocator, r);
    if (status == QN_OK) {
        take_labelled(r, known);
        if (boosts)
            learn_stumps(r);
        else
            learn_vectors(r);
        status = set_limit(allocator, r);
    }
    if (status != QN_OK) {
        margins_destroy(allocator, r);
        return status;
    }
    *self = r;
    return QN_OK;
}

static qn_status vectors_create(const qn_allocator *allocator, const qn_label_known *known,
                                void **self) {
    return make(allocator, known, false, self);
}

static qn_status boosting_create(const qn_allocator *allocator, const qn_label_known *known,
                                 void **self) {
    return make(allocator, known, true, self);
}

static int margins_add(void *self, const float *x) {
    margins *r = self;
    float scaled[QN_RULES_FEATURES], margin = 0;
    scale(r, x, scaled);
    const int class = judge(r, scaled, &margin);
    if (!r->boosts && margin > 1.0f) {
        const int at = r->n + r->n_kept++;
        memcpy(r->x + (ptrdiff_t)at * r->d, scaled, (size_t)r->d * sizeof *scaled);
        r->label[at] = class;
        if (r->n_kept == KEPT) {
            learn_vectors(r);
            r->n_kept = 0;
        }
    }
    return margin < r->limit ? -1 : class;
}

const qn_label_rule qn_rule_vectors = {"SVM pseudo-labels", vectors_create, margins_destroy,
                                       margins_add};
const qn_label_rule qn_rule_boosting = {"boosting", boosting_create, margins_destroy, margins_add};
