/* Convolution of 3x3 at stride 1 by Winograd's F(4x4, 3x3): inputs, filters and gradients are
 * transformed tile by tile into 49 planes, in which the convolution is 49 products: a third of the
 * direct sum's. Backward data is the same with the filter turned round; backward filter sums the
 * products of the planes of x and dy over the tiles. Tiles are done in blocks whose planes stay
 * near the processor: made by the thread that multiplies them, where there are tiles enough, or few
 * channels, or by all threads together. A small filter's planes are made once, a large one's by
 * each task that needs them, never as a whole.
 *
 * A filter of 4x4 at stride 2 goes by F(3x3, 2x2) in phases: every other row and column of an image
 * is four images, and of the filter four of 2x2 taps, whose convolutions at stride 1 are summed.
 * The four count as channels of one image, phase by phase, or, backward to the data, of one output.
 *
 * It rounds differently from the direct sum, about as well (docs/kernels.md). Which convolutions
 * use it therefore determines the bits of a result, and depends on the rules (kernels/rules.h)
 * alone; so do the blocks that a filter gradient is summed in. Parts of a batch that must give the
 * bits of the whole batch use the algorithm that the whole batch would use. */
#ifndef QN_KERNELS_VECTOR_WINOGRAD_H
#define QN_KERNELS_VECTOR_WINOGRAD_H

#include "kernels/vector/product.h"

enum {
    WINOGRAD_SPACE = 1 << 19,  /* floats of a block's planes, about */
    WINOGRAD_DEPTH = 64,       /* the K-block of its products */
    WINOGRAD_ROWS = 72,        /* tiles of a task; a multiple of TILE_ROWS */
    WINOGRAD_TILES = 48,       /* tiles of a block of a filter gradient, at least */
    WINOGRAD_FILTER = 1 << 18, /* floats of a whole filter's planes, where they are kept */
    WINOGRAD_FUSED = 1 << 16,  /* floats of a task's planes and sums, where it makes its own */
    WINOGRAD_OWNED = 48,       /* tiles for each thread where it makes its own planes, at least */
    WINOGRAD_ROUND = 3 << 20,  /* floats of planes and sums that threads make for themselves */
    WINOGRAD_K = 48,           /* rows of a filter gradient in a task; a multiple of TILE_ROWS */
};

/* The sides of output tiles, input tiles and filters, and the stride. */
typedef struct winograd_form {
    int out, in, planes, taps, stride;
    const qn_winograd *transforms;
} winograd_form;

static const winograd_form dense_form = {QN_WINOGRAD_OUT, QN_WINOGRAD_IN, QN_WINOGRAD_POINTS, 3, 1,
                                         &WINOGRAD};
static const winograd_form phased_form = {QN_PHASED_OUT, QN_PHASED_IN, QN_PHASED_POINTS, 2, 2,
                                          &PHASED};

static const winograd_form *form_of(const qn_conv2d_shape *d) {
    return d->stride_h == 1 ? &dense_form : &phased_form;
}

static int64_t tiles_h(const qn_conv2d_shape *d) {
    return ceil_div(d->p, form_of(d)->out);
}

static int64_t tiles_w(const qn_conv2d_shape *d) {
    return ceil_div(d->q, form_of(d)->out);
}

static bool can_winograd(const qn_conv2d_shape *d) {
    const winograd_form *f = form_of(d);
    const int side = f->taps * f->stride;
    return d->r == side && d->s == side && d->groups == 1 && d->stride_h == f->stride &&
           d->stride_w == f->stride && d->dilation_h == 1 && d->dilation_w == 1 &&
           d->pad_top < side && d->pad_left < side;
}

/* One side of a convolution: an image, or its phases, whose tiles begin every form->out pixels of
 * them at -pad. */
typedef struct tile_grid {
    const winograd_form *form;
    const float *image; /* (N, h, w, step), of which `channels` are used */
    int64_t h, w, channels, step, pad_h, pad_w;
    int64_t stride;        /* from one pixel of a phase to the next; 1: there is but one */
    int64_t c;             /* channels of all phases */
    int64_t rows, columns; /* tiles of a sample */
    int size;              /* pixels of a tile's side */
    float *planes;         /* of a block: (form->planes, tiles, c) */
    int64_t row, plane;    /* floats from one tile to the next, from one plane to the next */
} tile_grid;

