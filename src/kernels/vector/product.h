/* C (M, N) = A (M, K) B (K, N) over the tiles of an instruction set, in four ways:
 *   by panels  B is packed once into panels that a tile reads straight; a task is a block of rows
 *              and columns of C. For convolutions and large products.
 *   by rows    a task copies the rows of B that it needs, K-block by K-block. For products along
 *              the pixels (filter gradients) and those whose B is read once.
 *   streamed   up to eight rows of A: rows of B are read from end to end (stream_tile.h).
 *   by quads   up to four rows of A and a B (N, K): B is read where it lies (quad_tile.h).
 * Each element of C is a chain over K-blocks of DEPTH_STEP, each summed from zero by a tile; so its
 * bits do not depend on the blocks of M and N, which may be shared out among the team. */
#ifndef QN_KERNELS_VECTOR_PRODUCT_H
#define QN_KERNELS_VECTOR_PRODUCT_H

#include "kernels/ref/elementwise.h"
#include "kernels/tilings.h"
#include "kernels/vector/gather.h"
#include "kernels/vector/tiles.h"

enum {
    TILE_COLUMNS = TILE_VECTORS * VL,
    DEPTH_STEP = 256, /* the K-block: part of what a result is; not to be tuned at run time */
    ROWS_MAX = 96,    /* rows of C in a task; a multiple of four tiles */
    ROWS_MOST = VL == 16 ? 192 : 96, /* the same where B is large: it is read the less often */
    LARGE = 1 << 20,                 /* floats of a B that leaves the caches */
    ROW_PAD = 16,                    /* keeps rows of a block from meeting in one cache set */
    /* Short vectors are multiplied by lanes of others, so that A is best read by columns: its rows
     * are turned where so many tiles side by side read them. */
    TURNS_ROWS = VL == 4,
    TURNED_TILES = 3,
    STRIP_COLUMNS = 16 * TILE_COLUMNS,
    /* So short a depth leaves most of the time to C, which is then written along its rows. */
    SHORT_DEPTH = 64, /* where B is read but once */
    SHORT_PANELS = 64,
    GATHER_MAX = 288, /* columns of B that a task by rows copies */
    PLACE_MOST = 128, /* so narrow a B is read where it lies, and one for so few rows of C */
    PLACE_ROWS = 48,
    PLACE_ROWS_MOST = 512,
};

/* What of a tiling (kernels/tilings.h) each knows. */
enum {
    ROWS_TILINGS = 1u << QN_TILING_COLUMNS | 1u << QN_TILING_FETCH,
    PANELS_TILINGS = ROWS_TILINGS | 1u << QN_TILING_SPLIT | 1u << QN_TILING_ROWS,
};

typedef struct product {
    int64_t m, n, k;
    /* A: rows contiguous (a_columns false) or columns contiguous, a_step apart; or a window. */
    const float *a;
    int64_t a_stride;
    bool a_columns;
    const window *a_window;
    /* B: panels, or rows b_row apart, or a window, or rows of a filter. */
    float *panels;
    const float *b;
    int64_t b_row;
    const window *b_window;
    const struct filter_rows *b_filter;
    int64_t chunk; /* by rows: K-blocks do not cross multiples of it */
    bool add;      /* by rows and by panels: go on from what C holds */
    /* C, rows c_row apart; or on the grid of `to`, row by row. */
    float *c;
    int64_t c_row;
    const struct grid *to;
    const float *bias;
    qn_activation activation;
    /* the tiling */
    qn_tiling tiling;
    int64_t m_block, n_block, m_blocks, n_blocks;
    float *scratch;
    int64_t scratch_size; /* floats of a thread */
} product;

/* Where a phase of a strided backward pass writes: pixel (i, j) of rows x columns is pixel
 * (i * step_h + offset_h, ...) of an image of h x w. */
typedef struct grid {
    int64_t rows, columns, h, w, step_h, step_w, offset_h, offset_w;
} grid;

static int64_t padded(int64_t n) {
    return round_up(n, VL);
}

/* Rows of C in a task, at most, for a B of this size. */
static int64_t rows_bound(int64_t n, int64_t k) {
    return n * k >= 2 * LARGE ? ROWS_MOST : ROWS_MAX;
}

/* What a tiling comes to; never more than the fixed rule, but for a strip, which takes no memory.
 */
static int64_t rows_most(const product *t) {
    static const int64_t rows[] = {ROWS_MAX, ROWS_MAX / 2, ROWS_MAX / 4, ROWS_MAX / 4 * 3};
    const uint8_t kind = t->tiling.kinds[QN_TILING_ROWS];
    return kind == 0 ? rows_bound(t->n, t->k) : rows[kind];
}

static int64_t strip_columns(qn_tiling tiling) {
    static const int64_t columns[] = {STRIP_COLUMNS, STRIP_COLUMNS / 4, STRIP_COLUMNS * 4};
    return columns[tiling.kinds[QN_TILING_COLUMNS]];
}

static int64_t gather_most(qn_tiling tiling) {
    static const int64_t columns[] = {GATHER_MAX, GATHER_MAX / 2, GATHER_MAX / 3};
    return columns[tiling.kinds[QN_TILING_COLUMNS]];
}

/* ---- one tile ---- */

/* Bias and activation over a finished tile that is still in the first cache. Rows that follow one
 * another count as one: the rarer activations are long chains, of which a short row has too few to
 * keep a processor busy. */
