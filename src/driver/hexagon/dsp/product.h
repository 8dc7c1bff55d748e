/* A product while it is made, and what its two forms share: lanes that are columns (product.c) and
 * lanes that are pixels (planes.c). */
#ifndef QN_DRIVER_HEXAGON_DSP_PRODUCT_H
#define QN_DRIVER_HEXAGON_DSP_PRODUCT_H

#include "vectors.h"
#include "works.h"

enum {
    ROWS = QN_DSP_ROWS,
    BLOCK = QN_DSP_BLOCK,
    WORD = 4,
    BIAS = (int)0x80808080,
    ONES = 0x01010101
};

/* The largest and the least of all sums, lane by lane. */
typedef struct extremes {
    vec most, least;
} extremes;

/* A product while it is made: where its parts lie, and what comes of it. */
typedef struct product {
    const prepared *p;
    const qn_dsp_window *d;
    qn_dsp_places at;
    char *sums, *panels, *padded, *gathered, *tiles;
    bool relu;
    extremes ends;
} product;

/* What windows are taken from, x or dy, and where the first one lies in an image. */
typedef struct image {
    const char *from;
    int h, w, c, step; /* of a pixel: numbers, and from one to the next */
    int taken;         /* columns of it that lie in windows */
    int rows, columns; /* of windows */
    int stride_h, stride_w, pad_top, pad_left;
    bool is_plain;                    /* without margins: windows are taken from where it is */
    int pitch, column_step, row_step; /* from a row to the next, and from a window to the next */
} image;

image image_of(const product *m, const char *from);

/* An image with its margins, in m->padded. */
void pad_image(const product *m, const image *x, int number);

/* The sums of a planar work, and their ends. */
void multiply_planes(product *m);

/* Sums that stay in registers until they are stored, their ends too: rows of two or one. */
static inline __attribute__((always_inline)) void note_ends(product *m, vec s[ROWS][2], int n) {
    vec most = m->ends.most, least = m->ends.least;
    if (m->relu) {
#pragma clang loop unroll(full)
        for (int i = 0; i < ROWS * n; i++)
            s[i / n][i % n] = Q6_Vw_vmax_VwVw(s[i / n][i % n], Q6_V_vzero());
    }
#pragma clang loop unroll(full)
    for (int i = 0; i < ROWS * n; i++) {
        most = Q6_Vw_vmax_VwVw(most, s[i / n][i % n]);
        least = Q6_Vw_vmin_VwVw(least, s[i / n][i % n]);
    }
    m->ends = (extremes){most, least};
}

/* Eight rows as one: words of four products, those of the first row, of the second, and so on. */
static inline void merge_rows(const vec r[ROWS], vec to[ROWS]) {
    const pair a0 = alternate(r[0], r[4], WORD), a1 = alternate(r[2], r[6], WORD);
    const pair b0 = alternate(r[1], r[5], WORD), b1 = alternate(r[3], r[7], WORD);
    const pair c0 = alternate(low(a0), low(a1), WORD), c1 = alternate(high(a0), high(a1), WORD);
    const pair d0 = alternate(low(b0), low(b1), WORD), d1 = alternate(high(b0), high(b1), WORD);
    const pair e0 = alternate(low(c0), low(d0), WORD), e1 = alternate(high(c0), high(d0), WORD);
    const pair f0 = alternate(low(c1), low(d1), WORD), f1 = alternate(high(c1), high(d1), WORD);
    to[0] = low(e0);
    to[1] = high(e0);
    to[2] = low(e1);
    to[3] = high(e1);
    to[4] = low(f0);
    to[5] = high(f0);
    to[6] = low(f1);
    to[7] = high(f1);
}

/* Bytes of four rows in turn: 32 columns to a vector. */
static inline void merge_bytes(const vec r[4], vec to[4]) {
    const pair a = alternate(r[0], r[2], 1), b = alternate(r[1], r[3], 1);
    const pair c = alternate(low(a), low(b), 1), d = alternate(high(a), high(b), 1);
    to[0] = low(c);
    to[1] = high(c);
    to[2] = low(d);
    to[3] = high(d);
}

#endif
