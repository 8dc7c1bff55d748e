/* 3x3 convolutions of int8 with stride 1 by Winograd's algorithm, exactly: 36 products of int16
 * make 4x4 outputs, or 3x3 numbers of a filter's gradient, where windows take 144. Part of
 * engine.h, for sets that define `dot_pairs`, which sums products of pairs of int16.
 *
 * The points are 0, 1, -1, 2, -1/2 and infinity: all that is transformed fits int16, and sums are
 * 900 times too large, modulo 2^32. 900 is 225 times 4: the inverse of 225 modulo 2^32 and a shift
 * leave the sum itself as long as its magnitude is below 2^29. */

typedef int16_t halves __attribute__((vector_size(VL * 4), may_alias, aligned(2)));
typedef int8_t half_bytes __attribute__((vector_size(VL * 2), may_alias, aligned(1)));

enum {
    POINTS = 36,
    CHUNK = 2 * VL,               /* channels that are transformed at once */
    FEWEST_PAIRS = 24,            /* of them for a filter's gradient */
    FEWEST_TILES = 16,            /* that are worth the transformed filters */
    MOST_CHANNELS = 1024,         /* 9 products of each are far below 2^29 */
    MOST_TILES = 24,              /* of a task, which stay in the second cache */
    FILTER_BYTES = 4096 * 1024,   /* of transformed filters, which stay in the third */
    GRADIENT_BLOCK = 64,          /* channels of both sides in a task of the filter's gradient */
    GRADIENT_PAIRS = 128,         /* of tiles in a round, whose sums are far below 2^29 */
    GRADIENT_BYTES = 9216 * 1024, /* of what is transformed in a round */
};

typedef int8_t bytes_apart __attribute__((vector_size(VL), may_alias, aligned(1)));

static inline __attribute__((always_inline)) vector dot_pairs(vector sums, vector a, vector b);
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

/* ---- products of what is transformed ---- */

/* tile (m, COLUMNS) = A's rows times B (words, COLUMNS). With `columns` a word of all rows lies
 * together. */
static inline __attribute__((always_inline)) void pairs_body(bool columns, int m, int64_t words,
                                                             const word *a, int64_t a_step,
                                                             const word *b, int64_t b_step,
                                                             int32_t *tile, int64_t tile_step) {
    vector sums[TILE_ROWS][TILE_VECTORS];
#pragma GCC unroll 16
    for (int i = 0; i < m; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < TILE_VECTORS; j++)
            sums[i][j] = (vector){0};
    }
    const word *base[4] = {a, a + 3 * a_step, a + 6 * a_step, a + 9 * a_step};
    for (int64_t p = 0; p < words; p++) {
        vector row[TILE_VECTORS];
#pragma GCC unroll 4
        for (int j = 0; j < TILE_VECTORS; j++)
            row[j] = *(const vector *)(b + j * VL);
#pragma GCC unroll 16
        for (int i = 0; i < m; i++) {
            const vector x = (vector){0} + (columns ? a[i] : base[i / 3][i % 3 * a_step]);
#pragma GCC unroll 4
            for (int j = 0; j < TILE_VECTORS; j++)
                sums[i][j] = dot_pairs(sums[i][j], x, row[j]);
        }
        b += b_step;
        if (columns) {
            a += a_step;
        } else {
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++)
                base[i]++;
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < m; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < TILE_VECTORS; j++)
            *(vector *)(tile + i * tile_step + j * VL) = sums[i][j];
    }
}

#define PAIRS(NAME, COLUMN, M)                                                                     \
    static void NAME(int64_t words, const word *a, int64_t a_step, const word *b, int64_t b_step,  \
                     int32_t *tile, int64_t tile_step) {                                           \
        pairs_body(COLUMN, M, words, a, a_step, b, b_step, tile, tile_step);                       \
    }
PAIRS(pairs_rows_whole, false, TILE_ROWS)
PAIRS(pairs_rows_4, false, 4)
PAIRS(pairs_rows_1, false, 1)
PAIRS(pairs_columns_whole, true, TILE_ROWS)
PAIRS(pairs_columns_4, true, 4)

