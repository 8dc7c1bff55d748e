/* The devices of clients: kinds come in the numbers asked for, time and energy are those of data
 * sheets added up by hand, and nobody takes part while the rules forbid it. */
#include "federate/fleet.h"

#include "check.h"
#include "failing.h"

#include <math.h>

static qn_fleet_options options_of(const char *kinds, const char *when) {
    return (qn_fleet_options){.kinds = kinds,
                              .when = when,
                              .down_mbit = 20,
                              .up_mbit = 5,
                              .radio_watts = 1,
                              .n_clients = 1000,
                              .seed = 3};
}

static void test_kinds(void) {
    const qn_fleet_options o = options_of("snapdragon-phone:6,raspberry-pi-5,intel-laptop:3", NULL);
    int64_t n[3] = {0};
    qn_fleet *f;
    CHECK_OK(qn_fleet_create(&o, &f));
    for (int64_t i = 0; i < o.n_clients; i++) {
        const qn_learn_device *d = qn_fleet_device(f, i);
        n[0] += d == qn_learn_device_find("snapdragon-phone");
        n[1] += d == qn_learn_device_find("raspberry-pi-5");
        n[2] += d == qn_learn_device_find("intel-laptop");
    }
    CHECK(n[0] + n[1] + n[2] == 1000);
    CHECK(n[0] > 550 && n[0] < 650 && n[1] > 70 && n[1] < 130 && n[2] > 250 && n[2] < 350);
    qn_fleet_destroy(f);
}

static void test_work(void) {
    const qn_fleet_options o = options_of("raspberry-pi-5", NULL); /* 25 GFLOP/s, 7 W */
    const qn_fleet_work work = {100e9, 5000000, 2500000, 1 << 20};
    qn_fleet_turn t;
    qn_fleet *f;
    CHECK_OK(qn_fleet_create(&o, &f));
    CHECK_OK(qn_fleet_take_part(f, 1, 0, &work, (double)INFINITY, &t));
    CHECK(t.is_done && fabs(t.seconds - (2 + 4 + 4)) < 1e-9);
    CHECK(fabs(t.joules - (2 + 4 * 7 + 4)) < 1e-9);
    CHECK_OK(qn_fleet_take_part(f, 1, 0, &work, 5, &t)); /* late: 2 s of radio, 3 of training */
    CHECK(!t.is_done && fabs(t.seconds - 5) < 1e-9 && fabs(t.joules - (2 + 3 * 7)) < 1e-9);
    CHECK_OK(qn_fleet_take_part(f, 1, 0, &work, 1, &t));
    CHECK(!t.is_done && fabs(t.seconds - 1) < 1e-9 && fabs(t.joules - 1) < 1e-9);
    CHECK_OK(qn_fleet_take_part(f, 1, 0, &work, 8, &t));
    CHECK(!t.is_done && fabs(t.joules - (2 + 4 * 7 + 2)) < 1e-9);
    CHECK_OK(qn_fleet_take_part(f, 1, 0, &work, 10.5, &t));
    CHECK(t.is_done);
    const qn_fleet_work large = {1, 1, 1, (int64_t)8 << 30};
    CHECK_FAILS(qn_fleet_take_part(f, 1, 0, &large, 1, &t), QN_ERROR_MEMORY,
                "raspberry-pi-5 has 7000 MiB");
    qn_fleet_destroy(f);
}

/* Nights from 22 to 6 on, whatever else: free then, and not at noon. */
static void test_nights(void) {
    qn_fleet_options o = options_of("raspberry-pi-5,snapdragon-phone", "night:22-6");
    const double hour = 3600;
    const qn_fleet_work work = {25e9 * 4 * 3600, 0, 0, 1}; /* 4 h, or 12.5 on a phone */
    qn_fleet *f;
    qn_fleet_turn t;
    double found;
    int64_t n = 0;
    o.n_clients = 24;
    CHECK_OK(qn_fleet_create(&o, &f));
    for (int64_t i = 0; i < o.n_clients; i++) {
        bool is_free;
        CHECK_OK(qn_fleet_is_free(f, i, 2 * hour, &is_free));
        CHECK(is_free);
    }
    for (int64_t i = 0; i < o.n_clients; i++) {
        CHECK_OK(qn_fleet_take_part(f, i, 2 * hour, &work, (double)INFINITY, &t));
        CHECK(t.seconds <= 4 * hour + 1 && t.is_done == (qn_fleet_device(f, i)->flops > 10e9));
        n += t.is_done;
    }
    CHECK(n > 4 && n < 20);
    for (int64_t i = 0; i < o.n_clients; i++) {
        bool is_free;
        CHECK_OK(qn_fleet_is_free(f, i, 12 * hour, &is_free));
        CHECK(!is_free);
    }
    CHECK_OK(qn_fleet_wait(f, 24, 12 * hour, &found));
    CHECK(found >= 22 * hour && found < 22.1 * hour);
    CHECK_OK(qn_fleet_take_part(f, 1, found, &work, (double)INFINITY, &t)); /* over midnight */
    CHECK(t.seconds >= fmin(4, 12.5) * hour - 1);
    CHECK_OK(qn_fleet_wait(f, 24, found + 86400 * 3, &found));
    CHECK(found >= (24 * 3 + 22) * hour);
    qn_fleet_destroy(f);
}

