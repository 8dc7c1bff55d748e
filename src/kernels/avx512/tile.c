/* The micro-kernel for AVX-512. */
#include "kernels/avx512/config.h"

#include "kernels/vector/tile.h"
