/* See update_code.h. */
#include "federate/update_code.h"

#include <math.h>

enum { EXPONENT_BYTES = 1, MOST = 127, LEAST_EXPONENT = -126 };

/* The least e at which the largest number is at most 127 * 2^e. */
static int find_exponent(const float *change, int64_t n) {
    float most = 0;
    int exponent;
    for (int64_t i = 0; i < n; i++)
        most = fmaxf(most, fabsf(change[i]));
    if (!(most > 0))
        return LEAST_EXPONENT;
    const double part = frexp((double)most / MOST, &exponent);
    exponent -= part == 0.5;
    return exponent < LEAST_EXPONENT ? LEAST_EXPONENT : exponent;
}

static int64_t send_int8(float *change, int64_t n) {
    const int exponent = find_exponent(change, n);
    for (int64_t i = 0; i < n; i++)
        change[i] = (float)ldexp(rint(ldexp((double)change[i], -exponent)), exponent);
    return n + EXPONENT_BYTES;
}

int64_t qn_update_send(qn_update_code code, float *change, int64_t n) {
    return code == QN_UPDATE_INT8 ? send_int8(change, n) : n * (int64_t)sizeof *change;
}
