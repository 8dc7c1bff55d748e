/* Rules with a margin: linear support vectors with pseudo-labels, and boosting. Both say new where
 * the margin is below that of nineteen of twenty labelled samples. Features are divided by their
 * deviations. */
#include "label/bench/machines.h"
#include "label/bench/points.h"
#include "label/bench/rules.h"

#include "base/memory.h"
#include "base/status.h"
#include "label/select.h"

#include <string.h>

enum { EPOCHS = 20, KEPT = 500, ROUNDS = 60, CUTS = 10 };

typedef struct margins {
    bool boosts;
    int d, n_classes, n, n_kept;
    float *x; /* (n + KEPT, d) scaled: labelled ones, then pseudo-labelled ones */
    int32_t *label;
    float *mean, *scale; /* (d) */
    float *weight;       /* (n_classes, d + 1) of the support vectors */
    float *of_sample;    /* (n) weights of boosting */
    qn_stump stumps[ROUNDS];
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

static void learn(margins *r) {
    const qn_taught taught = {r->n + r->n_kept, r->d, r->n_classes, r->x, r->label};
    if (r->boosts) {
        float sums[2 * QN_RULES_CLASSES];
        const qn_stumps_options options = {.n_even = CUTS, .slack = 1e-4f};
        qn_stumps_fit(&taught, &options, ROUNDS, r->stumps, r->of_sample, sums);
    } else {
        const qn_machines_options options = {.rng = qn_rng_make(5, 1, 0),
                                             .begin = 1,
                                             .end = 1 + EPOCHS * taught.n,
                                             .warm = (float)taught.n,
                                             .bias = 0.1f};
        qn_machines_fit(&taught, &options, r->weight);
    }
}

/* The likeliest class, and by how much it leads. */
static int judge(const margins *r, const float *x, float *margin) {
    float votes[QN_RULES_CLASSES];
    if (r->boosts)
        qn_stumps_ask(r->stumps, ROUNDS, r->n_classes, x, votes);
    else
        qn_machines_ask(r->weight, r->n_classes, r->d, x, votes);
    const int best = qn_largest(votes, r->n_classes);
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
        learn(r);
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
            learn(r);
            r->n_kept = 0;
        }
    }
    return margin < r->limit ? -1 : class;
}

const qn_label_rule qn_rule_vectors = {"SVM pseudo-labels", vectors_create, margins_destroy,
                                       margins_add};
const qn_label_rule qn_rule_boosting = {"boosting", boosting_create, margins_destroy, margins_add};
