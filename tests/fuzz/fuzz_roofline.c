/* The kept roofline: what is accepted gives numbers that can be worked with. */
#include "meter/roofline.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qn_roofline r;
    qn_roofline_parse((const char *)data, size, &r);
    if (r.n_peaks == 0)
        return 0;
    const double bandwidth = qn_roofline_bandwidth(&r, 2, INFINITY);
    const double flops = qn_roofline_flops(&r, r.peaks[0].dtype, 2);
    if (r.n_peaks > QN_ROOFLINE_MOST || r.n_levels < 1 || r.n_levels > QN_ROOFLINE_MOST ||
        !(bandwidth > 0) || !isfinite(bandwidth) || !(flops > 0) || !isfinite(flops) ||
        !(qn_roofline_bandwidth(&r, 1, 1) > 0))
        abort();
    return 0;
}
