/* The kernel's files that the meter reads, with any text in them: a recorded tree may hold
 * anything. The first half of the input is read first, then all of it. Numbers that come out are in
 * bounds, and readings do not go back in time. */
#define _GNU_SOURCE

#include "base/memory.h"
#include "device_files.h"
#include "meter/load.h"
#include "meter/sources/sources.h"
#include "os/heap.h"
#include "os/os.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SECOND INT64_C(1000000000)

enum { MOST_BYTES = 4096, MOST_CHANNELS = 2048 };

static const char *const paths[] = {"sys/fs/cgroup/cpuacct/cpuacct.usage_percpu",
                                    "proc/schedstat",
                                    "proc/stat",
                                    "proc/7/statm",
                                    "proc/7/status",
                                    "proc/7/task/7/schedstat",
                                    "sys/devices/system/cpu/cpu3/cpufreq/scaling_cur_freq",
                                    "sys/class/kgsl/kgsl-3d0/gpubusy",
                                    "sys/class/devfreq/a.gpu/cur_freq",
                                    "sys/class/thermal/thermal_zone0/type",
                                    "sys/class/thermal/thermal_zone0/temp"};

static const qn_source_kind *const kinds[] = {
    &qn_source_cores,     &qn_source_threads,  &qn_source_resident, &qn_source_peak,
    &qn_source_frequency, &qn_source_gpu_load, &qn_source_thermal};

enum { N_KINDS = sizeof kinds / sizeof *kinds };

static device_files files;

static void remove_files(void) {
    device_files_remove(&files, "");
}

/* Files that share their name with a better one are read only without it: a bit of `left_out` each.
 */
static void put_files(const uint8_t *data, size_t size, int left_out) {
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (left_out >> i & 1)
            device_files_remove(&files, paths[i]);
        else
            device_files_put(&files, paths[i], "%.*s", (int)size, (const char *)data);
}

/* The machine's load: sums that fit together, and a part of others from 0 to 1. */
static void check_load(qn_load *before) {
    const qn_load load = qn_load_read(files.root, 7);
    const double others = qn_load_others(before, &load);
    if (load.busy_ns < 0 || load.busy_ns > load.all_ns || others < 0 || others > 1)
        abort();
    *before = load;
}

static void say_nothing(void *user, const char *source, const char *text) {
    (void)user;
    (void)source;
    (void)text;
}

static void check(const qn_channel *channel, const qn_reading *reading, int64_t *last_ns) {
    if (reading->end_ns == 0)
        return;
    const double most = channel->part == QN_PART_PROCESS ? 1e9 : 1;
    if (!isfinite(reading->value) || reading->value < 0 || reading->begin_ns < *last_ns ||
        (channel->quantity == QN_QUANTITY_UTILISATION && reading->value > most))
        abort();
    *last_ns = reading->end_ns;
}

typedef struct opened {
    const qn_source_kind *kind;
    void *source;
    int64_t last_ns[MOST_CHANNELS];
} opened;

static void open_kind(const qn_source_kind *kind, opened *o) {
    const qn_source_options options = {.allocator = qn_allocator_default(),
                                       .root = files.root,
                                       .is_recorded = true,
                                       .pid = 7,
                                       .say = say_nothing};
    memset(o, 0, sizeof *o);
    o->kind = kind;
    if (kind->open(&options, &o->source) != QN_OK)
        o->source = NULL;
}

static void look(opened *o, int64_t now_ns) {
    static qn_reading readings[MOST_CHANNELS];
    int n;
    if (!o->source)
        return;
    const qn_channel *channels = o->kind->channels(o->source, &n);
    memset(readings, 0, sizeof readings);
    o->kind->read(o->source, now_ns, readings);
    for (int i = 0; i < n && i < MOST_CHANNELS; i++)
        check(&channels[i], &readings[i], &o->last_ns[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first byte says which files of cores there are. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static opened all[N_KINDS];
    qn_load load = {0};
    if (size == 0)
        return 0;
    if (!files.root[0]) {
        files = device_files_make();
        atexit(remove_files);
    }
    size = size < MOST_BYTES ? size - 1 : MOST_BYTES;
    put_files(data + 1, size / 2, data[0] & 3);
    check_load(&load);
    for (int i = 0; i < N_KINDS; i++) {
        open_kind(kinds[i], &all[i]);
        look(&all[i], SECOND);
    }
    put_files(data + 1, size, data[0] & 3);
    check_load(&load);
    for (int i = 0; i < N_KINDS; i++) {
        look(&all[i], 2 * SECOND);
        look(&all[i], 3 * SECOND);
        if (all[i].source)
            all[i].kind->close(all[i].source);
    }
    return 0;
}
