/* Power sensors of other hwmon chips: powerN_input and powerN_average in microwatts, energyN_input
 * in microjoules. Chips with their own source are skipped: Jetson's rails, and batteries, which the
 * kernel also shows as hwmon chips. */
#include "meter/sources/rails.h"

#include "base/status.h"
#include "os/os.h"

#include <stdio.h>
#include <string.h>

#define HWMON "/sys/class/hwmon"

static const char source_name[] = "hwmon";

/* What chips measure, by the driver's name; others are OTHER. */
static const struct {
    const char *name;
    qn_part part;
} chips[] = {
    {"power_meter", QN_PART_SYSTEM}, /* ACPI: the machine's input */
    {"amdgpu", QN_PART_GPU},         {"nouveau", QN_PART_GPU},
    {"i915", QN_PART_GPU},           {"xe", QN_PART_GPU},
    {"fam15h_power", QN_PART_CPU},   {"zenpower", QN_PART_CPU},
};

typedef struct search {
    const qn_source_options *options;
    qn_rails *rails;
    char folder[256], chip[32];
} search;

static qn_part part_of(const char *chip) {
    for (size_t i = 0; i < sizeof chips / sizeof chips[0]; i++) {
        if (strcmp(chips[i].name, chip) == 0)
            return chips[i].part;
    }
    return QN_PART_OTHER;
}

/* Chips' names have '_' where batteries' have '-'. */
static qn_status is_battery(void *context, const char *entry, bool is_folder) {
    char name[64];
    (void)is_folder;
    snprintf(name, sizeof name, "%s", entry);
    for (char *at = name; *at; at++)
        *at = *at == '-' ? '_' : *at;
    return strcmp(name, context) == 0 ? QN_ERROR_INTERRUPTED : QN_OK;
}

static bool is_others(const search *s) {
    char path[512], chip[32];
    memcpy(chip, s->chip, sizeof chip);
    if (strcmp(chip, "ina3221") == 0)
        return true;
    snprintf(path, sizeof path, "%s/sys/class/power_supply", s->options->root);
    return qn_path_is_folder(path) &&
           qn_folder_list(s->options->allocator, path, is_battery, chip) == QN_ERROR_INTERRUPTED;
}

/* "amdgpu PPT", "ina226", "ina226 power2" */
static void name_channel(const search *s, const char *kind, int number, qn_channel *channel) {
    char path[512], label[40];
    snprintf(path, sizeof path, "%s%s/%s%d_label", s->options->root, s->folder, kind, number);
    *channel = (qn_channel){.part = part_of(s->chip), .inside = -1};
    if (qn_path_is_there(path) && qn_probe_text_at(path, label, sizeof label) == QN_OK && label[0])
        snprintf(channel->name, sizeof channel->name, "%.20s %.26s", s->chip, label);
    else if (number == 1)
        snprintf(channel->name, sizeof channel->name, "%s", s->chip);
    else
        snprintf(channel->name, sizeof channel->name, "%s %s%d", s->chip, kind, number);
}

/* Input 1 to 8 of a chip, by the best of its files. */
static qn_status add_input(search *s, int number) {
    static const char *const files[] = {"power%d_input", "power%d_average"};
    qn_rail rail = {.kind = QN_RAIL_WATTS, .unit_w = 1e-6};
    qn_channel channel;
    char name[32];
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(name, sizeof name, files[i], number);
        if (qn_sensor_open(s->options, source_name, &rail.sensor, "%s/%s", s->folder, name)) {
            name_channel(s, "power", number, &channel);
            return qn_rails_add(s->rails, &channel, &rail);
        }
    }
    return QN_OK;
}

/* A counter where a chip shows no power: it has 64 bits. A graphics card's first is the whole card.
 */
static qn_status add_counter(search *s, int number) {
    qn_rail rail = {.kind = QN_RAIL_ENERGY, .energy = {.unit_j = 1e-6, .is_coarse = true}};
    qn_channel channel;
    if (!qn_sensor_open(s->options, source_name, &rail.sensor, "%s/energy%d_input", s->folder,
                        number))
        return QN_OK;
    name_channel(s, "energy", number, &channel);
    return qn_rails_add(s->rails, &channel, &rail);
}

static qn_status visit(void *context, const char *entry, bool is_folder) {
    enum { MOST_INPUTS = 8 };
    search *s = context;
    char path[512];
    snprintf(s->folder, sizeof s->folder, HWMON "/%s", entry);
    snprintf(path, sizeof path, "%s%s/name", s->options->root, s->folder);
    if (!is_folder || qn_probe_text_at(path, s->chip, sizeof s->chip) != QN_OK || is_others(s))
        return QN_OK;
    const int n_before = s->rails->n;
    for (int number = 1; number <= MOST_INPUTS; number++)
        QN_TRY(add_input(s, number));
    for (int number = 1; number <= MOST_INPUTS && s->rails->n == n_before; number++)
        QN_TRY(add_counter(s, number));
    return QN_OK;
}

static qn_status hwmon_open(const qn_source_options *options, void **source) {
    qn_rails *rails;
    char path[512];
    *source = NULL;
    snprintf(path, sizeof path, "%s" HWMON, options->root);
    if (!qn_path_is_folder(path))
        return QN_OK;
    QN_TRY(qn_rails_create(options, source_name, &rails));
    search s = {.options = options, .rails = rails};
    const qn_status status = qn_folder_list(options->allocator, path, visit, &s);
    return qn_rails_finish(rails, status, source);
}

const qn_source_kind qn_source_hwmon = {
    .name = source_name,
    .about = "power sensors of other chips in " HWMON,
    .period_ns = 20000000,
    .is_slow = true,
    .open = hwmon_open,
    .channels = qn_rails_channels,
    .read = qn_rails_read,
    .close = qn_rails_close,
};
