/* Sums of all elements, of columns, and batch norm. Chunks follow from the shape; within a chunk
 * short runs are summed in `real`, runs and chunks in double, all in a fixed order. Sums of columns
 * can be made piece by piece of a batch. */
#ifndef QN_KERNELS_REF_REDUCTIONS_H
#define QN_KERNELS_REF_REDUCTIONS_H

#include "kernels/ref/elementwise.h"

/* ---- all elements ---- */

enum { SUM_LANES = 64 };

typedef struct sum_context {
    int64_t n;
    bool squares;
    const real *x;
    double *partial; /* (tasks) */
} sum_context;

static double sum_chunk(const real *restrict x, int64_t n, bool squares) {
    real parts[SUM_LANES] = {0};
    int64_t i = 0;
    if (squares) {
        for (; i + SUM_LANES <= n; i += SUM_LANES) {
            for (int j = 0; j < SUM_LANES; j++)
                parts[j] += x[i + j] * x[i + j];
        }
    } else {
        for (; i + SUM_LANES <= n; i += SUM_LANES) {
            for (int j = 0; j < SUM_LANES; j++)
                parts[j] += x[i + j];
        }
    }
    for (int j = 0; i < n; i++, j++)
        parts[j] += squares ? x[i] * x[i] : x[i];
    double sum = 0;
    for (int j = 0; j < SUM_LANES; j++)
        sum += (double)parts[j];
    return sum;
}

static void sum_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const sum_context *s = context;
    for (int64_t chunk = begin; chunk < end; chunk++) {
        int64_t first = chunk * ELEMENTS_PER_TASK;
        s->partial[chunk] =
            sum_chunk(s->x + first, min_int(ELEMENTS_PER_TASK, s->n - first), s->squares);
    }
}

static void run_sum(qn_team *team, sum_context *context, real *sum) {
    int64_t chunks = ceil_div(context->n, ELEMENTS_PER_TASK);
    qn_team_run(team, chunks, sum_task, context);
    double total = 0;
    for (int64_t chunk = 0; chunk < chunks; chunk++)
        total += context->partial[chunk];
    *sum = (real)total;
}

static void sum(qn_team *team, int64_t n, const void *x, void *sum_, void *workspace) {
    sum_context s = {.n = n, .x = x, .partial = workspace};
    run_sum(team, &s, sum_);
}

static void sum_squares(qn_team *team, int64_t n, const void *x, void *sum_, void *workspace) {
    sum_context s = {.n = n, .squares = true, .x = x, .partial = workspace};
    run_sum(team, &s, sum_);
}

static size_t sum_workspace(int64_t n, int n_threads) {
    (void)n_threads;
    return (size_t)max_int(1, ceil_div(n, ELEMENTS_PER_TASK)) * sizeof(double);
}

/* Bits of magnitudes are ordered as these are: a difference below 0 is of one that is larger. */
static bool are_moderate(int64_t n, const void *x) {
    const real limit = (real)0x1p60;
    real_int most, differences = 0;
    memcpy(&most, &limit, sizeof most);
    for (int64_t i = 0; i < n; i++) {
        real_int bits;
        memcpy(&bits, (const real *)x + i, sizeof bits);
        differences |= most - (bits & REAL_MAGNITUDE);
    }
    return differences >= 0;
}

/* ---- columns ---- */

/* Chunks of rows that stay in the second cache, at most MAX_CHUNKS of them. */
enum { CHUNK_ELEMENTS = 32768, MAX_CHUNKS = 256 };

static int64_t rows_per_chunk(int64_t rows, int64_t c) {
    return max_int(ceil_div(rows, MAX_CHUNKS), max_int(1, CHUNK_ELEMENTS / c));
}

/* A chunk is summed in strips of at most STRIP_WIDTH columns, whose sums stay in the first cache;
 * up to FOLD_WIDTH elements of several rows are folded into one line of a strip where C is small,
 * so that loops over it are long. STRIP_RUN lines are summed in `real`, the runs in double. */
enum { STRIP_WIDTH = 1024, FOLD_WIDTH = 256, STRIP_RUN = 16 };

/* Of an array for a strip: processors guess by the low 12 bits of addresses whether a load needs an
 * earlier store, so that those of such arrays must differ. */
enum { STRIP_SPACE = STRIP_WIDTH + 288 };

typedef struct column_strip {
    int64_t lines, width;
    int64_t tail;          /* elements of a shorter last line */
    int64_t columns, fold; /* width = columns * fold */
} column_strip;

