/* Batteries: signs of the current, chargers, states, two of them, counters, units that cannot be.
 */
#define _GNU_SOURCE

#include "power_source.h"

#define BATTERY "sys/class/power_supply/BAT0/"

static void put_number(const device_files *files, const char *path, int64_t value) {
    device_files_put(files, path, "%lld\n", (long long)value);
}

static void put_battery(const device_files *files, const char *status, int64_t uv, int64_t ua) {
    device_files_put(files, BATTERY "type", "Battery\n");
    device_files_put(files, BATTERY "status", "%s\n", status);
    put_number(files, BATTERY "voltage_now", uv);
    put_number(files, BATTERY "current_now", ua);
}

static void open_here(power_source *s, const device_files *files) {
    CHECK_OK(power_source_open(s, &qn_source_battery, files->root, (qn_source_options){0}));
}

/* Both conventions of sign give the same power; ends are averaged. */
static void test_signs(int sign) {
    const device_files files = device_files_make();
    power_source s;
    put_battery(&files, "Discharging", 4000000, sign * 500000);
    open_here(&s, &files);
    CHECK(s.n == 1 && s.channels[0].part == QN_PART_SYSTEM && s.n_lines == 0);
    power_source_read(&s, 0);
    CHECK(isnan(power_source_watts(&s, "BAT0")));
    put_number(&files, BATTERY "current_now", sign * 1000000);
    power_source_read(&s, 500);
    CHECK(is_near(power_source_watts(&s, "BAT0"), 3)); /* from 2 to 4 W */
    /* The current turns round before the status does: a charger was plugged in. */
    put_number(&files, BATTERY "current_now", -sign * 900000);
    power_source_read(&s, 1000);
    CHECK(isnan(power_source_watts(&s, "BAT0")));
    device_files_put(&files, BATTERY "status", "Charging\n");
    power_source_read(&s, 1500);
    power_source_read(&s, 2000);
    CHECK(isnan(power_source_watts(&s, "BAT0")));
    CHECK(s.n_lines == 1 && power_source_said(&s, "BAT0: Charging") &&
          power_source_said(&s, "unplug"));
    put_battery(&files, "Discharging", 4000000, sign * 250000);
    power_source_read(&s, 2500);
    CHECK(isnan(power_source_watts(&s, "BAT0")));
    power_source_read(&s, 3000);
    CHECK(is_near(power_source_watts(&s, "BAT0"), 1));
    power_source_close(&s);
    check_failing_memory(&qn_source_battery, files.root, (qn_source_options){0});
    device_files_remove(&files, "");
}

static void test_not_discharging(void) {
    static const char *const states[] = {"Charging", "Full", "Not charging", "Unknown"};
    const device_files files = device_files_make();
    power_source s;
    for (int i = 0; i < 4; i++) {
        put_battery(&files, states[i], 4000000, 500000);
        open_here(&s, &files);
        CHECK(!s.source && s.n_lines == 1 && power_source_said(&s, states[i]));
    }
    put_battery(&files, "Discharging", 4000000, 500000);
    device_files_put(&files, "sys/class/power_supply/usb/type", "USB\n");
    device_files_put(&files, "sys/class/power_supply/usb/online", "1\n");
    open_here(&s, &files); /* too weak a charger: the device takes from both */
    CHECK(!s.source && s.n_lines == 1 && power_source_said(&s, "usb: connected"));
    device_files_put(&files, "sys/class/power_supply/usb/online", "0\n");
    open_here(&s, &files);
    CHECK(s.source && s.n_lines == 0);
    power_source_read(&s, 0);
    device_files_put(&files, "sys/class/power_supply/usb/online", "1\n");
    power_source_read(&s, 500);
    CHECK(isnan(power_source_watts(&s, "BAT0")) && s.n_lines == 1);
    power_source_close(&s);
    device_files_remove(&files, "");
}

