/* Depthwise convolutions of int8, a part of engine.h: channels are lanes, and two taps of a row, or
 * to the filter two outputs, are multiplied at once, as a pair of int16 in a lane. Rows of pixels
 * are packed as such pairs when the first window needs them, and stay for the windows below. To the
 * data is forward with the filter turned, over rows in which outputs lie as far apart as the step.
 */
#ifndef QN_KERNELS_INTEGER_DEPTHWISE_H
#define QN_KERNELS_INTEGER_DEPTHWISE_H

/* Sums of products of pairs of int16, modulo 2^32. */
static inline __attribute__((always_inline)) vector dot_taps(vector sums, vector a, vector b) {
#ifdef HAS_PAIRS
    return dot_pairs(sums, a, b);
#else
    const vector low = (vector)((sizes)a << 16) >> 16, other = (vector)((sizes)b << 16) >> 16;
    return add(add(sums, low * other), (a >> 16) * (b >> 16));
#endif
}

/* Taps whose sums to the filter a thread keeps, of larger filters one row of them after the other;
 * and rows of taps. What has more of them is no depthwise convolution to this file. */
enum { MOST_TAPS = 64, MOST_ROWS = 64 };

/* One axis: where pixels lie, and which of them a window takes: tap i of window o is place
 * o * step + i * apart of a packed row, in which pixel j is at j * spread + before. */
typedef struct axis {
    int64_t pixels, spread, before, windows, step, taps, apart;
} axis;

typedef struct depthwise {
    const qn_conv2d_shape *d;
    const int8_t *a, *b;
    axis rows, columns;
    int64_t a_step, y_step; /* of pixels that are read and of sums */
    bool is_turned;
    int64_t pair;       /* how far apart the places of a pair are */
    int64_t n_held;     /* rows of a window, those between its taps too */
    int64_t row_places; /* of a packed row */
    product to;
    vector *weights;
    char *scratch;
    size_t scratch_bytes; /* of a thread */
} depthwise;

/* What a thread has packed of a channel block of an image: row i of n_held is row held[i]. */
typedef struct packed {
    const depthwise *t;
    int64_t *held;
    vector *rows, *errors, *zeros;
    const vector *weights;
    const int8_t *image;
    int64_t channels; /* of the block, VL at most */
} packed;

static int64_t places_of(const axis *a) {
    return (a->windows - 1) * a->step + (a->taps - 1) * a->apart + 1;
}

static depthwise depthwise_of(const qn_conv2d_shape *d, qn_conv2d_pass pass) {
    const bool is_data = pass == QN_CONV2D_BACKWARD_DATA;
    depthwise t = {.d = d,
                   .rows = {d->h, 1, d->pad_top, d->p, d->stride_h, d->r, d->dilation_h},
                   .columns = {d->w, 1, d->pad_left, d->q, d->stride_w, d->s, d->dilation_w},
                   .a_step = d->c,
                   .y_step = step_of(d),
                   .is_turned = is_data};
    if (is_data) {
        t.rows = (axis){d->p, d->stride_h,  (d->r - 1) * d->dilation_h - d->pad_top, d->h, 1,
                        d->r, d->dilation_h};
        t.columns = (axis){d->q, d->stride_w,  (d->s - 1) * d->dilation_w - d->pad_left, d->w, 1,
                           d->s, d->dilation_w};
        t.a_step = step_of(d);
        t.y_step = d->c;
    }
    t.pair = pass == QN_CONV2D_BACKWARD_FILTER ? d->stride_w : d->dilation_w;
    t.n_held = (d->r - 1) * d->dilation_h + 1;
    t.row_places = places_of(&t.columns) + t.pair;
    t.scratch_bytes = (size_t)((t.n_held + 1) * t.row_places + ceil_div(d->q, 2)) * sizeof(vector) +
                      (size_t)ceil_div(t.n_held, 8) * 64;
    return t;
}

