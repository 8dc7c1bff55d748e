/* 3x3 convolutions with stride 1 by Winograd's algorithm: POINTS products of pairs of 16 bits
 * make 4x4 outputs, or 3x3 numbers of a filter's gradient, where windows take 144. Part of
 * engine.h. TILES_FILE has the transforms and what becomes of outputs; it defines
 *     POINTS, CHUNK (numbers that are transformed at once), `halves` (so many of them),
 *     see_window, see_filter, see_error, make_outputs, make_gradient, finish_panel, `finished`
 *
 * Where transformed filters fit the last cache, they are made once, and a task makes the planes of
 * its tiles. Else tiles are transformed once, in rounds, and a task is a panel of filters. */
#ifndef QN_KERNELS_INTEGER_WINOGRAD_H
#define QN_KERNELS_INTEGER_WINOGRAD_H

enum {
    FEWEST_PAIRS = 24,            /* of tiles for a filter's gradient */
    FEWEST_TILES = 16,            /* that are worth the transformed filters */
    MOST_CHANNELS = 1024,         /* 9 products of each are far below 2^29 */
    MOST_TILES = 24,              /* of a task, which stay in the second cache */
    MOST_KEPT_TILES = 64,         /* the same, where only sums do */
    FILTER_BYTES = 4096 * 1024,   /* of transformed filters, which stay in the third */
    SEEN_BYTES = 8192 * 1024,     /* of transformed tiles in a round */
    GRADIENT_BLOCK = 64,          /* channels of both sides in a task of the filter's gradient */
    GRADIENT_PAIRS = 128,         /* of tiles in a round, whose sums are far below 2^29 */
    GRADIENT_BYTES = 9216 * 1024, /* of what is transformed in a round */
    SEEN_PIXELS = 36,             /* of a window */
};

static inline __attribute__((always_inline)) vector dot_pairs(vector sums, lane_words a,
                                                              lane_words b);

/* ---- products of what is transformed ---- */

/* tile (m, COLUMNS) = A's rows times B (words, COLUMNS). With `columns` a word of all rows lies
 * together. */
