/* The list of the policies. */
#include "policies.h"

#include <string.h>

const qn_policy *const qn_policies[] = {
    &qn_policy_none,
    &qn_policy_sqrt,
    &qn_policy_sublinear,
    &qn_policy_capuchin,
    &qn_policy_capuchin_recompute,
    &qn_policy_vdnn,
    &qn_policy_dtr,
    &qn_policy_dtr_eq,
    &qn_policy_dtr_local,
    &qn_policy_melon,
    NULL,
};

const qn_policy *qn_policy_find(const char *name) {
    for (int i = 0; qn_policies[i]; i++) {
        if (strcmp(qn_policies[i]->name, name) == 0)
            return qn_policies[i];
    }
    return NULL;
}