static void finish_tile(qn_activation activation, const float *bias_row, int64_t rows,
                        int64_t columns, float *c, int64_t c_row) {
    const float slope = (float)activation.slope;
    for (int64_t i = 0; bias_row && i < rows; i++) {
        float *restrict row = c + i * c_row;
        for (int64_t x = 0; x < columns; x++)
            row[x] += bias_row[x];
    }
    if (c_row == columns) {
        columns *= rows;
        rows = 1;
    }
    for (int64_t i = 0; activation.kind != QN_ACTIVATION_NONE && i < rows; i++) {
        float *restrict row = c + i * c_row;
#define LOOP(KIND)                                                                                 \
    for (int64_t x = 0; x < columns; x++)                                                          \
    row[x] = activate(KIND, slope, row[x])
        WITH_OFTEN(activation.kind, LOOP, activate_row(activation, columns, row, row))
#undef LOOP
    }
}

/* Copies a narrow tile out. Where rows of C follow each other, whole vectors are stored as long as
 * what they overwrite is within the tile and written later. */
static void store_narrow(const float *sums, int64_t rows, int64_t columns, float *c,
                         int64_t c_row) {
    int64_t i = 0;
    if (c_row == columns && columns < VL) {
        for (; (rows - i) * columns >= VL; i++)
            *(vector *)(c + i * c_row) = *(const vector *)(sums + i * TILE_COLUMNS);
    }
    for (; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++)
            c[i * c_row + j] = sums[i * TILE_COLUMNS + j];
    }
}

/* What a tile of C is made from. */
typedef struct operands {
    int64_t depth;
    const float *a, *b;
    int64_t a_stride, b_row;
    bool add, is_last; /* add to what is there; the last K-block */
    bool a_columns;
    bool is_far;       /* A is read but once, in rows */
    bool in_place;     /* B is not copied */
    const float *next; /* the next K-block of a B in rows next_row apart; null: not to be fetched */
    int64_t next_row;
} operands;

/* The tile of `rows` rows and `columns` columns at c, column j of C. A column count that is no
 * whole number of vectors goes through a copy, so that bias and activation see whole vectors. */
static void run_tile(const product *t, const operands *o, int64_t rows, int64_t columns, int64_t j,
                     float *c, int64_t c_row) {
    const int64_t vectors = ceil_div(columns, VL);
    const bool finish = o->is_last && (t->bias || t->activation.kind != QN_ACTIVATION_NONE);
    const float *bias_row = t->bias ? t->bias + j : NULL;
    qn_tile *run = o->is_far && rows == TILE_ROWS ? FAR_TILES[vectors - 1]
                                                  : TILES[o->a_columns][vectors - 1][rows - 1];
    if (o->next && columns == TILE_COLUMNS && (rows == TILE_ROWS || rows == 4)) {
        NEXT_TILES[o->a_columns][rows == TILE_ROWS](o->depth, o->a, o->a_stride, o->b, o->b_row, c,
                                                    c_row, o->add, o->next, o->next_row);
        if (finish)
            finish_tile(t->activation, bias_row, rows, columns, c, c_row);
        return;
    }
    if (vectors * VL == columns) {
        run(o->depth, o->a, o->a_stride, o->b, o->b_row, c, c_row, o->add);
        if (finish)
            finish_tile(t->activation, bias_row, rows, columns, c, c_row);
        return;
    }
    float sums[TILE_ROWS * TILE_COLUMNS], wide_bias[TILE_COLUMNS] = {0};
    run(o->depth, o->a, o->a_stride, o->b, o->b_row, sums, TILE_COLUMNS, false);
    for (int64_t i = 0; o->add && i < rows; i++) {
        for (int64_t x = 0; x < columns; x++)
            sums[i * TILE_COLUMNS + x] = c[i * c_row + x] + sums[i * TILE_COLUMNS + x];
    }
    if (finish) {
        if (bias_row)
            copy_floats(wide_bias, bias_row, columns);
        finish_tile(t->activation, wide_bias, rows, vectors * VL, sums, TILE_COLUMNS);
    }
    store_narrow(sums, rows, columns, c, c_row);
}

/* ---- looking ahead ---- */

/* What the next block will read, fetched into the second cache a slice per tile: the copying of
 * rows would else wait for memory, and so would tiles on what they read in place. */
typedef struct ahead {
    const char *at;
    int64_t lines, slice;
} ahead;

enum { LINE_BYTES = 64, LINE_FLOATS = LINE_BYTES / 4, AHEAD_MAX_LINES = 8192 };

static ahead ahead_of(const float *from, int64_t count, int64_t tiles) {
    const int64_t lines = count * (int64_t)sizeof(float) / LINE_BYTES;
    return (ahead){(const char *)from, lines > AHEAD_MAX_LINES ? 0 : lines, ceil_div(lines, tiles)};
}

static inline void fetch_slice(ahead *a) {
    const int64_t count = min_int(a->slice, a->lines);
    for (int64_t i = 0; i < count; i++)
        __builtin_prefetch(a->at + i * LINE_BYTES, 0, 2);
    a->at += count * LINE_BYTES;
    a->lines -= count;
}

/* Pixels [p, p + count) of a window's image, roughly: as if each pixel of the grid had its own
 * step_h * step_w pixels of the image. Nothing where most of what would be fetched is not used. */
static ahead window_ahead(const window *g, int64_t p, int64_t count, int64_t tiles) {
    const int64_t pixel = g->channels * g->step_h * g->step_w;
    const float *from = g->image + p * pixel;
    if (count <= 0 || from >= g->end || g->channels > 2 * g->depth)
        return (ahead){0};
    return ahead_of(from, min_int(count * pixel, g->end - from), tiles);
}

