/* See choose.h. */
#include "tasks/language/choose.h"

#include "base/fmath.h"

#include <math.h>
#include <stdlib.h>

/* The likeliest first; of equally likely ones the smaller number. */
static int compare(const void *left, const void *right) {
    const qn_candidate *a = left, *b = right;
    if (a->logit != b->logit)
        return a->logit > b->logit ? -1 : 1;
    return a->token < b->token ? -1 : a->token > b->token;
}

/* Once for each token, however often it was there: those that are done are marked by the sign of
 * their number. */
static void punish(double penalty, const int32_t *before, size_t n_before, int64_t n,
                   qn_candidate *candidates) {
    for (size_t i = 0; i < n_before; i++) {
        qn_candidate *c = before[i] >= 0 && before[i] < n ? &candidates[before[i]] : NULL;
        if (!c || c->token < 0)
            continue;
        c->logit = (float)(c->logit > 0 ? (double)c->logit / penalty : (double)c->logit * penalty);
        c->token = -1 - c->token;
    }
    for (int64_t i = 0; i < n; i++)
        candidates[i].token = (int32_t)i;
}

/* Of sorted candidates: how many together reach the part of the sum of all. */
static int64_t count_likely(const qn_choosing *how, const qn_candidate *candidates, int64_t n) {
    double sum = 0, at = 0;
    if (!(how->top_p > 0 && how->top_p < 1))
        return n;
    for (int64_t i = 0; i < n; i++)
        sum += qn_exp_f64((double)(candidates[i].logit - candidates[0].logit) / how->temperature);
    for (int64_t i = 0; i < n; i++) {
        at += qn_exp_f64((double)(candidates[i].logit - candidates[0].logit) / how->temperature);
        if (at >= how->top_p * sum)
            return i + 1;
    }
    return n;
}

static int32_t draw(const qn_choosing *how, const qn_candidate *candidates, int64_t n,
                    double uniform) {
    double sum = 0, at = 0;
    for (int64_t i = 0; i < n; i++)
        sum += qn_exp_f64((double)(candidates[i].logit - candidates[0].logit) / how->temperature);
    for (int64_t i = 0; i < n; i++) {
        at += qn_exp_f64((double)(candidates[i].logit - candidates[0].logit) / how->temperature);
        if (at > uniform * sum)
            return candidates[i].token;
    }
    return candidates[n - 1].token;
}

int32_t qn_choose_token(const qn_choosing *how, const float *logits, int64_t n,
                        const int32_t *before, size_t n_before, double uniform,
                        qn_candidate *candidates) {
    for (int64_t i = 0; i < n; i++)
        candidates[i] = (qn_candidate){logits[i], (int32_t)i};
    if (how->penalty > 0 && how->penalty != 1)
        punish(how->penalty, before, n_before, n, candidates);
    if (how->temperature <= 0) {
        const qn_candidate *best = candidates;
        for (int64_t i = 1; i < n; i++)
            best = candidates[i].logit > best->logit ? &candidates[i] : best;
        return best->token;
    }
    qsort(candidates, (size_t)n, sizeof *candidates, compare);
    if (how->top_k > 0 && how->top_k < n)
        n = how->top_k;
    return draw(how, candidates, count_likely(how, candidates, n), uniform);
}
