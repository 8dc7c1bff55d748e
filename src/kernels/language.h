/* Kernels of language models, in a table of their own (kernels.h has what all of them guarantee):
 * one source, in language/, compiled for each real type and instruction set. Products are those of
 * the float table that they are called with, of the same type and set. */
#ifndef QN_KERNELS_LANGUAGE_H
#define QN_KERNELS_LANGUAGE_H

#include "kernels/blocks.h"
#include "kernels/kernels.h"

/* Forward: y (N, T, H, D) and log_sums (N, T, H), of query (N, T, H, D), key and value (N, U, G, D)
 * and the ends of the ranges of keys (N, T), which may be null (ops/language.h). Backward: dquery,
 * dkey and dvalue, from all of these and dy. */
typedef struct qn_causal_operands {
    const void *query, *key, *value;
    const int32_t *first, *last;
    void *y, *log_sums;
    const void *dy;
    void *dquery, *dkey, *dvalue;
} qn_causal_operands;

/* losses (N) of x (N, C) with a table (V, C) and labels (N), and, if so, the slopes of each loss to
 * its row of x (N, C). A negative label makes 0, and one beyond the table NaN. */
typedef struct qn_sliced_operands {
    int64_t n;
    double soft_cap; /* of the logits; 0: none */
    bool makes_slopes;
    const void *x;
    qn_block_matrix table;
    const int32_t *labels;
    void *losses, *slopes;
} qn_sliced_operands;

typedef struct qn_language_kernels {
    /* As qn_blocks_widen, of n blocks. */
    void (*widen)(qn_blocks blocks, const void *array, int64_t n, float *to);

    /* y = x * factor * (scale (C) + offset) for rows of x (rows, C), where factor is
     * 1 / sqrt(mean of x^2 + epsilon); scale null: 1. y may be in place of x, dx of dy. */
    void (*rms_norm_forward)(qn_team *team, int64_t rows, int64_t c, const void *x,
                             const void *scale, double offset, double epsilon, void *y);
    void (*rms_norm_backward)(qn_team *team, int64_t rows, int64_t c, const void *x, const void *dy,
                              const void *scale, double offset, double epsilon, void *dx);

    /* y (rows, H, D): numbers of x turned in pairs by the angles in row positions[row], clamped,
     * or, null, row % t of the tables (table_rows, R / 2); may be in place. */
    void (*rotary)(qn_team *team, const qn_rotary_shape *shape, const void *x, const void *cosines,
                   const void *sines, const int32_t *positions, void *y);

    /* y = f(gate) * up, n elements; up null: f(gate), and there is no dup. All may be in place. */
    void (*gated_forward)(qn_team *team, qn_gate kind, int64_t n, const void *gate, const void *up,
                          void *y);
    void (*gated_backward)(qn_team *team, qn_gate kind, int64_t n, const void *gate, const void *up,
                           const void *dy, void *dgate, void *dup);

    void (*causal_attention_forward)(const qn_kernels *kernels, qn_team *team,
                                     const qn_causal_shape *shape,
                                     const qn_causal_operands *operands, void *workspace);
    void (*causal_attention_backward)(const qn_kernels *kernels, qn_team *team,
                                      const qn_causal_shape *shape,
                                      const qn_causal_operands *operands, void *workspace);
    size_t (*causal_attention_workspace)(const qn_kernels *kernels, const qn_causal_shape *shape,
                                         bool is_backward, int n_threads);

    /* The workspace by what is no pointer. */
    void (*sliced_cross_entropy)(const qn_kernels *kernels, qn_team *team,
                                 const qn_sliced_operands *operands, void *workspace);
    size_t (*sliced_cross_entropy_workspace)(const qn_kernels *kernels,
                                             const qn_sliced_operands *operands, int n_threads);
} qn_language_kernels;

/* Of a float table's real type and set. */
const qn_language_kernels *qn_language_kernels_get(const qn_kernels *kernels);

/* The tables; only those of the processor family that is built for exist. */
extern const qn_language_kernels qn_language_ref_f32, qn_language_ref_f64, qn_language_avx2,
    qn_language_avx512, qn_language_neon;

#endif
