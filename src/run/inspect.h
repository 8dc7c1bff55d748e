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

/* From the next run on no more than n threads work; what has more lanes than that runs one by one.
 * The same bits. */
void qn_engine_limit_threads(qn_engine *engine, int n);

/* Whether such a device (of the options) is one of which the engine finds out what it does best:
 * then its name says more afterwards. */
bool qn_device_is_chosen(const char *device);

#endif
