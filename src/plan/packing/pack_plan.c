/* Packs the storages of a plan into an arena for each space (packing.h): greedily and, if that
 * exceeds the bytes alive at once, by a search with a work limit of about ten milliseconds. */
#include "base/status.h"
#include "plan/packing/packing.h"
#include "plan/plan.h"

/* A placement's time grows with the number of boxes. */
enum { WORK_BY_BOXES = 1 << 21 };

/* The storages that need a place in a space's arena, as boxes. */
static int32_t collect(const qn_plan *plan, int space, qn_box *boxes) {
    int32_t n = 0;
    for (int32_t i = 0; i < plan->n_storages; i++) {
        const qn_storage *s = &plan->storages[i];
        if (!s->is_bound && s->space == space)
            boxes[n++] = (qn_box){.lower = s->first, .upper = s->last + 1, .bytes = s->bytes};
    }
    return n;
}

static void place(qn_plan *plan, int space, const qn_box *boxes, const qn_packing *packing) {
    int32_t n = 0;
    for (int32_t i = 0; i < plan->n_storages; i++) {
        if (!plan->storages[i].is_bound && plan->storages[i].space == space)
            plan->storages[i].offset = boxes[n++].offset;
    }
    if (space > 0) {
        plan->lanes->further[space - 1].bytes = packing->top_bytes;
        plan->lanes->further[space - 1].lower_bound_bytes = packing->lower_bound_bytes;
        return;
    }
    plan->arena_bytes = packing->top_bytes;
    plan->lower_bound_bytes = packing->lower_bound_bytes;
}

static qn_status pack_space(qn_plan *plan, int space, qn_box *boxes) {
    const qn_packing_options options = {.most_work = WORK_BY_BOXES / (1 + plan->n_storages)};
    qn_packing packing;
    QN_TRY(qn_pack(plan->allocator, boxes, collect(plan, space, boxes), &options, &packing));
    place(plan, space, boxes, &packing);
    return QN_OK;
}

qn_status qn_plan_pack(qn_plan *plan) {
    const qn_allocator *a = plan->allocator;
    qn_box *boxes = NULL;
    qn_status status = qn_allocate(a, (size_t)plan->n_storages, sizeof *boxes, &boxes);
    const int n_further = plan->lanes ? plan->lanes->n_further : 0;
    for (int space = 0; status == QN_OK && space <= n_further; space++)
        status = pack_space(plan, space, boxes);
    qn_release(a, boxes, (size_t)plan->n_storages, sizeof *boxes);
    return status;
}
