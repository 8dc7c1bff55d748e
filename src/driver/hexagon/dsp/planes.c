/* Products of few channels, where lanes are pixels: an image, with its margins, becomes planes of
 * its pixels one behind the other, so that a tap of a window is a place in a plane, and a row's
 * last windows reach into the next row: what they make is masked. Forward and to the data, lanes
 * have words of four products, of channels or, of one channel, of neighbours; words of the filters
 * are in registers. To the filter, lanes have bytes, and each number of the filter a vector of
 * sums, over the whole batch. */
#include "product.h"

enum { MOST_TAPS = QN_DSP_MOST_TAPS };

/* ---- planes of an image ---- */

/* The first four words of eight rows as one. */
static inline vec merge_first(const char *from, int step) {
    vec r[ROWS];
    for (int i = 0; i < ROWS; i++)
        r[i] = load(from + i * step);
    const vec a = low(alternate(r[0], r[4], 4)), b = low(alternate(r[2], r[6], 4));
    const vec c = low(alternate(r[1], r[5], 4)), d = low(alternate(r[3], r[7], 4));
    return low(alternate(low(alternate(a, b, 4)), low(alternate(c, d, 4)), 4));
}

/* Words of 32 pixels, up to four of each. */
static inline void take_words(const char *from, int c, vec words[4]) {
    vec m[4];
    for (int g = 0; g < 4; g++)
        m[g] = merge_first(from + g * ROWS * c, c);
    const pair a = alternate(m[0], m[1], 32), b = alternate(m[2], m[3], 32);
    const pair lower = alternate(low(a), low(b), 64), upper = alternate(high(a), high(b), 64);
    words[0] = low(lower);
    words[1] = high(lower);
    words[2] = low(upper);
    words[3] = high(upper);
}

/* Of one channel: each pixel's word has its three neighbours too. */
static void make_neighbours(const char *from, int n, char *to) {
    const vec bias = Q6_V_vsplat_R(BIAS);
    for (int i = 0; i < n; i += VECTOR, to += 4 * VECTOR) {
        const vec r[4] = {load(from + i), load(from + i + 1), load(from + i + 2),
                          load(from + i + 3)};
        vec words[4];
        merge_bytes(r, words);
        for (int j = 0; j < 4; j++)
            ((vec *)to)[j] = Q6_V_vxor_VV(words[j], bias);
    }
}

/* Planes of words, `step` bytes apart. */
static void make_words(const char *from, int n, int c, char *to, int step) {
    const vec bias = Q6_V_vsplat_R(BIAS);
    const int quads = (c + 3) / 4;
    for (int i = 0; i < n; i += LANES, from += LANES * c) {
        vec words[4];
        take_words(from, c, words);
        for (int q = 0; q < quads; q++)
            *(vec *)(to + q * step + i * 4) = Q6_V_vxor_VV(words[q], bias);
    }
}

/* Bytes of 128 pixels, up to 16 channels of each. */
static inline void take_bytes(const char *from, int c, int count, char *to, int step) {
    vec words[4][4];
    for (int g = 0; g < 4; g++)
        take_words(from + g * LANES * c, c, words[g]);
    for (int q = 0; q * 4 < count; q++) {
        const pair a = separate(words[0][q], words[1][q], 1);
        const pair b = separate(words[2][q], words[3][q], 1);
        const pair even = separate(low(a), low(b), 1), odd = separate(high(a), high(b), 1);
        const vec all[4] = {low(even), low(odd), high(even), high(odd)};
        for (int j = 0; j < 4 && q * 4 + j < count; j++)
            store(to + (q * 4 + j) * step, all[j]);
    }
}

/* Planes of bytes, `step` bytes apart. */
static void make_bytes(const char *from, int n, int c, char *to, int step) {
    if (c == 1) {
        copy_beyond(to, from, n);
        return;
    }
    for (int i = 0; i < n; i += VECTOR, from += VECTOR * c) {
        for (int k = 0; k < c; k += QN_DSP_FEW)
            take_bytes(from + k, c, c - k < QN_DSP_FEW ? c - k : QN_DSP_FEW, to + k * step + i,
                       step);
    }
}

/* ---- forward, and to the data ---- */

/* Where the words of each tap lie, and the words of the filters: tiles of eight, tap by tap. */
typedef struct taps {
    int n;
    int offsets[MOST_TAPS];
    int begin[QN_DSP_MOST_OF_LEAST];
} taps;

/* Byte i of the word of a tap; what lies beyond the channels or the window is 0. */
static int filter_byte(const product *m, const signed char *w, int out, int r, int s, int channel) {
    const qn_dsp_window *d = m->d;
    if (m->p->work.kind == QN_DSP_DATA)
        return channel < d->k
                   ? w[((channel * d->r + d->r - 1 - r) * d->s + d->s - 1 - s) * d->c + out]
                   : 0;
    return channel < d->c && s < d->s ? w[((out * d->r + r) * d->s + s) * d->c + channel] : 0;
}