static column_strip column_strip_of(int64_t rows, int64_t c, int64_t column) {
    const int64_t fold = max_int(1, FOLD_WIDTH / c), width = fold * c;
    if (c > FOLD_WIDTH)
        return (column_strip){.lines = rows,
                              .width = min_int(STRIP_WIDTH, c - column),
                              .columns = min_int(STRIP_WIDTH, c - column),
                              .fold = 1};
    return (column_strip){.lines = rows * c / width,
                          .width = width,
                          .tail = rows * c % width,
                          .columns = c,
                          .fold = fold};
}

/* What is summed: x; the square of x - mean; g and g * (x - mean), where g is dy times the
 * activation's derivative at y. mean is a line of a strip. */
typedef enum strip_kind { STRIP_X, STRIP_SQUARES, STRIP_GRADIENTS } strip_kind;

typedef struct strip_inputs {
    const real *x, *y, *dy, *mean;
    int64_t x_stride, y_stride, dy_stride; /* elements from one row to the next */
    bool is_dense;                         /* the rows of a line follow each other */
    qn_activation activation;
} strip_inputs;

/* SIGMOID stands for all activations that WITH_OFTEN does not name. */
static inline __attribute__((always_inline)) void
add_run(strip_kind kind, qn_activation_kind activation, const strip_inputs *in, int64_t row,
        int64_t width, const real *restrict mean, real *restrict sums, real *restrict dots) {
    const real *restrict x = in->x + row * in->x_stride;
    const real *restrict dy = in->dy + row * in->dy_stride, *restrict y =
                                                                in->y + row * in->y_stride;
    const real slope = (real)in->activation.slope;
    real derived[STRIP_SPACE];
    if (kind == STRIP_GRADIENTS && activation == QN_ACTIVATION_SIGMOID) {
        derive_row(in->activation, width, y, dy, derived);
        activation = QN_ACTIVATION_NONE;
        dy = derived;
    }
    for (int64_t j = 0; j < width; j++) {
        if (kind == STRIP_X) {
            sums[j] += x[j];
        } else if (kind == STRIP_SQUARES) {
            sums[j] += (x[j] - mean[j]) * (x[j] - mean[j]);
        } else {
            const real g = derive(activation, slope, y[j], dy[j]);
            sums[j] += g;
            dots[j] += g * (x[j] - mean[j]);
        }
    }
}

/* Rows that lie apart are fetched so far ahead: the processor does not guess them. */
enum { STRIDED_AHEAD = 16, LINE_REALS = 64 / sizeof(real) };

static inline __attribute__((always_inline)) void
fetch_strided(const real *from, int64_t row, int64_t step, int64_t columns, bool is_written) {
    if (step == columns)
        return;
    const real *at = from + row * step;
    for (int64_t j = 0; j < columns; j += LINE_REALS) {
        if (is_written)
            __builtin_prefetch(at + j, 1);
        else
            __builtin_prefetch(at + j);
    }
}

/* The rows of a line of x, so far ahead. Out of line, for within it the sums became slower. */
static __attribute__((noinline)) void fetch_line(const column_strip *s, const strip_inputs *in,
                                                 int64_t line) {
    for (int64_t f = 0; f < s->fold; f++)
        fetch_strided(in->x, line * s->fold + f + STRIDED_AHEAD, in->x_stride, s->columns, false);
}

/* The first `width` elements of a line; row by row where rows lie apart. */
static inline __attribute__((always_inline)) void
add_line(strip_kind kind, qn_activation_kind activation, const column_strip *s,
         const strip_inputs *in, int64_t line, int64_t width, real *sums, real *dots) {
    const int64_t run = in->is_dense ? width : s->columns;
    int64_t row = line * s->fold;
    for (int64_t at = 0; at < width; row++, at += run) {
        if (kind == STRIP_GRADIENTS && !in->is_dense) {
            fetch_strided(in->x, row + STRIDED_AHEAD, in->x_stride, s->columns, false);
            fetch_strided(in->dy, row + STRIDED_AHEAD, in->dy_stride, s->columns, false);
            fetch_strided(in->y, row + STRIDED_AHEAD, in->y_stride, s->columns, false);
        }
        add_run(kind, activation, in, row, run, in->mean + at, sums + at, dots + at);
    }
}

