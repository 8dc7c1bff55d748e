/* See shifts.h. */
#include "cli/numbers/shifts.h"

#include "cli/json.h"
#include "cli/terminal.h"
#include "ops/rescaled.h"
#include "ops/round.h"
#include "run/watch.h"
#include "tensor/tensor.h"

#include <string.h>

static bool is_kept(const qn_stored_tensor *tensor, const char *suffix, qn_dtype dtype,
                    int64_t count) {
    const size_t n = strlen(tensor->name), end = strlen(suffix);
    return !tensor->is_state && tensor->dtype == dtype && n > end &&
           strcmp(tensor->name + n - end, suffix) == 0 && qn_shape_count(tensor->shape) == count;
}

shift_counts shifts_count(const qn_engine *engine) {
    shift_counts all = {0};
    for (int i = 0; i < qn_engine_tensor_count(engine); i++) {
        const qn_stored_tensor tensor = qn_engine_tensor_at(engine, i);
        if (!is_kept(&tensor, ".kept_shift", QN_I32, QN_KEPT_COUNT))
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

/* Ranges so far, of all tensors and steps. */
typedef struct range_counts {
    int64_t n, measured;
    int n_tensors, n_wide; /* whose range adapts; of these, of 16 bits */
} range_counts;

static range_counts count_ranges(const qn_engine *engine) {
    range_counts all = {0};
    for (int i = 0; i < qn_engine_tensor_count(engine); i++) {
        const qn_stored_tensor tensor = qn_engine_tensor_at(engine, i);
        if (!is_kept(&tensor, ".kept_range", QN_F32, QN_ADAPTED_COUNT))
            continue;
        const float *kept = tensor.data;
        all.n += (int64_t)kept[QN_ADAPTED_STEPS];
        all.measured += (int64_t)kept[QN_ADAPTED_MEASURED];
        all.n_tensors++;
        all.n_wide += kept[QN_ADAPTED_BITS] > 8;
    }
    return all;
}

/* Operations of a step of the first program, a multiply-add is two, and those in whole numbers. */
static void count_operations(const qn_engine *engine, int64_t *all, int64_t *whole) {
    *all = *whole = 0;
    for (int i = 0; i < qn_engine_operation_count(engine, 0); i++) {
        const qn_operation o = qn_engine_operation_at(engine, 0, i);
        *all += o.flops;
        *whole += o.is_whole ? o.flops : 0;
    }
}

void shifts_print(const qn_engine *engine) {
    const shift_counts all = shifts_count(engine);
    const range_counts ranges = count_ranges(engine);
    int64_t n_operations, n_whole;
    count_operations(engine, &n_operations, &n_whole);
    const double percent = 100.0 / (double)(all.n > 0 ? all.n : 1);
    if (all.n > 0)
        terminal_print(2,
                       "shifts: %.1f %% as kept of the step before, %.1f %% computed from stored "
                       "sums, %.1f %% of products made twice; %.1f %% too large or small",
                       (double)all.kept * percent, (double)all.stored * percent,
                       (double)all.twice * percent, (double)all.wrong * percent);
    if (ranges.n > 0)
        terminal_print(
            2, "ranges: %.1f %% kept of steps before, %.1f %% measured; %d of %d in 16 bits",
            100.0 * (double)(ranges.n - ranges.measured) / (double)ranges.n,
            100.0 * (double)ranges.measured / (double)ranges.n, ranges.n_wide, ranges.n_tensors);
    if (n_whole > 0)
        terminal_print(2, "operations: %.1f %% of %.1f million a step in whole numbers",
                       100.0 * (double)n_whole / (double)n_operations, 1e-6 * (double)n_operations);
}

void shifts_add_json(const qn_engine *engine) {
    const shift_counts all = shifts_count(engine);
    const range_counts ranges = count_ranges(engine);
    int64_t n_operations, n_whole;
    count_operations(engine, &n_operations, &n_whole);
    if (all.n > 0) {
        json_count("shifts", all.n);
        json_count("shifts_kept", all.kept);
        json_count("shifts_stored", all.stored);
        json_count("shifts_twice", all.twice);
        json_count("shifts_wrong", all.wrong);
    }
    if (ranges.n > 0) {
        json_count("ranges", ranges.n);
        json_count("ranges_kept", ranges.n - ranges.measured);
        json_count("ranges_measured", ranges.measured);
        json_count("ranges_wide", ranges.n_wide);
    }
    if (n_whole > 0) {
        json_count("operations_per_step", n_operations);
        json_count("integer_operations_per_step", n_whole);
    }
}
