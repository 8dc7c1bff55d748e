/* The micro-kernel for NEON. */
#include "kernels/neon/config.h"

#include "kernels/vector/tile.h"
