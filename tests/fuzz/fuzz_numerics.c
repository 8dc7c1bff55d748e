/* Numerics files: what is read is within bounds and agrees with itself; one line reads alike. */
#include "numerics/numerics.h"
#include "os/heap.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_role(const qn_role_type *type) {
    const bool is_whole = type->dtype == QN_I8 || type->dtype == QN_I16;
    if (type->dtype == QN_F32 ? type->scaling != QN_SCALED_NONE : type->bits < 1 || type->bits > 16)
        abort();
    if (is_whole == (type->scaling == QN_SCALED_NONE) && is_whole)
        abort();
}

/* Products of whole numbers: mantissas of int8 over a scale of the tensor. */
static void check_integer(const qn_numerics *n) {
    for (int i = QN_ROLE_WEIGHT; i <= QN_ROLE_ERROR; i++) {
        const qn_role_type *type = &n->roles[i];
        if (type->dtype != QN_I8 ||
            (type->scaling != QN_SCALED_EXPONENT && type->scaling != QN_SCALED_SYMMETRIC &&
             type->scaling != QN_SCALED_AFFINE))
            abort();
        if ((n->stores_weights || n->adapts_shifts) && type->scaling != QN_SCALED_EXPONENT)
            abort();
    }
}

static void check(const qn_numerics *n) {
    const qn_role_type *roles = n->roles;
    for (int i = 0; i < QN_ROLE_COUNT; i++)
        check_role(&roles[i]);
    check_role(&n->norm);
    check_role(&n->backward[0]);
    check_role(&n->backward[1]);
    if (n->is_integer)
        check_integer(n);
    else if (n->stores_weights || n->adapts_shifts)
        abort();
    if (n->trained_weights < 0 || n->trained_biases < 0 || n->chunked.chunk < 0)
        abort();
    if (strlen(n->name) >= sizeof n->name || !n->name[0] || n->n_drops > QN_MOST_DROPS)
        abort();
    if (n->stores_weights && roles[QN_ROLE_GRADIENT].bits <= n->n_drops)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qn_numerics read, again;
    qn_arena arena;
    const char *line;
    if (qn_numerics_read((const char *)data, size, &read) != QN_OK)
        return 0;
    check(&read);
    qn_arena_init(&arena, qn_allocator_default());
    if (qn_numerics_print((const char *)data, size, &arena, &line) == QN_OK &&
        (qn_numerics_read(line, strlen(line), &again) != QN_OK ||
         memcmp(&read, &again, sizeof read) != 0))
        abort();
    qn_arena_deinit(&arena);
    return 0;
}
