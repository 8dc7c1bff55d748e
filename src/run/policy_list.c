/* The list of policies, in a file of its own: a test may link another one instead. */
#include "run/policy.h"

#define QN_POLICY(id, name)     extern const qn_policy qn_policy_##id;
#define QN_MPI_POLICY(id, name) QN_POLICY(id, name)
#include "run/policies.def"
#undef QN_POLICY
#undef QN_MPI_POLICY

#define QN_POLICY(id, name) [QN_POLICY_##name] = &qn_policy_##id,
#ifdef QN_WITH_MPI
#define QN_MPI_POLICY(id, name) QN_POLICY(id, name)
#else
#define QN_MPI_POLICY(id, name) [QN_POLICY_##name] = NULL,
#endif
const qn_policy *const qn_policy_rows[QN_POLICIES] = {
#include "run/policies.def"
};
