/* Products of int8 with sums of int32: a convolution and its two gradients, as products of
 * matrices. One operand becomes panels of 32 columns, whose vectors have four products of each
 * column; of the other one, words of four products are read into registers, tiles of 8 rows at a
 * time. The processor's fast product is of unsigned bytes by signed ones, so 128 is added to the
 * panels, and 128 times a row's sum taken off where its sums begin. */
#include "product.h"

/* ---- operands ---- */

/* Vector `at` of a row of n bytes, with zeros behind them. */
static inline vec load_row(const char *row, int at, int n) {
    const vec x = load(row + at);
    return n - at >= VECTOR ? x : first(n - at, x, Q6_V_vzero());
}

/* Panels of rows whose products lie one behind the other: `count` rows, `step` bytes apart. */
static void pack_rows(const product *m, const char *from, int count, int step) {
    const int quads = m->at.quads, n = m->at.products;
    const vec bias = Q6_V_vsplat_R(BIAS);
    for (int row = 0; row < m->at.lanes; row += LANES) {
        vec *panel = (vec *)(m->panels + row * quads * WORD);
        for (int at = 0; at < n; at += VECTOR) {
            vec merged[4][ROWS];
            for (int g = 0; g < 4; g++) {
                vec r[ROWS];
                for (int i = 0; i < ROWS; i++)
                    r[i] = row + g * ROWS + i < count
                               ? load_row(from + (row + g * ROWS + i) * step, at, n)
                               : Q6_V_vzero();
                merge_rows(r, merged[g]);
            }
            for (int j = 0; j < ROWS; j++) {
                const pair a = alternate(merged[0][j], merged[1][j], ROWS * WORD);
                const pair b = alternate(merged[2][j], merged[3][j], ROWS * WORD);
                const pair lower = alternate(low(a), low(b), 2 * ROWS * WORD);
                const pair upper = alternate(high(a), high(b), 2 * ROWS * WORD);
                const vec all[4] = {low(lower), high(lower), low(upper), high(upper)};
                const int quad = at / WORD + j * 4;
                for (int i = 0; i < 4 && quad + i < quads; i++)
                    panel[quad + i] = Q6_V_vxor_VV(all[i], bias);
            }
        }
    }
}

/* One quad of all panels from four rows of bytes, a column each; null: zeros. */
static inline void pack_quad(const product *m, const char *const rows[4], int quad, int columns) {
    const vec bias = Q6_V_vsplat_R(BIAS);
    for (int at = 0; at < columns; at += VECTOR) {
        vec r[4], merged[4];
        for (int i = 0; i < 4; i++)
            r[i] = rows[i] ? load_row(rows[i], at, columns) : Q6_V_vzero();
        merge_bytes(r, merged);
        for (int i = 0; i < 4 && at + i * LANES < m->at.lanes; i++)
            *(vec *)(m->panels + ((at + i * LANES) * m->at.quads + quad * LANES) * WORD) =
                Q6_V_vxor_VV(merged[i], bias);
    }
}

/* Where the sums of tiles of merged rows begin: -128 times the sums of their rows. */
static void begin_tile(const char *tile, int vectors, int *begin) {
    vec sum = Q6_V_vzero();
    const vec ones = Q6_V_vsplat_R(ONES);
    for (int i = 0; i < vectors; i++)
        sum = Q6_Vw_vrmpyacc_VwVubVb(sum, ones, ((const vec *)tile)[i]);
    sum = Q6_Vw_vadd_VwVw(sum, Q6_V_vror_VR(sum, VECTOR / 2));
    sum = Q6_Vw_vadd_VwVw(sum, Q6_V_vror_VR(sum, VECTOR / 4));
    sum = Q6_Vw_vsub_VwVw(Q6_V_vzero(), Q6_Vw_vasl_VwR(sum, 7));
    store_some((char *)begin, sum, ROWS * WORD);
}

/* ---- tiles ---- */

