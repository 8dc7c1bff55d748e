/* The micro-kernel for AVX2. */
#include "kernels/avx2/config.h"

#include "kernels/vector/tile.h"
