/* The quick models of each kind: every plan is proven, with and without a budget. The whole zoo is
 * test_zoo_plans_all's. */
#include "zoo_plans.h"

int main(void) {
    static const char *const models[] = {"mlp",   "lenet5",  "squeezenet", "char-cnn", "char-lstm",
                                         "dcgan", "seq2seq", "bert-tiny",  "dqn"};
    int n_found = 0;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        n_found += zoo_check(qn_model_find(models[i]), "32", (const int[]){75, 50, 0});
    CHECK(n_found > 0);
    return checks_finish();
}
