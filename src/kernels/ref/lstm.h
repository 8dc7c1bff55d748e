/* The recurrence of an LSTM layer. Each step is one round of the team, whose tasks are LSTM_COLUMNS
 * units, a block, of some sequences: the products of all gates of the block with the state before,
 * then the gates and the cells, while the sums are in the first cache. Weights are packed once for
 * all steps, block by block; a thread does the same tasks in every step, so its part stays in its
 * second cache. A step reads one copy of the state and writes the other. The including file says
 * LSTM_ROWS, LSTM_COLUMNS, lstm_tile and lstm_transpose. */
#ifndef QN_KERNELS_REF_LSTM_H
#define QN_KERNELS_REF_LSTM_H

#include "kernels/ref/elementwise.h"

enum { LSTM_GATES = 4, LSTM_ALIGN = 16, LSTM_PAD = 16 };

typedef struct lstm_context {
    qn_lstm_shape shape;
    int64_t t, depth; /* the step; of the products: K forwards, 4 K backwards */
    const qn_lstm_forward *forward;
    const qn_lstm_backward *backward;
    const real *weight; /* (4 K, K) */
    real *panels;       /* forwards (blocks, 4, K, LSTM_COLUMNS), backwards (blocks, 4 K, ...) */
    real *state[2];     /* (N, state_row): h forwards, d(gates before their functions) backwards */
    int64_t state_row;
    const real *from; /* the state before, rows from_row apart; null: zeros */
    int64_t from_row;
    real *to;
    real *dc; /* backwards (N, K): of the cells after the step */
} lstm_context;

static int64_t lstm_blocks(const qn_lstm_shape *d) {
    return ceil_div(d->k, LSTM_COLUMNS);
}

static int64_t lstm_state_row(int64_t depth) {
    return round_up(depth, LSTM_ALIGN) + LSTM_PAD;
}

static int64_t lstm_panels_size(const qn_lstm_shape *d) {
    return round_up(lstm_blocks(d) * LSTM_GATES * d->k * LSTM_COLUMNS, LSTM_ALIGN);
}

static size_t lstm_workspace(const qn_lstm_shape *d, bool is_backward, int n_threads) {
    (void)n_threads;
    const int64_t depth = is_backward ? LSTM_GATES * d->k : d->k;
    const int64_t cells = is_backward ? d->n * d->k : 0;
    return (size_t)(lstm_panels_size(d) + 2 * d->n * lstm_state_row(depth) + cells) * sizeof(real);
}

static lstm_context lstm_init(const qn_lstm_shape *d, int64_t depth, const real *weight,
                              real *workspace) {
    lstm_context l = {.shape = *d,
                      .depth = depth,
                      .weight = weight,
                      .panels = workspace,
                      .state_row = lstm_state_row(depth)};
    l.state[0] = l.panels + lstm_panels_size(d);
    l.state[1] = l.state[0] + d->n * l.state_row;
    l.dc = l.state[1] + d->n * l.state_row;
    return l;
}

static int64_t lstm_length(const qn_lstm_shape *d, const int32_t *lengths, int64_t row) {
    return lengths ? max_int(1, min_int(lengths[row], d->t)) : d->t;
}

/* ---- parts of rows: whole blocks by code of fixed size ---- */

static inline void lstm_load(int64_t width, const real *from, real *restrict to) {
    if (!from) {
        memset(to, 0, LSTM_COLUMNS * sizeof *to);
    } else if (width == LSTM_COLUMNS) {
        memcpy(to, from, LSTM_COLUMNS * sizeof *to);
    } else {
        for (int64_t j = 0; j < LSTM_COLUMNS; j++)
            to[j] = j < width ? from[j] : 0;
    }
}

static inline void lstm_store(int64_t width, const real *restrict from, real *to) {
    if (width == LSTM_COLUMNS) {
        memcpy(to, from, LSTM_COLUMNS * sizeof *to);
    } else {
        for (int64_t j = 0; j < width; j++)
            to[j] = from[j];
    }
}

