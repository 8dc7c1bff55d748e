/* The reference in float. */
#define QN_TABLE qn_kernels_ref_f32
#include "kernels/ref/table.h"
