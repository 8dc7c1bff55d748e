/* See power_ceiling.h. A core's watts are taken to rise with the square of the clock, as in
 * core_power.h. */
#include "meter/power_ceiling.h"

#include "base/memory.h"
#include "base/status.h"
#include "meter/core_power.h"
#include "os/heap.h"

#include <math.h>

enum { CALM_SECONDS = 3 };

/* Between reads, unless the source is slower; of what is judged. */
static const int64_t read_ns = 100000000, second_ns = 1000000000;

/* Parts of the ceiling: below the first there may be room for more, which is predicted to stay
 * below the second. */
static const double calm = 0.9, target = 0.97;

struct qn_power_ceiling {
    const qn_allocator *allocator;
    const qn_source_kind *kind;
    void *source;
    int channel;
    qn_frequency *clock, *own_clock; /* own: opened here */
    double levels[QN_FREQUENCY_LEVELS];
    int n_levels;
    double most_watts, idle_watts;
    int n, threads; /* n: in the beginning */
    double level;
    int64_t next_ns, begin_ns; /* of the next read; of this second, 0: not yet */
    double joules;             /* of this second, over covered_ns */
    double covered_ns;
    double watts;
    int n_calm;
};

static qn_status make(const qn_source_options *options, const qn_core_wish *wish, int n,
                      qn_frequency *clock, double level, qn_power_ceiling *c) {
    c->clock = clock;
    if (!clock)
        QN_TRY(qn_frequency_open(c->allocator, options->root, &c->own_clock));
    c->clock = clock ? clock : c->own_clock;
    c->levels[0] = 1;
    c->n_levels = c->clock ? qn_frequency_levels(c->clock, c->levels) : 1;
    c->most_watts = wish->most_watts;
    c->idle_watts = wish->idle_watts;
    c->n = c->threads = n;
    c->level = level;
    return QN_OK;
}

qn_status qn_power_ceiling_open(const qn_source_options *options, const qn_core_wish *wish, int n,
                                qn_frequency *clock, double level, qn_power_ceiling **ceiling) {
    qn_power_ceiling *c;
    *ceiling = NULL;
    const qn_allocator *a = qn_allocator_or_default(options->allocator);
    QN_TRY(qn_allocate(a, 1, sizeof *c, &c));
    *c = (qn_power_ceiling){.allocator = a};
    qn_source_options with = *options;
    with.allocator = a;
    c->kind = qn_core_power_find(&with, second_ns, &c->source, &c->channel);
    const qn_status status = c->kind ? make(&with, wish, n, clock, level, c) : QN_OK;
    if (status != QN_OK || !c->kind) {
        qn_power_ceiling_close(c);
        return status;
    }
    *ceiling = c;
    return QN_OK;
}

void qn_power_ceiling_close(qn_power_ceiling *c) {
    if (!c)
        return;
    if (c->kind)
        c->kind->close(c->source);
    qn_frequency_close(c->own_clock);
    qn_release(c->allocator, c, 1, sizeof *c);
}

/* ---- choosing ---- */

/* What most is done by, below so many watts, if a core takes so many at the full clock. */
static void choose(const qn_power_ceiling *c, double core_watts, double watts, int *threads,
                   double *level) {
    double best = 0;
    *threads = 1;
    *level = c->levels[0];
    for (int i = 0; i < c->n_levels; i++) {
        const double l = c->levels[i];
        const double most = floor((watts - c->idle_watts) / (core_watts * l * l));
        const int n = most < c->n ? (int)most : c->n;
        if (n >= 1 && n * l > best) {
            best = n * l;
            *threads = n;
            *level = l;
        }
        if (best <= 0) /* nothing is little enough: the least there is */
            *level = fmin(*level, l);
    }
}

/* The next less there is. */
static void step_down(const qn_power_ceiling *c, int *threads, double *level) {
    *threads = c->threads > 1 ? c->threads - 1 : 1;
    *level = c->level;
    for (int i = 0; i < c->n_levels && c->threads == 1; i++) {
        if (c->levels[i] < c->level && (*level >= c->level || c->levels[i] > *level))
            *level = c->levels[i];
    }
}

static bool take(qn_power_ceiling *c, int threads, double level) {
    const bool is_other_level = level < c->level || level > c->level;
    if (threads == c->threads && !is_other_level)
        return false;
    if (is_other_level && !qn_frequency_set(c->clock, level))
        return false;
    c->threads = threads;
    c->level = level;
    return true;
}

/* Watts of the threads at a level, in units of a core's at the full clock. */
static double load(int threads, double level) {
    return threads * level * level;
}

static bool judge(qn_power_ceiling *c) {
    const double busy = fmax(c->watts - c->idle_watts, 1e-3);
    const double core = busy / load(c->threads, c->level);
    const bool is_above = c->watts > c->most_watts;
    int threads;
    double level;
    c->n_calm = c->watts < calm * c->most_watts ? c->n_calm + 1 : 0;
    if (!is_above && c->n_calm < CALM_SECONDS)
        return false;
    c->n_calm = 0;
    choose(c, core, is_above ? c->most_watts : target * c->most_watts, &threads, &level);
    if (is_above && load(threads, level) >= load(c->threads, c->level))
        step_down(c, &threads, &level);
    if (!is_above && threads * level <= c->threads * c->level)
        return false;
    return take(c, threads, level);
}

/* ---- reading ---- */

static bool end_second(qn_power_ceiling *c, int64_t now_ns) {
    c->watts = c->joules / (c->covered_ns * 1e-9);
    c->joules = c->covered_ns = 0;
    c->begin_ns = now_ns;
    return judge(c);
}

bool qn_power_ceiling_look(qn_power_ceiling *c, int64_t now_ns) {
    qn_reading readings[QN_CORE_POWER_CHANNELS] = {{0}};
    if (now_ns < c->next_ns)
        return false;
    c->next_ns = now_ns + (c->kind->period_ns > read_ns ? c->kind->period_ns : read_ns);
    c->kind->read(c->source, now_ns, readings);
    const qn_reading *r = &readings[c->channel];
    if (c->begin_ns == 0) { /* what was before is not of this */
        c->begin_ns = now_ns;
        return false;
    }
    if (r->end_ns > r->begin_ns) {
        c->joules += r->value * (double)(r->end_ns - r->begin_ns) * 1e-9;
        c->covered_ns += (double)(r->end_ns - r->begin_ns);
    }
    return c->covered_ns > 0 && now_ns - c->begin_ns >= second_ns && end_second(c, now_ns);
}

int qn_power_ceiling_threads(const qn_power_ceiling *c) {
    return c->threads;
}

double qn_power_ceiling_level(const qn_power_ceiling *c) {
    return c->level;
}

double qn_power_ceiling_watts(const qn_power_ceiling *c) {
    return c->watts;
}