/* ---- turning ---- */

/* to[p][0..3] = from[0..3][p] for p < 4. */
static inline void transpose_quad(const float *from, int64_t from_row, float *to, int64_t to_row) {
    const quad a = *(const quad *)from, b = *(const quad *)(from + from_row);
    const quad c = *(const quad *)(from + 2 * from_row), d = *(const quad *)(from + 3 * from_row);
    const quad ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    const quad ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const quad cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    const quad cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    *(quad *)to = __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5);
    *(quad *)(to + to_row) = __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7);
    *(quad *)(to + 2 * to_row) = __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
    *(quad *)(to + 3 * to_row) = __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
}

/* to (columns, to_row) = from (rows, from_row) transposed; zeros up to `width` in each row. */
static void transpose_block(const float *from, int64_t from_row, int64_t rows, int64_t columns,
                            float *to, int64_t to_row, int64_t width) {
    int64_t i = 0;
    for (; i + 4 <= rows; i += 4) {
        int64_t p = 0;
        for (; p + 4 <= columns; p += 4)
            transpose_quad(from + i * from_row + p, from_row, to + p * to_row + i, to_row);
        for (; p < columns; p++) {
            for (int64_t x = 0; x < 4; x++)
                to[p * to_row + i + x] = from[(i + x) * from_row + p];
        }
    }
    for (; i < width; i++) {
        for (int64_t p = 0; p < columns; p++)
            to[p * to_row + i] = i < rows ? from[i * from_row + p] : 0;
    }
}

/* ---- by panels ---- */

/* panels: for each K-block, for each panel of TILE_COLUMNS (the last one narrower, a whole number
 * of vectors), depth rows of it. */
static int64_t panels_size(int64_t n, int64_t k) {
    return padded(n) * k;
}

static float *panel_at(const product *t, int64_t p, int64_t depth, int64_t j) {
    return t->panels + p * padded(t->n) + j * depth;
}

/* Where the rows of A of this block are; gathered if need be. */
static const float *rows_of_a(const product *t, int64_t i, int64_t rows, int64_t p, int64_t depth,
                              float *space, int64_t *step) {
    *step = t->a_stride;
    if (!t->a_window)
        return t->a_columns ? t->a + p * t->a_stride + i : t->a + i * t->a_stride + p;
    *step = round_up(depth, VL) + ROW_PAD;
    gather_rows(t->a_window, i, rows, p, p + depth, space, *step, depth);
    return space;
}

/* Copies rows of a finished block to where they belong on the grid. */
static void scatter_rows(const product *t, const float *from, int64_t row, int64_t first,
                         int64_t rows, int64_t j, int64_t columns) {
    const grid *g = t->to;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t pixel = first + i, x = pixel % g->columns, y = pixel / g->columns % g->rows;
        const int64_t n = pixel / g->columns / g->rows;
        const int64_t at =
            (n * g->h + y * g->step_h + g->offset_h) * g->w + x * g->step_w + g->offset_w;
        copy_floats(t->c + at * t->c_row + j, from + i * row, columns);
    }
}

/* Rows [i, i + rows) of A, as far as there are. */
static ahead block_ahead(const product *t, int64_t i, int64_t rows, int64_t tiles) {
    rows = min_int(rows, t->m - i);
    if (t->tiling.kinds[QN_TILING_FETCH])
        return (ahead){0};
    if (t->a_window)
        return window_ahead(t->a_window, i, rows, tiles);
    if (t->a_columns || rows <= 0 || t->a_stride > 2 * t->k)
        return (ahead){0};
    return ahead_of(t->a + i * t->a_stride, rows * t->a_stride, tiles);
}

/* Rows of A as columns of TILE_ROWS: those of tile i / TILE_ROWS at to + i * depth. */
static void turn_rows(const float *a, int64_t step, int64_t rows, int64_t depth, float *to) {
    for (int64_t i = 0; i < rows; i += TILE_ROWS)
        transpose_block(a + i * step, step, min_int(TILE_ROWS, rows - i), depth, to + i * depth,
                        TILE_ROWS, TILE_ROWS);
}

/* A tile of C, to be added to or written, comes from afar while others are made. */
static inline void fetch_tile(int64_t rows, int64_t columns, const float *c, int64_t c_row) {
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t x = 0; x < columns; x += LINE_FLOATS)
            __builtin_prefetch(c + i * c_row + x, 1, 3);
    }
}