/* ---- tiles of images ---- */

/* Outputs of a batch in tiles of 4x4, and what is seen through their windows of 6x6. */
typedef struct tiling {
    const int8_t *x; /* (N, H, W, C) */
    int64_t h, w, c, pixel, top, left;
    int64_t p, q, tiles_h, tiles_w, n_tiles;
    const int8_t *e; /* to the filter: errors (N, P, Q, K), whose pixels are so far apart */
    int64_t e_pixel, k;
    const int8_t *filter; /* (K, R, S, C) of the convolution */
    int64_t filter_k, filter_c;
    bool is_turned;               /* to the data: its result has filter_c channels */
    product to;                   /* where sums go */
    int64_t block, first, panels; /* tiles of a task; panels of a round */
    int64_t k_block, c_block;     /* to the filter: channels of a task */
    int64_t pairs;                /* of tiles in a round, the first of which is t->first */
    word *seen, *errors;
    word *filters; /* (panels, POINTS, words, COLUMNS) */
    char *scratch;
    size_t scratch_bytes;
} tiling;

typedef struct corner {
    int64_t image, y, x; /* of outputs */
} corner;

static corner corner_of(const tiling *t, int64_t tile) {
    return (corner){tile / t->tiles_w / t->tiles_h, tile / t->tiles_w % t->tiles_h * 4,
                    tile % t->tiles_w * 4};
}

static const int8_t no_pixel[CHUNK];

/* The pixels of a window; null beyond the image. */
static void find_pixels(const tiling *t, corner at, const int8_t *pixels[POINTS]) {
    const int64_t top = at.y - t->top, left = at.x - t->left, row = t->w * t->pixel;
    const int8_t *first = t->x + at.image * t->h * row + top * row + left * t->pixel;
    const bool is_inside = top >= 0 && top + 6 <= t->h && left >= 0 && left + 6 <= t->w;
    for (int i = 0; i < 6; i++, first += row) {
        for (int j = 0; j < 6; j++)
            pixels[6 * i + j] = first + j * t->pixel;
    }
    for (int i = 0; !is_inside && i < POINTS; i++) {
        const int64_t y = top + i / 6, x = left + i % 6;
        if (y < 0 || y >= t->h || x < 0 || x >= t->w)
            pixels[i] = NULL;
    }
}

/* The same of an error's tile. */
static void find_errors(const tiling *t, corner at, const int8_t *pixels[16]) {
    const int8_t *first = t->e + ((at.image * t->p + at.y) * t->q + at.x) * t->e_pixel;
    for (int i = 0; i < 16; i++)
        pixels[i] = at.y + i / 4 < t->p && at.x + i % 4 < t->q
                        ? first + (i / 4 * t->q + i % 4) * t->e_pixel
                        : NULL;
}

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
see_window(const int8_t *const pixels[POINTS], int64_t c, int64_t n, halves seen[POINTS]) {
    for (int i = 0; i < POINTS; i++)
        seen[i] = load_chunk(pixels[i], c, n);
    for (int j = 0; j < 6; j++)
        see_line(seen + j, 6, seen + j);
    for (int i = 0; i < 6; i++)
        see_line(seen + 6 * i, 1, seen + 6 * i);
}

/* Steps in words: of a tile's transformed channels, and of the points of what is transformed. All
 * points of a number are stored at once: an odd number of lines apart, lest they meet in one set of
 * a cache. */
static int64_t seen_step(int64_t c) {
    return ceil_div(c / 2, 16) * 16 + 16;
}

static int64_t point_step(int64_t words) {
    return ceil_div(words, 16) / 2 * 32 + 16;
}

static int64_t tiles_step(const tiling *t) {
    return point_step(t->block * seen_step(t->c) + 16);
}

static int64_t filter_step(const tiling *t) {
    return point_step((t->c / 2 + 1) * COLUMNS);
}

static int64_t pairs_step(const tiling *t, int64_t channels) {
    return point_step(t->pairs * channels + 16);
}

static int64_t cells_step(int64_t rows, int64_t columns) {
    return point_step(rows * columns + 16);
}

