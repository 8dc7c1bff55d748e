/* The swap file of an engine: one for all programs, as they run in turn. Its speed is known before
 * they are planned, its size when they have been. */
#include "base/status.h"
#include "plan/swap_speed.h"
#include "run/engine.h"

#include <string.h>

qn_status qn_engine_name_swap(qn_engine *e, const char *folder) {
    if (!folder)
        return QN_OK;
    if (e->options.memory_budget_bytes == 0 && !e->options.saved_plan)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "nothing is swapped to %s without a budget of memory; give one (--memory)",
                       folder);
    e->swap_folder_bytes = strlen(folder) + 1;
    QN_TRY(qn_allocate(&e->allocator, 1, e->swap_folder_bytes, &e->swap_folder));
    memcpy(e->swap_folder, folder, e->swap_folder_bytes);
    e->options.swap_folder = e->swap_folder;
    return QN_OK;
}

qn_status qn_engine_measure_swap(qn_engine *e) {
    return e->swap_folder ? qn_swap_speed_get(&e->allocator, e->swap_folder, &e->swap_speed)
                          : QN_OK;
}

/* What the largest plan needs of the file; false: none swaps. */
static bool find_needs(const qn_engine *e, size_t *bytes, int *n_requests) {
    *bytes = 0;
    *n_requests = 0;
    for (int i = 0; i < e->n_programs; i++) {
        const qn_plan *plan = e->programs[i].plan;
        if (plan && plan->swap_bytes > *bytes)
            *bytes = plan->swap_bytes;
        if (plan && plan->n_requests > *n_requests)
            *n_requests = plan->n_requests;
    }
    return *n_requests > 0;
}

size_t qn_engine_swap_memory(const qn_engine *e) {
    size_t bytes;
    int n_requests;
    return find_needs(e, &bytes, &n_requests)
               ? qn_swap_memory(e->swap_folder ? e->swap_folder : "", n_requests)
               : 0;
}

qn_status qn_engine_open_swap(qn_engine *e) {
    size_t bytes;
    int n_requests;
    if (!find_needs(e, &bytes, &n_requests))
        return QN_OK;
    if (e->options.plan_only) {
        e->planned_bytes += qn_swap_memory(e->swap_folder ? e->swap_folder : "", n_requests);
        return QN_OK;
    }
    if (!e->swap_folder)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "the plan swaps %zu bytes to a file; name a folder for it (--swap)", bytes);
    QN_TRY(qn_swap_open(&e->allocator, e->swap_folder, (int64_t)bytes, n_requests, &e->swap));
    for (int i = 0; i < e->n_programs; i++)
        qn_executor_set_swap(e->programs[i].executor, e->swap);
    return QN_OK;
}