/* sums (columns) of the folds of totals (fold, columns). */
static void add_folds(const column_strip *s, const double *restrict totals, double *restrict sums) {
    for (int64_t j = 0; j < s->columns; j++)
        sums[j] = totals[j];
    for (int64_t f = 1; f < s->fold; f++) {
        for (int64_t j = 0; j < s->columns; j++)
            sums[j] += totals[f * s->columns + j];
    }
}

/* Column sums of a strip: sums, and dots for gradients (columns). */
static inline __attribute__((always_inline)) void
sum_strip(strip_kind kind, qn_activation_kind activation, const column_strip *s,
          const strip_inputs *in, double *sums, double *dots) {
    double totals[2][STRIP_SPACE];
    real parts[2][STRIP_SPACE];
    const int n_sums = kind == STRIP_GRADIENTS ? 2 : 1;
    for (int i = 0; i < n_sums; i++)
        memset(totals[i], 0, (size_t)s->width * sizeof(double));
    const int64_t lines = s->lines + (s->tail > 0);
    for (int64_t first = 0; first < lines; first += STRIP_RUN) {
        for (int i = 0; i < n_sums; i++)
            memset(parts[i], 0, (size_t)s->width * sizeof(real));
        for (int64_t line = first; line < min_int(lines, first + STRIP_RUN); line++) {
            if (kind != STRIP_GRADIENTS && !in->is_dense)
                fetch_line(s, in, line);
            add_line(kind, activation, s, in, line, line < s->lines ? s->width : s->tail, parts[0],
                     parts[1]);
        }
        for (int i = 0; i < n_sums; i++) {
            for (int64_t j = 0; j < s->width; j++)
                totals[i][j] += (double)parts[i][j];
        }
    }
    add_folds(s, totals[0], sums);
    if (kind == STRIP_GRADIENTS)
        add_folds(s, totals[1], dots);
}

/* Sums of x alone: all inputs are x, with rows step apart. */
static strip_inputs inputs_of_x(const real *x, int64_t step, int64_t c, const real *mean) {
    return (strip_inputs){x, x, x, mean, step, step, step, step == c, {QN_ACTIVATION_NONE, 0}};
}

static void sum_strip_x(const column_strip *s, const real *x, int64_t step, int64_t c,
                        double *sums) {
    const strip_inputs in = inputs_of_x(x, step, c, x);
    sum_strip(STRIP_X, QN_ACTIVATION_NONE, s, &in, sums, NULL);
}

/* sums (C) = column sums of x (rows, C). */
static void add_rows(int64_t rows, int64_t c, const real *x, real *sums) {
    for (int64_t column = 0; column < c; column += STRIP_WIDTH) {
        const column_strip s = column_strip_of(rows, c, column);
        double totals[STRIP_SPACE];
        sum_strip_x(&s, x + column, c, c, totals);
        for (int64_t j = 0; j < s.columns; j++)
            sums[column + j] = (real)totals[j];
    }
}

/* Rows of a chunk, whatever their number: part of what a sum over a batch is. */
static int64_t fixed_chunk_rows(int64_t c) {
    return max_int(1, CHUNK_ELEMENTS / c);
}

/* Samples of a unit: several small ones, or a large one, whose chunks are then added up in double.
 * Units are added up in `real`, in order, so that a batch may be split between two. */
static int64_t column_sum_chunk(int64_t rows, int64_t c) {
    return power_below(max_int(1, fixed_chunk_rows(c) / rows));
}

typedef struct columns_context {
    int64_t n, rows, c;
    int64_t unit, parts; /* samples of a unit, chunks of a unit */
    const real *x;
    real *partial; /* (units, parts, C) */
} columns_context;

static columns_context columns_of(int64_t n, int64_t rows, int64_t c) {
    const int64_t unit = column_sum_chunk(rows, c);
    return (columns_context){.n = n,
                             .rows = rows,
                             .c = c,
                             .unit = unit,
                             .parts = ceil_div(unit * rows, fixed_chunk_rows(c))};
}

/* A task is a chunk. */
static void column_sum_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const columns_context *s = context;
    const int64_t size = fixed_chunk_rows(s->c);
    for (int64_t task = begin; task < end; task++) {
        const int64_t sample = task / s->parts * s->unit, skipped = task % s->parts * size;
        const int64_t rows = min_int(s->unit, s->n - sample) * s->rows;
        add_rows(min_int(size, rows - skipped), s->c, s->x + (sample * s->rows + skipped) * s->c,
                 s->partial + task * s->c);
    }
}

