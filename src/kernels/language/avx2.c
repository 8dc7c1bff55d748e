/* The kernels of language models for AVX2. */
#define TABLE qn_language_avx2
#include "kernels/language/table.h"
