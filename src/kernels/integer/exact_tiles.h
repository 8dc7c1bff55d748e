/* Winograd's transforms in whole numbers, and what becomes of exact outputs. Part of winograd.h.
 *
 * The points are 0, 1, -1, 2, -1/2 and infinity: all that is transformed fits int16, and sums are
 * 900 times too large, modulo 2^32. 900 is 225 times 4: the inverse of 225 modulo 2^32 and a shift
 * leave the sum itself as long as its magnitude is below 2^29. */
#ifndef QN_KERNELS_INTEGER_EXACT_TILES_H
#define QN_KERNELS_INTEGER_EXACT_TILES_H

enum { POINTS = 36, CHUNK = 2 * VL };

typedef int16_t halves __attribute__((vector_size(VL * 4), may_alias, aligned(2)));
typedef int8_t half_bytes __attribute__((vector_size(VL * 2), may_alias, aligned(1)));

typedef int8_t bytes_apart __attribute__((vector_size(VL), may_alias, aligned(1)));

static inline __attribute__((always_inline)) vector larger(vector a, vector b);
static inline __attribute__((always_inline)) vector smaller(vector a, vector b);

/* ---- transforms of six numbers, which lie `step` apart ---- */

static inline __attribute__((always_inline)) void see_line(const halves *x, int step, halves *y) {
    const halves x0 = x[0], x1 = x[step], x2 = x[2 * step], x3 = x[3 * step], x4 = x[4 * step];
    const halves a = x3 - x1, b = x4 - x2;
    y[0] = 2 * (x0 + x4) - 3 * a - 4 * x2;
    y[step] = 2 * (a + b) - 3 * (x2 + x3);
    y[2 * step] = 2 * (b - a) + 3 * (x2 - x3);
    y[3 * step] = a + 2 * b;
    y[4 * step] = b - 2 * a;
    y[5 * step] = 2 * (x1 + x[5 * step]) - 3 * b - 4 * x3;
}

/* Three numbers of a filter become six, with the factors by which points differ. */
static inline __attribute__((always_inline)) void filter_line(const halves *w, int step, halves *y,
                                                              int y_step) {
    const halves w0 = w[0], w1 = w[step], w2 = w[2 * step], ends = w0 + w2;
    y[0] = 15 * w0;
    y[y_step] = -5 * (ends + w1);
    y[2 * y_step] = 5 * (ends - w1);
    y[3 * y_step] = w0 + 2 * w1 + 4 * w2;
    y[4 * y_step] = 2 * w1 - 4 * w0 - w2;
    y[5 * y_step] = 15 * w2;
}

/* Four of an error become six, without those factors. */
static inline __attribute__((always_inline)) void error_line(const halves *e, int step, halves *y,
                                                             int y_step) {
    const halves e0 = e[0], e1 = e[step], e2 = e[2 * step], e3 = e[3 * step];
    const halves even = e0 + e2, odd = e1 + e3;
    y[0] = e0;
    y[y_step] = even + odd;
    y[2 * y_step] = even - odd;
    y[3 * y_step] = e0 + 2 * e1 + 4 * e2 + 8 * e3;
    y[4 * y_step] = 8 * e0 - 4 * e1 + 2 * e2 - e3;
    y[5 * y_step] = e3;
}

/* Six sums become four outputs. */
static inline __attribute__((always_inline)) void output_line(const sizes *m, int step, sizes *y,
                                                              int y_step) {
    const sizes sum = m[step] + m[2 * step], difference = m[step] - m[2 * step];
    const sizes m3 = m[3 * step], m4 = m[4 * step];
    y[0] = m[0] + sum + m3 + (m4 << 3);
    y[y_step] = difference + (m3 << 1) - (m4 << 2);
    y[2 * y_step] = sum + (m3 << 2) + (m4 << 1);
    y[3 * y_step] = difference + (m3 << 3) - m4 + m[5 * step];
}

/* Six sums become three numbers of a filter's gradient. */
static inline __attribute__((always_inline)) void gradient_line(const sizes *m, int step, sizes *y,
                                                                int y_step) {
    const sizes m1 = m[step] * 5, m2 = m[2 * step] * 5, m3 = m[3 * step], m4 = m[4 * step];
    y[0] = m[0] * 15 - m1 + m2 + m3 - (m4 << 2);
    y[y_step] = -m1 - m2 + (m3 << 1) + (m4 << 1);
    y[2 * y_step] = m2 - m1 + (m3 << 2) - m4 + m[5 * step] * 15;
}