/* sums (rows, LSTM_COLUMNS) = the state before, from this row on, times a panel. */
static void lstm_product(const lstm_context *l, int64_t row, int64_t rows, const real *panel,
                         real *sums) {
    if (l->from)
        lstm_tile(l->depth, l->from + row * l->from_row, l->from_row, rows, panel, sums);
    else
        memset(sums, 0, (size_t)(rows * LSTM_COLUMNS) * sizeof *sums);
}

/* Rows are shared out to tiles that are nearly equal, of LSTM_ROWS at most; a task is one of a
 * block's.
 */
static int64_t lstm_tiles(const qn_lstm_shape *d) {
    return ceil_div(d->n, LSTM_ROWS);
}

typedef struct lstm_part {
    int64_t block, row, rows;
} lstm_part;

static lstm_part lstm_part_of(const qn_lstm_shape *d, int64_t task) {
    const int64_t tiles = lstm_tiles(d), height = ceil_div(d->n, tiles);
    const int64_t row = task % tiles * height;
    return (lstm_part){task / tiles, row, min_int(height, d->n - row)};
}

static int64_t lstm_parts(const qn_lstm_shape *d) {
    return lstm_blocks(d) * lstm_tiles(d);
}

/* ---- forward ---- */

static void lstm_pack_forward_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const lstm_context *l = context;
    const int64_t k = l->shape.k;
    for (int64_t block = begin; block < end; block++) {
        const int64_t first = block * LSTM_COLUMNS, width = min_int(LSTM_COLUMNS, k - first);
        for (int64_t gate = 0; gate < LSTM_GATES; gate++)
            lstm_transpose(l->weight + (gate * k + first) * k, width, k,
                           l->panels + (block * LSTM_GATES + gate) * k * LSTM_COLUMNS);
    }
}

/* One row of a block: from the sums of its gates to its cells. */
typedef struct lstm_cell {
    real gates[LSTM_GATES][LSTM_COLUMNS], c[LSTM_COLUMNS], h[LSTM_COLUMNS];
} lstm_cell;

static void lstm_cell_forward(lstm_cell *restrict s) {
    for (int64_t j = 0; j < LSTM_COLUMNS; j++) {
        const real i = activate(QN_ACTIVATION_SIGMOID, 0, s->gates[0][j]);
        const real f = activate(QN_ACTIVATION_SIGMOID, 0, s->gates[1][j]);
        const real g = activate(QN_ACTIVATION_TANH, 0, s->gates[2][j]);
        const real o = activate(QN_ACTIVATION_SIGMOID, 0, s->gates[3][j]);
        const real c = f * s->c[j] + i * g;
        s->gates[0][j] = i;
        s->gates[1][j] = f;
        s->gates[2][j] = g;
        s->gates[3][j] = o;
        s->c[j] = c;
        s->h[j] = o * REAL_TANH(c);
    }
}

/* Where a sequence is over: the cells stay, by gates 0, 1, 0, 0. */
static void lstm_cell_idle(lstm_cell *s) {
    memset(s->gates, 0, sizeof s->gates);
    memset(s->h, 0, sizeof s->h);
    for (int64_t j = 0; j < LSTM_COLUMNS; j++)
        s->gates[1][j] = 1;
}

/* sums (4, LSTM_ROWS, LSTM_COLUMNS): row i of each is this row's. */
static void lstm_forward_row(const lstm_context *l, int64_t row, int64_t unit, const real *sums) {
    const qn_lstm_shape *d = &l->shape;
    const qn_lstm_forward *f = l->forward;
    const int64_t k = d->k, step = row * d->t + l->t, width = min_int(LSTM_COLUMNS, k - unit);
    const int64_t length = lstm_length(d, f->lengths, row), at = row * k + unit;
    const real *x = (const real *)f->x + step * LSTM_GATES * k + unit;
    real *gates = (real *)f->gates + step * LSTM_GATES * k + unit;
    real *cells = (real *)f->cells + step * k + unit;
    lstm_cell s;
    if (l->t > 0)
        lstm_load(width, cells - k, s.c);
    else
        lstm_load(width, f->c ? (const real *)f->c + at : NULL, s.c);
    if (l->t < length) {
        for (int64_t gate = 0; gate < LSTM_GATES; gate++) {
            lstm_load(width, x + gate * k, s.gates[gate]);
            for (int64_t j = 0; j < LSTM_COLUMNS; j++)
                s.gates[gate][j] += sums[gate * LSTM_ROWS * LSTM_COLUMNS + j];
        }
        lstm_cell_forward(&s);
    } else {
        lstm_cell_idle(&s);
    }
    for (int64_t gate = 0; gate < LSTM_GATES; gate++)
        lstm_store(width, s.gates[gate], gates + gate * k);
    lstm_store(width, s.c, cells);
    lstm_store(width, s.h, (real *)f->y + step * k + unit);
    lstm_store(width, s.h, l->to + row * l->state_row + unit);
    if (l->t == length - 1) {
        lstm_store(width, s.h, (real *)f->h_last + at);
        lstm_store(width, s.c, (real *)f->c_last + at);
    }
}

