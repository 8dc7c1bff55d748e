/* Rails of Jetson boards and other hwmon chips: names and parts, both kinds of files, trapezoids,
 * sensors that vanish and come back, inputs that are off or talk nonsense, and who owns which chip.
 */
#define _GNU_SOURCE

#include "power_source.h"

#include "meter/sources/rails.h"

#define CHIP "sys/class/hwmon/hwmon3/"

static const qn_channel *channel(const power_source *s, const char *name) {
    static const qn_channel none = {.part = QN_PART_COUNT, .inside = -2};
    const int i = power_source_find(s, name);
    CHECK(i >= 0);
    return i >= 0 ? &s->channels[i] : &none;
}

static void open_here(power_source *s, const qn_source_kind *kind, const char *root) {
    CHECK_OK(power_source_open(s, kind, root, (qn_source_options){0}));
}

static void test_tx2(void) {
    char root[512];
    power_source s;
    snprintf(root, sizeof root, "%s/tests/devices/jetson-tx2", getenv("QUERN_SOURCE"));
    open_here(&s, &qn_source_ina3221, root);
    const int input = power_source_find(&s, "VDD_IN");
    CHECK(s.n == 6 && s.n_lines == 0 && input >= 0);
    CHECK(channel(&s, "VDD_IN")->part == QN_PART_SYSTEM && channel(&s, "VDD_IN")->inside == -1);
    CHECK(channel(&s, "VDD_SYS_GPU")->part == QN_PART_GPU);
    CHECK(channel(&s, "VDD_SYS_CPU")->part == QN_PART_CPU);
    CHECK(channel(&s, "VDD_SYS_SOC")->part == QN_PART_SOC);
    CHECK(channel(&s, "VDD_SYS_DDR")->part == QN_PART_MEMORY);
    CHECK(channel(&s, "VDD_4V0_WIFI")->part == QN_PART_OTHER);
    for (int i = 0; i < s.n; i++)
        CHECK(s.channels[i].inside == (i == input ? -1 : input));
    power_source_read(&s, 0);
    power_source_read(&s, 10);
    CHECK(is_near(power_source_watts(&s, "VDD_IN"), 11.910)); /* 19088 mV x 624 mA, in mW */
    power_source_close(&s);
    check_failing_memory(&qn_source_ina3221, root, (qn_source_options){0});
}

/* AGX Orin by hwmon: no rail for the whole; one input is not connected. */
static void put_orin(const device_files *files) {
    device_files_put(files, CHIP "name", "ina3221\n");
    device_files_put(files, CHIP "in1_label", "VDD_GPU_SOC\n");
    device_files_put(files, CHIP "in1_input", "20000\n");
    device_files_put(files, CHIP "curr1_input", "200\n");
    device_files_put(files, CHIP "in2_label", "NC\n");
    device_files_put(files, CHIP "in2_input", "0\n");
    device_files_put(files, CHIP "curr2_input", "0\n");
    device_files_put(files, CHIP "in3_label", "VIN_SYS_5V0\n");
    device_files_put(files, CHIP "in3_input", "5000\n");
    device_files_put(files, CHIP "curr3_input", "500\n");
    device_files_put(files, "sys/class/hwmon/hwmon4/name", "ina3221\n");
    device_files_put(files, "sys/class/hwmon/hwmon4/in2_label", "VDDQ_VDD2_1V8AO\n");
    device_files_put(files, "sys/class/hwmon/hwmon4/in2_input", "5000\n");
    device_files_put(files, "sys/class/hwmon/hwmon4/curr2_input", "100\n");
}

static void test_orin(void) {
    const device_files files = device_files_make();
    power_source s;
    put_orin(&files);
    open_here(&s, &qn_source_ina3221, files.root);
    CHECK(s.n == 3 && s.n_lines == 0);
    CHECK(channel(&s, "VDD_GPU_SOC")->part == QN_PART_GPU);
    CHECK(channel(&s, "VDD_GPU_SOC")->inside == -1 && channel(&s, "VIN_SYS_5V0")->inside == -1);
    CHECK(channel(&s, "VDDQ_VDD2_1V8AO")->inside == power_source_find(&s, "VIN_SYS_5V0"));
    power_source_read(&s, 0);
    CHECK(isnan(power_source_watts(&s, "VDD_GPU_SOC")));
    device_files_put(&files, CHIP "curr1_input", "300\n");
    power_source_read(&s, 10);
    CHECK(is_near(power_source_watts(&s, "VDD_GPU_SOC"), 5)); /* from 4 to 6 W */
    CHECK(is_near(power_source_watts(&s, "VIN_SYS_5V0"), 2.5));
    power_source_read(&s, 20);
    CHECK(is_near(power_source_watts(&s, "VDD_GPU_SOC"), 6));
    /* Noise of an idle input is 0; a current that flows back is no power. */
    device_files_put(&files, CHIP "curr1_input", "-8\n");
    power_source_read(&s, 30);
    CHECK(is_near(power_source_watts(&s, "VDD_GPU_SOC"), 3));
    device_files_put(&files, CHIP "curr1_input", "-800\n");
    power_source_read(&s, 40);
    CHECK(isnan(power_source_watts(&s, "VDD_GPU_SOC")));
    power_source_close(&s);
    open_here(&s, &qn_source_hwmon, files.root); /* it has its own source */
    CHECK(!s.source);
    check_failing_memory(&qn_source_ina3221, files.root, (qn_source_options){0});
    device_files_remove(&files, "");
}