static int filter_word(const product *m, const signed char *w, int out, int r, int s, int quad,
                       int *sum) {
    const bool is_one = m->at.channels == 1;
    unsigned word = 0;
    for (int i = 0; i < 4; i++) {
        const int byte = filter_byte(m, w, out, r, is_one ? s + i : s, is_one ? 0 : quad * 4 + i);
        word |= (unsigned)(byte & 0xff) << (8 * i);
        *sum += byte;
    }
    return (int)word;
}

static void prepare_taps(const product *m, const char *w, int step, taps *t) {
    const qn_dsp_window *d = m->d;
    const bool is_one = m->at.channels == 1;
    const int quads = (m->at.channels + 3) / 4, per_tap = is_one ? 4 : 1;
    int *words = (int *)m->tiles, sums[QN_DSP_MOST_OF_LEAST] = {0};
    t->n = 0;
    for (int r = 0; r < d->r; r++) {
        for (int s = 0; s < d->s; s += per_tap) {
            for (int q = 0; q < quads; q++, t->n++) {
                t->offsets[t->n] = q * step + (r * m->at.wide + s) * 4;
                for (int k = 0; k < m->at.tile_rows; k++)
                    words[(k / ROWS * MOST_TAPS + t->n) * ROWS + k % ROWS] =
                        k < m->at.columns
                            ? filter_word(m, (const signed char *)w, k, r, s, q, &sums[k])
                            : 0;
            }
        }
    }
    for (int k = 0; k < m->at.tile_rows; k++)
        t->begin[k] = -128 * sums[k];
}

/* All bits of lanes that are windows' first pixels. */
static void make_mask(const product *m, int height, int width) {
    int *mask = (int *)m->gathered;
    for (int i = 0; i < m->at.image_lanes; i += LANES)
        *(vec *)(mask + i) = Q6_V_vzero();
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++)
            mask[y * m->at.wide + x] = -1;
    }
}

/* 8 channels of 64 pixels. */
static void make_plane_tile(product *m, const taps *t, const int *words, const int *begin,
                            const char *planes, int lane, char *to) {
    const vec *mask = (const vec *)(m->gathered + lane * 4);
    const int step = m->at.image_lanes * 4;
    vec s[ROWS][2];
#pragma clang loop unroll(full)
    for (int i = 0; i < ROWS; i++)
        s[i][0] = s[i][1] = Q6_V_vsplat_R(begin[i]);
    planes += lane * 4;
    for (int k = 0; k < t->n; k++) {
        const char *from = planes + t->offsets[k];
        const vec l = load(from), r = load(from + VECTOR);
        const long long *at = (const long long *)(words + k * ROWS);
#pragma clang loop unroll(full)
        for (int i = 0; i < ROWS; i += 2) {
            const long long two = at[i / 2];
            const int x = (int)two, y = (int)(two >> 32);
            s[i][0] = Q6_Vw_vrmpyacc_VwVubRb(s[i][0], l, x);
            s[i + 1][0] = Q6_Vw_vrmpyacc_VwVubRb(s[i + 1][0], l, y);
            s[i][1] = Q6_Vw_vrmpyacc_VwVubRb(s[i][1], r, x);
            s[i + 1][1] = Q6_Vw_vrmpyacc_VwVubRb(s[i + 1][1], r, y);
        }
    }
#pragma clang loop unroll(full)
    for (int i = 0; i < 2 * ROWS; i++)
        s[i / 2][i % 2] = Q6_V_vand_VV(s[i / 2][i % 2], mask[i % 2]);
    note_ends(m, s, 2);
#pragma clang loop unroll(full)
    for (int i = 0; i < 2 * ROWS; i++)
        ((vec *)(to + i / 2 * step))[i % 2] = s[i / 2][i % 2];
}

static void multiply_images(product *m, const image *x, const char *w) {
    const int step = (m->at.plane + 4 * VECTOR) / LANES * LANES * 4, lanes = m->at.image_lanes;
    taps t;
    prepare_taps(m, w, step, &t);
    make_mask(m, x->rows, x->columns);
    for (int n = 0; n < m->d->n; n++) {
        pad_image(m, x, n);
        if (m->at.channels == 1)
            make_neighbours(m->padded, m->at.plane, m->panels);
        else
            make_words(m->padded, m->at.plane, m->at.channels, m->panels, step);
        for (int k = 0; k < m->at.tile_rows; k += ROWS) {
            char *to = m->sums + (n * m->at.tile_rows + k) * lanes * 4;
            for (int lane = 0; lane < lanes; lane += 2 * LANES)
                make_plane_tile(m, &t, (const int *)m->tiles + k * MOST_TAPS, t.begin + k,
                                m->panels, lane, to + lane * 4);
        }
    }
}

/* ---- to the filter ---- */