/* At the moment that a wait found, so many clients are free; also just before their rules cease. */
static void test_wait(void) {
    qn_fleet_options o = options_of("snapdragon-phone", "night:22-6");
    qn_fleet *f;
    double found;
    int64_t n = 0;
    o.n_clients = 3;
    CHECK_OK(qn_fleet_create(&o, &f));
    CHECK_OK(qn_fleet_wait(f, 3, 6 * 3600 - 0.25, &found));
    for (int64_t i = 0; i < 3; i++) {
        bool is_free;
        CHECK_OK(qn_fleet_is_free(f, i, found, &is_free));
        n += is_free;
    }
    CHECK(n == 3);
    qn_fleet_destroy(f);
}

/* A fleet that is asked late says what one says that was asked all the time. */
static void test_same(void) {
    qn_fleet_options o = options_of("intel-laptop,snapdragon-phone", "idle,charging,cool");
    qn_fleet *often, *seldom;
    int64_t n_free = 0;
    o.n_clients = 12;
    CHECK_OK(qn_fleet_create(&o, &often));
    CHECK_OK(qn_fleet_create(&o, &seldom));
    for (double second = 0; second < 3 * 81200; second += 1800) {
        for (int64_t i = 0; i < 12; i++) {
            bool a, b = false;
            CHECK_OK(qn_fleet_is_free(often, i, second, &a));
            if (second >= 2 * 81200)
                CHECK_OK(qn_fleet_is_free(seldom, i, second, &b));
            CHECK(second < 2 * 81200 || a == b);
            n_free += a;
        }
    }
    CHECK(n_free > 12 * 10 && n_free < 12 * 100); /* of 144 times: nights, mostly */
    qn_fleet_destroy(often);
    qn_fleet_destroy(seldom);
}

static void test_wrong(void) {
    static const struct {
        const char *kinds, *when, *says;
    } rows[] = {
        {"", NULL, "no device"},
        {"nokia", NULL, "no device nokia"},
        {"snapdragon-phone:0", NULL, "how many there are"},
        {"snapdragon-phone:x", NULL, "how many there are"},
        {"snapdragon-phone,", NULL, "no device"},
        {"raspberry-pi-5,raspberry-pi-5,raspberry-pi-5,raspberry-pi-5,raspberry-pi-5,"
         "raspberry-pi-5,raspberry-pi-5,raspberry-pi-5,raspberry-pi-5",
         NULL, "more than 8"},
        {"a-name-that-is-so-long-that-no-device-could-ever-have-it-for-its-own", NULL,
         "no device has a name"},
        {"raspberry-pi-5", "sleepy", "not a rule"},
    };
    qn_fleet *f;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const qn_fleet_options o = options_of(rows[i].kinds, rows[i].when);
        CHECK_FAILS(qn_fleet_create(&o, &f), QN_ERROR_ARGUMENT, rows[i].says);
    }
    qn_fleet_options o = options_of("raspberry-pi-5", NULL);
    o.up_mbit = 0;
    CHECK_FAILS(qn_fleet_create(&o, &f), QN_ERROR_ARGUMENT, "speed above 0");
    o = options_of("snapdragon-phone,raspberry-pi-5", "cool:30");
    double found;
    CHECK_OK(qn_fleet_create(&o, &f)); /* a Raspberry Pi is never as cool */
    CHECK_FAILS(qn_fleet_wait(f, 1000, 0, &found), QN_ERROR_ARGUMENT, "in a simulated week");
    qn_fleet_destroy(f);
}

static void test_memory(void) {
    qn_fleet_options o = options_of("snapdragon-phone", "idle,charging");
    for (int64_t n = 0;; n++) {
        failing state = {.left = n};
        const qn_allocator allocator = {&state, failing_allocate, failing_release};
        qn_fleet *f = NULL;
        double found;
        o.allocator = &allocator;
        o.n_clients = 2;
        qn_status status = qn_fleet_create(&o, &f);
        if (status == QN_OK)
            status = qn_fleet_wait(f, 1, 43200, &found);
        qn_fleet_destroy(f);
        CHECK(state.held_bytes == 0);
        if (status == QN_OK)
            break;
        CHECK(status == QN_ERROR_MEMORY);
    }
}

int main(void) {
    test_kinds();
    test_work();
    test_nights();
    test_wait();
    test_same();
    test_wrong();
    test_memory();
    return checks_finish();
}
