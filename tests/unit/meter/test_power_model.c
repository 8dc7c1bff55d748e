/* Estimated power: from load, frequency and coefficients; descriptions that make no sense; only
 * where nothing is measured. */
#define _GNU_SOURCE

#include "power_source.h"

#include "meter/sources/coefficients.h"

static char description[128];

static const char *const board =
    "{\"device\": \"a board\", \"rest_w\": 2.5, \"package_w\": 0.5, \"cores\": [{\"kind\": "
    "\"cpu\", "
    "\"idle_w\": 0.5, \"busy_w\": 4.5, \"at_hz\": 2e9, \"exponent\": 2}]}";

/* Core 0 has been busy for so many hundredths of a second, core 1 never. */
static void put_load(const device_files *files, int busy, int elapsed) {
    device_files_put(files, "proc/stat",
                     "cpu  %d 0 0 %d 0 0 0 0 0 0\ncpu0 %d 0 0 %d 0 0 0 0 0 0\n"
                     "cpu1 0 0 0 %d 0 0 0 0 0 0\nintr 0\n",
                     busy, 2 * elapsed - busy, busy, elapsed - busy, elapsed);
}

static void put_board(const device_files *files) {
    device_files_put(files, "sys/devices/system/cpu/present", "0-1\n");
    device_files_put(files, "proc/cpuinfo",
                     "processor : 0\nFeatures : asimd\nCPU implementer : 0x41\nCPU part : 0xd0b\n\n"
                     "processor : 1\nFeatures : asimd\nCPU implementer : 0x41\nCPU part : 0xd0b\n");
    for (int i = 0; i < 2; i++) {
        char path[128];
        snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%d/cpufreq/cpuinfo_max_freq", i);
        device_files_put(files, path, "2000000\n");
        snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", i);
        device_files_put(files, path, "1000000\n");
    }
    put_load(files, 0, 0);
}

static qn_status open_with(power_source *s, const device_files *files, const char *text) {
    if (text)
        device_files_put(files, "board.json", "%s", text);
    return power_source_open(
        s, &qn_source_model, files->root,
        (qn_source_options){.is_recorded = true, .description = text ? description : NULL});
}

static void test_estimate(const device_files *files) {
    power_source s;
    double joules[MOST_CHANNELS] = {0};
    CHECK_OK(open_with(&s, files, board));
    CHECK(s.n == 4 && s.n_lines == 0);
    for (int i = 0; i < s.n; i++)
        CHECK(s.channels[i].is_estimated && s.channels[i].inside == -1);
    CHECK(s.channels[power_source_find(&s, "rest")].part == QN_PART_OTHER);
    CHECK(s.channels[power_source_find(&s, "cpu1")].part == QN_PART_CPU);
    for (int second = 0; second <= 10; second++) {
        put_load(files, 50 * second, 100 * second);
        power_source_read(&s, 1000 * second);
        for (int i = 0; i < s.n; i++)
            joules[i] += s.readings[i].value *
                         (double)(s.readings[i].end_ns - s.readings[i].begin_ns) * 1e-9;
    }
    /* Half its time at half the clock: a quarter of 4 W for half of the time. */
    CHECK(fabs(joules[power_source_find(&s, "cpu0")] - 10) < 0.01);
    CHECK(fabs(joules[power_source_find(&s, "cpu1")] - 5) < 0.01);
    CHECK(fabs(joules[power_source_find(&s, "package")] - 5) < 1e-6);
    CHECK(fabs(joules[power_source_find(&s, "rest")] - 25) < 1e-6);
    power_source_close(&s);
    check_failing_memory(&qn_source_model, files->root, (qn_source_options){.is_recorded = true});
}

/* Load that another source has read; its own files say that no core did anything. */
static void test_followed(const device_files *files) {
    const qn_reading load[2] = {{1000, 2000, 0.5}, {1000, 2000, 0}};
    power_source s;
    put_load(files, 0, 0);
    CHECK_OK(open_with(&s, files, board));
    s.kind->follow(s.source, load);
    power_source_read(&s, 1000);
    const qn_reading *busy = &s.readings[power_source_find(&s, "cpu0")];
    const qn_reading *idle = &s.readings[power_source_find(&s, "cpu1")];
    CHECK(busy->begin_ns == 1000 && busy->end_ns == 2000 && fabs(busy->value - 1) < 1e-9);
    CHECK(idle->end_ns == 2000 && fabs(idle->value - 0.5) < 1e-9);
    power_source_close(&s);
}