/* 8 rows by 32 or 64 columns. row_step: bytes from one quad's words to the next's. */
static inline __attribute__((always_inline)) void make_tile(product *m, const char *words,
                                                            int row_step, int quads,
                                                            const int *begin, int column,
                                                            bool is_pair, bool adds, char *to) {
    const vec *left = (const vec *)(m->panels + column * m->at.quads * WORD);
    const vec *right = left + (is_pair ? m->at.quads : 0);
    const int step = m->at.lanes * WORD, n = 1 + is_pair;
    vec s[ROWS][2];
#pragma clang loop unroll(full)
    for (int i = 0; i < ROWS; i++)
        s[i][0] = s[i][1] = Q6_V_vsplat_R(begin[i]);
    vec l = left[0], r = right[0];
    for (int k = 0; k < quads; k++) {
        const long long *at = (const long long *)(words + k * row_step);
        const vec next_l = left[k + 1], next_r = right[k + 1];
#pragma clang loop unroll(full)
        for (int i = 0; i < ROWS; i += 2) {
            const long long two = at[i / 2];
            const int x = (int)two, y = (int)(two >> 32);
            s[i][0] = Q6_Vw_vrmpyacc_VwVubRb(s[i][0], l, x);
            s[i + 1][0] = Q6_Vw_vrmpyacc_VwVubRb(s[i + 1][0], l, y);
            if (is_pair) {
                s[i][1] = Q6_Vw_vrmpyacc_VwVubRb(s[i][1], r, x);
                s[i + 1][1] = Q6_Vw_vrmpyacc_VwVubRb(s[i + 1][1], r, y);
            }
        }
        l = next_l;
        r = next_r;
    }
    if (adds) {
#pragma clang loop unroll(full)
        for (int i = 0; i < ROWS * n; i++)
            s[i / n][i % n] = Q6_Vw_vadd_VwVw(s[i / n][i % n], ((vec *)(to + i / n * step))[i % n]);
    }
    note_ends(m, s, n);
#pragma clang loop unroll(full)
    for (int i = 0; i < ROWS * n; i++)
        ((vec *)(to + i / n * step))[i % n] = s[i / n][i % n];
}

static void make_tiles(product *m, const char *words, int quads, const int *begin, int column,
                       bool is_pair, char *to) {
    if (is_pair)
        make_tile(m, words, ROWS * WORD, quads, begin, column, true, false, to);
    else
        make_tile(m, words, ROWS * WORD, quads, begin, column, false, false, to);
}

/* ---- windows ---- */

image image_of(const product *m, const char *from) {
    const qn_dsp_window *d = m->d;
    const bool is_data = m->p->work.kind == QN_DSP_DATA;
    image x = {.from = from, .h = d->h, .w = d->w, .c = d->c, .step = d->c};
    x.rows = is_data ? d->h : d->p;
    x.columns = is_data ? d->w : d->q;
    x.stride_h = is_data ? 1 : d->stride_h;
    x.stride_w = is_data ? 1 : d->stride_w;
    x.pad_top = is_data ? d->r - 1 - d->pad_top : d->pad_top;
    x.pad_left = is_data ? d->s - 1 - d->pad_left : d->pad_left;
    if (is_data) {
        x.h = d->p;
        x.w = d->q;
        x.c = d->k;
        x.step = d->y_stride;
    }
    const int columns = m->at.pitch / x.c - x.pad_left;
    x.taken = columns < x.w ? columns : x.w;
    x.is_plain = x.step == x.c && x.pad_top == 0 && x.pad_left == 0 && m->at.padded_rows <= x.h &&
                 m->at.pitch <= x.w * x.c;
    x.pitch = x.is_plain ? x.w * x.c : m->at.pitch;
    x.column_step = x.stride_w * x.c;
    x.row_step = x.stride_h * x.pitch;
    return x;
}

/* A row of an image between zeros. */
static void pad_row(const product *m, const image *x, const char *from, char *to) {
    const int n = x->taken;
    for (int i = 0; i < m->at.pitch; i += VECTOR)
        store(to + i, Q6_V_vzero());
    to += x->pad_left * x->c;
    if (x->step == x->c) {
        copy(to, from, n * x->c);
        return;
    }
    for (int i = 0; i < n; i++)
        copy(to + i * x->c, from + i * x->step, x->c);
}

/* An image with its margins. What its rows write beyond themselves, later rows write over. */
void pad_image(const product *m, const image *x, int number) {
    for (int row = 0; row < m->at.padded_rows; row++) {
        const int y = row - x->pad_top;
        char *to = m->padded + row * m->at.pitch;
        if (y >= 0 && y < x->h) {
            pad_row(m, x, x->from + (number * x->h + y) * x->w * x->step, to);
            continue;
        }
        for (int i = 0; i < m->at.pitch; i += VECTOR)
            store(to + i, Q6_V_vzero());
    }
}

/* The next window, in the order of images, rows and columns. */
typedef struct walk {
    int number, y, x;
    const char *row, *at; /* the first byte of its row's first window, and of it */
} walk;

/* Where the first window of an image is. */
static const char *begin_image(const product *m, const image *x, int number) {
    if (x->is_plain)
        return x->from + number * x->h * x->pitch;
    pad_image(m, x, number);
    return m->padded;
}

