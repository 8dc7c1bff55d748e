/* Products with a weight held as blocks (tensor/blocks.h), anywhere in memory: a task widens
 * some of its rows or columns into its own scratch and multiplies there by the table's product, so
 * that no copy of the weight exists. An element's bits are those of the weight widened as a whole
 * and multiplied by the same table, whatever the tasks: their borders are those of the product's
 * own chain. Leaves out the weight's gradient: it is not trained. */
#ifndef QN_KERNELS_BLOCKS_H
#define QN_KERNELS_BLOCKS_H

#include "kernels/kernels.h"
#include "tensor/blocks.h"

/* A matrix (rows, columns), whose rows are whole blocks, one behind the other. */
typedef struct qn_block_matrix {
    qn_blocks blocks;
    int64_t rows, columns;
    const void *data;
} qn_block_matrix;

/* Numbers [first, first + n) of a row, both whole numbers of blocks, as the table's real type. */
void qn_block_row_widen(const qn_kernels *kernels, const qn_block_matrix *w, int64_t row,
                        int64_t first, int64_t n, void *to);

/* y (N, rows) = x (N, columns) w^T + bias (rows; null: none). */
void qn_block_product(const qn_kernels *kernels, qn_team *team, int64_t n, const void *x,
                      const qn_block_matrix *w, const void *bias, void *y, void *workspace);

/* dx (N, columns) = dy (N, rows) w. */
void qn_block_product_data(const qn_kernels *kernels, qn_team *team, int64_t n, const void *dy,
                           const qn_block_matrix *w, void *dx, void *workspace);

/* Of both; w without data. */
size_t qn_block_product_workspace(const qn_kernels *kernels, int64_t n, const qn_block_matrix *w,
                                  int n_threads);
size_t qn_block_product_data_workspace(const qn_kernels *kernels, int64_t n,
                                       const qn_block_matrix *w, int n_threads);

/* y (N, columns): rows of w by indices (N), which are clamped to its rows; of INT32_MIN, which is
 * none, a row of NaN. */
void qn_block_embedding(const qn_kernels *kernels, qn_team *team, int64_t n,
                        const qn_block_matrix *w, const int32_t *indices, void *y);

#endif