static int64_t count_weights(const qn_conv2d_shape *d) {
    return ceil_div(d->c, VL) * d->r * ceil_div(d->s, 2);
}

static size_t depthwise_workspace(const qn_conv2d_shape *d, qn_conv2d_pass pass, int n_threads) {
    return (size_t)n_threads * depthwise_of(d, pass).scratch_bytes +
           (size_t)count_weights(d) * sizeof(vector) + 64;
}

static packed packed_of(const depthwise *t, int thread) {
    packed k = {.t = t};
    k.rows = (vector *)(void *)(t->scratch + (size_t)thread * t->scratch_bytes);
    k.zeros = k.rows + t->n_held * t->row_places;
    k.errors = k.zeros + t->row_places;
    memset(k.zeros, 0, (size_t)t->row_places * sizeof *k.zeros);
    k.held = (int64_t *)(void *)(k.errors + ceil_div(t->d->q, 2));
    return k;
}

/* A plain loop: compilers make one instruction of it, but not of a vector's conversion. */
static inline __attribute__((always_inline)) vector lanes_of(const int8_t *x, int64_t n) {
    int32_t lanes[VL] = {0};
    vector all;
    for (int64_t i = 0; i < n; i++)
        lanes[i] = x[i];
    memcpy(&all, lanes, sizeof all);
    return all;
}

static inline vector pair_of(vector first, vector second) {
    return (first & 0xffff) | (vector)((sizes)second << 16);
}

/* Row y of the image, as pairs. Ascending, a place is still alone when the one before takes it. */
static inline __attribute__((always_inline)) void pack_any_pairs(const packed *k, int64_t channels,
                                                                 const int8_t *row, vector *to) {
    const depthwise *t = k->t;
    const axis *x = &t->columns;
    memset(to, 0, (size_t)t->row_places * sizeof *to);
    for (int64_t j = 0; j < x->pixels; j++) {
        const int64_t i = j * x->spread + x->before;
        if (i >= 0 && i < t->row_places)
            to[i] = lanes_of(row + j * t->a_step, channels);
    }
    for (int64_t i = 0; i < t->row_places - t->pair; i++)
        to[i] = pair_of(to[i], to[i + t->pair]);
}

/* Pairs of neighbours, each pixel read once. */
static inline __attribute__((always_inline)) void pack_neighbours(const packed *k, int64_t channels,
                                                                  const int8_t *row, vector *to) {
    const int64_t before = k->t->columns.before, n = k->t->row_places;
    const int64_t last = least(n, before + k->t->columns.pixels);
    const int8_t *from = row + most(0, -before) * k->t->a_step;
    vector first = {0};
    int64_t i = most(0, before);
    for (int64_t j = 0; j < i - 1; j++)
        to[j] = first;
    for (; i < last; i++, from += k->t->a_step) {
        const vector second = lanes_of(from, channels);
        if (i > 0)
            to[i - 1] = pair_of(first, second);
        first = second;
    }
    to[i - 1] = pair_of(first, (vector){0});
    for (; i < n; i++)
        to[i] = (vector){0};
}

static void pack_pairs(const packed *k, int64_t y, vector *to) {
    const depthwise *t = k->t;
    const axis *x = &t->columns;
    const int8_t *row = k->image + y * x->pixels * t->a_step;
    const bool are_neighbours =
        t->pair == 1 && x->spread == 1 && x->before + x->pixels > 0 && x->before < t->row_places;
    if (!are_neighbours && k->channels == VL)
        pack_any_pairs(k, VL, row, to);
    else if (!are_neighbours)
        pack_any_pairs(k, k->channels, row, to);
    else if (k->channels == VL)
        pack_neighbours(k, VL, row, to);
    else
        pack_neighbours(k, k->channels, row, to);
}