static void panel_block(const product *t, int64_t i0, int64_t rows, int64_t j0, int64_t columns,
                        float *space) {
    float *block = space + (t->a_window ? rows_bound(t->n, t->k) * (DEPTH_STEP + ROW_PAD) : 0);
    float *c = t->to ? block : t->c + i0 * t->c_row + j0;
    const int64_t c_row = t->to ? padded(t->n_block) : t->c_row;
    const bool is_turned = TURNS_ROWS && !t->a_columns && columns >= TURNED_TILES * TILE_COLUMNS;
    const bool along_rows = t->k <= SHORT_PANELS;
    const int64_t n_i = ceil_div(rows, TILE_ROWS), n_j = ceil_div(columns, TILE_COLUMNS);
    float turned[TURNS_ROWS ? ROWS_MAX * DEPTH_STEP : 1];
    ahead next = block_ahead(t, i0 + rows, rows,
                             ceil_div(t->k, DEPTH_STEP) * ceil_div(columns, TILE_COLUMNS) *
                                 ceil_div(rows, TILE_ROWS));
    for (int64_t p = 0; p < t->k; p += DEPTH_STEP) {
        const int64_t depth = min_int(DEPTH_STEP, t->k - p);
        int64_t step;
        const float *a = rows_of_a(t, i0, rows, p, depth, space, &step);
        if (is_turned)
            turn_rows(a, step, rows, depth, turned);
        for (int64_t tile = 0; tile < n_i * n_j; tile++) {
            const int64_t i = (along_rows ? tile / n_j : tile % n_i) * TILE_ROWS;
            const int64_t j = (along_rows ? tile % n_j : tile / n_i) * TILE_COLUMNS;
            const int64_t width = min_int(TILE_COLUMNS, columns - j);
            fetch_slice(&next);
            if (along_rows && i + TILE_ROWS < rows)
                fetch_tile(TILE_ROWS, width, c + (i + TILE_ROWS) * c_row + j, c_row);
            const operands o = {.depth = depth,
                                .a = is_turned ? turned + i * depth
                                               : a + (t->a_columns ? i : i * step),
                                .b = panel_at(t, p, depth, j0 + j),
                                .a_stride = is_turned ? TILE_ROWS : step,
                                .b_row = padded(width),
                                .add = t->add || p > 0,
                                .is_last = p + depth == t->k,
                                .a_columns = t->a_columns || is_turned};
            run_tile(t, &o, min_int(TILE_ROWS, rows - i), width, j0 + j, c + i * c_row + j, c_row);
        }
    }
    if (t->to)
        scatter_rows(t, block, c_row, i0, rows, j0, columns);
}

/* One panel: long rows of A are read from end to end, a tile's at a time. */
static void narrow_block(const product *t, int64_t i0, int64_t rows, int64_t j, int64_t columns) {
    for (int64_t i = i0; i < i0 + rows; i += TILE_ROWS) {
        for (int64_t p = 0; p < t->k; p += DEPTH_STEP) {
            const int64_t depth = min_int(DEPTH_STEP, t->k - p);
            const operands o = {.depth = depth,
                                .a = t->a + i * t->a_stride + p,
                                .b = panel_at(t, p, depth, j),
                                .a_stride = t->a_stride,
                                .b_row = padded(columns),
                                .add = t->add || p > 0,
                                .is_last = p + depth == t->k,
                                .is_far = true};
            run_tile(t, &o, min_int(TILE_ROWS, i0 + rows - i), columns, j, t->c + i * t->c_row + j,
                     t->c_row);
        }
    }
}

/* Tasks run along M within a block of N: a thread's share keeps to few panels. A task goes by
 * strips of columns whose C stays in the second cache from one K-block to the next. */
static void panel_task(void *context, int64_t begin, int64_t end, int thread) {
    const product *t = context;
    const int64_t columns = strip_columns(t->tiling);
    for (int64_t task = begin; task < end; task++) {
        const int64_t i = task % t->m_blocks * t->m_block, j = task / t->m_blocks * t->n_block;
        const int64_t last = min_int(t->n, j + t->n_block);
        if (last - j <= TILE_COLUMNS && t->k > 2 * DEPTH_STEP && !t->a_window && !t->a_columns &&
            !t->to) {
            narrow_block(t, i, min_int(t->m_block, t->m - i), j, last - j);
            continue;
        }
        for (int64_t strip = j; strip < last; strip += columns)
            panel_block(t, i, min_int(t->m_block, t->m - i), strip, min_int(columns, last - strip),
                        t->scratch + thread * t->scratch_size);
    }
}

/* Few rows: the columns are shared out among the team. */
static bool shares_columns(const product *t, int threads) {
    const int64_t panels = ceil_div(t->n, TILE_COLUMNS);
    if (t->tiling.kinds[QN_TILING_SPLIT])
        return t->tiling.kinds[QN_TILING_SPLIT] == 2 && panels >= threads;
    return panels >= threads && t->m <= 4 * threads * ROWS_MAX &&
           (panels % threads == 0 || panels >= 4 * threads || t->m < 2 * threads * TILE_ROWS);
}

/* The columns are shared out among the team, or else the rows, equally. */
static void share_panels(product *t, int threads) {
    const bool by_columns = shares_columns(t, threads);
    const int64_t most = rows_most(t);
    t->n_blocks = by_columns ? threads : 1;
    t->n_block = round_up(ceil_div(t->n, t->n_blocks), TILE_COLUMNS);
    t->n_blocks = ceil_div(t->n, t->n_block);
    const int64_t shares = by_columns ? 1 : threads;
    const int64_t rounds = ceil_div(t->m, shares * most);
    t->m_block = min_int(most, round_up(ceil_div(t->m, shares * rounds), TILE_ROWS));
    t->m_blocks = ceil_div(t->m, t->m_block);
}

/* Floats of scratch of a thread, for any tiling. */
static int64_t panels_scratch(int64_t n, int64_t k, bool is_gathered, bool is_scattered) {
    const int64_t rows = rows_bound(n, k);
    return round_up((is_gathered ? rows * (DEPTH_STEP + ROW_PAD) : 0) +
                        (is_scattered ? rows * round_up(n, TILE_COLUMNS) : 0),
                    16);
}

static void run_by_panels(qn_team *team, product *t, float *scratch) {
    share_panels(t, qn_team_size(team));
    t->scratch = scratch;
    t->scratch_size = panels_scratch(t->n, t->k, t->a_window != NULL, t->to != NULL);
    qn_team_run(team, t->m_blocks * t->n_blocks, panel_task, t);
}

/* ---- packing ---- */

