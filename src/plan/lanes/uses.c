/* See uses.h. */
#include "plan/lanes/uses.h"

#include "base/status.h"

#include <string.h>

qn_status qn_uses_init(qn_uses *uses, const qn_plan *plan, int32_t n_values) {
    *uses = (qn_uses){0};
    if (!plan->lanes)
        return QN_OK;
    const size_t n = (size_t)n_values * (size_t)plan->lanes->n_lanes;
    QN_TRY(qn_clocks_of(&uses->clocks, plan));
    uses->n_values = n_values;
    const qn_status status = qn_allocate(plan->allocator, n, sizeof *uses->last, &uses->last);
    if (status != QN_OK) {
        qn_uses_deinit(uses);
        return status;
    }
    memset(uses->last, -1, n * sizeof *uses->last);
    return QN_OK;
}

void qn_uses_deinit(qn_uses *uses) {
    if (uses->n_values == 0)
        return;
    const qn_clocks *c = &uses->clocks;
    if (uses->last)
        qn_release(c->allocator, uses->last, (size_t)uses->n_values * (size_t)c->n_lanes,
                   sizeof *uses->last);
    qn_clocks_deinit(&uses->clocks);
    *uses = (qn_uses){0};
}

static int32_t *last_of(const qn_uses *uses, int32_t value) {
    return uses->last + (size_t)value * (size_t)uses->clocks.n_lanes;
}

void qn_uses_note(qn_uses *uses, int32_t value, int32_t step) {
    if (uses->n_values > 0)
        last_of(uses, value)[uses->clocks.lane[step]] = step;
}

bool qn_uses_end_before(const qn_uses *uses, int32_t value, int32_t step) {
    if (uses->n_values == 0)
        return true;
    for (int lane = 0; lane < uses->clocks.n_lanes; lane++) {
        const int32_t last = last_of(uses, value)[lane];
        if (last >= 0 && last != step && !qn_clocks_is_before(&uses->clocks, last, step))
            return false;
    }
    return true;
}

/* ---- how long memory is taken ---- */

/* The fewest steps of a lane that a step or any behind it in the order has seen done:
 * fewest (n_steps, n_lanes), so in rising order for each lane. */
static void find_fewest(const qn_clocks *c, int32_t *fewest) {
    const size_t n_lanes = (size_t)c->n_lanes;
    for (int32_t s = c->n_steps - 1; s >= 0; s--) {
        int32_t *row = fewest + (size_t)s * n_lanes;
        for (size_t lane = 0; lane < n_lanes; lane++) {
            const int32_t own = qn_clocks_at(c, s)[lane];
            row[lane] = s + 1 < c->n_steps && row[n_lanes + lane] < own ? row[n_lanes + lane] : own;
        }
    }
}

/* The last step that has not seen this one done: all behind it have. Itself, in one lane. */
static int32_t find_end(const qn_clocks *c, const int32_t *fewest, int32_t step) {
    const size_t n_lanes = (size_t)c->n_lanes, lane = (size_t)c->lane[step];
    int32_t low = step, high = c->n_steps - 1;
    while (low < high) {
        const int32_t middle = low + (high - low + 1) / 2;
        if (fewest[(size_t)middle * n_lanes + lane] <= c->position[step])
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static void lengthen(qn_plan *plan, const qn_clocks *c, const int32_t *fewest, int32_t storage,
                     int32_t step) {
    qn_storage *s = &plan->storages[storage];
    if (step < 0 || s->is_bound)
        return;
    const int32_t end = find_end(c, fewest, step);
    s->last = end > s->last ? end : s->last;
}

qn_status qn_uses_lengthen(const qn_uses *uses, qn_plan *plan, const int32_t *storage_of) {
    const qn_clocks *c = &uses->clocks;
    const size_t n_steps = (size_t)plan->n_steps;
    int32_t *fewest;
    if (uses->n_values == 0)
        return QN_OK;
    QN_TRY(qn_allocate(plan->allocator, n_steps * (size_t)c->n_lanes, sizeof *fewest, &fewest));
    find_fewest(c, fewest);
    for (int32_t v = 0; v < uses->n_values; v++) {
        for (int lane = 0; storage_of[v] >= 0 && lane < c->n_lanes; lane++)
            lengthen(plan, c, fewest, storage_of[v], last_of(uses, v)[lane]);
    }
    for (int32_t s = 0; s < plan->n_steps; s++) {
        if (plan->steps[s].workspace >= 0)
            lengthen(plan, c, fewest, plan->steps[s].workspace, s);
    }
    qn_release(plan->allocator, fewest, n_steps * (size_t)c->n_lanes, sizeof *fewest);
    return QN_OK;
}
