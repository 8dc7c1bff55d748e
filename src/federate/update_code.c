/* See update_code.h. */
#include "federate/update_code.h"

#include <math.h>

enum {
    EXPONENT_BYTES = 1,
    PARAMETER_BYTES = 1,
    COUNT_BYTES = 4,
    MOST = 127,
    LEAST_EXPONENT = -126
};

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

int qn_update_encode(const float *numbers, int64_t n, int8_t *bytes) {
    const int exponent = find_exponent(numbers, n);
    for (int64_t i = 0; i < n; i++) {
        const double q = rint(ldexp((double)numbers[i], -exponent));
        bytes[i] = (int8_t)(fabs(q) <= MOST ? q : 0); /* not a number, or infinite: nothing */
    }
    return exponent;
}

void qn_update_decode(const int8_t *bytes, int64_t n, int exponent, float *numbers) {
    for (int64_t i = 0; i < n; i++)
        numbers[i] = (float)ldexp((double)bytes[i], exponent);
}

int64_t qn_update_send(qn_update_code code, float *change, int64_t n) {
    return code == QN_UPDATE_INT8 ? send_int8(change, n) : n * (int64_t)sizeof *change;
}

/* The number that would stand at place k if the n were sorted from the largest (Hoare, "Algorithm
 * 65: find", 1961); changes their order. */
static float select_largest(float *x, int64_t n, int64_t k) {
    int64_t first = 0, last = n - 1;
    while (first < last) {
        const float pivot = x[first + (last - first) / 2];
        int64_t i = first, j = last;
        while (i <= j) {
            while (x[i] > pivot)
                i++;
            while (x[j] < pivot)
                j--;
            if (i <= j) {
                const float held = x[i];
                x[i++] = x[j];
                x[j--] = held;
            }
        }
        if (k <= j)
            last = j;
        else if (k >= i)
            first = i;
        else
            break;
    }
    return x[k];
}

/* Bits of the gaps before the numbers that are not 0, in Rice's code with the parameter b (Rice and
 * Plaunt, 1971): gap >> b in ones, a zero, then b bits. */
static int64_t count_gap_bits(const float *change, int64_t n, int b) {
    int64_t gap = 0, bits = 0;
    for (int64_t i = 0; i < n; i++) {
        if (change[i] == 0) {
            gap++;
            continue;
        }
        bits += (gap >> b) + 1 + b;
        gap = 0;
    }
    return bits;
}

/* The fewest bits of any parameter up to 30; around the mean gap. */
static int64_t count_best_bits(const float *change, int64_t n, int64_t n_kept) {
    int around = 0;
    int64_t best = INT64_MAX;
    while (around < 29 && (n / n_kept) >> (around + 1))
        around++;
    for (int b = around > 0 ? around - 1 : 0; b <= around + 1; b++) {
        const int64_t bits = count_gap_bits(change, n, b);
        best = bits < best ? bits : best;
    }
    return best;
}

/* Sets all but the n_kept largest to 0. */
static void keep_largest(float *change, int64_t n, int64_t n_kept, float *room) {
    int64_t n_equal = n_kept; /* that may stay */
    for (int64_t i = 0; i < n; i++)
        room[i] = fabsf(change[i]);
    const float least = select_largest(room, n, n_kept - 1);
    for (int64_t i = 0; i < n; i++)
        n_equal -= fabsf(change[i]) > least;
    for (int64_t i = 0; i < n; i++) {
        const float size = fabsf(change[i]);
        if (size < least || (size == least && n_equal-- <= 0))
            change[i] = 0;
    }
}

int64_t qn_update_send_top(float *change, int64_t n, int64_t n_kept, float *room) {
    int64_t n_sent = 0;
    keep_largest(change, n, n_kept, room);
    (void)send_int8(change, n);
    for (int64_t i = 0; i < n; i++)
        n_sent += change[i] != 0; /* what is rounded to 0 is not sent */
    return COUNT_BYTES + PARAMETER_BYTES + EXPONENT_BYTES + n_sent +
           (count_best_bits(change, n, n_kept) + 7) / 8;
}
