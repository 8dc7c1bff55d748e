/* Load and frequency of GPUs without a library to query: Jetson boards (load in thousandths),
 * Adreno (kgsl: busy and total microseconds of the last second), Mali, and every device whose
 * frequency the kernel's devfreq controls. If a GPU has several files with its load, the one with
 * the finest resolution is read. */
#define _GNU_SOURCE

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "meter/sources/gauges.h"
#include "os/os.h"

#include <stdio.h>
#include <string.h>

static const qn_gauge_rule thousandths = {.scale = 1e-3, .least = 0, .most = 1};
static const qn_gauge_rule hundredths = {.scale = 1e-2, .least = 0, .most = 1};
static const qn_gauge_rule hertz = {.scale = 1, .least = 0, .most = 2e10};
/* Made anew each second. */
static const qn_gauge_rule busy_of_second = {
    .scale = 0, .least = 0, .most = 1, .period_ns = 100000000};
static const qn_gauge_rule percent_of_second = {
    .scale = 1e-2, .least = 0, .most = 1, .period_ns = 100000000};

/* Files of load at a fixed place, the finest of a GPU first. */
static const struct {
    const char *path;
    const qn_gauge_rule *rule;
} places[] = {{"/sys/devices/gpu.0/load", &thousandths},
              {"/sys/devices/platform/gpu.0/load", &thousandths},
              {"/sys/class/kgsl/kgsl-3d0/gpubusy", &busy_of_second},
              {"/sys/class/kgsl/kgsl-3d0/gpu_busy_percentage", &percent_of_second},
              {"/sys/class/kgsl/kgsl-3d0/devfreq/gpu_load", &percent_of_second},
              {"/sys/class/misc/mali0/device/utilization", &hundredths},
              {"/sys/class/misc/mali0/device/utilisation", &hundredths},
              {"/sys/kernel/ged/hal/gpu_utilization", &hundredths},
              {"/sys/kernel/gpu/gpu_busy", &hundredths},
              {"/sys/class/drm/card0/device/gpu_busy_percent", &hundredths},
              {"/sys/class/drm/card1/device/gpu_busy_percent", &hundredths}};

/* What devfreq calls a GPU: a part of its entry's name. */
static const char *const names[] = {"gpu",   "mali",  "kgsl", "gm20b", "gp10b",
                                    "gv11b", "ga10b", "v3d",  "adreno"};

typedef struct search {
    const qn_source_options *options;
    qn_gauges *gauges;
    bool has_load, has_frequency;
} search;

static qn_status add(search *s, qn_quantity quantity, const qn_gauge_rule *rule, const char *path) {
    const qn_channel channel = {.name = "gpu", .quantity = quantity, .part = QN_PART_GPU};
    bool *has = quantity == QN_QUANTITY_FREQUENCY ? &s->has_frequency : &s->has_load;
    const size_t n = s->gauges->n;
    if (*has)
        return QN_OK;
    QN_TRY(qn_gauges_add(s->gauges, s->options, &channel, rule, path));
    *has = s->gauges->n > n;
    return QN_OK;
}

static bool is_gpu(const char *name) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (qn_text_holds(name, names[i]))
            return true;
    return false;
}

static qn_status add_devfreq(void *context, const char *name, bool is_folder) {
    search *s = context;
    char path[200];
    if (!is_folder || !is_gpu(name))
        return QN_OK;
    snprintf(path, sizeof path, "/sys/class/devfreq/%.100s/device/load", name); /* Jetson */
    QN_TRY(add(s, QN_QUANTITY_UTILISATION, &thousandths, path));
    snprintf(path, sizeof path, "/sys/class/devfreq/%.100s/load", name); /* "12@800000000Hz" */
    QN_TRY(add(s, QN_QUANTITY_UTILISATION, &hundredths, path));
    snprintf(path, sizeof path, "/sys/class/devfreq/%.100s/cur_freq", name);
    return add(s, QN_QUANTITY_FREQUENCY, &hertz, path);
}

static qn_status find_all(search *s) {
    char folder[240];
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        QN_TRY(add(s, QN_QUANTITY_UTILISATION, places[i].rule, places[i].path));
    snprintf(folder, sizeof folder, "%.200s/sys/class/devfreq", s->options->root);
    if (qn_folder_list(s->options->allocator, folder, add_devfreq, s) == QN_ERROR_MEMORY)
        return QN_ERROR_MEMORY;
    QN_TRY(add(s, QN_QUANTITY_FREQUENCY, &hertz, "/sys/class/kgsl/kgsl-3d0/devfreq/cur_freq"));
    return add(s, QN_QUANTITY_FREQUENCY, &hertz, "/sys/class/kgsl/kgsl-3d0/gpuclk");
}

static qn_status gpu_load_open(const qn_source_options *options, void **source) {
    search s = {.options = options};
    QN_TRY(qn_gauges_create(options, "gpu-load", &s.gauges));
    const qn_status status = find_all(&s);
    if (status != QN_OK) {
        qn_gauges_close(s.gauges);
        return status;
    }
    *source = qn_gauges_take(s.gauges);
    return QN_OK;
}

const qn_source_kind qn_source_gpu_load = {.name = "gpu-load",
                                           .about = "load and frequency of a GPU (devfreq, Jetson, "
                                                    "Adreno, Mali)",
                                           .period_ns = 10000000,
                                           .is_slow = true,
                                           .open = gpu_load_open,
                                           .channels = qn_gauges_channels,
                                           .read = qn_gauges_read,
                                           .close = qn_gauges_close};
