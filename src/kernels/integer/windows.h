/* What kernels of small numbers multiply: tiles of sums over packed words, rows of a matrix, and
 * windows of an image that are packed as such rows. A file that includes this defines, beside what
 * engine.h says, `stored` (as stored) and STORED_BYTES, `element` (as packed), `total` (a sum),
 * `vector` of totals, `lane_words` of words, `outcome` (what becomes of sums), IS_FLOAT, DEPTH and
 * ROWS. */
#ifndef QN_KERNELS_INTEGER_WINDOWS_H
#define QN_KERNELS_INTEGER_WINDOWS_H

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static int64_t words_of(int64_t numbers) {
    return ceil_div(numbers, NUMBERS);
}

static int64_t bytes_of(int64_t numbers) {
    return numbers * (int64_t)sizeof(stored);
}

/* ---- a tile ---- */

/* tile (m, COLUMNS) = start (COLUMNS) + A's rows times a panel. With `columns`, a word of all rows
 * lies together and words are so far apart, else the rows are. */
static inline __attribute__((always_inline)) void tile_body(bool columns, int nv, int m,
                                                            int64_t n_words, const word *a,
                                                            int64_t a_step, const word *b,
                                                            const total *start, total *tile) {
    vector sums[TILE_ROWS][TILE_VECTORS];
#pragma GCC unroll 16
    for (int i = 0; i < m; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            sums[i][j] = *(const vector *)(start + j * VL);
    }
    const word *base[4] = {a, a + 3 * a_step, a + 6 * a_step, a + 9 * a_step};
    for (int64_t p = 0; p < n_words; p++) {
        lane_words row[TILE_VECTORS];
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            row[j] = *(const lane_words *)(b + j * VL);
#pragma GCC unroll 16
        for (int i = 0; i < m; i++) {
            const lane_words x = (lane_words){0} + (columns ? a[i] : base[i / 3][i % 3 * a_step]);
#pragma GCC unroll 4
            for (int j = 0; j < nv; j++)
                sums[i][j] = dot(sums[i][j], x, row[j]);
        }
        b += COLUMNS;
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
        for (int j = 0; j < nv; j++)
            *(vector *)(tile + i * COLUMNS + j * VL) = sums[i][j];
    }
}

typedef void tile_function(int64_t n_words, const word *a, int64_t a_step, const word *b,
                           const total *start, total *tile);

#define TILE(FORM, NV, M)                                                                          \
    static void tile_##FORM##_##NV##_##M(int64_t n_words, const word *a, int64_t a_step,           \
                                         const word *b, const total *start, total *tile) {         \
        tile_body(FORM, NV, M, n_words, a, a_step, b, start, tile);                                \
    }
