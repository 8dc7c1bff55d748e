/* Sums of many independent discrete variables. */
#ifndef QN_FEDERATE_TRANSFORM_H
#define QN_FEDERATE_TRANSFORM_H

#include <stdint.h>

/* n complex numbers, n a power of two, to those of the n_terms-fold circular convolution with
 * itself: discrete Fourier transform (Cooley and Tukey 1965), power, and back. turns (2 n): filled.
 */
void qn_convolve_power(double *z /* (n, 2) */, double *turns, int64_t n, int64_t n_terms);

#endif
