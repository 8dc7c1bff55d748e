/* The kernel's files that say whether a device may learn, with any text in them: parts of the
 * input, between bytes of 255, go to one file each. A sense is unknown, or a number that can be;
 * and a policy never trains beyond the limits that always hold. */
#define _GNU_SOURCE

#include "device_files.h"
#include "learn/senses/senses.h"
#include "os/heap.h"

#include <math.h>
#include <stdint.h>

#define BATTERY "sys/class/power_supply/BAT0/"
#define CHARGER "sys/class/power_supply/AC/"
#define ZONE    "sys/class/thermal/thermal_zone0/"

static const char *const paths[] = {
    BATTERY "type", BATTERY "scope", BATTERY "present",      BATTERY "status", BATTERY "capacity",
    BATTERY "temp", CHARGER "type",  CHARGER "online",       ZONE "type",      ZONE "temp",
    "proc/loadavg", "proc/meminfo",  "proc/pressure/memory", "proc/stat"};

enum { N_PATHS = sizeof paths / sizeof *paths, MOST_PART = 2048 };

static device_files files;

static void remove_files(void) {
    device_files_remove(&files, "");
}

static void put_files(const uint8_t *data, size_t size) {
    size_t at = 0;
    for (int i = 0; i < N_PATHS; i++) {
        size_t n = 0;
        while (at + n < size && data[at + n] != 255 && n < MOST_PART)
            n++;
        if (at < size)
            device_files_put(&files, paths[i], "%.*s", (int)n, (const char *)data + at);
        else
            device_files_remove(&files, paths[i]);
        at += n < size - at ? n + 1 : n;
    }
}

static void check(double value, double least, double most) {
    if (!isnan(value) && !(value >= least && value <= most))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qn_moment m = {0};
    qn_policy p;
    double cool;
    if (!files.root[0]) {
        files = device_files_make();
        atexit(remove_files);
    }
    put_files(data, size);
    const qn_senses_options options = {.root = files.root};
    if (qn_senses_read(&options, &m, &cool) != QN_OK)
        abort();
    check(m.sense[QN_SENSE_BATTERY], 0, 100);
    check(m.sense[QN_SENSE_CHARGING], 0, 1);
    check(m.sense[QN_SENSE_CELSIUS], -50, 120);
    check(m.sense[QN_SENSE_LOAD], 0, 1e15);
    check(m.sense[QN_SENSE_STALL], 0, 1e15);
    check(m.sense[QN_SENSE_MEMORY], 0, 1e15);
    check(m.sense[QN_SENSE_HOUR], 0, 24);
    if (!isnan(m.sense[QN_SENSE_IDLE]) || qn_policy_parse("charging", cool, &p) != QN_OK)
        abort(); /* a recorded tree says nothing of who uses it */
    qn_policy_decide(&p, &m);
    m.second += 7200;
    const qn_decision d = qn_policy_decide(&p, &m);
    check(qn_senses_idle(), 0, 1e12);
    if (d.may_train && (m.sense[QN_SENSE_BATTERY] < 20 || m.sense[QN_SENSE_CELSIUS] > cool + 7.01))
        abort();
    return 0;
}
