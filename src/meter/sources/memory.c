/* Resident memory of the watched process: current (statm), and peak, from the kernel (VmHWM of
 * status: once a second and at the end). While training runs, reading statm misses the caches and
 * takes ten microseconds or more, so our own process is read less often while the value is stable.
 * For another process, the current value includes all its descendants; shared pages count several
 * times. */
#include "base/memory.h"
#include "base/status.h"
#include "meter/family.h"
#include "meter/sources/sensor.h"
#include "os/process/cpu_time.h"

#include <stdio.h>
#include <string.h>

#define MOST_KIB (INT64_C(1) << 42) /* what is beyond is nonsense */

typedef struct memory {
    const qn_allocator *allocator;
    qn_speaker nobody; /* that the process has ended is no fault of a sensor */
    qn_sensor file;
    qn_channel channel;
    int64_t last_ns;
    int64_t last_bytes;
    bool is_own, is_same; /* of statm, as the time before */
    bool has_family;
    qn_family family;
    qn_probe files[QN_FAMILY_MOST]; /* of the others of the family */
    char root[200];
} memory;

static qn_status open_memory(const qn_source_options *options, const char *name, const char *file,
                             void **source) {
    memory *m;
    QN_TRY(qn_allocate(options->allocator, 1, sizeof *m, &m));
    m->allocator = options->allocator;
    m->is_own = !options->is_recorded && options->pid == qn_process_id();
    m->has_family = !options->is_recorded && !m->is_own;
    snprintf(m->root, sizeof m->root, "%s", options->root);
    qn_family_init(m->root, options->pid, &m->family);
    if (!qn_sensor_open(options, name, &m->file, "/proc/%lld/%s", (long long)options->pid, file)) {
        qn_release(options->allocator, m, 1, sizeof *m);
        return QN_OK;
    }
    m->channel = (qn_channel){
        .source = name, .quantity = QN_QUANTITY_MEMORY, .part = QN_PART_PROCESS, .inside = -1};
    snprintf(m->channel.name, sizeof m->channel.name, "%s", name);
    *source = m;
    return QN_OK;
}

static void memory_close(void *source) {
    memory *m = source;
    for (int i = 0; i < m->family.n; i++)
        qn_probe_close(&m->files[i]);
    qn_sensor_close(&m->file);
    qn_release(m->allocator, m, 1, sizeof *m);
}

static const qn_channel *memory_channels(const void *source, int *n) {
    *n = 1;
    return &((const memory *)source)->channel;
}

/* A process that has ended and is not yet buried has no memory. */
static void tell(memory *m, int64_t now_ns, int64_t bytes, qn_reading *reading) {
    if (bytes <= 0)
        return;
    *reading = (qn_reading){m->last_ns ? m->last_ns : now_ns, now_ns, (double)bytes};
    m->last_ns = now_ns;
}

/* Of a file statm; -1: the process has ended. */
static int64_t resident_bytes(const qn_probe *file) {
    char text[128];
    long long pages;
    if (qn_probe_text(file, text, sizeof text) != QN_OK || sscanf(text, "%*d %lld", &pages) != 1 ||
        pages > MOST_KIB)
        return -1;
    return pages * qn_page_bytes();
}

static int64_t others_bytes(memory *m, int64_t now_ns) {
    const int n_before = m->family.n;
    int64_t sum = 0;
    qn_family_look(&m->family, now_ns);
    for (int i = n_before; i < m->family.n; i++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%lld/statm", (long long)m->family.ids[i]);
        m->files[i] = (qn_probe){0};
        qn_probe_open(path, &m->files[i]); /* one that has ended is found so below */
    }
    for (int i = 1; i < m->family.n; i++) {
        const int64_t bytes = resident_bytes(&m->files[i]);
        sum += bytes > 0 ? bytes : 0;
        if (bytes > 0)
            continue;
        qn_probe_close(&m->files[i]);
        m->files[i] = m->files[m->family.n - 1];
        qn_family_remove(&m->family, i--);
    }
    return sum;
}

static void read_resident(void *source, int64_t now_ns, qn_reading *readings) {
    memory *m = source;
    const int64_t own = resident_bytes(&m->file.probe);
    const int64_t others = m->has_family ? others_bytes(m, now_ns) : 0;
    const int64_t bytes = (own > 0 ? own : 0) + others;
    m->is_same = bytes == m->last_bytes;
    m->last_bytes = bytes;
    tell(m, now_ns, bytes, readings);
}

static bool is_steady(const void *source) {
    const memory *m = source;
    return m->is_own && m->is_same;
}

static void read_peak(void *source, int64_t now_ns, qn_reading *readings) {
    memory *m = source;
    char text[2048];
    long long kib;
    if (!qn_sensor_text(&m->file, &m->nobody, now_ns, text, sizeof text))
        return;
    const char *line = strstr(text, "VmHWM:");
    if (line && sscanf(line, "VmHWM: %lld", &kib) == 1 && kib <= MOST_KIB)
        tell(m, now_ns, kib * 1024, readings);
}

static qn_status open_resident(const qn_source_options *options, void **source) {
    return open_memory(options, "resident", "statm", source);
}

static qn_status open_peak(const qn_source_options *options, void **source) {
    return open_memory(options, "peak", "status", source);
}

const qn_source_kind qn_source_resident = {.name = "resident",
                                           .about = "resident memory of the process",
                                           .period_ns = 10000000,
                                           .open = open_resident,
                                           .channels = memory_channels,
                                           .read = read_resident,
                                           .is_steady = is_steady,
                                           .close = memory_close};

const qn_source_kind qn_source_peak = {.name = "peak",
                                       .about = "peak resident memory of the process so far",
                                       .period_ns = 1000000000,
                                       .open = open_peak,
                                       .channels = memory_channels,
                                       .read = read_peak,
                                       .close = memory_close};
