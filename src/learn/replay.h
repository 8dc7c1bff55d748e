/* Days of a device, replayed in a fraction of a second: who uses it when, its battery, its
 * temperature, and when a policy lets it train. Use comes from a trace or is drawn by seed;
 * training warms the device and drains its battery. The same options give the same days. */
#ifndef QN_LEARN_REPLAY_H
#define QN_LEARN_REPLAY_H

#include "learn/policy.h"
#include "learn/trace.h"

/* What the model of a device needs. Figures are of data sheets and of the trees in tests/devices;
 * docs/learning.md says which. */
typedef struct qn_learn_device {
    const char *name;
    double battery_wh; /* 0: none */
    double charger_w, asleep_w, use_w, train_w;
    double ambient_celsius, kelvin_per_watt, tau_seconds; /* one heat capacity */
    double cool_celsius;                                  /* limit of the rule "cool" */
    double memory_mib;                                    /* free, in use and not */
    double flops;                                         /* a second of training, sustained */
    double day_joules, day_minutes;                       /* usual budget */
} qn_learn_device;

/* Operations of training with a sample, for one of a forward pass. */
enum { QN_TRAIN_COST = 3 };

/* The list; null beyond the last. */
const qn_learn_device *qn_learn_device_at(int index);

/* By name; null: there is none, and the message names the list. */
const qn_learn_device *qn_learn_device_find(const char *name);

typedef struct qn_replay_options {
    const qn_learn_device *device;
    const qn_trace *trace; /* null: drawn by seed */
    uint64_t seed;
    qn_policy policy; /* copied */
    void *user;
    /* Every change of the decision, for people; may be null. */
    void (*decided)(void *user, int64_t second, bool may_train, const char *why);
} qn_replay_options;

/* A day; what was not seen is NaN. */
typedef struct qn_replayed_day {
    int64_t day; /* from 1 */
    int64_t train_seconds, use_seconds, charging_seconds;
    double joules;
    int64_t n_slices;                         /* stretches of training */
    int64_t n_returns;                        /* that ended since the user came back */
    double hottest_celsius, lowest_battery;   /* while it trained */
    int64_t refused_seconds[QN_POLICY_RULES]; /* by the first rule that did not hold */
    int64_t over_budget_seconds;
} qn_replayed_day;

/*     0 <= battery_joules <= that of the device */
typedef struct qn_replay {
    qn_replay_options o;
    int64_t second, used_second; /* since the first midnight; when somebody used it last */
    bool is_used, is_plugged, is_training;
    int last_reason;
    bool has_decided;
    double wake_hour, bed_hour;
    double battery_joules, celsius, own_celsius; /* own: what training adds to a trace's */
} qn_replay;

void qn_replay_init(const qn_replay_options *options, qn_replay *replay);

/* One more day, in which at most wanted_seconds of training are asked for. */
void qn_replay_next(qn_replay *replay, double wanted_seconds, qn_replayed_day *day);

#endif
