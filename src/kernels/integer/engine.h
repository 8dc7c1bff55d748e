/* Products and convolutions of int8 for one instruction set. A file of a set defines VL (lanes of
 * 32 bits), TILE_ROWS (6 to 12), TILE_VECTORS, NUMBERS, OFFSET, TABLE, TABLE_NAME, SET and `dot`,
 * and includes this.
 *
 * Sums are over words of 32 bits: NUMBERS = 4 int8, or 2 int16 where only those can be multiplied
 * exactly. A tile broadcasts words of A and multiplies them by vectors of words of B, whose panels
 * are (words, COLUMNS). Where a set multiplies unsigned by signed numbers, A's are packed with
 * OFFSET 128 added, and sums start with what that is too much: minus 128 times a column of B.
 * Sums are exact, so that tasks may depend on the size of the team. */
#include "kernels/integer/pool.h"
#include "kernels/integer/rows.h"
#include "kernels/integer_tables.h"

#include <string.h>

#if defined(__x86_64__)
#define VECTOR_REGISTER(x) "v"(x)
#else
#define VECTOR_REGISTER(x) "w"(x)
#endif

enum {
    COLUMNS = VL * TILE_VECTORS,
    BLOCK_BYTES = 192 * 1024, /* of packed A, which stays in the second cache */
    DEPTH = 4096,             /* numbers of K that are packed at once */
    PIXELS = 1024,            /* the same, where both sides are packed for it */
    ROWS = 16 * TILE_ROWS,    /* of A at most in a task */
    FILTER_PANELS = 4,        /* of B in a task of the filter's gradient */
};

typedef int32_t word __attribute__((may_alias));
typedef int32_t vector __attribute__((vector_size(VL * 4), may_alias, aligned(4)));
#if NUMBERS == 4
typedef int8_t element;
#else
typedef int16_t element;
#endif

static inline __attribute__((always_inline)) vector dot(vector sums, vector a, vector b);

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

/* ---- a tile ---- */

/* tile (m, COLUMNS) = start (COLUMNS) + A's rows times a panel. With `columns`, a word of all rows
 * lies together and words are so far apart, else the rows are. */
