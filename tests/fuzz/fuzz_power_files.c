/* The kernel's files that tell of processors and power, with any text in them: parts of the input,
 * between bytes of 255, go to one file each, and move on by one file for the second look. Power is
 * within what can be, readings do not go back in time, and a processor's numbers fit together. */
#define _GNU_SOURCE

#include "base/memory.h"
#include "device_files.h"
#include "meter/processor.h"
#include "meter/sources/rails.h"
#include "meter/sources/sources.h"
#include "os/heap.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CPU     "sys/devices/system/cpu/"
#define ZONE    "sys/class/powercap/intel-rapl:0"
#define RAIL    "sys/class/hwmon/hwmon0/"
#define CHIP    "sys/class/hwmon/hwmon1/"
#define OLDER   "sys/bus/i2c/drivers/ina3221x/0-0040/iio:device0/"
#define BATTERY "sys/class/power_supply/BAT0/"

enum { MOST_CHANNELS = 1100 };

static const char *const paths[] = {CPU "present",
                                    CPU "online",
                                    "proc/cpuinfo",
                                    "sys/devices/cpu_core/cpus",
                                    "sys/devices/cpu_atom/cpus",
                                    CPU "cpu0/cpu_capacity",
                                    CPU "cpu1/topology/thread_siblings_list",
                                    CPU "cpu1/topology/cluster_cpus_list",
                                    CPU "cpu0/cache/index0/level",
                                    CPU "cpu0/cache/index0/size",
                                    CPU "cpu0/cache/index0/shared_cpu_list",
                                    "proc/meminfo",
                                    ZONE "/name",
                                    ZONE "/energy_uj",
                                    ZONE "/max_energy_range_uj",
                                    ZONE ":0/name",
                                    ZONE ":0/energy_uj",
                                    RAIL "in1_label",
                                    RAIL "in1_input",
                                    RAIL "curr1_input",
                                    OLDER "rail_name_0",
                                    OLDER "in_power0_input",
                                    CHIP "name",
                                    CHIP "power1_input",
                                    CHIP "power1_label",
                                    CHIP "energy1_input",
                                    BATTERY "voltage_now",
                                    BATTERY "current_now",
                                    BATTERY "energy_now",
                                    BATTERY "status",
                                    "proc/stat"};

enum { N_PATHS = sizeof paths / sizeof *paths };

static const qn_source_kind *const kinds[] = {&qn_source_rapl, &qn_source_ina3221, &qn_source_hwmon,
                                              &qn_source_battery, &qn_source_model};

enum { N_KINDS = sizeof kinds / sizeof *kinds };

typedef struct opened {
    void *source;
    int64_t ends[MOST_CHANNELS];
} opened;

static device_files files;

static void remove_files(void) {
    device_files_remove(&files, "");
}

/* Part i goes to file i + shift. */
static void put_files(const uint8_t *data, size_t size, int shift) {
    device_files_put(&files, RAIL "name", "ina3221");
    device_files_put(&files, BATTERY "type", "Battery");
    if (shift == 0)
        device_files_put(&files, BATTERY "status", "Discharging");
    for (int i = 0; i < N_PATHS && size > 0; i++) {
        const uint8_t *end = memchr(data, 255, size);
        const size_t n = end ? (size_t)(end - data) : size;
        if (n > 0)
            device_files_put(&files, paths[(i + shift) % N_PATHS], "%.*s", (int)n,
                             (const char *)data);
        data += n + (end != NULL);
        size -= n + (end != NULL);
    }
}

static void check_processor(void) {
    qn_processor *p = NULL;
    int n = 0;
    if (qn_processor_create(NULL, files.root, &p) != QN_OK)
        return;
    for (int k = 0; k < p->n_kinds; k++)
        n += p->kinds[k].n_cores;
    for (int i = 0; i < p->n_cores; i++) {
        n -= p->cores[i].is_online;
        if (p->cores[i].kind >= p->n_kinds || p->cores[i].cluster >= p->n_clusters)
            abort();
    }
    for (int i = 0; i < p->n_caches; i++) {
        if (p->caches[i].bytes < 0 || p->caches[i].n < 1 || p->caches[i].kind >= p->n_kinds)
            abort();
    }
    if (n != 0 || p->memory_bytes < 0)
        abort();
    qn_processor_destroy(p);
}

static void read_kind(const qn_source_kind *kind, opened *o, int64_t now_ns) {
    static qn_reading readings[MOST_CHANNELS];
    int n;
    kind->channels(o->source, &n);
    if (n < 1 || n > MOST_CHANNELS)
        abort();
    memset(readings, 0, sizeof readings);
    kind->read(o->source, now_ns, readings);
    for (int i = 0; i < n; i++) {
        const qn_reading *r = &readings[i];
        if (r->end_ns == 0)
            continue;
        if (!(r->value >= 0 && r->value <= QN_MOST_WATTS) || r->begin_ns < o->ends[i] ||
            r->begin_ns >= r->end_ns || r->end_ns > now_ns)
            abort();
        o->ends[i] = r->end_ns;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static opened open[N_KINDS];
    if (!files.root[0]) {
        files = device_files_make();
        atexit(remove_files);
    }
    device_files_remove(&files, "sys");
    device_files_remove(&files, "proc");
    put_files(data, size, 0);
    check_processor();
    const qn_source_options options = {
        .allocator = qn_allocator_default(), .root = files.root, .is_recorded = true};
    for (int k = 0; k < N_KINDS; k++) {
        open[k] = (opened){.source = NULL};
        if (kinds[k]->open(&options, &open[k].source) != QN_OK)
            abort();
    }
    for (int64_t look = 1; look <= 4; look++) {
        if (look == 3)
            put_files(data, size, 1);
        for (int k = 0; k < N_KINDS; k++) {
            if (open[k].source)
                read_kind(kinds[k], &open[k], look * 500000000);
        }
    }
    for (int k = 0; k < N_KINDS; k++) {
        if (open[k].source)
            kinds[k]->close(open[k].source);
    }
    return 0;
}
