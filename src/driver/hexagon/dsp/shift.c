/* Sums of int32 to int8: divided by a power of two, rounded, and cut to -127..127, with the bits of
 * kernels/integer/rows.h. */
#include "product.h"
#include "works.h"

typedef struct shifting {
    int shift;
    bool is_pseudo;
    vec half, upper_bits, one;
    int to_top, lower_to_top; /* how far the bits that are cut off are from the top, and the lower
                                 half of them */
} shifting;

static shifting make_shifting(const prepared *p, int shift) {
    const int half_bits = shift >> 1, upper_bits = shift - half_bits;
    return (shifting){.shift = shift,
                      .is_pseudo = p->work.is_pseudo != 0,
                      .half = Q6_V_vsplat_R(shift > 0 ? 1 << (shift - 1) : 0),
                      .upper_bits = Q6_V_vsplat_R((int)~(uint32_t)(0xffffffffULL >> upper_bits)),
                      .one = Q6_V_vsplat_R(1),
                      .to_top = 32 - shift,
                      .lower_to_top = 32 - half_bits};
}

/* Magnitudes of 32 sums. What is cut off decides about rounding: its upper half is greater than its
 * lower one, both brought to the top of a word. Shifts are taken by 32, so that of 0 bits all stay:
 * more than there should be, and no fewer than the upper half has then. */
static inline __attribute__((always_inline)) vec shift_words(const shifting *s, vec x) {
    const vec size = Q6_Vw_vabs_Vw(x);
    if (!s->is_pseudo)
        return Q6_Vuw_vlsr_VuwR(Q6_Vw_vadd_VwVw(size, s->half), s->shift);
    const vec upper = Q6_V_vand_VV(Q6_Vw_vasl_VwR(size, s->to_top), s->upper_bits);
    const vec lower = Q6_Vw_vasl_VwR(size, s->lower_to_top);
    return Q6_Vw_condacc_QVwVw(Q6_Q_vcmp_gt_VuwVuw(upper, lower), Q6_Vuw_vlsr_VuwR(size, s->shift),
                               s->one);
}

/* 128 sums. */
static inline __attribute__((always_inline)) vec shift_bytes(const shifting *s, const vec *x) {
    const vec a = Q6_Vh_vpack_VwVw_sat(shift_words(s, x[1]), shift_words(s, x[0]));
    const vec b = Q6_Vh_vpack_VwVw_sat(shift_words(s, x[3]), shift_words(s, x[2]));
    const vec y = Q6_Vb_vpack_VhVh_sat(b, a);
    const vec top = Q6_Vb_vpacko_VhVh(Q6_Vh_vpacko_VwVw(x[3], x[2]), Q6_Vh_vpacko_VwVw(x[1], x[0]));
    return Q6_V_vmux_QVV(Q6_Q_vcmp_gt_VbVb(Q6_V_vzero(), top), Q6_Vb_vsub_VbVb(Q6_V_vzero(), y), y);
}

static void shift_dense(const shifting *s, const vec *x, char *to, int n) {
    int i = 0;
    for (; i + VECTOR <= n; i += VECTOR, x += 4)
        store(to + i, shift_bytes(s, x));
    if (i < n)
        store_some(to + i, shift_bytes(s, x), n - i);
}

/* Rows of sums are of whole vectors, those of the result as long as it has columns. */
static void shift_rows(const shifting *s, const prepared *p, char *to, int step) {
    const qn_dsp_places *at = &p->places;
    const char *sums = place(p, p->work.workspace) + at->sums;
    char *bytes = place(p, p->work.workspace) + at->bytes_out;
    for (int block = 0; block < at->rows; block += BLOCK) {
        const int left = at->rows - block, count = left < BLOCK ? left : BLOCK;
        const vec *x = (const vec *)(sums + block * at->lanes * 4);
        for (int i = 0; i < count * at->lanes; i += VECTOR, x += 4)
            *(vec *)(bytes + i) = shift_bytes(s, x);
        for (int i = 0; i < count; i++) {
            const bool has_room = step == at->columns && (left - i) * step >= at->columns + VECTOR;
            if (has_room)
                copy_beyond(to + (block + i) * step, bytes + i * at->lanes, at->columns);
            else
                copy(to + (block + i) * step, bytes + i * at->lanes, at->columns);
        }
    }
}

