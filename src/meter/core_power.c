/* See core_power.h. */
#include "meter/core_power.h"

#include "base/status.h"
#include "os/heap.h"
#include "os/os.h"
#include "os/team.h"

#include <math.h>

/* Each measurement; sources that are slower than that are not waited for. */
static const int64_t sense_ns = 120000000;

/* ---- a sensor ---- */

/* The channel of the whole device, else of its processor; -1: none that is measured. */
static int find_channel(const qn_channel *channels, int n) {
    int found = -1;
    for (int i = 0; i < n && i < QN_CORE_POWER_CHANNELS; i++) {
        if (channels[i].quantity != QN_QUANTITY_POWER || channels[i].is_estimated)
            continue;
        if (channels[i].part == QN_PART_SYSTEM)
            return i;
        found = channels[i].part == QN_PART_CPU && found < 0 ? i : found;
    }
    return found;
}

static void work(void *context, int64_t begin, int64_t end, int thread) {
    const int64_t *until_ns = context;
    volatile float x = 1;
    (void)begin;
    (void)end;
    (void)thread;
    while (qn_clock_ns() < *until_ns) {
        for (int i = 0; i < 1000; i++)
            x = x * 0.5f + 1;
    }
}

/* Watts meanwhile, with a team at work or none; below 0: no reading came. */
static double watts_while(const qn_source_kind *kind, void *source, int channel, qn_team *team) {
    qn_reading readings[QN_CORE_POWER_CHANNELS] = {{0}};
    int64_t until_ns = qn_clock_ns() + sense_ns;
    kind->read(source, qn_clock_ns(), readings);
    if (team)
        qn_team_run(team, qn_team_size(team), work, &until_ns);
    else
        qn_sleep_ns(sense_ns);
    for (int i = 0; i < QN_CORE_POWER_CHANNELS; i++)
        readings[i] = (qn_reading){0};
    kind->read(source, qn_clock_ns(), readings);
    return readings[channel].end_ns > 0 ? readings[channel].value : -1;
}

static bool sense(const qn_source_kind *kind, void *source, int channel, int n,
                  qn_core_wish *wish) {
    qn_team *team;
    if (qn_team_create(NULL, n, &team) != QN_OK)
        return false;
    const double idle = watts_while(kind, source, channel, NULL);
    const double busy = watts_while(kind, source, channel, team);
    qn_team_destroy(team);
    if (idle < 0 || busy <= idle)
        return false;
    wish->idle_watts = idle;
    wish->core_watts = (busy - idle) / n;
    return true;
}

/* A row's source, opened, if it has such a channel. */
static bool open_source(const qn_source_kind *kind, const qn_source_options *options,
                        int64_t period_ns, void **source, int *channel) {
    int n;
    *source = NULL;
    if (kind->follows || kind->period_ns > period_ns || kind->open(options, source) != QN_OK ||
        !*source)
        return false;
    const qn_channel *channels = kind->channels(*source, &n);
    *channel = find_channel(channels, n);
    if (n <= QN_CORE_POWER_CHANNELS && *channel >= 0)
        return true;
    kind->close(*source);
    return false;
}

const qn_source_kind *qn_core_power_find(const qn_source_options *options, int64_t period_ns,
                                         void **source, int *channel) {
    for (int i = 0; qn_source_kinds[i]; i++) {
        if (open_source(qn_source_kinds[i], options, period_ns, source, channel))
            return qn_source_kinds[i];
    }
    return NULL;
}

bool qn_core_power_sense(const qn_source_options *options, int n, qn_core_wish *wish) {
    bool is_sensed = false;
    for (int i = 0; qn_source_kinds[i] && !is_sensed; i++) {
        void *source;
        int channel;
        if (!open_source(qn_source_kinds[i], options, sense_ns, &source, &channel))
            continue;
        is_sensed = sense(qn_source_kinds[i], source, channel, n, wish);
        qn_source_kinds[i]->close(source);
    }
    return is_sensed;
}

/* ---- a clock ---- */

/* What is to be least of a step whose time at the full clock is 1. */
static double cost_of(const qn_core_wish *wish, int n, double level) {
    const double core = wish->core_watts * level * level;
    double used = n;
    if (wish->most_watts > 0)
        used = fmin(n, floor((wish->most_watts - wish->idle_watts) / core));
    if (used < 1)
        return INFINITY;
    const double time = n / (used * level), watts = wish->idle_watts + used * core;
    return wish->prefer == QN_PREFER_ENERGY     ? watts * time
           : wish->prefer == QN_PREFER_BALANCED ? watts * time * time
                                                : time;
}

double qn_core_power_choose(const qn_core_wish *wish, int n, const double *levels, int n_levels) {
    double best = 1;
    for (int i = 0; i < n_levels; i++) {
        if (cost_of(wish, n, levels[i]) < cost_of(wish, n, best))
            best = levels[i];
    }
    return best;
}

qn_status qn_core_power_begin(const char *root, int n, qn_core_wish *wish, qn_frequency **frequency,
                              double *level) {
    double levels[QN_FREQUENCY_LEVELS];
    *level = 1;
    QN_TRY(qn_frequency_open(qn_allocator_default(), root, frequency));
    if (!*frequency)
        return QN_OK;
    const int n_levels = qn_frequency_levels(*frequency, levels);
    const double best = qn_core_power_choose(wish, n, levels, n_levels);
    if (best < 1 && qn_frequency_set(*frequency, best)) {
        *level = best;
        wish->core_watts *= best * best;
        return QN_OK;
    }
    qn_frequency_close(*frequency);
    *frequency = NULL;
    return QN_OK;
}