#define TILES_OF(FORM, M) TILE(FORM, 1, M) TILE(FORM, 2, M)
#define TILE_NAMES(FORM)                                                                           \
    {                                                                                              \
        {tile_##FORM##_1_1, tile_##FORM##_1_4, TILE_WHOLE(FORM, 1)},                               \
            {tile_##FORM##_2_1, tile_##FORM##_2_4, TILE_WHOLE(FORM, 2)},                           \
    }
#define JOIN(FORM, NV, M)    tile_##FORM##_##NV##_##M
#define JOINED(FORM, NV, M)  JOIN(FORM, NV, M)
#define TILE_WHOLE(FORM, NV) JOINED(FORM, NV, TILE_ROWS)
#define TILES_WHOLE(FORM, M) TILES_OF(FORM, M)

TILES_OF(0, 1)
TILES_OF(1, 1)
TILES_OF(0, 4)
TILES_OF(1, 4)
TILES_WHOLE(0, TILE_ROWS)
TILES_WHOLE(1, TILE_ROWS)

static tile_function *const tiles[2][2][3] = {TILE_NAMES(0), TILE_NAMES(1)};

/* ---- packing ---- */

/* Few bytes, by moves that overlap: a call would take longer than they do. */
static inline void copy_few(int64_t n, const void *from, void *to) {
    const char *a = from;
    char *b = to, first[16], last[16];
    if (n > 32) {
        memcpy(to, from, (size_t)n);
    } else if (n >= 16) {
        memcpy(first, a, 16);
        memcpy(last, a + n - 16, 16);
        memcpy(b, first, 16);
        memcpy(b + n - 16, last, 16);
    } else if (n >= 8) {
        memcpy(first, a, 8);
        memcpy(last, a + n - 8, 8);
        memcpy(b, first, 8);
        memcpy(b + n - 8, last, 8);
    } else if (n >= 4) {
        memcpy(first, a, 4);
        memcpy(last, a + n - 4, 4);
        memcpy(b, first, 4);
        memcpy(b + n - 4, last, 4);
    } else {
        for (int64_t i = 0; i < n; i++)
            b[i] = a[i];
    }
}

/* Numbers of A are packed with the offset, those of B without. */
static void copy_numbers(int64_t n, const stored *from, element *to, int offset) {
    for (int64_t i = 0; i < n; i++)
        to[i] = (element)(from[i] ^ offset);
}

/* Words of numbers that lie below each other, of n columns. */
static void interleave(int64_t n, const stored *const *rows, word *to, int offset) {
    const stored *a = rows[0], *b = rows[1];
#if NUMBERS == 4
    const stored *c = rows[2], *d = rows[3];
    const uint32_t turned = (uint32_t)(uint8_t)offset * UINT32_C(0x01010101);
    for (int64_t j = 0; j < n; j++)
        to[j] = (word)(((uint32_t)(uint8_t)a[j] | (uint32_t)(uint8_t)b[j] << 8 |
                        (uint32_t)(uint8_t)c[j] << 16 | (uint32_t)(uint8_t)d[j] << 24) ^
                       turned);
#else
    (void)offset;
    for (int64_t j = 0; j < n; j++)
        to[j] = (word)((uint32_t)(uint16_t)a[j] | (uint32_t)(uint16_t)b[j] << 16);
#endif
}

/* What a set that adds an offset to A has too much in the sums of a panel. */
static void begin_sums(int64_t n_words, const word *panel, total *start) {
    vector sums[TILE_VECTORS];
    for (int j = 0; j < TILE_VECTORS; j++)
        sums[j] = (vector){0};
    if (OFFSET) {
        const lane_words offsets = (lane_words){0} + (int32_t)0x80808080;
        for (int64_t p = 0; p < n_words; p++) {
            for (int j = 0; j < TILE_VECTORS; j++)
                sums[j] =
                    dot(sums[j], offsets, *(const lane_words *)(panel + p * COLUMNS + j * VL));
        }
    }
    for (int j = 0; j < TILE_VECTORS; j++)
        *(vector *)(start + j * VL) = (vector){0} - sums[j];
}

static inline word word_at(const stored *b, int64_t n) {
    element numbers[NUMBERS] = {0};
    word w;
    for (int64_t i = 0; i < n; i++)
        numbers[i] = b[i];
    memcpy(&w, numbers, sizeof w);
    return w;
}

/* Rows of VL words become columns: each round deals the first half of them into the second. */
#if VL >= 8 && (NUMBERS * STORED_BYTES == 4 || defined(HAS_PAIRS))
static inline void turn(lane_words x[VL]) {
    for (int round = 1; round < VL; round *= 2) {
        lane_words y[VL];
        for (int i = 0; i < VL / 2; i++) {
            const lane_words a = x[i], b = x[i + VL / 2];
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
#endif

/* Words [p, p + VL) of VL columns; false: they are not stored as they are packed. */
static inline bool pack_square(int64_t p, const stored *b, int64_t apart, word *to) {
#if VL >= 8 && NUMBERS * STORED_BYTES == 4
    lane_words rows[VL];
    for (int64_t j = 0; j < VL; j++)
        memcpy(&rows[j], b + j * apart + p * NUMBERS, sizeof rows[j]);
    turn(rows);
    for (int64_t i = 0; i < VL; i++)
        *(lane_words *)(to + (p + i) * COLUMNS) = rows[i];
    return true;
#else
    (void)p;
    (void)b;
    (void)apart;
    (void)to;
    return false;
#endif
}

/* A panel of `width` columns whose numbers are together in K: column j at b + j * apart. */
static void pack_panel_columns(int64_t k, int64_t width, const stored *b, int64_t apart, word *to) {
    const int64_t whole = k / NUMBERS;
    if (width < COLUMNS)
        memset(to, 0, (size_t)(words_of(k) * COLUMNS) * sizeof *to);
    for (int64_t p = 0; p < whole; p += VL) {
        const bool is_square = p + VL <= whole;
        int64_t j = 0;
        while (is_square && j + VL <= width && pack_square(p, b + j * apart, apart, to + j))
            j += VL;
        for (; j < width; j++) {
            for (int64_t i = p; i < least(p + VL, whole); i++)
                to[i * COLUMNS + j] = word_at(b + j * apart + i * NUMBERS, NUMBERS);
        }
    }
    for (int64_t j = 0; j < width && k > whole * NUMBERS; j++)
        to[whole * COLUMNS + j] = word_at(b + j * apart + whole * NUMBERS, k - whole * NUMBERS);
}

/* ---- what is multiplied ---- */

/* An image seen through windows: that of row (n, p, q) has n_r times n_s taps, and tap (r, s) is
 * pixel (n, p * stride_h + r0 + r * r_step, q * stride_w + s0 + s * s_step), or zeros beyond it. */
typedef struct view {
    const stored *x, *end;
    int64_t h, w, c, pixel; /* c numbers of each pixel, and how far apart those are */
    int64_t p, q, stride_h, stride_w;
    int64_t n_r, n_s, r0, s0, r_step, s_step;
} view;

/* A window's first pixel, if there were no border. */
typedef struct place {
    const stored *image;
    int32_t y, x;
} place;

typedef struct product {
    int64_t m, n, k;
    const stored *a, *b;
    int64_t a_apart, b_apart;  /* of rows, or of columns where those lie together */
    bool a_columns, b_columns; /* A's numbers of one K, B's of one column are together */
    const view *rows, *pixels; /* of convolutions: A's rows; B's columns, of each pixel as K */
    /* To the data: row (r, s, k) of B is that of tap (r0 + r * r_step, s0 + s * s_step). */
    int64_t filter_s, tap_apart, r0, s0, r_step, s_step;
    outcome y;
    bool add;
    int64_t y_apart;
    const view *scattered; /* to the data: row (n, p, q) is pixel (n, h, w) of the result */
    int64_t first_h, first_w;
    /* packed */
    word *panels; /* of all of B, or null: packed by the task */
    total *start;
    char *scratch;
    size_t scratch_bytes;
    int64_t row_block, panel_block, depth;
    int64_t unit; /* numbers of K that a block has whole, or a part of; 0: it ends anywhere */
} product;

/* Where row i of the sums goes. */
static int64_t row_of(const product *g, int64_t i) {
    const view *v = g->scattered;
    if (!v)
        return i * g->y_apart;
    const int64_t q = i % v->q, p = i / v->q % v->p, n = i / v->q / v->p;
    return ((n * v->h + p * v->stride_h + g->first_h) * v->w + q * v->stride_w + g->first_w) *
           g->y_apart;
}

/* Places of a run of rows, one after the other. */
typedef struct walk {
    const view *v;
    int64_t n, p, q;
} walk;

static walk walk_from(const view *v, int64_t row) {
    return (walk){v, row / v->q / v->p, row / v->q % v->p, row % v->q};
}

static place walk_on(walk *w) {
    const view *v = w->v;
    const place at = {v->x + w->n * v->h * v->w * v->pixel, (int32_t)(w->p * v->stride_h + v->r0),
                      (int32_t)(w->q * v->stride_w + v->s0)};
    if (++w->q == v->q) {
        w->q = 0;
        w->n += ++w->p == v->p;
        w->p = w->p == v->p ? 0 : w->p;
    }
    return at;
}

/* The pixel of a tap; null: it is beyond the image. */
static inline const stored *pixel_of(const view *v, const place *at, int64_t r, int64_t s) {
    const int64_t y = at->y + r * v->r_step, x = at->x + s * v->s_step;
    if ((uint64_t)y >= (uint64_t)v->h || (uint64_t)x >= (uint64_t)v->w)
        return NULL;
    return at->image + (y * v->w + x) * v->pixel;
}

static inline void copy_or_clear(int64_t n, const stored *from, stored *to) {
    if (from)
        copy_few(bytes_of(n), from, to);
    else
        memset(to, 0, (size_t)bytes_of(n));
}

/* All taps of a row of a window, whose pixels lie together. */
static inline void copy_taps(const view *v, const place *at, int64_t r, stored *to) {
    const int64_t left = most(0, least(v->n_s, -(int64_t)at->x));
    const int64_t right = most(left, least(v->n_s, v->w - at->x));
    const stored *pixel = left < right ? pixel_of(v, at, r, left) : NULL;
    if (!pixel) {
        memset(to, 0, (size_t)bytes_of(v->n_s * v->c));
        return;
    }
    if (left > 0)
        memset(to, 0, (size_t)bytes_of(left * v->c));
    copy_few(bytes_of((right - left) * v->c), pixel, to + left * v->c);
    if (right < v->n_s)
        memset(to + right * v->c, 0, (size_t)bytes_of((v->n_s - right) * v->c));
}

/* Moves of so many bytes, the last one of which goes on behind what it is to copy. */
enum { SLACK = 16 };

/* n numbers of a window from `first` on, where all of it is inside the image: a run for each row of
 * taps. */
static void copy_inside(const view *v, const place *at, int64_t first, int64_t n, stored *to) {
    const int64_t row = v->n_s * v->c, apart = v->r_step * v->w * v->pixel;
    const stored *pixel = at->image + (at->y * v->w + at->x) * v->pixel;
    int64_t from = first;
    if (n == v->n_r * row && row <= 2 * SLACK &&
        v->end - pixel >= (v->n_r - 1) * most(apart, 0) + 2 * SLACK) {
        for (int64_t r = 0; r < v->n_r; r++, to += row, pixel += apart) {
            memcpy(to, pixel, SLACK * sizeof *to);
            if (row > SLACK)
                memcpy(to + SLACK, pixel + SLACK, SLACK * sizeof *to);
        }
        return;
    }
    if (first > 0) {
        pixel += first / row * apart;
        from = first % row;
    }
    for (int64_t count; n > 0; n -= count, to += count, pixel += apart, from = 0) {
        count = least(row - from, n);
        const stored *run = pixel + from;
        if (count > 64 || v->end - run < count + SLACK) {
            memcpy(to, run, (size_t)bytes_of(count));
            continue;
        }
        for (int64_t i = 0; i < count; i += SLACK)
            memcpy(to + i, run + i, SLACK * sizeof *to);
    }
}

/* Numbers [first, end) of a window; up to SLACK more are written behind them. */
static void copy_window(const view *v, const place *at, int64_t first, int64_t end, stored *to) {
    const bool is_together = v->s_step == 1 && v->c == v->pixel;
    const int64_t row = v->n_s * v->c, last_y = at->y + (v->n_r - 1) * v->r_step;
    if (is_together && at->x >= 0 && at->x + v->n_s <= v->w && at->y >= 0 && at->y < v->h &&
        last_y >= 0 && last_y < v->h) {
        copy_inside(v, at, first, end - first, to);
        return;
    }
    int64_t r = 0, s = 0, from = 0;
    if (first > 0) {
        r = first / row;
        s = first % row / v->c;
        from = first % v->c;
    }
    for (int64_t count; first < end; first += count, to += count, from = 0) {
        if (is_together && s == 0 && from == 0 && end - first >= row) {
            count = row;
            copy_taps(v, at, r++, to);
            continue;
        }
        const stored *pixel = pixel_of(v, at, r, s);
        count = least(v->c - from, end - first);
        copy_or_clear(count, pixel ? pixel + from : NULL, to);
        if (++s == v->n_s) {
            s = 0;
            r++;
        }
    }
}

/* Packed rows are further apart than they are long, lest they meet in one set of a cache. */
static int64_t row_words(int64_t numbers) {
    return ceil_div(words_of(numbers), 16) * 16 + 16;
}

/* A number that is not there is multiplied by one of B that is 0, which must be finite. */
static inline void end_row(int64_t n, element *row) {
    if (IS_FLOAT && n % NUMBERS)
        row[n] = 0;
}

static inline void pack_window(const view *v, const place *at, int64_t k0, int64_t k1,
                               element *row) {
#if OFFSET == 0 && NUMBERS * STORED_BYTES == 4
    copy_window(v, at, k0, k1, (stored *)row);
#else
    stored window[DEPTH + SLACK];
    copy_window(v, at, k0, k1, window);
    for (int64_t j = 0; j < k1 - k0; j += SLACK)
        copy_numbers(SLACK, window + j, row + j, OFFSET);
#endif
}

static int64_t pack_a(const product *g, int64_t first, int64_t rows, int64_t k0, int64_t k1,
                      word *to) {
    static const stored zeros[ROWS];
    if (!g->a_columns) {
        const int64_t step = row_words(k1 - k0);
        walk at = g->rows ? walk_from(g->rows, first) : (walk){0};
        for (int64_t i = 0; i < rows && k0 < k1; i++) {
            element *row = (element *)(to + i * step);
            if (!g->rows) {
                copy_numbers(k1 - k0, g->a + (first + i) * g->a_apart + k0, row, OFFSET);
                end_row(k1 - k0, row);
                continue;
            }
            const place here = walk_on(&at);
            pack_window(g->rows, &here, k0, k1, row);
            end_row(k1 - k0, row);
        }
        return step;
    }
    for (int64_t k = k0; k < k1; k += NUMBERS, to += rows) {
        const stored *numbers[NUMBERS];
        for (int i = 0; i < NUMBERS; i++)
            numbers[i] = k + i < k1 ? g->a + (k + i) * g->a_apart + first : zeros;
        interleave(rows, numbers, to, OFFSET);
    }
    return rows;
}

/* Row k of B, whose columns are together. */
static const stored *b_row(const product *g, int64_t k) {
    const view *v = g->rows;
    if (!g->tap_apart)
        return g->b + k * g->b_apart;
    const int64_t tap = k / v->c, r = g->r0 + tap / v->n_s * g->r_step;
    return g->b + k % v->c * g->b_apart +
           (r * g->filter_s + g->s0 + tap % v->n_s * g->s_step) * g->tap_apart;
}

/* Columns [first, first + width) of numbers [k0, k1) of K. */
static void pack_panel(const product *g, int64_t first, int64_t width, int64_t k0, int64_t k1,
                       word *to) {
    static const stored zeros[COLUMNS];
    if (g->b_columns) {
        pack_panel_columns(k1 - k0, width, g->b + first * g->b_apart + k0, g->b_apart, to);
        return;
    }
    for (int64_t k = k0; k < k1; k += NUMBERS, to += COLUMNS) {
        const stored *rows[NUMBERS];
        for (int i = 0; i < NUMBERS; i++)
            rows[i] = k + i < k1 ? b_row(g, k + i) + first : zeros;
        interleave(width, rows, to, 0);
        memset(to + width, 0, (size_t)(COLUMNS - width) * sizeof *to);
    }
}

/* The same of windows, where the places of the rows are known. Columns of one tap are read where
 * they lie. */
static void pack_windows(const view *v, int64_t first, int64_t width, const place *places,
                         int64_t n_rows, word *to) {
    static const stored zeros[COLUMNS];
    stored windows[NUMBERS * COLUMNS + SLACK] __attribute__((aligned(64))) = {0};
    const int64_t tap = first / v->c, from = first % v->c;
    const bool is_one = from + COLUMNS <= v->c && width == COLUMNS;
    for (int64_t k = 0; k < n_rows; k += NUMBERS, to += COLUMNS) {
        const stored *rows[NUMBERS];
        for (int i = 0; i < NUMBERS; i++) {
            const place *at = k + i < n_rows ? &places[k + i] : NULL;
            const stored *pixel = at && is_one ? pixel_of(v, at, tap / v->n_s, tap % v->n_s) : NULL;
            if (at && !is_one)
                copy_window(v, at, first, first + width, windows + i * COLUMNS);
            if (width < COLUMNS)
                memset(windows + i * COLUMNS + width, 0, (size_t)bytes_of(COLUMNS - width));
            rows[i] = pixel ? pixel + from : at && !is_one ? windows + i * COLUMNS : zeros;
        }
        interleave(COLUMNS, rows, to, 0);
    }
}

#endif