/* Of an image, or its phases: tiles of `size`, all of which it takes. */
static tile_grid grid_of(const winograd_form *form, int size, int64_t stride, int64_t h, int64_t w,
                         int64_t channels, int64_t step) {
    return (tile_grid){.form = form,
                       .h = h,
                       .w = w,
                       .channels = channels,
                       .step = step,
                       .stride = stride,
                       .c = stride * stride * channels,
                       .size = size};
}

/* Images, outputs, their gradients: the same of each pass. */
static tile_grid x_grid(const qn_conv2d_shape *d, const float *x, bool is_output) {
    const winograd_form *f = form_of(d);
    tile_grid t = grid_of(f, is_output ? f->out : f->in, f->stride, d->h, d->w, d->c, d->c);
    t.image = x;
    return t;
}

static tile_grid y_grid(const qn_conv2d_shape *d, const float *y, bool is_input) {
    const winograd_form *f = form_of(d);
    tile_grid t = grid_of(f, is_input ? f->in : f->out, 1, d->p, d->q, d->k, y_stride_of(d));
    t.image = y;
    return t;
}

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

/* Tile `index` of the phase that channel c is of, from that channel on. */
static qn_winograd_tile tile_of(const tile_grid *t, int64_t index, int64_t c) {
    const int64_t j = index % t->columns, i = index / t->columns % t->rows;
    const int64_t n = index / t->columns / t->rows, s = t->stride, phase = c / t->channels;
    const int64_t y = i * t->form->out * s + phase / s - t->pad_h;
    const int64_t x = j * t->form->out * s + phase % s - t->pad_w;
    return (qn_winograd_tile){
        .pixels =
            (float *)(uintptr_t)t->image + ((n * t->h + y) * t->w + x) * t->step + c % t->channels,
        .row_stride = s * t->w * t->step,
        .pixel_stride = s * t->step,
        .top = (int)ceil_div(max_int(0, -y), s),
        .bottom = (int)ceil_div(max_int(0, min_int(t->size * s, t->h - y)), s),
        .left = (int)ceil_div(max_int(0, -x), s),
        .right = (int)ceil_div(max_int(0, min_int(t->size * s, t->w - x)), s)};
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

/* Planes of channels [c, c + channels), which are of one phase, of so many tiles. */
static void tile_planes(const tile_grid *t, int64_t first, int64_t count, int64_t c,
                        int64_t channels, float *planes, int64_t row, int64_t plane) {
    const qn_winograd *transforms = t->form->transforms;
    qn_winograd_tile next = tile_of(t, first, c);
    for (int64_t i = 0; i < count; i++) {
        const qn_winograd_tile tile = next;
        if (i + 1 < count) {
            next = tile_of(t, first + i + 1, c);
            fetch_image_tile(&next, t->size - t->form->out, channels, false);
        }
        (t->size == t->form->in ? transforms->input
                                : transforms->gradient)(&tile, channels, planes + i * row, plane);
    }
}

/* Planes of all channels. What a phase writes beyond its last channel the next one writes again. */
static void all_planes(const tile_grid *t, int64_t first, int64_t count, float *planes) {
    for (int64_t c = 0; c < t->c; c += t->channels)
        tile_planes(t, first, count, c, t->channels, planes + c, t->row, t->plane);
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
        all_planes(t, b->first + i, last - i, t->planes + i * t->row);
    }
}

static void make_planes(qn_team *team, const planes_context *b) {
    qn_team_run(team, ceil_div(b->count, TILES_PER_TASK), planes_task, (void *)b);
}

/* ---- forward, and backward data ---- */

/* Filter of `columns` output channels: tap (r, s) of input channel p and output channel j at
 * w + p * p_step + j * j_step + r * r_step + s * s_step; one of p_step and j_step is 1. A phase is
 * some taps further on. */
