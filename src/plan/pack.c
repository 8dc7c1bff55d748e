/* Packing the storages of a plan into one arena (packing.h): greedily, and where that is above the
 * bytes alive at once by search, with work for some ten milliseconds. */
#include "plan/packing.h"
#include "plan/plan.h"

/* A placement's time grows with the number of boxes. */
enum { WORK_BY_BOXES = 1 << 21 };

/* The storages that need a place in the arena, as boxes. */
static int32_t collect(const qn_plan *plan, qn_box *boxes) {
    int32_t n = 0;
    for (int32_t i = 0; i < plan->n_storages; i++) {
        const qn_storage *s = &plan->storages[i];
        if (!s->is_bound)
            boxes[n++] = (qn_box){.lower = s->first, .upper = s->last + 1, .bytes = s->bytes};
    }
    return n;
}

static void place(qn_plan *plan, const qn_box *boxes, const qn_packing *packing) {
    int32_t n = 0;
    for (int32_t i = 0; i < plan->n_storages; i++) {
        if (!plan->storages[i].is_bound)
            plan->storages[i].offset = boxes[n++].offset;
    }
    plan->arena_bytes = packing->top_bytes;
    plan->lower_bound_bytes = packing->lower_bound_bytes;
}

qn_status qn_plan_pack(qn_plan *plan) {
    const qn_allocator *a = plan->allocator;
    const qn_packing_options options = {.most_work = WORK_BY_BOXES / (1 + plan->n_storages)};
    qn_packing packing;
    qn_box *boxes = NULL;
    qn_status status = qn_allocate(a, (size_t)plan->n_storages, sizeof *boxes, &boxes);
    if (status == QN_OK)
        status = qn_pack(a, boxes, collect(plan, boxes), &options, &packing);
    if (status == QN_OK)
        place(plan, boxes, &packing);
    qn_release(a, boxes, (size_t)plan->n_storages, sizeof *boxes);
    return status;
}
