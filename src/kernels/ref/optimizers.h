/* Optimiser steps, elementwise over parameters. */
#ifndef QN_KERNELS_REF_OPTIMIZERS_H
#define QN_KERNELS_REF_OPTIMIZERS_H

#include "kernels/ref/elementwise.h"

typedef struct optimizer_context {
    int64_t n;
    const real *hyper, *gradient;
    real factor; /* of the gradient: clipping times hyper's */
    bool nesterov, decoupled;
    real *w, *m, *v;
} optimizer_context;

static void sgd_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const optimizer_context *o = context;
    const real *restrict gradient = o->gradient, factor = o->factor;
    const real rate = o->hyper[QN_HYPER_RATE], momentum = o->hyper[QN_HYPER_MOMENTUM];
    const real decay = o->hyper[QN_HYPER_DECAY];
    real *restrict w = o->w, *restrict m = o->m;
    if (!m) {
        ELEMENT_LOOP(o, i)
        w[i] -= rate * (gradient[i] * factor + decay * w[i]);
        return;
    }
    const real now = o->nesterov ? 1 : 0, history = o->nesterov ? momentum : 1;
    ELEMENT_LOOP(o, i) {
        real g = gradient[i] * factor + decay * w[i];
        m[i] = momentum * m[i] + g;
        w[i] -= rate * (now * g + history * m[i]);
    }
}

static void sgd(qn_team *team, int64_t n, const void *hyper, bool nesterov, const void *factor,
                const void *gradient, void *w, void *m) {
    const real *numbers = hyper;
    real clip = factor ? *(const real *)factor : 1;
    optimizer_context o = {.n = n,
                           .hyper = hyper,
                           .gradient = gradient,
                           .factor = clip * numbers[QN_HYPER_GRADIENT],
                           .nesterov = nesterov,
                           .w = w,
                           .m = m};
    qn_team_run(team, ceil_div(n, ELEMENTS_PER_TASK), sgd_task, &o);
}

static void adam_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const optimizer_context *o = context;
    const real *restrict gradient = o->gradient, factor = o->factor;
    const real rate = o->hyper[QN_HYPER_RATE], decay = o->hyper[QN_HYPER_DECAY];
    const real beta1 = o->hyper[QN_HYPER_BETA1], beta2 = o->hyper[QN_HYPER_BETA2];
    const real epsilon = o->hyper[QN_HYPER_EPSILON];
    const real step = rate / o->hyper[QN_HYPER_CORRECTION1];
    const real spread = 1 / REAL_SQRT(o->hyper[QN_HYPER_CORRECTION2]);
    const real shrink = o->decoupled ? rate * decay : 0, coupled = o->decoupled ? 0 : decay;
    real *restrict w = o->w, *restrict m = o->m, *restrict v = o->v;
    ELEMENT_LOOP(o, i) {
        real g = gradient[i] * factor + coupled * w[i];
        m[i] = beta1 * m[i] + (1 - beta1) * g;
        v[i] = beta2 * v[i] + (1 - beta2) * g * g;
        w[i] = w[i] - shrink * w[i] - step * m[i] / (REAL_SQRT(v[i]) * spread + epsilon);
    }
}

static void adam(qn_team *team, int64_t n, const void *hyper, bool decoupled, const void *factor,
                 const void *gradient, void *w, void *m, void *v) {
    const real *numbers = hyper;
    real clip = factor ? *(const real *)factor : 1;
    optimizer_context o = {.n = n,
                           .hyper = hyper,
                           .gradient = gradient,
                           .factor = clip * numbers[QN_HYPER_GRADIENT],
                           .decoupled = decoupled,
                           .w = w,
                           .m = m,
                           .v = v};
    qn_team_run(team, ceil_div(n, ELEMENTS_PER_TASK), adam_task, &o);
}

#endif