static inline __attribute__((always_inline)) void tile_body(bool columns, int nv, int m,
                                                            int64_t words, const word *a,
                                                            int64_t a_step, const word *b,
                                                            const int32_t *start, int32_t *tile) {
    vector sums[TILE_ROWS][TILE_VECTORS];
#pragma GCC unroll 16
    for (int i = 0; i < m; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            sums[i][j] = *(const vector *)(start + j * VL);
    }
    const word *base[4] = {a, a + 3 * a_step, a + 6 * a_step, a + 9 * a_step};
    for (int64_t p = 0; p < words; p++) {
        vector row[TILE_VECTORS];
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            row[j] = *(const vector *)(b + j * VL);
#pragma GCC unroll 16
        for (int i = 0; i < m; i++) {
            const vector x = (vector){0} + (columns ? a[i] : base[i / 3][i % 3 * a_step]);
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

typedef void tile_function(int64_t words, const word *a, int64_t a_step, const word *b,
                           const int32_t *start, int32_t *tile);

#define TILE(FORM, NV, M)                                                                          \
    static void tile_##FORM##_##NV##_##M(int64_t words, const word *a, int64_t a_step,             \
                                         const word *b, const int32_t *start, int32_t *tile) {     \
        tile_body(FORM, NV, M, words, a, a_step, b, start, tile);                                  \
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
static void copy_numbers(int64_t n, const int8_t *from, element *to, int offset) {
    for (int64_t i = 0; i < n; i++)
        to[i] = (element)(from[i] ^ offset);
}

/* Words of numbers that lie below each other, of n columns. */
static void interleave(int64_t n, const int8_t *const *rows, word *to, int offset) {
    const int8_t *a = rows[0], *b = rows[1];
#if NUMBERS == 4
    const int8_t *c = rows[2], *d = rows[3];
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
static void begin_sums(int64_t words, const word *panel, int32_t *start) {
    vector sums[TILE_VECTORS];
    for (int j = 0; j < TILE_VECTORS; j++)
        sums[j] = (vector){0};
    if (OFFSET) {
        const vector offsets = (vector){0} + (int32_t)0x80808080;
        for (int64_t p = 0; p < words; p++) {
            for (int j = 0; j < TILE_VECTORS; j++)
                sums[j] = dot(sums[j], offsets, *(const vector *)(panel + p * COLUMNS + j * VL));
        }
    }
    for (int j = 0; j < TILE_VECTORS; j++)
        *(vector *)(start + j * VL) = -sums[j];
}

static inline word word_at(const int8_t *b, int64_t n) {
    element numbers[NUMBERS] = {0};
    word w;
    for (int64_t i = 0; i < n; i++)
        numbers[i] = b[i];
    memcpy(&w, numbers, sizeof w);
    return w;
}

/* A panel of `width` columns whose numbers are together in K: column j at b + j * apart. */
static void pack_panel_columns(int64_t k, int64_t width, const int8_t *b, int64_t apart, word *to) {
    const int64_t whole = k / NUMBERS;
    if (width < COLUMNS)
        memset(to, 0, (size_t)(words_of(k) * COLUMNS) * sizeof *to);
    for (int64_t p = 0; p < whole; p += 16) {
        for (int64_t j = 0; j < width; j++) {
            for (int64_t i = p; i < least(p + 16, whole); i++)
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
    const int8_t *x, *end;
    int64_t h, w, c, pixel; /* c numbers of each pixel, and how far apart those are */
    int64_t p, q, stride_h, stride_w;
    int64_t n_r, n_s, r0, s0, r_step, s_step;
} view;

/* A window's first pixel, if there were no border. */
typedef struct place {
    const int8_t *image;
    int32_t y, x;
} place;

typedef struct product {
    int64_t m, n, k;
    const int8_t *a, *b;
    int64_t a_apart, b_apart;  /* of rows, or of columns where those lie together */
    bool a_columns, b_columns; /* A's numbers of one K, B's of one column are together */
    const view *rows, *pixels; /* of convolutions: A's rows; B's columns, of each pixel as K */
    /* To the data: row (r, s, k) of B is that of tap (r0 + r * r_step, s0 + s * s_step). */
    int64_t filter_s, tap_apart, r0, s0, r_step, s_step;
    qn_integer_result y;
    bool add;
    int64_t y_apart;
    const view *scattered; /* to the data: row (n, p, q) is pixel (n, h, w) of the result */
    int64_t first_h, first_w;
    /* packed */
    word *panels; /* of all of B, or null: packed by the task */
    int32_t *start;
    char *scratch;
    size_t scratch_bytes;
    int64_t row_block, panel_block, depth;
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
static inline const int8_t *pixel_of(const view *v, const place *at, int64_t r, int64_t s) {
    const int64_t y = at->y + r * v->r_step, x = at->x + s * v->s_step;
    if ((uint64_t)y >= (uint64_t)v->h || (uint64_t)x >= (uint64_t)v->w)
        return NULL;
    return at->image + (y * v->w + x) * v->pixel;
}

static inline void copy_or_clear(int64_t n, const int8_t *from, int8_t *to) {
    if (from)
        copy_few(n, from, to);
    else
        memset(to, 0, (size_t)n);
}

/* All taps of a row of a window, whose pixels lie together. */
static inline void copy_taps(const view *v, const place *at, int64_t r, int8_t *to) {
    const int64_t left = most(0, least(v->n_s, -(int64_t)at->x));
    const int64_t right = most(left, least(v->n_s, v->w - at->x));
    const int8_t *pixel = left < right ? pixel_of(v, at, r, left) : NULL;
    if (!pixel) {
        memset(to, 0, (size_t)(v->n_s * v->c));
        return;
    }
    if (left > 0)
        memset(to, 0, (size_t)(left * v->c));
    copy_few((right - left) * v->c, pixel, to + left * v->c);
    if (right < v->n_s)
        memset(to + right * v->c, 0, (size_t)((v->n_s - right) * v->c));
}

/* Moves of so many bytes, the last one of which goes on behind what it is to copy. */
enum { SLACK = 16 };

/* n numbers of a window from `first` on, where all of it is inside the image: a run for each row of
 * taps. */
static void copy_inside(const view *v, const place *at, int64_t first, int64_t n, int8_t *to) {
    const int64_t row = v->n_s * v->c, apart = v->r_step * v->w * v->pixel;
    const int8_t *pixel = at->image + (at->y * v->w + at->x) * v->pixel;
    int64_t from = first;
    if (n == v->n_r * row && row <= 2 * SLACK &&
        v->end - pixel >= (v->n_r - 1) * most(apart, 0) + 2 * SLACK) {
        for (int64_t r = 0; r < v->n_r; r++, to += row, pixel += apart) {
            memcpy(to, pixel, SLACK);
            if (row > SLACK)
                memcpy(to + SLACK, pixel + SLACK, SLACK);
        }
        return;
    }
    if (first > 0) {
        pixel += first / row * apart;
        from = first % row;
    }
    for (int64_t count; n > 0; n -= count, to += count, pixel += apart, from = 0) {
        count = least(row - from, n);
        const int8_t *run = pixel + from;
        if (count > 64 || v->end - run < count + SLACK) {
            memcpy(to, run, (size_t)count);
            continue;
        }
        for (int64_t i = 0; i < count; i += SLACK)
            memcpy(to + i, run + i, SLACK);
    }
}

/* Numbers [first, end) of a window; up to SLACK more are written behind them. */
static void copy_window(const view *v, const place *at, int64_t first, int64_t end, int8_t *to) {
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
        const int8_t *pixel = pixel_of(v, at, r, s);
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

static int64_t pack_a(const product *g, int64_t first, int64_t rows, int64_t k0, int64_t k1,
                      word *to) {
    static const int8_t zeros[ROWS];
    if (!g->a_columns) {
        const int64_t step = row_words(k1 - k0);
        walk at = g->rows ? walk_from(g->rows, first) : (walk){0};
        for (int64_t i = 0; i < rows && k0 < k1; i++) {
            element *row = (element *)(to + i * step);
            int8_t window[DEPTH + SLACK];
            if (!g->rows) {
                copy_numbers(k1 - k0, g->a + (first + i) * g->a_apart + k0, row, OFFSET);
                continue;
            }
            const place here = walk_on(&at);
            copy_window(g->rows, &here, k0, k1, window);
            for (int64_t j = 0; j < k1 - k0; j += SLACK)
                copy_numbers(SLACK, window + j, row + j, OFFSET);
        }
        return step;
    }
    for (int64_t k = k0; k < k1; k += NUMBERS, to += rows) {
        const int8_t *numbers[NUMBERS];
        for (int i = 0; i < NUMBERS; i++)
            numbers[i] = k + i < k1 ? g->a + (k + i) * g->a_apart + first : zeros;
        interleave(rows, numbers, to, OFFSET);
    }
    return rows;
}

/* Row k of B, whose columns are together. */
static const int8_t *b_row(const product *g, int64_t k) {
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
    static const int8_t zeros[COLUMNS];
    if (g->b_columns) {
        pack_panel_columns(k1 - k0, width, g->b + first * g->b_apart + k0, g->b_apart, to);
        return;
    }
    for (int64_t k = k0; k < k1; k += NUMBERS, to += COLUMNS) {
        const int8_t *rows[NUMBERS];
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
    static const int8_t zeros[COLUMNS];
    int8_t windows[NUMBERS * COLUMNS + SLACK] __attribute__((aligned(64))) = {0};
    const int64_t tap = first / v->c, from = first % v->c;
    const bool is_one = from + COLUMNS <= v->c && width == COLUMNS;
    for (int64_t k = 0; k < n_rows; k += NUMBERS, to += COLUMNS) {
        const int8_t *rows[NUMBERS];
        for (int i = 0; i < NUMBERS; i++) {
            const place *at = k + i < n_rows ? &places[k + i] : NULL;
            const int8_t *pixel = at && is_one ? pixel_of(v, at, tap / v->n_s, tap % v->n_s) : NULL;
            if (at && !is_one)
                copy_window(v, at, first, first + width, windows + i * COLUMNS);
            if (width < COLUMNS)
                memset(windows + i * COLUMNS + width, 0, (size_t)(COLUMNS - width));
            rows[i] = pixel ? pixel + from : at && !is_one ? windows + i * COLUMNS : zeros;
        }
        interleave(COLUMNS, rows, to, 0);
    }
}

/* ---- a task: some rows times some panels ---- */

typedef uint32_t sizes __attribute__((vector_size(VL * 4), may_alias));
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

static void raise_largest(const qn_integer_result *y, sizes largest) {
    uint32_t most_of_all = 0;
    for (int j = 0; j < VL; j++)
        most_of_all = largest[j] > most_of_all ? largest[j] : most_of_all;
    qn_integer_largest(y, most_of_all);
}

typedef struct block {
    const word *a;
    int64_t a_step, words, first_row, rows;
    bool adds, is_last;
} block;

static void multiply_panel(const product *g, const block *d, const word *panel,
                           const int32_t *start, int64_t first, sizes *largest) {
    int32_t tile[TILE_ROWS * COLUMNS] __attribute__((aligned(64)));
    uint32_t *all = (uint32_t *)(void *)largest;
    const int64_t width = least(COLUMNS, g->n - first);
    int64_t m;
    for (int64_t i = 0; i < d->rows; i += m) {
        const int64_t left = d->rows - i;
        const int size = left >= TILE_ROWS ? 2 : left >= 4 ? 1 : 0;
        m = size == 2 ? TILE_ROWS : size == 1 ? 4 : 1;
        tiles[g->a_columns][width > VL][size](d->words, d->a + i * (g->a_columns ? 1 : d->a_step),
                                              d->a_step, panel, start, tile);
        switch (finish_of(g, width, d->adds, d->is_last)) {
#define FINISH(how)                                                                                \
    case how:                                                                                      \
        finish_tile(g, how, d->first_row + i, m, first, width, tile, all);                         \
        continue;
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
        for (int64_t row = 0; row < m; row++)
            finish_row(g, first, width, tile + row * COLUMNS,
                       row_of(g, d->first_row + i + row) + first, d->adds, d->is_last, largest);
    }
}

/* Packed panels of all of K start with all that is too much, those of a task with their part. */
static void multiply_block(const product *g, const block *d, int64_t panel, int64_t k0, int64_t k1,
                           const place *places, word *space, sizes *largest) {
    static const int32_t zeros[COLUMNS];
    int32_t start[COLUMNS];
    const int64_t first = panel * COLUMNS;
    if (g->panels) {
        const word *b = g->panels + (panel * words_of(g->k) + k0 / NUMBERS) * COLUMNS;
        multiply_panel(g, d, b, k0 == 0 ? g->start + first : zeros, first, largest);
        return;
    }
    pack_windows(g->pixels, first, least(COLUMNS, g->n - first), places, k1 - k0, space);
    begin_sums(d->words, space, start);
    multiply_panel(g, d, space, start, first, largest);
}

static void product_task(void *context, int64_t begin, int64_t end, int thread) {
    const product *g = context;
    const int64_t n_panels = ceil_div(g->n, COLUMNS);
    const int64_t n_columns = ceil_div(n_panels, g->panel_block);
    word *a = (word *)(void *)(g->scratch + (size_t)thread * g->scratch_bytes);
    word *space = a + g->row_block * row_words(least(g->k, g->depth));
    place *places = (place *)(void *)(space + words_of(PIXELS) * COLUMNS);
    sizes largest[TILE_VECTORS] = {{0}};
    for (int64_t task = begin; task < end; task++) {
        const int64_t first = task / n_columns * g->row_block;
        const int64_t panel = task % n_columns * g->panel_block;
        block d = {.a = a, .first_row = first, .rows = least(g->row_block, g->m - first)};
        for (int64_t k0 = 0; k0 < most(g->k, 1); k0 += g->depth) {
            const int64_t k1 = least(g->k, k0 + g->depth);
            d.words = words_of(k1 - k0);
            d.a_step = pack_a(g, first, d.rows, k0, k1, a);
            d.adds = g->add || k0 > 0;
            d.is_last = k1 == g->k;
            walk at = g->panels ? (walk){0} : walk_from(g->pixels, k0);
            for (int64_t k = k0; !g->panels && k < k1; k++)
                places[k - k0] = walk_on(&at);
            for (int64_t j = panel; j < least(n_panels, panel + g->panel_block); j++)
                multiply_block(g, &d, j, k0, k1, places, space, largest);
        }
    }
    for (int j = 0; j < TILE_VECTORS; j++)
        raise_largest(&g->y, largest[j]);
}

static void pack_task(void *context, int64_t begin, int64_t end, int thread) {
    const product *g = context;
    (void)thread;
    for (int64_t panel = begin; panel < end; panel++) {
        const int64_t first = panel * COLUMNS;
        word *to = g->panels + first * words_of(g->k);
        pack_panel(g, first, least(COLUMNS, g->n - first), 0, g->k, to);
        begin_sums(words_of(g->k), to, g->start + first);
    }
}

/* Blocks, by the sizes and the threads alone. */
static void choose_blocks(product *g, int n_threads, bool packs_all) {
    const int64_t n_panels = ceil_div(g->n, COLUMNS);
    g->depth = packs_all ? DEPTH : PIXELS;
    const int64_t row_bytes = 4 * row_words(least(g->k, g->depth));
    g->row_block = least(ROWS, BLOCK_BYTES / row_bytes / TILE_ROWS * TILE_ROWS);
    g->row_block = most(TILE_ROWS, least(g->row_block, ceil_div(g->m, TILE_ROWS) * TILE_ROWS));
    const int64_t n_rows = ceil_div(g->m, g->row_block);
    const int64_t wanted = n_threads > 1 ? ceil_div(4 * n_threads, n_rows) : 1;
    g->panel_block = most(1, n_panels / most(1, least(wanted, n_panels)));
    g->scratch_bytes =
        (size_t)(g->row_block * row_bytes +
                 (packs_all ? 0 : words_of(PIXELS) * COLUMNS * 4 + PIXELS * 16) + 64);
    g->scratch_bytes = (g->scratch_bytes + 63) / 64 * 64;
}

/* Of rows of at most k numbers: blocks of shorter rows have more of them, but no more bytes. */
static size_t scratch_limit(int64_t k) {
    const int64_t row_bytes = 4 * row_words(least(k, DEPTH));
    return (size_t)((most(least(BLOCK_BYTES, ROWS * row_bytes), TILE_ROWS * row_bytes) + 128) / 64 *
                    64);
}

static size_t panel_bytes(int64_t n, int64_t k) {
    return (size_t)(ceil_div(n, COLUMNS) * COLUMNS * (words_of(k) + 1)) * sizeof(word);
}

static size_t product_bytes(int64_t m, int64_t n, int64_t k, int n_threads, bool packs_all) {
    product g = {.m = m, .n = n, .k = k};
    choose_blocks(&g, n_threads, packs_all);
    return (packs_all ? panel_bytes(n, k) : 0) + 64 + (size_t)n_threads * g.scratch_bytes;
}

static void run_product(qn_team *team, product *g, bool packs_all, void *workspace) {
    const int64_t n_panels = ceil_div(g->n, COLUMNS);
    choose_blocks(g, qn_team_size(team), packs_all);
    g->scratch = workspace;
    if (packs_all) {
        g->panels = workspace;
        g->start = (int32_t *)(void *)(g->panels + n_panels * COLUMNS * words_of(g->k));
        g->scratch += panel_bytes(g->n, g->k);
        qn_team_run(team, n_panels, pack_task, g);
    }
    qn_team_run(team, ceil_div(g->m, g->row_block) * ceil_div(n_panels, g->panel_block),
                product_task, g);
}

/* ---- the kernels ---- */

/* Sums, and what they are shifted to, from number `at` on. */
static void move_result(qn_integer_result *y, int64_t at) {
    if (y->sums)
        y->sums += at;
    if (y->shifted)
        y->shifted += at;
}

static void clear_largest(const qn_integer_result *y) {
    if (y->largest)
        *y->largest = 0;
}

static void gemm(qn_team *team, const qn_gemm_shape *d, const int8_t *a, const int8_t *b,
                 const qn_integer_result *y, void *workspace) {
    product g = {.m = d->m,
                 .n = d->n,
                 .k = d->k,
                 .a = a,
                 .b = b,
                 .y = *y,
                 .add = d->add,
                 .y_apart = d->n,
                 .a_columns = d->transpose_a,
                 .b_columns = d->transpose_b,
                 .a_apart = d->transpose_a ? d->m : d->k,
                 .b_apart = d->transpose_b ? d->k : d->n};
    clear_largest(y);
    run_product(team, &g, true, workspace);
}

static size_t gemm_workspace(const qn_gemm_shape *d, int n_threads) {
    return product_bytes(d->m, d->n, d->k, n_threads, true);
}

#ifdef HAS_PAIRS
#include "kernels/integer/winograd.h"
#else
static bool is_tiled(const qn_conv2d_shape *d, qn_conv2d_pass pass) {
    (void)d;
    (void)pass;
    return false;
}

static bool is_tiled_in_parts(const qn_conv2d_shape *d, qn_conv2d_pass pass) {
    return is_tiled(d, pass);
}

static size_t tiled_workspace(const qn_conv2d_shape *d, qn_conv2d_pass pass, int n_threads) {
    (void)d;
    (void)pass;
    (void)n_threads;
    return 0;
}

static void run_tiled(qn_team *team, const qn_conv2d_shape *d, qn_conv2d_pass pass, const int8_t *a,
                      const int8_t *b, const qn_integer_result *y, void *workspace) {
    (void)team;
    (void)d;
    (void)pass;
    (void)a;
    (void)b;
    (void)y;
    (void)workspace;
}
#endif

#include "kernels/integer/depthwise.h"

/* Groups of few channels fill no lanes. */
static bool is_thin(const qn_conv2d_shape *d) {
    return d->groups > 1 && d->c / d->groups < 4;
}

static view forward_view(const qn_conv2d_shape *d, const int8_t *x) {
    return (view){.x = x,
                  .end = x + ((d->n * d->h * d->w - 1) * d->c + d->c / d->groups),
                  .h = d->h,
                  .w = d->w,
                  .c = d->c / d->groups,
                  .pixel = d->c,
                  .p = d->p,
                  .q = d->q,
                  .stride_h = d->stride_h,
                  .stride_w = d->stride_w,
                  .n_r = d->r,
                  .n_s = d->s,
                  .r0 = -d->pad_top,
                  .s0 = -d->pad_left,
                  .r_step = d->dilation_h,
                  .s_step = d->dilation_w};
}

static void conv2d_forward(qn_team *team, const qn_conv2d_shape *d, const int8_t *x,
                           const int8_t *w, const qn_integer_result *y, void *workspace) {
    const int64_t part = d->c / d->groups, outputs = d->k / d->groups, k = d->r * d->s * part;
    const bool is_plain = d->r * d->s * d->stride_h * d->stride_w == 1 && d->p == d->h &&
                          d->q == d->w && d->pad_top == 0 && d->pad_left == 0;
    if (is_depthwise(d)) {
        run_depthwise(team, d, QN_CONV2D_FORWARD, x, w, y, workspace);
        return;
    }
    if (is_thin(d)) {
        qn_integer_ref.conv2d_forward(team, d, x, w, y, workspace);
        return;
    }
    if (is_tiled(d, QN_CONV2D_FORWARD)) {
        run_tiled(team, d, QN_CONV2D_FORWARD, x, w, y, workspace);
        return;
    }
    clear_largest(y);
    for (int64_t i = 0; i < d->groups; i++) {
        const view v = forward_view(d, x + i * part);
        product g = {.m = d->n * d->p * d->q,
                     .n = outputs,
                     .k = k,
                     .a = v.x,
                     .a_apart = d->c,
                     .rows = is_plain ? NULL : &v,
                     .b = w + i * outputs * k,
                     .b_columns = true,
                     .b_apart = k,
                     .y = *y,
                     .y_apart = step_of(d)};
        move_result(&g.y, i * outputs);
        if (y->bias)
            g.y.bias += i * outputs;
        run_product(team, &g, true, workspace);
    }
}

/* Taps of one axis whose outputs' pixels are all those of one remainder by the stride. */
typedef struct phase {
    int64_t first, step, n;     /* taps of the filter */
    int64_t from, from_step, m; /* their outputs, for the first of m pixels */
} phase;

static phase phase_of(int64_t remainder, int64_t extent, int64_t taps, int64_t pad,
                      int64_t dilation, int64_t stride) {
    phase f = {.step = 1, .m = remainder < extent ? ceil_div(extent - remainder, stride) : 0};
    while (f.step * dilation % stride != 0)
        f.step++;
    while (f.first < f.step && (remainder + pad - f.first * dilation) % stride != 0)
        f.first++;
    if (f.first < f.step && f.first < taps)
        f.n = (taps - 1 - f.first) / f.step + 1;
    f.from = (remainder + pad - f.first * dilation) / stride;
    f.from_step = -(f.step * dilation / stride);
    return f;
}

/* The same taps in the order of their outputs. */
static phase turned(phase f) {
    const int64_t last = most(0, f.n - 1);
    f.first += last * f.step;
    f.from += last * f.from_step;
    f.step = -f.step;
    f.from_step = -f.from_step;
    return f;
}

static void data_phase(qn_team *team, const qn_conv2d_shape *d, const phase *row,
                       const phase *column, int64_t first_h, int64_t first_w, const int8_t *dy,
                       const int8_t *w, const qn_integer_result *dx, void *workspace) {
    const int64_t part = d->c / d->groups, outputs = d->k / d->groups;
    const view v = {.x = dy,
                    .end = dy + (d->n * d->p * d->q - 1) * step_of(d) + outputs,
                    .h = d->p,
                    .w = d->q,
                    .c = outputs,
                    .pixel = step_of(d),
                    .p = row->m,
                    .q = column->m,
                    .stride_h = 1,
                    .stride_w = 1,
                    .n_r = row->n,
                    .n_s = column->n,
                    .r0 = row->from,
                    .s0 = column->from,
                    .r_step = row->from_step,
                    .s_step = column->from_step};
    const view to = {.h = d->h,
                     .w = d->w,
                     .p = row->m,
                     .q = column->m,
                     .stride_h = d->stride_h,
                     .stride_w = d->stride_w};
    product g = {.m = d->n * row->m * column->m,
                 .n = part,
                 .k = row->n * column->n * outputs,
                 .rows = &v,
                 .b = w,
                 .b_apart = d->r * d->s * part,
                 .tap_apart = part,
                 .filter_s = d->s,
                 .r0 = row->first,
                 .s0 = column->first,
                 .r_step = row->step,
                 .s_step = column->step,
                 .y = *dx,
                 .y_apart = d->c,
                 .scattered = d->stride_h * d->stride_w > 1 ? &to : NULL,
                 .first_h = first_h,
                 .first_w = first_w};
    run_product(team, &g, true, workspace);
}

static void conv2d_backward_data(qn_team *team, const qn_conv2d_shape *d, const int8_t *dy,
                                 const int8_t *w, const qn_integer_result *dx, void *workspace) {
    const int64_t part = d->c / d->groups, outputs = d->k / d->groups;
    if (is_depthwise(d)) {
        run_depthwise(team, d, QN_CONV2D_BACKWARD_DATA, dy, w, dx, workspace);
        return;
    }
    if (is_thin(d)) {
        qn_integer_ref.conv2d_backward_data(team, d, dy, w, dx, workspace);
        return;
    }
    if (is_tiled(d, QN_CONV2D_BACKWARD_DATA)) {
        run_tiled(team, d, QN_CONV2D_BACKWARD_DATA, dy, w, dx, workspace);
        return;
    }
    clear_largest(dx);
    for (int64_t i = 0; i < d->groups * d->stride_h * d->stride_w; i++) {
        const int64_t group = i / d->stride_h / d->stride_w;
        const int64_t first_h = i / d->stride_w % d->stride_h, first_w = i % d->stride_w;
        const phase row = phase_of(first_h, d->h, d->r, d->pad_top, d->dilation_h, d->stride_h);
        const phase column =
            turned(phase_of(first_w, d->w, d->s, d->pad_left, d->dilation_w, d->stride_w));
        qn_integer_result to = *dx;
        move_result(&to, group * part);
        if (row.m > 0 && column.m > 0)
            data_phase(team, d, &row, &column, first_h, first_w, dy + group * outputs,
                       w + group * outputs * d->r * d->s * part, &to, workspace);
    }
}

static void conv2d_backward_filter(qn_team *team, const qn_conv2d_shape *d, const int8_t *x,
                                   const int8_t *dy, const qn_integer_result *dw, void *workspace) {
    const int64_t part = d->c / d->groups, outputs = d->k / d->groups, n = d->r * d->s * part;
    if (is_depthwise(d)) {
        run_depthwise(team, d, QN_CONV2D_BACKWARD_FILTER, x, dy, dw, workspace);
        return;
    }
    if (is_thin(d)) {
        qn_integer_ref.conv2d_backward_filter(team, d, x, dy, dw, workspace);
        return;
    }
    if (is_tiled(d, QN_CONV2D_BACKWARD_FILTER)) {
        run_tiled(team, d, QN_CONV2D_BACKWARD_FILTER, x, dy, dw, workspace);
        return;
    }
    clear_largest(dw);
    for (int64_t i = 0; i < d->groups; i++) {
        const view v = forward_view(d, x + i * part);
        product g = {.m = outputs,
                     .n = n,
                     .k = d->n * d->p * d->q,
                     .a = dy + i * outputs,
                     .a_columns = true,
                     .a_apart = step_of(d),
                     .pixels = &v,
                     .y = *dw,
                     .y_apart = n,
                     .add = d->add};
        move_result(&g.y, i * outputs * n);
        run_product(team, &g, false, workspace);
    }
}

/* Of a phase no more than of all taps. */
static size_t conv2d_workspace(const qn_conv2d_shape *d, qn_conv2d_pass pass, int n_threads) {
    const int64_t part = d->c / d->groups, outputs = d->k / d->groups, taps = d->r * d->s;
    const int64_t pixels = d->n * d->p * d->q;
    if (is_depthwise(d))
        return depthwise_workspace(d, pass, n_threads);
    if (is_tiled(d, pass))
        return tiled_workspace(d, pass, n_threads);
    if (pass == QN_CONV2D_FORWARD)
        return product_bytes(pixels, outputs, taps * part, n_threads, true);
    if (pass == QN_CONV2D_BACKWARD_FILTER)
        return product_bytes(outputs, taps * part, pixels, n_threads, false);
    return panel_bytes(part, taps * outputs) + 64 +
           (size_t)n_threads * scratch_limit(taps * outputs);
}

static bool gemm_keeps(const qn_gemm_shape *d) {
    return d->k > DEPTH;
}

/* To the data, rows of outputs; a phase has no more taps. */
static bool conv2d_keeps(const qn_conv2d_shape *d, qn_conv2d_pass pass) {
    const int64_t part = d->c / d->groups, outputs = d->k / d->groups, taps = d->r * d->s;
    if (is_depthwise(d) || is_thin(d))
        return false;
    if (is_tiled(d, pass))
        return is_tiled_in_parts(d, pass);
    if (pass == QN_CONV2D_BACKWARD_FILTER)
        return d->n * d->p * d->q > PIXELS;
    return taps * (pass == QN_CONV2D_FORWARD ? part : outputs) > DEPTH;
}

/* ---- what the processor can do at most ---- */

/* Sums as in a tile, of words in registers, which the compiler knows nothing of. */
static int32_t peak(int64_t rounds) {
    vector sums[TILE_ROWS * TILE_VECTORS], a = {0}, b = {0};
    __asm__("" : "+" VECTOR_REGISTER(a), "+" VECTOR_REGISTER(b));
#pragma GCC unroll 32
    for (int i = 0; i < TILE_ROWS * TILE_VECTORS; i++)
        sums[i] = (vector){0} + i;
    for (int64_t round = 0; round < rounds; round++) {
#pragma GCC unroll 32
        for (int i = 0; i < TILE_ROWS * TILE_VECTORS; i++) {
            __asm__("" : "+" VECTOR_REGISTER(a));
            sums[i] = dot(sums[i], a, b);
        }
    }
    for (int i = 1; i < TILE_ROWS * TILE_VECTORS; i++)
        sums[0] += sums[i];
    return sums[0][0];
}

const qn_integer_kernels TABLE = {
    .name = TABLE_NAME,
    .isa = SET,
    .peak = peak,
    .peak_operations = INT64_C(2) * TILE_ROWS * TILE_VECTORS * VL * NUMBERS,
    .gemm = gemm,
    .gemm_workspace = gemm_workspace,
    .conv2d_forward = conv2d_forward,
    .conv2d_backward_data = conv2d_backward_data,
    .conv2d_backward_filter = conv2d_backward_filter,
    .conv2d_workspace = conv2d_workspace,
    .max_pool = int8_max_pool,
    .max_pool_backward = int8_max_pool_backward,
    .gemm_keeps = gemm_keeps,
    .conv2d_keeps = conv2d_keeps,
    .rows = QN_ROWS,
};
