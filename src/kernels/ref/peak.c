/* The loops that measure what the instructions of every processor of the family can do. */
#define PEAK         qn_peak_ref
#define VECTOR_BYTES 16
#define SUMS         12

#include "kernels/peak_loop.h"