static void column_sum(qn_team *team, int64_t n, int64_t rows, int64_t c, const void *x, bool add,
                       void *sums_, void *workspace) {
    columns_context s = columns_of(n, rows, c);
    const int64_t units = ceil_div(n, s.unit);
    real *sums = sums_;
    s.x = x;
    s.partial = workspace;
    qn_team_run(team, units * s.parts, column_sum_task, &s);
    for (int64_t unit = 0; unit < units; unit++) {
        const real *partial = s.partial + unit * s.parts * c;
        for (int64_t j = 0; j < c; j++) {
            double total = 0;
            for (int64_t part = 0; part < s.parts; part++)
                total += (double)partial[part * c + j];
            sums[j] = unit > 0 || add ? sums[j] + (real)total : (real)total;
        }
    }
}

static size_t column_sum_workspace(int64_t n, int64_t rows, int64_t c, int n_threads) {
    (void)n_threads;
    const columns_context s = columns_of(n, rows, c);
    return (size_t)(ceil_div(n, s.unit) * s.parts * c) * sizeof(real);
}

/* ---- batch norm ---- */

typedef struct norm_context {
    int64_t rows, c, chunk_rows;
    int64_t x_stride, y_stride, dy_stride;
    qn_activation activation;
    const real *x, *y_in, *dy;
    const real *scale, *shift, *mean, *inv_std;
    real *y, *dx;
    real *partial;              /* (chunks, 2, C) */
    real *factor, *term, *tilt; /* (C): per-channel numbers of the elementwise pass */
    /* Where x, y_in, dy, y and dx are 16-bit floats: each thread's (3, chunk rows, C) for some of
     * their rows. */
    const qn_half_rows *halves;
    real *wide;
} norm_context;

/* Tensors whose rows a thread widens: x, y and dy. */
enum { WIDENED = 3 };

static norm_context norm_init(const qn_rows *shape, qn_activation activation, real *workspace) {
    const int64_t c = shape->c, chunk_rows = rows_per_chunk(shape->rows, c);
    const int64_t chunks = ceil_div(shape->rows, chunk_rows);
    norm_context b = {.rows = shape->rows,
                      .c = c,
                      .chunk_rows = chunk_rows,
                      .x_stride = row_stride(shape, 0),
                      .y_stride = row_stride(shape, 1),
                      .dy_stride = row_stride(shape, 2),
                      .activation = activation,
                      .halves = shape->halves};
    b.partial = workspace;
    b.factor = workspace + 2 * chunks * c;
    b.term = b.factor + c;
    b.tilt = b.term + c;
    b.wide = b.tilt + c;
    return b;
}

static size_t batch_norm_workspace(const qn_rows *shape, int n_threads) {
    const int64_t c = shape->c, chunk_rows = rows_per_chunk(shape->rows, c);
    const int64_t chunks = max_int(1, ceil_div(shape->rows, chunk_rows));
    const int64_t wide = shape->halves ? WIDENED * n_threads * chunk_rows : 0;
    return (size_t)((2 * chunks + 3 + wide) * c) * sizeof(real);
}

static real *wide_rows(const norm_context *b, int thread, int tensor) {
    return b->wide + (WIDENED * thread + tensor) * b->chunk_rows * b->c;
}

/* Rows [first, first + rows) of 16-bit floats, in the thread's place for a tensor. */
static const real *widen_rows(const norm_context *b, int thread, int tensor, const real *from,
                              int64_t step, int64_t first, int64_t rows) {
    real *to = wide_rows(b, thread, tensor);
    qn_half_rows_widen(b->halves, rows, b->c, (const uint16_t *)(const void *)from + first * step,
                       step, (float *)(void *)to);
    return to;
}

static void narrow_rows(const norm_context *b, const real *from, real *halves, int64_t step,
                        int64_t first, int64_t rows) {
    qn_half_rows_narrow(b->halves, rows, b->c, (const float *)(const void *)from,
                        (uint16_t *)(void *)halves + first * step, step);
}

/* The same work on rows [first, first + rows), at most those of a chunk, as the table's numbers. Of
 * 16-bit floats what it makes comes to lie in the thread's places, for narrow_rows. */
