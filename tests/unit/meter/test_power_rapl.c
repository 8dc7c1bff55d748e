/* RAPL: which zone is inside which, wraps, denied permission, counters that are lost, fall or talk
 * nonsense, and what may have wrapped more than once. */
#define _GNU_SOURCE

#include "meter/sources/rails.h"

#include "power_source.h"

#define POWERCAP "sys/class/powercap/"

static const int64_t range = 262143328850;

static void put_zone(const device_files *files, const char *zone, const char *name, int64_t uj) {
    char path[128];
    snprintf(path, sizeof path, POWERCAP "%s/name", zone);
    device_files_put(files, path, "%s\n", name);
    snprintf(path, sizeof path, POWERCAP "%s/max_energy_range_uj", zone);
    device_files_put(files, path, "%lld\n", (long long)range);
    snprintf(path, sizeof path, POWERCAP "%s/energy_uj", zone);
    device_files_put(files, path, "%lld\n", (long long)uj);
}

static void put_all(const device_files *files, int64_t uj) {
    put_zone(files, "intel-rapl:0", "package-0", uj);
    put_zone(files, "intel-rapl:0:0", "core", uj / 2);
    put_zone(files, "intel-rapl:0:1", "dram", uj / 4);
    put_zone(files, "intel-rapl-mmio:0", "package-0", uj);
}

static void open_here(power_source *s, const device_files *files) {
    CHECK_OK(power_source_open(s, &qn_source_rapl, files->root, (qn_source_options){0}));
}

static void test_energy(const device_files *files) {
    power_source s;
    put_all(files, 1000000);
    open_here(&s, files);
    CHECK(s.n == 3 && s.n_lines == 0);
    CHECK(s.channels[power_source_find(&s, "core-0")].inside == power_source_find(&s, "package-0"));
    CHECK(s.channels[power_source_find(&s, "dram-0")].inside == -1);
    CHECK(s.channels[power_source_find(&s, "dram-0")].part == QN_PART_MEMORY);
    power_source_read(&s, 0);
    CHECK(isnan(power_source_watts(&s, "package-0")));
    put_all(files, 1200000);
    power_source_read(&s, 10);
    CHECK(is_near(power_source_watts(&s, "package-0"), 20));
    CHECK(is_near(power_source_watts(&s, "core-0"), 10));
    CHECK(is_near(power_source_watts(&s, "dram-0"), 5));
    CHECK(s.readings[0].begin_ns == 1000000000 && s.readings[0].end_ns == 1010000000);
    power_source_close(&s);
}

static void test_wrap(const device_files *files) {
    power_source s;
    put_zone(files, "intel-rapl:0", "package-0", range - 100000);
    open_here(&s, files);
    power_source_read(&s, 0);
    put_zone(files, "intel-rapl:0", "package-0", 200000);
    power_source_read(&s, 10);
    CHECK(is_near(power_source_watts(&s, "package-0"), 30));
    /* Began anew (a restart of the counter): 26 MW would be no power. */
    put_zone(files, "intel-rapl:0", "package-0", 1000);
    power_source_read(&s, 20);
    CHECK(isnan(power_source_watts(&s, "package-0")));
    put_zone(files, "intel-rapl:0", "package-0", 51000);
    power_source_read(&s, 30);
    CHECK(is_near(power_source_watts(&s, "package-0"), 5));
    /* In a minute and a half it could have wrapped twice. */
    put_zone(files, "intel-rapl:0", "package-0", 61000);
    power_source_read(&s, 90030);
    CHECK(isnan(power_source_watts(&s, "package-0")));
    put_zone(files, "intel-rapl:0", "package-0", range + 1);
    power_source_read(&s, 90040);
    CHECK(isnan(power_source_watts(&s, "package-0")));
    power_source_close(&s);
}

