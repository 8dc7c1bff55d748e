/* See senses.h. Formats are the kernel's (Documentation/ABI/testing/sysfs-class-power,
 * Documentation/accounting/psi.rst, proc_loadavg(5), proc_meminfo(5)). */
#include "learn/senses/senses.h"

#include "base/decimal.h"
#include "base/memory.h"
#include "base/status.h"
#include "learn/senses/logind.h"
#include "meter/sources/sources.h"
#include "os/heap.h"
#include "os/os.h"
#include "os/probe.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH = 320, TEXT = 64 };

static const double skin_limit = 38, processor_limit = 65;
/* Zones that say more have a constant behind them. */
static const double most_celsius = 99;

typedef struct search {
    const char *root;
    double lowest_percent;              /* of the batteries; NaN: none */
    bool has_external, has_discharging; /* supplies that are on; a battery that feeds the device */
    double battery_celsius;             /* hottest; NaN: unknown */
    double processor_celsius, any_celsius; /* hottest zone; NaN: unknown */
    int64_t used_ns;                       /* last time at a terminal; 0: unknown */
} search;

/* Of a power supply; "" where there is no such file. */
static void read_at(const search *s, const char *entry, const char *name, char text[TEXT]) {
    char path[PATH];
    snprintf(path, sizeof path, "%.150s/sys/class/power_supply/%.60s/%.30s", s->root, entry, name);
    if (!qn_path_is_there(path) || qn_probe_text_at(path, text, TEXT) != QN_OK)
        text[0] = 0;
}

/* NaN where the file says nothing, or what cannot be. */
static double number_at(const search *s, const char *entry, const char *name, double least,
                        double most) {
    char text[TEXT];
    double value;
    read_at(s, entry, name, text);
    const bool is_number = text[0] && qn_decimal_parse(text, &value);
    return is_number && value >= least && value <= most ? value : (double)NAN;
}

/* Where one of two numbers is NaN, fmin and fmax give the other. */
static qn_status visit_supply(void *context, const char *entry, bool is_folder) {
    search *s = context;
    char type[TEXT], status[TEXT], scope[TEXT];
    read_at(s, entry, "type", type);
    read_at(s, entry, "scope", scope);
    if (!is_folder || strcmp(scope, "Device") == 0 || number_at(s, entry, "present", 0, 0) == 0)
        return QN_OK;
    if (strcmp(type, "Battery") != 0) {
        s->has_external = s->has_external || number_at(s, entry, "online", 1, 9) > 0;
        return QN_OK;
    }
    read_at(s, entry, "status", status);
    s->has_discharging = s->has_discharging || strcmp(status, "Discharging") == 0;
    s->has_external = s->has_external || strcmp(status, "Charging") == 0;
    s->lowest_percent = fmin(s->lowest_percent, number_at(s, entry, "capacity", 0, 100));
    s->battery_celsius = fmax(s->battery_celsius, number_at(s, entry, "temp", -500, 1200) / 10);
    return QN_OK;
}

static void say_nothing(void *user, const char *source, const char *text) {
    (void)user, (void)source, (void)text;
}

/* What the meter's source of thermal zones reads now. */
static qn_status read_zones(const qn_senses_options *o, search *s) {
    const qn_source_kind *kind = &qn_source_thermal;
    const qn_source_options options = {.allocator = o->allocator,
                                       .root = s->root,
                                       .is_recorded = s->root[0] != 0,
                                       .say = say_nothing};
    void *source;
    qn_reading *readings;
    int n;
    QN_TRY(kind->open(&options, &source));
    if (!source)
        return QN_OK;
    const qn_channel *channels = kind->channels(source, &n);
    const qn_status status = qn_allocate(o->allocator, (size_t)n, sizeof *readings, &readings);
    if (status == QN_OK)
        kind->read(source, qn_clock_ns(), readings);
    for (int i = 0; status == QN_OK && i < n; i++) {
        const double celsius = readings[i].value;
        if (readings[i].end_ns == 0 || celsius > most_celsius)
            continue;
        if (channels[i].part == QN_PART_CPU || channels[i].part == QN_PART_SOC)
            s->processor_celsius = fmax(s->processor_celsius, celsius);
        s->any_celsius = fmax(s->any_celsius, celsius);
    }
    if (status == QN_OK)
        qn_release(o->allocator, readings, (size_t)n, sizeof *readings);
    kind->close(source);
    return status;
}