static void see_tiles(const tiling *t, int64_t first, int64_t n, word *to) {
    const int64_t step = seen_step(t->c), apart = tiles_step(t);
    for (int64_t tile = 0; tile < n; tile++) {
        const int8_t *pixels[POINTS];
        find_pixels(t, corner_of(t, first + tile), pixels);
        for (int64_t c = 0; c < t->c; c += CHUNK) {
            const int64_t from = least(c, t->c - CHUNK);
            halves seen[POINTS];
            see_window(pixels, from, CHUNK, seen);
            for (int i = 0; i < POINTS; i++)
                *(halves *)(to + i * apart + tile * step + from / 2) = seen[i];
        }
    }
}

/* ---- filters ---- */

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

/* Pairs of two vectors' numbers. */
static inline void store_pairs(halves a, halves b, word *to) {
#if VL == 16
    *(halves *)to =
        __builtin_shufflevector(a, b, 0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39, 8, 40,
                                9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47);
    *(halves *)(to + VL) =
        __builtin_shufflevector(a, b, 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23,
                                55, 24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63);
#else
    int16_t both[2][CHUNK];
    *(halves *)both[0] = a;
    *(halves *)both[1] = b;
    for (int i = 0; i < CHUNK; i++)
        to[i] = (word)((uint32_t)(uint16_t)both[0][i] | (uint32_t)(uint16_t)both[1][i] << 16);
#endif
}

/* Rows of VL words become columns: each round deals the first half of them into the second. */
static inline void turn(vector x[VL]) {
    for (int round = 1; round < VL; round *= 2) {
        vector y[VL];
        for (int i = 0; i < VL / 2; i++) {
            const vector a = x[i], b = x[i + VL / 2];
#if VL == 16
            y[2 * i] = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6,
                                               22, 7, 23);
            y[2 * i + 1] = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13,
                                                   29, 14, 30, 15, 31);
#else
            y[2 * i] = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
            y[2 * i + 1] = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
#endif
        }
        for (int i = 0; i < VL; i++)
            x[i] = y[i];
    }
}

/* A panel of filters whose columns are outputs: pairs of channels are neighbours. */
static void pack_outputs(const tiling *t, int64_t panel, word *to) {
    const int64_t first = panel * COLUMNS;
    for (int64_t column = 0; column < COLUMNS; column += VL) {
        for (int64_t c = 0; c < t->c; c += CHUNK) {
            const int64_t from = least(c, t->c - CHUNK);
            halves seen[VL][POINTS];
            for (int64_t j = 0; j < VL; j++) {
                if (first + column + j < t->filter_k)
                    see_filter(t, first + column + j, from, CHUNK, seen[j]);
                else
                    memset(seen[j], 0, sizeof seen[j]);
            }
            for (int i = 0; i < POINTS; i++) {
                vector rows[VL];
                word *pairs = to + i * filter_step(t) + from / 2 * COLUMNS + column;
                for (int j = 0; j < VL; j++)
                    rows[j] = (vector)seen[j][i];
                turn(rows);
                for (int p = 0; p < VL; p++)
                    *(vector *)(pairs + p * COLUMNS) = rows[p];
            }
        }
    }
}

/* To the data: columns are channels, pairs are of filters. */
static void pack_channels(const tiling *t, int64_t panel, word *to) {
    const int64_t words = t->c / 2, first = panel * COLUMNS;
    for (int64_t p = 0; p < words; p++) {
        for (int64_t j = 0; j < COLUMNS; j += CHUNK) {
            const int64_t n = least(CHUNK, t->filter_c - first - j);
            halves even[POINTS] = {{0}}, odd[POINTS] = {{0}};
            if (n > 0) {
                see_filter(t, 2 * p, first + j, n, even);
                see_filter(t, 2 * p + 1, first + j, n, odd);
            }
            for (int i = 0; i < POINTS; i++)
                store_pairs(even[i], odd[i], to + i * filter_step(t) + p * COLUMNS + j);
        }
    }
}

