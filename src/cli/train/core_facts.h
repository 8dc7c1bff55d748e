/* The cores of this machine for predictions, as quern devices --calibrate measured them; and what
 * came of a schedule, as fields of an object. */
#ifndef QN_CLI_TRAIN_CORE_FACTS_H
#define QN_CLI_TRAIN_CORE_FACTS_H

#include "plan/schedule/cores.h"
#include "quern/engine.h"

/* Typical cores, with what was measured of this machine, if it was: its arithmetic, the rates of
 * its caches and its memory, and what these are beside other cores. */
qn_status core_facts_load(qn_cores *cores);

/* Into the object of JSON that is open. */
void core_facts_print(const qn_cores_use *use);

#endif
