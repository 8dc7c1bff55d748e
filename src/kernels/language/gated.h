/* Gated products: y = f(gate) * up. */
#ifndef QN_KERNELS_LANGUAGE_GATED_H
#define QN_KERNELS_LANGUAGE_GATED_H

#include "kernels/language/tasks.h"

typedef struct gated_context {
    qn_gate kind;
    int64_t n;
    const real *gate, *up, *dy;
    real *y, *dgate, *dup;
} gated_context;

/* f and its derivative. */
static inline real gate_of(qn_gate kind, real x, real *slope) {
    if (kind == QN_GATE_SILU) {
        const real s = 1 / (1 + REAL_EXP(-x));
        *slope = s * (1 + x * (1 - s));
        return x * s;
    }
    const real k = (real)0.79788456080286535588, c = (real)0.044715, square = x * x;
    const real t = REAL_TANH(k * x * (1 + c * square)), half = (real)0.5;
    *slope = half * (1 + t) + half * x * (1 - t * t) * (k * (1 + 3 * c * square));
    return half * x * (1 + t);
}

/* One loop a kind, so that each is vector code. */
#define GATE_LOOPS(BODY)                                                                           \
    if (g->kind == QN_GATE_SILU) {                                                                 \
        for (int64_t i = first; i < last; i++) {                                                   \
            BODY(QN_GATE_SILU);                                                                    \
        }                                                                                          \
    } else {                                                                                       \
        for (int64_t i = first; i < last; i++) {                                                   \
            BODY(QN_GATE_GELU);                                                                    \
        }                                                                                          \
    }

static void gated_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const gated_context *g = context;
    const int64_t first = begin * ELEMENTS_PER_TASK, last = min_int(g->n, end * ELEMENTS_PER_TASK);
    const real *gate = g->gate, *up = g->up;
    real *y = g->y, slope;
#define WITH_UP(KIND)    y[i] = gate_of(KIND, gate[i], &slope) * up[i]
#define WITHOUT_UP(KIND) y[i] = gate_of(KIND, gate[i], &slope)
    if (up) {
        GATE_LOOPS(WITH_UP)
    } else {
        GATE_LOOPS(WITHOUT_UP)
    }
#undef WITH_UP
#undef WITHOUT_UP
}

static void gated_forward(qn_team *team, qn_gate kind, int64_t n, const void *gate, const void *up,
                          void *y) {
    gated_context g = {.kind = kind, .n = n, .gate = gate, .up = up, .y = y};
    qn_team_run(team, ceil_div(n, ELEMENTS_PER_TASK), gated_task, &g);
}

static void gated_backward_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const gated_context *g = context;
    const int64_t first = begin * ELEMENTS_PER_TASK, last = min_int(g->n, end * ELEMENTS_PER_TASK);
    const real *gate = g->gate, *up = g->up, *dy = g->dy;
    real *dgate = g->dgate, *dup = g->dup;
#define WITH_UP(KIND)                                                                              \
    real slope;                                                                                    \
    const real f = gate_of(KIND, gate[i], &slope), d = dy[i];                                      \
    dgate[i] = d * up[i] * slope;                                                                  \
    dup[i] = d * f
#define WITHOUT_UP(KIND)                                                                           \
    real slope;                                                                                    \
    gate_of(KIND, gate[i], &slope);                                                                \
    dgate[i] = dy[i] * slope
    if (up) {
        GATE_LOOPS(WITH_UP)
    } else {
        GATE_LOOPS(WITHOUT_UP)
    }
#undef WITH_UP
#undef WITHOUT_UP
}

static void gated_backward(qn_team *team, qn_gate kind, int64_t n, const void *gate, const void *up,
                           const void *dy, void *dgate, void *dup) {
    gated_context g = {
        .kind = kind, .n = n, .gate = gate, .up = up, .dy = dy, .dgate = dgate, .dup = dup};
    qn_team_run(team, ceil_div(n, ELEMENTS_PER_TASK), gated_backward_task, &g);
}

#endif
