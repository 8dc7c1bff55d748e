/* What the host and the program on the DSP share: a piece of memory that begins with a control
 * block, and what the block and the works in it look like. All places are bytes from the beginning
 * of that memory, all numbers 32 bits wide. The host fills in the block and writes a word into a
 * pipe; the DSP does the commands in order, counts them in `done` as it goes, and writes a word
 * back. No work changes what it reads, so one that was interrupted can be done again from the
 * beginning. */
#ifndef QN_DRIVER_HEXAGON_DSP_PROTOCOL_H
#define QN_DRIVER_HEXAGON_DSP_PROTOCOL_H

#include <stdbool.h>
#include <stdint.h>

enum {
    QN_DSP_VERSION = 2,
    QN_DSP_VECTOR = 128,         /* bytes */
    QN_DSP_LANES = 32,           /* words of a vector */
    QN_DSP_MOST_COMMANDS = 64,   /* at once */
    QN_DSP_MOST_RESIDENT = 1024, /* works that stay prepared */
    QN_DSP_CONTROL_BYTES = 16384,
    /* Behind the last byte that is used, for vectors that reach beyond it. */
    QN_DSP_SLACK_BYTES = 4096,
};

typedef enum qn_dsp_kind {
    QN_DSP_FORWARD, /* the products of a convolution; a linear layer is one of 1 x 1 */
    QN_DSP_DATA,
    QN_DSP_FILTER,
    QN_DSP_RELU,
    QN_DSP_RELU_BACKWARD,
    QN_DSP_MAX_POOL,
    QN_DSP_MAX_POOL_BACKWARD,
    QN_DSP_EXPONENTS,
} qn_dsp_kind;

/* Axis letters as in kernels.h. */
typedef struct qn_dsp_window {
    int32_t n, h, w, c, k, r, s, p, q;
    int32_t stride_h, stride_w, pad_top, pad_left, dilation_h, dilation_w;
    int32_t y_stride; /* from one pixel of y or dy to the next */
} qn_dsp_window;

enum { QN_DSP_MOST_INPUTS = 6, QN_DSP_MOST_OUTPUTS = 3 };

/* What does not change from step to step: it is prepared once. */
typedef struct qn_dsp_work {
    int32_t kind;
    uint32_t in[QN_DSP_MOST_INPUTS], out[QN_DSP_MOST_OUTPUTS], workspace;
    qn_dsp_window window;
    int32_t n_inputs;
    int32_t relu, is_pseudo;           /* of products */
    int32_t adapts, period;            /* likewise: how shifts are kept */
    int32_t rows, columns, strides[3]; /* of what is done number by number */
} qn_dsp_work;

typedef struct qn_dsp_command {
    int32_t slot;
    int32_t prepares; /* the number + 1 of the work that the slot is to have from now on; 0: none */
    int32_t bits;     /* that a shift leaves */
} qn_dsp_command;

typedef struct qn_dsp_control {
    uint32_t version;
    uint32_t bytes; /* of all shared memory */
    uint32_t n_commands;
    uint32_t done; /* by the DSP */
    uint32_t n_prepared;
    qn_dsp_command commands[QN_DSP_MOST_COMMANDS];
    qn_dsp_work works[QN_DSP_MOST_COMMANDS]; /* to be prepared */
    uint32_t packets[QN_DSP_MOST_COMMANDS];  /* by the DSP: what each command took */
    uint32_t prepare_packets;                /* likewise: preparing, of those, since the greeting */
} qn_dsp_control;

/* ---- workspaces, which both sides lay out alike ---- */

static inline int32_t qn_dsp_round_up(int32_t n, int32_t to) {
    return (n + to - 1) / to * to;
}

enum {
    QN_DSP_ROWS = 8,     /* of a tile */
    QN_DSP_BLOCK = 32,   /* rows that are prepared at once */
    QN_DSP_PIXELS = 256, /* that a filter's gradient sums up at once */
};

/* A product as one of matrices: sums (rows, columns) over `products`, and the places in its
 * workspace. A row of `gathered` has room for a vector more. */
typedef struct qn_dsp_places {
    int32_t rows, columns, products;
    int32_t quads;              /* groups of four products */
    int32_t lanes;              /* columns, rounded up to whole vectors of sums */
    int32_t gathered_bytes;     /* of a row */
    int32_t pitch, padded_rows; /* bytes of an image's row with its margin, and rows */
    int64_t sums, panels, padded, gathered, tiles, bytes_out, end;
    /* Where lanes are pixels (planes.c): channels of what windows are taken from, pixels of a row
     * with its margin and of an image, lanes of an image's result, and rows, as tiles have them. */
    bool is_planar;
    int32_t channels, wide, plane, image_lanes, tile_rows;
} qn_dsp_places;

enum {
    QN_DSP_FEW = 16,       /* of both */
    QN_DSP_FEW_INPUTS = 8, /* for a filter's gradient */
    QN_DSP_LEAST_INPUTS = 4,
    QN_DSP_MOST_OF_LEAST = 32, /* channels that such inputs may be made to */
    QN_DSP_MOST_TAPS = 512,    /* of words, four channels or neighbours each */
};

