/* See number.h: numbers of many that are NaN, infinite or large, compiled for vectors. */
#include "tensor/number.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 512 }; /* known to the compiler, which then makes vectors of the loops */

/* Whether a magnitude is above the largest one: the difference has the first bit set. */
static bool has_above_f32(const char *data, uint32_t largest) {
    uint32_t differences = 0;
    for (int i = 0; i < BLOCK; i++) {
        uint32_t bits;
        memcpy(&bits, data + (size_t)i * sizeof bits, sizeof bits);
        differences |= largest - (bits & INT32_MAX);
    }
    return differences >> 31;
}

static bool has_above_f64(const char *data, uint64_t largest) {
    uint64_t differences = 0;
    for (int i = 0; i < BLOCK; i++) {
        uint64_t bits;
        memcpy(&bits, data + (size_t)i * sizeof bits, sizeof bits);
        differences |= largest - (bits & INT64_MAX);
    }
    return differences >> 63;
}

static bool has_bad(qn_dtype dtype, const char *data, bool allows_infinite) {
    if (dtype == QN_F32)
        return has_above_f32(data, allows_infinite ? 0x7F800000 : 0x7F7FFFFF);
    if (dtype == QN_F64)
        return has_above_f64(data, allows_infinite ? 0x7FF0000000000000 : 0x7FEFFFFFFFFFFFFF);
    return true; /* looked at one by one */
}

int64_t qn_numbers_find_bad(qn_dtype dtype, const void *data, int64_t n, bool allows_infinite) {
    const size_t size = qn_dtype_bytes(dtype);
    int64_t i = 0;
    while (i + BLOCK <= n &&
           !has_bad(dtype, (const char *)data + (size_t)i * size, allows_infinite))
        i += BLOCK;
    for (; i < n; i++) {
        const double number = qn_number_get(dtype, data, i);
        if (isnan(number) || (!allows_infinite && !isfinite(number)))
            break;
    }
    return i;
}

/* As bits. */
#define MODERATE_F32 UINT32_C(0x5D800000)
#define MODERATE_F64 UINT64_C(0x43B0000000000000)

static bool has_large(qn_dtype dtype, const char *data) {
    return dtype == QN_F32   ? has_above_f32(data, MODERATE_F32)
           : dtype == QN_F64 ? has_above_f64(data, MODERATE_F64)
                             : true; /* looked at one by one */
}

bool qn_numbers_are_moderate(qn_dtype dtype, const void *data, int64_t n) {
    const size_t size = qn_dtype_bytes(dtype);
    for (int64_t i = 0; i < n; i += BLOCK) {
        const char *block = (const char *)data + (size_t)i * size;
        const int64_t end = n - i < BLOCK ? n - i : BLOCK;
        bool are = end == BLOCK && !has_large(dtype, block);
        for (int64_t k = 0; !are && k < end; k++) {
            if (!(fabs(qn_number_get(dtype, block, k)) <= QN_MODERATE))
                return false;
        }
    }
    return true;
}