/* Row p of B: channel p % depth of tap p / depth of a filter (channels, R, S, columns), taps taken
 * backwards in steps; a plain matrix is a filter of one tap. */
typedef struct filter_rows {
    const float *w;
    int64_t depth, channel_stride; /* floats from one channel's row to the next */
    int64_t taps_w, tap_stride_h, tap_stride_w;
    int64_t offset; /* of the first tap */
} filter_rows;

static const float *filter_row(const filter_rows *f, int64_t p) {
    const int64_t tap = p / f->depth;
    return f->w + f->offset + p % f->depth * f->channel_stride + tap / f->taps_w * f->tap_stride_h +
           tap % f->taps_w * f->tap_stride_w;
}

typedef struct pack_context {
    const product *product;
    const float *w; /* transposed: (N, K), rows w_row apart */
    int64_t w_row;
    const filter_rows *rows;
} pack_context;

/* A task is a panel in one K-block. */
static void pack_transposed_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pack_context *pack = context;
    const product *t = pack->product;
    const int64_t n_panels = ceil_div(t->n, TILE_COLUMNS);
    for (int64_t task = begin; task < end; task++) {
        const int64_t j = task % n_panels * TILE_COLUMNS, p = task / n_panels * DEPTH_STEP;
        const int64_t depth = min_int(DEPTH_STEP, t->k - p);
        const int64_t width = min_int(TILE_COLUMNS, t->n - j);
        transpose_block(pack->w + j * pack->w_row + p, pack->w_row, width, depth,
                        panel_at(t, p, depth, j), padded(width), padded(width));
    }
}

/* A task is PACK_CHANNELS channels, all taps and columns: the filter is read once from end to end.
 */
enum { PACK_CHANNELS = 16 };

static void pack_rows_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pack_context *pack = context;
    const product *t = pack->product;
    const filter_rows *f = pack->rows;
    const int64_t taps = t->k / f->depth;
    const int64_t last = min_int(f->depth, end * PACK_CHANNELS);
    for (int64_t channel = begin * PACK_CHANNELS; channel < last; channel++) {
        for (int64_t tap = taps - 1; tap >= 0; tap--) {
            const int64_t p = tap * f->depth + channel, block = p / DEPTH_STEP * DEPTH_STEP;
            const float *from = filter_row(f, p);
            const int64_t depth = min_int(DEPTH_STEP, t->k - block);
            for (int64_t j = 0; j < t->n; j += TILE_COLUMNS) {
                const int64_t width = min_int(TILE_COLUMNS, t->n - j);
                float *to = panel_at(t, block, depth, j) + (p - block) * padded(width);
                copy_floats(to, from + j, width);
                zero_floats(to + width, padded(width) - width);
            }
        }
    }
}

static int64_t pack_tasks(const product *t) {
    return ceil_div(t->n, TILE_COLUMNS) * ceil_div(t->k, DEPTH_STEP);
}

static void pack_transposed(qn_team *team, const product *t, const float *w, int64_t w_row) {
    pack_context pack = {.product = t, .w = w, .w_row = w_row};
    qn_team_run(team, pack_tasks(t), pack_transposed_task, &pack);
}

static void pack_rows(qn_team *team, const product *t, const filter_rows *rows) {
    pack_context pack = {.product = t, .rows = rows};
    qn_team_run(team, ceil_div(rows->depth, PACK_CHANNELS), pack_rows_task, &pack);
}

/* ---- swapped ---- */

/* With few rows of A, B is better read but once, where it lies; a large B makes more of them few.
 */
enum { FEW_ROWS = 128, FEW_OF_LARGE = 512 };

static bool has_few_rows(int64_t m, int64_t n, int64_t k) {
    return m <= (n * k >= LARGE ? FEW_OF_LARGE : FEW_ROWS);
}

/* A B (N, K) is then the A of C^T = B A^T; A is packed and C turned. */
static bool is_better_exchanged(int64_t m, int64_t n, int64_t k) {
    return m <= FEW_ROWS || (has_few_rows(m, n, k) && 5 * m * (k + n) < 3 * n * k);
}

typedef struct swap_context {
    const product *product; /* of C^T (N, M) */
    const float *bias;
    qn_activation activation;
    float *c; /* (M, N), rows c_row apart */
    int64_t c_row;
} swap_context;

/* Turns columns of C^T into rows of C. A task is SWAP_COLUMNS columns of C. */
enum { SWAP_COLUMNS = 64 };

static void swap_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const swap_context *s = context;
    const int64_t n = s->product->m, m = s->product->n, row = s->product->c_row;
    for (int64_t task = begin; task < end; task++) {
        const int64_t j = task * SWAP_COLUMNS, width = min_int(SWAP_COLUMNS, n - j);
        transpose_block(s->product->c + j * row, row, width, m, s->c + j, s->c_row, width);
        for (int64_t i = 0; i < m; i++) {
            float *to = s->c + i * s->c_row + j;
            for (int64_t x = 0; s->bias && x < width; x++)
                to[x] += s->bias[j + x];
            if (s->activation.kind != QN_ACTIVATION_NONE)
                activate_row(s->activation, width, to, to);
        }
    }
}

static void run_swap(qn_team *team, const product *t, const float *bias_row,
                     qn_activation activation, float *c, int64_t c_row) {
    swap_context s = {
        .product = t, .bias = bias_row, .activation = activation, .c = c, .c_row = c_row};
    qn_team_run(team, ceil_div(t->m, SWAP_COLUMNS), swap_task, &s);
}

