/* Power rails of NVIDIA's Jetson boards, measured by INA3221 chips: from the kernel's hwmon files
 * (volts and amperes of each input), and from the files of NVIDIA's older kernels (TX2, Xavier,
 * Nano). Rails are assigned to parts of the device by name. */
#include "meter/sources/rails.h"

#include "base/status.h"
#include "os/os.h"

#include <stdio.h>
#include <string.h>

#define HWMON "/sys/class/hwmon"
#define OLDER "/sys/bus/i2c/drivers/ina3221x"

static const char source_name[] = "ina3221";

/* What each rail feeds. A name that is not here is OTHER. The module's input holds all others. */
static const struct {
    const char *name;
    qn_part part;
    const char *inside; /* a rail other than the input that holds this one */
} names[] = {
    {"VDD_IN", QN_PART_SYSTEM, NULL},    /* TX2, Xavier NX, Orin NX, Orin Nano */
    {"POM_5V_IN", QN_PART_SYSTEM, NULL}, /* Nano */
    {"VDD_SYS_GPU", QN_PART_GPU, NULL},  /* TX2 */
    {"VDD_SYS_CPU", QN_PART_CPU, NULL},
    {"VDD_SYS_SOC", QN_PART_SOC, NULL},
    {"VDD_SYS_DDR", QN_PART_MEMORY, NULL},
    {"POM_5V_GPU", QN_PART_GPU, NULL}, /* Nano */
    {"POM_5V_CPU", QN_PART_CPU, NULL},
    {"GPU", QN_PART_GPU, NULL}, /* AGX Xavier: no rail for the whole */
    {"CPU", QN_PART_CPU, NULL},
    {"SOC", QN_PART_SOC, NULL},
    {"VDDRQ", QN_PART_MEMORY, NULL},
    {"VDD_GPU_SOC", QN_PART_GPU, NULL}, /* AGX Orin: GPU and what of the chip shares its supply */
    {"VDD_CPU_CV", QN_PART_CPU, NULL},
    {"VDDQ_VDD2_1V8AO", QN_PART_MEMORY, "VIN_SYS_5V0"},
    {"VDD_SOC", QN_PART_SOC, NULL}, /* Xavier NX, Orin NX; VDD_CPU_GPU_CV there cannot be divided */
};

enum { N_NAMES = sizeof names / sizeof names[0] };

typedef struct search {
    const qn_source_options *options;
    qn_rails *rails;
    const char *chip; /* folder of the older files: "0-0041" */
} search;

static qn_status add_rail(search *s, const char *label, qn_rail *rail) {
    qn_channel channel = {.part = QN_PART_OTHER, .inside = -1};
    snprintf(channel.name, sizeof channel.name, "%s", label);
    for (int i = 0; i < N_NAMES; i++) {
        if (strcmp(names[i].name, label) == 0)
            channel.part = names[i].part;
    }
    return qn_rails_add(s->rails, &channel, rail);
}

/* Inputs that are not connected are called so. */
static bool is_connected(const char *label) {
    return label[0] && strcmp(label, "NC") != 0 && strcmp(label, "<NULL>") != 0;
}

/* Reads the file root + folder + name; "" where there is none. */
static void read_label(const search *s, const char *folder, const char *name, int number,
                       const char *end, char label[48]) {
    char path[512];
    snprintf(path, sizeof path, "%s%s/%s%d%s", s->options->root, folder, name, number, end);
    if (!qn_path_is_there(path) || qn_probe_text_at(path, label, 48) != QN_OK)
        label[0] = 0;
}

/* Opens what measures an input: power, or voltage beside current. unit_w: of one count of power,
 * and of voltage times current. */
static bool open_rail(const search *s, const char *folder, const char *const files[3], int number,
                      const double unit_w[2], qn_rail *rail) {
    *rail = (qn_rail){.kind = QN_RAIL_WATTS, .unit_w = unit_w[0]};
    if (qn_sensor_open(s->options, source_name, &rail->sensor, files[0], folder, number))
        return true;
    *rail = (qn_rail){.kind = QN_RAIL_VOLTS_AMPS, .unit_w = unit_w[1]};
    if (!qn_sensor_open(s->options, source_name, &rail->sensor, files[1], folder, number))
        return false;
    if (qn_sensor_open(s->options, source_name, &rail->amps, files[2], folder, number))
        return true;
    qn_sensor_close(&rail->sensor);
    return false;
}

/* ---- hwmon: in1_label, in1_input in mV, curr1_input in mA; some kernels power1_input in uW ----
 */

