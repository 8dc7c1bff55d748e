/* Kernels of whole numbers: products and convolutions of int8 by int8. Sums are int32 and exact as
 * long as they fit, which up to 131,071 products always do (of more only where most operands are at
 * the ends of their range); what does not fit wraps around. So the order of a sum does not matter:
 * all tables, threads and pieces of a sum give the same bits.
 *
 * Shapes, steps, workspaces and teams are as in kernels.h. Operands need no alignment. */
#ifndef QN_KERNELS_INTEGER_H
#define QN_KERNELS_INTEGER_H

#include "kernels/kernels.h"

/* Division of a whole number by a power of two: rounded to the nearest, of two the one that is
 * farther from 0, or up or down as the low half of the bits that are cut off says of the high half
 * (Wang, Rasoulinezhad, Leong and So, "NITI", 2020, section 4.3); then cut to -127..127. */
typedef struct qn_shift {
    int bits; /* of the divisor, 0 to 31 */
    bool is_pseudo;
} qn_shift;

/* What becomes of the sums. */
typedef struct qn_integer_result {
    int32_t *sums;       /* where they go; with the shape's `add`, what is there is added to them */
    const int32_t *bias; /* an element for each of the last axis, added to the sums; null: none */
    bool relu;           /* negative sums, with their bias, become 0 */
    uint32_t *largest;   /* the largest absolute value of all of them goes there; null: nowhere */
    /* Where they go once shifted, steps and places as of `sums`, which is then scratch, needed by
     * the shapes of gemm_keeps and conv2d_keeps only; without `add`. Null: they are not shifted. */
    int8_t *shifted;
    qn_shift shift;
} qn_integer_result;

/* What is done to n numbers that lie together; callers share tensors out. */
typedef struct qn_integer_rows {
    void (*shift)(int64_t n, const int32_t *x, qn_shift shift, int8_t *y);
    uint32_t (*largest)(int64_t n, const int32_t *x);
    /* y = x * factor, a power of two: to the nearest, of two the one that is farther from 0, cut to
     * -127..127; a NaN is 0. */
    void (*round_away)(int64_t n, const float *x, float factor, int8_t *y);
    /* y = x / scale + zero, to the nearest, of two the even one, cut to least..most; y is int8 or,
     * where least is 0, uint8. */
    void (*round_even)(int64_t n, const float *x, float scale, float zero, float least, float most,
                       void *y);
    void (*widen)(int64_t n, const int8_t *x, double factor, float *y); /* y = x * factor */
    /* The least and the largest number, 0 among them; NaNs are passed over. */
    void (*range)(int64_t n, const float *x, float *least, float *most);
    /* Conversions, as tensor/number.h defines them. */
    void (*to_bf16)(int64_t n, const float *x, uint16_t *y);
    void (*of_bf16)(int64_t n, const uint16_t *x, float *y);
    void (*to_f16)(int64_t n, const float *x, uint16_t *y);
    void (*of_f16)(int64_t n, const uint16_t *x, float *y);
    void (*relu)(int64_t n, const int8_t *x, int8_t *y);
    /* dx = dy where y > 0, else 0. */
    void (*relu_backward)(int64_t n, const int8_t *y, const int8_t *dy, int8_t *dx);
    void (*step)(int64_t n, const int8_t *gradient, int8_t *w); /* w - gradient in -127..127 */
    /* Of n <= 65536 rows (n, c), for each column: the sum of d and of d * x. */
    void (*norm_sums)(int64_t n, int64_t c, const int8_t *x, const int8_t *d, int32_t *sums,
                      int32_t *products);
    void (*norm_ends)(int64_t n, int64_t c, const int8_t *x, int8_t *least, int8_t *most);
    /* Of rows x and d: x * lines[0] + d * lines[1] + lines[2], lines (3, c), or without d what that
     * is without it: the largest magnitude, passing over NaNs; and rounded as by round_away. */
    float (*norm_largest)(int64_t n, int64_t c, const int8_t *x, const int8_t *d,
                          const float *lines);
    void (*norm_apply)(int64_t n, int64_t c, const int8_t *x, const int8_t *d, const float *lines,
                       int8_t *y);
} qn_integer_rows;

typedef struct qn_integer_kernels {
    const char *name;
    qn_isa isa;
    /* What the processor can do at most: rounds of so many operations (a multiply-add is two) on
     * registers alone; null: not measured. */
    int32_t (*peak)(int64_t rounds);
    int64_t peak_operations;
    /* y (M, N) = op(a) op(b) */
    void (*gemm)(qn_team *team, const qn_gemm_shape *shape, const int8_t *a, const int8_t *b,
                 const qn_integer_result *y, void *workspace);
    size_t (*gemm_workspace)(const qn_gemm_shape *shape, int n_threads);
    /* y (N,P,Q,K) = x (N,H,W,C) * w (K,R,S,C/groups). y and, below, dy have a step. */
    void (*conv2d_forward)(qn_team *team, const qn_conv2d_shape *shape, const int8_t *x,
                           const int8_t *w, const qn_integer_result *y, void *workspace);
    /* dx (N,H,W,C) from dy (N,P,Q,K) and w. */
    void (*conv2d_backward_data)(qn_team *team, const qn_conv2d_shape *shape, const int8_t *dy,
                                 const int8_t *w, const qn_integer_result *dx, void *workspace);
    /* dw (K,R,S,C/groups) from x and dy. */
    void (*conv2d_backward_filter)(qn_team *team, const qn_conv2d_shape *shape, const int8_t *x,
                                   const int8_t *dy, const qn_integer_result *dw, void *workspace);
    size_t (*conv2d_workspace)(const qn_conv2d_shape *shape, qn_conv2d_pass pass, int n_threads);
    /* The first largest of each window and its number in the window, as in kernels.h, of
     * x (N,H,W,C); y and dy have a step. dx is the sum of the dy it is passed, cut to -127..127. */
    void (*max_pool)(qn_team *team, const qn_conv2d_shape *shape, const int8_t *x, int8_t *y,
                     uint16_t *index);
    void (*max_pool_backward)(qn_team *team, const qn_conv2d_shape *shape, const int8_t *dy,
                              const uint16_t *index, int8_t *dx);
    /* Whether sums are made in parts and need a place of their own though they are shifted. */
    bool (*gemm_keeps)(const qn_gemm_shape *shape);
    bool (*conv2d_keeps)(const qn_conv2d_shape *shape, qn_conv2d_pass pass);
    qn_integer_rows rows;
} qn_integer_kernels;

/* The fastest table of this processor among those of an instruction set. Never fails. */
const qn_integer_kernels *qn_integer_kernels_get(qn_isa isa);

/* All tables that this processor can run, the reference first; null after the last one. */
const qn_integer_kernels *qn_integer_kernels_row(int i);

#endif