static norm_context take_rows(const norm_context *b, int thread, int64_t first, int64_t rows) {
    norm_context part = *b;
    part.rows = rows;
    if (!b->halves) {
        part.x += first * b->x_stride;
        part.y_in = b->y_in ? b->y_in + first * b->y_stride : NULL;
        part.dy = b->dy ? b->dy + first * b->dy_stride : NULL;
        part.y = b->y ? b->y + first * b->y_stride : NULL;
        part.dx = b->dx ? b->dx + first * b->c : NULL;
        return part;
    }
    part.x = widen_rows(b, thread, 0, b->x, b->x_stride, first, rows);
    if (b->y_in)
        part.y_in = widen_rows(b, thread, 1, b->y_in, b->y_stride, first, rows);
    if (b->dy)
        part.dy = widen_rows(b, thread, 2, b->dy, b->dy_stride, first, rows);
    part.y = wide_rows(b, thread, 1);
    part.dx = wide_rows(b, thread, 2);
    part.x_stride = part.y_stride = part.dy_stride = b->c;
    return part;
}

/* Rows that a thread has made of 16-bit floats at a time: they stay in its first cache. */
static int64_t rows_at_once(const norm_context *b, int64_t rows) {
    enum { ELEMENTS = 2048 };
    return b->halves ? min_int(b->chunk_rows, max_int(1, ELEMENTS / b->c)) : rows;
}

/* A line of a strip with the columns' numbers in every fold of it. */
static void repeat_columns(const column_strip *s, const real *from, real *line) {
    for (int64_t f = 0; f < s->fold; f++)
        memcpy(line + f * s->columns, from, (size_t)s->columns * sizeof *line);
}

/* Of each chunk: the mean of the columns and the sum of squared distances from it, from two passes
 * over rows that are still in the cache. */
static void norm_moments_task(void *context, int64_t begin, int64_t end, int thread) {
    const norm_context *b = context;
    const int64_t c = b->c;
    for (int64_t chunk = begin; chunk < end; chunk++) {
        const int64_t first = chunk * b->chunk_rows;
        const int64_t rows = min_int(b->chunk_rows, b->rows - first);
        const norm_context part = take_rows(b, thread, first, rows);
        for (int64_t column = 0; column < c; column += STRIP_WIDTH) {
            const column_strip s = column_strip_of(rows, c, column);
            const real *x = part.x + column;
            real *mean = b->partial + chunk * 2 * c + column, *spread = mean + c;
            double sums[STRIP_SPACE];
            real line[STRIP_SPACE];
            sum_strip_x(&s, x, part.x_stride, c, sums);
            for (int64_t j = 0; j < s.columns; j++)
                mean[j] = (real)(sums[j] / (double)rows);
            repeat_columns(&s, mean, line);
            const strip_inputs in = inputs_of_x(x, part.x_stride, c, line);
            sum_strip(STRIP_SQUARES, QN_ACTIVATION_NONE, &s, &in, sums, NULL);
            for (int64_t j = 0; j < s.columns; j++)
                spread[j] = (real)sums[j];
        }
    }
}

/* Channels whose numbers, in double, are made side by side from those of the chunks. */
enum { CHANNEL_BLOCK = 128 };

/* Mean and inverse deviation of all rows from those of the chunks. */
static void norm_combine(const norm_context *b, double epsilon, real *mean, real *inv_std) {
    const int64_t chunks = ceil_div(b->rows, b->chunk_rows), c = b->c;
    for (int64_t first = 0; first < c; first += CHANNEL_BLOCK) {
        const int64_t n = min_int(CHANNEL_BLOCK, c - first);
        double total[CHANNEL_BLOCK] = {0}, spread[CHANNEL_BLOCK] = {0};
        for (int64_t chunk = 0; chunk < chunks; chunk++) {
            const real *means = b->partial + chunk * 2 * c + first;
            const double rows = (double)min_int(b->chunk_rows, b->rows - chunk * b->chunk_rows);
            for (int64_t j = 0; j < n; j++)
                total[j] += rows * (double)means[j];
        }
        for (int64_t j = 0; j < n; j++)
            total[j] /= (double)b->rows;
        for (int64_t chunk = 0; chunk < chunks; chunk++) {
            const real *means = b->partial + chunk * 2 * c + first, *spreads = means + c;
            const double rows = (double)min_int(b->chunk_rows, b->rows - chunk * b->chunk_rows);
            for (int64_t j = 0; j < n; j++) {
                const double distance = (double)means[j] - total[j];
                spread[j] += (double)spreads[j] + rows * distance * distance;
            }
        }
        for (int64_t j = 0; j < n; j++) {
            mean[first + j] = (real)total[j];
            inv_std[first + j] = (real)(1 / sqrt(spread[j] / (double)b->rows + epsilon));
        }
    }
}

static bool is_norm_dense(const norm_context *b) {
    return b->x_stride == b->c && b->y_stride == b->c && b->dy_stride == b->c;
}

