/* See integer.h: ranks along axes, and products of matrices. */
#include "tensor/integer.h"
#include "tensor/number.h"

#include <stdlib.h>
#include <string.h>

/* ---- ranks ---- */

/* Keys order as numbers do. IEEE 754 doubles order as integers of sign and magnitude (5.10); -0 is
 * 0, and NaN the largest. */
static uint64_t key_of_real(double number) {
    uint64_t bits;
    number = number == 0 ? 0 : number;
    memcpy(&bits, &number, sizeof bits);
    if (number != number)
        return UINT64_MAX;
    return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

static uint64_t key_of(const qn_integer_ranking *ranking, qn_dtype dtype, const void *x,
                       int64_t i) {
    const uint64_t key = qn_dtype_is_real(dtype) ? key_of_real(qn_number_get(dtype, x, i))
                         : ranking->is_unsigned
                             ? (uint64_t)qn_integer_at(dtype, x, i)
                             : (uint64_t)qn_integer_at(dtype, x, i) ^ UINT64_C(1) << 63;
    return ranking->is_largest ? ~key : key;
}

static int compare(const void *left, const void *right) {
    const qn_ranked *a = left, *b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->place < b->place ? -1 : 1;
}

void qn_integer_rank(const qn_integer_ranking *ranking, qn_dtype dtype, const void *x,
                     int64_t outer, int64_t n, int64_t inner, qn_ranked *column, int64_t *y) {
    for (int64_t i = 0; i < outer * inner; i++) {
        const int64_t begin = i / inner * n * inner + i % inner;
        const int64_t to = i / inner * ranking->k * inner + i % inner;
        for (int64_t j = 0; j < n; j++)
            column[j] = (qn_ranked){key_of(ranking, dtype, x, begin + j * inner), j};
        qsort(column, (size_t)n, sizeof *column, compare);
        for (int64_t j = 0; j < ranking->k; j++)
            y[to + j * inner] = column[j].place;
    }
}

/* ---- products ---- */

/* One row of the result; sums wrap at 64 bits, then to the type. */
static void multiply_row(const qn_integer_matrices *m, const void *a, int64_t a_begin,
                         const void *b, int64_t b_begin, int64_t *y) {
    memset(y, 0, (size_t)m->columns * sizeof *y);
    for (int64_t k = 0; k < m->n; k++) {
        const uint64_t factor = (uint64_t)qn_integer_at(m->a, a, a_begin + k);
        for (int64_t j = 0; j < m->columns; j++)
            y[j] = (int64_t)((uint64_t)y[j] + factor * (uint64_t)qn_integer_at(
                                                           m->b, b, b_begin + k * m->columns + j));
    }
    for (int64_t j = 0; j < m->columns; j++)
        y[j] = qn_integer_wrap(m->type, y[j]);
}

void qn_integer_multiply(const qn_integer_matrices *m, const void *a, const void *b, int64_t *y) {
    for (int64_t row = 0; row < m->n_matrices * m->rows; row++)
        multiply_row(m, a, row * m->n, b, row / m->rows * m->n * m->columns, &y[row * m->columns]);
}
