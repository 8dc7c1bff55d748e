/* NVIDIA GPUs, by the stand-in in the folder that LD_LIBRARY_PATH names; where that is not loaded
 * (the test run by hand), by what the machine has, which must then make sense. */
#define _GNU_SOURCE

#include "power_source.h"

#include "os/library.h"

static qn_library *fake;

static void set(const char *name, unsigned value) {
    unsigned *variable;
    CHECK(qn_library_find(fake, name, &variable));
    *variable = value;
}

static void set_energy(unsigned long long mj) {
    unsigned long long *variable;
    CHECK(qn_library_find(fake, "fake_energy_mj", &variable));
    *variable = mj;
}

static double value_of(const power_source *s, qn_quantity quantity) {
    for (int i = 0; i < s->n; i++) {
        if (s->channels[i].quantity == quantity)
            return s->readings[i].end_ns ? s->readings[i].value : NAN;
    }
    return -1;
}

static void open_here(power_source *s) {
    CHECK_OK(power_source_open(s, &qn_source_nvml, "", (qn_source_options){0}));
}

static void test_counter(void) {
    power_source s;
    set_energy(5000000);
    open_here(&s);
    CHECK(s.n == 4 && s.n_lines == 0 && s.channels[0].part == QN_PART_GPU);
    CHECK(value_of(&s, QN_QUANTITY_TEMPERATURE) == -1);
    for (int i = 0; i < 5; i++) {
        set_energy(5000000 + 1000 * (unsigned)(i / 2)); /* steps at every second look */
        power_source_read(&s, 20 * i);
    }
    CHECK(is_near(value_of(&s, QN_QUANTITY_POWER), 25));
    CHECK(s.readings[0].end_ns - s.readings[0].begin_ns == 40000000);
    CHECK(is_near(value_of(&s, QN_QUANTITY_UTILISATION), 0.37));
    CHECK(is_near(value_of(&s, QN_QUANTITY_MEMORY), 250));
    CHECK(is_near(value_of(&s, QN_QUANTITY_FREQUENCY), 1.41e9));
    set("fake_result", 15);
    power_source_read(&s, 100);
    CHECK(isnan(value_of(&s, QN_QUANTITY_POWER)) && isnan(value_of(&s, QN_QUANTITY_MEMORY)));
    CHECK(s.n_lines == 1 && power_source_said(&s, "gpu0: cannot be read any more"));
    set("fake_result", 0);
    power_source_close(&s);
}

static void test_gauge(void) {
    power_source s;
    set("fake_has_energy", 0);
    open_here(&s);
    power_source_read(&s, 0);
    set("fake_power_mw", 51000);
    power_source_read(&s, 20);
    CHECK(is_near(value_of(&s, QN_QUANTITY_POWER), 46));
    set("fake_use", 101);
    power_source_read(&s, 40);
    CHECK(isnan(value_of(&s, QN_QUANTITY_UTILISATION)));
    set("fake_use", 37);
    set("fake_has_energy", 1);
    power_source_close(&s);
    check_failing_memory(&qn_source_nvml, "", (qn_source_options){0});
}

static void test_refused(void) {
    power_source s;
    set("fake_init_result", 9);
    open_here(&s);
    CHECK(!s.source && s.n_lines == 1 && power_source_said(&s, "Driver Not Loaded"));
    set("fake_init_result", 0);
    CHECK_OK(power_source_open(&s, &qn_source_nvml, "", (qn_source_options){.is_recorded = true}));
    CHECK(!s.source && s.n_lines == 0);
}

static void test_machine(void) {
    power_source s;
    open_here(&s);
    printf("here: %d channels of NVIDIA GPUs%s%s\n", s.n, s.n_lines ? "; " : "",
           s.n_lines ? s.lines[0] : "");
    for (int ms = 0; s.source && ms < 2; ms++)
        power_source_read(&s, ms);
    power_source_close(&s);
}

int main(void) {
    unsigned *variable;
    const bool is_there = qn_library_open("libnvidia-ml.so.1", &fake) == QN_OK;
    if (!is_there || !qn_library_find(fake, "fake_result", &variable)) {
        test_machine();
    } else {
        test_counter();
        test_gauge();
        test_refused();
    }
    if (is_there)
        qn_library_close(fake);
    return checks_finish();
}
