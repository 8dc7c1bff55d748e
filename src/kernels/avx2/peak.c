/* The loops that measure what AVX2 can do. */
#define PEAK         qn_peak_avx2
#define VECTOR_BYTES 32
#define SUMS         12

#include "kernels/peak_loop.h"
