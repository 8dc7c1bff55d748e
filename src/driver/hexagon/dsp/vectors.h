/* Vectors of 128 bytes, and how bytes are moved by them. */
#ifndef QN_DRIVER_HEXAGON_DSP_VECTORS_H
#define QN_DRIVER_HEXAGON_DSP_VECTORS_H

#include <hexagon_types.h>

#include <hexagon_protos.h>
#include <hvx_hexagon_protos.h>

#include <stdbool.h>
#include <stdint.h>

enum { VECTOR = 128, LANES = 32 };

typedef HVX_Vector vec;
typedef HVX_UVector any_vec; /* that lies anywhere */
typedef HVX_VectorPair pair;

static inline vec load(const void *from) {
    return *(const any_vec *)from;
}

static inline void store(void *to, vec x) {
    *(any_vec *)to = x;
}

/* The first n bytes of x, 0 < n <= 128, and then those of y. */
static inline vec first(int n, vec x, vec y) {
    return Q6_V_vmux_QVV(Q6_Q_vsetq2_R(n), x, y);
}

/* What lies behind the n bytes of `to` may be written over. */
static inline void copy_beyond(char *to, const char *from, int n) {
    for (int i = 0; i < n; i += VECTOR)
        store(to + i, load(from + i));
}

static inline void store_some(char *to, vec x, int n) {
    store(to, first(n, x, load(to)));
}

static inline void copy(char *to, const char *from, int n) {
    int i = 0;
    for (; i + VECTOR <= n; i += VECTOR)
        store(to + i, load(from + i));
    if (i < n)
        store_some(to + i, load(from + i), n - i);
}

/* Elements of `step` bytes of two vectors in turn, x's first. */
static inline pair alternate(vec x, vec y, int step) {
    return Q6_W_vshuff_VVR(y, x, -step);
}

/* The inverse: the elements at even places, and those at odd ones. */
static inline pair separate(vec x, vec y, int step) {
    return Q6_W_vdeal_VVR(y, x, -step);
}

static inline vec low(pair x) {
    return Q6_V_lo_W(x);
}

static inline vec high(pair x) {
    return Q6_V_hi_W(x);
}

#endif
