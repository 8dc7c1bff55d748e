/* Convolution of 3x3 at stride 1 by Winograd's F(4x4, 3x3): inputs, filters and gradients are
 * transformed tile by tile into 49 planes, in which the convolution is 49 products: a third of the
 * direct sum's. Backward data is the same with the filter turned round; backward filter sums the
 * products of the planes of x and dy over the tiles. Tiles are done in blocks whose planes stay
 * near the processor: made by all threads together, or, where few channels leave them little use,
 * by the one that multiplies them. A small filter's planes are made once, a large one's by each
 * task that needs them, never as a whole.
 *
 * It rounds differently from the direct sum, about as well (docs/kernels.md). Which convolutions
 * use it therefore determines the bits of a result, and depends on the rules (kernels/rules.h)
 * alone; so do the blocks that a filter gradient is summed in. Parts of a batch that must give the
 * bits of the whole batch use the algorithm that the whole batch would use. */
#ifndef QN_KERNELS_VECTOR_WINOGRAD_H
#define QN_KERNELS_VECTOR_WINOGRAD_H

#include "kernels/vector/product.h"

enum {
    PLANES = QN_WINOGRAD_POINTS,
    WINOGRAD_SPACE = 1 << 19,  /* floats of a block's planes, about */
    WINOGRAD_DEPTH = 64,       /* the K-block of its products */
    WINOGRAD_ROWS = 72,        /* tiles of a task; a multiple of TILE_ROWS */
    WINOGRAD_TILES = 48,       /* tiles of a block of a filter gradient, at least */
    WINOGRAD_FILTER = 1 << 18, /* floats of a whole filter's planes, where they are kept */
    WINOGRAD_FUSED = 1 << 16,  /* floats of a task's planes and sums, where it makes its own */
    WINOGRAD_K = 48,           /* rows of a filter gradient in a task; a multiple of TILE_ROWS */
};

static int64_t tiles_h(const qn_conv2d_shape *d) {
    return ceil_div(d->p, QN_WINOGRAD_OUT);
}

static int64_t tiles_w(const qn_conv2d_shape *d) {
    return ceil_div(d->q, QN_WINOGRAD_OUT);
}

static bool can_winograd(const qn_conv2d_shape *d) {
    return d->r == 3 && d->s == 3 && d->groups == 1 && d->stride_h == 1 && d->stride_w == 1 &&
           d->dilation_h == 1 && d->dilation_w == 1 && d->pad_top <= 2 && d->pad_left <= 2;
}

/* One side of a convolution: an image whose tiles begin every 4 pixels at -pad. */
typedef struct tile_grid {
    const float *image; /* (N, h, w, step), of which c are used */
    int64_t h, w, c, step, pad_h, pad_w;
    int64_t rows, columns; /* tiles of a sample */
    int size;              /* pixels of a tile's side */
    float *planes;         /* of a block: (PLANES, tiles, c) */
    int64_t row, plane;    /* floats from one tile to the next, from one plane to the next */
} tile_grid;

/* Rows of planes, and planes, lie a little apart, so that they do not meet in one cache set: of a
 * tile, all planes are written or read. */
static int64_t plane_row(int64_t c) {
    return padded(c) + ROW_PAD;
}

static int64_t plane_stride(int64_t rows, int64_t row) {
    return round_up(rows * row, 16) + ROW_PAD;
}

/* Of the planes of a block of tiles: half a page and a line more suits the products too. */
static int64_t block_plane_stride(int64_t tiles, int64_t row) {
    return plane_stride(tiles, row) + 512;
}

static qn_winograd_tile tile_of(const tile_grid *t, int64_t index) {
    const int64_t j = index % t->columns, i = index / t->columns % t->rows;
    const int64_t n = index / t->columns / t->rows;
    const int64_t y = i * QN_WINOGRAD_OUT - t->pad_h, x = j * QN_WINOGRAD_OUT - t->pad_w;
    return (qn_winograd_tile){.pixels = (float *)(uintptr_t)t->image +
                                        ((n * t->h + y) * t->w + x) * t->step,
                              .row_stride = t->w * t->step,
                              .pixel_stride = t->step,
                              .top = (int)max_int(0, -y),
                              .bottom = (int)min_int(t->size, t->h - y),
                              .left = (int)max_int(0, -x),
                              .right = (int)min_int(t->size, t->w - x)};
}

