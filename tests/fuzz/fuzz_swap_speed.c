/* The kept speed of a swap folder: what is accepted gives numbers that can be worked with, and what
 * was measured, once, is read again from the cache as it was kept; an input in its place is read or
 * is as if it were not there. */
#include "fuzz/input.h"
#include "plan/swap/swap_speed.h"

#include <math.h>

static const char swapping[] = "/var/tmp";

static void check(const qn_swap_speed *s) {
    if (!(s->write_bytes_per_ns > 0) || !isfinite(s->write_bytes_per_ns) ||
        !(s->read_bytes_per_ns > 0) || !isfinite(s->read_bytes_per_ns) || s->latency_ns < 1 ||
        !(s->work_ns_per_byte > 0) || !isfinite(s->work_ns_per_byte))
        abort();
}

/* What is kept has as many digits as are of use. */
static bool is_near(double a, double b) {
    return fabs(a - b) <= 1e-3 * (fabs(a) + fabs(b));
}

/* On a disk; false: this machine's folder for what outlives a restart is none. */
static bool check_measured(void) {
    qn_swap_speed first, second;
    input_folder();
    if (qn_swap_speed_get(NULL, swapping, &first) != QN_OK)
        return false;
    if (qn_swap_speed_get(NULL, swapping, &second) != QN_OK)
        abort();
    check(&first);
    check(&second);
    if (!is_near(first.write_bytes_per_ns, second.write_bytes_per_ns) ||
        !is_near(first.read_bytes_per_ns, second.read_bytes_per_ns) ||
        first.latency_ns != second.latency_ns)
        abort();
    return true;
}

/* Memory runs out before anything is measured. */
static void check_cache(const uint8_t *data, size_t size) {
    static char name[256];
    qn_swap_speed s;
    if (!name[0])
        input_find_cached("swap-", name);
    input_write(name, data, size);
    for (int n = 1; n < 4; n++) {
        failing f = {.left = n, .and_after = true};
        const qn_allocator allocator = input_allocator(&f);
        if (qn_swap_speed_get(&allocator, swapping, &s) == QN_OK)
            check(&s);
        input_check_memory(&f);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int is_measured = -1;
    qn_swap_speed s = {0};
    if (is_measured < 0)
        is_measured = check_measured();
    if (is_measured)
        check_cache(data, size);
    if (qn_swap_speed_parse((const char *)data, size, "host", "/data", &s))
        check(&s);
    return 0;
}
