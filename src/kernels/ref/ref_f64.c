/* The reference in double: the truth that gradients and whole training runs are checked with. */
#define QN_REAL_F64
#define QN_TABLE qn_kernels_ref_f64
#include "kernels/ref/table.h"