/* The packed row of a tap of a window; null: it has zeros alone. */
static const vector *row_of_tap(const packed *k, int64_t window, int64_t tap) {
    const axis *y = &k->t->rows;
    const int64_t number = window * y->step + tap * y->apart, from = number - y->before;
    if (from < 0 || from >= y->pixels * y->spread || (y->spread > 1 && from % y->spread != 0))
        return NULL;
    const int64_t slot = number % k->t->n_held;
    vector *to = k->rows + slot * k->t->row_places;
    if (k->held[slot] != number)
        pack_pairs(k, from / y->spread, to);
    k->held[slot] = number;
    return to;
}

static void begin_block(packed *k, int64_t image, int64_t first) {
    const depthwise *t = k->t;
    const int64_t pixels = t->rows.pixels * t->columns.pixels;
    k->image = t->a + image * pixels * t->a_step + first;
    k->weights = t->weights + first / VL * t->d->r * ceil_div(t->d->s, 2);
    k->channels = least(VL, t->d->c - first);
    for (int64_t i = 0; i < t->n_held; i++)
        k->held[i] = -1;
}

/* ---- forward and to the data ---- */

/* Of all blocks of channels: (blocks, R, pairs, VL). */
static void pack_weights(const depthwise *t) {
    const qn_conv2d_shape *d = t->d;
    const int64_t taps = d->r * d->s, n = d->r * ceil_div(d->s, 2);
    memset(t->weights, 0, (size_t)(ceil_div(d->c, VL) * n) * sizeof(vector));
    for (int64_t c = 0; c < d->c; c++) {
        const int8_t *w = t->is_turned ? t->b + c * taps + taps - 1 : t->b + c * taps;
        int16_t *to = (int16_t *)(void *)(t->weights + c / VL * n) + c % VL * 2;
        for (int64_t r = 0; r < d->r; r++) {
            for (int64_t s = 0; s < d->s; s++, w += t->is_turned ? -1 : 1)
                to[s / 2 * 2 * VL + s % 2] = *w;
            to += ceil_div(d->s, 2) * 2 * VL;
        }
    }
}

/* Sums of n windows. */
static inline __attribute__((always_inline)) void
add_rows(int64_t n_rows, int64_t pairs, int64_t n, int64_t step, int64_t apart,
         const vector *const *rows, const vector *weights, vector *restrict sums) {
    for (int64_t o = 0; o < n; o++) {
        vector sum = {0};
        for (int64_t r = 0; r < n_rows; r++) {
            for (int64_t i = 0; i < pairs; i++)
                sum = dot_taps(sum, rows[r][o * step + 2 * i * apart], weights[r * pairs + i]);
        }
        sums[o] = sum;
    }
}

/* The same of three rows of three taps or four, whose weights stay in registers. */
static inline __attribute__((always_inline)) void add_three(int64_t n, int64_t step,
                                                            const vector *const *rows,
                                                            const vector *weights,
                                                            vector *restrict sums) {
    const vector *restrict a = rows[0], *restrict b = rows[1], *restrict c = rows[2];
    const vector w[] = {weights[0], weights[1], weights[2], weights[3], weights[4], weights[5]};
    for (int64_t o = 0; o < n; o++, a += step, b += step, c += step) {
        const vector even = dot_taps(dot_taps((vector){0}, a[0], w[0]), b[0], w[2]);
        const vector odd = dot_taps(dot_taps((vector){0}, a[2], w[1]), b[2], w[3]);
        sums[o] = add(dot_taps(even, c[0], w[4]), dot_taps(odd, c[2], w[5]));
    }
}

/* Outputs at once. */
enum { WINDOWS = 32 };

