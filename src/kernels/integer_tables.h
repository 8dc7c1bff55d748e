/* The tables of kernels of whole numbers, that integer.c chooses from, and what they share. */
#ifndef QN_KERNELS_INTEGER_TABLES_H
#define QN_KERNELS_INTEGER_TABLES_H

#include "kernels/integer.h"

extern const qn_integer_kernels qn_integer_ref;

/* Raises y->largest, where it is wanted, to a task's largest. */
void qn_integer_largest(const qn_integer_result *y, uint32_t largest);

#endif
