/* The kernels for AVX-512. */
#include "kernels/avx512/config.h"

#include "kernels/vector/table.h"