/* Sums of windows [first, first + n) of row p. */
static void sum_windows(const packed *k, int64_t p, int64_t first, int64_t n, vector *sums) {
    const axis *x = &k->t->columns, *y = &k->t->rows;
    const int64_t pairs = ceil_div(x->taps, 2);
    const vector *rows[MOST_ROWS];
    for (int64_t r = 0; r < y->taps; r++) {
        const vector *row = row_of_tap(k, p, r);
        rows[r] = (row ? row : k->zeros) + first * x->step;
    }
    if (y->taps == 3 && pairs == 2 && x->step == 1 && x->apart == 1)
        add_three(n, 1, rows, k->weights, sums);
    else if (y->taps == 3 && pairs == 2 && x->apart == 1)
        add_three(n, x->step, rows, k->weights, sums);
    else
        add_rows(y->taps, pairs, n, x->step, x->apart, rows, k->weights, sums);
}

static inline __attribute__((always_inline)) void finish_windows_as(const packed *k, finish how,
                                                                    int64_t n, const vector *sums,
                                                                    int64_t at, sizes *largest) {
    const qn_integer_result *y = &k->t->to.y;
    const int64_t step = k->t->y_step;
    const qn_shift by = y->shift;
    uint32_t most_of_all[VL];
    memcpy(most_of_all, largest, sizeof most_of_all);
    for (int64_t o = 0; o < n; o++, at += step)
        finish_columns(VL, how, by, (const int32_t *)(const void *)&sums[o], most_of_all,
                       how <= FINISH_SUMS ? y->sums + at : NULL,
                       how > FINISH_SUMS ? y->shifted + at : NULL);
    memcpy(largest, most_of_all, sizeof most_of_all);
}

static void finish_windows(const packed *k, int64_t first, int64_t n, const vector *sums,
                           int64_t at, sizes *largest) {
    const finish how = finish_of(&k->t->to, k->channels, false, true);
    if (k->channels == VL && how == FINISH_SUMS) {
        finish_windows_as(k, FINISH_SUMS, n, sums, at, largest);
    } else if (k->channels == VL && how == FINISH_AWAY) {
        finish_windows_as(k, FINISH_AWAY, n, sums, at, largest);
    } else {
        for (int64_t o = 0; o < n; o++, at += k->t->y_step)
            finish_row(&k->t->to, first, k->channels, (const int32_t *)(const void *)&sums[o], at,
                       false, true, largest);
    }
}

/* A task is a block of channels of an image. */
static void depthwise_task(void *context, int64_t begin, int64_t end, int thread) {
    const depthwise *t = context;
    const int64_t n_blocks = ceil_div(t->d->c, VL), width = t->columns.windows;
    packed k = packed_of(t, thread);
    sizes largest = {0};
    for (int64_t task = begin; task < end; task++) {
        const int64_t image = task / n_blocks, first = task % n_blocks * VL;
        begin_block(&k, image, first);
        for (int64_t p = 0; p < t->rows.windows; p++) {
            const int64_t row = (image * t->rows.windows + p) * width;
            for (int64_t q = 0; q < width; q += WINDOWS) {
                vector sums[WINDOWS];
                const int64_t n = least(WINDOWS, width - q);
                sum_windows(&k, p, q, n, sums);
                finish_windows(&k, first, n, sums, (row + q) * t->y_step + first, &largest);
            }
        }
    }
    raise_largest(&t->to.y, largest);
}

/* ---- to the filter ---- */

static inline __attribute__((always_inline)) void pack_errors(const packed *k, int64_t channels,
                                                              const int8_t *row, int64_t step) {
    const int64_t q = k->t->d->q;
    for (int64_t i = 0; i < q; i += 2) {
        const vector second = i + 1 < q ? lanes_of(row + (i + 1) * step, channels) : (vector){0};
        k->errors[i / 2] = pair_of(lanes_of(row + i * step, channels), second);
    }
}

/* A row of outputs times the row of pixels that their taps lie in. */
static inline __attribute__((always_inline)) void
add_errors(int64_t taps, int64_t n, int64_t step, int64_t apart, const vector *restrict row,
           const vector *restrict errors, vector *restrict sums) {
    vector few[3];
    for (int64_t s = 0; s < taps; s++)
        few[s] = sums[s];
    for (int64_t i = 0; i < n; i++) {
        for (int64_t s = 0; s < taps; s++)
            few[s] = dot_taps(few[s], row[i * step + s * apart], errors[i]);
    }
    for (int64_t s = 0; s < taps; s++)
        sums[s] = few[s];
}

