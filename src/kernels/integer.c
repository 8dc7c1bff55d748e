/* See integer.h. */
#include "kernels/integer.h"

#include "kernels/integer_tables.h"

const qn_integer_kernels *qn_integer_kernels_get(qn_isa isa) {
    (void)isa;
    return &qn_integer_ref;
}

const qn_integer_kernels *qn_integer_kernels_row(int i) {
    return i == 0 ? &qn_integer_ref : NULL;
}
