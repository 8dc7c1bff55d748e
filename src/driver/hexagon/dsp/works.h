/* The works that the DSP does: each file of this folder has some of them. */
#ifndef QN_DRIVER_HEXAGON_DSP_WORKS_H
#define QN_DRIVER_HEXAGON_DSP_WORKS_H

#include "protocol.h"

/* A work with what was made of it when it was prepared. */
typedef struct prepared {
    qn_dsp_work work;
    qn_dsp_places places;
    char *base; /* of the shared memory */
} prepared;

static inline char *place(const prepared *p, uint32_t offset) {
    return p->base + offset;
}

/* Products: stores all sums in the workspace, and returns the largest magnitude. */
uint32_t make_sums(const prepared *p);

/* What they are, shifted to the right. */
void shift_sums(const prepared *p, int shift);

void relu(const prepared *p);
void relu_backward(const prepared *p);
void max_pool(const prepared *p);
void max_pool_backward(const prepared *p);

#endif
