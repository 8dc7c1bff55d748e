/* A description of a device's power: whatever it holds, it is refused and changes nothing, or gives
 * cores a power that is finite, not negative, and no less when busy. */
#define _GNU_SOURCE /* memfd_create */

#include "meter/sources/coefficients.h"

#include "base/memory.h"
#include "os/heap.h"

#include "memory_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void check(const qn_coefficients *c, int n_kinds) {
    if (!(c->package_w >= 0 && c->package_w < INFINITY && c->rest_w >= 0 && c->rest_w < INFINITY))
        abort();
    for (int k = 0; k < n_kinds; k++) {
        const double idle = qn_core_power(&c->kinds[k], 0, 2e9);
        const double busy = qn_core_power(&c->kinds[k], 1, 2e9);
        if (!(idle >= 0 && busy >= idle))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qn_processor processor = {.n_kinds = 2};
    qn_coefficients read, before;
    char path[64];
    int descriptor;
    strcpy(processor.kinds[0].name, "performance");
    strcpy(processor.kinds[1].name, "efficiency");
    qn_file *file = memory_file_open(data, size, &descriptor);
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    memset(&read, 7, sizeof read);
    before = read;
    if (file && qn_coefficients_read(qn_allocator_default(), path, &processor, &read) == QN_OK)
        check(&read, 2);
    else if (memcmp(&read, &before, sizeof read) != 0)
        abort();
    qn_file_close(file);
    close(descriptor);
    return 0;
}