/* Rows that are one line of the elementwise passes: short ones would be mostly overhead. Those that
 * lie apart are lines of their own. */
static int64_t rows_of_line(const norm_context *b) {
    return is_norm_dense(b) ? max_int(1, FOLD_WIDTH / b->c) : 1;
}

/* Numbers of the channels as often as a line has rows. */
static const real *repeat_rows(const real *from, int64_t c, int64_t rows, real *space) {
    for (int64_t i = 0; i < rows && rows > 1; i++)
        memcpy(space + i * c, from, (size_t)c * sizeof *space);
    return rows > 1 ? space : from;
}

/* y = activation((x - mean) * factor + term). The difference first: it loses nothing where the
 * mean is large against the deviation. */
static void norm_apply(const norm_context *b) {
    const int64_t c = b->c, rows = rows_of_line(b);
    const real slope = (real)b->activation.slope;
    const bool is_dense = is_norm_dense(b);
    real lines[3][FOLD_WIDTH];
    const real *mean = repeat_rows(b->mean, c, rows, lines[0]);
    const real *factor = repeat_rows(b->factor, c, rows, lines[1]);
    const real *term = repeat_rows(b->term, c, rows, lines[2]);
    for (int64_t row = 0; row < b->rows; row += rows) {
        const int64_t n = min_int(rows, b->rows - row) * c;
        const real *x = b->x + row * b->x_stride;
        real *y = b->y + row * b->y_stride;
        if (!is_dense) {
            fetch_strided(b->x, row + STRIDED_AHEAD, b->x_stride, c, false);
            fetch_strided(b->y, row + STRIDED_AHEAD, b->y_stride, c, true);
        }
#define LOOP(KIND)                                                                                 \
    for (int64_t j = 0; j < n; j++)                                                                \
    y[j] = activate(KIND, slope, (x[j] - mean[j]) * factor[j] + term[j])
        WITH_OFTEN(b->activation.kind, LOOP, {
            LOOP(QN_ACTIVATION_NONE);
            activate_row(b->activation, n, y, y);
        })
#undef LOOP
    }
}

static void norm_apply_task(void *context, int64_t begin, int64_t end, int thread) {
    const norm_context *b = context;
    const int64_t bundle = rows_per_task(b->c), last = min_int(b->rows, end * bundle);
    const int64_t step = rows_at_once(b, last);
    for (int64_t row = begin * bundle; row < last; row += step) {
        const norm_context part = take_rows(b, thread, row, min_int(step, last - row));
        norm_apply(&part);
        if (b->halves)
            narrow_rows(b, part.y, b->y, b->y_stride, row, part.rows);
    }
}

static void batch_norm_forward(qn_team *team, const qn_rows *shape, const void *x,
                               const void *scale_, const void *shift, double epsilon,
                               qn_activation activation, void *y, void *mean, void *inv_std,
                               void *workspace) {
    const int64_t rows = shape->rows, c = shape->c;
    norm_context b = norm_init(shape, activation, workspace);
    b.x = x;
    qn_team_run(team, ceil_div(rows, b.chunk_rows), norm_moments_task, &b);
    norm_combine(&b, epsilon, mean, inv_std);
    const real *deviations = inv_std, *scales = scale_;
    for (int64_t j = 0; j < c; j++)
        b.factor[j] = deviations[j] * scales[j];
    memcpy(b.term, shift, (size_t)c * sizeof(real));
    b.mean = mean;
    b.y = y;
    qn_team_run(team, ceil_div(rows, rows_per_task(c)), norm_apply_task, &b);
}

static void batch_norm_running(int64_t rows, int64_t c, const void *mean_, const void *inv_std_,
                               double epsilon, double momentum, void *running_mean_,
                               void *running_variance_) {
    const real *mean = mean_, *inv_std = inv_std_;
    real *running_mean = running_mean_, *running_variance = running_variance_;
    const double unbiased = rows > 1 ? (double)rows / (double)(rows - 1) : 1;
    for (int64_t j = 0; j < c; j++) {
        double variance = 1 / ((double)inv_std[j] * (double)inv_std[j]) - epsilon;
        variance = (variance < 0 ? 0 : variance) * unbiased;
        running_mean[j] =
            (real)((1 - momentum) * (double)running_mean[j] + momentum * (double)mean[j]);
        running_variance[j] =
            (real)((1 - momentum) * (double)running_variance[j] + momentum * variance);
    }
}

