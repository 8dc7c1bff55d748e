/* Temperatures of the kernel's thermal zones, named by the type of the zone. Zones whose type names
 * the processor or the GPU are taken to be theirs. */
#define _GNU_SOURCE

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "meter/sources/gauges.h"
#include "os/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Thousandths of a degree. Sensors that are not connected say 0, or less than is possible. */
static const qn_gauge_rule thousandths = {.scale = 1e-3, .least = 1, .most = 150};

typedef struct search {
    const qn_source_options *options;
    qn_gauges *gauges;
} search;

static qn_part part_of(const char *type) {
    static const struct {
        const char *word;
        qn_part part;
    } parts[] = {{"cpu", QN_PART_CPU}, {"x86_pkg", QN_PART_CPU}, {"coretemp", QN_PART_CPU},
                 {"gpu", QN_PART_GPU}, {"ddr", QN_PART_MEMORY},  {"soc", QN_PART_SOC}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (qn_text_holds(type, parts[i].word))
            return parts[i].part;
    return QN_PART_OTHER;
}

static qn_status add_zone(void *context, const char *name, bool is_folder) {
    const search *s = context;
    char path[240], type[64];
    int zone;
    if (!is_folder || sscanf(name, "thermal_zone%d", &zone) != 1)
        return QN_OK;
    snprintf(path, sizeof path, "%.180s/sys/class/thermal/%.30s/type", s->options->root, name);
    if (qn_probe_text_at(path, type, sizeof type) != QN_OK || !type[0])
        snprintf(type, sizeof type, "zone-%d", zone);
    qn_channel channel = {
        .quantity = QN_QUANTITY_TEMPERATURE, .part = part_of(type), .index = zone};
    snprintf(channel.name, sizeof channel.name, "%.40s", type);
    snprintf(path, sizeof path, "/sys/class/thermal/%.30s/temp", name);
    return qn_gauges_add(s->gauges, s->options, &channel, &thousandths, path);
}

static qn_status thermal_open(const qn_source_options *options, void **source) {
    char folder[240];
    search s = {.options = options};
    QN_TRY(qn_gauges_create(options, "thermal", &s.gauges));
    snprintf(folder, sizeof folder, "%.200s/sys/class/thermal", options->root);
    const qn_status status = qn_folder_list(options->allocator, folder, add_zone, &s);
    if (status == QN_ERROR_MEMORY) {
        qn_gauges_close(s.gauges);
        return status;
    }
    if (s.gauges->n == 0)
        qn_speaker_say(&s.gauges->speaker, "%s: no thermal zones found; temperatures are unknown",
                       folder);
    *source = qn_gauges_take(s.gauges);
    return QN_OK;
}

const qn_source_kind qn_source_thermal = {.name = "thermal",
                                          .about = "temperatures of thermal zones",
                                          .period_ns = 500000000,
                                          .is_slow = true,
                                          .open = thermal_open,
                                          .channels = qn_gauges_channels,
                                          .read = qn_gauges_read,
                                          .close = qn_gauges_close};