/* ---- planes of a block of tiles ---- */

/* A tile's pixels, but those left of column `left`, will be needed soon, and come from afar
 * meanwhile. */
static inline __attribute__((always_inline)) void
fetch_image_tile(const qn_winograd_tile *t, int left, int64_t channels, bool is_written) {
    for (int y = t->top; y < t->bottom; y++) {
        for (int x = t->left > left ? t->left : left; x < t->right; x++) {
            const float *pixel = t->pixels + y * t->row_stride + x * t->pixel_stride;
            for (int64_t c = 0; c < channels; c += LINE_FLOATS) {
                if (is_written)
                    __builtin_prefetch(pixel + c, 1, 3);
                else
                    __builtin_prefetch(pixel + c, 0, 3);
            }
        }
    }
}

/* Planes of channels [c, c + channels) of so many tiles. */
static void tile_planes(const tile_grid *t, int64_t first, int64_t count, int64_t c,
                        int64_t channels, float *planes, int64_t row, int64_t plane) {
    qn_winograd_tile next = tile_of(t, first);
    next.pixels += c;
    for (int64_t i = 0; i < count; i++) {
        const qn_winograd_tile tile = next;
        if (i + 1 < count) {
            next = tile_of(t, first + i + 1);
            next.pixels += c;
            fetch_image_tile(&next, t->size - QN_WINOGRAD_OUT, channels, false);
        }
        (t->size == QN_WINOGRAD_IN ? WINOGRAD.input : WINOGRAD.gradient)(&tile, channels,
                                                                         planes + i * row, plane);
    }
}

typedef struct planes_context {
    const tile_grid *sides[2]; /* those to be transformed; null: none */
    int64_t first, count;      /* tiles of the block */
} planes_context;

enum { TILES_PER_TASK = 4 };

static void planes_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const planes_context *b = context;
    const int64_t last = min_int(b->count, end * TILES_PER_TASK);
    for (int side = 0; side < 2 && b->sides[side]; side++) {
        const tile_grid *t = b->sides[side];
        const int64_t i = begin * TILES_PER_TASK;
        tile_planes(t, b->first + i, last - i, 0, t->c, t->planes + i * t->row, t->row, t->plane);
    }
}

static void make_planes(qn_team *team, const planes_context *b) {
    qn_team_run(team, ceil_div(b->count, TILES_PER_TASK), planes_task, (void *)b);
}

/* ---- forward, and backward data ---- */

/* Filter of `columns` output channels: tap (r, s) of input channel p and output channel j at
 * w + p * p_step + j * j_step + r * r_step + s * s_step; one of p_step and j_step is 1. */
typedef struct winograd_filter_rows {
    const float *w;
    int64_t p_stride, j_stride, r_stride, s_stride;
} winograd_filter_rows;

typedef struct winograd_forward {
    tile_grid in, out;
    winograd_filter_rows filter;
    int64_t k; /* output channels */
    const float *bias;
    qn_activation activation;
    qn_tiling tiling;
    int64_t first, count, blocks; /* tiles of the block; tasks along them */
    int64_t rows, width;          /* tiles of a task; columns of a panel, at most */
    bool is_fused;                /* a task makes the planes of its tiles, for all columns */
    bool is_kept;                 /* the filter's planes are made once */
    float *kept;
    float *scratch;
    int64_t scratch_size;
} winograd_forward;

/* Planes of channels [p, p + depth) to [j, j + columns) of the filter, as panels of depth rows of
 * whole vectors, a plane_step apart. */
static void filter_planes(const winograd_filter_rows *f, int64_t p, int64_t depth, int64_t j,
                          int64_t columns, float *taps, float *planes) {
    const float *w = f->w + p * f->p_stride + j * f->j_stride;
    const int64_t width = padded(columns), step = plane_stride(depth, width);
    if (f->j_stride == 1) {
        for (int64_t i = 0; i < depth; i++)
            WINOGRAD.filter(w + i * f->p_stride, f->r_stride, f->s_stride, columns,
                            planes + i * width, step);
        return;
    }
    for (int tap = 0; tap < 9; tap++)
        transpose_block(w + tap / 3 * f->r_stride + tap % 3 * f->s_stride, f->j_stride, columns,
                        depth, taps + tap * depth * width, width, width);
    WINOGRAD.filter(taps, 3 * depth * width, depth * width, depth * width, planes, step);
}

