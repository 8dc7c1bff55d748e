/* Sizes of the float kernels on NEON. */
#define VL           4 /* floats in a vector */
#define TILE_ROWS    8
#define TILE_VECTORS 3
#define TILES        qn_tiles_neon
#define FAR_TILES    qn_far_tiles_neon
#define NEXT_TILES   qn_next_tiles_neon
#define QUAD_TILE    qn_quad_tile_neon
#define STREAM_TILE  qn_stream_tile_neon
#define TABLE        qn_kernels_neon_f32
#define TABLE_NAME   "neon"
#define DEPTHWISE    qn_depthwise_neon
#define WINOGRAD     qn_winograd_neon
#define PHASED       qn_phased_neon
#define SET          QN_ISA_NEON
