/* What becomes of a tile's whole sums: they are added to what is there, get a bias, lose what is
 * below 0, are shifted to int8 and looked through for the largest. Part of engine.h. */
#ifndef QN_KERNELS_INTEGER_SHIFTED_H
#define QN_KERNELS_INTEGER_SHIFTED_H

typedef int8_t bytes __attribute__((vector_size(VL)));

/* Wraps, as the sums of more products than int32 holds do. */
static vector add(vector a, vector b) {
    return (vector)((sizes)a + (sizes)b);
}

/* rows_shift of a vector. */
static inline vector shift_sums(qn_shift by, vector sums) {
    const vector sign = sums >> 31;
    const sizes size = (sizes)((sums ^ sign) - sign);
    sizes cut;
    if (by.is_pseudo) {
        const int low_bits = by.bits >> 1;
        const sizes rest = size & ((UINT32_C(1) << by.bits) - 1);
        const sizes low = (rest & ((UINT32_C(1) << low_bits) - 1)) << (by.bits & 1);
        cut = (size >> by.bits) - (sizes)(rest >> low_bits > low);
    } else {
        cut = (size + (by.bits > 0 ? UINT32_C(1) << (by.bits - 1) : 0)) >> by.bits;
    }
    const sizes fits = (sizes)(cut < 127);
    const vector bounded = (vector)((cut & fits) | (~fits & 127));
    return (bounded ^ sign) - sign;
}

/* 0, 1, 2, ... */
#if VL == 4
#define LANES ((vector){0, 1, 2, 3})
#elif VL == 8
#define LANES ((vector){0, 1, 2, 3, 4, 5, 6, 7})
#else
#define LANES ((vector){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
#endif

static inline void store_shifted(const qn_integer_result *y, vector sums, int64_t at, int64_t n) {
    const bytes small = __builtin_convertvector(shift_sums(y->shift, sums), bytes);
    copy_few(least(VL, n), &small, y->shifted + at);
}

/* Numbers [at, at + n) of the result, of columns from `first` on; *largest goes on from there. A
 * whole vector is read of `from`, wherever a row ends. */
static void finish_row(const product *g, int64_t first, int64_t n, const int32_t *from, int64_t at,
                       bool adds, bool is_last, sizes *largest) {
    const int32_t *bias = is_last && g->y.bias ? g->y.bias + first : NULL;
    const bool relu = is_last && g->y.relu, shifts = is_last && g->y.shifted;
    for (int64_t j = 0; j < n; j += VL) {
        int32_t *to = g->y.sums ? g->y.sums + at + j : NULL;
        const bool is_whole = n - j >= VL;
        const int64_t n_bytes = least(VL, n - j) * (int64_t)sizeof *to;
        vector sums = *(const vector *)(from + j), more = {0};
        if (adds && is_whole)
            sums = add(sums, *(const vector *)to);
        else if (adds) {
            copy_few(n_bytes, to, &more);
            sums = add(sums, more);
        }
        if (bias) {
            more = (vector){0};
            copy_few(n_bytes, bias + j, &more);
            sums = add(sums, more);
        }
        if (relu)
            sums &= ~(sums >> 31);
        if (!is_whole) {
            const vector lanes = (vector){0} + (int32_t)(n - j);
            sums &= LANES < lanes;
        }
        if (shifts)
            store_shifted(&g->y, sums, at + j, n - j);
        else if (is_whole)
            *(vector *)to = sums;
        else
            copy_few(n_bytes, &sums, to);
        if (!is_last)
            continue;
        const sizes size = (sizes)((sums ^ (sums >> 31)) - (sums >> 31));
        const sizes is_more = (sizes)(size > *largest);
        *largest = (size & is_more) | (*largest & ~is_more);
    }
}

/* What most tiles need, without a branch in their rows. What is shifted is of at most FEW
 * products. */
typedef enum finish {
    FINISH_OTHER,
    FINISH_FIRST, /* a part of the sums, or a further one, to which the last one is added */
    FINISH_FURTHER,
    FINISH_LAST,
    FINISH_SUMS, /* all of them at once */
    FINISH_AWAY,
    FINISH_RELU, /* and away */
    FINISH_PSEUDO,
} finish;

enum { FEW = 32768 };

static finish finish_of(const product *g, int64_t width, bool adds, bool is_last) {
    const bool is_whole = width == COLUMNS || width == VL;
    if (!is_last)
        return !is_whole ? FINISH_OTHER : adds ? FINISH_FURTHER : FINISH_FIRST;
    if (g->y.bias)
        return FINISH_OTHER;
    if (!g->y.shifted)
        return g->y.relu || (adds && !is_whole) ? FINISH_OTHER : adds ? FINISH_LAST : FINISH_SUMS;
    if (adds || g->k > FEW || (g->y.relu && g->y.shift.is_pseudo))
        return FINISH_OTHER;
    return g->y.shift.is_pseudo ? FINISH_PSEUDO : g->y.relu ? FINISH_RELU : FINISH_AWAY;
}