/* Lost: a path that cannot be read any more, and again can. In a tree of files that takes a new
 * file, as when a driver is loaded anew. */
static void test_vanished(void) {
    const device_files files = device_files_make();
    power_source s;
    put_orin(&files);
    open_here(&s, &qn_source_ina3221, files.root);
    power_source_read(&s, 0);
    device_files_put(&files, CHIP "curr1_input", "%s", "");
    for (int i = 1; i < 5; i++) {
        power_source_read(&s, 10 * i);
        CHECK(isnan(power_source_watts(&s, "VDD_GPU_SOC")));
        CHECK(is_near(power_source_watts(&s, "VIN_SYS_5V0"), 2.5));
    }
    CHECK(s.n_lines == 1 && power_source_said(&s, "curr1_input"));
    device_files_put(&files, CHIP "curr1_input", "400\n");
    power_source_read(&s, 50);
    CHECK(isnan(power_source_watts(&s, "VDD_GPU_SOC"))); /* nothing is known of the time before */
    power_source_read(&s, 60);
    CHECK(is_near(power_source_watts(&s, "VDD_GPU_SOC"), 8));
    power_source_read(&s, 5060); /* nobody looked for five seconds */
    CHECK(isnan(power_source_watts(&s, "VDD_GPU_SOC")));
    power_source_close(&s);
    device_files_remove(&files, "");
}

/* ---- other chips ---- */

static void test_other_chips(void) {
    const device_files files = device_files_make();
    power_source s;
    device_files_put(&files, "sys/class/hwmon/hwmon0/name", "amdgpu\n");
    device_files_put(&files, "sys/class/hwmon/hwmon0/power1_average", "35000000\n");
    device_files_put(&files, "sys/class/hwmon/hwmon0/power1_label", "PPT\n");
    device_files_put(&files, "sys/class/hwmon/hwmon1/name", "BAT0\n");
    device_files_put(&files, "sys/class/hwmon/hwmon1/power1_input", "9000000\n");
    device_files_put(&files, "sys/class/power_supply/BAT0/type", "Battery\n");
    device_files_put(&files, "sys/class/hwmon/hwmon2/name", "i915\n");
    device_files_put(&files, "sys/class/hwmon/hwmon2/energy1_input", "1000\n");
    device_files_put(&files, "sys/class/hwmon/hwmon3/name", "power_meter\n");
    device_files_put(&files, "sys/class/hwmon/hwmon3/power1_input", "lots\n");
    device_files_put(&files, "sys/class/hwmon/hwmon5/name", "coretemp\n");
    open_here(&s, &qn_source_hwmon, files.root);
    CHECK(s.n == 3 && power_source_find(&s, "amdgpu PPT") == 0);
    CHECK(s.channels[0].part == QN_PART_GPU);
    CHECK(channel(&s, "power_meter")->part == QN_PART_SYSTEM);
    for (int i = 0; i < 4; i++) {
        device_files_put(&files, "sys/class/hwmon/hwmon2/energy1_input", "%d\n", 1000 + 400 * i);
        power_source_read(&s, 20 * i);
    }
    CHECK(is_near(power_source_watts(&s, "amdgpu PPT"), 35));
    CHECK(is_near(power_source_watts(&s, "i915"), 0.02));
    CHECK(isnan(power_source_watts(&s, "power_meter")) && power_source_said(&s, "\"lots\""));
    power_source_close(&s);
    check_failing_memory(&qn_source_hwmon, files.root, (qn_source_options){0});
    device_files_remove(&files, "");
}

/* A counter of long steps: its reading reaches from step to step, and the first may be part of one.
 */
static void test_coarse(void) {
    qn_energy energy = {.unit_j = 1, .is_coarse = true};
    qn_reading reading = {0};
    CHECK(!qn_energy_add(&energy, 1000000000, 10, &reading));
    CHECK(!qn_energy_add(&energy, 2000000000, 11, &reading));
    CHECK(!qn_energy_add(&energy, 3000000000, 11, &reading));
    CHECK(qn_energy_add(&energy, 6000000000, 13, &reading));
    CHECK(reading.begin_ns == 2000000000 && reading.end_ns == 6000000000);
    CHECK(is_near(reading.value, 0.5));
    CHECK(!qn_energy_add(&energy, 7000000000, 3, &reading));
    CHECK(!qn_energy_add(&energy, 8000000000, INT64_MIN, &reading));
    CHECK(!qn_energy_add(&energy, 9000000000, INT64_MAX, &reading));
}

static void test_nothing(void) {
    const device_files files = device_files_make();
    power_source s;
    open_here(&s, &qn_source_ina3221, files.root);
    CHECK(!s.source && s.n_lines == 0);
    open_here(&s, &qn_source_hwmon, files.root);
    CHECK(!s.source && s.n_lines == 0);
    device_files_put(&files, "sys/class/hwmon/hwmon0/name", "cpu_thermal\n");
    open_here(&s, &qn_source_hwmon, files.root);
    CHECK(!s.source && s.n_lines == 0);
    device_files_remove(&files, "");
}

int main(void) {
    if (!getenv("QUERN_SOURCE"))
        setenv("QUERN_SOURCE", ".", 1);
    test_tx2();
    test_orin();
    test_vanished();
    test_other_chips();
    test_coarse();
    test_nothing();
    return checks_finish();
}
