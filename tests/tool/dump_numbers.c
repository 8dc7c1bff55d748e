/* Numbers of the narrow types for a comparison: dump_numbers TYPE reads doubles from the standard
 * input and writes the patterns (16 bits each) that they become, then the doubles that all 65,536
 * (or 256) patterns are. */
#include "tensor/number.h"

#include <stdio.h>

int main(int argc, char **argv) {
    const qn_dtype dtype = argc == 2 ? qn_dtype_find(argv[1]) : QN_NONE;
    const unsigned n = 1u << 8 * qn_dtype_bytes(dtype);
    double number;
    if (!qn_dtype_is_float(dtype) || qn_dtype_is_real(dtype))
        return 2;
    while (fread(&number, sizeof number, 1, stdin) == 1) {
        uint16_t bits = 0;
        qn_number_set(dtype, &bits, 0, number);
        fwrite(&bits, sizeof bits, 1, stdout);
    }
    for (unsigned i = 0; i < n; i++) {
        const uint16_t bits = (uint16_t)i;
        number = qn_number_get(dtype, &bits, 0);
        fwrite(&number, sizeof number, 1, stdout);
    }
    return ferror(stdout) != 0;
}
