/* See rules.h. */
#include "run/tuning/rules.h"

#include "base/rng.h"
#include "base/status.h"
#include "kernels/rules.h"
#include "run/policy.h"

#include <string.h>

/* A user's rules, and the kernels that go by them. */
typedef struct ruled {
    qn_kernels kernels;
    qn_rules rules;
    qn_rule rows[QN_MAX_RULES];
    uint64_t hash; /* of their text */
} ruled;

uint64_t qn_engine_rules_hash(const qn_engine *e) {
    const ruled *r = e->policies[QN_POLICY_RULES];
    return r ? r->hash : 0;
}

static qn_status create(qn_engine *e) {
    const char *text = e->options.rules;
    ruled *r;
    if (!text)
        return QN_OK;
    QN_TRY(qn_allocate(&e->allocator, 1, sizeof *r, &r));
    e->policies[QN_POLICY_RULES] = r;
    QN_TRY(qn_rules_parse(text, strlen(text), r->rows, &r->rules));
    r->kernels = *qn_machine_kernels(&e->machine, e->options.real);
    r->kernels.rules = &r->rules;
    r->hash = qn_hash_text(text);
    qn_machine_set_kernels(&e->machine, &r->kernels);
    e->options.rules = NULL;
    return QN_OK;
}

static void destroy(qn_engine *e) {
    qn_release(&e->allocator, e->policies[QN_POLICY_RULES], 1, sizeof(ruled));
}

const qn_policy qn_policy_rules = {.name = "rules", .create = create, .destroy = destroy};
