/* When a device may learn: every rule stops and allows where it should, with its margin; no
 * training while hot, low or in use on random days; budgets hold; traces are read or refused; days
 * replay. */
#include "base/rng.h"
#include "check.h"
#include "failing.h"
#include "learn/replay.h"

#include <math.h>
#include <stdlib.h>

static qn_policy parse(const char *text) {
    qn_policy p = {0};
    CHECK_OK(qn_policy_parse(text, 40, &p));
    return p;
}

/* All is well, at noon. */
static qn_moment well(int64_t second) {
    return (qn_moment){second, {60, 1, 90, 25, 0.1, 0, 4000, 12}};
}

static void test_texts(void) {
    static const char *const bad[][2] = {
        {"", "names with commas"},     {"idle,", "names with commas"},
        {"idel", "did you mean idle"}, {"idle,idle", "stands twice"},
        {"idle:x", "a number from"},   {"battery:200", "from 5 to 95"},
        {"night:5", "two hours"},      {"night:5-5", "two hours"},
        {"cool:nan", "a number from"}, {"idle:", "a number from"},
    };
    qn_policy p = parse("idle:2,night:22-6");
    CHECK(p.n_rules == 4 && p.rules[0].limit == 2 && p.rules[1].until == 6);
    CHECK(p.rules[2].limit == 47 && p.rules[3].limit == 20); /* always there */
    p = parse("battery:60,cool");
    CHECK(p.n_rules == 2 && p.rules[0].limit == 60 && p.rules[1].limit == 40);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK_FAILS(qn_policy_parse(bad[i][0], 40, &p), QN_ERROR_ARGUMENT, bad[i][1]);
    CHECK(p.n_rules == 2);
}

/* A rule alone: at `bad` it stops at once, at `near` (within the margin) it does not allow again,
 * at `good` it does after its time. */
static void test_rules(void) {
    static const struct {
        const char *text;
        qn_sense sense;
        double bad, near, good;
    } rows[] = {
        {"idle:5", QN_SENSE_IDLE, 4.9, 0, 5},           {"charging", QN_SENSE_CHARGING, 0, 0, 1},
        {"battery:50", QN_SENSE_BATTERY, 49, 54, 55},   {"cool:40", QN_SENSE_CELSIUS, 40.5, 38, 36},
        {"load:0.5", QN_SENSE_LOAD, 0.6, 0.45, 0.3},    {"calm:10", QN_SENSE_STALL, 11, 9, 7},
        {"memory:500", QN_SENSE_MEMORY, 499, 540, 551}, {"night:22-6", QN_SENSE_HOUR, 21.9, 6, 22},
        {"night:9-17", QN_SENSE_HOUR, 8.9, 17, 9},      {"night:22-6", QN_SENSE_HOUR, 12, 7, 5.9},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        qn_policy p = parse(rows[i].text);
        const double values[] = {rows[i].good, rows[i].bad, rows[i].near, rows[i].good};
        char text[QN_POLICY_TEXT];
        for (int k = 0; k < 4; k++) {
            qn_decision d = {0};
            qn_moment m;
            for (int s = 0; s <= 200; s += 10) {
                m = well(k * 1000 + s);
                m.sense[rows[i].sense] = values[k];
                d = qn_policy_decide(&p, &m);
                CHECK(d.may_train || k != 3 || s < 200);
                CHECK(!d.may_train || k == 0 || k == 3);
            }
            CHECK(d.may_train == (k == 0 || k == 3));
            CHECK(strlen(qn_decision_print(&p, &d, &m, text)) > 8);
        }
    }
}

static void test_unknown_senses(void) {
    qn_policy p = parse("idle,charging,cool,battery,memory");
    qn_moment m = well(0);
    for (int i = 1; i < QN_SENSE_HOUR; i++)
        m.sense[i] = (double)NAN;
    CHECK(qn_policy_decide(&p, &m).may_train);
    m.sense[QN_SENSE_IDLE] = (double)NAN; /* nobody knows whether it is in use */
    CHECK(!qn_policy_decide(&p, &m).may_train);
}

