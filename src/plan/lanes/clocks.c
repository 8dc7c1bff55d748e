/* See clocks.h. */
#include "plan/lanes/clocks.h"

#include "base/status.h"

#include <string.h>

qn_status qn_clocks_init(qn_clocks *c, const qn_plan *plan) {
    const size_t n_steps = (size_t)plan->n_steps + 1, n_lanes = (size_t)plan->lanes->n_lanes;
    *c = (qn_clocks){
        .allocator = plan->allocator, .n_lanes = plan->lanes->n_lanes, .n_steps = plan->n_steps};
    qn_status status = qn_allocate(c->allocator, n_steps, sizeof *c->position, &c->position);
    if (status == QN_OK)
        status = qn_allocate(c->allocator, n_steps, n_lanes * sizeof *c->seen, &c->seen);
    if (status == QN_OK)
        status = qn_allocate(c->allocator, n_lanes, sizeof *c->next, &c->next);
    if (status == QN_OK)
        status = qn_allocate(c->allocator, n_lanes, sizeof *c->latest, &c->latest);
    if (status == QN_OK)
        status = qn_allocate(c->allocator, n_steps, sizeof *c->lane, &c->lane);
    if (status != QN_OK)
        qn_clocks_deinit(c);
    for (int i = 0; i < c->n_lanes; i++)
        c->latest[i] = -1;
    return status;
}

void qn_clocks_deinit(qn_clocks *c) {
    const size_t n_steps = (size_t)c->n_steps + 1, n_lanes = (size_t)c->n_lanes;
    qn_release(c->allocator, c->position, n_steps, sizeof *c->position);
    qn_release(c->allocator, c->seen, n_steps, n_lanes * sizeof *c->seen);
    qn_release(c->allocator, c->next, n_lanes, sizeof *c->next);
    qn_release(c->allocator, c->latest, n_lanes, sizeof *c->latest);
    qn_release(c->allocator, c->lane, n_steps, sizeof *c->lane);
    *c = (qn_clocks){.n_lanes = 0};
}

void qn_clocks_begin(qn_clocks *c, int32_t step, int lane) {
    int32_t *seen = c->seen + (size_t)step * (size_t)c->n_lanes;
    if (c->latest[lane] >= 0)
        memcpy(seen, qn_clocks_at(c, c->latest[lane]), (size_t)c->n_lanes * sizeof *seen);
    c->lane[step] = (int16_t)lane;
    c->position[step] = c->next[lane]++;
    c->latest[lane] = step;
    seen[lane] = c->position[step];
}

void qn_clocks_wait(qn_clocks *c, int32_t step, int32_t before) {
    int32_t *seen = c->seen + (size_t)step * (size_t)c->n_lanes;
    const int32_t *of = qn_clocks_at(c, before);
    const int lane = c->lane[before];
    for (int i = 0; i < c->n_lanes; i++) {
        const int32_t n = i == lane ? c->position[before] + 1 : of[i];
        seen[i] = n > seen[i] ? n : seen[i];
    }
}

qn_status qn_clocks_of(qn_clocks *c, const qn_plan *plan) {
    QN_TRY(qn_clocks_init(c, plan));
    for (int32_t s = 0; s < plan->n_steps; s++) {
        int32_t n;
        const int32_t *waits = qn_plan_waits(plan, s, &n);
        qn_clocks_begin(c, s, plan->steps[s].lane);
        for (int32_t i = 0; i < n; i++)
            qn_clocks_wait(c, s, waits[i]);
    }
    for (int i = 0; i < c->n_lanes; i++)
        c->seen[(size_t)c->n_steps * (size_t)c->n_lanes + (size_t)i] = c->next[i];
    return QN_OK;
}
