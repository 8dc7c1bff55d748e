/* The loops that measure what AVX-512 can do. */
#define PEAK         qn_peak_avx512
#define VECTOR_BYTES 64
#define SUMS         24

#include "kernels/peak_loop.h"