/* ---- up to four rows ---- */

enum { QUAD_MOST = 4, QUAD_ROWS = QN_QUAD_GROUPS * VL / 4 };

typedef struct quad_context {
    const product *product; /* of C (M, N); panels: A (K, VL), its rows again and again */
    int64_t b_row;
} quad_context;

/* A task is a K-block of A. Where there are fewer than four rows, the last one stands for those
 * that lack; their sums are not written. */
static void quad_pack_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const product *t = ((const quad_context *)context)->product;
    const int64_t last = min_int(t->k, end * DEPTH_STEP);
    float four[4 * 4] = {0};
    for (int64_t p = begin * DEPTH_STEP; p < last; p += 4) {
        const int64_t depth = min_int(4, last - p);
        for (int64_t i = 0; i < 4; i++)
            copy_floats(four + i * 4, t->a + min_int(i, t->m - 1) * t->a_stride + p, depth);
        float turned[4 * 4];
        transpose_quad(four, 4, turned, 4);
        for (int64_t x = 0; x < depth * VL; x += 4)
            *(quad *)(t->panels + p * VL + x) = *(const quad *)(turned + x / VL * 4);
    }
}

/* A task is SWAP_COLUMNS columns of C. */
static void quad_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const quad_context *q = context;
    const product *t = q->product;
    float sums[SWAP_COLUMNS * 4];
    for (int64_t task = begin; task < end; task++) {
        const int64_t j = task * SWAP_COLUMNS, width = min_int(SWAP_COLUMNS, t->n - j);
        const float *b = t->b + j * q->b_row;
        for (int64_t p = 0; p < t->k; p += DEPTH_STEP) {
            const int64_t depth = min_int(DEPTH_STEP, t->k - p);
            for (int64_t i = 0; i < width; i += QUAD_ROWS) {
                const float *from = b + i * q->b_row + p;
                const bool has_next = j + i + 2 * QUAD_ROWS <= t->n && t->n * t->k >= 2 * LARGE;
                QUAD_TILE(depth, t->panels + p * VL, from, q->b_row, min_int(QUAD_ROWS, width - i),
                          has_next ? QUAD_ROWS * q->b_row : 0, sums + i * 4, p > 0);
            }
        }
        float *c = t->c + j;
        for (int64_t i = 0; i < t->m; i++, c += t->c_row) {
            for (int64_t x = 0; x < width; x++)
                c[x] = sums[x * 4 + i];
            for (int64_t x = 0; t->bias && x < width; x++)
                c[x] += t->bias[j + x];
            if (t->activation.kind != QN_ACTIVATION_NONE)
                activate_row(t->activation, width, c, c);
        }
    }
}

static void run_quads(qn_team *team, const product *t, int64_t b_row) {
    quad_context q = {.product = t, .b_row = b_row};
    qn_team_run(team, ceil_div(t->k, DEPTH_STEP), quad_pack_task, &q);
    qn_team_run(team, ceil_div(t->n, SWAP_COLUMNS), quad_task, &q);
}

/* ---- by rows ---- */

enum {
    PACK_ROWS = 48, /* rows of C whose part of A, by columns, is packed */
    PACK_STEP = 32, /* rows of A this far apart share no line */
    PACK_PANEL = DEPTH_STEP * TILE_ROWS + ROW_PAD,
    ROWS_OF_TASK = 4 * PACK_ROWS, /* the least, where there are several */
    TASKS_OF_THREAD = 4,
    FETCH_ROWS = 4,     /* so far ahead are rows of B fetched while others are copied */
    FETCH_COLUMNS = 12, /* and columns of A */
};

static inline const float *b_row_at(const product *t, int64_t p) {
    return t->b_filter ? filter_row(t->b_filter, p) : t->b + p * t->b_row;
}

static void copy_rows(const product *t, int64_t p, int64_t depth, int64_t j, int64_t columns,
                      float *to, int64_t to_row) {
    if (t->b_window) {
        gather_rows(t->b_window, p, depth, j, j + columns, to, to_row, padded(columns));
        return;
    }
    for (int64_t i = p; i < p + depth; i++, to += to_row) {
        const float *from = b_row_at(t, i);
        if (i + FETCH_ROWS < t->k) {
            const float *next = b_row_at(t, i + FETCH_ROWS) + j;
            for (int64_t x = 0; x < columns; x += LINE_FLOATS)
                __builtin_prefetch(next + x, 0, 2);
        }
        copy_floats(to, from + j, columns);
        zero_floats(to + columns, padded(columns) - columns);
    }
}

/* Columns of A as panels of TILE_ROWS, PACK_PANEL apart: a tile then reads what lies together.
 * Whole vectors are written; what is too much is written again or never read. */
static inline __attribute__((always_inline)) void
pack_columns_of(const float *a, int64_t step, int64_t rows, int64_t depth, float *to) {
    for (int64_t p = 0; p + 1 < depth; p++, a += step, to += TILE_ROWS) {
        if (p + FETCH_COLUMNS < depth) {
            for (int64_t x = 0; x < rows + LINE_FLOATS; x += LINE_FLOATS)
                __builtin_prefetch(a + FETCH_COLUMNS * step + x, 0, 3);
        }
#pragma GCC unroll 8
        for (int64_t i = 0; i < rows; i += TILE_ROWS) {
#pragma GCC unroll 4
            for (int v = 0; v < TILE_ROWS; v += VL)
                *(vector *)(to + i / TILE_ROWS * PACK_PANEL + v) = *(const vector *)(a + i + v);
        }
    }
    for (int64_t i = 0; i < rows; i += TILE_ROWS)
        copy_floats(to + i / TILE_ROWS * PACK_PANEL, a + i, min_int(TILE_ROWS, rows - i));
}

