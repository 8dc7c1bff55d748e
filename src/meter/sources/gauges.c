/* See gauges.h. */
#include "meter/sources/gauges.h"

#include "base/memory.h"
#include "base/status.h"

#include <stdio.h>
#include <string.h>

qn_status qn_gauges_create(const qn_source_options *options, const char *name, qn_gauges **gauges) {
    QN_TRY(qn_allocate(options->allocator, 1, sizeof **gauges, gauges));
    (*gauges)->allocator = options->allocator;
    (*gauges)->speaker = qn_speaker_of(options, name);
    return QN_OK;
}

void qn_gauges_close(void *source) {
    qn_gauges *g = source;
    if (!g)
        return;
    for (size_t i = 0; i < g->n; i++)
        qn_sensor_close(&g->gauges[i].sensor);
    qn_release(g->allocator, g->gauges, g->gauge_capacity, sizeof *g->gauges);
    qn_release(g->allocator, g->channels, g->channel_capacity, sizeof *g->channels);
    qn_release(g->allocator, g, 1, sizeof *g);
}

void *qn_gauges_take(qn_gauges *gauges) {
    if (gauges->n > 0)
        return gauges;
    qn_gauges_close(gauges);
    return NULL;
}

static bool is_taken(const qn_gauges *g, const qn_channel *channel) {
    for (size_t i = 0; i < g->n; i++)
        if (g->channels[i].quantity == channel->quantity &&
            strcmp(g->channels[i].name, channel->name) == 0)
            return true;
    return false;
}

qn_status qn_gauges_add(qn_gauges *g, const qn_source_options *options, const qn_channel *channel,
                        const qn_gauge_rule *rule, const char *path) {
    qn_gauge gauge = {.rule = rule};
    if (!qn_sensor_open(options, g->speaker.source, &gauge.sensor, "%s", path))
        return QN_OK;
    qn_status status =
        qn_grow(g->allocator, &g->gauges, &g->gauge_capacity, g->n + 1, sizeof *g->gauges);
    if (status == QN_OK)
        status = qn_grow(g->allocator, &g->channels, &g->channel_capacity, g->n + 1,
                         sizeof *g->channels);
    if (status != QN_OK) {
        qn_sensor_close(&gauge.sensor);
        return status;
    }
    qn_channel own = *channel;
    if (is_taken(g, channel))
        snprintf(own.name, sizeof own.name, "%.36s-%d", channel->name, channel->index);
    own.source = g->speaker.source;
    own.inside = -1;
    g->channels[g->n] = own;
    g->gauges[g->n++] = gauge;
    return QN_OK;
}

const qn_channel *qn_gauges_channels(const void *source, int *n) {
    const qn_gauges *g = source;
    *n = (int)g->n;
    return g->channels;
}

static bool parse(const char *text, const qn_gauge_rule *rule, double *value) {
    long long number, total;
    const int n_read = sscanf(text, "%lld %lld", &number, &total);
    if (rule->scale != 0 && n_read >= 1) {
        *value = (double)number * rule->scale;
        return true;
    }
    if (rule->scale != 0 || n_read < 2 || total < 0 || (total == 0 && number != 0))
        return false;
    *value = total > 0 ? (double)number / (double)total : 0;
    return true;
}

static void read_gauge(qn_gauge *gauge, const qn_speaker *speaker, int64_t now_ns,
                       qn_reading *reading) {
    const qn_gauge_rule *rule = gauge->rule;
    char text[64];
    double value;
    if (gauge->last_ns > 0 && now_ns - gauge->last_ns < rule->period_ns)
        return;
    const bool is_read = qn_sensor_text(&gauge->sensor, speaker, now_ns, text, sizeof text);
    if (is_read && parse(text, rule, &value) && value >= rule->least && value <= rule->most)
        *reading = (qn_reading){gauge->last_ns ? gauge->last_ns : now_ns, now_ns, value};
    else if (is_read)
        qn_sensor_doubt(&gauge->sensor, speaker, text);
    gauge->last_ns = now_ns;
}

void qn_gauges_read(void *source, int64_t now_ns, qn_reading *readings) {
    qn_gauges *g = source;
    for (size_t i = 0; i < g->n; i++)
        read_gauge(&g->gauges[i], &g->speaker, now_ns, &readings[i]);
}
