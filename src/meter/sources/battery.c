/* Power drawn from the battery (power_supply), which is that of the whole system while nothing else
 * supplies it. Drivers differ in the sign of the current, so the status says whether the battery
 * discharges. While it does not, or a charger is connected, there is no reading, since the system's
 * own power is unknown. If no battery discharges at first, there is no source. Several batteries
 * are added up. */
#include "meter/sources/rails.h"

#include "base/memory.h"
#include "base/status.h"
#include "os/os.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SUPPLIES "/sys/class/power_supply"

static const char source_name[] = "battery";

enum { MOST_SUPPLIES = 8 };

/* An awake device takes more than this. */
static const double least_watts = 0.02;

/* What a battery tells, in the order in which it is preferred. */
typedef enum way { WAY_POWER, WAY_CURRENT, WAY_ENERGY, WAY_CHARGE, WAY_NONE } way;

typedef struct supply {
    char name[40];
    qn_sensor status, volts;
    qn_sensor value; /* power, current, energy or charge; of a charger: whether it is on */
    way way;
    qn_energy counter;
    int sign; /* of the last power or current */
} supply;

/*     either every battery is of WAY_POWER or WAY_CURRENT, or there is one */
typedef struct battery {
    const qn_allocator *allocator;
    qn_speaker speaker;
    qn_channel channel;
    qn_power_gauge gauge;
    bool has_doubted; /* a power too small to be one */
    int n_batteries, n_chargers;
    supply batteries[MOST_SUPPLIES], chargers[MOST_SUPPLIES];
} battery;

/* ---- finding ---- */

static bool open_file(const qn_source_options *options, const char *entry, const char *name,
                      qn_sensor *sensor) {
    return qn_sensor_open(options, source_name, sensor, SUPPLIES "/%s/%s", entry, name);
}

static void close_supply(supply *s) {
    qn_sensor_close(&s->status);
    qn_sensor_close(&s->volts);
    qn_sensor_close(&s->value);
}

/* Opens the best that there is. */
static way open_value(const qn_source_options *options, const char *entry, supply *s) {
    if (open_file(options, entry, "power_now", &s->value))
        return WAY_POWER;
    const bool has_volts = open_file(options, entry, "voltage_now", &s->volts);
    if (has_volts && open_file(options, entry, "current_now", &s->value))
        return WAY_CURRENT;
    if (open_file(options, entry, "energy_now", &s->value))
        return WAY_ENERGY;
    if (has_volts && (open_file(options, entry, "charge_now", &s->value) ||
                      open_file(options, entry, "charge_counter", &s->value)))
        return WAY_CHARGE;
    return WAY_NONE;
}

static bool open_battery(const qn_source_options *options, const char *entry, supply *s) {
    s->counter = (qn_energy){.unit_j = 3.6e-3, .is_coarse = true}; /* of a millionth of an hour */
    if (!open_file(options, entry, "status", &s->status))
        return false;
    s->way = open_value(options, entry, s);
    return s->way != WAY_NONE;
}

typedef struct search {
    const qn_source_options *options;
    battery *battery;
} search;

/* "" where there is no such file. */
static void read_text(const search *s, const char *entry, const char *name, char text[32]) {
    char path[512];
    snprintf(path, sizeof path, "%s" SUPPLIES "/%s/%s", s->options->root, entry, name);
    if (!qn_path_is_there(path) || qn_probe_text_at(path, text, 32) != QN_OK)
        text[0] = 0;
}

static qn_status visit(void *context, const char *entry, bool is_folder) {
    search *s = context;
    battery *b = s->battery;
    char type[32], scope[32], present[32];
    read_text(s, entry, "type", type);
    read_text(s, entry, "scope", scope);
    read_text(s, entry, "present", present);
    if (!is_folder || strcmp(scope, "Device") == 0 || strcmp(present, "0") == 0)
        return QN_OK;
    const bool is_battery = strcmp(type, "Battery") == 0;
    supply found = {.sign = 0};
    snprintf(found.name, sizeof found.name, "%s", entry);
    if (is_battery && b->n_batteries < MOST_SUPPLIES && open_battery(s->options, entry, &found))
        b->batteries[b->n_batteries++] = found;
    else if (!is_battery && b->n_chargers < MOST_SUPPLIES &&
             open_file(s->options, entry, "online", &found.value))
        b->chargers[b->n_chargers++] = found;
    else
        close_supply(&found);
    return QN_OK;
}