static qn_status visit_hwmon(void *context, const char *entry, bool is_folder) {
    static const char *const files[3] = {"%s/power%d_input", "%s/in%d_input", "%s/curr%d_input"};
    static const double unit_w[2] = {1e-6, 1e-6};
    search *s = context;
    char folder[256], path[512], label[48];
    snprintf(folder, sizeof folder, HWMON "/%s", entry);
    snprintf(path, sizeof path, "%s%s/name", s->options->root, folder);
    if (!is_folder || qn_probe_text_at(path, label, sizeof label) != QN_OK ||
        strcmp(label, "ina3221") != 0)
        return QN_OK;
    for (int number = 1; number <= 3; number++) {
        qn_rail rail;
        read_label(s, folder, "in", number, "_label", label);
        if (is_connected(label) && open_rail(s, folder, files, number, unit_w, &rail))
            QN_TRY(add_rail(s, label, &rail));
    }
    return QN_OK;
}

/* ---- NVIDIA's older files: rail_name_0, in_power0_input in mW ---- */

static qn_status visit_device(void *context, const char *entry, bool is_folder) {
    static const char *const files[3] = {"%s/in_power%d_input", "%s/in_voltage%d_input",
                                         "%s/in_current%d_input"};
    static const double unit_w[2] = {1e-3, 1e-6};
    search *s = context;
    char folder[256], label[48];
    if (!is_folder || strncmp(entry, "iio:device", 10) != 0)
        return QN_OK;
    snprintf(folder, sizeof folder, OLDER "/%s/%s", s->chip, entry);
    for (int number = 0; number < 3; number++) {
        qn_rail rail;
        read_label(s, folder, "rail_name_", number, "", label);
        if (is_connected(label) && open_rail(s, folder, files, number, unit_w, &rail))
            QN_TRY(add_rail(s, label, &rail));
    }
    return QN_OK;
}

static qn_status visit_chip(void *context, const char *entry, bool is_folder) {
    search *s = context;
    char path[512];
    if (!is_folder || !strchr(entry, '-'))
        return QN_OK;
    snprintf(path, sizeof path, "%s" OLDER "/%s", s->options->root, entry);
    s->chip = entry;
    return qn_folder_list(s->options->allocator, path, visit_device, s);
}

static qn_status list(search *s, const char *folder,
                      qn_status (*visit)(void *context, const char *entry, bool is_folder)) {
    char path[512];
    snprintf(path, sizeof path, "%s%s", s->options->root, folder);
    if (!qn_path_is_folder(path))
        return QN_OK;
    return qn_folder_list(s->options->allocator, path, visit, s);
}

/* ---- which rail holds which ---- */

static const char *holder(const qn_rails *rails, int i) {
    for (int k = 0; k < N_NAMES; k++) {
        if (strcmp(names[k].name, rails->channels[i].name) == 0)
            return names[k].inside;
    }
    return NULL;
}

/* What a carrier board measures of its own is not within the module. */
static bool is_of_module(const char *name) {
    static const char *const outside[] = {"VDD_MUX",        "VDD_5V0_IO_SYS", "VDD_3V3_SYS",
                                          "VDD_3V3_IO_SLP", "VDD_1V8_IO",     "VDD_3V3_SYS_M2"};
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        if (strcmp(outside[i], name) == 0)
            return false;
    }
    return true;
}

static void nest(qn_rails *rails) {
    int input = -1;
    for (int i = 0; i < rails->n && input < 0; i++) {
        if (rails->channels[i].part == QN_PART_SYSTEM)
            input = i;
    }
    for (int i = 0; i < rails->n; i++) {
        qn_channel *channel = &rails->channels[i];
        const char *in = holder(rails, i);
        if (in)
            channel->inside = qn_rails_find(rails, in);
        else if (i != input && is_of_module(channel->name))
            channel->inside = input;
    }
}

static qn_status ina3221_open(const qn_source_options *options, void **source) {
    qn_rails *rails;
    *source = NULL;
    QN_TRY(qn_rails_create(options, source_name, &rails));
    search s = {options, rails, NULL};
    qn_status status = list(&s, HWMON, visit_hwmon);
    if (status == QN_OK && rails->n == 0)
        status = list(&s, OLDER, visit_chip);
    nest(rails);
    return qn_rails_finish(rails, status, source);
}

const qn_source_kind qn_source_ina3221 = {
    .name = source_name,
    .about = "power rails of Jetson boards in " HWMON " and " OLDER,
    .period_ns = 5000000,
    .is_slow = true,
    .open = ina3221_open,
    .channels = qn_rails_channels,
    .read = qn_rails_read,
    .close = qn_rails_close,
};
