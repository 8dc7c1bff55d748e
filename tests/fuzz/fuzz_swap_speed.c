/* The kept speed of a swap folder: what is accepted gives numbers that can be worked with. */
#include "plan/swap_speed.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qn_swap_speed s = {0};
    if (!qn_swap_speed_parse((const char *)data, size, "host", "/data", &s))
        return 0;
    if (!(s.write_bytes_per_ns > 0) || !isfinite(s.write_bytes_per_ns) ||
        !(s.read_bytes_per_ns > 0) || !isfinite(s.read_bytes_per_ns) || s.latency_ns < 1 ||
        !(s.work_ns_per_byte > 0) || !isfinite(s.work_ns_per_byte))
        abort();
    return 0;
}
