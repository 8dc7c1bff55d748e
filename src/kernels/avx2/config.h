/* Sizes of the float kernels on AVX2. */
#define VL           8 /* floats in a vector */
#define TILE_ROWS    6
#define TILE_VECTORS 2
#define TILES        qn_tiles_avx2
#define FAR_TILES    qn_far_tiles_avx2
#define NEXT_TILES   qn_next_tiles_avx2
#define QUAD_TILE    qn_quad_tile_avx2
#define STREAM_TILE  qn_stream_tile_avx2
#define TABLE        qn_kernels_avx2_f32
#define TABLE_NAME   "avx2"
#define DEPTHWISE    qn_depthwise_avx2
#define WINOGRAD     qn_winograd_avx2
#define PHASED       qn_phased_avx2
#define SET          QN_ISA_AVX2
