/* Sizes of the float kernels on AVX-512. */
#define VL           16 /* floats in a vector */
#define TILE_ROWS    12
#define TILE_VECTORS 2
#define TILES        qn_tiles_avx512
#define FAR_TILES    qn_far_tiles_avx512
#define NEXT_TILES   qn_next_tiles_avx512
#define QUAD_TILE    qn_quad_tile_avx512
#define STREAM_TILE  qn_stream_tile_avx512
#define TABLE        qn_kernels_avx512_f32
#define TABLE_NAME   "avx512"
#define DEPTHWISE    qn_depthwise_avx512
#define WINOGRAD     qn_winograd_avx512
#define PHASED       qn_phased_avx512
#define SET          QN_ISA_AVX512
