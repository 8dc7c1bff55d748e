/* The micro-kernel's interface, shared by what makes tiles (one instruction set's tile.c) and what
 * uses them (product.h of the same set). */
#ifndef QN_KERNELS_VECTOR_TILES_H
#define QN_KERNELS_VECTOR_TILES_H

#include <stdbool.h>
#include <stdint.h>

/* c (m, nv * VL) = or += sum over p < depth of a(i, p) * b[p * b_row + j], where a(i, p) is
 * a[i * a_step + p] (rows of A contiguous) or a[p * a_step + i] (columns contiguous), and m and nv
 * are constants of the function. No alignment is needed. The sum is made from zero in one chain of
 * fused multiply-adds a c, rising p; then it is added to c, or stored. */
typedef void qn_tile(int64_t depth, const float *a, int64_t a_stride, const float *b, int64_t b_row,
                     float *c, int64_t c_row, bool add);

/* [columns contiguous][vectors - 1][rows - 1] of each instruction set; sizes in config.h there. */
enum { QN_TILE_MAX_ROWS = 12, QN_TILE_MAX_VECTORS = 3 };
typedef qn_tile *qn_tile_set[2][QN_TILE_MAX_VECTORS][QN_TILE_MAX_ROWS];

/* [vectors - 1], of all rows, contiguous; for an A that is read but once, from afar: what comes
 * next in its rows is fetched meanwhile. */
typedef qn_tile *qn_far_tiles[QN_TILE_MAX_VECTORS];

/* [columns contiguous][all rows, else 4] of all vectors; in step p the lines of row p of what is at
 * `next`, next_row apart, are fetched. */
typedef void qn_next_tile(int64_t depth, const float *a, int64_t a_stride, const float *b,
                          int64_t b_row, float *c, int64_t c_row, bool add, const float *next,
                          int64_t next_row);
typedef qn_next_tile *qn_next_tiles[2][2];

/* For a B (N, K) whose rows lie b_row apart, and up to four rows of A: c (rows, 4) = or += sum over
 * p < depth of b[n * b_row + p] * a(i, p), in the order of a tile's sums. a (depth, VL) holds the
 * four of each p as often as a vector has place for. At most QN_QUAD_GROUPS * VL / 4 rows. c is
 * written up to that many; what lies `next` floats further on is fetched meanwhile. */
enum { QN_QUAD_GROUPS = 4 };
typedef void qn_quad_tile(int64_t depth, const float *a, const float *b, int64_t b_row,
                          int64_t rows, int64_t next, float *c, bool add);

/* sums (m, n) += a (m, depth) b (depth, n), rows of b b_row apart, n whole vectors; in the order of
 * a tile's sums, where they were zeros before the first of some calls over rising depths. For a
 * large b that is read once, row by row; what follows it, if has_next, is fetched meanwhile. */
typedef void qn_stream_tile(int64_t m, int64_t n, int64_t depth, const float *a, int64_t a_stride,
                            const float *b, int64_t b_row, bool has_next, float *sums,
                            int64_t sums_row);

/* A depthwise window over one image (h, w, c): pixel (i, j) meets at tap (r, s) image pixel
 * (i * step_h + offset_h + r * dilation_h, likewise w). Filters are (R, S, C); c >= VL. */
typedef struct qn_depthwise {
    int64_t h, w, c;
    int64_t taps_h, taps_w, columns;
    int64_t step_h, step_w, offset_h, offset_w, dilation_h, dilation_w;
    int64_t image_stride, dy_stride; /* floats from one pixel to the next */
} qn_depthwise;

typedef struct qn_depthwise_rows {
    /* Row i of outputs: pixel j at out + j * out_step is bias (C; null: 0) plus the window's sum.
     */
    void (*forward)(const qn_depthwise *d, const float *image, const float *filter,
                    const float *bias, int64_t i, float *out, int64_t out_stride);
    /* sums (R, S, blocks * VL) += what rows [begin, end) of an image's dy (rows, columns, C) and
     * the image give, for the blocks [first, last) of channels. A block is VL channels; the last
     * one ends at C and may overlap the one before. */
    void (*filter)(const qn_depthwise *d, const float *image, const float *dy, int64_t begin,
                   int64_t end, int64_t first, int64_t last, float *sums);
} qn_depthwise_rows;

/* The transforms of Winograd's convolution (winograd.h), each over n channels. Transformed tiles
 * are QN_WINOGRAD_POINTS planes, plane_step floats apart, of whole vectors: those written have
 * zeros after channel n. */
enum { QN_WINOGRAD_OUT = 4, QN_WINOGRAD_IN = 6, QN_WINOGRAD_LINE = 7, QN_WINOGRAD_POINTS = 49 };
/* Of those for filters of 4x4 at stride 2, a phase of which is of 2x2 (phased_tiles.h). */
enum { QN_PHASED_OUT = 3, QN_PHASED_IN = 4, QN_PHASED_POINTS = 16, QN_PHASES = 4 };

/* A tile of an image: pixel (i, j) at pixels + i * row_step + j * pixel_step, those outside of
 * [top, bottom) x [left, right) count as zeros when read, and are left as they are when written;
 * of outputs of 4x4, top and left are 0. */
typedef struct qn_winograd_tile {
    float *pixels;
    int64_t row_stride, pixel_stride;
    int top, bottom, left, right;
} qn_winograd_tile;

typedef struct qn_winograd {
    /* 6x6 pixels of an input; 4x4 pixels of an output's gradient (phased: 4x4 and 3x3). */
    void (*input)(const qn_winograd_tile *tile, int64_t n, float *planes, int64_t plane_stride);
    void (*gradient)(const qn_winograd_tile *tile, int64_t n, float *planes, int64_t plane_stride);
    /* 4x4 (3x3) pixels of an output, plus bias (n; null: none). */
    void (*output)(const float *planes, int64_t plane_stride, int64_t n, const float *bias,
                   const qn_winograd_tile *tile);
    /* A filter's 3x3 (2x2) taps, tap (r, s) at taps + r * row_step + s * tap_step; the steps may be
     * negative. */
    void (*filter)(const float *taps, int64_t row_stride, int64_t tap_stride, int64_t n,
                   float *planes, int64_t plane_stride);
    /* The gradient of a filter; added to what is there, or stored. */
    void (*filter_gradient)(const float *planes, int64_t plane_stride, int64_t n, float *taps,
                            int64_t row_stride, int64_t tap_stride, bool add);
} qn_winograd;

extern const qn_winograd qn_winograd_avx2, qn_winograd_avx512, qn_winograd_neon;
extern const qn_winograd qn_phased_avx2, qn_phased_avx512, qn_phased_neon;
extern const qn_depthwise_rows qn_depthwise_avx2, qn_depthwise_avx512, qn_depthwise_neon;
extern const qn_tile_set qn_tiles_avx2, qn_tiles_avx512, qn_tiles_neon;
extern const qn_far_tiles qn_far_tiles_avx2, qn_far_tiles_avx512, qn_far_tiles_neon;
extern const qn_next_tiles qn_next_tiles_avx2, qn_next_tiles_avx512, qn_next_tiles_neon;
extern qn_quad_tile qn_quad_tile_avx2, qn_quad_tile_avx512, qn_quad_tile_neon;
extern qn_stream_tile qn_stream_tile_avx2, qn_stream_tile_avx512, qn_stream_tile_neon;

#endif
