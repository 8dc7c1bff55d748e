/* Kernels of 16-bit floats: products and convolutions of bf16, or of f16, summed in f32.
 * Two kinds of tables: those of an instruction that multiplies pairs of bf16, and `wide`, which
 * runs the float kernels on slices of a batch that it converts, so that a whole tensor is never
 * held in f32. Which one a machine uses is measured once a process: some processors multiply bf16
 * half as fast as f32, others twice as fast.
 *
 * Shapes, steps, workspaces and teams are as in kernels.h, and so are guarantees: the bits of a
 * result depend on the table alone. Operands need no alignment. */
#ifndef QN_KERNELS_HALF_H
#define QN_KERNELS_HALF_H

#include "kernels/kernels.h"

/* Of what numbers are, and which float kernels are used where they are converted. */
typedef struct qn_halves {
    qn_dtype dtype; /* QN_BF16 or QN_F16 */
    const qn_kernels *wide;
} qn_halves;

/* Conversions by an instruction set, as tensor/number.h defines them. */
qn_half_rows qn_half_rows_of(qn_dtype dtype, qn_isa isa);

/* The same by all threads: rows (rows, c), those of 16-bit floats `step` apart. */
void qn_halves_widen(const qn_halves *how, qn_team *team, int64_t rows, int64_t c, int64_t step,
                     const uint16_t *from, float *to);
void qn_halves_narrow(const qn_halves *how, qn_team *team, int64_t rows, int64_t c, int64_t step,
                      const float *from, uint16_t *to);

/* What becomes of the sums. */
typedef struct qn_half_result {
    uint16_t *halves;  /* where they go once rounded; null: they are not */
    float *sums;       /* where they go otherwise; with the shape's `add`, added to what is there */
    const float *bias; /* an element for each of the last axis, added before rounding; or null */
    bool relu;         /* negative sums, with their bias, become 0 */
} qn_half_result;

typedef struct qn_half_kernels {
    const char *name;
    /* What the processor can do at most: rounds of so many operations on registers alone; null: no
     * instruction of its own. */
    float (*peak)(int64_t rounds);
    int64_t peak_operations;
    /* y (M, N) = op(a) op(b) */
    void (*gemm)(const qn_halves *how, qn_team *team, const qn_gemm_shape *shape, const uint16_t *a,
                 const uint16_t *b, const qn_half_result *y, void *workspace);
    size_t (*gemm_workspace)(const qn_halves *how, const qn_gemm_shape *shape, int n_threads);
    /* Of k, where `add` may go on. */
    int64_t (*gemm_chunk)(const qn_halves *how);
    /* As those of kernels.h; the filter's gradient is never rounded. */
    void (*conv2d_forward)(const qn_halves *how, qn_team *team, const qn_conv2d_shape *shape,
                           const uint16_t *x, const uint16_t *w, const qn_half_result *y,
                           void *workspace);
    void (*conv2d_backward_data)(const qn_halves *how, qn_team *team, const qn_conv2d_shape *shape,
                                 const uint16_t *dy, const uint16_t *w, const qn_half_result *dx,
                                 void *workspace);
    void (*conv2d_backward_filter)(const qn_halves *how, qn_team *team,
                                   const qn_conv2d_shape *shape, const uint16_t *x,
                                   const uint16_t *dy, const qn_half_result *dw, void *workspace);
    size_t (*conv2d_workspace)(const qn_halves *how, const qn_conv2d_shape *shape,
                               qn_conv2d_pass pass, int n_threads);
    int64_t (*conv2d_filter_chunk)(const qn_halves *how, const qn_conv2d_shape *shape);
} qn_half_kernels;

/* That of the fastest products of such numbers here. Never fails. */
const qn_half_kernels *qn_half_kernels_get(const qn_halves *how);

/* All tables that this processor can run for such numbers, `wide` first; null after the last. */
const qn_half_kernels *qn_half_kernels_row(const qn_halves *how, int i);

extern const qn_half_kernels qn_half_wide, qn_half_avx512bf16;

#endif