static void filter_task(void *context, int64_t begin, int64_t end, int thread) {
    const tiling *t = context;
    (void)thread;
    for (int64_t panel = begin; panel < end; panel++) {
        word *to = t->filters + panel * POINTS * filter_step(t);
        if (t->is_turned)
            pack_channels(t, t->first + panel, to);
        else
            pack_outputs(t, t->first + panel, to);
    }
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

static void finish_panel(const tiling *t, int64_t first_tile, int64_t n, int64_t panel,
                         const int32_t *sums, sizes *largest, range *made) {
    const int64_t first = panel * COLUMNS, width = least(COLUMNS, t->to.n - first);
    const finish how = width == COLUMNS ? finish_of(&t->to, width, false, true) : FINISH_OTHER;
    for (int64_t tile = 0; tile < n; tile++, sums += POINTS * COLUMNS) {
        const corner at = corner_of(t, first_tile + tile);
        if (how == FINISH_SUMS)
            finish_tile_of(t, FINISH_SUMS, at, first, sums, made);
        else if (how == FINISH_AWAY)
            finish_tile_of(t, FINISH_AWAY, at, first, sums, made);
        else if (how == FINISH_RELU)
            finish_tile_of(t, FINISH_RELU, at, first, sums, made);
        else
            finish_slowly(t, at, first, width, sums, largest);
    }
}

/* sums (tiles, POINTS, COLUMNS) */
static void multiply_tiles(const tiling *t, int64_t n, const word *seen, const word *filters,
                           int32_t *sums) {
    const int64_t words = t->c / 2, step = seen_step(t->c), apart = POINTS * COLUMNS;
    for (int i = 0; i < POINTS; i++, sums += COLUMNS) {
        const word *a = seen + i * tiles_step(t), *b = filters + i * filter_step(t);
        int64_t row = 0;
        for (; row + TILE_ROWS <= n; row += TILE_ROWS)
            pairs_rows_whole(words, a + row * step, step, b, COLUMNS, sums + row * apart, apart);
        for (; row + 4 <= n; row += 4)
            pairs_rows_4(words, a + row * step, step, b, COLUMNS, sums + row * apart, apart);
        for (; row < n; row++)
            pairs_rows_1(words, a + row * step, step, b, COLUMNS, sums + row * apart, apart);
    }
}

static void tiles_task(void *context, int64_t begin, int64_t end, int thread) {
    const tiling *t = context;
    word *seen = (word *)(void *)(t->scratch + (size_t)thread * t->scratch_bytes);
    int32_t *sums = seen + POINTS * tiles_step(t);
    sizes largest = {0};
    range made = {{0}, {0}};
    for (int64_t task = begin; task < end; task++) {
        const int64_t first = task * t->block, n = least(t->block, t->n_tiles - first);
        see_tiles(t, first, n, seen);
        for (int64_t panel = 0; panel < t->panels; panel++) {
            multiply_tiles(t, n, seen, t->filters + panel * POINTS * filter_step(t), sums);
            finish_panel(t, first, n, t->first + panel, sums, &largest, &made);
        }
    }
    raise_largest(&t->to.y, largest);
    qn_integer_largest(&t->to.y, largest_of(&made));
}

/* ---- to the filter ---- */

/* A round takes t->pairs pairs of tiles from t->first on. Their transformed numbers are
 * (blocks of channels, POINTS, pairs, channels of a block) words. */

static int64_t width_of(int64_t channels, int64_t size, int64_t at) {
    return least(size, ceil_div(channels - at, CHUNK) * CHUNK);
}

/* Where channels from `at` on are, of a pair. */
static word *pair_place(const tiling *t, word *all, int64_t size, int64_t at, int64_t width,
                        int64_t pair) {
    return all + at / size * POINTS * pairs_step(t, size) + pair * width + at % size;
}

static void see_tile_pair(const tiling *t, int64_t pair) {
    const int8_t *pixels[2][POINTS] = {{NULL}};
    for (int i = 0; i < 2; i++) {
        if (t->first + 2 * pair + i < t->n_tiles)
            find_pixels(t, corner_of(t, t->first + 2 * pair + i), pixels[i]);
    }
    for (int64_t c = 0; c < t->c; c += CHUNK) {
        const int64_t n = least(CHUNK, t->c - c);
        const int64_t width = width_of(t->c, t->c_block, c / t->c_block * t->c_block);
        word *to = pair_place(t, t->seen, t->c_block, c, width, pair);
        halves even[POINTS], odd[POINTS];
        see_window(pixels[0], c, n, even);
        see_window(pixels[1], c, n, odd);
        for (int i = 0; i < POINTS; i++)
            store_pairs(even[i], odd[i], to + i * pairs_step(t, width));
    }
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

static void see_error_pair(const tiling *t, int64_t pair) {
    const int8_t *pixels[2][16] = {{NULL}};
    for (int i = 0; i < 2; i++) {
        if (t->first + 2 * pair + i < t->n_tiles)
            find_errors(t, corner_of(t, t->first + 2 * pair + i), pixels[i]);
    }
    for (int64_t k = 0; k < t->k; k += CHUNK) {
        const int64_t n = least(CHUNK, t->k - k);
        const int64_t width = width_of(t->k, t->k_block, k / t->k_block * t->k_block);
        word *to = pair_place(t, t->errors, t->k_block, k, width, pair);
        halves even[POINTS], odd[POINTS];
        see_error(pixels[0], k, n, even);
        see_error(pixels[1], k, n, odd);
        for (int i = 0; i < POINTS; i++)
            store_pairs(even[i], odd[i], to + i * pairs_step(t, width));
    }
}

static void see_pairs_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    for (int64_t pair = begin; pair < end; pair++) {
        see_tile_pair(context, pair);
        see_error_pair(context, pair);
    }
}

/* sums (POINTS, rows, columns) */
static void multiply_pairs(const tiling *t, const word *errors, const word *seen, int64_t rows,
                           int64_t columns, int32_t *sums) {
    const int64_t apart = cells_step(rows, columns);
    int64_t whole = rows;
    while (whole % TILE_ROWS != 0)
        whole -= 4;
    for (int i = 0; i < POINTS; i++) {
        const word *a = errors + i * pairs_step(t, rows), *b = seen + i * pairs_step(t, columns);
        for (int64_t j = 0; j < columns; j += COLUMNS) {
            int32_t *to = sums + i * apart + j;
            for (int64_t row = 0; row < whole; row += TILE_ROWS)
                pairs_columns_whole(t->pairs, a + row, rows, b + j, columns, to + row * columns,
                                    columns);
            for (int64_t row = whole; row < rows; row += 4)
                pairs_columns_4(t->pairs, a + row, rows, b + j, columns, to + row * columns,
                                columns);
        }
    }
}

/* y (9, columns): what a row of sums comes to. */
static void make_gradients(int64_t apart, int64_t columns, const int32_t *sums, int32_t *y) {
    for (int64_t j = 0; j < columns; j += VL) {
        sizes m[6], lines[18], made[3];
        for (int i = 0; i < 6; i++) {
            for (int n = 0; n < 6; n++)
                m[n] = (sizes) * (const vector *)(sums + (6 * n + i) * apart + j);
            gradient_line(m, 1, lines + i, 6);
        }
        for (int i = 0; i < 3; i++) {
            gradient_line(lines + 6 * i, 1, made, 1);
            for (int n = 0; n < 3; n++)
                *(vector *)(y + (3 * i + n) * columns + j) = exact_sums(made[n]);
        }
    }
}

static void gradient_task(void *context, int64_t begin, int64_t end, int thread) {
    const tiling *t = context;
    const int64_t n_c = ceil_div(t->c, t->c_block);
    const bool adds = t->to.add || t->first > 0;
    const bool is_last = t->first + 2 * t->pairs >= t->n_tiles;
    int32_t *sums = (int32_t *)(void *)(t->scratch + (size_t)thread * t->scratch_bytes);
    sizes largest = {0};
    for (int64_t task = begin; task < end; task++) {
        const int64_t k = task / n_c * t->k_block, c = task % n_c * t->c_block;
        const int64_t rows = width_of(t->k, t->k_block, k), n = width_of(t->c, t->c_block, c);
        int32_t y[9 * GRADIENT_BLOCK];
        multiply_pairs(t, pair_place(t, t->errors, t->k_block, k, rows, 0),
                       pair_place(t, t->seen, t->c_block, c, n, 0), rows, n, sums);
        for (int64_t row = 0; row < least(rows, t->k - k); row++) {
            make_gradients(cells_step(rows, n), n, sums + row * n, y);
            for (int64_t tap = 0; tap < 9; tap++)
                finish_row(&t->to, 0, least(n, t->c - c), y + tap * n,
                           ((k + row) * 9 + tap) * t->c + c, adds, is_last, &largest);
        }
    }
    raise_largest(&t->to.y, largest);
}

static void run_gradient(qn_team *team, tiling *t) {
    const int64_t n_blocks = ceil_div(t->k, t->k_block) * ceil_div(t->c, t->c_block);
    for (; t->first < t->n_tiles; t->first += 2 * t->pairs) {
        qn_team_run(team, t->pairs, see_pairs_task, t);
        qn_team_run(team, n_blocks, gradient_task, t);
    }
}

/* ---- the choice, and memory ---- */

static void tile_outputs(tiling *t, int64_t n) {
    t->tiles_h = ceil_div(t->p, 4);
    t->tiles_w = ceil_div(t->q, 4);
    t->n_tiles = n * t->tiles_h * t->tiles_w;
}

/* Channels that are summed, and those of the result. */
static bool is_worth_tiles(const qn_conv2d_shape *d, int64_t summed, int64_t made, int64_t h,
                           int64_t w) {
    return d->r == 3 && d->s == 3 && d->stride_h * d->stride_w == 1 &&
           d->dilation_h * d->dilation_w == 1 && d->groups == 1 && d->pad_top <= 2 &&
           d->pad_left <= 2 && summed >= CHUNK && summed % 2 == 0 && summed <= MOST_CHANNELS &&
           made >= COLUMNS && h >= 3 && w >= 3 &&
           d->n * ceil_div(h, 4) * ceil_div(w, 4) >= FEWEST_TILES;
}

static bool is_tiled(const qn_conv2d_shape *d, qn_conv2d_pass pass) {
    if (pass == QN_CONV2D_FORWARD)
        return is_worth_tiles(d, d->c, d->k, d->p, d->q);
    if (pass == QN_CONV2D_BACKWARD_DATA)
        return is_worth_tiles(d, d->k, d->c, d->h, d->w);
    return is_worth_tiles(d, CHUNK, least(d->c, d->k), d->p, d->q) &&
           d->n * ceil_div(d->p, 4) * ceil_div(d->q, 4) >= 2 * FEWEST_PAIRS;
}

/* As few tasks as caches allow, of like size for all threads. */
static void choose_tiles(tiling *t, int n_threads) {
    const int64_t rounds = ceil_div(t->n_tiles, MOST_TILES * n_threads);
    t->block = least(MOST_TILES, ceil_div(ceil_div(t->n_tiles, rounds * n_threads), 4) * 4);
    t->panels = most(1, FILTER_BYTES / (POINTS * t->c * 2 * COLUMNS));
    t->panels = least(t->panels, ceil_div(t->to.n, COLUMNS));
    t->scratch_bytes = (size_t)(POINTS * (tiles_step(t) + t->block * COLUMNS)) * sizeof(word) + 64;
}

/* As many pairs in a round as memory allows, of like number. */
static void choose_pairs(tiling *t, int n_threads) {
    t->k_block = t->c_block = GRADIENT_BLOCK;
    while (t->k_block > CHUNK &&
           ceil_div(t->k, t->k_block) * ceil_div(t->c, t->c_block) < n_threads)
        t->k_block /= 2;
    const int64_t pair_bytes = POINTS * 4 * (t->c + t->k);
    const int64_t most_pairs = least(GRADIENT_PAIRS, most(16, GRADIENT_BYTES / pair_bytes));
    const int64_t pairs = ceil_div(t->n_tiles, 2);
    t->pairs = ceil_div(pairs, ceil_div(pairs, most_pairs));
    t->scratch_bytes = (size_t)(POINTS * cells_step(t->k_block, t->c_block)) * sizeof(int32_t) + 64;
}

static int64_t pairs_words(const tiling *t, int64_t channels, int64_t size) {
    return ceil_div(channels, size) * POINTS * pairs_step(t, size);
}

static size_t filters_bytes(const tiling *t) {
    return (size_t)(t->panels * POINTS * filter_step(t)) * sizeof(word) + 64;
}

/* One of the three products of a convolution in tiles. */
static tiling tiling_of(const qn_conv2d_shape *d, qn_conv2d_pass pass, int n_threads) {
    const int64_t step = d->y_stride ? d->y_stride : d->k;
    tiling t = {.h = d->h,
                .w = d->w,
                .c = d->c,
                .pixel = d->c,
                .top = d->pad_top,
                .left = d->pad_left,
                .p = d->p,
                .q = d->q,
                .e_pixel = step,
                .k = d->k,
                .filter_k = d->k,
                .filter_c = d->c,
                .to = {.n = d->k, .k = 9 * d->c, .y_apart = step, .add = d->add}};
    if (pass == QN_CONV2D_BACKWARD_DATA) {
        t.h = d->p;
        t.w = d->q;
        t.c = d->k;
        t.pixel = step;
        t.top = 2 - d->pad_top;
        t.left = 2 - d->pad_left;
        t.p = d->h;
        t.q = d->w;
        t.is_turned = true;
        t.to.n = d->c;
        t.to.k = 9 * d->k;
        t.to.y_apart = d->c;
    }
    tile_outputs(&t, d->n);
    if (pass == QN_CONV2D_BACKWARD_FILTER)
        choose_pairs(&t, n_threads);
    else
        choose_tiles(&t, n_threads);
    return t;
}

static size_t tiled_workspace(const qn_conv2d_shape *d, qn_conv2d_pass pass, int n_threads) {
    const tiling t = tiling_of(d, pass, n_threads);
    const size_t scratch = (size_t)n_threads * t.scratch_bytes;
    if (pass != QN_CONV2D_BACKWARD_FILTER)
        return filters_bytes(&t) + scratch;
    const int64_t words = pairs_words(&t, t.c, t.c_block) + pairs_words(&t, t.k, t.k_block);
    return (size_t)words * sizeof(word) + scratch;
}

/* a is x, or to the data dy; b is the filter, or to the filter dy. */
static void run_tiled(qn_team *team, const qn_conv2d_shape *d, qn_conv2d_pass pass, const int8_t *a,
                      const int8_t *b, const qn_integer_result *y, void *workspace) {
    tiling t = tiling_of(d, pass, qn_team_size(team));
    t.x = a;
    t.to.y = *y;
    if (y->largest)
        *y->largest = 0;
    if (pass == QN_CONV2D_BACKWARD_FILTER) {
        t.e = b;
        t.seen = workspace;
        t.errors = t.seen + pairs_words(&t, t.c, t.c_block);
        t.scratch = (char *)(t.errors + pairs_words(&t, t.k, t.k_block));
        run_gradient(team, &t);
        return;
    }
    const int64_t n_panels = ceil_div(t.to.n, COLUMNS), round = t.panels;
    t.filter = b;
    t.filters = workspace;
    t.scratch = (char *)workspace + filters_bytes(&t);
    for (; t.first < n_panels; t.first += round) {
        t.panels = least(round, n_panels - t.first);
        qn_team_run(team, t.panels, filter_task, &t);
        qn_team_run(team, ceil_div(t.n_tiles, t.block), tiles_task, &t);
    }
}

/* Whether a filter's gradient takes several rounds. */
static bool is_tiled_in_parts(const qn_conv2d_shape *d, qn_conv2d_pass pass) {
    const tiling t = tiling_of(d, pass, 1);
    return pass == QN_CONV2D_BACKWARD_FILTER && 2 * t.pairs < t.n_tiles;
}
