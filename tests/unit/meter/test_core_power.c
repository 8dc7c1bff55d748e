/* Clocks and watts of --prefer and --power: a tree of files as cpufreq has it is set and comes back
 * as it was; the level that is best by hand-worked watts; a sensor whose readings rise. */
#include "meter/core_power.h"

#include "data_files.h"
#include "os/heap.h"

#include <math.h>

static void make_core(int number, const char *list) {
    char path[160];
    snprintf(path, sizeof path, "@/sys/devices/system/cpu/cpu%d/cpufreq", number);
    make_folder(path);
    snprintf(path, sizeof path, "@/sys/devices/system/cpu/cpu%d/cpufreq/scaling_max_freq", number);
    write_text(path, number == 0 ? "2000000\n" : "1000000\n");
    snprintf(path, sizeof path, "@/sys/devices/system/cpu/cpu%d/cpufreq/cpuinfo_min_freq", number);
    write_text(path, "1000000\n");
    snprintf(path, sizeof path,
             "@/sys/devices/system/cpu/cpu%d/cpufreq/scaling_available_frequencies", number);
    if (list)
        write_text(path, list);
}

static long long limit_of(int number) {
    char path[160];
    long long khz = 0;
    snprintf(path, sizeof path, "@/sys/devices/system/cpu/cpu%d/cpufreq/scaling_max_freq", number);
    FILE *file = fopen(at_root(path), "r");
    CHECK(file && fscanf(file, "%lld", &khz) == 1);
    if (file)
        fclose(file);
    return khz;
}

static void check_levels(const char *list, int n, double lowest) {
    double levels[QN_FREQUENCY_LEVELS];
    qn_frequency *f;
    make_core(0, list);
    make_core(3, list);
    CHECK_OK(qn_frequency_open(NULL, at_root("@"), &f));
    CHECK(f && qn_frequency_levels(f, levels) == n);
    CHECK(levels[0] == 1 && fabs(levels[n - 1] - lowest) < 1e-9);
    CHECK(qn_frequency_set(f, 0.5));
    CHECK(limit_of(0) == 1000000 && limit_of(3) == 500000);
    qn_frequency_close(f);
    CHECK(limit_of(0) == 2000000 && limit_of(3) == 1000000);
}

/* Two cores of 4 W beside 1 W: a step takes (1 + 8 s^2) / s joules, least at s = 0.354; of what may
 * be chosen 0.4. Watts times time falls with the clock while watts do by less. */
static void test_choice(void) {
    const double levels[] = {1, 0.8, 0.6, 0.4};
    qn_core_wish wish = {.prefer = QN_PREFER_ENERGY, .core_watts = 4, .idle_watts = 1};
    CHECK(qn_core_power_choose(&wish, 2, levels, 4) == 0.4);
    wish.idle_watts = 6; /* least at 0.866 */
    CHECK(qn_core_power_choose(&wish, 2, levels, 4) == 0.8);
    wish.prefer = QN_PREFER_BALANCED;
    CHECK(qn_core_power_choose(&wish, 2, levels, 4) == 1);
    /* One core at the full clock, or two at 0.6 that do more: 1 + 2 * 1.44 W. */
    wish = (qn_core_wish){.core_watts = 4, .idle_watts = 1, .most_watts = 5};
    CHECK(qn_core_power_choose(&wish, 2, levels, 4) == 0.6);
    wish.most_watts = 9;
    CHECK(qn_core_power_choose(&wish, 2, levels, 4) == 1);
}

static void test_begin(void) {
    qn_core_wish wish = {.prefer = QN_PREFER_ENERGY, .core_watts = 4, .idle_watts = 1};
    qn_frequency *f;
    double level;
    make_core(0, "800000 1200000 2000000\n");
    CHECK_OK(qn_core_power_begin(at_root("@"), 2, &wish, &f, &level));
    CHECK(f && level == 0.4 && fabs(wish.core_watts - 0.64) < 1e-12 && limit_of(0) == 800000);
    qn_frequency_close(f);
    CHECK(limit_of(0) == 2000000);
    CHECK_OK(qn_core_power_begin(at_root("@/none"), 2, &wish, &f, &level));
    CHECK(!f && level == 1);
}

/* Watts that rise with time rise from the idle measurement to the next; that fall are not taken. */
static void check_sensor(const char *rows, bool is_rising) {
    qn_core_wish wish = {.core_watts = 7};
    write_text("@/watts.csv", rows);
    const qn_source_options o = {.allocator = qn_allocator_default(),
                                 .root = at_root("@/none"),
                                 .replay = at_root("@/watts.csv"),
                                 .is_recorded = true};
    CHECK(qn_core_power_sense(&o, 2, &wish) == is_rising);
    CHECK(is_rising ? wish.idle_watts >= 5 && wish.core_watts > 0 : wish.core_watts == 7);
}

int main(void) {
    files_begin();
    check_levels("800000 1200000 1600000 2000000\n", 4, 0.4);
    check_levels("", 3, 0.6); /* those that there are without a list, above the least */
    test_choice();
    test_begin();
    check_sensor("time_s,system:VDD_IN:W\n0,5\n1000,50005\n", true);
    check_sensor("time_s,system:VDD_IN:W\n0,4000\n1000,4\n", false);
    files_end();
    return checks_finish();
}
