/* See rails.h. */
#include "meter/sources/rails.h"

#include "base/memory.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- gauges and counters ---- */

static bool is_power(double watts) {
    return watts >= 0 && watts <= QN_MOST_WATTS;
}

/* An idle rail's noise falls below zero. */
static double without_noise(double watts) {
    return watts < 0 && watts > -0.25 ? 0 : watts;
}

bool qn_power_gauge_add(qn_power_gauge *gauge, int64_t now_ns, double watts, qn_reading *reading) {
    const qn_power_gauge before = *gauge;
    watts = without_noise(watts);
    if (!is_power(watts)) {
        gauge->is_known = false;
        return false;
    }
    *gauge = (qn_power_gauge){true, now_ns, watts};
    if (!before.is_known || now_ns <= before.ns || now_ns - before.ns > QN_GAUGE_GAP_NS)
        return false;
    *reading = (qn_reading){before.ns, now_ns, (before.watts + watts) / 2};
    return true;
}

/* Counts between two looks, a wrap included; negative: nobody can tell. */
static int64_t counted(const qn_energy *before, int64_t now_ns, int64_t count) {
    const double seconds = (double)(now_ns - before->ns) * 1e-9;
    int64_t counts;
    if (__builtin_sub_overflow(count, before->count, &counts) || before->range == 0)
        return counts;
    if (count < 0 || count > before->range ||
        seconds * QN_MOST_WATTS > (double)before->range * before->unit_j)
        return -1;
    return counts >= 0 ? counts : counts + before->range;
}

bool qn_energy_add(qn_energy *energy, int64_t now_ns, int64_t count, qn_reading *reading) {
    const qn_energy before = *energy;
    if (before.is_known && (now_ns <= before.ns || (before.is_coarse && count == before.count)))
        return false;
    energy->is_known = true;
    energy->has_stepped = before.is_known;
    energy->ns = now_ns;
    energy->count = count;
    /* A coarse counter's first look is somewhere within a step. */
    if (!before.is_known || (before.is_coarse && !before.has_stepped))
        return false;
    const double seconds = (double)(now_ns - before.ns) * 1e-9;
    const double watts = (double)counted(&before, now_ns, count) * before.unit_j / seconds;
    if (!is_power(watts)) {
        energy->has_stepped = false;
        return false;
    }
    *reading = (qn_reading){before.ns, now_ns, watts};
    return true;
}

/* ---- rails ---- */

qn_status qn_rails_create(const qn_source_options *options, const char *source, qn_rails **rails) {
    qn_rails *r;
    qn_status status = qn_allocate(options->allocator, 1, sizeof *r, &r);
    if (status != QN_OK)
        return status;
    r->allocator = options->allocator;
    r->speaker = qn_speaker_of(options, source);
    *rails = r;
    return QN_OK;
}

static void close_rail(qn_rail *rail) {
    qn_sensor_close(&rail->sensor);
    qn_sensor_close(&rail->amps);
}

int qn_rails_find(const qn_rails *rails, const char *name) {
    for (int i = 0; i < rails->n; i++) {
        if (strcmp(rails->channels[i].name, name) == 0)
            return i;
    }
    return -1;
}

/* A name that no other has: "VDD", "VDD 2". */
static void make_unique(const qn_rails *rails, qn_channel *channel) {
    char name[sizeof channel->name];
    memcpy(name, channel->name, sizeof name);
    for (int i = 2; qn_rails_find(rails, channel->name) >= 0; i++)
        snprintf(channel->name, sizeof channel->name, "%.36s %d", name, i);
}

