/* Calls of a planned engine before its first run, for measuring them: in its own arena, before it
 * holds anything. */
#ifndef QN_RUN_REHEARSAL_H
#define QN_RUN_REHEARSAL_H

#include "run/engine.h"

/* Whether a call can be run before training: its inputs are there (those of the network are not),
 * and what it writes is in the arena alone. */
bool qn_rehearsal_can_run(const qn_engine *engine, const qn_call *call);

/* Fills the arena with numbers as in training, so that no time is that of denormals or of pages
 * that are not there. */
void qn_rehearsal_fill(qn_engine *engine);

#endif
