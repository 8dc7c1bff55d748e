/* The kernels for AVX2. */
#include "kernels/avx2/config.h"

#include "kernels/vector/table.h"