typedef struct winograd_filter_rows {
    const float *w;
    int64_t p_stride, j_stride, r_stride, s_stride;
} winograd_filter_rows;

/* Floats from the taps of the first phase to those of the one that channel c of a grid is of. */
static int64_t phase_taps(const qn_conv2d_shape *d, const tile_grid *t, int64_t c) {
    const int64_t phase = c / t->channels;
    return (phase / t->stride * d->s + phase % t->stride) * d->c;
}

typedef struct winograd_forward {
    const qn_conv2d_shape *shape;
    const winograd_form *form;
    tile_grid in, out;
    winograd_filter_rows filter;
    const float *bias;
    qn_activation activation;
    qn_tiling tiling;
    int64_t first, count; /* tiles of the block */
    int64_t rows, width;  /* tiles of a task; columns of a panel, at most */
    int64_t step;         /* tiles of a task of the block */
    bool is_fused;        /* a task makes the planes of its tiles, for all columns */
    bool is_owned;        /* likewise, of all channels at once */
    bool is_kept;         /* the filter's planes are made once */
    float *kept;
    float *scratch;
    int64_t scratch_size;
} winograd_forward;

/* Planes of channels [p, p + depth) to [j, j + columns) of the filter, each of one phase, as panels
 * of depth rows of whole vectors, a plane_step apart. */
static void filter_planes(const winograd_forward *b, int64_t p, int64_t depth, int64_t j,
                          int64_t columns, float *taps, float *planes) {
    const winograd_filter_rows *f = &b->filter;
    const qn_winograd *transforms = b->form->transforms;
    const float *w = f->w + p % b->in.channels * f->p_stride + j % b->out.channels * f->j_stride +
                     phase_taps(b->shape, &b->in, p) + phase_taps(b->shape, &b->out, j);
    const int64_t width = padded(columns), step = plane_stride(depth, width), side = b->form->taps;
    if (f->j_stride == 1) {
        for (int64_t i = 0; i < depth; i++)
            transforms->filter(w + i * f->p_stride, f->r_stride, f->s_stride, columns,
                               planes + i * width, step);
        return;
    }
    for (int64_t tap = 0; tap < side * side; tap++)
        transpose_block(w + tap / side * f->r_stride + tap % side * f->s_stride, f->j_stride,
                        columns, depth, taps + tap * depth * width, width, width);
    transforms->filter(taps, side * depth * width, depth * width, depth * width, planes, step);
}

/* Tiles of a task: fewer than `most` where panels are too few for the team, and no more than there
 * are. */
static int64_t task_rows(int64_t tiles, int64_t panels, int64_t most, int n_threads) {
    const int64_t rows = round_up(ceil_div(tiles * panels, n_threads), TILE_ROWS);
    return max_int(TILE_ROWS, min_int(min_int(most, rows), round_up(tiles, TILE_ROWS)));
}

/* ---- channels: K-blocks and panels, none of which is of two phases ---- */

static int64_t blocks_of(const tile_grid *t, int64_t size) {
    return t->c / t->channels * ceil_div(t->channels, size);
}

static int64_t block_channel(const tile_grid *t, int64_t size, int64_t block) {
    const int64_t of_phase = ceil_div(t->channels, size);
    return block / of_phase * t->channels + block % of_phase * size;
}

static int64_t block_size(const tile_grid *t, int64_t size, int64_t c) {
    return min_int(size, t->channels - c % t->channels);
}

static int64_t winograd_panels(const winograd_forward *b) {
    return blocks_of(&b->out, TILE_COLUMNS);
}

static int64_t winograd_depths(const winograd_forward *b) {
    return blocks_of(&b->in, WINOGRAD_DEPTH);
}

/* ---- the whole filter's planes ---- */

static int64_t kept_block(const winograd_forward *b) {
    return b->form->planes * plane_stride(min_int(WINOGRAD_DEPTH, b->in.channels),
                                          min_int(TILE_COLUMNS, padded(b->out.channels)));
}

/* Floats, or 0: each block would make them again otherwise, but a large filter's take too much
 * memory. */