static inline vector exact_sums(sizes sums) {
    return (vector)(sums * UINT32_C(2271560481)) >> 2;
}

static const int8_t no_pixel[CHUNK];

static inline __attribute__((always_inline)) halves load_chunk(const int8_t *pixel, int64_t c,
                                                               int64_t n) {
    half_bytes few = {0};
    if (pixel && n < CHUNK) {
        copy_few(n, pixel + c, &few);
        return __builtin_convertvector(few, halves);
    }
    return __builtin_convertvector(*(const half_bytes *)(pixel ? pixel + c : no_pixel), halves);
}

/* n channels from c on. */
static inline __attribute__((always_inline)) void
see_window(const int8_t *const pixels[SEEN_PIXELS], int64_t c, int64_t n, halves seen[POINTS]) {
    for (int i = 0; i < POINTS; i++)
        seen[i] = load_chunk(pixels[i], c, n);
    for (int j = 0; j < 6; j++)
        see_line(seen + j, 6, seen + j);
    for (int i = 0; i < 6; i++)
        see_line(seen + 6 * i, 1, seen + 6 * i);
}

/* Channels [c, c + n) of filter k; turned by half a turn where errors go to the data. */
static inline __attribute__((always_inline)) void see_filter(const tiling *t, int64_t k, int64_t c,
                                                             int64_t n, halves seen[POINTS]) {
    const int8_t *w = t->filter + k * 9 * t->filter_c;
    halves taps[9], lines[18];
    for (int i = 0; i < 9; i++)
        taps[i] = load_chunk(w + (t->is_turned ? 8 - i : i) * t->filter_c, c, n);
    for (int j = 0; j < 3; j++)
        filter_line(taps + j, 3, lines + j, 3);
    for (int i = 0; i < 6; i++)
        filter_line(lines + 3 * i, 1, seen + 6 * i, 1);
}

static inline __attribute__((always_inline)) void
see_error(const int8_t *const pixels[16], int64_t k, int64_t n, halves seen[POINTS]) {
    halves errors[16], lines[24];
    for (int i = 0; i < 16; i++)
        errors[i] = load_chunk(pixels[i], k, n);
    for (int j = 0; j < 4; j++)
        error_line(errors + j, 4, lines + j, 4);
    for (int i = 0; i < 6; i++)
        error_line(lines + 4 * i, 1, seen + 6 * i, 1);
}

/* ---- outputs ---- */

/* The 16 outputs of a vector of columns, of sums (POINTS, COLUMNS). */
static inline __attribute__((always_inline)) void make_outputs(const int32_t *sums,
                                                               vector outputs[16]) {
    sizes m[6], lines[24], y[4];
#pragma GCC unroll 6
    for (int i = 0; i < 6; i++) {
#pragma GCC unroll 6
        for (int j = 0; j < 6; j++)
            m[j] = (sizes) * (const vector *)(sums + (6 * j + i) * COLUMNS);
        output_line(m, 1, lines + i, 6);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        output_line(lines + 6 * i, 1, y, 1);
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
            outputs[4 * i + j] = exact_sums(y[j]);
    }
}

/* The least and the largest sums of each lane. */
typedef struct range {
    vector low, high;
} range;

static uint32_t largest_of(const range *r) {
    uint32_t largest = 0;
    for (int i = 0; i < VL; i++) {
        const uint32_t low = 0 - (uint32_t)r->low[i], high = (uint32_t)r->high[i];
        largest = low > largest ? low : largest;
        largest = high > largest ? high : largest;
    }
    return largest;
}

/* As finish_columns: rounding away from 0 is rounding down of what is a half more. */
static inline __attribute__((always_inline)) void
finish_lanes(const product *g, finish how, vector sums, int64_t at, range *made) {
    const int bits = g->y.shift.bits;
    const vector half = (vector){0} + (bits > 0 ? INT32_C(1) << (bits - 1) : 0);
    const vector most_of_all = (vector){0} + 127, one = (vector){0} + (bits > 0 ? -1 : 0);
    if (how == FINISH_RELU)
        sums = larger(sums, (vector){0});
    made->low = smaller(made->low, sums);
    made->high = larger(made->high, sums);
    if (how == FINISH_SUMS) {
        *(vector *)(g->y.sums + at) = sums;
        return;
    }
    vector rounded = sums + half;
    if (how != FINISH_RELU)
        rounded += sums >> 31 & one;
    rounded >>= bits;
    const vector cut = larger(smaller(rounded, most_of_all), -most_of_all);
    *(bytes_apart *)(g->y.shifted + at) = __builtin_convertvector(cut, bytes_apart);
}