/* Tiles of a task: fewer than `most` where panels are too few for the team, and no more than there
 * are. */
static int64_t task_rows(int64_t tiles, int64_t panels, int64_t most, int n_threads) {
    const int64_t rows = round_up(ceil_div(tiles * panels, n_threads), TILE_ROWS);
    return max_int(TILE_ROWS, min_int(min_int(most, rows), round_up(tiles, TILE_ROWS)));
}

/* ---- the whole filter's planes ---- */

static int64_t kept_block(int64_t c, int64_t k) {
    return PLANES * plane_stride(min_int(WINOGRAD_DEPTH, c), min_int(TILE_COLUMNS, padded(k)));
}

/* Floats, for c inputs and k outputs, or 0: each block would make them again otherwise, but a large
 * filter's take too much memory. */
static int64_t kept_size(int64_t tiles, int64_t c, int64_t k, int n_threads) {
    const int64_t panels = ceil_div(k, TILE_COLUMNS);
    const int64_t size = panels * ceil_div(c, WINOGRAD_DEPTH) * kept_block(c, k);
    return tiles > task_rows(tiles, panels, WINOGRAD_ROWS, n_threads) && size <= WINOGRAD_FILTER
               ? size
               : 0;
}

/* Few outputs, or few inputs: planes are read so seldom that they must not leave the second cache.
 */
static bool can_be_fused(int64_t tiles, int64_t c, int64_t k, int n_threads) {
    return (k <= TILE_COLUMNS || c <= WINOGRAD_DEPTH) && kept_size(tiles, c, k, n_threads) > 0;
}

static int64_t fused_row(int64_t c) {
    return plane_row(min_int(WINOGRAD_DEPTH, c));
}

/* Tiles of a task that makes its own planes. */
static int64_t fused_rows(int64_t c) {
    const int64_t most = WINOGRAD_FUSED / (PLANES * (fused_row(c) + TILE_COLUMNS));
    return max_int((most + TILE_ROWS / 2) / TILE_ROWS, 1) * TILE_ROWS;
}

static float *kept_at(const winograd_forward *b, int64_t p, int64_t j) {
    const int64_t depths = ceil_div(b->in.c, WINOGRAD_DEPTH);
    return b->kept + (j / TILE_COLUMNS * depths + p / WINOGRAD_DEPTH) * kept_block(b->in.c, b->k);
}

/* A task is a panel in one K-block. */
static void keep_task(void *context, int64_t begin, int64_t end, int thread) {
    const winograd_forward *b = context;
    const int64_t depths = ceil_div(b->in.c, WINOGRAD_DEPTH);
    for (int64_t task = begin; task < end; task++) {
        const int64_t p = task % depths * WINOGRAD_DEPTH, j = task / depths * TILE_COLUMNS;
        filter_planes(&b->filter, p, min_int(WINOGRAD_DEPTH, b->in.c - p), j,
                      min_int(TILE_COLUMNS, b->k - j), b->scratch + thread * b->scratch_size,
                      kept_at(b, p, j));
    }
}

/* ---- a block ---- */

static qn_winograd_tile output_of(const winograd_forward *b, int64_t i, int64_t j) {
    qn_winograd_tile tile = tile_of(&b->out, b->first + i);
    tile.pixels += j;
    return tile;
}

static void finish_outputs(const winograd_forward *b, int64_t i0, int64_t rows, int64_t j,
                           int64_t columns, const float *sums, int64_t sums_stride) {
    qn_winograd_tile next = output_of(b, i0, j);
    for (int64_t i = 0; i < rows; i++) {
        const qn_winograd_tile tile = next;
        if (i + 1 < rows) {
            next = output_of(b, i0 + i + 1, j);
            fetch_image_tile(&next, 0, columns, true);
        }
        WINOGRAD.output(sums + i * padded(columns), sums_stride, columns,
                        b->bias ? b->bias + j : NULL, &tile);
        for (int y = 0; b->activation.kind != QN_ACTIVATION_NONE && y < tile.bottom; y++) {
            for (int x = 0; x < tile.right; x++) {
                float *pixel = tile.pixels + y * tile.row_stride + x * tile.pixel_stride;
                activate_row(b->activation, columns, pixel, pixel);
            }
        }
    }
}