static int64_t kept_size(const winograd_forward *b, int64_t tiles, int n_threads) {
    const int64_t panels = winograd_panels(b), size = panels * winograd_depths(b) * kept_block(b);
    return tiles > task_rows(tiles, panels, WINOGRAD_ROWS, n_threads) && size <= WINOGRAD_FILTER
               ? size
               : 0;
}

/* Few outputs, or few inputs: planes are read so seldom that they must not leave the second cache.
 */
static bool can_be_fused(const winograd_forward *b, int64_t tiles, int n_threads) {
    return (winograd_panels(b) == 1 || winograd_depths(b) == 1) &&
           kept_size(b, tiles, n_threads) > 0;
}

static int64_t fused_row(const winograd_forward *b) {
    return plane_row(min_int(WINOGRAD_DEPTH, b->in.channels));
}

/* Tiles of a task that makes its own planes. */
static int64_t fused_rows(const winograd_forward *b) {
    const int64_t most = WINOGRAD_FUSED / (b->form->planes * (fused_row(b) + TILE_COLUMNS));
    return max_int((most + TILE_ROWS / 2) / TILE_ROWS, 1) * TILE_ROWS;
}

static float *kept_at(const winograd_forward *b, int64_t depth, int64_t panel) {
    return b->kept + (panel * winograd_depths(b) + depth) * kept_block(b);
}

/* A task is a panel in one K-block. */
static void keep_task(void *context, int64_t begin, int64_t end, int thread) {
    const winograd_forward *b = context;
    const int64_t depths = winograd_depths(b);
    for (int64_t task = begin; task < end; task++) {
        const int64_t p = block_channel(&b->in, WINOGRAD_DEPTH, task % depths);
        const int64_t j = block_channel(&b->out, TILE_COLUMNS, task / depths);
        filter_planes(b, p, block_size(&b->in, WINOGRAD_DEPTH, p), j,
                      block_size(&b->out, TILE_COLUMNS, j), b->scratch + thread * b->scratch_size,
                      kept_at(b, task % depths, task / depths));
    }
}

/* ---- a block ---- */

static bool makes_own(const winograd_forward *b) {
    return b->is_fused || b->is_owned;
}

/* In a thread's scratch, behind the taps and the sums. */
static float *own_planes(const winograd_forward *b, float *scratch) {
    const int64_t depth = min_int(WINOGRAD_DEPTH, b->in.channels);
    return scratch + b->form->taps * b->form->taps * depth * b->width +
           b->form->planes * plane_stride(b->rows, b->width);
}

static void finish_outputs(const winograd_forward *b, int64_t i0, int64_t rows, int64_t j,
                           int64_t columns, const float *sums, int64_t sums_stride) {
    qn_winograd_tile next = tile_of(&b->out, b->first + i0, j);
    for (int64_t i = 0; i < rows; i++) {
        const qn_winograd_tile tile = next;
        if (i + 1 < rows) {
            next = tile_of(&b->out, b->first + i0 + i + 1, j);
            fetch_image_tile(&next, 0, columns, true);
        }
        b->form->transforms->output(sums + i * padded(columns), sums_stride, columns,
                                    b->bias ? b->bias + j : NULL, &tile);
        for (int y = 0; b->activation.kind != QN_ACTIVATION_NONE && y < tile.bottom; y++) {
            for (int x = 0; x < tile.right; x++) {
                float *pixel = tile.pixels + y * tile.row_stride + x * tile.pixel_stride;
                activate_row(b->activation, columns, pixel, pixel);
            }
        }
    }
}

