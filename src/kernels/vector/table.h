/* The float table of an instruction set: its own products over the reference's entries, which are
 * compiled for the set, but for the formulas. Defines TABLE of config.h. */
#include "kernels/vector/conv.h"
#include "kernels/vector/gemm.h"
#include "kernels/vector/lstm.h"

#define PRODUCT             vector_gemm
#define PRODUCT_BOUND       vector_gemm_bound
#define TABLE_FORMULA(name) name##_f32
#include "kernels/ref/entries.h"

const qn_kernels TABLE = {
    REFERENCE_ENTRIES,
    .name = TABLE_NAME,
    .real = QN_F32,
    .isa = SET,
    .conv2d_forward = vector_conv2d_forward,
    .conv2d_backward_data = vector_conv2d_backward_data,
    .conv2d_backward_filter = vector_conv2d_backward_filter,
    .conv2d_workspace = vector_conv2d_workspace,
    .conv2d_filter_chunk = vector_conv2d_filter_chunk,
    .gemm = vector_gemm,
    .gemm_workspace = vector_gemm_workspace,
    .gemm_chunk = DEPTH_STEP,
};