/* Tiles [i0, i0 + rows) of the block, columns [j, j + columns). */
static void winograd_block(const winograd_forward *b, int64_t i0, int64_t rows, int64_t j,
                           int64_t columns, float *scratch) {
    const int64_t depth_most = min_int(WINOGRAD_DEPTH, b->in.c), width = padded(columns);
    float *taps = scratch, *sums = taps + 9 * depth_most * b->width;
    float *own = sums + PLANES * plane_stride(b->rows, b->width);
    float *filter = own + (b->is_fused ? PLANES * b->in.plane : 0);
    const int64_t sums_stride = plane_stride(rows, width);
    for (int64_t p = 0; p < b->in.c; p += WINOGRAD_DEPTH) {
        const int64_t depth = min_int(WINOGRAD_DEPTH, b->in.c - p);
        const float *planes = b->is_fused ? own : b->in.planes + i0 * b->in.row + p;
        if (b->is_fused && j == 0)
            tile_planes(&b->in, b->first + i0, rows, p, depth, own, b->in.row, b->in.plane);
        if (b->is_kept)
            filter = kept_at(b, p, j);
        else
            filter_planes(&b->filter, p, depth, j, columns, taps, filter);
        for (int e = 0; e < PLANES; e++) {
            const float *a = planes + e * b->in.plane;
            float *to = sums + e * sums_stride;
            for (int64_t i = 0; i < rows; i += TILE_ROWS) {
                const int64_t height = min_int(TILE_ROWS, rows - i);
                TILES[0][width / VL - 1][height - 1](depth, a + i * b->in.row, b->in.row,
                                                     filter + e * plane_stride(depth, width), width,
                                                     to + i * width, width, p > 0);
            }
        }
    }
    finish_outputs(b, i0, rows, j, columns, sums, sums_stride);
}

static void winograd_task(void *context, int64_t begin, int64_t end, int thread) {
    const winograd_forward *b = context;
    for (int64_t task = begin; task < end; task++) {
        const int64_t i = task % b->blocks * b->rows, rows = min_int(b->rows, b->count - i);
        const int64_t first = task / b->blocks * TILE_COLUMNS;
        const int64_t last = b->is_fused ? b->k : min_int(b->k, first + TILE_COLUMNS);
        for (int64_t j = first; j < last; j += TILE_COLUMNS)
            winograd_block(b, i, rows, j, min_int(TILE_COLUMNS, last - j),
                           b->scratch + thread * b->scratch_size);
    }
}

/* Tiles of a block; a tiling makes it smaller. */
static int64_t winograd_tiles(int64_t tiles, int64_t channels, qn_tiling tiling) {
    const int64_t most =
        (WINOGRAD_SPACE >> tiling.kinds[QN_TILING_TILES]) / (PLANES * plane_row(channels));
    return min_int(tiles, max_int((most + WINOGRAD_ROWS / 2) / WINOGRAD_ROWS, 1) * WINOGRAD_ROWS);
}

/* Floats of a thread: a filter's taps, sums, planes of a filter that are not kept, and those that a
 * task makes of its tiles. */
static int64_t winograd_scratch(const winograd_forward *b) {
    const int64_t depth = min_int(WINOGRAD_DEPTH, b->in.c);
    return round_up(9 * depth * b->width + PLANES * plane_stride(b->rows, b->width) +
                        (b->is_kept ? 0 : PLANES * plane_stride(depth, b->width)) +
                        (b->is_fused ? PLANES * b->in.plane : 0),
                    16);
}

static int64_t image_tiles(int64_t n, int64_t h, int64_t w) {
    return n * ceil_div(h, QN_WINOGRAD_OUT) * ceil_div(w, QN_WINOGRAD_OUT);
}

/* How the output of n images is tiled; b has the sizes. Tiles of a block. */
static int64_t tile_winograd(winograd_forward *b, int64_t n, int n_threads) {
    const int64_t tiles = image_tiles(n, b->out.h, b->out.w), panels = ceil_div(b->k, TILE_COLUMNS);
    b->width = min_int(TILE_COLUMNS, padded(b->k));
    b->is_kept = kept_size(tiles, b->in.c, b->k, n_threads) > 0;
    b->is_fused = can_be_fused(tiles, b->in.c, b->k, n_threads);
    const int64_t block = b->is_fused ? tiles : winograd_tiles(tiles, b->in.c, b->tiling);
    b->rows = b->is_fused ? task_rows(tiles, 1, fused_rows(b->in.c), n_threads)
                          : task_rows(tiles, panels, WINOGRAD_ROWS, n_threads);
    b->in.row = b->is_fused ? fused_row(b->in.c) : plane_row(b->in.c);
    b->in.plane =
        b->is_fused ? plane_stride(b->rows, b->in.row) : block_plane_stride(block, b->in.row);
    b->scratch_size = winograd_scratch(b);
    return block;
}