static inline void advance(const product *m, const image *x, walk *w) {
    w->at += x->column_step;
    if (++w->x < x->columns)
        return;
    w->x = 0;
    w->row += x->row_step;
    if (++w->y == x->rows) {
        w->y = 0;
        w->row = ++w->number < m->d->n ? begin_image(m, x, w->number) : w->row;
    }
    w->at = w->row;
}

/* A window whose rows lie apart as one row. `to` has room for a vector more. */
static inline void gather(const char *from, int pitch, int rows, int bytes, char *to) {
    if (bytes <= VECTOR) {
        for (int r = 0; r < rows; r++, from += pitch, to += bytes)
            store(to, load(from));
        return;
    }
    for (int r = 0; r < rows; r++, from += pitch, to += bytes)
        copy_beyond(to, from, bytes);
}

/* The next windows as rows; `rows` is where they lie. */
static void take_windows(const product *m, const image *x, walk *next, int count,
                         const char *rows[ROWS]) {
    const int height = m->d->r, bytes = m->d->s * x->c, pitch = x->pitch;
    const int step = m->at.gathered_bytes;
    const bool is_apart = height > 1;
    char *to = m->gathered;
    walk w = *next;
    for (int i = 0; i < count; i++, to += step) {
        rows[i] = w.at;
        if (is_apart) {
            gather(w.at, pitch, height, bytes, to);
            rows[i] = to;
        }
        advance(m, x, &w);
    }
    *next = w;
}

/* ---- forward, and to the data ---- */

/* Filters of the gradient to the data: column c has the products (r, s, k), with r and s turned. */
static void pack_turned(const product *m, const char *w) {
    const qn_dsp_window *d = m->d;
    const char *rows[4] = {0};
    int i = 0, quad = 0;
    for (int r = d->r - 1; r >= 0; r--) {
        for (int s = d->s - 1; s >= 0; s--) {
            for (int k = 0; k < d->k; k++) {
                rows[i++] = w + ((k * d->r + r) * d->s + s) * d->c;
                if (i == 4) {
                    pack_quad(m, rows, quad++, d->c);
                    i = 0;
                }
            }
        }
    }
    for (int j = i; i > 0 && j < 4; j++)
        rows[j] = 0;
    if (i > 0)
        pack_quad(m, rows, quad, d->c);
}

/* The next windows as a tile. */
static void prepare_tile(const product *m, const image *x, walk *w, int count, char *tile) {
    const char *rows[ROWS];
    const int n = m->at.products;
    take_windows(m, x, w, count, rows);
    for (int k = 0; k < n; k += VECTOR) {
        vec r[ROWS];
        for (int i = 0; i < ROWS; i++)
            r[i] = i < count ? load_row(rows[i], k, n) : Q6_V_vzero();
        merge_rows(r, (vec *)(tile + k * ROWS));
    }
}

static void multiply_rows(product *m, const image *x) {
    const int deep = qn_dsp_round_up(m->at.quads, LANES);
    const int tile_bytes = deep * ROWS * WORD;
    walk w = {0};
    w.row = w.at = begin_image(m, x, 0);
    for (int block = 0; block < m->at.rows; block += BLOCK) {
        int begin[BLOCK] __attribute__((aligned(VECTOR)));
        const int left = m->at.rows - block,
                  n_tiles = left < BLOCK ? (left + ROWS - 1) / ROWS : BLOCK / ROWS;
        for (int t = 0; t < n_tiles; t++) {
            const int count = left - t * ROWS < ROWS ? left - t * ROWS : ROWS;
            prepare_tile(m, x, &w, count, m->tiles + t * tile_bytes);
            begin_tile(m->tiles + t * tile_bytes, (m->at.quads + 3) / 4, begin + t * ROWS);
        }
        for (int column = 0; column < m->at.lanes; column += 2 * LANES) {
            for (int t = 0; t < n_tiles; t++)
                make_tiles(m, m->tiles + t * tile_bytes, m->at.quads, begin + t * ROWS, column,
                           column + LANES < m->at.lanes,
                           m->sums + ((block + t * ROWS) * m->at.lanes + column) * WORD);
        }
    }
}

/* ---- to the filter ---- */

/* Four windows of x, a panel's quad; and their dy, a quad of words for each row. */
static void prepare_quad(const product *m, const image *x, const char *dy, walk *w, int count,
                         int quad) {
    const char *rows[ROWS] = {0};
    count = count < 4 ? count : 4;
    take_windows(m, x, w, count, rows);
    pack_quad(m, rows, quad, m->at.columns);
    const int whole = qn_dsp_round_up(m->at.rows, BLOCK);
    for (int k = 0; k < m->at.rows; k += VECTOR) {
        vec r[4], merged[4];
        for (int i = 0; i < 4; i++)
            r[i] = i < count ? load_row(dy + i * m->d->y_stride, k, m->at.rows) : Q6_V_vzero();
        merge_bytes(r, merged);
        for (int i = 0; i < 4 && k + i * LANES < whole; i++)
            *(vec *)(m->tiles + (quad * whole + k + i * LANES) * WORD) = merged[i];
    }
}

