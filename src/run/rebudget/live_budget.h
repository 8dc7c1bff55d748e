/* Budgets that change while an engine runs: any thread plans for a new budget, and the thread that
 * runs the programs switches between two operations (run/rebudget/adapt.h). */
#ifndef QN_RUN_REBUDGET_LIVE_BUDGET_H
#define QN_RUN_REBUDGET_LIVE_BUDGET_H

#include "run/engine.h"

/* Bytes set aside in a budget, for each node and besides, for planning another one while training
 * goes on, and for plans that are ready. */
enum { QN_LIVE_BUDGET_NODE_BYTES = 5120, QN_LIVE_BUDGET_BYTES = 1 << 17 };

/* Waits until the plans that are made ahead are ready (run/rebudget/plan_cache.h). */
void qn_live_budget_wait(const qn_engine *engine);

#endif
