/* See policy.h. */
#include "learn/policy.h"

#include "base/decimal.h"
#include "base/print.h"
#include "base/status.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Beyond "cool" and below "battery" by so much no device trains, whatever rules it was given. */
static const double hot_beyond = 7, low_percent = 20;
/* Temperatures are compared over at least this long, and foreseen for this long. */
enum { SLOPE_SECONDS = 30 };
static const double foreseen_minutes = 1;

static const qn_rule_kind kinds[] = {
    {"idle", QN_SENSE_IDLE, true, true, 5, 0.1, 1440, 0, 0, "min idle",
     "nobody has used the device for so many minutes"},
    {"charging", QN_SENSE_CHARGING, true, false, 1, 1, 1, 0, 60, "external power",
     "external power; holds on devices without a battery"},
    {"battery", QN_SENSE_BATTERY, true, false, 50, 5, 95, 5, 60, "% battery",
     "the battery has so many per cent"},
    {"cool", QN_SENSE_CELSIUS, false, false, NAN, 10, 95, 3, 60, "C",
     "the temperature is at most so many degrees, now and in a minute if it rises as it does"},
    {"load", QN_SENSE_LOAD, false, false, 0.5, 0.05, 64, 0.1, 60, "load per core",
     "load average of others per core"},
    {"calm", QN_SENSE_STALL, false, false, 10, 0.1, 100, 2, 60, "% memory stall",
     "per cent of the time in which programs wait for memory"},
    {"memory", QN_SENSE_MEMORY, true, false, 500, 1, 1e7, 50, 10, "MiB free",
     "MiB that are available"},
    {"night", QN_SENSE_HOUR, true, true, 22, 0, 24, 0, 0, "h",
     "hours of local time, as night:22-6"},
};

enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

const qn_rule_kind *qn_rule_kind_at(int index) {
    return index >= 0 && index < N_KINDS ? &kinds[index] : NULL;
}

/* ---- parsing ---- */

static const qn_rule_kind *find_kind(const char *name) {
    for (int i = 0; i < N_KINDS; i++) {
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    }
    return NULL;
}

static bool has_rule(const qn_policy *p, const char *name) {
    for (int i = 0; i < p->n_rules; i++) {
        if (strcmp(p->rules[i].kind->name, name) == 0)
            return true;
    }
    return false;
}

static qn_status fail_unknown(const char *name) {
    const char *names[N_KINDS];
    for (int i = 0; i < N_KINDS; i++)
        names[i] = kinds[i].name;
    const char *nearest = qn_text_nearest(name, names, N_KINDS);
    return qn_fail(QN_ERROR_ARGUMENT,
                   "\"%s\" is not a rule%s%s; rules are idle, charging, battery, cool, load, calm, "
                   "memory, night",
                   name, nearest ? ", did you mean " : "", nearest ? nearest : "");
}

/* "22-6". */
static bool read_hours(const char *text, qn_rule *rule) {
    char from[8];
    const char *dash = strchr(text, '-');
    if (!dash || dash - text >= (int)sizeof from)
        return false;
    memcpy(from, text, (size_t)(dash - text));
    from[dash - text] = 0;
    return qn_decimal_parse(from, &rule->limit) && qn_decimal_parse(dash + 1, &rule->until) &&
           rule->limit >= 0 && rule->limit <= 24 && rule->until >= 0 && rule->until <= 24 &&
           rule->limit != rule->until;
}

static bool read_limit(const char *text, qn_rule *rule) {
    if (rule->kind->sense == QN_SENSE_HOUR)
        return read_hours(text, rule);
    return qn_decimal_parse(text, &rule->limit) && rule->limit >= rule->kind->least &&
           rule->limit <= rule->kind->most;
}

static qn_status add_rule(const char *part, double cool, qn_policy *p) {
    char name[48];
    qn_rule rule = {.until = 6, .better_since = -1};
    snprintf(name, sizeof name, "%s", part);
    char *colon = strchr(name, ':');
    if (colon)
        *colon = 0;
    rule.kind = find_kind(name);
    if (!rule.kind)
        return fail_unknown(name);
    if (has_rule(p, name))
        return qn_fail(QN_ERROR_ARGUMENT, "the rule %s stands twice", name);
    rule.limit = rule.kind->sense == QN_SENSE_CELSIUS ? cool : rule.kind->usual;
    if (colon && !read_limit(colon + 1, &rule))
        return rule.kind->sense == QN_SENSE_HOUR
                   ? qn_fail(QN_ERROR_ARGUMENT, "night:%s: two hours from 0 to 24, as night:22-6",
                             colon + 1)
                   : qn_fail(QN_ERROR_ARGUMENT, "%s:%s: a number from %g to %g (%s)", name,
                             colon + 1, rule.kind->least, rule.kind->most, rule.kind->unit);
    p->rules[p->n_rules++] = rule;
    return QN_OK;
}

static void add_always(const char *name, double limit, qn_policy *p) {
    if (!has_rule(p, name))
        p->rules[p->n_rules++] =
            (qn_rule){.kind = find_kind(name), .limit = limit, .better_since = -1};
}

qn_status qn_policy_parse(const char *text, double cool, qn_policy *policy) {
    qn_policy p = {.slope_celsius = (double)NAN};
    char part[40];
    for (const char *at = text;;) {
        const size_t n = strcspn(at, ",");
        if (n == 0 || n >= sizeof part)
            return qn_fail(QN_ERROR_ARGUMENT,
                           "rules are names with commas between, as idle,charging,cool:40");
        memcpy(part, at, n);
        part[n] = 0;
        QN_TRY(add_rule(part, cool, &p));
        if (!at[n])
            break;
        at += n + 1;
    }
    add_always("cool", cool + hot_beyond, &p);
    add_always("battery", low_percent, &p);
    *policy = p;
    return QN_OK;
}

