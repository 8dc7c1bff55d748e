/* No planning: nodes in the graph's order, every update behind all of its phase's gradients. */
#include "policies.h"

#include "base/status.h"

#include <stdlib.h>

static int by_number(const void *left, const void *right) {
    const qn_item *a = left, *b = right;
    return (a->id > b->id) - (a->id < b->id);
}

static qn_status make(const qn_policy_problem *problem, qn_sequence *sequence,
                      size_t *own_top_bytes) {
    (void)own_top_bytes;
    const size_t first = sequence->n;
    for (size_t i = 0; i < problem->base->n; i++)
        QN_TRY(qn_sequence_add(sequence, QN_ACTION_RUN, problem->base->items[i].id));
    qsort(sequence->items + first, sequence->n - first, sizeof *sequence->items, by_number);
    return QN_OK;
}

const qn_policy qn_policy_none = {.name = "none", .source = "allocate and free", .make = make};
