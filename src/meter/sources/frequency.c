/* Frequency of each core, as set by its driver (or, on some processors, averaged since the last
 * query). A driver may be slow. Cores that are switched off have none. */
#include "base/memory.h"
#include "base/status.h"
#include "meter/sources/gauges.h"
#include "os/os.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Kilohertz. */
static const qn_gauge_rule kilohertz = {.scale = 1e3, .least = 1e6, .most = 2e10};

typedef struct search {
    const qn_source_options *options;
    qn_gauges *gauges;
} search;

/* cpu0, cpu1, ...; cpufreq, cpuidle and other names lie beside them. */
static qn_status add_core(void *context, const char *name, bool is_folder) {
    const search *s = context;
    char path[160];
    if (!is_folder || strncmp(name, "cpu", 3) != 0 || !isdigit((unsigned char)name[3]))
        return QN_OK;
    qn_channel channel = {
        .quantity = QN_QUANTITY_FREQUENCY, .part = QN_PART_CORE, .index = atoi(name + 3)};
    snprintf(channel.name, sizeof channel.name, "cpu%d", channel.index);
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq",
             channel.index);
    return qn_gauges_add(s->gauges, s->options, &channel, &kilohertz, path);
}

static qn_status frequency_open(const qn_source_options *options, void **source) {
    char folder[240];
    search s = {.options = options};
    QN_TRY(qn_gauges_create(options, "frequency", &s.gauges));
    snprintf(folder, sizeof folder, "%s/sys/devices/system/cpu", options->root);
    const qn_status status = qn_folder_list(options->allocator, folder, add_core, &s);
    if (status == QN_ERROR_MEMORY) {
        qn_gauges_close(s.gauges);
        return status;
    }
    if (s.gauges->n == 0)
        qn_speaker_say(
            &s.gauges->speaker,
            "%s/cpu0/cpufreq: not found; frequencies are unknown (virtual machines seldom have it)",
            folder);
    *source = qn_gauges_take(s.gauges);
    return QN_OK;
}

const qn_source_kind qn_source_frequency = {.name = "frequency",
                                            .about = "frequency of each core",
                                            .period_ns = 10000000,
                                            .is_slow = true,
                                            .open = frequency_open,
                                            .channels = qn_gauges_channels,
                                            .read = qn_gauges_read,
                                            .close = qn_gauges_close};