static inline __attribute__((always_inline)) void finish_tile_of(const tiling *t, finish how,
                                                                 corner at, int64_t first,
                                                                 const int32_t *sums, range *made) {
    const product *g = &t->to;
    const int64_t rows = least(4, t->p - at.y), columns = least(4, t->q - at.x);
    const int64_t begin = ((at.image * t->p + at.y) * t->q + at.x) * g->y_apart + first;
    range own = *made;
    for (int64_t column = 0; column < COLUMNS; column += VL) {
        vector outputs[16];
        make_outputs(sums + column, outputs);
        if (rows == 4 && columns == 4) {
#pragma GCC unroll 16
            for (int i = 0; i < 16; i++)
                finish_lanes(g, how, outputs[i],
                             begin + (i / 4 * t->q + i % 4) * g->y_apart + column, &own);
            continue;
        }
        for (int64_t i = 0; i < rows; i++) {
            for (int64_t j = 0; j < columns; j++)
                finish_lanes(g, how, outputs[4 * i + j],
                             begin + (i * t->q + j) * g->y_apart + column, &own);
        }
    }
    *made = own;
}

/* Narrow panels, and what is seldom asked for. */
static void finish_slowly(const tiling *t, corner at, int64_t first, int64_t width,
                          const int32_t *sums, sizes *largest) {
    int32_t outputs[16][COLUMNS];
    for (int64_t j = 0; j < COLUMNS; j += VL) {
        vector y[16];
        make_outputs(sums + j, y);
        for (int i = 0; i < 16; i++)
            *(vector *)(outputs[i] + j) = y[i];
    }
    for (int64_t i = 0; i < least(4, t->p - at.y); i++) {
        for (int64_t j = 0; j < least(4, t->q - at.x); j++) {
            const int64_t pixel = (at.image * t->p + at.y + i) * t->q + at.x + j;
            finish_row(&t->to, first, width, outputs[4 * i + j], pixel * t->to.y_apart + first,
                       false, true, largest);
        }
    }
}

typedef struct finished {
    sizes largest;
    range tiles;
} finished;

static void finish_panel(const tiling *t, int64_t first_tile, int64_t n, int64_t panel,
                         const int32_t *sums, finished *made) {
    const int64_t first = panel * COLUMNS, width = least(COLUMNS, t->to.n - first);
    const finish how = width == COLUMNS ? finish_of(&t->to, width, false, true) : FINISH_OTHER;
    for (int64_t tile = 0; tile < n; tile++, sums += POINTS * COLUMNS) {
        const corner at = corner_of(t, first_tile + tile);
        if (how == FINISH_SUMS)
            finish_tile_of(t, FINISH_SUMS, at, first, sums, &made->tiles);
        else if (how == FINISH_AWAY)
            finish_tile_of(t, FINISH_AWAY, at, first, sums, &made->tiles);
        else if (how == FINISH_RELU)
            finish_tile_of(t, FINISH_RELU, at, first, sums, &made->tiles);
        else
            finish_slowly(t, at, first, width, sums, &made->largest);
    }
}

static void raise_finished(const tiling *t, const finished *made) {
    raise_largest(&t->to.y, made->largest);
    qn_integer_largest(&t->to.y, largest_of(&made->tiles));
}

/* Nine numbers of a filter's gradient, of sums whose points are `apart`. */
static inline __attribute__((always_inline)) void make_gradient(const int32_t *sums, int64_t apart,
                                                                vector y[9]) {
    sizes m[6], lines[18], made[3];
    for (int i = 0; i < 6; i++) {
        for (int n = 0; n < 6; n++)
            m[n] = (sizes) * (const vector *)(sums + (6 * n + i) * apart);
        gradient_line(m, 1, lines + i, 6);
    }
    for (int i = 0; i < 3; i++) {
        gradient_line(lines + 6 * i, 1, made, 1);
        for (int n = 0; n < 3; n++)
            y[3 * i + n] = exact_sums(made[n]);
    }
}

#endif
