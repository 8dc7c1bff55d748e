/* The loops that measure what NEON can do. */
#define PEAK         qn_peak_neon
#define VECTOR_BYTES 16
#define SUMS         24

#include "kernels/peak_loop.h"
