/* See machines.h. */
#include "label/bench/machines.h"

#include "base/fmath.h"
#include "label/bench/points.h"
#include "label/clusters.h"

#include <stddef.h>
#include <string.h>

static const float decay = 1e-3f;

static const float *sample_at(const qn_taught *t, int i) {
    return t->x + (ptrdiff_t)i * t->d;
}

/* ---- support vectors ---- */

static float ask_machine(const float *w, int d, const float *x) {
    float sum = w[d];
    for (int j = 0; j < d; j++)
        sum += w[j] * x[j];
    return sum;
}

void qn_machines_ask(const float *weight, int n_classes, int d, const float *x, float *say) {
    for (int c = 0; c < n_classes; c++)
        say[c] = ask_machine(weight + (ptrdiff_t)c * (d + 1), d, x);
}

void qn_machines_fit(const qn_taught *t, const qn_machines_options *o, float *weight) {
    const int d = t->d;
    memset(weight, 0, (size_t)t->n_classes * ((size_t)d + 1) * sizeof *weight);
    for (int step = o->begin; step < o->end; step++) {
        const int i = (int)qn_rng_below(o->rng, (uint64_t)step, (uint64_t)t->n);
        const float *x = sample_at(t, i), rate = 1.0f / (decay * ((float)step + o->warm));
        for (int c = 0; c < t->n_classes && t->label[i] >= 0; c++) {
            float *w = weight + (ptrdiff_t)c * (d + 1);
            const float side = t->label[i] == c ? 1.0f : -1.0f;
            const bool is_within = side * ask_machine(w, d, x) < 1;
            for (int j = 0; j < d; j++)
                w[j] += -rate * decay * w[j] + (is_within ? rate * side * x[j] : 0.0f);
            w[d] += (o->decays_bias ? -rate * decay * w[d] : 0.0f) +
                    (is_within ? o->bias * rate * side : 0.0f);
        }
    }
}

/* ---- boosting ---- */

static int answer_stump(const qn_stump *s, const float *x) {
    return x[s->feature] > s->limit ? s->above : s->below;
}

/* Gives each answer the class that weighs most there; returns the weight that is right.
 * sums (2, n_classes) */
static float answer_best(const qn_taught *t, const float *weight, float *sums, qn_stump *s) {
    float *above = sums + t->n_classes;
    memset(sums, 0, 2 * (size_t)t->n_classes * sizeof *sums);
    for (int i = 0; i < t->n; i++)
        (sample_at(t, i)[s->feature] > s->limit ? above : sums)[t->label[i]] += weight[i];
    s->below = qn_largest(sums, t->n_classes);
    s->above = qn_largest(above, t->n_classes);
    return sums[s->below] + above[s->above];
}

static qn_stump draw_stump(const qn_taught *t, qn_rng rng, int k) {
    const int feature = (int)qn_rng_below(rng, 2 * (uint64_t)k, (uint64_t)t->d);
    const int at = (int)qn_rng_below(rng, 2 * (uint64_t)k + 1, (uint64_t)t->n);
    return (qn_stump){.feature = feature, .limit = sample_at(t, at)[feature]};
}

/* The question whose best answers are right by most weight; *right: that weight. */
static qn_stump find_stump(const qn_taught *t, const qn_stumps_options *o, int round,
                           const float *weight, float *sums, float *right) {
    const qn_rng rng = qn_rng_make(o->seed, qn_hash_text("label.stumps"), (uint64_t)round);
    const int n = o->n_even > 0 ? t->d * o->n_even : o->n_drawn;
    qn_stump best = {.feature = 0};
    *right = -1;
    for (int k = 0; k < n; k++) {
        qn_stump s = {.feature = k / (o->n_even > 0 ? o->n_even : 1)};
        if (o->n_even > 0)
            s.limit = -2.0f + 4.0f / (float)(o->n_even - 1) * (float)(k % o->n_even);
        else
            s = draw_stump(t, rng, k);
        const float it_is_right = answer_best(t, weight, sums, &s);
        best = it_is_right > *right ? s : best;
        *right = it_is_right > *right ? it_is_right : *right;
    }
    return best;
}

void qn_stumps_fit(const qn_taught *t, const qn_stumps_options *o, int n, qn_stump *stumps,
                   float *weight, float *sums) {
    const float others = (float)t->n_classes - 1;
    for (int i = 0; i < t->n; i++)
        weight[i] = 1.0f / (float)t->n;
    for (int round = 0; round < n; round++) {
        float right, sum = 0;
        qn_stump *s = &stumps[round];
        *s = find_stump(t, o, round, weight, sums, &right);
        const float wrong = 1 - right > 0 ? 1 - right : 0;
        s->say = qn_ln((right + o->slack) / (wrong + o->slack)) + qn_ln(others + 1e-6f);
        s->say = s->say > 0 ? s->say : 0;
        for (int i = 0; i < t->n; i++) {
            if (answer_stump(s, sample_at(t, i)) != t->label[i])
                weight[i] *= qn_exp_f32(s->say);
            sum += weight[i];
        }
        for (int i = 0; i < t->n; i++)
            weight[i] /= sum;
    }
}

void qn_stumps_ask(const qn_stump *stumps, int n, int n_classes, const float *x, float *say) {
    memset(say, 0, (size_t)n_classes * sizeof *say);
    for (int k = 0; k < n; k++)
        say[answer_stump(&stumps[k], x)] += stumps[k].say;
}
