/* See integer.h. */
#include "kernels/integer.h"

#include "kernels/integer_tables.h"

/* From worst to best within an instruction set. */
static const struct {
    const qn_integer_kernels *table;
    qn_isa isa;
    qn_cpu_feature feature; /* that the processor must have beside the set */
} rows[] = {
    {&qn_integer_ref, QN_ISA_REF, QN_CPU_ANY},
#ifdef QN_WITH_INTEGER_NEON
    {&qn_integer_neon, QN_ISA_NEON, QN_CPU_ANY},
    {&qn_integer_dotprod, QN_ISA_NEON, QN_CPU_DOTPROD},
#endif
#ifdef QN_WITH_INTEGER_AVX2
    {&qn_integer_avx2, QN_ISA_AVX2, QN_CPU_ANY},
    {&qn_integer_avxvnni, QN_ISA_AVX2, QN_CPU_AVX_VNNI},
#endif
#ifdef QN_WITH_INTEGER_AVX512
    {&qn_integer_avx512, QN_ISA_AVX512, QN_CPU_ANY},
    {&qn_integer_avx512vnni, QN_ISA_AVX512, QN_CPU_AVX512_VNNI},
#endif
};

enum { N_ROWS = sizeof rows / sizeof *rows };

const qn_integer_kernels *qn_integer_kernels_get(qn_isa isa) {
    const qn_integer_kernels *best = &qn_integer_ref;
    for (int i = 0; i < N_ROWS; i++) {
        if (rows[i].isa == isa && qn_cpu_has(isa, rows[i].feature))
            best = rows[i].table;
    }
    return best;
}

const qn_integer_kernels *qn_integer_kernels_row(int i) {
    for (int row = 0; row < N_ROWS; row++) {
        if (qn_cpu_has(rows[row].isa, rows[row].feature) && i-- == 0)
            return rows[row].table;
    }
    return NULL;
}