/* Those that tell of the moment, or, where none does, the first: steps of several counters do not
 * fall together. */
static void choose(battery *b) {
    supply chosen[MOST_SUPPLIES];
    int n = 0;
    for (int i = 0; i < b->n_batteries; i++) {
        if (b->batteries[i].way <= WAY_CURRENT)
            chosen[n++] = b->batteries[i];
    }
    if (n == 0 && b->n_batteries > 0)
        chosen[n++] = b->batteries[0];
    for (int i = 0; i < b->n_batteries; i++) {
        bool is_chosen = false;
        for (int k = 0; k < n; k++)
            is_chosen = is_chosen || strcmp(chosen[k].name, b->batteries[i].name) == 0;
        if (!is_chosen)
            close_supply(&b->batteries[i]);
    }
    memcpy(b->batteries, chosen, sizeof chosen[0] * (size_t)n);
    b->n_batteries = n;
}

/* ---- reading ---- */

static void forget(battery *b) {
    b->gauge.is_known = false;
    for (int i = 0; i < b->n_batteries; i++) {
        b->batteries[i].counter.is_known = false;
        b->batteries[i].sign = 0;
    }
}

static void say_unplug(const battery *b, const char *name, const char *state) {
    qn_speaker_say(
        &b->speaker,
        "%s: %.20s; power is measurable only while the device runs on battery alone: unplug it",
        name, state);
}

/* Which batteries feed the device (bits by number); 0 also where one is charged. */
static unsigned find_discharging(battery *b, int64_t now_ns) {
    unsigned found = 0;
    char text[32], other[32] = "";
    const char *name = "";
    for (int i = 0; i < b->n_batteries; i++) {
        supply *s = &b->batteries[i];
        if (!qn_sensor_text(&s->status, &b->speaker, now_ns, text, sizeof text))
            return 0;
        if (strcmp(text, "Discharging") == 0) {
            found |= 1U << i;
            continue;
        }
        s->sign = 0;
        if (!other[0] || strcmp(text, "Charging") == 0) {
            memcpy(other, text, sizeof other);
            name = s->name;
        }
    }
    if (found && strcmp(other, "Charging") != 0)
        return found;
    if (other[0])
        say_unplug(b, name, other);
    return 0;
}

static bool is_charger_on(battery *b, int64_t now_ns) {
    for (int i = 0; i < b->n_chargers; i++) {
        int64_t online;
        if (!qn_rails_number(&b->speaker, &b->chargers[i].value, now_ns, &online) || online == 0)
            continue;
        say_unplug(b, b->chargers[i].name, "connected");
        return true;
    }
    return false;
}

/* A current that turns round shows that the status is late. */
static bool has_turned(supply *s, int64_t value) {
    const int before = s->sign;
    s->sign = value > 0 ? 1 : value < 0 ? -1 : before;
    return before != 0 && s->sign != before;
}

/* Watts that a battery gives now. */
static bool read_watts(battery *b, supply *s, int64_t now_ns, double *watts) {
    int64_t value, volts = 1000000;
    if (s->way == WAY_CURRENT && !qn_rails_number(&b->speaker, &s->volts, now_ns, &volts))
        return false;
    if (!qn_rails_number(&b->speaker, &s->value, now_ns, &value) || has_turned(s, value))
        return false;
    *watts = fabs((double)value * (double)volts) * 1e-12;
    return true;
}

/* A power that nothing runs on: the driver may count in thousandths where the interface demands
 * millionths. It is not put right by guessing. */
static bool is_believable(battery *b, double watts) {
    if (watts >= least_watts)
        return true;
    if (watts > 0 && !b->has_doubted)
        qn_speaker_say(&b->speaker,
                       "%s: %.3g W is too low for a running device; its driver may not count in "
                       "microvolts and microamperes, so it is ignored",
                       b->channel.name, watts);
    b->has_doubted = b->has_doubted || watts > 0;
    return false;
}