/* No workspace is given: the channels are done in blocks with their numbers on the stack. */
enum { INFERENCE_BLOCK = 256 };

static void norm_inference_rows(const norm_context *b, const real *variance, double epsilon,
                                int64_t first, int64_t last) {
    const real slope = (real)b->activation.slope;
    for (int64_t block = 0; block < b->c; block += INFERENCE_BLOCK) {
        const int64_t width = min_int(INFERENCE_BLOCK, b->c - block);
        const real *mean = b->mean + block, *shift = b->shift + block;
        real factor[INFERENCE_BLOCK];
        for (int64_t j = 0; j < width; j++)
            factor[j] =
                (real)((double)b->scale[block + j] / sqrt((double)variance[block + j] + epsilon));
        for (int64_t row = first; row < last; row++) {
            const real *x = b->x + row * b->x_stride + block;
            real *y = b->y + row * b->y_stride + block;
#define LOOP(KIND)                                                                                 \
    for (int64_t j = 0; j < width; j++)                                                            \
    y[j] = activate(KIND, slope, (x[j] - mean[j]) * factor[j] + shift[j])
            WITH_OFTEN(b->activation.kind, LOOP, {
                LOOP(QN_ACTIVATION_NONE);
                activate_row(b->activation, width, y, y);
            })
#undef LOOP
        }
    }
}

typedef struct inference_context {
    norm_context norm;
    const real *variance;
    double epsilon;
} inference_context;

static void norm_inference_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const inference_context *i = context;
    const int64_t bundle = rows_per_task(i->norm.c);
    norm_inference_rows(&i->norm, i->variance, i->epsilon, begin * bundle,
                        min_int(i->norm.rows, end * bundle));
}

static void batch_norm_inference(qn_team *team, const qn_rows *shape, const void *x,
                                 const void *scale_, const void *shift, const void *running_mean,
                                 const void *running_variance, double epsilon,
                                 qn_activation activation, void *y) {
    const int64_t rows = shape->rows, c = shape->c;
    inference_context i = {.norm = {.rows = rows,
                                    .c = c,
                                    .x_stride = row_stride(shape, 0),
                                    .y_stride = row_stride(shape, 1),
                                    .activation = activation,
                                    .x = x,
                                    .scale = scale_,
                                    .shift = shift,
                                    .mean = running_mean,
                                    .y = y},
                           .variance = running_variance,
                           .epsilon = epsilon};
    qn_team_run(team, ceil_div(rows, rows_per_task(c)), norm_inference_task, &i);
}

/* Of each chunk: sums of g and of g * (x - mean), where g = dy times the activation's derivative.
 */
static void norm_sums_task(void *context, int64_t begin, int64_t end, int thread) {
    const norm_context *b = context;
    const int64_t c = b->c;
    for (int64_t chunk = begin; chunk < end; chunk++) {
        const int64_t first = chunk * b->chunk_rows;
        const int64_t rows = min_int(b->chunk_rows, b->rows - first);
        const norm_context part = take_rows(b, thread, first, rows);
        for (int64_t column = 0; column < c; column += STRIP_WIDTH) {
            const column_strip s = column_strip_of(rows, c, column);
            const real *x = part.x + column, *dy = part.dy + column;
            double sums[STRIP_SPACE], dots[STRIP_SPACE];
            real line[STRIP_SPACE], *partial = b->partial + chunk * 2 * c + column;
            repeat_columns(&s, b->mean + column, line);
            const strip_inputs in = {.x = x,
                                     .y = part.y_in ? part.y_in + column : dy,
                                     .dy = dy,
                                     .mean = line,
                                     .x_stride = part.x_stride,
                                     .y_stride = part.y_in ? part.y_stride : part.dy_stride,
                                     .dy_stride = part.dy_stride,
                                     .is_dense = part.x_stride == c && part.dy_stride == c &&
                                                 (!part.y_in || part.y_stride == c),
                                     .activation = b->activation};
#define LOOP(KIND) sum_strip(STRIP_GRADIENTS, KIND, &s, &in, sums, dots)
            WITH_OFTEN(b->activation.kind, LOOP, LOOP(QN_ACTIVATION_SIGMOID))
#undef LOOP
            for (int64_t j = 0; j < s.columns; j++) {
                partial[j] = (real)sums[j];
                partial[c + j] = (real)dots[j];
            }
        }
    }
}

