/* The tables of kernels of whole numbers, that integer.c chooses from, and what they share. */
#ifndef QN_KERNELS_INTEGER_TABLES_H
#define QN_KERNELS_INTEGER_TABLES_H

#include "kernels/integer.h"

extern const qn_integer_kernels qn_integer_ref, qn_integer_avx2, qn_integer_avxvnni,
    qn_integer_avx512, qn_integer_avx512vnni, qn_integer_neon, qn_integer_dotprod;

/* Raises y->largest, where it is wanted, to a task's largest. */
void qn_integer_largest(const qn_integer_result *y, uint32_t largest);

#endif