static void lstm_forward_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const lstm_context *l = context;
    real sums[LSTM_GATES * LSTM_ROWS * LSTM_COLUMNS];
    for (int64_t task = begin; task < end; task++) {
        const lstm_part part = lstm_part_of(&l->shape, task);
        const real *panels = l->panels + part.block * LSTM_GATES * l->depth * LSTM_COLUMNS;
        for (int64_t gate = 0; gate < LSTM_GATES; gate++)
            lstm_product(l, part.row, part.rows, panels + gate * l->depth * LSTM_COLUMNS,
                         sums + gate * LSTM_ROWS * LSTM_COLUMNS);
        for (int64_t i = 0; i < part.rows; i++)
            lstm_forward_row(l, part.row + i, part.block * LSTM_COLUMNS, sums + i * LSTM_COLUMNS);
    }
}

static void lstm_forward(qn_team *team, const qn_lstm_shape *d, const qn_lstm_forward *f,
                         void *workspace) {
    lstm_context l = lstm_init(d, d->k, f->weight, workspace);
    l.forward = f;
    l.from = f->h;
    l.from_row = d->k;
    qn_team_run(team, lstm_blocks(d), lstm_pack_forward_task, &l);
    for (l.t = 0; l.t < d->t; l.t++) {
        l.to = l.state[l.t % 2];
        qn_team_run(team, lstm_parts(d), lstm_forward_task, &l);
        l.from = l.to;
        l.from_row = l.state_row;
    }
}

/* ---- backward ---- */

static void lstm_pack_backward_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const lstm_context *l = context;
    const int64_t k = l->shape.k;
    for (int64_t block = begin; block < end; block++) {
        const int64_t first = block * LSTM_COLUMNS, width = min_int(LSTM_COLUMNS, k - first);
        real *panel = l->panels + block * l->depth * LSTM_COLUMNS;
        for (int64_t p = 0; p < l->depth; p++)
            lstm_load(width, l->weight + p * k + first, panel + p * LSTM_COLUMNS);
    }
}

/* One row of a block: dc is that of the cells after the step, and then of those before it. */
typedef struct lstm_cell_gradient {
    real gates[LSTM_GATES][LSTM_COLUMNS], c[LSTM_COLUMNS], before[LSTM_COLUMNS];
    real dh[LSTM_COLUMNS], dc[LSTM_COLUMNS];
} lstm_cell_gradient;

/* The gates' places take their gradients before their functions. */
static void lstm_cell_backward(lstm_cell_gradient *restrict s) {
    for (int64_t j = 0; j < LSTM_COLUMNS; j++) {
        const real i = s->gates[0][j], f = s->gates[1][j], g = s->gates[2][j], o = s->gates[3][j];
        const real size = REAL_TANH(s->c[j]), dh = s->dh[j];
        const real dc = s->dc[j] + dh * o * (1 - size * size);
        s->gates[0][j] = dc * g * (i * (1 - i));
        s->gates[1][j] = dc * s->before[j] * (f * (1 - f));
        s->gates[2][j] = dc * i * (1 - g * g);
        s->gates[3][j] = dh * size * (o * (1 - o));
        s->dc[j] = dc * f;
    }
}

