/* See replay.h. Time goes in seconds. Temperature follows power with one time constant:
 *     dT/dt = (ambient + kelvin_per_watt * power - T) / tau */
#include "learn/replay.h"

#include "base/rng.h"
#include "base/status.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const qn_learn_device devices[] = {
    {"snapdragon-phone", 14.9, 10, 0.15, 1.8, 2.5, 24, 5, 600, 38, 2400, 8e9, 2000, 30},
    {"intel-laptop", 42, 45, 2.0, 7.4, 15, 24, 2.2, 300, 65, 4000, 60e9, 12000, 30},
    {"raspberry-pi-5", 0, 0, 2.7, 4.5, 7, 24, 8, 200, 75, 7000, 25e9, 6000, 30},
    {"jetson-tx2", 0, 0, 2.5, 6, 9, 24, 3, 300, 60, 5000, 15e9, 8000, 30},
};

enum { N_DEVICES = sizeof devices / sizeof devices[0] };

/* Somebody who takes the device once in so many minutes, and uses it for so many. */
static const double minutes_between = 20, minutes_of_use = 4, minutes_between_at_night = 400;
static const double charger_loss = 0.1, full = 0.999;

const qn_learn_device *qn_learn_device_at(int index) {
    return index >= 0 && index < N_DEVICES ? &devices[index] : NULL;
}

const qn_learn_device *qn_learn_device_find(const char *name) {
    const char *names[N_DEVICES];
    for (int i = 0; i < N_DEVICES; i++) {
        names[i] = devices[i].name;
        if (strcmp(names[i], name) == 0)
            return &devices[i];
    }
    const char *nearest = qn_text_nearest(name, names, N_DEVICES);
    qn_fail(QN_ERROR_ARGUMENT,
            "no device %s%s%s; there are snapdragon-phone, intel-laptop, raspberry-pi-5, "
            "jetson-tx2",
            name, nearest ? ", did you mean " : "", nearest ? nearest : "");
    return NULL;
}

void qn_replay_init(const qn_replay_options *options, qn_replay *r) {
    *r = (qn_replay){.o = *options, .last_reason = QN_REASON_NONE};
    r->celsius = options->device->ambient_celsius;
    r->battery_joules = 0.7 * 3600 * options->device->battery_wh;
}

/* ---- use ---- */

static double draw(const qn_replay *r, const char *what, int64_t index) {
    const qn_rng rng = qn_rng_make(r->o.seed, qn_hash_text(what), 0);
    return (double)qn_rng_uniform(qn_rng_word(rng, (uint64_t)index));
}

static void begin_day(qn_replay *r) {
    const int64_t day = r->second / QN_DAY_SECONDS;
    r->wake_hour = 6.3 + 1.5 * draw(r, "learn.wake", day);
    r->bed_hour = 22 + 1.7 * draw(r, "learn.bed", day);
}

/* Somebody may come or go once a minute, and plugs the device in at bed time. */
static void draw_minute(qn_replay *r) {
    const double hour = (double)(r->second % QN_DAY_SECONDS) / 3600;
    const bool is_night = hour < r->wake_hour || hour >= r->bed_hour;
    const double between = is_night ? minutes_between_at_night : minutes_between;
    const double u = draw(r, "learn.use", r->second / 60);
    r->is_used = r->is_used ? u >= 1 / minutes_of_use : u < 1 / between;
    r->is_plugged = is_night || (hour >= 13 && hour < 14 && r->second / QN_DAY_SECONDS % 2 == 0);
}

static double power(const qn_replay *r) {
    const qn_learn_device *d = r->o.device;
    const double own = r->is_training ? d->train_w - d->asleep_w : 0;
    return own + (r->is_used ? d->use_w : d->asleep_w);
}

static void live_second(qn_replay *r) {
    const qn_learn_device *d = r->o.device;
    const double capacity = 3600 * d->battery_wh, watts = power(r);
    double heat = watts, level = r->battery_joules;
    if (r->is_plugged && level < full * capacity) {
        level += d->charger_w - watts;
        heat += charger_loss * d->charger_w;
    } else if (!r->is_plugged) {
        level -= watts;
    }
    r->battery_joules = fmin(fmax(level, 0), capacity);
    r->celsius += (d->ambient_celsius + d->kelvin_per_watt * heat - r->celsius) / d->tau_seconds;
}