/* ---- deciding ---- */

static bool is_within_hours(const qn_rule *r, double hour) {
    if (r->limit < r->until)
        return hour >= r->limit && hour < r->until;
    return hour >= r->limit || hour < r->until;
}

/* How far the sense is on the right side of the limit; below 0: the rule is broken. */
static double distance(const qn_policy *p, const qn_rule *r, double value) {
    if (r->kind->sense == QN_SENSE_HOUR)
        return is_within_hours(r, value) ? 0 : -1;
    if (r->kind->sense == QN_SENSE_CELSIUS)
        value += fmax(p->slope_per_minute, 0) * foreseen_minutes;
    return r->kind->is_least ? value - r->limit : r->limit - value;
}

static void decide_rule(const qn_policy *p, qn_rule *r, const qn_moment *m) {
    const double value = m->sense[r->kind->sense];
    const double beyond = isnan(value) ? -1 : distance(p, r, value);
    if (isnan(value) && !r->kind->is_needed) {
        r->holds = true;
        return;
    }
    if (beyond < 0)
        r->holds = false;
    if (beyond < r->kind->margin) {
        r->better_since = -1;
        return;
    }
    if (r->better_since < 0 || r->better_since > m->second)
        r->better_since = m->second;
    r->holds = r->holds || m->second - r->better_since >= r->kind->hold_seconds;
}

static void follow_temperature(qn_policy *p, const qn_moment *m) {
    const double celsius = m->sense[QN_SENSE_CELSIUS];
    const int64_t seconds = m->second - p->slope_second;
    if (isnan(celsius) || (!isnan(p->slope_celsius) && seconds >= 0 && seconds < SLOPE_SECONDS))
        return;
    const bool is_near = !isnan(p->slope_celsius) && seconds > 0 && seconds <= 20 * SLOPE_SECONDS;
    p->slope_per_minute = is_near ? (celsius - p->slope_celsius) * 60 / (double)seconds : 0;
    p->slope_celsius = celsius;
    p->slope_second = m->second;
}

/* A day that was already there, since the clock was set back, brings no new budget. */
static void follow_day(qn_policy *p, int64_t second) {
    const int64_t day = second / QN_DAY_SECONDS;
    if (!p->has_begun || day > p->day)
        p->spent_joules = p->spent_seconds = 0;
    if (!p->has_begun || day > p->day || day < p->day - 1)
        p->day = day;
    p->has_begun = true;
}

qn_decision qn_policy_decide(qn_policy *p, const qn_moment *m) {
    qn_decision d = {true, QN_REASON_NONE};
    follow_day(p, m->second);
    follow_temperature(p, m);
    for (int i = p->n_rules - 1; i >= 0; i--) {
        decide_rule(p, &p->rules[i], m);
        if (!p->rules[i].holds)
            d = (qn_decision){false, i};
    }
    if (!d.may_train)
        return d;
    if (p->budget_joules > 0 && p->spent_joules >= p->budget_joules)
        return (qn_decision){false, QN_REASON_JOULES};
    if (p->budget_seconds > 0 && p->spent_seconds >= p->budget_seconds)
        return (qn_decision){false, QN_REASON_SECONDS};
    return d;
}

void qn_policy_spend(qn_policy *p, double joules, double seconds) {
    p->spent_joules += fmax(joules, 0);
    p->spent_seconds += fmax(seconds, 0);
}

/* ---- words ---- */

static void print_rule(const qn_policy *p, const qn_rule *r, const qn_moment *m, char *text) {
    const double value = m->sense[r->kind->sense];
    const bool is_broken = isnan(value) || distance(p, r, value) < 0;
    const double margin = is_broken ? 0 : r->kind->margin;
    const double limit = r->kind->is_least ? r->limit + margin : r->limit - margin;
    const char *side = r->kind->is_least ? "at least" : "at most";
    if (isnan(value))
        snprintf(text, QN_POLICY_TEXT, "%s: this device does not say it", r->kind->name);
    else if (r->kind->sense == QN_SENSE_HOUR)
        qn_print(text, QN_POLICY_TEXT, "night: %.1f h is not within %g-%g", value, r->limit,
                 r->until);
    else if (r->kind->sense == QN_SENSE_CHARGING)
        snprintf(text, QN_POLICY_TEXT, "charging: %s",
                 is_broken ? "on battery" : "external power since less than a minute");
    else if (is_broken && (r->kind->is_least ? value >= r->limit : value <= r->limit))
        qn_print(text, QN_POLICY_TEXT, "%s: %.1f %s and rising by %.1f a minute, %s %g",
                 r->kind->name, value, r->kind->unit, p->slope_per_minute, side, limit);
    else
        qn_print(text, QN_POLICY_TEXT, "%s: %.1f %s, %s %g%s", r->kind->name, value, r->kind->unit,
                 side, limit, is_broken ? "" : " for a while");
}

const char *qn_decision_print(const qn_policy *p, const qn_decision *d, const qn_moment *m,
                              char text[QN_POLICY_TEXT]) {
    if (d->reason >= 0)
        print_rule(p, &p->rules[d->reason], m, text);
    else if (d->reason == QN_REASON_JOULES)
        qn_print(text, QN_POLICY_TEXT, "budget: %.0f J of %.0f J are spent today", p->spent_joules,
                 p->budget_joules);
    else if (d->reason == QN_REASON_SECONDS)
        qn_print(text, QN_POLICY_TEXT, "budget: %.1f min of %.1f min are spent today",
                 p->spent_seconds / 60, p->budget_seconds / 60);
    else
        snprintf(text, QN_POLICY_TEXT, "all rules hold");
    return text;
}