/* dh = what the step after gives (sums), dy, and the last state's gradient at its step. */
static void lstm_add_gradients(const lstm_context *l, int64_t row, int64_t unit, int64_t width,
                               bool is_last, const real *sums, real *restrict dh) {
    const qn_lstm_shape *d = &l->shape;
    const qn_lstm_backward *b = l->backward;
    const real *dy = b->dy ? (const real *)b->dy + (row * d->t + l->t) * d->k + unit : NULL;
    const real *last = b->dh && is_last ? (const real *)b->dh + row * d->k + unit : NULL;
    real more[LSTM_COLUMNS];
    lstm_load(width, dy, dh);
    lstm_load(width, last, more);
    for (int64_t j = 0; j < LSTM_COLUMNS; j++)
        dh[j] = dh[j] + more[j] + sums[j];
}

static void lstm_backward_row(const lstm_context *l, int64_t row, int64_t unit, const real *sums) {
    const qn_lstm_shape *d = &l->shape;
    const qn_lstm_backward *b = l->backward;
    const int64_t k = d->k, step = row * d->t + l->t, width = min_int(LSTM_COLUMNS, k - unit);
    const int64_t length = lstm_length(d, b->lengths, row), at = row * k + unit;
    const real *gates = (const real *)b->gates + step * LSTM_GATES * k + unit;
    const real *cells = (const real *)b->cells + step * k + unit;
    real *dx = (real *)b->dx + step * LSTM_GATES * k + unit;
    real *to = l->to + row * l->state_row + unit;
    lstm_cell_gradient s;
    if (l->t < length) {
        for (int64_t gate = 0; gate < LSTM_GATES; gate++)
            lstm_load(width, gates + gate * k, s.gates[gate]);
        lstm_load(width, cells, s.c);
        if (l->t > 0)
            lstm_load(width, cells - k, s.before);
        else
            lstm_load(width, b->c ? (const real *)b->c + at : NULL, s.before);
        lstm_load(width, l->dc + at, s.dc);
        lstm_add_gradients(l, row, unit, width, l->t == length - 1, sums, s.dh);
        lstm_cell_backward(&s);
        lstm_store(width, s.dc, l->dc + at);
    } else {
        memset(s.gates, 0, sizeof s.gates);
    }
    for (int64_t gate = 0; gate < LSTM_GATES; gate++) {
        lstm_store(width, s.gates[gate], dx + gate * k);
        lstm_store(width, s.gates[gate], to + gate * k);
    }
}

/* The steps', and, where t is -1, the gradient of the state before the first. */
static void lstm_backward_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const lstm_context *l = context;
    const int64_t k = l->shape.k;
    real sums[LSTM_ROWS * LSTM_COLUMNS];
    for (int64_t task = begin; task < end; task++) {
        const lstm_part part = lstm_part_of(&l->shape, task);
        const int64_t unit = part.block * LSTM_COLUMNS;
        lstm_product(l, part.row, part.rows, l->panels + part.block * l->depth * LSTM_COLUMNS,
                     sums);
        for (int64_t i = 0; i < part.rows; i++) {
            const real *line = sums + i * LSTM_COLUMNS;
            if (l->t >= 0)
                lstm_backward_row(l, part.row + i, unit, line);
            else
                lstm_store(min_int(LSTM_COLUMNS, k - unit), line,
                           (real *)l->backward->dh0 + (part.row + i) * k + unit);
        }
    }
}

static void lstm_backward(qn_team *team, const qn_lstm_shape *d, const qn_lstm_backward *b,
                          void *workspace) {
    lstm_context l = lstm_init(d, LSTM_GATES * d->k, b->weight, workspace);
    const size_t cells = (size_t)(d->n * d->k) * sizeof *l.dc;
    l.backward = b;
    l.from_row = l.state_row;
    if (b->dc)
        memcpy(l.dc, b->dc, cells);
    else
        memset(l.dc, 0, cells);
    qn_team_run(team, lstm_blocks(d), lstm_pack_backward_task, &l);
    for (l.t = d->t - 1; l.t >= 0; l.t--) {
        l.to = l.state[l.t % 2];
        qn_team_run(team, lstm_parts(d), lstm_backward_task, &l);
        l.from = l.to;
    }
    if (b->dh0) /* one product more: t is -1 */
        qn_team_run(team, lstm_parts(d), lstm_backward_task, &l);
    if (b->dc0)
        memcpy(b->dc0, l.dc, cells);
}

#endif
