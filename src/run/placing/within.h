/* A device within a memory budget: values are made again as on the CPU alone, in one order, which
 * two lanes then follow. Where the device works in the host's memory, all counts against the one
 * budget; where it has memory of its own, the budget holds for each of them. */
#ifndef QN_RUN_PLACING_WITHIN_H
#define QN_RUN_PLACING_WITHIN_H

#include "run/offload.h"

/* Bytes of the device's own memory: what stays there from step to step, and all with the plans that
 * there are; 0 where it has none. */
size_t qn_within_fixed(const qn_engine *engine);
size_t qn_within_device_bytes(const qn_engine *engine);

/* Whether a plan's arenas are within so many bytes of the host and of the device. */
bool qn_within_fits(const qn_engine *engine, const qn_plan *plan, size_t host_bytes, size_t bytes);

/* What copying to the host's memory and back takes, about, where what a device's own memory has no
 * room for is kept. */
extern const qn_swap_speed qn_within_copies;

/* As qn_budget_plan_find, over the lanes of a program that is not planned; the options' arena_bytes
 * is the limit of the arena of the memory that the device works in. */
qn_status qn_within_find(qn_engine *engine, const qn_program *program,
                         const qn_budget_options *options, size_t host_bytes, qn_budget_plan *found,
                         size_t *least);

/* Gives a plan of one lane over a program that is not planned the engine's lanes, in its order. */
qn_status qn_within_spread(qn_engine *engine, const qn_program *program, qn_budget_plan *made);

#endif