/* Planes of 128 pixels, one for each channel, as pixels with room for 4, 8 or 16 channels. */
static void turn_planes(const char *planes, int step, int channels, int room, char *to) {
    vec words[4][4];
    for (int g = 0; g * 4 < room; g++) {
        vec r[4];
        for (int i = 0; i < 4; i++)
            r[i] =
                g * 4 + i < channels ? *(const vec *)(planes + (g * 4 + i) * step) : Q6_V_vzero();
        merge_bytes(r, words[g]);
    }
    if (room == 4) {
        for (int i = 0; i < 4; i++)
            ((vec *)to)[i] = words[0][i];
        return;
    }
    for (int i = 0; i < 4; i++) {
        const pair a = alternate(words[0][i], words[1][i], 4);
        if (room == 8) {
            ((vec *)to)[2 * i] = low(a);
            ((vec *)to)[2 * i + 1] = high(a);
            continue;
        }
        const pair b = alternate(words[2][i], words[3][i], 4);
        const pair c = alternate(low(a), low(b), 8), d = alternate(high(a), high(b), 8);
        ((vec *)to)[4 * i] = low(c);
        ((vec *)to)[4 * i + 1] = high(c);
        ((vec *)to)[4 * i + 2] = low(d);
        ((vec *)to)[4 * i + 3] = high(d);
    }
}

/* Pixels without the room between their channels, of which the first 16 lie at `from`, further ones
 * at `more`. has_room: what lies behind it may be written over. */
static void put_pixels(char *to, int step, const char *from, const char *more, int room,
                       int channels, int n, bool has_room) {
    const int further = channels - QN_DSP_FEW;
    if (has_room && further <= 0) {
        for (int i = 0; i < n; i++, to += step, from += room)
            store(to, load(from));
        return;
    }
    for (int i = 0; i < n; i++, to += step, from += room, more += room) {
        store_some(to, load(from), further > 0 ? QN_DSP_FEW : channels);
        if (further > 0 && has_room)
            store(to + QN_DSP_FEW, load(more));
        else if (further > 0)
            store_some(to + QN_DSP_FEW, load(more), further);
    }
}

/* The planes of an image, as pixels with room between them, at `to` and, of channels behind the
 * 16th, at `more`. */
static void make_pixels(const shifting *s, const char *sums, int lanes, int n, char *bytes,
                        char *to, char *more, int room) {
    for (int k = 0; k < n; k++) {
        const vec *x = (const vec *)(sums + k * lanes * 4);
        for (int i = 0; i < lanes; i += VECTOR, x += 4)
            *(vec *)(bytes + k * lanes + i) = shift_bytes(s, x);
    }
    for (int i = 0; i < lanes; i += VECTOR)
        turn_planes(bytes + i, lanes, n < QN_DSP_FEW ? n : QN_DSP_FEW, room, to + i * room);
    for (int i = 0; n > QN_DSP_FEW && i < lanes; i += VECTOR)
        turn_planes(bytes + QN_DSP_FEW * lanes + i, lanes, n - QN_DSP_FEW, room, more + i * room);
}

/* Sums of planes (n, channels, lanes), of whose lanes only those in windows count. */
static void shift_planes(const shifting *s, const prepared *p, char *to, int step) {
    const qn_dsp_places *at = &p->places;
    const bool is_data = p->work.kind == QN_DSP_DATA;
    const int height = is_data ? p->work.window.h : p->work.window.p;
    const int width = is_data ? p->work.window.w : p->work.window.q;
    const int lanes = at->image_lanes, n = at->columns;
    const int room = n <= 4 ? 4 : n <= 8 ? 8 : 16;
    char *bytes = place(p, p->work.workspace) + at->bytes_out, *pixels = bytes + n * lanes;
    char *more = pixels + QN_DSP_FEW * lanes;
    const char *sums = place(p, p->work.workspace) + at->sums;
    for (int image = 0; image < p->work.window.n; image++) {
        make_pixels(s, sums + image * at->tile_rows * lanes * 4, lanes, n, bytes, pixels, more,
                    room);
        for (int y = 0; y < height; y++) {
            const int left = (p->work.window.n - image) * height - y;
            if (room == n && step == n)
                copy(to, pixels + y * at->wide * room, width * n);
            else
                put_pixels(to, step, pixels + y * at->wide * room, more + y * at->wide * room, room,
                           n, width, step == n && (left - 1) * width * n >= VECTOR);
            to += width * step;
        }
    }
}

void shift_sums(const prepared *p, int shift) {
    const shifting s = make_shifting(p, shift);
    const qn_dsp_places *at = &p->places;
    const int step = p->work.kind == QN_DSP_FORWARD ? p->work.window.y_stride : at->columns;
    char *to = place(p, p->work.out[0]);
    if (at->is_planar && p->work.kind != QN_DSP_FILTER)
        shift_planes(&s, p, to, step);
    else if (at->lanes == at->columns && step == at->columns)
        shift_dense(&s, (const vec *)(place(p, p->work.workspace) + at->sums), to,
                    at->rows * at->columns);
    else
        shift_rows(&s, p, to, step);
}
