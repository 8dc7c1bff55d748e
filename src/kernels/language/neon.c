/* The kernels of language models for NEON. */
#define TABLE qn_language_neon
#include "kernels/language/table.h"
