/* The whole zoo: every plan is proven, with and without budgets. */
#include "zoo_plans.h"

int main(void) {
    int n_found = 0;
    for (int i = 0; qn_model_at(i); i++)
        n_found += zoo_check(qn_model_at(i), "8", (const int[]){75, 50, 35, 25, 0});
    CHECK(n_found > 0);
    return checks_finish();
}
