/* Energy counters of Intel's and AMD's processors (RAPL) from the kernel's powercap files:
 * packages, and in them cores and graphics; memory; the platform (psys). intel-rapl-mmio reports
 * the same zones again; its zones are read only if the first are missing. */
#include "meter/sources/rails.h"

#include "base/status.h"
#include "os/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POWERCAP "/sys/class/powercap"

static const char source_name[] = "rapl";

typedef struct search {
    qn_source_options *options; /* say is null once a zone could not be read: the next fail alike */
    qn_rails *rails;
    const char *prefix; /* of zones' folders: "intel-rapl:" */
    char parent[32];    /* name of the zone that the next one's folder may be within: "package-0" */
    int parent_rail;    /* or -1 */
} search;

static const struct {
    const char *name;
    qn_part part;
    bool is_inside; /* of the package: it is counted there, too. Memory is not */
} zones[] = {
    {"package", QN_PART_CPU, false}, {"core", QN_PART_CPU, true},     {"uncore", QN_PART_GPU, true},
    {"dram", QN_PART_MEMORY, false}, {"psys", QN_PART_SYSTEM, false},
};

enum { N_ZONES = sizeof zones / sizeof zones[0] };

/* "core" of "package-0" is "core-0". */
static void describe(const search *s, const char *name, bool is_child, qn_channel *channel) {
    const char *number = strchr(s->parent, '-');
    *channel = (qn_channel){.part = QN_PART_OTHER, .inside = -1};
    for (int i = 0; i < N_ZONES; i++) {
        if (strncmp(name, zones[i].name, strlen(zones[i].name)) != 0)
            continue;
        channel->part = zones[i].part;
        if (is_child && zones[i].is_inside)
            channel->inside = s->parent_rail;
    }
    snprintf(channel->name, sizeof channel->name, "%.20s%s", name,
             is_child && number ? number : "");
    const char *dash = strchr(channel->name, '-');
    channel->index = dash ? (int32_t)strtol(dash + 1, NULL, 10) : 0;
}

static qn_status add_zone(search *s, const char *folder) {
    const bool is_child = strchr(folder + strlen(s->prefix), ':') != NULL;
    char path[512], name[32];
    qn_channel channel;
    /* A recorded counter stands still, which is no power of 0. */
    qn_rail rail = {.kind = QN_RAIL_ENERGY,
                    .energy = {.unit_j = 1e-6, .is_coarse = s->options->is_recorded}};
    snprintf(path, sizeof path, "%s" POWERCAP "/%s/name", s->options->root, folder);
    if (qn_probe_text_at(path, name, sizeof name) != QN_OK)
        return QN_OK;
    describe(s, name, is_child, &channel);
    if (!is_child) {
        memcpy(s->parent, name, sizeof name);
        s->parent_rail = -1;
    }
    if (!qn_sensor_open(s->options, source_name, &rail.sensor, POWERCAP "/%s/energy_uj", folder)) {
        s->options->say = NULL;
        return QN_OK;
    }
    snprintf(path, sizeof path, "%s" POWERCAP "/%s/max_energy_range_uj", s->options->root, folder);
    if (qn_probe_number_at(path, &rail.energy.range) != QN_OK || rail.energy.range < 0)
        rail.energy.range = 0;
    QN_TRY(qn_rails_add(s->rails, &channel, &rail));
    if (!is_child)
        s->parent_rail = s->rails->n - 1;
    return QN_OK;
}

static qn_status visit(void *context, const char *folder, bool is_folder) {
    search *s = context;
    if (!is_folder || strncmp(folder, s->prefix, strlen(s->prefix)) != 0)
        return QN_OK;
    return add_zone(s, folder);
}

/* ---- the platform ---- */

/* A board that does not wire psys shows a counter that stands still, while the package's goes on:
 * it steps every millisecond. */
static bool stands_still(qn_rails *rails, int psys) {
    enum { MOST_WAIT_NS = 50000000 };
    const int64_t end_ns = qn_clock_ns() + MOST_WAIT_NS;
    int64_t before[2], after[2];
    bool is_known = qn_rails_number(&rails->speaker, &rails->rails[psys].sensor, 0, &before[0]) &&
                    qn_rails_number(&rails->speaker, &rails->rails[0].sensor, 0, &before[1]);
    do {
        is_known = is_known &&
                   qn_rails_number(&rails->speaker, &rails->rails[psys].sensor, 0, &after[0]) &&
                   qn_rails_number(&rails->speaker, &rails->rails[0].sensor, 0, &after[1]);
    } while (is_known && after[0] == before[0] && qn_clock_ns() < end_ns);
    return is_known && after[0] == before[0] && after[1] != before[1];
}

/* Puts all that is no part of another into the platform, or takes the platform away where it is not
 * measured. */
static void settle_platform(search *s) {
    qn_rails *rails = s->rails;
    const int psys = qn_rails_find(rails, "psys");
    if (psys <= 0)
        return;
    if (!s->options->is_recorded && stands_still(rails, psys)) {
        qn_speaker_say(&rails->speaker, "psys: its counter does not change, so this board does not "
                                        "measure the whole platform; packages and memory are read");
        qn_rails_remove(rails, psys);
        return;
    }
    for (int i = 0; i < rails->n; i++) {
        if (i != psys && rails->channels[i].inside < 0)
            rails->channels[i].inside = psys;
    }
}

static qn_status find_zones(qn_source_options *options, const char *prefix, qn_rails *rails) {
    search s = {options, rails, prefix, "", -1};
    char path[512];
    snprintf(path, sizeof path, "%s" POWERCAP, options->root);
    if (rails->n > 0 || !qn_path_is_folder(path))
        return QN_OK;
    QN_TRY(qn_folder_list(options->allocator, path, visit, &s));
    settle_platform(&s);
    return QN_OK;
}

static qn_status rapl_open(const qn_source_options *options, void **source) {
    qn_source_options own = *options;
    qn_rails *rails;
    *source = NULL;
    QN_TRY(qn_rails_create(options, source_name, &rails));
    qn_status status = find_zones(&own, "intel-rapl:", rails);
    if (status == QN_OK)
        status = find_zones(&own, "intel-rapl-mmio:", rails);
    return qn_rails_finish(rails, status, source);
}

const qn_source_kind qn_source_rapl = {
    .name = source_name,
    .about = "energy counters of Intel and AMD processors in " POWERCAP,
    .period_ns = 1000000,
    .open = rapl_open,
    .channels = qn_rails_channels,
    .read = qn_rails_read,
    .close = qn_rails_close,
};