static void read_gauges(battery *b, unsigned discharging, int64_t now_ns, qn_reading *reading) {
    double sum = 0, watts;
    bool is_known = true;
    for (int i = 0; i < b->n_batteries; i++) {
        if (!(discharging >> i & 1))
            continue;
        is_known = read_watts(b, &b->batteries[i], now_ns, &watts) && is_known;
        sum += is_known ? watts : 0;
    }
    if (is_known && is_believable(b, sum))
        qn_power_gauge_add(&b->gauge, now_ns, sum, reading);
    else
        b->gauge.is_known = false;
}

static void read_counter(battery *b, int64_t now_ns, qn_reading *reading) {
    supply *s = &b->batteries[0];
    int64_t count, volts = 1000000;
    if (!qn_rails_number(&b->speaker, &s->value, now_ns, &count) || count < 0 ||
        (s->way == WAY_CHARGE && !qn_rails_number(&b->speaker, &s->volts, now_ns, &volts))) {
        s->counter.is_known = false;
        return;
    }
    /* What is left falls; what was taken rises. */
    if (qn_energy_add(&s->counter, now_ns, -count, reading))
        reading->value *= (double)volts * 1e-6;
}

static void battery_read(void *source, int64_t now_ns, qn_reading *readings) {
    battery *b = source;
    const unsigned discharging = is_charger_on(b, now_ns) ? 0 : find_discharging(b, now_ns);
    if (discharging == 0)
        forget(b);
    else if (b->batteries[0].way <= WAY_CURRENT)
        read_gauges(b, discharging, now_ns, readings);
    else
        read_counter(b, now_ns, readings);
}

static void battery_close(void *source) {
    battery *b = source;
    for (int i = 0; i < b->n_batteries; i++)
        close_supply(&b->batteries[i]);
    for (int i = 0; i < b->n_chargers; i++)
        close_supply(&b->chargers[i]);
    qn_release(b->allocator, b, 1, sizeof *b);
}

static qn_status find_supplies(const qn_source_options *options, battery *b) {
    search s = {options, b};
    char path[512];
    snprintf(path, sizeof path, "%s" SUPPLIES, options->root);
    if (!qn_path_is_folder(path))
        return QN_OK;
    const qn_status status = qn_folder_list(options->allocator, path, visit, &s);
    if (status == QN_ERROR_IO)
        qn_speaker_say(&b->speaker, "%s", qn_error_message());
    return status == QN_ERROR_IO ? QN_OK : status;
}

static qn_status battery_open(const qn_source_options *options, void **source) {
    battery *b;
    *source = NULL;
    QN_TRY(qn_allocate(options->allocator, 1, sizeof *b, &b));
    b->allocator = options->allocator;
    b->speaker = qn_speaker_of(options, source_name);
    const qn_status status = find_supplies(options, b);
    choose(b);
    const int64_t now_ns = qn_clock_ns();
    if (status != QN_OK || b->n_batteries == 0 || is_charger_on(b, now_ns) ||
        find_discharging(b, now_ns) == 0) {
        battery_close(b);
        return status;
    }
    b->channel = (qn_channel){
        .source = source_name, .quantity = QN_QUANTITY_POWER, .part = QN_PART_SYSTEM, .inside = -1};
    snprintf(b->channel.name, sizeof b->channel.name, "%s",
             b->n_batteries == 1 ? b->batteries[0].name : "batteries");
    *source = b;
    return QN_OK;
}

static const qn_channel *battery_channels(const void *source, int *n) {
    *n = 1;
    return &((const battery *)source)->channel;
}

const qn_source_kind qn_source_battery = {
    .name = source_name,
    .about = "batteries in " SUPPLIES ", while they discharge",
    .period_ns = 500000000,
    .is_slow = true,
    .open = battery_open,
    .channels = battery_channels,
    .read = battery_read,
    .close = battery_close,
};
