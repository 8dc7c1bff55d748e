/* What becomes of a tile's sums of f32: they are added to what is there, get a bias, lose what is
 * below 0 and are rounded to bf16. Part of engine.h. */
#ifndef QN_KERNELS_HALF_ROUNDED_H
#define QN_KERNELS_HALF_ROUNDED_H

/* The bias of n columns. */
static inline vector bias_of(const product *g, int64_t first, int64_t n) {
    return g->y.bias ? load_floats(g->y.bias + first, mask_of(n)) : (vector){0};
}

/* Whole sums. */
static inline __attribute__((always_inline)) void
store_last(const product *g, vector sums, vector bias, int64_t at, lanes_mask lanes) {
    if (g->y.bias)
        sums += bias;
    if (g->y.relu)
        sums = larger_or_zero(sums);
    if (g->y.halves)
        store_rounded(g->y.halves + at, sums, lanes);
    else
        store_floats(g->y.sums + at, sums, lanes);
}

/* Numbers [at, at + n) of the result, of columns from `first` on. */
static inline __attribute__((always_inline)) void finish_row(const product *g, int64_t first,
                                                             int64_t n, const float *from,
                                                             int64_t at, bool adds, bool is_last,
                                                             sizes *largest) {
    (void)largest;
    for (int64_t j = 0; j < n; j += VL) {
        const lanes_mask lanes = mask_of(n - j);
        vector sums = *(const vector *)(from + j);
        if (adds)
            sums = load_floats(g->y.sums + at + j, lanes) + sums;
        if (is_last)
            store_last(g, sums, bias_of(g, first + j, n - j), at + j, lanes);
        else
            store_floats(g->y.sums + at + j, sums, lanes);
    }
}

/* Rows [row, row + m) of the sums, of columns from `first` on. */
static void finish_rows(const product *g, int64_t row, int64_t m, int64_t first, int64_t width,
                        const float *tile, bool adds, bool is_last, sizes *largest) {
    for (int64_t i = 0; i < m; i++)
        finish_row(g, first, width, tile + i * COLUMNS, row_of(g, row + i) + first, adds, is_last,
                   largest);
}

static void raise_largest(const outcome *y, sizes largest) {
    (void)y;
    (void)largest;
}

/* Sums, and what they are rounded to, from number `at` on, of columns from `first` on. */
static void move_outcome(outcome *y, int64_t at, int64_t first) {
    if (y->sums)
        y->sums += at;
    if (y->halves)
        y->halves += at;
    if (y->bias)
        y->bias += first;
}

static void begin_outcome(const outcome *y) {
    (void)y;
}

#endif
