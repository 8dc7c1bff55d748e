/* Sums of weights e^score, made a part at a time: what attention and cross entropy share. */
#ifndef QN_KERNELS_LANGUAGE_RUNNING_H
#define QN_KERNELS_LANGUAGE_RUNNING_H

#include "base/memory.h"
#include "kernels/language/tasks.h"
#include "kernels/ref/lanes.h"

static const qn_activation no_activation = {QN_ACTIVATION_NONE, 0};

/* Takes n units of a thread's memory, at the next aligned place. */
static void *take_bytes(char **at, int64_t n, size_t unit) {
    char *taken = *at;
    *at += ((size_t)n * unit + QN_ALIGNMENT - 1) / QN_ALIGNMENT * QN_ALIGNMENT;
    return taken;
}

static real *take_reals(char **at, int64_t n) {
    return take_bytes(at, n, sizeof(real));
}

/* Scores [begin, end) of a row of n become weights, the others 0; what was gathered before, d sums,
 * is scaled down where a larger score comes. *total 0: nothing was. */
static void weigh_running(int64_t begin, int64_t end, int64_t n, int64_t d, real *scores,
                          real *largest, double *total, real *sums) {
    memset(scores, 0, (size_t)begin * sizeof(real));
    memset(scores + end, 0, (size_t)(n - end) * sizeof(real));
    if (begin == end)
        return;
    const real most = largest_of_row(end - begin, scores + begin);
    if (*total == 0) {
        *largest = most;
    } else if (most > *largest) {
        const real factor = REAL_EXP(*largest - most);
        for (int64_t j = 0; j < d; j++)
            sums[j] *= factor;
        *total *= (double)factor;
        *largest = most;
    }
    const real shift = *largest;
    for (int64_t j = begin; j < end; j++)
        scores[j] = REAL_EXP(scores[j] - shift);
    *total += sum_of_row(end - begin, scores + begin);
}

#endif
