/* 2,080 random placements over the whole zoo: see placements.h. With arguments only of the models
 * named, where an error is to be found. */
#include "placements.h"

enum { N_EACH = 80 };

static bool is_wanted(const char *model, int n, char **names) {
    for (int i = 1; i < n; i++) {
        if (strcmp(names[i], model) == 0)
            return true;
    }
    return n <= 1;
}

int main(int argc, char **argv) {
    for (int i = 0; qn_model_at(i); i++) {
        if (!is_wanted(qn_model_at(i)->name, argc, argv))
            continue;
        printf("%s\n", qn_model_at(i)->name);
        fflush(stdout);
        placed_check_model(qn_model_at(i), N_EACH, (uint64_t)(100000 + 1000 * i));
    }
    return checks_finish();
}
