/* One-to-one matching of found classes and true ones. */
#ifndef QN_LABEL_MATCHING_H
#define QN_LABEL_MATCHING_H

#include <stdint.h>

enum { QN_MATCHING_MOST = 320 };

/* count (n_rows, n_columns): samples of row and column. of (n_rows) receives the column of each, or
 * -1, no column twice, so that their counts add up to most. Both at most QN_MATCHING_MOST. */
void qn_match(int n_rows, int n_columns, const int32_t *count, int32_t *of);

#endif