/* Floats for k channels of n outputs h x w from c channels. */
static int64_t winograd_forward_size(int64_t n, int64_t h, int64_t w, int64_t c, int64_t k,
                                     int n_threads) {
    winograd_forward b = {.in = {.c = c}, .out = {.h = h, .w = w}, .k = k};
    tile_winograd(&b, n, n_threads);
    return kept_size(image_tiles(n, h, w), c, k, n_threads) +
           (b.is_fused ? 0 : PLANES * b.in.plane) + n_threads * b.scratch_size;
}

/* The output of n images h x w, from an image with its channels, step, sizes and pads. */
static void run_winograd(qn_team *team, winograd_forward *b, int64_t n, float *workspace) {
    const int64_t tiles = image_tiles(n, b->out.h, b->out.w), panels = ceil_div(b->k, TILE_COLUMNS);
    const int64_t block = tile_winograd(b, n, qn_team_size(team));
    b->in.rows = b->out.rows = ceil_div(b->out.h, QN_WINOGRAD_OUT);
    b->in.columns = b->out.columns = ceil_div(b->out.w, QN_WINOGRAD_OUT);
    b->in.size = QN_WINOGRAD_IN;
    b->out.size = QN_WINOGRAD_OUT;
    b->in.planes = workspace;
    b->scratch = workspace + (b->is_fused ? 0 : PLANES * b->in.plane);
    b->kept = b->scratch + qn_team_size(team) * b->scratch_size;
    if (b->is_kept)
        qn_team_run(team, panels * ceil_div(b->in.c, WINOGRAD_DEPTH), keep_task, b);
    for (b->first = 0; b->first < tiles; b->first += block) {
        b->count = min_int(block, tiles - b->first);
        b->blocks = ceil_div(b->count, b->rows);
        if (!b->is_fused)
            make_planes(team, &(planes_context){{&b->in}, b->first, b->count});
        qn_team_run(team, b->blocks * (b->is_fused ? 1 : panels), winograd_task, b);
    }
}

static void forward_winograd(qn_team *team, const qn_conv2d_shape *d, const float *x,
                             const float *w, const float *bias_row, qn_activation activation,
                             qn_tiling tiling, float *y, float *workspace) {
    winograd_forward b = {
        .in = {.image = x, .h = d->h, .w = d->w, .c = d->c, .step = d->c},
        .out = {.image = y, .h = d->p, .w = d->q, .c = d->k, .step = y_stride_of(d)},
        .filter = {w, 1, 9 * d->c, 3 * d->c, d->c},
        .k = d->k,
        .bias = bias_row,
        .activation = activation,
        .tiling = tiling,
    };
    b.in.pad_h = d->pad_top;
    b.in.pad_w = d->pad_left;
    run_winograd(team, &b, d->n, workspace);
}

static void backward_data_winograd(qn_team *team, const qn_conv2d_shape *d, const float *dy,
                                   const float *w, qn_tiling tiling, float *dx, float *workspace) {
    winograd_forward b = {
        .in = {.image = dy, .h = d->p, .w = d->q, .c = d->k, .step = y_stride_of(d)},
        .out = {.image = dx, .h = d->h, .w = d->w, .c = d->c, .step = d->c},
        .filter = {w + 8 * d->c, 9 * d->c, 1, -3 * d->c, -d->c},
        .k = d->c,
        .tiling = tiling,
    };
    b.in.pad_h = 2 - d->pad_top;
    b.in.pad_w = 2 - d->pad_left;
    run_winograd(team, &b, d->n, workspace);
}

/* ---- backward filter ---- */

typedef struct winograd_gradient {
    const qn_conv2d_shape *shape;
    tile_grid x, dy;
    int64_t count, k_blocks;
    bool add;
    float *dw, *scratch;
} winograd_gradient;