/* dshift, dscale, and the numbers of dx = factor * g - term - (x - mean) * tilt. */
static void norm_gradients(const norm_context *b, real *dscale, real *dshift) {
    const int64_t chunks = ceil_div(b->rows, b->chunk_rows), c = b->c;
    for (int64_t first = 0; first < c; first += CHANNEL_BLOCK) {
        const int64_t n = min_int(CHANNEL_BLOCK, c - first);
        double total[CHANNEL_BLOCK] = {0}, dot[CHANNEL_BLOCK] = {0};
        for (int64_t chunk = 0; chunk < chunks; chunk++) {
            const real *totals = b->partial + chunk * 2 * c + first, *dots = totals + c;
            for (int64_t j = 0; j < n; j++) {
                total[j] += (double)totals[j];
                dot[j] += (double)dots[j];
            }
        }
        for (int64_t j = 0; j < n; j++) {
            const int64_t at = first + j;
            const double inv_std = (double)b->inv_std[at], factor = (double)b->scale[at] * inv_std;
            dshift[at] = (real)total[j];
            dscale[at] = (real)(dot[j] * inv_std);
            b->factor[at] = (real)factor;
            b->term[at] = (real)(factor * total[j] / (double)b->rows);
            b->tilt[at] = (real)(factor * inv_std * inv_std * dot[j] / (double)b->rows);
        }
    }
}

static void norm_backward(const norm_context *b) {
    const int64_t c = b->c, rows = rows_of_line(b);
    const real slope = (real)b->activation.slope;
    const bool is_dense = is_norm_dense(b);
    real lines[4][FOLD_WIDTH];
    const real *mean = repeat_rows(b->mean, c, rows, lines[0]);
    const real *factor = repeat_rows(b->factor, c, rows, lines[1]);
    const real *term = repeat_rows(b->term, c, rows, lines[2]);
    const real *tilt = repeat_rows(b->tilt, c, rows, lines[3]);
    for (int64_t row = 0; row < b->rows; row += rows) {
        const int64_t n = min_int(rows, b->rows - row) * c;
        const real *x = b->x + row * b->x_stride, *dy = b->dy + row * b->dy_stride;
        const real *y = b->y_in ? b->y_in + row * b->y_stride : dy;
        real *dx = b->dx + row * c;
        if (!is_dense) {
            fetch_strided(b->x, row + STRIDED_AHEAD, b->x_stride, c, false);
            fetch_strided(b->dy, row + STRIDED_AHEAD, b->dy_stride, c, false);
            fetch_strided(b->y_in ? b->y_in : b->dy, row + STRIDED_AHEAD,
                          b->y_in ? b->y_stride : b->dy_stride, c, false);
        }
#define LOOP(KIND)                                                                                 \
    for (int64_t j = 0; j < n; j++)                                                                \
    dx[j] = factor[j] * derive(KIND, slope, y[j], dy[j]) - term[j] - (x[j] - mean[j]) * tilt[j]
        WITH_OFTEN(b->activation.kind, LOOP, {
            derive_row(b->activation, n, y, dy, dx);
            dy = dx;
            LOOP(QN_ACTIVATION_NONE);
        })
#undef LOOP
    }
}

static void norm_backward_task(void *context, int64_t begin, int64_t end, int thread) {
    const norm_context *b = context;
    const int64_t bundle = rows_per_task(b->c), last = min_int(b->rows, end * bundle);
    const int64_t step = rows_at_once(b, last);
    for (int64_t row = begin * bundle; row < last; row += step) {
        const norm_context part = take_rows(b, thread, row, min_int(step, last - row));
        norm_backward(&part);
        if (b->halves)
            narrow_rows(b, part.dx, b->dx, b->c, row, part.rows);
    }
}

static void batch_norm_backward(qn_team *team, const qn_rows *shape, const void *x, const void *y,
                                const void *dy, const void *scale_, const void *mean,
                                const void *inv_std, qn_activation activation, void *dx,
                                void *dscale, void *dshift, void *workspace) {
    const int64_t rows = shape->rows, c = shape->c;
    norm_context b = norm_init(shape, activation, workspace);
    b.x = x;
    b.y_in = activation.kind == QN_ACTIVATION_NONE ? NULL : y;
    b.dy = dy;
    b.scale = scale_;
    b.mean = mean;
    b.inv_std = inv_std;
    b.dx = dx;
    qn_team_run(team, ceil_div(rows, b.chunk_rows), norm_sums_task, &b);
    norm_gradients(&b, dscale, dshift);
    qn_team_run(team, ceil_div(rows, rows_per_task(c)), norm_backward_task, &b);
}

#endif