/* An image of dy with room for the margin of x, which is 0, as is what lies behind it. */
static void scatter_errors(const product *m, const char *dy, int n) {
    const qn_dsp_window *d = m->d;
    const int pitch = m->at.wide * d->k, bytes = m->at.plane * d->k;
    const char *from = dy + n * d->p * d->q * d->y_stride;
    for (int i = 0; i < bytes + QN_DSP_MOST_OF_LEAST * VECTOR; i += VECTOR)
        *(vec *)(m->padded + i) = Q6_V_vzero();
    for (int y = 0; y < d->p; y++) {
        char *to = m->padded + y * pitch;
        for (int i = 0; d->y_stride != d->k && i < d->q; i++)
            copy(to + i * d->k, from + (y * d->q + i) * d->y_stride, d->k);
        if (d->y_stride == d->k)
            copy(to, from + y * d->q * d->k, d->q * d->k);
    }
}

/* The sum of all lanes. */
static inline int sum_lanes(vec x) {
    int words[LANES] __attribute__((aligned(VECTOR)));
    for (int i = VECTOR / 2; i >= 4; i /= 2)
        x = Q6_Vw_vadd_VwVw(x, Q6_V_vror_VR(x, i));
    *(vec *)words = x;
    return *(volatile int *)words;
}

/* Four channels of dy by four taps. */
static void make_filter_tile(const char *const dy[4], const char *const x[4], int n,
                             int sums[4][4]) {
    vec s[4][4];
#pragma clang loop unroll(full)
    for (int i = 0; i < 16; i++)
        s[i / 4][i % 4] = Q6_V_vzero();
    for (int at = 0; at < n; at += VECTOR) {
        vec d[4];
#pragma clang loop unroll(full)
        for (int i = 0; i < 4; i++)
            d[i] = *(const vec *)(dy[i] + at);
#pragma clang loop unroll(full)
        for (int j = 0; j < 4; j++) {
            const vec v = load(x[j] + at);
#pragma clang loop unroll(full)
            for (int i = 0; i < 4; i++)
                s[i][j] = Q6_Vw_vrmpyacc_VwVbVb(s[i][j], d[i], v);
        }
    }
    for (int i = 0; i < 16; i++)
        sums[i / 4][i % 4] = sum_lanes(s[i / 4][i % 4]);
}

static void put_sum(product *m, int k, int tap, int sum) {
    const vec all = Q6_V_vsplat_R(sum);
    ((int *)m->sums)[k * m->at.lanes + tap] = sum;
    m->ends.most = Q6_Vw_vmax_VwVw(m->ends.most, all);
    m->ends.least = Q6_Vw_vmin_VwVw(m->ends.least, all);
}

/* Where the numbers of a filter lie in the planes of x. The processor does not divide. */
static void find_taps(const product *m, int step, int *offsets) {
    const qn_dsp_window *d = m->d;
    for (int r = 0; r < d->r; r++) {
        for (int s = 0; s < d->s; s++) {
            for (int c = 0; c < d->c; c++)
                *offsets++ = c * step + r * m->at.wide + s;
        }
    }
}

static void multiply_filter(product *m, const image *x, const char *dy) {
    const qn_dsp_window *d = m->d;
    const int plane = m->at.plane, step = (d->n * plane + 3 * VECTOR) / VECTOR * VECTOR;
    int offsets[MOST_TAPS / 4 * QN_DSP_FEW_INPUTS];
    char *const xs = m->panels, *const errors = xs + qn_dsp_round_up(d->c, 4) * step;
    find_taps(m, step, offsets);
    for (int n = 0; n < d->n; n++) {
        pad_image(m, x, n);
        make_bytes(m->padded, plane, d->c, xs + n * plane, step);
        scatter_errors(m, dy, n);
        make_bytes(m->padded, plane, d->k, errors + n * plane, step);
    }
    for (int k = 0; k < d->k; k++)
        store(errors + k * step + d->n * plane, Q6_V_vzero());
    for (int k = 0; k < d->k; k += 4) {
        for (int tap = 0; tap < m->at.columns; tap += 4) {
            const char *from[4], *at[4];
            int sums[4][4];
            for (int i = 0; i < 4; i++) {
                at[i] = xs + offsets[tap + i < m->at.columns ? tap + i : tap];
                from[i] = errors + (k + i < d->k ? k + i : k) * step;
            }
            make_filter_tile(from, at, d->n * plane, sums);
            for (int i = 0; i < 16; i++) {
                if (k + i / 4 < d->k && tap + i % 4 < m->at.columns)
                    put_sum(m, k + i / 4, tap + i % 4, sums[i / 4][i % 4]);
            }
        }
    }
}

void multiply_planes(product *m) {
    const prepared *p = m->p;
    const char *a = place(p, p->work.in[0]), *b = place(p, p->work.in[1]);
    const image x = image_of(m, a);
    if (p->work.kind == QN_DSP_FILTER)
        multiply_filter(m, &x, b);
    else
        multiply_images(m, &x, b);
}
