/* Saved plans, used instead of those that an engine would make; see engine.h. */
#include "plan/saved.h"
#include "base/status.h"
#include "base/text.h"
#include "os/os.h"
#include "run/planning/planning.h"
#include "run/policy.h"

static qn_status take(qn_engine *e, const qn_saved_program *saved, qn_program *p) {
    qn_budget_plan made = {0};
    if (saved->micro_batch > 0 && !p->unsplit)
        QN_TRY(qn_program_split(p, &e->machine, saved->micro_batch));
    QN_TRY(qn_saved_restore_usual(&e->allocator, saved, p->graph, &e->machine, &p->plan));
    if (p->plan)
        return QN_OK;
    QN_TRY(qn_saved_restore(&e->allocator, saved, p->graph, &e->machine, &made));
    qn_program_take(p, &made);
    return QN_OK;
}

static qn_status restore(qn_engine *e, const char *isa, int index) {
    const qn_saved_plan *plan = e->options.saved_plan;
    const int n_threads = qn_team_size(e->team);
    const qn_saved_program *saved;
    qn_program *p = &e->programs[index];
    QN_TRY(qn_saved_find(plan, index, p->name, n_threads, isa, &saved));
    const qn_policy *policy = qn_policies_that_plans(e);
    if (policy && policy->restore)
        QN_TRY(policy->restore(e, saved, p));
    else
        QN_TRY(take(e, saved, p));
    if (p->plan->arena_bytes > e->memory.arena_bytes)
        e->memory.arena_bytes = p->plan->arena_bytes;
    return QN_OK;
}

qn_status qn_engine_take_saved(qn_engine *e) {
    const int n_saved = e->options.saved_plan->n_programs;
    const int64_t begin = qn_clock_ns();
    qn_isa isa;
    QN_TRY(qn_cpu_isa(&isa));
    if (n_saved != e->n_programs)
        return qn_fail(QN_ERROR_FORMAT,
                       "the plan has %d programs, but the engine has %d; make a new plan", n_saved,
                       e->n_programs);
    for (int i = 0; i < e->n_programs; i++)
        QN_TRY(restore(e, qn_isa_name(isa), i));
    e->planning.ns = qn_clock_ns() - begin;
    e->options.saved_plan = NULL;
    return QN_OK;
}