/* Floats of a task's sums. */
static int64_t gradient_sums(const qn_conv2d_shape *d) {
    return PLANES * plane_stride(min_int(WINOGRAD_K, d->k), min_int(TILE_COLUMNS, padded(d->c)));
}

/* A task is a block of WINOGRAD_K x TILE_COLUMNS of the gradient. */
static void gradient_task(void *context, int64_t begin, int64_t end, int thread) {
    const winograd_gradient *g = context;
    const int64_t c = g->x.c;
    float *sums = g->scratch + thread * gradient_sums(g->shape);
    for (int64_t task = begin; task < end; task++) {
        const int64_t k = task % g->k_blocks * WINOGRAD_K, j = task / g->k_blocks * TILE_COLUMNS;
        const int64_t rows = min_int(WINOGRAD_K, g->dy.c - k);
        const int64_t columns = min_int(TILE_COLUMNS, c - j), width = padded(columns);
        const int64_t step = plane_stride(rows, width);
        for (int e = 0; e < PLANES; e++) {
            const float *b = g->x.planes + e * g->x.plane + j;
            const float *a = g->dy.planes + e * g->dy.plane + k;
            for (int64_t i = 0; i < rows; i += TILE_ROWS) {
                const int64_t height = min_int(TILE_ROWS, rows - i);
                for (int64_t p = 0; p < g->count; p += WINOGRAD_DEPTH)
                    TILES[1][width / VL - 1][height - 1](
                        min_int(WINOGRAD_DEPTH, g->count - p), a + p * g->dy.row + i, g->dy.row,
                        b + p * g->x.row, g->x.row, sums + e * step + i * width, width, p > 0);
            }
        }
        for (int64_t i = 0; i < rows; i++)
            WINOGRAD.filter_gradient(sums + i * width, step, columns, g->dw + (k + i) * 9 * c + j,
                                     3 * c, c, g->add);
    }
}

/* n, or the power of two above it that is not far. */
static int64_t power_near(int64_t n) {
    return 4 * n >= 3 * power_above(n) ? power_above(n) : power_below(n);
}

/* Tiles of a block: whole samples, a power of two of them, or, of large ones, part of one; never by
 * their number. */
static int64_t gradient_tiles(const qn_conv2d_shape *d) {
    const int64_t sample = tiles_h(d) * tiles_w(d);
    const int64_t most =
        max_int(WINOGRAD_SPACE / (PLANES * (plane_row(d->c) + plane_row(d->k))), WINOGRAD_TILES);
    return sample > most ? most : power_near(most / sample) * sample;
}

/* Tiles [*first, *first + *count) are block i; how many blocks there are. */
static int64_t gradient_block(const qn_conv2d_shape *d, int64_t i, int64_t *first, int64_t *count) {
    const int64_t sample = tiles_h(d) * tiles_w(d), tiles = d->n * sample;
    const int64_t block = gradient_tiles(d), parts = ceil_div(sample, block);
    const bool is_whole = block >= sample;
    *first = is_whole ? i * block : i / parts * sample + i % parts * block;
    *count = min_int(block, is_whole ? tiles - *first : (i / parts + 1) * sample - *first);
    return is_whole ? ceil_div(tiles, block) : d->n * parts;
}

static int64_t gradient_blocks(const qn_conv2d_shape *d) {
    int64_t first, count;
    return gradient_block(d, 0, &first, &count);
}

/* Floats of a block's planes, of x and of dy. */
static int64_t gradient_planes(const qn_conv2d_shape *d) {
    const int64_t tiles = min_int(gradient_tiles(d), d->n * tiles_h(d) * tiles_w(d));
    return PLANES * (block_plane_stride(tiles, plane_row(d->c)) +
                     block_plane_stride(tiles, plane_row(d->k)));
}

static int64_t by_blocks_size(const qn_conv2d_shape *d, int n_threads) {
    return round_up(gradient_blocks(d) * d->k * 9 * d->c, 16) +
           n_threads * (gradient_planes(d) + gradient_sums(d));
}

/* A gradient too small to be shared out: each block's is made by one thread, and they are
 * added in order; not where that takes more memory than x and dy. */
static bool is_by_blocks(const qn_conv2d_shape *d, int n_threads) {
    const int64_t tasks = ceil_div(d->k, WINOGRAD_K) * ceil_div(d->c, TILE_COLUMNS);
    return n_threads > 1 && tasks < 4 * n_threads && gradient_blocks(d) >= n_threads &&
           by_blocks_size(d, n_threads) <= d->n * (d->h * d->w * d->c + d->p * d->q * d->k);
}

