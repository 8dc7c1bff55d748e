/* The micro-kernels for AVX-512. */
#include "kernels/avx512/config.h"

#include "kernels/vector/depthwise_rows.h"
#include "kernels/vector/phased_tiles.h"
#include "kernels/vector/quad_tile.h"
#include "kernels/vector/stream_tile.h"
#include "kernels/vector/tile.h"
#include "kernels/vector/winograd_tiles.h"
