/* Machines as texts: what is read fits its bounds, and an operation takes some time on it. */
#include "plan/schedule/cores.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const qn_cost cost = {.flops = 1000, .bytes = 1000};
    qn_cores cores;
    int n = 0;
    if (qn_cores_parse((const char *)data, size, &cores) != QN_OK)
        return 0;
    for (int k = 0; k < cores.n_kinds; k++)
        n += cores.kinds[k].n;
    if (cores.n_kinds < 1 || cores.n_kinds > QN_MAX_CORE_KINDS || n != cores.n || n < 1 ||
        n > QN_MAX_CORES || qn_cores_kind(&cores, n - 1) != cores.n_kinds - 1)
        abort();
    const qn_curve curve = qn_curve_estimate(&cores, &cost);
    for (int width = 1; width <= n; width++) {
        if (!(qn_curve_ns(&curve, &cores, n - width, width) > 0))
            abort();
    }
    return 0;
}
