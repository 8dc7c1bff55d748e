/* See swap.h. */
#include "run/planning/swap.h"

#include "base/status.h"
#include "device/disk.h"
#include "plan/swap/swap_speed.h"
#include "run/policy.h"

#include <string.h>

/* The engine keeps a text of its own for that of the options. */
static qn_status name_folder(qn_engine *e, const char *folder) {
    qn_swap *swap;
    if (e->options.memory_budget_bytes == 0 && !e->options.saved_plan)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "swapping to %s needs a memory budget; set one (--memory)", folder);
    QN_TRY(qn_allocate(&e->allocator, 1, sizeof *swap, &swap));
    e->policies[QN_POLICY_SWAP] = swap;
    swap->folder_bytes = strlen(folder) + 1;
    QN_TRY(qn_allocate(&e->allocator, 1, swap->folder_bytes, &swap->folder));
    memcpy(swap->folder, folder, swap->folder_bytes);
    e->options.swap_folder = swap->folder;
    return QN_OK;
}

/* Plans that are read from a file may swap without a folder, to be looked at. */
static qn_status create(qn_engine *e) {
    int row;
    if (e->options.swap_folder)
        QN_TRY(name_folder(e, e->options.swap_folder));
    return qn_machine_add(&e->machine, &qn_device_disk, NULL, &row);
}

/* Plans that are given need no speed. */
static qn_status measure(qn_engine *e) {
    qn_swap *swap = qn_swap_of(e);
    return swap && !e->options.saved_plan
               ? qn_swap_speed_get(&e->allocator, swap->folder, &swap->speed)
               : QN_OK;
}

static size_t offer(const qn_engine *e, qn_budget_options *options) {
    enum { USUAL_QUEUES = 2, USUAL_WORKS = 64 };
    const qn_swap *swap = qn_swap_of(e);
    if (!swap)
        return 0;
    options->swap = &swap->speed;
    options->swap_bytes = e->options.swap_bytes;
    return qn_disk_memory(swap->folder, USUAL_QUEUES, USUAL_WORKS);
}

/* The disk among the machine's devices. */
static qn_machine_device *find_disk(qn_engine *e) {
    return &e->machine.devices[e->machine.spaces[qn_machine_disk(&e->machine)].device];
}

/* What the plans need of a disk: n_queues 0: none swaps. */
typedef struct need {
    size_t bytes; /* of the largest */
    int n_queues;
    int32_t n_works;
} need;

static need find_needs(const qn_engine *e) {
    const int space = qn_machine_disk(&e->machine);
    need n = {0};
    for (int i = 0; i < e->n_programs; i++) {
        const qn_plan *plan = e->programs[i].plan;
        const size_t bytes = plan ? qn_plan_arena(plan, space).bytes : 0;
        if (bytes == 0)
            continue;
        n.bytes = bytes > n.bytes ? bytes : n.bytes;
        n.n_queues += plan->lanes->n_lanes - 1;
        for (int32_t s = 0; s < plan->n_steps; s++)
            n.n_works += plan->steps[s].lane > 0;
    }
    return n;
}

static size_t memory_of(const qn_engine *e, need n) {
    const qn_swap *swap = qn_swap_of(e);
    return n.n_queues > 0 ? qn_disk_memory(swap ? swap->folder : "", n.n_queues, n.n_works) : 0;
}

static size_t open_bytes(const qn_engine *e) {
    return memory_of(e, find_needs(e));
}

static qn_status open_disk(qn_engine *e) {
    const qn_swap *swap = qn_swap_of(e);
    const need n = find_needs(e);
    if (n.n_queues == 0)
        return QN_OK;
    if (e->options.plan_only) {
        e->memory.planned_bytes += memory_of(e, n);
        return QN_OK;
    }
    if (!swap)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "the plan swaps %zu bytes to a file; set a folder for it (--swap)", n.bytes);
    const qn_disk_options options = {swap->folder, n.bytes, n.n_queues};
    QN_TRY(qn_device_disk.open(&e->allocator, &options, &find_disk(e)->state));
    for (int i = 0; i < e->n_programs; i++)
        QN_TRY(qn_executor_open_lanes(e->programs[i].executor, 0, NULL));
    return QN_OK;
}

static void destroy(qn_engine *e) {
    qn_swap *swap = qn_swap_of(e);
    if (qn_machine_disk(&e->machine) >= 0)
        qn_device_disk.close(find_disk(e)->state);
    if (!swap)
        return;
    qn_release(&e->allocator, swap->folder, 1, swap->folder_bytes);
    qn_release(&e->allocator, swap, 1, sizeof *swap);
}

const qn_policy qn_policy_swap = {
    .name = "swap",
    .create = create,
    .prepare = measure,
    .offer = offer,
    .open_bytes = open_bytes,
    .open = open_disk,
    .destroy = destroy,
};