static void test_slope(void) {
    qn_policy p = parse("cool:40");
    qn_moment m = well(0);
    char text[QN_POLICY_TEXT];
    qn_decision d = {0};
    for (int s = 0; s <= 300; s += 30) { /* 3 degrees a minute, from 25 on */
        m = well(s);
        m.sense[QN_SENSE_CELSIUS] = 25 + 0.05 * s;
        d = qn_policy_decide(&p, &m);
    }
    CHECK(!d.may_train && m.sense[QN_SENSE_CELSIUS] == 40);
    CHECK(strstr(qn_decision_print(&p, &d, &m, text), "rising"));
}

static void test_budget(void) {
    qn_policy p = parse("idle");
    qn_moment m = well(0);
    p.budget_joules = 100;
    for (int s = 0; s <= 120; s++) {
        m = well(s);
        CHECK(qn_policy_decide(&p, &m).may_train == (s >= 60 && p.spent_joules < 100));
        if (s >= 60)
            qn_policy_spend(&p, 2.5, 1);
    }
    m = well(200);
    CHECK(qn_policy_decide(&p, &m).reason == QN_REASON_JOULES);
    m = well(QN_DAY_SECONDS + 5);
    CHECK(qn_policy_decide(&p, &m).may_train);
    qn_policy_spend(&p, 100, 1);
    m = well(300); /* the clock is set back, and goes on: the second day is still spent */
    CHECK(qn_policy_decide(&p, &m).reason == QN_REASON_JOULES);
    m = well(QN_DAY_SECONDS + 50);
    CHECK(qn_policy_decide(&p, &m).reason == QN_REASON_JOULES);
    p.budget_seconds = 0.5, p.budget_joules = 0;
    CHECK(qn_policy_decide(&p, &m).reason == QN_REASON_SECONDS);
}

/* Senses jump and drift at random; whatever was before, nothing is trained in a bad moment. */
static int64_t walk_day(uint64_t day, bool *holds) {
    const qn_rng rng = qn_rng_make(day, 1, 0);
    qn_policy p = {0};
    int64_t n_allowed = 0, at = 0;
    if (qn_policy_parse("idle:3,battery:45,cool:42,charging", 42, &p) != QN_OK)
        return 0;
    p.budget_seconds = 3600;
    for (uint64_t i = 0; i < 240; i++) {
        uint32_t w[4];
        qn_rng_block(rng, i, w);
        at += w[3] % 700;
        qn_moment m = {
            at, {w[0] % 90, w[1] % 16 > 0, 30 + w[2] % 70, 20 + (w[0] >> 8) % 27, 0, 0, 1000, 12}};
        const qn_decision d = qn_policy_decide(&p, &m);
        if (!d.may_train)
            continue;
        n_allowed++;
        qn_policy_spend(&p, 1, 60);
        *holds = *holds && m.sense[QN_SENSE_IDLE] >= 3 && m.sense[QN_SENSE_BATTERY] >= 45 &&
                 m.sense[QN_SENSE_CELSIUS] <= 42 && m.sense[QN_SENSE_CHARGING] == 1 &&
                 p.spent_seconds <= 3600;
    }
    return n_allowed;
}

static void test_random_days(void) {
    const uint64_t n = getenv("QUERN_ALL") ? 1000000 : getenv("QUERN_SLOW") ? 300 : 3000;
    bool holds = true;
    int64_t n_allowed = 0;
    for (uint64_t day = 0; day < n; day++)
        n_allowed += walk_day(day, &holds);
    printf("%lld moments of %llu days allowed training\n", (long long)n_allowed,
           (unsigned long long)n);
    CHECK(holds);
    CHECK(n_allowed > (int64_t)n);
}

/* ---- traces ---- */

static qn_status read_trace(const char *text, qn_trace *t) {
    return qn_trace_parse(NULL, "t.csv", text, strlen(text), t);
}