static void sense_drawn(qn_replay *r, qn_moment *m) {
    const qn_learn_device *d = r->o.device;
    const bool has_battery = d->battery_wh > 0;
    if (r->second % QN_DAY_SECONDS == 0)
        begin_day(r);
    if (r->second % 60 == 0)
        draw_minute(r);
    live_second(r);
    m->sense[QN_SENSE_CHARGING] = has_battery ? r->is_plugged : (double)NAN;
    m->sense[QN_SENSE_BATTERY] =
        has_battery ? 100 * r->battery_joules / (3600 * d->battery_wh) : (double)NAN;
    m->sense[QN_SENSE_CELSIUS] = r->celsius;
    m->sense[QN_SENSE_LOAD] = r->is_used ? 0.6 : 0.05;
    m->sense[QN_SENSE_STALL] = 0;
    m->sense[QN_SENSE_MEMORY] = r->is_used ? d->memory_mib / 2 : d->memory_mib;
}

/* A trace has the device without training: its warmth is added. */
static void sense_trace(qn_replay *r, qn_moment *m) {
    const qn_learn_device *d = r->o.device;
    const double own = r->is_training ? d->kelvin_per_watt * (d->train_w - d->asleep_w) : 0;
    *m = *qn_trace_at(r->o.trace, r->second);
    r->is_used = m->sense[QN_SENSE_IDLE] < 0.5;
    r->own_celsius += (own - r->own_celsius) / d->tau_seconds;
    m->sense[QN_SENSE_CELSIUS] += r->own_celsius;
}

static void sense(qn_replay *r, qn_moment *m) {
    if (r->o.trace)
        sense_trace(r, m);
    else
        sense_drawn(r, m);
    if (r->is_used)
        r->used_second = r->second;
    m->second = r->second;
    m->sense[QN_SENSE_IDLE] = (double)(r->second - r->used_second) / 60;
    m->sense[QN_SENSE_HOUR] = (double)(r->second % QN_DAY_SECONDS) / 3600;
}

/* ---- deciding ---- */

static void tell(qn_replay *r, const qn_decision *d, const qn_moment *m) {
    char why[QN_POLICY_TEXT];
    if (r->has_decided && d->reason == r->last_reason)
        return;
    r->has_decided = true;
    r->last_reason = d->reason;
    if (r->o.decided)
        r->o.decided(r->o.user, m->second, d->may_train,
                     qn_decision_print(&r->o.policy, d, m, why));
}

static void train_second(qn_replay *r, const qn_moment *m, qn_replayed_day *day) {
    const double watts = r->o.device->train_w;
    qn_policy_spend(&r->o.policy, watts, 1);
    day->n_slices += !r->is_training;
    day->train_seconds++;
    day->joules += watts;
    day->hottest_celsius = fmax(day->hottest_celsius, m->sense[QN_SENSE_CELSIUS]);
    day->lowest_battery = fmin(day->lowest_battery, m->sense[QN_SENSE_BATTERY]);
}

static void refuse_second(const qn_replay *r, const qn_decision *d, qn_replayed_day *day) {
    day->n_returns += r->is_training && r->is_used;
    if (d->reason >= 0)
        day->refused_seconds[d->reason]++;
    else if (d->reason != QN_REASON_NONE)
        day->over_budget_seconds++;
}

void qn_replay_next(qn_replay *r, double wanted_seconds, qn_replayed_day *day) {
    *day = (qn_replayed_day){.day = r->second / QN_DAY_SECONDS + 1,
                             .hottest_celsius = (double)NAN,
                             .lowest_battery = (double)NAN};
    for (int i = 0; i < QN_DAY_SECONDS; i++, r->second++) {
        qn_moment m;
        sense(r, &m);
        const qn_decision d = qn_policy_decide(&r->o.policy, &m);
        const bool trains = d.may_train && (double)day->train_seconds < wanted_seconds;
        tell(r, &d, &m);
        if (trains)
            train_second(r, &m, day);
        else
            refuse_second(r, &d, day);
        r->is_training = trains;
        day->use_seconds += r->is_used;
        day->charging_seconds += m.sense[QN_SENSE_CHARGING] > 0.5;
    }
}