/* A row of n columns. So few products leave room for a half: rounding away from 0 is rounding down
 * of what is a half more, or of a negative number a half less one. */
static inline __attribute__((always_inline)) void
finish_columns(int n, finish how, qn_shift by, const int32_t *restrict from,
               uint32_t *restrict largest, int32_t *restrict sums, int8_t *restrict shifted) {
    const int32_t half = by.bits > 0 ? INT32_C(1) << (by.bits - 1) : 0, one = by.bits > 0;
    const uint32_t below = (UINT32_C(1) << by.bits) - 1;
    for (int j = 0; j < n; j++) {
        const bool is_sum = how <= FINISH_SUMS, adds = how == FINISH_FURTHER || how == FINISH_LAST;
        const int32_t sum = adds ? (int32_t)((uint32_t)sums[j] + (uint32_t)from[j]) : from[j];
        const int32_t x = how == FINISH_RELU && sum < 0 ? 0 : sum;
        const uint32_t size = magnitude(x);
        if (how >= FINISH_LAST)
            largest[j] = size > largest[j] ? size : largest[j];
        if (is_sum) {
            sums[j] = x;
        } else if (how == FINISH_PSEUDO) {
            shifted[j] = with_sign(shift_pseudo(size, by.bits, below, by.bits >> 1), x);
        } else {
            const int32_t r = (x + half - (x < 0 ? one : 0)) >> by.bits;
            const int32_t above = r < -127 ? -127 : r;
            shifted[j] = (int8_t)(above > 127 ? 127 : above);
        }
    }
}

/* Rows of a tile; narrow ones by way of a row of their own. */
static inline __attribute__((always_inline)) void finish_tile(const product *g, finish how,
                                                              int64_t row, int64_t m, int64_t first,
                                                              int64_t width, const int32_t *tile,
                                                              uint32_t *largest) {
    for (int64_t i = 0; i < m; i++) {
        const int64_t at = row_of(g, row + i) + first;
        int32_t sums[COLUMNS];
        int8_t shifted[COLUMNS];
        const bool is_whole = width == COLUMNS || width == VL;
        int32_t *to = is_whole && how <= FINISH_SUMS ? g->y.sums + at : sums;
        int8_t *small = is_whole && how > FINISH_SUMS ? g->y.shifted + at : shifted;
        if (width > VL)
            finish_columns(COLUMNS, how, g->y.shift, tile + i * COLUMNS, largest, to, small);
        else
            finish_columns(VL, how, g->y.shift, tile + i * COLUMNS, largest, to, small);
        if (!is_whole && how <= FINISH_SUMS)
            copy_few(width * (int64_t)sizeof *to, sums, g->y.sums + at);
        else if (!is_whole)
            copy_few(width, shifted, g->y.shifted + at);
    }
}

/* Rows [row, row + m) of the sums, of columns from `first` on. */
static inline __attribute__((always_inline)) void
finish_rows(const product *g, int64_t row, int64_t m, int64_t first, int64_t width,
            const total *tile, bool adds, bool is_last, sizes *largest) {
    uint32_t *all = (uint32_t *)(void *)largest;
    switch (finish_of(g, width, adds, is_last)) {
#define FINISH(how)                                                                                \
    case how:                                                                                      \
        finish_tile(g, how, row, m, first, width, tile, all);                                      \
        return;
        FINISH(FINISH_FIRST)
        FINISH(FINISH_FURTHER)
        FINISH(FINISH_LAST)
        FINISH(FINISH_SUMS)
        FINISH(FINISH_AWAY)
        FINISH(FINISH_RELU)
        FINISH(FINISH_PSEUDO)
#undef FINISH
    case FINISH_OTHER:
        break;
    }
    for (int64_t i = 0; i < m; i++)
        finish_row(g, first, width, tile + i * COLUMNS, row_of(g, row + i) + first, adds, is_last,
                   largest);
}

static void raise_largest(const qn_integer_result *y, sizes largest) {
    uint32_t most_of_all = 0;
    for (int j = 0; j < VL; j++)
        most_of_all = largest[j] > most_of_all ? largest[j] : most_of_all;
    qn_integer_largest(y, most_of_all);
}

/* Sums, and what they are shifted to, from number `at` on, of columns from `first` on. */
static void move_outcome(outcome *y, int64_t at, int64_t first) {
    if (y->sums)
        y->sums += at;
    if (y->shifted)
        y->shifted += at;
    if (y->bias)
        y->bias += first;
}

static void begin_outcome(const outcome *y) {
    if (y->largest)
        *y->largest = 0;
}

#endif
