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
        if ((n->stores_weights || n->shifts != QN_SHIFTS_EXACT) &&
            type->scaling != QN_SCALED_EXPONENT)
            abort();
    }
}

/* Where some layers are trained, there are such; what is said of parts is what the option may say.
 */
static void check_trained(const qn_numerics *n) {
    qn_sparse read;
    const bool has_parts = n->trained_parts[0];
    if (n->trained_weights < 0 || n->trained_biases < -1 ||
        strlen(n->trained_parts) >= sizeof n->trained_parts)
        abort();
    if (n->trains_some != (n->trained_weights > 0 || n->trained_biases > 0 || has_parts))
        abort();
    if (has_parts && (qn_sparse_read(n->trained_parts, &read) != QN_OK || read.weights != 0))
        abort();
}

/* The option that says the same, and more. */
static void check_option(const uint8_t *data, size_t size) {
    char text[256] = "";
    qn_sparse read = {0};
    memcpy(text, data, size < sizeof text - 1 ? size : sizeof text - 1);
    if (qn_sparse_read(text, &read) == QN_OK &&
        (!read.is_used || read.weights < 0 || read.biases < -1 || read.by >= QN_PART_CHOICES))
        abort();
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
    else if (n->stores_weights || n->shifts != QN_SHIFTS_EXACT)
        abort();
    if (n->chunked.chunk < 0)
        abort();
    check_trained(n);
    if (strlen(n->name) >= sizeof n->name || !n->name[0] || n->n_drops > QN_MOST_DROPS)
        abort();
    if (n->stores_weights && roles[QN_ROLE_GRADIENT].bits <= n->n_drops)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qn_numerics read, again;
    qn_arena arena;
    const char *line;
    check_option(data, size);
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
