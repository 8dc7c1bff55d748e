/* 2,080 random placements over the whole zoo: see placements.h. */
#include "placements.h"

enum { N_EACH = 80 };

int main(void) {
    for (int i = 0; qn_model_at(i); i++) {
        printf("%s\n", qn_model_at(i)->name);
        fflush(stdout);
        placed_check_model(qn_model_at(i), N_EACH, (uint64_t)(100000 + 1000 * i));
    }
    return checks_finish();
}
