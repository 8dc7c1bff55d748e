/* What a checkpoint keeps of held-out samples: what is taken is the rule's name and marks in order,
 * and comes back as it is where it is printed and read again. */
#include "base/status.h"
#include "data/split/held_out.h"
#include "os/heap.h"

#include <stdlib.h>
#include <string.h>

static void check_marks(const qn_held_out *held) {
    if (held->n_known < 0 || held->n_known > QN_HELD_OUT_MARKS ||
        (held->is_by_place && held->n_known > 0))
        abort();
    for (int i = 0; i < held->n_known; i++)
        if (held->known[i].mark >> 48 != 0)
            abort();
    for (int i = 1; i < held->n_known; i++)
        if (held->known[i - 1].mark > held->known[i].mark)
            abort();
    if (qn_held_out_count_crossed(held, NULL) != 0)
        abort(); /* no sample was looked at */
}

/* The text of a set that has some samples, as every checkpoint keeps it, is taken again. */
static void check_printed(qn_held_out *held, size_t size) {
    static qn_held_out again;
    qn_arena arena;
    const char *text = NULL;
    qn_arena_init(&arena, qn_allocator_default());
    for (size_t i = 0; i < size % 300; i++)
        qn_held_out_look(held, (int64_t)i, i * size);
    if (qn_held_out_print(&arena, held, NULL, &text) != QN_OK || !text ||
        qn_held_out_parse(text, &again) != QN_OK ||
        again.n_known != held->n_least * !held->is_by_place)
        abort();
    qn_arena_deinit(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static qn_held_out held;
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    if (qn_held_out_parse(text, &held) == QN_OK) {
        check_marks(&held);
        check_printed(&held, size);
    }
    free(text);
    return 0;
}
