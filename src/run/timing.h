/* Measured times of operations, which planning within a budget uses instead of estimates. They
 * belong to nodes of the original graphs, by name, so they are valid for every plan of the same
 * graphs. Bits never depend on them. */
#ifndef QN_RUN_TIMING_H
#define QN_RUN_TIMING_H

#include "base/events.h"
#include "quern/engine.h"

/* Says how long a node of a program takes. Before the engine is planned; a node that is not there
 * is left out, and a program that is not too. */
qn_status qn_engine_set_time(qn_engine *engine, int program, const char *node, double ns);

/* Calls visit for every node whose time is known, until it fails. */
qn_status qn_engine_visit_times(const qn_engine *engine,
                                qn_status (*visit)(void *context, int program, const char *node,
                                                   double ns),
                                void *context);

/* Equal for engines whose programs have the same operations, on as many threads with the same
 * instruction set, by this build. */
uint64_t qn_engine_hash(const qn_engine *engine);

/* ---- measuring: the shortest times that are seen ---- */

/* Takes the memory to measure in; before the engine is planned, it is thus in its budget. */
qn_status qn_engine_prepare_timing(qn_engine *engine);

/* From now on the engine is watched, by nobody else; after every step or so, what ran is taken
 * down. */
void qn_engine_begin_timing(qn_engine *engine);
qn_status qn_engine_take_times(qn_engine *engine);

#endif