static inline __attribute__((always_inline)) void pairs_body(bool columns, int m, int64_t n_words,
                                                             const word *a, int64_t a_step,
                                                             const word *b, int64_t b_step,
                                                             total *tile, int64_t tile_step) {
    vector sums[TILE_ROWS][TILE_VECTORS];
#pragma GCC unroll 16
    for (int i = 0; i < m; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < TILE_VECTORS; j++)
            sums[i][j] = (vector){0};
    }
    const word *base[4] = {a, a + 3 * a_step, a + 6 * a_step, a + 9 * a_step};
    for (int64_t p = 0; p < n_words; p++) {
        lane_words row[TILE_VECTORS];
#pragma GCC unroll 4
        for (int j = 0; j < TILE_VECTORS; j++)
            row[j] = *(const lane_words *)(b + j * VL);
#pragma GCC unroll 16
        for (int i = 0; i < m; i++) {
            const lane_words x = (lane_words){0} + (columns ? a[i] : base[i / 3][i % 3 * a_step]);
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
    static void NAME(int64_t n_words, const word *a, int64_t a_step, const word *b,                \
                     int64_t b_step, total *tile, int64_t tile_step) {                             \
        pairs_body(COLUMN, M, n_words, a, a_step, b, b_step, tile, tile_step);                     \
    }
PAIRS(pairs_rows_whole, false, TILE_ROWS)
PAIRS(pairs_rows_4, false, 4)
PAIRS(pairs_rows_1, false, 1)
PAIRS(pairs_columns_whole, true, TILE_ROWS)
PAIRS(pairs_columns_4, true, 4)

/* ---- tiles of images ---- */

/* Outputs of a batch in tiles of 4x4, and what is seen through their windows of 6x6. */
typedef struct tiling {
    const stored *x; /* (N, H, W, C) */
    int64_t h, w, c, pixel, top, left;
    int64_t p, q, tiles_h, tiles_w, n_tiles;
    const stored *e; /* to the filter: errors (N, P, Q, K), whose pixels are so far apart */
    int64_t e_pixel, k;
    const stored *filter; /* (K, R, S, C) of the convolution */
    int64_t filter_k, filter_c;
    bool is_turned;               /* to the data: its result has filter_c channels */
    product to;                   /* where sums go */
    int64_t block, first, panels; /* tiles of a task */
    int64_t k_block, c_block;     /* to the filter: channels of a task */
    int64_t pairs;                /* of tiles in a round, at most */
    int64_t n_pairs;              /* in this one, the first of which is of tile t->first */
    int64_t end;                  /* of the round's tiles */
    bool keeps_tiles;             /* all of a round, for all panels; a round is of tiles */
    int64_t n_round;
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

/* The pixels of a window; null beyond the image. */
static void find_pixels(const tiling *t, corner at, const stored *pixels[SEEN_PIXELS]) {
    const int64_t top = at.y - t->top, left = at.x - t->left, row = t->w * t->pixel;
    const stored *first = t->x + at.image * t->h * row + top * row + left * t->pixel;
    const bool is_inside = top >= 0 && top + 6 <= t->h && left >= 0 && left + 6 <= t->w;
    for (int i = 0; i < 6; i++, first += row) {
        for (int j = 0; j < 6; j++)
            pixels[6 * i + j] = first + j * t->pixel;
    }
    for (int i = 0; !is_inside && i < SEEN_PIXELS; i++) {
        const int64_t y = top + i / 6, x = left + i % 6;
        if (y < 0 || y >= t->h || x < 0 || x >= t->w)
            pixels[i] = NULL;
    }
}

/* The same of an error's tile. */
static void find_errors(const tiling *t, corner at, const stored *pixels[16]) {
    const stored *first = t->e + ((at.image * t->p + at.y) * t->q + at.x) * t->e_pixel;
    for (int i = 0; i < 16; i++)
        pixels[i] = at.y + i / 4 < t->p && at.x + i % 4 < t->q
                        ? first + (i / 4 * t->q + i % 4) * t->e_pixel
                        : NULL;
}

#include TILES_FILE

/* Steps in words: of a tile's transformed channels, and of the points of what is transformed. All
 * points of a number are stored at once: an odd number of lines apart, lest they meet in one set of
 * a cache. */
static int64_t seen_step(int64_t c) {
    return ceil_div(c / 2, 16) * 16 + 16;
}

static int64_t point_step(int64_t words) {
    return ceil_div(words, 16) / 2 * 32 + 16;
}

static int64_t tiles_step(const tiling *t, int64_t n) {
    return point_step(n * seen_step(t->c) + 16);
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

/* Of so many tiles; points are `apart`. */
static void see_tiles(const tiling *t, int64_t first, int64_t n, int64_t apart, word *to) {
    const int64_t step = seen_step(t->c);
    for (int64_t tile = 0; tile < n; tile++) {
        const stored *pixels[SEEN_PIXELS];
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
                lane_words rows[VL];
                word *pairs = to + i * filter_step(t) + from / 2 * COLUMNS + column;
                for (int j = 0; j < VL; j++)
                    rows[j] = (lane_words)seen[j][i];
                turn(rows);
                for (int p = 0; p < VL; p++)
                    *(lane_words *)(pairs + p * COLUMNS) = rows[p];
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

static void pack_filters(const tiling *t, int64_t panel, word *to) {
    if (t->is_turned)
        pack_channels(t, panel, to);
    else
        pack_outputs(t, panel, to);
}

static void filter_task(void *context, int64_t begin, int64_t end, int thread) {
    const tiling *t = context;
    (void)thread;
    for (int64_t panel = begin; panel < end; panel++)
        pack_filters(t, panel, t->filters + panel * POINTS * filter_step(t));
}

/* ---- outputs ---- */

/* sums (tiles, POINTS, COLUMNS) of tiles whose points are `apart` */
static void multiply_tiles(const tiling *t, int64_t n, const word *seen, int64_t apart,
                           const word *filters, total *sums) {
    const int64_t n_words = t->c / 2, step = seen_step(t->c), row_apart = POINTS * COLUMNS;
    for (int i = 0; i < POINTS; i++, sums += COLUMNS) {
        const word *a = seen + i * apart, *b = filters + i * filter_step(t);
        int64_t row = 0;
        for (; row + TILE_ROWS <= n; row += TILE_ROWS)
            pairs_rows_whole(n_words, a + row * step, step, b, COLUMNS, sums + row * row_apart,
                             row_apart);
        for (; row + 4 <= n; row += 4)
            pairs_rows_4(n_words, a + row * step, step, b, COLUMNS, sums + row * row_apart,
                         row_apart);
        for (; row < n; row++)
            pairs_rows_1(n_words, a + row * step, step, b, COLUMNS, sums + row * row_apart,
                         row_apart);
    }
}

static void tiles_task(void *context, int64_t begin, int64_t end, int thread) {
    const tiling *t = context;
    word *seen = (word *)(void *)(t->scratch + (size_t)thread * t->scratch_bytes);
    total *sums = (total *)(void *)(seen + POINTS * tiles_step(t, t->block));
    finished made = {0};
    for (int64_t task = begin; task < end; task++) {
        const int64_t first = task * t->block, n = least(t->block, t->n_tiles - first);
        see_tiles(t, first, n, tiles_step(t, t->block), seen);
        for (int64_t panel = 0; panel < t->panels; panel++) {
            multiply_tiles(t, n, seen, tiles_step(t, t->block),
                           t->filters + panel * POINTS * filter_step(t), sums);
            finish_panel(t, first, n, panel, sums, &made);
        }
    }
    raise_finished(t, &made);
}

/* ---- the same, tiles first ---- */

static void see_task(void *context, int64_t begin, int64_t end, int thread) {
    const tiling *t = context;
    (void)thread;
    see_tiles(t, t->first + begin, end - begin, tiles_step(t, t->n_round),
              t->seen + begin * seen_step(t->c));
}

/* A task is a panel. */
static void panel_task(void *context, int64_t begin, int64_t end, int thread) {
    const tiling *t = context;
    word *filters = (word *)(void *)(t->scratch + (size_t)thread * t->scratch_bytes);
    total *sums = (total *)(void *)(filters + POINTS * filter_step(t));
    const int64_t last = least(t->n_tiles, t->first + t->n_round);
    finished made = {0};
    for (int64_t panel = begin; panel < end; panel++) {
        pack_filters(t, panel, filters);
        for (int64_t first = t->first; first < last; first += t->block) {
            const int64_t n = least(t->block, last - first);
            multiply_tiles(t, n, t->seen + (first - t->first) * seen_step(t->c),
                           tiles_step(t, t->n_round), filters, sums);
            finish_panel(t, first, n, panel, sums, &made);
        }
    }
    raise_finished(t, &made);
}

static void run_kept(qn_team *team, tiling *t) {
    for (; t->first < t->n_tiles; t->first += t->n_round) {
        qn_team_run(team, least(t->n_round, t->n_tiles - t->first), see_task, t);
        qn_team_run(team, ceil_div(t->to.n, COLUMNS), panel_task, t);
    }
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
    const stored *pixels[2][SEEN_PIXELS] = {{NULL}};
    for (int i = 0; i < 2; i++) {
        if (t->first + 2 * pair + i < t->end)
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

static void see_error_pair(const tiling *t, int64_t pair) {
    const stored *pixels[2][16] = {{NULL}};
    for (int i = 0; i < 2; i++) {
        if (t->first + 2 * pair + i < t->end)
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
                           int64_t columns, total *sums) {
    const int64_t apart = cells_step(rows, columns);
    int64_t whole = rows;
    while (whole % TILE_ROWS != 0)
        whole -= 4;
    for (int i = 0; i < POINTS; i++) {
        const word *a = errors + i * pairs_step(t, rows), *b = seen + i * pairs_step(t, columns);
        for (int64_t j = 0; j < columns; j += COLUMNS) {
            total *to = sums + i * apart + j;
            for (int64_t row = 0; row < whole; row += TILE_ROWS)
                pairs_columns_whole(t->n_pairs, a + row, rows, b + j, columns, to + row * columns,
                                    columns);
            for (int64_t row = whole; row < rows; row += 4)
                pairs_columns_4(t->n_pairs, a + row, rows, b + j, columns, to + row * columns,
                                columns);
        }
    }
}

/* y (9, columns): what a row of sums comes to. */
static void make_gradients(int64_t apart, int64_t columns, const total *sums, total *y) {
    for (int64_t j = 0; j < columns; j += VL) {
        vector made[9];
        make_gradient(sums + j, apart, made);
        for (int i = 0; i < 9; i++)
            *(vector *)(y + i * columns + j) = made[i];
    }
}

static void gradient_task(void *context, int64_t begin, int64_t end, int thread) {
    const tiling *t = context;
    const int64_t n_c = ceil_div(t->c, t->c_block);
    const bool adds = t->to.add || t->first > 0;
    const bool is_last = t->end >= t->n_tiles;
    total *sums = (total *)(void *)(t->scratch + (size_t)thread * t->scratch_bytes);
    sizes largest = {0};
    for (int64_t task = begin; task < end; task++) {
        const int64_t k = task / n_c * t->k_block, c = task % n_c * t->c_block;
        const int64_t rows = width_of(t->k, t->k_block, k), n = width_of(t->c, t->c_block, c);
        total y[9 * GRADIENT_BLOCK];
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

/* Tiles of the round that begins at tile `first`: of whole samples, or of one; so the rounds that a
 * sample's tiles are in do not depend on the samples beside it. */
static int64_t round_tiles(const tiling *t, int64_t first) {
    const int64_t sample = t->tiles_h * t->tiles_w, held = 2 * t->pairs;
    if (sample <= held)
        return least(t->n_tiles - first, held / sample * sample);
    return least(held, sample - first % sample);
}

static void run_gradient(qn_team *team, tiling *t) {
    const int64_t n_blocks = ceil_div(t->k, t->k_block) * ceil_div(t->c, t->c_block);
    for (int64_t n; t->first < t->n_tiles; t->first += n) {
        n = round_tiles(t, t->first);
        t->end = t->first + n;
        t->n_pairs = ceil_div(n, 2);
        qn_team_run(team, t->n_pairs, see_pairs_task, t);
        qn_team_run(team, n_blocks, gradient_task, t);
    }
}

/* ---- the choice, and memory ---- */

static void tile_outputs(tiling *t, int64_t n) {
    t->tiles_h = ceil_div(t->p, 4);
    t->tiles_w = ceil_div(t->q, 4);
    t->n_tiles = n * t->tiles_h * t->tiles_w;
}

/* Where it decides what bits are, images are those of the whole batch. */
static int64_t images_of(const qn_conv2d_shape *d) {
    return IS_FLOAT && d->batch ? d->batch : d->n;
}

/* Channels that are summed, and those of the result. */
static bool is_worth_tiles(const qn_conv2d_shape *d, int64_t summed, int64_t made, int64_t h,
                           int64_t w) {
    return d->r == 3 && d->s == 3 && d->stride_h * d->stride_w == 1 &&
           d->dilation_h * d->dilation_w == 1 && d->groups == 1 && d->pad_top <= 2 &&
           d->pad_left <= 2 && summed >= CHUNK && summed % 2 == 0 && summed <= MOST_CHANNELS &&
           made >= COLUMNS && h >= 3 && w >= 3 &&
           images_of(d) * ceil_div(h, 4) * ceil_div(w, 4) >= FEWEST_TILES;
}

static bool is_tiled(const qn_conv2d_shape *d, qn_conv2d_pass pass) {
    if (pass == QN_CONV2D_FORWARD)
        return is_worth_tiles(d, d->c, d->k, d->p, d->q);
    if (pass == QN_CONV2D_BACKWARD_DATA)
        return is_worth_tiles(d, d->k, d->c, d->h, d->w);
    return is_worth_tiles(d, CHUNK, least(d->c, d->k), d->p, d->q) &&
           images_of(d) * ceil_div(d->p, 4) * ceil_div(d->q, 4) >= 2 * FEWEST_PAIRS;
}

static size_t filters_bytes(const tiling *t) {
    return (size_t)(t->panels * POINTS * filter_step(t)) * sizeof(word) + 64;
}

static size_t seen_bytes(const tiling *t) {
    return (size_t)(POINTS * tiles_step(t, t->n_round)) * sizeof(word) + 64;
}

/* As few tasks as caches allow, of like size for all threads. */
static void choose_tiles(tiling *t, int n_threads) {
    t->panels = ceil_div(t->to.n, COLUMNS);
    t->keeps_tiles = filters_bytes(t) > FILTER_BYTES;
    if (t->keeps_tiles) {
        const int64_t held = most(MOST_KEPT_TILES, SEEN_BYTES / (POINTS * 4 * seen_step(t->c)));
        t->n_round = least(t->n_tiles, ceil_div(t->n_tiles, ceil_div(t->n_tiles, held)));
        t->block = least(t->n_round, MOST_KEPT_TILES);
        t->scratch_bytes = (size_t)(POINTS * (filter_step(t) + t->block * COLUMNS)) * sizeof(word);
    } else {
        const int64_t rounds = ceil_div(t->n_tiles, MOST_TILES * n_threads);
        t->block = least(MOST_TILES, ceil_div(ceil_div(t->n_tiles, rounds * n_threads), 4) * 4);
        t->scratch_bytes =
            (size_t)(POINTS * (tiles_step(t, t->block) + t->block * COLUMNS)) * sizeof(word);
    }
    t->scratch_bytes += 64;
}

/* As many pairs in a round as memory allows. */
static void choose_pairs(tiling *t, int n_threads) {
    t->k_block = t->c_block = GRADIENT_BLOCK;
    while (t->k_block > CHUNK &&
           ceil_div(t->k, t->k_block) * ceil_div(t->c, t->c_block) < n_threads)
        t->k_block /= 2;
    const int64_t pair_bytes = POINTS * 4 * (t->c + t->k);
    const int64_t sample = t->tiles_h * t->tiles_w;
    t->pairs = least(GRADIENT_PAIRS, most(16, GRADIENT_BYTES / pair_bytes));
    if (sample > 2 * t->pairs)
        t->pairs = ceil_div(ceil_div(sample, ceil_div(sample, 2 * t->pairs)), 2);
    t->scratch_bytes = (size_t)(POINTS * cells_step(t->k_block, t->c_block)) * sizeof(total) + 64;
}

static int64_t pairs_words(const tiling *t, int64_t channels, int64_t size) {
    return ceil_div(channels, size) * POINTS * pairs_step(t, size);
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
        return (t.keeps_tiles ? seen_bytes(&t) : filters_bytes(&t)) + scratch;
    const int64_t words = pairs_words(&t, t.c, t.c_block) + pairs_words(&t, t.k, t.k_block);
    return (size_t)words * sizeof(word) + scratch;
}

/* a is x, or to the data dy; b is the filter, or to the filter dy. */
static void run_tiled(qn_team *team, const qn_conv2d_shape *d, qn_conv2d_pass pass, const stored *a,
                      const stored *b, const outcome *y, void *workspace) {
    tiling t = tiling_of(d, pass, qn_team_size(team));
    t.x = a;
    t.to.y = *y;
    begin_outcome(y);
    if (pass == QN_CONV2D_BACKWARD_FILTER) {
        t.e = b;
        t.seen = workspace;
        t.errors = t.seen + pairs_words(&t, t.c, t.c_block);
        t.scratch = (char *)(t.errors + pairs_words(&t, t.k, t.k_block));
        run_gradient(team, &t);
        return;
    }
    t.filter = b;
    if (t.keeps_tiles) {
        t.seen = workspace;
        t.scratch = (char *)workspace + seen_bytes(&t);
        run_kept(team, &t);
        return;
    }
    t.filters = workspace;
    t.scratch = (char *)workspace + filters_bytes(&t);
    qn_team_run(team, t.panels, filter_task, &t);
    qn_team_run(team, ceil_div(t.n_tiles, t.block), tiles_task, &t);
}

/* Whether a filter's gradient takes several rounds. */
static bool is_tiled_in_parts(const qn_conv2d_shape *d, qn_conv2d_pass pass) {
    const tiling t = tiling_of(d, pass, 1);
    return pass == QN_CONV2D_BACKWARD_FILTER && round_tiles(&t, 0) < t.n_tiles;
}

#endif
