/* Elementwise formulas that imported networks are written in: functions of one operand, and of two
 * or three that are broadcast to one shape. They are compiled once for each real type, for any
 * processor: the tables of all instruction sets name these. A task is a run of the result's
 * elements, done in blocks of one length, over which operands are spread where they do not lie so:
 * every formula is one loop of a known length, which becomes vector code without a rest. */
#ifndef QN_KERNELS_REF_FORMULA_H
#define QN_KERNELS_REF_FORMULA_H

#include "kernels/ref/elementwise.h"
#include "kernels/tables.h"

enum { FORMULA_BLOCK = 256 };

/* Over a block, in place or not, but never shifted; clang checks that when it runs. */
#if defined(__clang__)
#define BLOCK_LOOP for (int i = 0; i < FORMULA_BLOCK; i++)
#else
#define BLOCK_LOOP _Pragma("GCC ivdep") for (int i = 0; i < FORMULA_BLOCK; i++)
#endif

#if defined(QN_REAL_F64)
#define REAL_POW           pow
#define REAL_SIN           sin
#define REAL_COS           cos
#define REAL_ATAN          atan
#define REAL_FLOOR         floor
#define REAL_CEIL          ceil
#define REAL_ROUND         rint
#define REAL_WHOLE_ERF     qn_erf_inline_f64
#define FORMULA_NAME(name) name##_f64
#else
#define REAL_POW           powf
#define REAL_SIN           sinf
#define REAL_COS           cosf
#define REAL_ATAN          atanf
#define REAL_FLOOR         floorf
#define REAL_CEIL          ceilf
#define REAL_ROUND         rintf
#define REAL_WHOLE_ERF     qn_erf_inline_f32
#define FORMULA_NAME(name) name##_f32
#endif

/* ---- of one operand ---- */

/* The numbers of a qn_function as reals. */
typedef struct function_numbers {
    real a, b, least, most;
} function_numbers;

/* NaN stays NaN. */
static inline real clamp_to(real x, real least, real most) {
    x = x < least ? least : x;
    return x > most ? most : x;
}

/* log(1 + e^x). */
static inline real softplus(real x) {
    const real size = x < 0 ? -x : x;
    return (x < 0 ? 0 : x) + REAL_LOG1P(REAL_EXP(-size));
}

#define QN_FUNCTION_BUILDER(name, NAME)
#define QN_FUNCTION(NAME, onnx, flops, domain, numbers, value, slope)                              \
    case QN_FUNCTION_##NAME:                                                                       \
        return value;
static inline __attribute__((always_inline)) real function_of(qn_function_kind kind,
                                                              function_numbers n, real x) {
    switch (kind) {
#include "tensor/functions.def"
    case QN_FUNCTION_COUNT:
        break;
    }
    return x;
}

#undef QN_FUNCTION
#define QN_FUNCTION(NAME, onnx, flops, domain, numbers, value, slope)                              \
    case QN_FUNCTION_##NAME:                                                                       \
        return slope;
static inline __attribute__((always_inline)) real slope_of(qn_function_kind kind,
                                                           function_numbers n, real x) {
    const real line = n.a * x + n.b;
    switch (kind) {
#include "tensor/functions.def"
    case QN_FUNCTION_COUNT:
        break;
    }
    return 1;
}
#undef QN_FUNCTION

typedef struct function_context {
    qn_function function;
    int64_t n;
    const real *x, *dy; /* dy null: forwards */
    real *y;
} function_context;

