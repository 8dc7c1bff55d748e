/* See transform.h. */
#include "federate/privacy/transform.h"

#include <math.h>

static void fill_turns(double *turns, int64_t n) {
    for (int64_t i = 0; i < n / 2; i++) {
        const double angle = -6.28318530717958647693 * (double)i / (double)n;
        turns[2 * i] = cos(angle);
        turns[2 * i + 1] = sin(angle);
    }
}

static void swap(double *a, double *b) {
    const double held = *a;
    *a = *b;
    *b = held;
}

static void reverse_bits(double *z, int64_t n) {
    for (int64_t i = 1, j = 0; i < n; i++) {
        int64_t bit = n >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j ^= bit;
        if (i < j) {
            swap(&z[2 * i], &z[2 * j]);
            swap(&z[2 * i + 1], &z[2 * j + 1]);
        }
    }
}

static void join(double *a, double *b, const double *turn) {
    const double re = b[0] * turn[0] - b[1] * turn[1], im = b[0] * turn[1] + b[1] * turn[0];
    b[0] = a[0] - re;
    b[1] = a[1] - im;
    a[0] += re;
    a[1] += im;
}

static void transform(double *z, const double *turns, int64_t n) {
    reverse_bits(z, n);
    for (int64_t half = 1; half < n; half *= 2) {
        for (int64_t i = 0; i < n; i += 2 * half) {
            for (int64_t k = 0; k < half; k++)
                join(z + 2 * (i + k), z + 2 * (i + k + half), turns + 2 * (k * (n / 2 / half)));
        }
    }
}

static void raise(double *z, int64_t power) {
    double re = 1, im = 0, a = z[0], b = z[1];
    for (; power; power >>= 1) {
        if (power & 1) {
            const double held = re;
            re = re * a - im * b;
            im = held * b + im * a;
        }
        const double held = a;
        a = a * a - b * b;
        b = 2 * held * b;
    }
    z[0] = re;
    z[1] = im;
}

void qn_convolve_power(double *z, double *turns, int64_t n, int64_t n_terms) {
    fill_turns(turns, n);
    transform(z, turns, n);
    for (int64_t i = 0; i < n; i++) {
        raise(z + 2 * i, n_terms);
        z[2 * i + 1] = -z[2 * i + 1]; /* the transform of the conjugate leads back */
    }
    transform(z, turns, n);
    for (int64_t i = 0; i < 2 * n; i++)
        z[i] /= (double)n;
}
