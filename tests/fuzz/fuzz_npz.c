/* .npz files: what is accepted lies inside of the file or the arena, under names that are found,
 * and all of its elements can be read. */
#include "data/npz.h"

#include "input.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_array(const qn_npz *npz, const qn_npz_array *array) {
    float real;
    int32_t whole;
    int64_t bad, n = array->header.data_bytes / array->header.element_bytes;
    if (qn_npz_find(npz, array->name) != array || n < 1)
        abort();
    if (qn_npz_check_numbers(array) != QN_OK) {
        volatile unsigned char last = array->data[array->header.data_bytes - 1];
        (void)last;
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        qn_npz_read_reals(array, i, 1, &real);
        if (qn_npz_is_whole(array) && !qn_npz_read_indices(array, i, 1, &whole, &bad) && bad != i)
            abort();
    }
}

/* The same from a file. */
static void try_file(const uint8_t *data, size_t size) {
    char path[128];
    qn_npz npz, parsed = {.n = 0};
    snprintf(path, sizeof path, "%s/arrays", input_folder());
    input_write("arrays", data, size);
    qn_arena_init(&parsed.arena, qn_allocator_default());
    const qn_status status = qn_npz_parse(data, size, &parsed);
    if (qn_npz_open(qn_allocator_default(), path, &npz) != status)
        abort();
    if (status == QN_OK) {
        if (npz.n != parsed.n || qn_npz_check(&npz) != QN_OK)
            abort();
        qn_npz_close(&npz);
    }
    qn_arena_deinit(&parsed.arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    failing memory = input_failing(data, size);
    const qn_allocator allocator = input_allocator(&memory);
    qn_npz npz = {.n = 0};
    qn_arena_init(&npz.arena, &allocator);
    if (qn_npz_parse(data, size, &npz) == QN_OK) {
        for (int i = 0; i < npz.n; i++)
            read_array(&npz, &npz.arrays[i]);
    }
    qn_arena_deinit(&npz.arena);
    input_check_memory(&memory);
    try_file(data, size);
    return 0;
}
