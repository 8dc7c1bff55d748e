/* The kernels of language models in float, for any processor. */
#define TABLE qn_language_ref_f32
#include "kernels/language/table.h"
