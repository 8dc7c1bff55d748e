/* See core_facts.h. */
#include "cli/train/core_facts.h"

#include "base/status.h"
#include "cli/json.h"
#include "meter/roofline.h"
#include "os/heap.h"

#include <math.h>

static const double per_ns = 1e-9;

/* Bytes of a level that one core holds; a level without interference measured is as it is alone. */
static qn_core_cache cache_of(const qn_roofline_level *level) {
    const double beside = level->beside_bandwidth > 0 ? level->beside_bandwidth : level->bandwidth;
    return (qn_core_cache){.bytes = (double)level->bytes,
                           .bytes_per_ns = level->bandwidth * per_ns,
                           .beside_bytes_per_ns = fmin(beside, level->bandwidth) * per_ns};
}

static void take(const qn_roofline *r, qn_cores *cores) {
    const qn_roofline_level *memory = &r->levels[r->n_levels - 1];
    cores->kinds[0].flops_per_ns = qn_roofline_flops(r, "f32", 1) * per_ns;
    cores->kinds[0].bytes_per_ns = memory->bandwidth * per_ns;
    cores->bytes_per_ns = memory->all_bandwidth * per_ns;
    cores->n_caches = r->n_levels;
    for (int i = 0; i < r->n_levels; i++)
        cores->caches[i] = cache_of(&r->levels[i]);
}

qn_status core_facts_load(qn_cores *cores) {
    qn_roofline r;
    *cores = qn_cores_typical(1);
    QN_TRY(qn_roofline_load(qn_allocator_default(), &r));
    if (r.n_peaks > 0 && r.n_levels > 0 && r.n_levels <= QN_MAX_CORE_CACHES &&
        qn_roofline_flops(&r, "f32", 1) > 0)
        take(&r, cores);
    return QN_OK;
}

void core_facts_print(const qn_cores_use *use) {
    json_count("cores", use->n_cores);
    json_flag("side_by_side", use->is_beside);
    json_flag("over_budget", use->is_over_budget);
    json_number("one_by_one_ms", use->one_by_one_ns * 1e-6);
    json_number("predicted_ms", use->predicted_ns * 1e-6);
    json_number("rehearsed_one_by_one_ms", use->rehearsed_usual_ns * 1e-6);
    json_number("rehearsed_ms", use->rehearsed_ns * 1e-6);
    json_number("bound_ms", use->bound_ns * 1e-6);
    json_count("profiled_steps", use->n_profiled);
    json_number("measuring_ms", (double)use->measuring_ns * 1e-6);
    json_number("planning_ms", (double)use->planning_ns * 1e-6);
    json_count("arena_bytes", (int64_t)use->arena_bytes);
    json_count("usual_arena_bytes", (int64_t)use->usual_arena_bytes);
}
