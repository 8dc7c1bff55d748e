/* The kernels of language models in double. */
#define QN_REAL_F64
#define TABLE qn_language_ref_f64
#include "kernels/language/table.h"