static void test_traces(void) {
    static const char *const bad[][2] = {
        {"", "empty"},
        {"second,in_use\n", "no rows"},
        {"second\n1\n", "needs the columns"},
        {"second,in_use,colour\n", "not a column"},
        {"second,in_use,in_use\n", "stands twice"},
        {"second,in_use\n1,0,3\n", "3 fields instead of 2"},
        {"second,in_use\n1,2\n", "line 2: in_use"},
        {"second,in_use\n5,0\n5,1\n", "seconds must rise"},
        {"second,in_use,battery\n5,0,101\n", "battery"},
        {"second,in_use\n5,0\n400000000000,1\n", "covers"},
    };
    qn_trace t;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK_FAILS(read_trace(bad[i][0], &t), QN_ERROR_FORMAT, bad[i][1]);
    CHECK_OK(read_trace("second,in_use,celsius\n86410,1,\n90000,0,31.5\n", &t));
    CHECK(t.n_days == 1 && t.n_rows == 2);
    CHECK(qn_trace_at(&t, 0)->sense[QN_SENSE_IDLE] == 0); /* the first row also before its time */
    CHECK(qn_trace_at(&t, 3600)->sense[QN_SENSE_CELSIUS] == 31.5);
    CHECK(isnan(qn_trace_at(&t, QN_DAY_SECONDS + 20)->sense[QN_SENSE_CELSIUS]));
    CHECK(isnan(qn_trace_at(&t, 5)->sense[QN_SENSE_BATTERY]));
    qn_trace_close(&t);
}

static void test_failing_allocations(void) {
    const char *text = "second,in_use\n1,0\n2,1\n";
    for (int64_t n = 0;; n++) {
        failing f = {.left = n};
        const qn_allocator a = {&f, failing_allocate, failing_release};
        qn_trace t;
        const qn_status status = qn_trace_parse(&a, "t", text, strlen(text), &t);
        if (status == QN_OK)
            qn_trace_close(&t);
        CHECK(f.held_bytes == 0);
        if (status == QN_OK)
            break;
        CHECK(status == QN_ERROR_MEMORY && n < 50);
    }
}

/* ---- replays ---- */

typedef struct watched {
    int n_decisions;
    int64_t last;
} watched;

static void watch(void *user, int64_t second, bool may_train, const char *why) {
    watched *w = user;
    CHECK(second >= w->last && strlen(why) > 8);
    w->n_decisions += may_train;
    w->last = second;
}

static void test_days(void) {
    for (int i = 0; qn_learn_device_at(i); i++) {
        const qn_learn_device *device = qn_learn_device_at(i);
        watched w = {0};
        qn_replay_options o = {.device = device, .seed = 5, .user = &w, .decided = watch};
        qn_replay r, again;
        qn_replayed_day day, same;
        double trained = 0;
        CHECK(qn_learn_device_find(device->name) == device);
        CHECK_OK(qn_policy_parse("idle,charging,cool", device->cool_celsius, &o.policy));
        o.policy.budget_joules = device->day_joules;
        qn_replay_init(&o, &r);
        o.decided = NULL;
        qn_replay_init(&o, &again);
        for (int d = 1; d <= 3; d++) {
            qn_replay_next(&r, 900, &day);
            qn_replay_next(&again, 900, &same);
            CHECK(memcmp(&day, &same, sizeof day) == 0 && day.day == d);
            CHECK(day.joules <= device->day_joules + device->train_w && day.train_seconds <= 900);
            CHECK(!(day.hottest_celsius > device->cool_celsius));
            CHECK(!(day.lowest_battery < 20));
            trained += (double)day.train_seconds;
        }
        CHECK(trained > 300 && w.n_decisions > 0);
    }
    CHECK(!qn_learn_device_find("snapdragon"));
}

/* In use all day but from 2 to 3 o'clock: trains there alone, five minutes late. */
static void test_replayed_trace(void) {
    qn_trace t;
    qn_replayed_day day;
    qn_replay r;
    CHECK_OK(read_trace("second,in_use,charging,battery,celsius\n0,1,1,80,25\n7200,0,1,80,25\n"
                        "10800,1,1,80,25\n",
                        &t));
    qn_replay_options o = {.device = qn_learn_device_at(0), .trace = &t};
    CHECK_OK(qn_policy_parse("idle,charging,cool", 60, &o.policy));
    qn_replay_init(&o, &r);
    for (int d = 0; d < 2; d++) {
        qn_replay_next(&r, QN_DAY_SECONDS, &day);
        CHECK(day.train_seconds == 3301 && day.n_slices == 1 && day.n_returns == 1);
        CHECK(day.use_seconds == QN_DAY_SECONDS - 3600);
        CHECK(day.hottest_celsius > 30); /* by its own warmth */
    }
    qn_trace_close(&t);
}

int main(void) {
    test_texts();
    test_rules();
    test_unknown_senses();
    test_slope();
    test_budget();
    test_random_days();
    test_traces();
    test_failing_allocations();
    test_days();
    test_replayed_trace();
    return checks_finish();
}
