/* The kernels of language models for AVX-512. */
#define TABLE qn_language_avx512
#include "kernels/language/table.h"
