/* The cores of this machine for predictions, as quern devices --calibrate measured them. */
#ifndef QN_CLI_TRAIN_CORE_FACTS_H
#define QN_CLI_TRAIN_CORE_FACTS_H

#include "plan/schedule/cores.h"

/* Typical cores, with what was measured of this machine, if it was: its arithmetic, the rates of
 * its caches and its memory, and what these are beside other cores. */
qn_status core_facts_load(qn_cores *cores);

#endif