/* Sums over some pixels, added to those before. */
static void add_pixels(product *m, int quads, bool adds) {
    const int whole = qn_dsp_round_up(m->at.rows, BLOCK);
    for (int block = 0; block < m->at.rows; block += LANES) {
        int begin[LANES] __attribute__((aligned(VECTOR)));
        const char *words = m->tiles + block * WORD;
        const vec ones = Q6_V_vsplat_R(ONES);
        vec sum = Q6_V_vzero();
        for (int k = 0; k < quads; k++)
            sum = Q6_Vw_vrmpyacc_VwVubVb(sum, ones, *(const vec *)(words + k * whole * WORD));
        *(vec *)begin = Q6_Vw_vsub_VwVw(Q6_V_vzero(), Q6_Vw_vasl_VwR(sum, 7));
        const int left = m->at.rows - block, count = left < LANES ? left : LANES;
        for (int column = 0; column < m->at.lanes; column += 2 * LANES) {
            const bool is_pair = column + LANES < m->at.lanes;
            for (int t = 0; t < count; t += ROWS) {
                char *to = m->sums + ((block + t) * m->at.lanes + column) * WORD;
                const char *at = words + t * WORD;
                if (is_pair && adds)
                    make_tile(m, at, whole * WORD, quads, begin + t, column, true, true, to);
                else if (is_pair)
                    make_tile(m, at, whole * WORD, quads, begin + t, column, true, false, to);
                else if (adds)
                    make_tile(m, at, whole * WORD, quads, begin + t, column, false, true, to);
                else
                    make_tile(m, at, whole * WORD, quads, begin + t, column, false, false, to);
            }
        }
    }
}

static void multiply_pixels(product *m, const image *x, const char *dy) {
    const int pixels = m->at.products;
    walk w = {0};
    w.row = w.at = begin_image(m, x, 0);
    for (int done = 0; done < pixels; done += QN_DSP_PIXELS) {
        const int count = pixels - done < QN_DSP_PIXELS ? pixels - done : QN_DSP_PIXELS;
        for (int i = 0; i < count; i += 4)
            prepare_quad(m, x, dy + (done + i) * m->d->y_stride, &w, count - i, i / 4);
        m->ends = (extremes){Q6_V_vzero(), Q6_V_vzero()};
        add_pixels(m, (count + 3) / 4, done > 0);
    }
}

/* ---- all three ---- */

static uint32_t find_largest(const extremes *ends) {
    int most[LANES] __attribute__((aligned(VECTOR))), least[LANES] __attribute__((aligned(VECTOR)));
    uint32_t largest = 0;
    *(vec *)most = ends->most;
    *(vec *)least = ends->least;
    for (int i = 0; i < LANES; i++) {
        const uint32_t a = (uint32_t)most[i], b = -(uint32_t)least[i];
        largest = a > largest ? a : largest;
        largest = b > largest ? b : largest;
    }
    return largest;
}

static void multiply_all(product *m) {
    const prepared *p = m->p;
    const qn_dsp_window *d = m->d;
    const char *a = place(p, p->work.in[0]), *b = place(p, p->work.in[1]);
    const image x = image_of(m, a);
    if (m->at.is_planar) {
        multiply_planes(m);
        return;
    }
    switch (p->work.kind) {
    case QN_DSP_FORWARD:
        pack_rows(m, b, d->k, m->at.products);
        multiply_rows(m, &x);
        break;
    case QN_DSP_DATA:
        pack_turned(m, b);
        multiply_rows(m, &x);
        break;
    default:
        multiply_pixels(m, &x, b);
        break;
    }
}

uint32_t make_sums(const prepared *p) {
    char *workspace = place(p, p->work.workspace);
    product m = {.p = p,
                 .d = &p->work.window,
                 .at = p->places,
                 .sums = workspace + p->places.sums,
                 .panels = workspace + p->places.panels,
                 .padded = workspace + p->places.padded,
                 .gathered = workspace + p->places.gathered,
                 .tiles = workspace + p->places.tiles,
                 .relu = p->work.relu != 0,
                 .ends = {Q6_V_vzero(), Q6_V_vzero()}};
    multiply_all(&m);
    return find_largest(&m.ends);
}
