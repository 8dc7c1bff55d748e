/* Sources that consist of files with one number each: frequencies, temperatures, the load of a GPU.
 */
#ifndef QN_METER_SOURCES_GAUGES_H
#define QN_METER_SOURCES_GAUGES_H

#include "meter/sources/sensor.h"

/* What a file's text is. */
typedef struct qn_gauge_rule {
    double scale;       /* one of the file's numbers in the channel's unit; 0: two numbers, of which
                            the first is a part of the second, and both 0 stand for none */
    double least, most; /* of the channel's unit; what lies outside is no value, and said so */
    int64_t period_ns;  /* no faster than its driver makes it anew */
} qn_gauge_rule;

typedef struct qn_gauge {
    qn_sensor sensor;
    const qn_gauge_rule *rule;
    int64_t last_ns;
} qn_gauge;

typedef struct qn_gauges {
    const qn_allocator *allocator;
    qn_speaker speaker;
    size_t n, gauge_capacity, channel_capacity;
    qn_channel *channels; /* (n) */
    qn_gauge *gauges;     /* (n) */
} qn_gauges;

/* A source without channels, of a kind of this name. */
qn_status qn_gauges_create(const qn_source_options *options, const char *name, qn_gauges **gauges);

/* Adds a channel and its file, root + path, if it can be read. The channel's name gets its index at
 * its end where another has the same. */
qn_status qn_gauges_add(qn_gauges *gauges, const qn_source_options *options,
                        const qn_channel *channel, const qn_gauge_rule *rule, const char *path);

/* The source if it has channels, else null and it is destroyed. */
void *qn_gauges_take(qn_gauges *gauges);

/* What their kinds call. */
const qn_channel *qn_gauges_channels(const void *source, int *n);
void qn_gauges_read(void *source, int64_t now_ns, qn_reading *readings);
void qn_gauges_close(void *source);

#endif
