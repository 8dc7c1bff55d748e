/* Plans within budgets of ten thousand random training steps, as test_budget does of three hundred.
 */
#include "budget_checks.h"
#include "os/heap.h"
#include "os/team.h"

int main(void) {
    qn_team *team;
    CHECK_OK(qn_team_create(qn_allocator_default(), 2, &team));
    check_random_graphs(300, 10300, qn_kernels_get(QN_F32, QN_ISA_REF), team);
    qn_team_destroy(team);
    return checks_finish();
}
