/* A device within a memory budget: values are made again as on the CPU alone, in one order, which
 * two lanes then follow. Where the device works in the host's memory, all counts against the one
 * budget; where it has memory of its own, the budget holds for each of them. */
#ifndef QN_RUN_PLACING_WITHIN_H
#define QN_RUN_PLACING_WITHIN_H

#include "plan/saved.h"
#include "run/offload.h"

/* Bytes of the device's own memory: what stays there from step to step, and all with the plans that
 * there are; 0 where it has none. */
size_t qn_within_fixed(const qn_engine *engine);
size_t qn_within_device_bytes(const qn_engine *engine);

/* Whether a plan's arenas are within so many bytes of the host and, where the device has memory of
 * its own, within total_bytes there. */
bool qn_within_fits(const qn_engine *engine, const qn_plan *plan, size_t host_bytes,
                    size_t total_bytes);

/* As qn_budget_plan_find, over the lanes of a program that is not planned; the options' arena_bytes
 * is the limit of the host's arena, total_bytes that of the device's own memory. */
qn_status qn_within_find(qn_engine *engine, const qn_program *program, size_t total_bytes,
                         const qn_budget_options *options, qn_budget_plan *found, size_t *least);

/* Takes a plan that was saved, of one lane: the engine's lanes follow its order. */
qn_status qn_within_restore(qn_engine *engine, const qn_saved_program *saved, qn_program *program);

#endif
