/* See shifts.h. */
#include "cli/numbers/shifts.h"

#include "cli/json.h"
#include "cli/terminal.h"
#include "ops/rescaled.h"

#include <string.h>

static bool is_kept(const qn_stored_tensor *tensor) {
    static const char suffix[] = ".kept_shift";
    const size_t n = strlen(tensor->name), end = sizeof suffix - 1;
    return !tensor->is_state && tensor->dtype == QN_I32 && n > end &&
           strcmp(tensor->name + n - end, suffix) == 0 &&
           tensor->bytes == QN_KEPT_COUNT * sizeof(int32_t);
}

shift_counts shifts_count(const qn_engine *engine) {
    shift_counts all = {0};
    for (int i = 0; i < qn_engine_tensor_count(engine); i++) {
        const qn_stored_tensor tensor = qn_engine_tensor_at(engine, i);
        if (!is_kept(&tensor))
            continue;
        const int32_t *kept = tensor.data;
        all.n += kept[QN_KEPT_STEPS];
        all.stored += kept[QN_KEPT_MADE];
        all.twice += kept[QN_KEPT_TWICE];
        all.wrong += kept[QN_KEPT_WRONG];
    }
    all.kept = all.n - all.stored - all.twice;
    return all;
}

void shifts_print(const qn_engine *engine) {
    const shift_counts all = shifts_count(engine);
    const double percent = 100.0 / (double)(all.n > 0 ? all.n : 1);
    if (all.n > 0)
        terminal_print(2,
                       "shifts: %.1f %% as kept of the step before, %.1f %% computed from stored "
                       "sums, %.1f %% of products made twice; %.1f %% too large or small",
                       (double)all.kept * percent, (double)all.stored * percent,
                       (double)all.twice * percent, (double)all.wrong * percent);
}

void shifts_add_json(const qn_engine *engine) {
    const shift_counts all = shifts_count(engine);
    if (all.n == 0)
        return;
    json_count("shifts", all.n);
    json_count("shifts_kept", all.kept);
    json_count("shifts_stored", all.stored);
    json_count("shifts_twice", all.twice);
    json_count("shifts_wrong", all.wrong);
}