/* y = f(x), or, with dy, dy f'(x), over a block. */
static void function_block(const qn_function *function, const real *x, const real *dy, real *y) {
    const function_numbers numbers = {(real)function->a, (real)function->b, (real)function->least,
                                      (real)function->most};
#define QN_FUNCTION(NAME, onnx, flops, domain, numbers_, value, slope)                             \
    case QN_FUNCTION_##NAME:                                                                       \
        if (dy) {                                                                                  \
            BLOCK_LOOP y[i] = dy[i] * slope_of(QN_FUNCTION_##NAME, numbers, x[i]);                 \
        } else {                                                                                   \
            BLOCK_LOOP y[i] = function_of(QN_FUNCTION_##NAME, numbers, x[i]);                      \
        }                                                                                          \
        break;
    switch (function->kind) {
#include "tensor/functions.def"
    case QN_FUNCTION_COUNT:
        break;
    }
#undef QN_FUNCTION
#undef QN_FUNCTION_BUILDER
}

static void function_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const function_context *f = context;
    const int64_t stop = min_int(f->n, end * ELEMENTS_PER_TASK);
    int64_t at = begin * ELEMENTS_PER_TASK;
    for (; at + FORMULA_BLOCK <= stop; at += FORMULA_BLOCK)
        function_block(&f->function, f->x + at, f->dy ? f->dy + at : NULL, f->y + at);
    if (at == stop)
        return;
    const size_t rest = (size_t)(stop - at) * sizeof(real);
    real x[FORMULA_BLOCK] = {0}, dy[FORMULA_BLOCK] = {0};
    memcpy(x, f->x + at, rest);
    if (f->dy)
        memcpy(dy, f->dy + at, rest);
    function_block(&f->function, x, f->dy ? dy : NULL, x);
    memcpy(f->y + at, x, rest);
}

static void run_function(qn_team *team, const qn_function *function, int64_t n, const real *x,
                         const real *dy, real *y) {
    function_context f = {.function = *function, .n = n, .x = x, .dy = dy, .y = y};
    qn_team_run(team, ceil_div(n, ELEMENTS_PER_TASK), function_task, &f);
}

void FORMULA_NAME(qn_function_forward)(qn_team *team, const qn_function *function, int64_t n,
                                       const void *x, void *y) {
    run_function(team, function, n, x, NULL, y);
}

void FORMULA_NAME(qn_function_backward)(qn_team *team, const qn_function *function, int64_t n,
                                        const void *x, const void *dy, void *dx) {
    run_function(team, function, n, x, dy, dx);
}

/* ---- of several operands ---- */

/* x^y log(x), which is 0 where x^y is. */
static inline real power_by_exponent(real x, real y) {
    const real power = REAL_POW(x, y);
    return power == 0 ? 0 : power * REAL_LOG(x);
}

/* Calls a loop with each rule: its kind and what it makes of a, b, c. */
#define FOR_COMBINATION(LOOP)                                                                      \
    LOOP(QN_COMBINE_ADD, a[i] + b[i])                                                              \
    LOOP(QN_COMBINE_SUBTRACT, a[i] - b[i])                                                         \
    LOOP(QN_COMBINE_MULTIPLY, a[i] * b[i])                                                         \
    LOOP(QN_COMBINE_DIVIDE, a[i] / b[i])                                                           \
    LOOP(QN_COMBINE_POWER, REAL_POW(a[i], b[i]))                                                   \
    LOOP(QN_COMBINE_LEAST, ((a[i] < b[i]) | (a[i] != a[i])) ? a[i] : b[i])                         \
    LOOP(QN_COMBINE_MOST, ((a[i] > b[i]) | (a[i] != a[i])) ? a[i] : b[i])                          \
    LOOP(QN_COMBINE_SLOPE, a[i] > 0 ? a[i] : b[i] * a[i])                                          \
    LOOP(QN_COMBINE_DIVIDE_B, -(c[i] * a[i]) / (b[i] * b[i]))                                      \
    LOOP(QN_COMBINE_POWER_A, c[i] * (b[i] * REAL_POW(a[i], b[i] - 1)))                             \
    LOOP(QN_COMBINE_POWER_B, c[i] * power_by_exponent(a[i], b[i]))                                 \
    LOOP(QN_COMBINE_IF_LESS, a[i] < b[i] ? c[i] : 0)                                               \
    LOOP(QN_COMBINE_UNLESS_LESS, a[i] < b[i] ? 0 : c[i])                                           \
    LOOP(QN_COMBINE_SLOPE_A, a[i] > 0 ? c[i] : b[i] * c[i])                                        \
    LOOP(QN_COMBINE_SLOPE_B, a[i] > 0 ? 0 : a[i] * c[i])                                           \
    LOOP(QN_COMBINE_EQUAL, a[i] == b[i])                                                           \
    LOOP(QN_COMBINE_LESS, a[i] < b[i])                                                             \
    LOOP(QN_COMBINE_WHERE, a[i] != 0 ? b[i] : c[i])

typedef struct combine_context {
    qn_combination kind;
    const qn_broadcast *shape;
    int64_t n;
    const real *in[3];
    bool is_whole[3]; /* the operand has the result's shape */
    real *y;
} combine_context;

static void combine_block(qn_combination kind, const real *a, const real *b, const real *c,
                          real *y) {
    switch (kind) {
#define LOOP(KIND, FORMULA)                                                                        \
    case KIND:                                                                                     \
        BLOCK_LOOP y[i] = FORMULA;                                                                 \
        break;
        FOR_COMBINATION(LOOP)
#undef LOOP
    case QN_COMBINE_COUNT:
        break;
    }
}

/* Where element (row, column) of the result has its operand. */
static int64_t operand_offset(const qn_broadcast *shape, int operand, int64_t row, int64_t column) {
    const int last = shape->rank - 1;
    int64_t offset = column * shape->strides[operand][last];
    for (int axis = last - 1; axis >= 0; axis--) {
        offset += row % shape->extents[axis] * shape->strides[operand][axis];
        row /= shape->extents[axis];
    }
    return offset;
}

/* An operand's n elements from element `at` of the result on: where they lie, if that is a whole
 * block, else row by row in a buffer. */
static const real *spread(const combine_context *c, int operand, int64_t at, int64_t n,
                          real buffer[FORMULA_BLOCK]) {
    const int last = c->shape->rank - 1;
    const int64_t inner = c->shape->extents[last];
    if (c->is_whole[operand] && n == FORMULA_BLOCK)
        return c->in[operand] + at;
    for (int64_t done = 0, m; done < n; done += m) {
        const int64_t row = (at + done) / inner, column = (at + done) % inner;
        const real *from = c->in[operand] + operand_offset(c->shape, operand, row, column);
        m = min_int(inner - column, n - done);
        if (c->shape->strides[operand][last] != 0)
            memcpy(buffer + done, from, (size_t)m * sizeof *from);
        for (int64_t i = 0; c->shape->strides[operand][last] == 0 && i < m; i++)
            buffer[done + i] = *from;
    }
    for (int64_t i = n; i < FORMULA_BLOCK; i++)
        buffer[i] = 0;
    return buffer;
}

static void combine_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const combine_context *c = context;
    const int64_t stop = min_int(c->n, end * ELEMENTS_PER_TASK);
    real buffers[3][FORMULA_BLOCK];
    for (int64_t at = begin * ELEMENTS_PER_TASK; at < stop; at += FORMULA_BLOCK) {
        const int64_t n = min_int(FORMULA_BLOCK, stop - at);
        const real *in[3] = {NULL, NULL, NULL};
        for (int i = 0; i < 3; i++) {
            if (c->in[i])
                in[i] = spread(c, i, at, n, buffers[i]);
        }
        combine_block(c->kind, in[0], in[1], in[2], n == FORMULA_BLOCK ? c->y + at : buffers[0]);
        if (n < FORMULA_BLOCK)
            memcpy(c->y + at, buffers[0], (size_t)n * sizeof *c->y);
    }
}

void FORMULA_NAME(qn_combine)(qn_team *team, qn_combination kind, const qn_broadcast *shape,
                              const void *a, const void *b, const void *c, void *y) {
    combine_context context = {.kind = kind, .shape = shape, .n = 1, .in = {a, b, c}, .y = y};
    for (int i = 0; i < 3; i++)
        context.is_whole[i] = context.in[i] != NULL;
    for (int axis = shape->rank - 1; axis >= 0; axis--) {
        for (int i = 0; i < 3; i++)
            context.is_whole[i] = context.is_whole[i] && shape->strides[i][axis] == context.n;
        context.n *= shape->extents[axis];
    }
    qn_team_run(team, ceil_div(context.n, ELEMENTS_PER_TASK), combine_task, &context);
}

#endif
