/* The reference's table for one real type; a file defines QN_TABLE and includes this. */
#include "kernels/ref/conv.h"
#include "kernels/ref/formula.h"
#include "kernels/ref/gemm.h"
#include "kernels/ref/lstm_tile.h"
#include "kernels/ref/seldom.h"

#define PRODUCT       gemm
#define PRODUCT_BOUND gemm_workspace
#define TABLE_FORMULA FORMULA_NAME
#include "kernels/ref/entries.h"

const qn_kernels QN_TABLE = {
    REFERENCE_ENTRIES,
    .name = "ref",
    .real = QN_REAL_DTYPE,
    .conv2d_forward = conv2d_forward,
    .conv2d_backward_data = conv2d_backward_data,
    .conv2d_backward_filter = conv2d_backward_filter,
    .conv2d_workspace = conv2d_workspace,
    .conv2d_filter_chunk = conv2d_filter_chunk,
    .gemm = gemm,
    .gemm_workspace = gemm_workspace,
    .gemm_chunk = DEPTH_BLOCK,
};