/* Tiles [i0, i0 + rows) of the block, a panel of columns. */
static void winograd_block(const winograd_forward *b, int64_t i0, int64_t rows, int64_t panel,
                           float *scratch) {
    const int64_t planes_count = b->form->planes, j = block_channel(&b->out, TILE_COLUMNS, panel);
    const int64_t columns = block_size(&b->out, TILE_COLUMNS, j), width = padded(columns);
    const int64_t depth_most = min_int(WINOGRAD_DEPTH, b->in.channels);
    float *taps = scratch, *sums = taps + b->form->taps * b->form->taps * depth_most * b->width;
    float *own = own_planes(b, scratch);
    float *filter = own + (makes_own(b) ? planes_count * b->in.plane : 0);
    const int64_t sums_stride = plane_stride(rows, width);
    for (int64_t block = 0; block < winograd_depths(b); block++) {
        const int64_t p = block_channel(&b->in, WINOGRAD_DEPTH, block);
        const int64_t depth = block_size(&b->in, WINOGRAD_DEPTH, p);
        const float *planes = b->is_fused   ? own
                              : b->is_owned ? own + p
                                            : b->in.planes + i0 * b->in.row + p;
        if (b->is_fused && panel == 0)
            tile_planes(&b->in, b->first + i0, rows, p, depth, own, b->in.row, b->in.plane);
        if (b->is_kept)
            filter = kept_at(b, block, panel);
        else
            filter_planes(b, p, depth, j, columns, taps, filter);
        for (int64_t e = 0; e < planes_count; e++) {
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
    float *scratch = b->scratch + thread * b->scratch_size;
    const int64_t panels = winograd_panels(b), of_tiles = makes_own(b) ? 1 : panels;
    for (int64_t task = begin; task < end; task++) {
        const int64_t i = task / of_tiles * b->step, rows = min_int(b->step, b->count - i);
        const int64_t first = task % of_tiles, last = makes_own(b) ? panels : first + 1;
        if (b->is_owned)
            all_planes(&b->in, b->first + i, rows, own_planes(b, scratch));
        for (int64_t panel = first; panel < last; panel++)
            winograd_block(b, i, rows, panel, scratch);
    }
}

/* Tiles of a block; a tiling makes it smaller. */
static int64_t winograd_tiles(const winograd_forward *b, int64_t tiles) {
    const int64_t most = (WINOGRAD_SPACE >> b->tiling.kinds[QN_TILING_TILES]) /
                         (b->form->planes * plane_row(b->in.c));
    return min_int(tiles, max_int((most + WINOGRAD_ROWS / 2) / WINOGRAD_ROWS, 1) * WINOGRAD_ROWS);
}

/* Pieces of a batch are made to save memory. */
static bool is_piece(const qn_conv2d_shape *d) {
    return d->batch > d->n;
}

/* Planes that another thread made come from afar where cores share no cache: where there are tiles
 * enough for all threads, each makes its own, if that takes no more than a few blocks' memory. */
static bool can_be_owned(const winograd_forward *b, int64_t tiles, int n_threads) {
    const int64_t planes =
        b->form->planes * plane_stride(WINOGRAD_ROWS, plane_row(b->in.c)) * n_threads;
    return n_threads > 1 && !is_piece(b->shape) && tiles >= n_threads * WINOGRAD_OWNED &&
           planes <= WINOGRAD_ROUND;
}

/* Floats of a thread: a filter's taps, sums, planes of a filter that are not kept, and those that a
 * task makes of its tiles. */
static int64_t winograd_scratch(const winograd_forward *b) {
    const int64_t depth = min_int(WINOGRAD_DEPTH, b->in.channels), planes = b->form->planes;
    return round_up(b->form->taps * b->form->taps * depth * b->width +
                        planes * plane_stride(b->rows, b->width) +
                        (b->is_kept ? 0 : planes * plane_stride(depth, b->width)) +
                        (makes_own(b) ? planes * b->in.plane : 0),
                    16);
}

static int64_t all_tiles(const winograd_forward *b) {
    return b->shape->n * b->out.rows * b->out.columns;
}

/* How the output is tiled; b has the sides. Tiles of a block. */
static int64_t tile_winograd(winograd_forward *b, int n_threads) {
    const int64_t tiles = all_tiles(b), panels = winograd_panels(b);
    b->width = min_int(TILE_COLUMNS, padded(b->out.channels));
    b->is_kept = kept_size(b, tiles, n_threads) > 0;
    b->is_fused = can_be_fused(b, tiles, n_threads);
    b->is_owned = !b->is_fused && can_be_owned(b, tiles, n_threads);
    const int64_t block = makes_own(b) ? tiles : winograd_tiles(b, tiles);
    b->rows = b->is_fused ? task_rows(tiles, 1, fused_rows(b), n_threads)
                          : task_rows(tiles, b->is_owned ? 1 : panels, WINOGRAD_ROWS, n_threads);
    b->step = b->rows;
    if (b->is_owned) /* as many for each thread */
        b->step = ceil_div(tiles, round_up(ceil_div(tiles, b->rows), n_threads));
    b->in.row = b->is_fused ? fused_row(b) : plane_row(b->in.c);
    b->in.plane =
        makes_own(b) ? plane_stride(b->rows, b->in.row) : block_plane_stride(block, b->in.row);
    b->scratch_size = winograd_scratch(b);
    return block;
}

/* The sides of a pass: x to y, or dy to dx. */
static winograd_forward winograd_sides(const qn_conv2d_shape *d, bool is_data, const float *from,
                                       const float *to) {
    winograd_forward b = {.shape = d, .form = form_of(d)};
    b.in = is_data ? y_grid(d, from, true) : x_grid(d, from, false);
    b.out = is_data ? x_grid(d, to, true) : y_grid(d, to, false);
    const int64_t row = b.form->stride * d->s * d->c, column = b.form->stride * d->c;
    if (!is_data) {
        b.in.pad_h = d->pad_top;
        b.in.pad_w = d->pad_left;
        b.filter = (winograd_filter_rows){NULL, 1, d->r * d->s * d->c, row, column};
    } else if (b.form->stride == 1) {
        b.in.pad_h = 2 - d->pad_top;
        b.in.pad_w = 2 - d->pad_left;
        b.filter = (winograd_filter_rows){NULL, d->r * d->s * d->c, 1, -row, -column};
    } else {
        b.in.pad_h = b.in.pad_w = 1;
        b.out.pad_h = d->pad_top;
        b.out.pad_w = d->pad_left;
        b.filter = (winograd_filter_rows){NULL, d->r * d->s * d->c, 1, -row, -column};
    }
    const tile_grid *out = &b.out;
    b.in.rows = b.out.rows = ceil_div(ceil_div(out->h + out->pad_h, out->stride), b.form->out);
    b.in.columns = b.out.columns =
        ceil_div(ceil_div(out->w + out->pad_w, out->stride), b.form->out);
    return b;
}

static int64_t winograd_forward_size(const qn_conv2d_shape *d, bool is_data, int n_threads) {
    winograd_forward b = winograd_sides(d, is_data, NULL, NULL);
    tile_winograd(&b, n_threads);
    return kept_size(&b, all_tiles(&b), n_threads) +
           (makes_own(&b) ? 0 : b.form->planes * b.in.plane) + n_threads * b.scratch_size;
}

static void run_winograd(qn_team *team, winograd_forward *b, float *workspace) {
    const int64_t tiles = all_tiles(b), panels = winograd_panels(b);
    const int64_t block = tile_winograd(b, qn_team_size(team));
    b->in.planes = workspace;
    b->scratch = workspace + (makes_own(b) ? 0 : b->form->planes * b->in.plane);
    b->kept = b->scratch + qn_team_size(team) * b->scratch_size;
    if (b->is_kept)
        qn_team_run(team, panels * winograd_depths(b), keep_task, b);
    for (b->first = 0; b->first < tiles; b->first += block) {
        b->count = min_int(block, tiles - b->first);
        if (!makes_own(b))
            make_planes(team, &(planes_context){{&b->in}, b->first, b->count});
        qn_team_run(team, ceil_div(b->count, b->step) * (makes_own(b) ? 1 : panels), winograd_task,
                    b);
    }
}

static void forward_winograd(qn_team *team, const qn_conv2d_shape *d, const float *x,
                             const float *w, const float *bias_row, qn_activation activation,
                             qn_tiling tiling, float *y, float *workspace) {
    winograd_forward b = winograd_sides(d, false, x, y);
    b.filter.w = w;
    b.bias = bias_row;
    b.activation = activation;
    b.tiling = tiling;
    run_winograd(team, &b, workspace);
}

/* The filter turned round begins with the last taps of its first phase. */
static void backward_data_winograd(qn_team *team, const qn_conv2d_shape *d, const float *dy,
                                   const float *w, qn_tiling tiling, float *dx, float *workspace) {
    winograd_forward b = winograd_sides(d, true, dy, dx);
    b.filter.w = w - (b.form->taps - 1) * (b.filter.r_stride + b.filter.s_stride);
    b.tiling = tiling;
    run_winograd(team, &b, workspace);
}

/* ---- backward filter ---- */

typedef struct winograd_gradient {
    const qn_conv2d_shape *shape;
    tile_grid x, dy;
    int64_t count, k_blocks;
    int64_t first; /* of the blocks at once */
    bool add;
    float *dw, *scratch;
} winograd_gradient;

/* Channels of all phases of x. */
static int64_t phased_channels(const qn_conv2d_shape *d) {
    const int64_t stride = form_of(d)->stride;
    return stride * stride * d->c;
}

/* Floats of a task's sums. */
static int64_t gradient_sums(const qn_conv2d_shape *d) {
    return form_of(d)->planes *
           plane_stride(min_int(WINOGRAD_K, d->k), min_int(TILE_COLUMNS, padded(d->c)));
}

static int64_t gradient_tasks(const qn_conv2d_shape *d) {
    const int64_t stride = form_of(d)->stride;
    return ceil_div(d->k, WINOGRAD_K) * stride * stride * ceil_div(d->c, TILE_COLUMNS);
}

/* A task is a block of WINOGRAD_K x TILE_COLUMNS of the gradient. */
static void gradient_task(void *context, int64_t begin, int64_t end, int thread) {
    const winograd_gradient *g = context;
    const qn_conv2d_shape *d = g->shape;
    const winograd_form *form = g->x.form;
    const int64_t filter = d->r * d->s * d->c, tap = form->stride * d->c;
    float *sums = g->scratch + thread * gradient_sums(g->shape);
    for (int64_t task = begin; task < end; task++) {
        const int64_t k = task % g->k_blocks * WINOGRAD_K;
        const int64_t j = block_channel(&g->x, TILE_COLUMNS, task / g->k_blocks);
        const int64_t rows = min_int(WINOGRAD_K, g->dy.c - k);
        const int64_t columns = block_size(&g->x, TILE_COLUMNS, j), width = padded(columns);
        const int64_t step = plane_stride(rows, width);
        float *to = g->dw + phase_taps(d, &g->x, j) + j % d->c;
        for (int e = 0; e < form->planes; e++) {
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
            form->transforms->filter_gradient(sums + i * width, step, columns,
                                              to + (k + i) * filter, d->s * tap, tap, g->add);
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
    const int64_t row = plane_row(phased_channels(d)) + plane_row(d->k);
    const int64_t most = max_int(WINOGRAD_SPACE / (form_of(d)->planes * row), WINOGRAD_TILES);
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
    return form_of(d)->planes * (block_plane_stride(tiles, plane_row(phased_channels(d))) +
                                 block_plane_stride(tiles, plane_row(d->k)));
}

/* Floats of a thread that makes the gradient of a block by itself. */
static int64_t gradient_scratch(const qn_conv2d_shape *d) {
    return gradient_planes(d) + gradient_sums(d);
}

static int64_t by_blocks_size(const qn_conv2d_shape *d, int64_t blocks, int n_threads) {
    return round_up(blocks * d->k * d->r * d->s * d->c, 16) + n_threads * gradient_scratch(d);
}

/* Blocks whose gradients are made at once, each by one thread, and then added in order; 0: all
 * threads make that of each block. All of them, of a gradient too small to be shared out, where
 * that takes no more memory than x and dy; or one for each thread, which then reads no planes that
 * another made, where that is no more than a few blocks' worth. */
static int64_t blocks_at_once(const qn_conv2d_shape *d, int n_threads) {
    const int64_t blocks = gradient_blocks(d);
    if (n_threads == 1 || blocks < n_threads)
        return 0;
    if (gradient_tasks(d) < 4 * n_threads &&
        by_blocks_size(d, blocks, n_threads) <= d->n * (d->h * d->w * d->c + d->p * d->q * d->k))
        return blocks;
    return !is_piece(d) && by_blocks_size(d, n_threads, n_threads) <= WINOGRAD_ROUND ? n_threads
                                                                                     : 0;
}

static int64_t winograd_gradient_size(const qn_conv2d_shape *d, int n_threads) {
    const int64_t blocks = blocks_at_once(d, n_threads);
    return blocks > 0 ? by_blocks_size(d, blocks, n_threads)
                      : gradient_planes(d) + n_threads * gradient_sums(d);
}

/* A task is a block. */
static void gradient_block_task(void *context, int64_t begin, int64_t end, int thread) {
    const winograd_gradient *g = context;
    const qn_conv2d_shape *d = g->shape;
    winograd_gradient own = *g;
    own.x.planes = g->scratch + thread * gradient_scratch(d);
    own.dy.planes = own.x.planes + own.x.form->planes * own.x.plane;
    own.scratch = own.dy.planes + own.x.form->planes * own.dy.plane;
    for (int64_t task = begin; task < end; task++) {
        int64_t first;
        gradient_block(g->shape, g->first + task, &first, &own.count);
        own.dw = g->dw + task * d->k * d->r * d->s * d->c;
        all_planes(&own.x, first, own.count, own.x.planes);
        all_planes(&own.dy, first, own.count, own.dy.planes);
        gradient_task(&own, 0, gradient_tasks(d), 0);
    }
}

static void backward_filter_winograd(qn_team *team, const qn_conv2d_shape *d, const float *x,
                                     const float *dy, float *dw, float *workspace) {
    const int64_t held = min_int(gradient_tiles(d), d->n * tiles_h(d) * tiles_w(d));
    const int64_t blocks = gradient_blocks(d), size = d->k * d->r * d->s * d->c;
    const int64_t planes = form_of(d)->planes;
    winograd_gradient g = {
        .shape = d,
        .x = x_grid(d, x, false),
        .dy = y_grid(d, dy, false),
        .k_blocks = ceil_div(d->k, WINOGRAD_K),
        .dw = dw,
    };
    g.x.pad_h = d->pad_top;
    g.x.pad_w = d->pad_left;
    g.x.rows = g.dy.rows = tiles_h(d);
    g.x.columns = g.dy.columns = tiles_w(d);
    g.x.row = plane_row(g.x.c);
    g.dy.row = plane_row(d->k);
    g.x.plane = block_plane_stride(held, g.x.row);
    g.dy.plane = block_plane_stride(held, g.dy.row);
    const int64_t at_once = blocks_at_once(d, qn_team_size(team));
    if (at_once > 0) {
        g.dw = workspace;
        g.scratch = workspace + round_up(at_once * size, 16);
        for (; g.first < blocks; g.first += at_once) {
            const int64_t n = min_int(at_once, blocks - g.first);
            qn_team_run(team, n, gradient_block_task, &g);
            run_chain(team, size, n, workspace, d->add || g.first > 0, dw);
        }
        return;
    }
    g.x.planes = workspace;
    g.dy.planes = g.x.planes + planes * g.x.plane;
    g.scratch = g.dy.planes + planes * g.dy.plane;
    for (int64_t i = 0; i < blocks; i++) {
        int64_t first;
        gradient_block(d, i, &first, &g.count);
        g.add = d->add || i > 0;
        make_planes(team, &(planes_context){{&g.x, &g.dy}, first, g.count});
        qn_team_run(team, gradient_tasks(d), gradient_task, &g);
    }
}

static size_t winograd_workspace(const qn_conv2d_shape *d, qn_conv2d_pass pass, int n_threads) {
    int64_t count = 0;
    switch (pass) {
    case QN_CONV2D_FORWARD:
        count = winograd_forward_size(d, false, n_threads);
        break;
    case QN_CONV2D_BACKWARD_DATA:
        count = winograd_forward_size(d, true, n_threads);
        break;
    case QN_CONV2D_BACKWARD_FILTER:
        count = winograd_gradient_size(d, n_threads);
        break;
    }
    return (size_t)count * sizeof(float);
}

#endif
