/* When a device may learn: rules over what its sensors say, with hysteresis, and a daily budget of
 * energy and time. A policy is data: a text such as "idle,charging,cool:40" makes it. Guarantees: a
 * decision depends on the moments seen so far alone; a broken rule stops training at the first
 * moment that shows it; it holds again only beyond a margin, for a while. Allocates nothing. */
#ifndef QN_LEARN_POLICY_H
#define QN_LEARN_POLICY_H

#include "quern/base.h"

/* What a device says of itself at a moment. */
typedef enum qn_sense {
    QN_SENSE_IDLE,     /* minutes since somebody used the device; 0: in use */
    QN_SENSE_CHARGING, /* 1: external power; 0: on battery */
    QN_SENSE_BATTERY,  /* per cent */
    QN_SENSE_CELSIUS,  /* of the battery, or of the processor where there is none */
    QN_SENSE_LOAD,     /* load average per core, without the learner's own */
    QN_SENSE_STALL,    /* per cent of the time in which something waits for memory */
    QN_SENSE_MEMORY,   /* MiB that programs may still take */
    QN_SENSE_HOUR,     /* of local time, 0 to 24 */
    QN_SENSES
} qn_sense;

/* NaN: this device has no such sensor. */
typedef struct qn_moment {
    int64_t second; /* of local time; day = second / 86400 */
    double sense[QN_SENSES];
} qn_moment;

enum { QN_DAY_SECONDS = 86400, QN_POLICY_RULES = 10, QN_POLICY_TEXT = 160 };

/* A row of the list of rules. Between limit and limit with its margin, a rule stays as it was. */
typedef struct qn_rule_kind {
    const char *name;
    qn_sense sense;
    bool is_least;             /* the sense must be at least the limit; else at most */
    bool is_needed;            /* a device without the sensor breaks it; else it holds there */
    double usual, least, most; /* the limit if the text has none, and its range */
    double margin;             /* hysteresis, in the unit of the sense */
    int64_t hold_seconds;      /* for so long beyond the margin before it holds again */
    const char *unit, *about;
} qn_rule_kind;

/* The list; null beyond the last. */
const qn_rule_kind *qn_rule_kind_at(int index);

typedef struct qn_rule {
    const qn_rule_kind *kind;
    double limit, until; /* until: the end of night's hours */
    bool holds;
    int64_t better_since; /* second since which it is beyond the margin; -1: it is not */
} qn_rule;

/*     0 <= n_rules <= QN_POLICY_RULES; spent_* are those of day */
typedef struct qn_policy {
    int n_rules;
    qn_rule rules[QN_POLICY_RULES];
    double budget_joules, budget_seconds; /* a day; 0: no limit */
    double spent_joules, spent_seconds;
    int64_t day;
    bool has_begun;
    int64_t slope_second; /* temperatures, some time apart: whither it goes */
    double slope_celsius, slope_per_minute;
} qn_policy;

/* Parses "NAME[:LIMIT],...". cool_celsius: the limit of "cool" on this device. The rules "cool" and
 * "battery" are always there: where the text lacks them, with limits at which a device must not
 * train whatever its user says. QN_ERROR_ARGUMENT names the bad part and the choices. */
qn_status qn_policy_parse(const char *text, double cool_celsius, qn_policy *policy);

/* Why not, beside the index of a rule. */
enum { QN_REASON_NONE = -1, QN_REASON_JOULES = -2, QN_REASON_SECONDS = -3 };

typedef struct qn_decision {
    bool may_train;
    int reason; /* the first rule that does not hold, or QN_REASON_ */
} qn_decision;

/* Decides for a moment. A clock that was set back brings no new budget for a day that had one. */
qn_decision qn_policy_decide(qn_policy *policy, const qn_moment *moment);

/* What training used since the last decision. */
void qn_policy_spend(qn_policy *policy, double joules, double seconds);

/* The reason for people, complete: "39.1 C, at most 38 C". Returns text. */
const char *qn_decision_print(const qn_policy *policy, const qn_decision *decision,
                              const qn_moment *moment, char text[QN_POLICY_TEXT]);

#endif
