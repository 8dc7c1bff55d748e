/* What other folders may ask of an engine beyond the public interface: its programs with their
 * graphs and plans, its machine, and what was held before planning. Its contents are its own. */
#ifndef QN_RUN_INSPECT_H
#define QN_RUN_INSPECT_H

#include "run/program.h"
#include "run/watch.h"

/* A program by its number, or the update program, whose graph is null where there is none. */
const qn_program *qn_engine_get_program(const qn_engine *engine, int program);

/* What its plans are made for. */
const qn_machine *qn_engine_get_machine(const qn_engine *engine);

/* Says that so much of the budget was held at some time before the plans: reading data. */
void qn_engine_note_peak(qn_engine *engine, size_t bytes);

/* As qn_engine_create of options of this version, which the engine copies once; fields that are 0
 * become the defaults in its copy. */
qn_status qn_engine_make(const qn_engine_options *options, const qn_program_options *programs,
                         int n_programs, qn_engine **engine);

/* Refuses options.memory_budget_bytes, which what is to be made is above without its plans. Unless
 * options.no_least: plan makes it with plan_only, and so without that memory, where it fails with
 * the refusal that names the least budget. Null: nothing can be planned. */
qn_status qn_budget_refuse(const qn_engine_options *options, qn_status (*plan)(void *context),
                           void *context);

/* From the next run on no more than n threads work; what has more lanes than that runs one by one.
 * The same bits. */
void qn_engine_limit_threads(qn_engine *engine, int n);

/* Whether such a device (of the options) is one of which the engine finds out what it does best:
 * then its name says more afterwards. */
bool qn_device_is_chosen(const char *device);

#endif