static qn_status visit_terminal(void *context, const char *entry, bool is_folder) {
    search *s = context;
    char path[PATH];
    (void)is_folder;
    if (!isdigit((unsigned char)entry[0]))
        return QN_OK;
    snprintf(path, sizeof path, "/dev/pts/%.60s", entry);
    const int64_t ns = qn_file_accessed_ns(path);
    s->used_ns = ns > s->used_ns ? ns : s->used_ns;
    return QN_OK;
}

/* A folder that is not there has nothing in it; only memory can fail. */
static qn_status list(const qn_senses_options *o, search *s, const char *folder,
                      qn_status (*visit)(void *, const char *, bool)) {
    char path[PATH];
    snprintf(path, sizeof path, "%.250s%s", s->root, folder);
    if (!qn_path_is_folder(path))
        return QN_OK;
    const qn_status status = qn_folder_list(o->allocator, path, visit, s);
    return status == QN_ERROR_MEMORY ? status : QN_OK;
}

/* ---- files with several numbers ---- */

/* The number that follows word, in a file with lines; NaN: there is none. */
static double number_after(const search *s, const char *file, const char *word) {
    char path[PATH], text[4096], digits[32];
    double value;
    snprintf(path, sizeof path, "%.250s%s", s->root, file);
    if (!qn_path_is_there(path) || qn_probe_text_at(path, text, sizeof text) != QN_OK)
        return (double)NAN;
    const char *at = strstr(text, word);
    if (!at)
        return (double)NAN;
    at += strlen(word);
    at += strspn(at, " \t");
    snprintf(digits, sizeof digits, "%.*s", (int)strspn(at, "0123456789."), at);
    return qn_decimal_parse(digits, &value) && value < 1e15 ? value : (double)NAN;
}

/* Cores of a recorded tree are those of its /proc/stat. */
static int count_cores(const search *s) {
    char word[24];
    int n = 0;
    if (!s->root[0])
        return qn_cpu_count();
    do
        snprintf(word, sizeof word, "cpu%d ", n);
    while (!isnan(number_after(s, "/proc/stat", word)) && ++n < 1024);
    return n > 0 ? n : 1;
}

static double idle_minutes(const search *s) {
    if (s->used_ns == 0)
        return (double)NAN;
    const qn_clock_offset real = qn_clock_compare(QN_CLOCK_REALTIME);
    return fmax((double)(qn_clock_ns() + real.offset_ns - s->used_ns) / 60e9, 0);
}

qn_status qn_senses_read(const qn_senses_options *options, qn_moment *m, double *cool_celsius) {
    const double nan = (double)NAN;
    search s = {options->root ? options->root : "", nan, false, false, nan, nan, nan, 0};
    qn_senses_options o = {qn_allocator_or_default(options->allocator), s.root};
    QN_TRY(list(&o, &s, "/sys/class/power_supply", visit_supply));
    QN_TRY(read_zones(&o, &s));
    if (!s.root[0])
        QN_TRY(list(&o, &s, "/dev/pts", visit_terminal));
    const bool has_battery = !isnan(s.lowest_percent);
    const double processor = isnan(s.processor_celsius) ? s.any_celsius : s.processor_celsius;
    double *sense = m->sense;
    m->second = qn_clock_local_second();
    sense[QN_SENSE_HOUR] = (double)(m->second % QN_DAY_SECONDS / 60) / 60; /* whole minutes */
    sense[QN_SENSE_IDLE] = idle_minutes(&s);
    if (!s.root[0]) /* the least of both; one that is not known says nothing */
        sense[QN_SENSE_IDLE] = fmin(sense[QN_SENSE_IDLE], qn_logind_idle_minutes());
    sense[QN_SENSE_BATTERY] = s.lowest_percent;
    sense[QN_SENSE_CHARGING] = has_battery ? s.has_external || !s.has_discharging : nan;
    sense[QN_SENSE_CELSIUS] = isnan(s.battery_celsius) ? processor : s.battery_celsius;
    sense[QN_SENSE_LOAD] = number_after(&s, "/proc/loadavg", "") / count_cores(&s);
    sense[QN_SENSE_STALL] = number_after(&s, "/proc/pressure/memory", "some avg10=");
    sense[QN_SENSE_MEMORY] = number_after(&s, "/proc/meminfo", "MemAvailable:") / 1024;
    *cool_celsius = isnan(s.battery_celsius) ? processor_limit : skin_limit;
    return QN_OK;
}

double qn_senses_idle(void) {
    search s = {.root = ""};
    const qn_senses_options o = {qn_allocator_default(), ""};
    if (list(&o, &s, "/dev/pts", visit_terminal) != QN_OK)
        return 0;
    return idle_minutes(&s);
}
