/* Clocks and watts of --prefer and --power: a tree of files as cpufreq has it is set and comes back
 * as it was; the level that is best by hand-worked watts; a sensor whose readings rise; a ceiling
 * that is held by recorded watts, second by second. */
#include "meter/core_power.h"
#include "meter/power_ceiling.h"

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

static const double second = 1e9;

/* Looks twenty times a second until so many seconds; how often something changed. */
static int look_until(qn_power_ceiling *c, double *now, double until) {
    int n_changes = 0;
    for (; *now < until; *now += 0.05)
        n_changes += qn_power_ceiling_look(c, (int64_t)(second + *now * second));
    return n_changes;
}

static qn_power_ceiling *open_ceiling(const char *rows, const char *root, int n, double most) {
    const qn_core_wish wish = {.core_watts = 1, .idle_watts = 1, .most_watts = most};
    qn_power_ceiling *c;
    write_text("@/watts.csv", rows);
    const qn_source_options o = {.allocator = qn_allocator_default(),
                                 .root = at_root(root),
                                 .replay = at_root("@/watts.csv"),
                                 .is_recorded = true};
    CHECK_OK(qn_power_ceiling_open(&o, &wish, n, NULL, 1, &c));
    CHECK(c);
    return c;
}

/* 1 W idle, a ceiling of 6. Four threads take 5 W, then 8: a core takes 1.75, so that two remain
 * from the next second on. Those take 4: after three such seconds there is room for three. */
static void test_ceiling(void) {
    qn_power_ceiling *c =
        open_ceiling("time_s,system:VDD_IN:W\n0,5\n2.9,5\n2.9,8\n4.1,8\n4.1,4\n7.1,4\n"
                     "7.1,5.7\n14,5.7\n14,20\n30,20\n",
                     "@/none", 4, 6);
    double now = 0;
    CHECK(look_until(c, &now, 2.9) == 0 && qn_power_ceiling_threads(c) == 4);
    CHECK(look_until(c, &now, 4.5) == 1 && qn_power_ceiling_threads(c) == 2);
    CHECK(qn_power_ceiling_watts(c) > 6);
    CHECK(look_until(c, &now, 6.5) == 0);
    CHECK(look_until(c, &now, 8) == 1 && qn_power_ceiling_threads(c) == 3);
    CHECK(look_until(c, &now, 14) == 0 && qn_power_ceiling_threads(c) == 3);
    CHECK(look_until(c, &now, 30) >= 1 && qn_power_ceiling_threads(c) == 1);
    CHECK(qn_power_ceiling_level(c) == 1); /* no clock to be set */
    qn_power_ceiling_close(c);
}

/* With clocks: 2 threads at 8 W take 3.5 each; below 5 W both go on at 0.6 of the clock, which does
 * more than one at 1. At 40 W nothing is little enough: one at the least. All comes back. */
static void test_ceiling_clock(void) {
    make_core(0, "800000 1200000 1600000 2000000\n");
    qn_power_ceiling *c = open_ceiling(
        "time_s,system:VDD_IN:W\n0,8\n1.1,8\n1.1,4.55\n5,4.55\n5,40\n30,40\n", "@", 2, 5);
    double now = 0;
    CHECK(look_until(c, &now, 1.5) == 1 && qn_power_ceiling_threads(c) == 2);
    CHECK(qn_power_ceiling_level(c) == 0.6 && limit_of(0) == 1200000);
    CHECK(look_until(c, &now, 4.9) == 0);
    CHECK(look_until(c, &now, 30) >= 1);
    CHECK(qn_power_ceiling_threads(c) == 1 && qn_power_ceiling_level(c) == 0.4);
    CHECK(limit_of(0) == 800000);
    qn_power_ceiling_close(c);
    CHECK(limit_of(0) == 2000000);
}

/* No sensor: no ceiling, and nothing is held. */
static void test_no_sensor(void) {
    const qn_core_wish wish = {.core_watts = 1, .idle_watts = 1, .most_watts = 5};
    const qn_source_options o = {.root = at_root("@/none"), .is_recorded = true};
    qn_power_ceiling *c;
    CHECK_OK(qn_power_ceiling_open(&o, &wish, 2, NULL, 1, &c));
    CHECK(!c);
}

int main(void) {
    files_begin();
    check_levels("800000 1200000 1600000 2000000\n", 4, 0.4);
    check_levels("", 3, 0.6); /* those that there are without a list, above the least */
    test_choice();
    test_begin();
    check_sensor("time_s,system:VDD_IN:W\n0,5\n1000,50005\n", true);
    check_sensor("time_s,system:VDD_IN:W\n0,4000\n1000,4\n", false);
    test_ceiling();
    test_ceiling_clock();
    test_no_sensor();
    files_end();
    return checks_finish();
}