static void pack_columns(const float *a, int64_t step, int64_t rows, int64_t depth, float *to) {
    if (rows == PACK_ROWS)
        pack_columns_of(a, step, PACK_ROWS, depth, to);
    else
        pack_columns_of(a, step, rows, depth, to);
}

/* Rows [i0, i0 + rows) and columns [j0, j0 + columns) of C += or = a K-block, B being at `b`. */
static void rows_tiles(const product *t, operands o, int64_t rows, int64_t j0, int64_t columns,
                       float *c, bool is_packed, ahead next[2]) {
    const float *a = o.a, *b = o.b, *o_next = o.next;
    const int64_t n_i = ceil_div(rows, TILE_ROWS), n_j = ceil_div(columns, TILE_COLUMNS);
    const bool along_rows = o.depth <= SHORT_DEPTH;
    for (int64_t tile = 0; tile < n_i * n_j; tile++) {
        const int64_t i = (along_rows ? tile / n_j : tile % n_i) * TILE_ROWS;
        const int64_t j = (along_rows ? tile % n_j : tile / n_i) * TILE_COLUMNS;
        fetch_slice(&next[0]);
        fetch_slice(&next[1]);
        o.a = is_packed ? a + i / TILE_ROWS * PACK_PANEL : a + (o.a_columns ? i : i * o.a_stride);
        const int64_t height = min_int(TILE_ROWS, rows - i);
        const int64_t width = min_int(TILE_COLUMNS, columns - j);
        float *at = c + i * t->c_row + j;
        o.b = b + j;
        o.next = o_next && i == 0 ? o_next + j : NULL;
        if (o.in_place && i == 0)
            o.next = j + TILE_COLUMNS < columns ? o.b + TILE_COLUMNS : o_next;
        if (o.add)
            fetch_tile(height, width, at, t->c_row);
        run_tile(t, &o, height, width, j0 + j, at, t->c_row);
    }
}

/* Few rows of C are not worth a copy of B; nor are more, unless rows of B meet in few sets of a
 * cache. */
static bool is_in_place(const product *t, int64_t rows, int64_t columns) {
    const int64_t most = t->b_row % 512 == 0 ? PLACE_ROWS : PLACE_ROWS_MOST;
    return t->b && columns % VL == 0 &&
           (t->a_columns ? rows <= most : t->b_row == columns && columns <= PLACE_MOST);
}

/* C block = the chain of K-blocks over [k_begin, k_end). */
static void rows_block(const product *t, int64_t i0, int64_t rows, int64_t j0, int64_t columns,
                       int64_t k_begin, int64_t k_end, float *c, float *space) {
    const int64_t row = padded(columns) + ROW_PAD;
    const bool is_packed = t->a_columns && columns > TILE_COLUMNS && t->a_stride >= PACK_STEP;
    float *packed = space + DEPTH_STEP * (GATHER_MAX + TILE_COLUMNS + ROW_PAD);
    for (int64_t p = k_begin, depth; p < k_end; p += depth) {
        const int64_t border = min_int(k_end, (p / t->chunk + 1) * t->chunk);
        depth = min_int(DEPTH_STEP, border - p);
        const bool in_place = is_in_place(t, rows, columns);
        if (!in_place)
            copy_rows(t, p, depth, j0, columns, space, row);
        const float *a = t->a_columns ? t->a + p * t->a_stride + i0 : t->a + i0 * t->a_stride + p;
        const int64_t tiles = ceil_div(columns, TILE_COLUMNS) * ceil_div(rows, TILE_ROWS);
        const int64_t count = min_int(DEPTH_STEP, t->k - p - depth);
        ahead next[2] = {{0}, {0}};
        const bool fetches = !t->tiling.kinds[QN_TILING_FETCH];
        if (fetches && count > 0 && t->a_columns && t->a_stride < 2 * t->m)
            next[0] = ahead_of(t->a + (p + depth) * t->a_stride, count * t->a_stride, tiles);
        if (fetches && t->b_window)
            next[1] = window_ahead(t->b_window, p + depth, count, tiles);
        const float *next_b =
            fetches && count > 0 && !t->b_window ? b_row_at(t, p + depth) + j0 : NULL;
        const int64_t step = is_packed ? PACK_ROWS : rows;
        for (int64_t i = 0; i < rows; i += step) {
            const int64_t part = min_int(step, rows - i);
            if (is_packed)
                pack_columns(a + i, t->a_stride, part, depth, packed);
            const operands o = {.depth = depth,
                                .a = is_packed ? packed : a,
                                .b = in_place ? t->b + p * t->b_row + j0 : space,
                                .a_stride = is_packed ? TILE_ROWS : t->a_stride,
                                .b_row = in_place ? t->b_row : row,
                                .add = t->add || p > k_begin,
                                .is_last = p + depth == k_end,
                                .a_columns = t->a_columns,
                                .in_place = in_place,
                                .next = next_b,
                                .next_row = t->b_filter ? t->b_filter->channel_stride : t->b_row};
            rows_tiles(t, o, part, j0, columns, c + i * t->c_row, is_packed, next);
        }
    }
}