/* Two batteries, of which one rests; and that of a mouse, which is none of the device's. */
static void test_two(void) {
    const device_files files = device_files_make();
    power_source s;
    device_files_put(&files, BATTERY "type", "Battery\n");
    device_files_put(&files, BATTERY "status", "Discharging\n");
    put_number(&files, BATTERY "power_now", 7000000);
    device_files_put(&files, "sys/class/power_supply/BAT1/type", "Battery\n");
    device_files_put(&files, "sys/class/power_supply/BAT1/status", "Unknown\n");
    put_number(&files, "sys/class/power_supply/BAT1/power_now", 0);
    device_files_put(&files, "sys/class/power_supply/mouse/type", "Battery\n");
    device_files_put(&files, "sys/class/power_supply/mouse/scope", "Device\n");
    device_files_put(&files, "sys/class/power_supply/mouse/status", "Discharging\n");
    put_number(&files, "sys/class/power_supply/mouse/power_now", 90000000);
    open_here(&s, &files);
    CHECK(s.n == 1 && s.n_lines == 0);
    power_source_read(&s, 0);
    power_source_read(&s, 500);
    CHECK(is_near(power_source_watts(&s, "batteries"), 7));
    device_files_put(&files, "sys/class/power_supply/BAT1/status", "Discharging\n");
    put_number(&files, "sys/class/power_supply/BAT1/power_now", 3000000);
    power_source_read(&s, 1000);
    power_source_read(&s, 1500);
    CHECK(is_near(power_source_watts(&s, "batteries"), 10));
    device_files_put(&files, "sys/class/power_supply/BAT1/power_now", "n/a\n");
    power_source_read(&s, 2000);
    CHECK(isnan(power_source_watts(&s, "batteries")) && power_source_said(&s, "\"n/a\""));
    power_source_close(&s);
    device_files_remove(&files, "");
}

/* No power and no current: steps of what is left. */
static void test_counters(void) {
    const device_files files = device_files_make();
    power_source s;
    device_files_put(&files, BATTERY "type", "Battery\n");
    device_files_put(&files, BATTERY "status", "Discharging\n");
    put_number(&files, BATTERY "energy_now", 30000000);
    open_here(&s, &files);
    const int64_t left[] = {30000000, 29990000, 29990000, 29970000};
    for (int i = 0; i < 4; i++) {
        put_number(&files, BATTERY "energy_now", left[i]);
        power_source_read(&s, 3600 * i);
    }
    CHECK(is_near(power_source_watts(&s, "BAT0"), 10)); /* 20 mWh in two thousandths of an hour */
    CHECK(s.readings[0].begin_ns == 4600000000);
    power_source_close(&s);
    device_files_remove(&files, BATTERY "energy_now");
    put_number(&files, BATTERY "voltage_now", 4000000);
    put_number(&files, BATTERY "charge_counter", 2000000);
    open_here(&s, &files);
    for (int i = 0; i < 3; i++) {
        put_number(&files, BATTERY "charge_counter", 2000000 - 1000 * i);
        power_source_read(&s, 3600 * i);
    }
    CHECK(is_near(power_source_watts(&s, "BAT0"), 4)); /* 1 mAh in a thousandth of an hour, 4 V */
    power_source_close(&s);
    device_files_remove(&files, "");
}

/* A driver that counts in thousandths would make a phone run on microwatts. */
static void test_wrong_units(void) {
    const device_files files = device_files_make();
    power_source s;
    put_battery(&files, "Discharging", 4000000, 412);
    open_here(&s, &files);
    for (int i = 0; i < 3; i++)
        power_source_read(&s, 500 * i);
    CHECK(isnan(power_source_watts(&s, "BAT0")));
    CHECK(s.n_lines == 1 && power_source_said(&s, "0.00165 W is too low"));
    power_source_close(&s);
    device_files_remove(&files, "");
}

static void test_trees(void) {
    char root[512];
    power_source s;
    snprintf(root, sizeof root, "%s/tests/devices/snapdragon-phone", getenv("QUERN_SOURCE"));
    CHECK_OK(power_source_open(&s, &qn_source_battery, root, (qn_source_options){0}));
    power_source_read(&s, 0);
    power_source_read(&s, 500);
    CHECK(is_near(power_source_watts(&s, "battery"), 3.912345 * 0.412109));
    power_source_close(&s);
    snprintf(root, sizeof root, "%s/tests/devices/intel-laptop", getenv("QUERN_SOURCE"));
    CHECK_OK(power_source_open(&s, &qn_source_battery, root, (qn_source_options){0}));
    power_source_read(&s, 0);
    power_source_read(&s, 500);
    CHECK(is_near(power_source_watts(&s, "BAT0"), 7.412));
    power_source_close(&s);
    snprintf(root, sizeof root, "%s/tests/devices/raspberry-pi-5", getenv("QUERN_SOURCE"));
    CHECK_OK(power_source_open(&s, &qn_source_battery, root, (qn_source_options){0}));
    CHECK(!s.source && s.n_lines == 0);
}

int main(void) {
    if (!getenv("QUERN_SOURCE"))
        setenv("QUERN_SOURCE", ".", 1);
    test_signs(1);
    test_signs(-1);
    test_not_discharging();
    test_two();
    test_counters();
    test_wrong_units();
    test_trees();
    return checks_finish();
}