static int64_t winograd_gradient_size(const qn_conv2d_shape *d, int n_threads) {
    return is_by_blocks(d, n_threads) ? by_blocks_size(d, n_threads)
                                      : gradient_planes(d) + n_threads * gradient_sums(d);
}

/* A task is a block. */
static void gradient_block_task(void *context, int64_t begin, int64_t end, int thread) {
    const winograd_gradient *g = context;
    winograd_gradient own = *g;
    own.x.planes = g->scratch + thread * (gradient_planes(g->shape) + gradient_sums(g->shape));
    own.dy.planes = own.x.planes + PLANES * own.x.plane;
    own.scratch = own.dy.planes + PLANES * own.dy.plane;
    for (int64_t task = begin; task < end; task++) {
        int64_t first;
        gradient_block(g->shape, task, &first, &own.count);
        own.dw = g->dw + task * g->dy.c * 9 * g->x.c;
        tile_planes(&own.x, first, own.count, 0, own.x.c, own.x.planes, own.x.row, own.x.plane);
        tile_planes(&own.dy, first, own.count, 0, own.dy.c, own.dy.planes, own.dy.row,
                    own.dy.plane);
        gradient_task(&own, 0, own.k_blocks * ceil_div(own.x.c, TILE_COLUMNS), 0);
    }
}

static void backward_filter_winograd(qn_team *team, const qn_conv2d_shape *d, const float *x,
                                     const float *dy, float *dw, float *workspace) {
    const int64_t held = min_int(gradient_tiles(d), d->n * tiles_h(d) * tiles_w(d));
    const int64_t blocks = gradient_blocks(d), size = d->k * 9 * d->c;
    winograd_gradient g = {
        .shape = d,
        .x = {.image = x, .h = d->h, .w = d->w, .c = d->c, .step = d->c},
        .dy = {.image = dy, .h = d->p, .w = d->q, .c = d->k, .step = y_stride_of(d)},
        .k_blocks = ceil_div(d->k, WINOGRAD_K),
        .dw = dw,
    };
    g.x.pad_h = d->pad_top;
    g.x.pad_w = d->pad_left;
    g.x.rows = g.dy.rows = tiles_h(d);
    g.x.columns = g.dy.columns = tiles_w(d);
    g.x.size = QN_WINOGRAD_IN;
    g.dy.size = QN_WINOGRAD_OUT;
    g.x.row = plane_row(d->c);
    g.dy.row = plane_row(d->k);
    g.x.plane = block_plane_stride(held, g.x.row);
    g.dy.plane = block_plane_stride(held, g.dy.row);
    if (is_by_blocks(d, qn_team_size(team))) {
        g.dw = workspace;
        g.scratch = workspace + round_up(blocks * size, 16);
        qn_team_run(team, blocks, gradient_block_task, &g);
        run_chain(team, size, blocks, workspace, d->add, dw);
        return;
    }
    g.x.planes = workspace;
    g.dy.planes = g.x.planes + PLANES * g.x.plane;
    g.scratch = g.dy.planes + PLANES * g.dy.plane;
    for (int64_t i = 0; i < blocks; i++) {
        int64_t first;
        gradient_block(d, i, &first, &g.count);
        g.add = d->add || i > 0;
        make_planes(team, &(planes_context){{&g.x, &g.dy}, first, g.count});
        qn_team_run(team, g.k_blocks * ceil_div(d->c, TILE_COLUMNS), gradient_task, &g);
    }
}

static size_t winograd_workspace(const qn_conv2d_shape *d, qn_conv2d_pass pass, int n_threads) {
    int64_t count = 0;
    switch (pass) {
    case QN_CONV2D_FORWARD:
        count = winograd_forward_size(d->n, d->p, d->q, d->c, d->k, n_threads);
        break;
    case QN_CONV2D_BACKWARD_DATA:
        count = winograd_forward_size(d->n, d->h, d->w, d->k, d->c, n_threads);
        break;
    case QN_CONV2D_BACKWARD_FILTER:
        count = winograd_gradient_size(d, n_threads);
        break;
    }
    return (size_t)count * sizeof(float);
}

#endif