static void test_lost(const device_files *files) {
    power_source s;
    put_zone(files, "intel-rapl:0", "package-0", 1000000);
    open_here(&s, files);
    power_source_read(&s, 0);
    for (int i = 1; i <= 3; i++) {
        device_files_put(files, POWERCAP "intel-rapl:0/energy_uj", i < 3 ? "gone" : "1100000\n");
        power_source_read(&s, 10 * i);
        CHECK(isnan(power_source_watts(&s, "package-0")));
    }
    CHECK(s.n_lines == 1 && power_source_said(&s, "energy_uj: the value \"gone\""));
    device_files_put(files, POWERCAP "intel-rapl:0/energy_uj", "1200000\n");
    power_source_read(&s, 40);
    CHECK(is_near(power_source_watts(&s, "package-0"), 10));
    power_source_close(&s);
}

/* A folder in place of the file cannot be read by anybody. */
static void test_unreadable(const device_files *files) {
    power_source s;
    device_files_remove(files, POWERCAP "intel-rapl:0/energy_uj");
    device_files_remove(files, POWERCAP "intel-rapl:0:0/energy_uj");
    device_files_put(files, POWERCAP "intel-rapl:0/energy_uj/x", "1");
    device_files_put(files, POWERCAP "intel-rapl:0:0/energy_uj/x", "1");
    open_here(&s, files);
    CHECK(s.n == 1 && s.n_lines == 1 && power_source_said(&s, "intel-rapl:0/energy_uj"));
    power_source_close(&s);
}

static void test_denied(void) {
    const device_files files = device_files_make();
    power_source s;
    char path[128];
    put_all(&files, 1000000);
    device_files_remove(&files, POWERCAP "intel-rapl-mmio:0");
    for (int i = 0; i < 3; i++) {
        static const char *const zones[] = {"intel-rapl:0", "intel-rapl:0:0", "intel-rapl:0:1"};
        snprintf(path, sizeof path, "%s/" POWERCAP "%s/energy_uj", files.root, zones[i]);
        chmod(path, 0);
    }
    chmod(files.root, 0755);
    if (geteuid() == 0 && seteuid(65534) != 0) {
        printf("permission is not tested: cannot become another user\n");
    } else {
        open_here(&s, &files);
        CHECK(!s.source && s.n_lines == 1 && power_source_said(&s, "run as root"));
        if (getuid() == 0)
            CHECK(seteuid(0) == 0);
    }
    device_files_remove(&files, "");
}

/* The platform holds packages and memory; one that stands still is not connected. */
static void test_platform(void) {
    const device_files files = device_files_make();
    power_source s;
    put_all(&files, 1000000);
    put_zone(&files, "intel-rapl:1", "psys", 3000000);
    open_here(&s, &files);
    const int psys = power_source_find(&s, "psys"), package = power_source_find(&s, "package-0");
    CHECK(s.n == 4 && s.channels[psys].part == QN_PART_SYSTEM && s.channels[psys].inside == -1);
    CHECK(s.channels[package].inside == psys);
    CHECK(s.channels[power_source_find(&s, "dram-0")].inside == psys);
    CHECK(s.channels[power_source_find(&s, "core-0")].inside == package);
    power_source_close(&s);
    CHECK_OK(power_source_open(&s, &qn_source_rapl, files.root,
                               (qn_source_options){.is_recorded = true}));
    power_source_read(&s, 0);
    power_source_read(&s, 10);
    CHECK(s.n == 4 && isnan(power_source_watts(&s, "psys"))); /* recorded: no power of 0 */
    power_source_close(&s);
    check_failing_memory(&qn_source_rapl, files.root, (qn_source_options){.is_recorded = true});
    device_files_remove(&files, "");
}

static void test_nothing(void) {
    const device_files files = device_files_make();
    power_source s;
    open_here(&s, &files);
    CHECK(!s.source && s.n_lines == 0);
    put_zone(&files, "intel-rapl-mmio:0", "package-0", 5);
    open_here(&s, &files);
    CHECK(s.n == 1);
    power_source_close(&s);
    device_files_remove(&files, "");
}

int main(void) {
    const device_files files = device_files_make();
    test_energy(&files);
    test_wrap(&files);
    test_lost(&files);
    test_unreadable(&files);
    test_denied();
    test_platform();
    test_nothing();
    device_files_remove(&files, "");
    return checks_finish();
}
