/* See qn_policy_fit_arena: halves the range of limits, then tries a few more about the largest that
 * fitted. */
#include "base/status.h"
#include "policies.h"

#include "facts.h"

#include "os/os.h"

typedef struct fitting {
    const qn_policy *policy;
    qn_policy_problem problem;
    const qn_machine *machine;
    size_t arena_bytes;
    double base_ns;
    qn_policy_fit *fit;
} fitting;

/* The plan of one limit; kept if it fits and is faster than what was kept. */
static qn_status try_limit(fitting *f, size_t limit_bytes, bool *fits) {
    qn_sequence sequence;
    qn_budget_plan plan = {0};
    size_t own_top_bytes = 0;
    qn_sequence_init(&sequence, f->problem.allocator);
    f->problem.limit_bytes = limit_bytes;
    f->fit->n_tries++;
    *fits = false;
    qn_status status = f->policy->make(&f->problem, &sequence, &own_top_bytes);
    if (status == QN_ERROR_UNSUPPORTED) {
        qn_sequence_deinit(&sequence);
        return QN_OK;
    }
    if (status == QN_OK)
        status = qn_sequence_check(&sequence, f->problem.graph);
    if (status == QN_OK)
        status = qn_budget_plan_make(f->problem.allocator, f->problem.graph, f->machine, &sequence,
                                     &plan);
    if (status != QN_OK) {
        qn_sequence_deinit(&sequence);
        return status;
    }
    const double extra_ns = qn_policy_predict_ns(&f->problem, &sequence) - f->base_ns;
    qn_sequence_deinit(&sequence);
    *fits = plan.plan->arena_bytes <= f->arena_bytes;
    if (plan.plan->arena_bytes < f->fit->least_bytes)
        f->fit->least_bytes = plan.plan->arena_bytes;
    if (*fits && (!f->fit->is_feasible || extra_ns < f->fit->extra_ns)) {
        qn_budget_plan_deinit(&f->fit->plan);
        f->fit->is_feasible = true;
        f->fit->extra_ns = extra_ns;
        f->fit->own_top_bytes = own_top_bytes;
        f->fit->limit_bytes = limit_bytes;
        f->fit->plan = plan;
        return QN_OK;
    }
    qn_budget_plan_deinit(&plan);
    return QN_OK;
}

enum { N_HALVINGS = 8, N_LADDER = 9, N_MORE = 4 };

/* A pool needs more than what is alive, so it is offered more. */
static qn_status search(fitting *f) {
    qn_facts facts;
    bool fits;
    QN_TRY(qn_facts_init(&facts, &f->problem));
    const size_t top = qn_facts_peak(&facts) / 2 * 3;
    size_t low = 0, high = top;
    qn_facts_deinit(&facts);
    QN_TRY(try_limit(f, high, &fits));
    if (fits && f->fit->extra_ns <= 0)
        return QN_OK;
    for (int i = 0; i < N_HALVINGS; i++) {
        const size_t middle = low + (high - low) / 2;
        QN_TRY(try_limit(f, middle, &fits));
        if (fits)
            low = middle;
        else
            high = middle;
    }
    for (size_t i = 1; i <= N_LADDER && !f->fit->is_feasible; i++)
        QN_TRY(try_limit(f, top / (N_LADDER + 1) * i, &fits));
    const size_t best = f->fit->limit_bytes;
    for (size_t i = 1; i <= N_MORE && f->fit->is_feasible; i++)
        QN_TRY(try_limit(f, best - best / 32 * i, &fits));
    return QN_OK;
}

qn_status qn_policy_fit_arena(const qn_policy *policy, const qn_policy_problem *problem,
                              const qn_machine *machine, size_t arena_bytes, qn_policy_fit *fit) {
    fitting f = {.policy = policy,
                 .problem = *problem,
                 .machine = machine,
                 .arena_bytes = arena_bytes,
                 .base_ns = qn_policy_predict_ns(problem, problem->base),
                 .fit = fit};
    bool fits;
    *fit = (qn_policy_fit){.least_bytes = SIZE_MAX};
    const int64_t begin_ns = qn_clock_ns();
    qn_status status = policy->has_limit ? search(&f) : try_limit(&f, arena_bytes, &fits);
    fit->plan.planning_ns = qn_clock_ns() - begin_ns;
    if (status != QN_OK) {
        qn_budget_plan_deinit(&fit->plan);
        *fit = (qn_policy_fit){0};
    }
    return status;
}