static void rows_task(void *context, int64_t begin, int64_t end, int thread) {
    const product *t = context;
    for (int64_t task = begin; task < end; task++) {
        const int64_t i = task % t->m_blocks * t->m_block, j = task / t->m_blocks * t->n_block;
        rows_block(t, i, min_int(t->m_block, t->m - i), j, min_int(t->n_block, t->n - j), 0, t->k,
                   t->c + i * t->c_row + j, t->scratch + thread * t->scratch_size);
    }
}

enum {
    ROWS_SCRATCH =
        DEPTH_STEP * (GATHER_MAX + TILE_COLUMNS + ROW_PAD) + (PACK_ROWS / TILE_ROWS) * PACK_PANEL
};

static void run_by_rows(qn_team *team, product *t, float *scratch) {
    const int64_t threads = qn_team_size(team);
    /* So many columns of B that a task's part of a K-block stays in the second cache. */
    const int64_t most = gather_most(t->tiling) * DEPTH_STEP / min_int(DEPTH_STEP, t->k) /
                         TILE_COLUMNS * TILE_COLUMNS;
    int64_t parts = min_int(round_up(ceil_div(t->n, most), threads), ceil_div(t->n, TILE_COLUMNS));
    t->n_block = round_up(ceil_div(t->n, parts), TILE_COLUMNS);
    t->n_blocks = ceil_div(t->n, t->n_block);
    /* Each row block copies B anew, which many rows are worth; small tasks keep threads of unequal
     * speed busy. */
    const int64_t wanted = threads > 1 ? ceil_div(TASKS_OF_THREAD * threads, t->n_blocks) : 1;
    int64_t shares = t->n_blocks < threads ? ceil_div(threads, t->n_blocks) : 1;
    shares = max_int(shares, min_int(wanted, t->m / ROWS_OF_TASK));
    t->m_block = round_up(ceil_div(t->m, shares),
                          shares > 1 && t->m > 2 * ROWS_OF_TASK ? PACK_ROWS : TILE_ROWS);
    t->m_blocks = ceil_div(t->m, t->m_block);
    t->scratch = scratch;
    t->scratch_size = ROWS_SCRATCH;
    qn_team_run(team, t->m_blocks * t->n_blocks, rows_task, t);
}

/* ---- by rows, streamed ---- */

enum {
    STREAM_ROWS = 8,        /* of A, at most */
    STREAM_LEAST = 1 << 15, /* floats of a B that is not in the first cache */
    STREAM_SUMS = 1 << 14,  /* floats of a task's sums */
    STREAM_SHORTEST = 32    /* a shorter depth leaves most of the time to C */
};

static bool can_stream(const product *t) {
    return !t->a_columns && t->m <= STREAM_ROWS && t->n % VL == 0 && t->k >= STREAM_SHORTEST &&
           t->n * t->k >= STREAM_LEAST;
}

/* A task is n_block columns of C. */
static void stream_task(void *context, int64_t begin, int64_t end, int thread) {
    const product *t = context;
    float *sums = t->scratch + thread * t->scratch_size;
    for (int64_t task = begin; task < end; task++) {
        const int64_t j = task * t->n_block, columns = min_int(t->n_block, t->n - j);
        float *c = t->c + j;
        for (int64_t p = 0; p < t->k; p += DEPTH_STEP) {
            const int64_t depth = min_int(DEPTH_STEP, t->k - p);
            const bool is_first = p == 0 && !t->add;
            zero_floats(sums, t->m * columns);
            STREAM_TILE(t->m, columns, depth, t->a + p, t->a_stride, t->b + p * t->b_row + j,
                        t->b_row, p + 2 * DEPTH_STEP <= t->k, sums, columns);
            for (int64_t i = 0; i < t->m; i++) {
                const float *restrict from = sums + i * columns;
                float *restrict to = c + i * t->c_row;
                for (int64_t x = 0; x < columns; x++)
                    to[x] = is_first ? from[x] : to[x] + from[x];
            }
        }
        if (t->bias || t->activation.kind != QN_ACTIVATION_NONE)
            finish_tile(t->activation, t->bias ? t->bias + j : NULL, t->m, columns, c, t->c_row);
    }
}

static void run_streamed(qn_team *team, product *t, float *scratch) {
    const int64_t most = STREAM_SUMS / t->m / VL * VL;
    const int64_t parts = round_up(ceil_div(t->n, most), qn_team_size(team));
    t->n_block = round_up(ceil_div(t->n, parts), VL);
    t->scratch = scratch;
    t->scratch_size = STREAM_SUMS;
    qn_team_run(team, ceil_div(t->n, t->n_block), stream_task, t);
}

/* ---- sums of chunks ---- */

enum { CHUNK_CHAIN = 1024 };

typedef struct chain_context {
    int64_t n, chunks;
    const float *parts;
    bool add;
    float *sums;
} chain_context;

static void chain_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const chain_context *s = context;
    const int64_t first = begin * CHUNK_CHAIN, last = min_int(s->n, end * CHUNK_CHAIN);
    if (!s->add)
        copy_floats(s->sums + first, s->parts + first, last - first);
    for (int64_t chunk = s->add ? 0 : 1; chunk < s->chunks; chunk++) {
        const float *restrict part = s->parts + chunk * s->n;
        for (int64_t i = first; i < last; i++)
            s->sums[i] += part[i];
    }
}

/* sums (n) = parts[0] + parts[1] + ..., added in order, with add to what is there. */
static void run_chain(qn_team *team, int64_t n, int64_t chunks, const float *parts, bool add,
                      float *sums) {
    chain_context s = {n, chunks, parts, add, sums};
    qn_team_run(team, ceil_div(n, CHUNK_CHAIN), chain_task, &s);
}

#endif
