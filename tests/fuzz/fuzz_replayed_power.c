/* A recorded file of power: whatever it holds, it is refused, or its readings are finite, not
 * negative, and join without overlap. */
#define _GNU_SOURCE /* memfd_create */

#include "meter/sources/sources.h"

#include "base/memory.h"
#include "os/heap.h"

#include "memory_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CHANNELS = 64 };

static void check_readings(const qn_reading *readings, int n, int64_t *ends, int64_t now_ns) {
    for (int i = 0; i < n; i++) {
        const qn_reading *r = &readings[i];
        if (r->end_ns == 0)
            continue;
        if (r->begin_ns < ends[i] || r->begin_ns >= r->end_ns || r->end_ns > now_ns ||
            !isfinite(r->value) || r->value < 0)
            abort();
        ends[i] = r->end_ns;
    }
}

static void read_all(void *source) {
    static const int64_t steps_ns[] = {1, 1000000, 10000000, 10000000, 1000000000, 100000000000000};
    qn_reading readings[MOST_CHANNELS];
    int64_t ends[MOST_CHANNELS] = {0}, now_ns = 1000000000;
    int n;
    const qn_channel *channels = qn_source_replay.channels(source, &n);
    if (n < 1 || n > MOST_CHANNELS)
        abort();
    for (int i = 0; i < n; i++) {
        if (channels[i].inside >= i || channels[i].name[0] == 0)
            abort();
    }
    for (size_t i = 0; i < sizeof steps_ns / sizeof steps_ns[0]; i++) {
        memset(readings, 0, sizeof readings);
        qn_source_replay.read(source, now_ns, readings);
        check_readings(readings, n, ends, now_ns);
        now_ns += steps_ns[i];
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    void *source = NULL;
    int descriptor;
    qn_file *file = memory_file_open(data, size, &descriptor);
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    const qn_source_options options = {
        .allocator = qn_allocator_default(), .root = "", .replay = path};
    if (file && qn_source_replay.open(&options, &source) == QN_OK) {
        read_all(source);
        qn_source_replay.close(source);
    }
    qn_file_close(file);
    close(descriptor);
    return 0;
}
