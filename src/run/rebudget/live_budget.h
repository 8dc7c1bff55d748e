/* Budgets that change while an engine runs: any thread plans for a new budget, and the thread that
 * runs the programs switches between two operations (run/rebudget/adapt.h). */
#ifndef QN_RUN_REBUDGET_LIVE_BUDGET_H
#define QN_RUN_REBUDGET_LIVE_BUDGET_H

#include "run/engine.h"

typedef struct qn_live_budget qn_live_budget;

/* Bytes set aside in a budget, for each node and besides, for planning another one while training
 * goes on, and for plans that are ready. */
enum { QN_LIVE_BUDGET_NODE_BYTES = 5120, QN_LIVE_BUDGET_BYTES = 1 << 17 };

/* Of an engine whose budget may change; before its programs are planned. */
qn_status qn_live_budget_create(qn_engine *engine);
void qn_live_budget_destroy(qn_engine *engine);

/* What is set aside of a budget. */
size_t qn_live_budget_reserve(const qn_engine *engine);

/* Plans a program as it is, in the form in which plans are exchanged: the program has its built
 * graph as base. */
qn_status qn_live_budget_plan(qn_engine *engine, qn_program *program);

/* The arena, whose pages come from the system; and what it takes with the plans. */
qn_status qn_live_budget_open_arena(qn_engine *engine);

/* Waits until the plans that are made ahead are ready (run/rebudget/plan_cache.h). */
void qn_live_budget_wait(const qn_engine *engine);

/* As qn_executor_run, with a change of the plan on the way, where one is waiting. */
qn_status qn_live_budget_run(qn_engine *engine, int program, uint64_t step, const qn_watch *watch);

#endif