static void test_built_in(const device_files *files) {
    power_source s;
    put_load(files, 0, 0);
    CHECK_OK(open_with(&s, files, NULL));
    CHECK(s.n == 3 && power_source_find(&s, "rest") == -1);
    power_source_read(&s, 0);
    put_load(files, 100, 100);
    power_source_read(&s, 1000);
    CHECK(power_source_watts(&s, "cpu0") > power_source_watts(&s, "cpu1"));
    CHECK(power_source_watts(&s, "cpu1") > 0 && power_source_watts(&s, "cpu0") < 5);
    power_source_close(&s);
}

/* Where the whole or the processor is measured, nothing is estimated. */
static void test_measured(const device_files *files) {
    power_source s;
    device_files_put(files, "sys/class/powercap/intel-rapl:0/name", "package-0\n");
    device_files_put(files, "sys/class/powercap/intel-rapl:0/energy_uj", "1\n");
    CHECK_OK(open_with(&s, files, board));
    CHECK(!s.source && power_source_said(&s, "is ignored"));
    device_files_remove(files, "sys/class/powercap");
    device_files_put(files, "sys/class/hwmon/hwmon0/name", "amdgpu\n");
    device_files_put(files, "sys/class/hwmon/hwmon0/power1_input", "1000000\n");
    CHECK_OK(open_with(&s, files, board));
    CHECK(s.source != NULL);
    power_source_close(&s);
    device_files_remove(files, "sys/class/hwmon");
}

static void test_nonsense(const device_files *files) {
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "not a JSON object"},
        {"[]", "must be a JSON object"},
        {"{\"cores\": []", "not a JSON object"},
        {"{}", "cores: it must be a list"},
        {"{\"cores\": [], \"volts\": 5}", "volts: unknown entry"},
        {"{\"cores\": []}", "no entry for this device's cores of kind cpu"},
        {"{\"cores\": [5]}", "must be a JSON object"},
        {"{\"cores\": [{\"kind\": \"prime\", \"busy_w\": 1}]}",
         "no entry for this device's cores of kind cpu"},
        {"{\"cores\": [{\"kind\": \"*\"}]}", "busy_w: it must be a number"},
        {"{\"cores\": [{\"kind\": \"*\", \"busy_w\": -1}]}", "busy_w: it must be a number"},
        {"{\"cores\": [{\"kind\": \"*\", \"busy_w\": 1e9}]}", "busy_w: it must be a number"},
        {"{\"cores\": [{\"kind\": \"*\", \"busy_w\": \"1\"}]}", "busy_w: it must be a number"},
        {"{\"cores\": [{\"kind\": \"*\", \"busy_w\": 1, \"idle_w\": 2}]}", "idle_w: it must not"},
        {"{\"cores\": [{\"kind\": \"*\", \"busy_w\": 1, \"at_hz\": 2.4}]}", "at_hz: it must be"},
        {"{\"rest_w\": true, \"cores\": [{\"kind\": \"*\", \"busy_w\": 1}]}", "rest_w: it must be"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        power_source s;
        CHECK_FAILS(open_with(&s, files, cases[i].text), QN_ERROR_FORMAT, cases[i].says);
        CHECK(!s.source);
    }
    power_source s;
    CHECK_FAILS(power_source_open(&s, &qn_source_model, files->root,
                                  (qn_source_options){.description = "/nowhere.json"}),
                QN_ERROR_IO, "/nowhere.json");
}

static void test_guess(void) {
    qn_processor p = {.isa = "avx2", .n_kinds = 2};
    qn_coefficients c;
    snprintf(p.kinds[0].name, sizeof p.kinds[0].name, "performance");
    snprintf(p.kinds[1].name, sizeof p.kinds[1].name, "efficiency");
    p.kinds[0].n_cores = 4;
    p.kinds[0].n_physical = 2;
    p.kinds[1].n_cores = p.kinds[1].n_physical = 4;
    qn_coefficients_guess(&p, &c);
    CHECK(is_near(c.kinds[0].busy_w, 3) && is_near(c.kinds[1].busy_w, 2.5));
    CHECK(is_near(qn_core_power(&c.kinds[1], 1, 1e9), 2.5)); /* no clock is known */
    CHECK(is_near(qn_core_power(&(qn_core_watts){1, 9, 2e9, 3}, 0.5, 1e9), 1.5));
}

int main(void) {
    const device_files files = device_files_make();
    snprintf(description, sizeof description, "%s/board.json", files.root);
    put_board(&files);
    test_estimate(&files);
    test_followed(&files);
    test_built_in(&files);
    test_measured(&files);
    test_nonsense(&files);
    test_guess();
    device_files_remove(&files, "");
    return checks_finish();
}
