/* The policy of a user's rules (kernels/rules.h): kernels that choose algorithms by them. */
#ifndef QN_RUN_TUNING_RULES_H
#define QN_RUN_TUNING_RULES_H

#include "run/engine.h"

/* Of the rules' text; 0: the engine goes by the built-in ones. */
uint64_t qn_engine_rules_hash(const qn_engine *engine);

#endif