qn_status qn_rails_add(qn_rails *rails, const qn_channel *channel, const qn_rail *rail) {
    const size_t wanted = (size_t)rails->n + 1;
    qn_rail taken = *rail;
    qn_status status =
        qn_grow(rails->allocator, &rails->rails, &rails->n_rails, wanted, sizeof *rails->rails);
    if (status == QN_OK)
        status = qn_grow(rails->allocator, &rails->channels, &rails->n_channels, wanted,
                         sizeof *rails->channels);
    if (status != QN_OK) {
        close_rail(&taken);
        return status;
    }
    qn_channel *to = &rails->channels[rails->n];
    *to = *channel;
    to->source = rails->speaker.source;
    to->quantity = QN_QUANTITY_POWER;
    make_unique(rails, to);
    rails->rails[rails->n++] = taken;
    return QN_OK;
}

void qn_rails_remove(qn_rails *rails, int rail) {
    const size_t behind = (size_t)(rails->n - rail - 1);
    close_rail(&rails->rails[rail]);
    memmove(rails->rails + rail, rails->rails + rail + 1, behind * sizeof *rails->rails);
    memmove(rails->channels + rail, rails->channels + rail + 1, behind * sizeof *rails->channels);
    rails->n--;
    for (int i = 0; i < rails->n; i++) {
        qn_channel *channel = &rails->channels[i];
        if (channel->inside >= rail)
            channel->inside = channel->inside == rail ? -1 : channel->inside - 1;
    }
}

void qn_rails_forget(qn_rails *rails) {
    for (int i = 0; i < rails->n; i++) {
        rails->rails[i].gauge.is_known = false;
        rails->rails[i].energy.is_known = false;
    }
}

const qn_channel *qn_rails_channels(const void *source, int *n) {
    const qn_rails *rails = source;
    *n = rails->n;
    return rails->channels;
}

bool qn_rails_number(const qn_speaker *speaker, qn_sensor *sensor, int64_t now_ns,
                     int64_t *number) {
    char text[64], *end;
    if (!qn_sensor_text(sensor, speaker, now_ns, text, sizeof text))
        return false;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno) {
        qn_sensor_doubt(sensor, speaker, text);
        return false;
    }
    *number = value;
    return true;
}

/* Whether the rail could be read; what it tells goes to reading. */
static bool read_rail(const qn_rails *rails, qn_rail *rail, int64_t now_ns, qn_reading *reading) {
    int64_t value, amps = 1;
    if (!qn_rails_number(&rails->speaker, &rail->sensor, now_ns, &value))
        return false;
    if (rail->kind == QN_RAIL_VOLTS_AMPS &&
        !qn_rails_number(&rails->speaker, &rail->amps, now_ns, &amps))
        return false;
    if (rail->kind == QN_RAIL_ENERGY)
        qn_energy_add(&rail->energy, now_ns, value, reading);
    else
        qn_power_gauge_add(&rail->gauge, now_ns, (double)value * (double)amps * rail->unit_w,
                           reading);
    return true;
}

void qn_rails_read(void *source, int64_t now_ns, qn_reading *readings) {
    qn_rails *rails = source;
    for (int i = 0; i < rails->n; i++) {
        if (!read_rail(rails, &rails->rails[i], now_ns, &readings[i]))
            rails->rails[i].gauge.is_known = rails->rails[i].energy.is_known = false;
    }
}

void qn_rails_close(void *source) {
    qn_rails *rails = source;
    if (!rails)
        return;
    for (int i = 0; i < rails->n; i++)
        close_rail(&rails->rails[i]);
    qn_release(rails->allocator, rails->rails, rails->n_rails, sizeof *rails->rails);
    qn_release(rails->allocator, rails->channels, rails->n_channels, sizeof *rails->channels);
    qn_release(rails->allocator, rails, 1, sizeof *rails);
}

qn_status qn_rails_finish(qn_rails *rails, qn_status status, void **source) {
    if (status == QN_ERROR_IO) {
        qn_speaker_say(&rails->speaker, "%s", qn_error_message());
        status = QN_OK;
    }
    if (status != QN_OK || rails->n == 0)
        qn_rails_close(rails);
    else
        *source = rails;
    return status;
}
