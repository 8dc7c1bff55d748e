/* The kernels for NEON. */
#include "kernels/neon/config.h"

#include "kernels/vector/table.h"