static void add_row(const packed *k, const vector *row, vector *sums) {
    const axis *x = &k->t->columns;
    const int64_t n = ceil_div(x->windows, 2), step = 2 * x->step;
    int64_t s = 0;
    for (; s + 3 <= x->taps; s += 3)
        add_errors(3, n, step, x->apart, row + s * x->apart, k->errors, sums + s);
    for (; s < x->taps; s++)
        add_errors(1, n, step, x->apart, row + s * x->apart, k->errors, sums + s);
}

/* Sums of rows of taps [r, r + n_r) of a block of channels. */
static void sum_filter(packed *k, int64_t first, int64_t r, int64_t n_r, vector *sums) {
    const depthwise *t = k->t;
    const qn_conv2d_shape *d = t->d;
    const int64_t step = step_of(d);
    memset(sums, 0, (size_t)(n_r * d->s) * sizeof *sums);
    for (int64_t i = 0; i < d->n; i++) {
        begin_block(k, i, first);
        for (int64_t p = 0; p < d->p; p++) {
            const int8_t *errors = t->b + (i * d->p + p) * d->q * step + first;
            if (k->channels == VL)
                pack_errors(k, VL, errors, step);
            else
                pack_errors(k, k->channels, errors, step);
            for (int64_t j = 0; j < n_r; j++) {
                const vector *row = row_of_tap(k, p, r + j);
                if (row)
                    add_row(k, row, sums + j * d->s);
            }
        }
    }
}

/* A task is a block of channels. */
static void depthwise_filter_task(void *context, int64_t begin, int64_t end, int thread) {
    const depthwise *t = context;
    const qn_conv2d_shape *d = t->d;
    const int64_t taps = d->r * d->s, at_once = least(d->r, most(1, MOST_TAPS / d->s));
    packed k = packed_of(t, thread);
    sizes largest = {0};
    for (int64_t task = begin; task < end; task++) {
        const int64_t first = task * VL;
        for (int64_t r = 0; r < d->r; r += at_once) {
            vector sums[MOST_TAPS];
            const int64_t n_r = least(at_once, d->r - r);
            sum_filter(&k, first, r, n_r, sums);
            for (int64_t i = 0; i < n_r * d->s * k.channels; i++) {
                const int64_t c = i % k.channels, tap = i / k.channels;
                const vector sum = {sums[tap][c]};
                finish_row(&t->to, 0, 1, (const int32_t *)(const void *)&sum,
                           (first + c) * taps + r * d->s + tap, d->add, true, &largest);
            }
        }
    }
    raise_largest(&t->to.y, largest);
}

static bool is_depthwise(const qn_conv2d_shape *d) {
    return d->groups == d->c && d->groups == d->k && d->s <= MOST_TAPS && d->r <= MOST_ROWS;
}

static void run_depthwise(qn_team *team, const qn_conv2d_shape *d, qn_conv2d_pass pass,
                          const int8_t *a, const int8_t *b, const qn_integer_result *y,
                          void *workspace) {
    depthwise t = depthwise_of(d, pass);
    t.a = a;
    t.b = b;
    t.to = (product){.y = *y, .k = d->r * d->s};
    t.weights = (vector *)(void *)((char *)workspace + (64 - (uintptr_t)workspace % 64) % 64);
    t.scratch = (char *)(t.weights + count_weights(d));
    begin_outcome(y);
    if (pass == QN_CONV2D_BACKWARD_FILTER) {
        qn_team_run(team, ceil_div(d->c, VL), depthwise_filter_task, &t);
        return;
    }
    pack_weights(&t);
    qn_team_run(team, d->n * ceil_div(d->c, VL), depthwise_task, &t);
}

#endif