/* Few channels leave most lanes of a vector empty: then lanes are pixels. */
static inline bool qn_dsp_is_planar(const qn_dsp_work *work) {
    const qn_dsp_window *d = &work->window;
    const int32_t from = work->kind == QN_DSP_DATA ? d->k : d->c;
    const int32_t to = work->kind == QN_DSP_DATA ? d->c : d->k;
    const bool are_few = to <= (from <= QN_DSP_LEAST_INPUTS ? QN_DSP_MOST_OF_LEAST : QN_DSP_FEW) &&
                         from <= (work->kind == QN_DSP_FILTER ? QN_DSP_FEW_INPUTS : QN_DSP_FEW);
    return are_few && d->r * d->s <= QN_DSP_MOST_TAPS / 4 && d->stride_h == 1 && d->stride_w == 1 &&
           d->s > 1 && d->p * d->q >= QN_DSP_LANES;
}

/* The places of a planar work: planes of words, or for a filter of bytes of the whole batch, in
 * `panels`; words of filters in `tiles`; a mask of lanes in `gathered`. */
static inline void qn_dsp_place_planes(const qn_dsp_work *work, qn_dsp_places *l) {
    const qn_dsp_window *d = &work->window;
    const bool is_filter = work->kind == QN_DSP_FILTER, is_data = work->kind == QN_DSP_DATA;
    const int32_t most = d->c > d->k ? d->c : d->k, slack = 4 * QN_DSP_VECTOR;
    l->channels = is_data ? d->k : d->c;
    l->wide = (is_data ? d->w : d->q) + d->s - 1;
    l->plane = l->padded_rows * l->wide;
    l->image_lanes = qn_dsp_round_up((is_data ? d->h : d->p) * l->wide, QN_DSP_VECTOR);
    l->tile_rows = qn_dsp_round_up(l->columns, QN_DSP_ROWS);
    const int64_t words = (int64_t)qn_dsp_round_up(l->channels, 4) * (l->plane + slack);
    const int64_t bytes = (int64_t)(qn_dsp_round_up(d->c, 4) + qn_dsp_round_up(d->k, 4)) *
                          ((int64_t)d->n * qn_dsp_round_up(l->plane, 4) + slack);
    const int64_t sums_end = l->sums + (int64_t)d->n * l->tile_rows * l->image_lanes * 4;
    l->panels = !is_filter && sums_end > l->panels ? sums_end : l->panels;
    l->padded = l->panels + (is_filter ? bytes : words) / QN_DSP_VECTOR * QN_DSP_VECTOR + slack;
    l->gathered = l->padded + qn_dsp_round_up(l->plane * most, QN_DSP_VECTOR) + 64 * slack;
    l->tiles = l->gathered + 4 * (int64_t)l->image_lanes;
    l->bytes_out = l->tiles + QN_DSP_MOST_TAPS * QN_DSP_MOST_OF_LEAST * 4;
    l->end = l->bytes_out + 2 * (int64_t)QN_DSP_MOST_OF_LEAST * (l->image_lanes + slack);
}

static inline qn_dsp_places qn_dsp_place(const qn_dsp_work *work) {
    const qn_dsp_window *d = &work->window;
    const bool is_filter = work->kind == QN_DSP_FILTER, is_data = work->kind == QN_DSP_DATA;
    qn_dsp_places l = {0};
    const int32_t pixels = d->n * d->p * d->q, taps = d->r * d->s;
    l.rows = is_filter ? d->k : is_data ? d->n * d->h * d->w : pixels;
    l.columns = is_filter ? taps * d->c : is_data ? d->c : d->k;
    l.products = is_filter ? pixels : is_data ? taps * d->k : taps * d->c;
    const int32_t at_once = is_filter && pixels > QN_DSP_PIXELS ? QN_DSP_PIXELS : l.products;
    const int32_t width = is_filter ? l.columns : l.products;
    l.quads = (at_once + 3) / 4;
    l.lanes = qn_dsp_round_up(l.columns, QN_DSP_LANES);
    l.gathered_bytes = qn_dsp_round_up(width, QN_DSP_VECTOR) + QN_DSP_VECTOR;
    const int64_t whole_rows = qn_dsp_round_up(l.rows, QN_DSP_BLOCK);
    const int64_t deep = qn_dsp_round_up(l.quads, QN_DSP_LANES);
    l.pitch = is_data ? (d->w + d->s - 1) * d->k : ((d->q - 1) * d->stride_w + d->s) * d->c;
    l.padded_rows = is_data ? d->h + d->r - 1 : (d->p - 1) * d->stride_h + d->r;
    l.panels = l.sums + whole_rows * l.lanes * 4;
    l.padded = l.panels + (int64_t)l.lanes * l.quads * 4;
    l.gathered =
        l.padded + qn_dsp_round_up(l.padded_rows * l.pitch, QN_DSP_VECTOR) + 2 * QN_DSP_VECTOR;
    l.tiles = l.gathered + (int64_t)QN_DSP_ROWS * l.gathered_bytes;
    l.bytes_out = l.tiles + (is_filter ? whole_rows * l.quads * 4 : QN_DSP_BLOCK * deep * 4);
    l.end = l.bytes_out + (int64_t)QN_DSP_BLOCK * l.lanes + 4 * QN_DSP_VECTOR;
    l.is_planar = qn_dsp_is_planar(work);
    if (l.is_planar)
        qn_dsp_place_planes(work, &l);
    return l;
}

#endif
