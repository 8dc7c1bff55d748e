/* Power sensors that are files: a gauge of watts, a voltage and a current, or an energy counter. A
 * source finds its files and adds a rail for each; reading, counter wraps, lost files and messages
 * are handled here. A gauge's reading is the mean of both ends of its interval (trapezoid), a
 * counter's is the difference over time; if either is unknown, there is no reading. */
#ifndef QN_METER_SOURCES_RAILS_H
#define QN_METER_SOURCES_RAILS_H

#include "meter/sources/sensor.h"

/* No device that is measured here takes more: what shows more is no power. A counter is not
 * believed over a time in which it could have wrapped more than once at this power. */
enum { QN_MOST_WATTS = 5000 };

/* Watts that were seen last. A gauge that was not read for longer than this is not interpolated. */
enum { QN_GAUGE_GAP_NS = 2100000000 };

typedef struct qn_power_gauge {
    bool is_known;
    int64_t ns;
    double watts;
} qn_power_gauge;

/* False: nothing can be told of the time before. */
bool qn_power_gauge_add(qn_power_gauge *gauge, int64_t now_ns, double watts, qn_reading *reading);

/* A counter of energy. */
typedef struct qn_energy {
    double unit_j;  /* of one count */
    int64_t range;  /* counts after which it begins again at 0; 0: it does not */
    bool is_coarse; /* its steps are long: a reading reaches from step to step */
    bool is_known, has_stepped;
    int64_t ns, count;
} qn_energy;

bool qn_energy_add(qn_energy *energy, int64_t now_ns, int64_t count, qn_reading *reading);

typedef enum qn_rail_kind { QN_RAIL_WATTS, QN_RAIL_VOLTS_AMPS, QN_RAIL_ENERGY } qn_rail_kind;

typedef struct qn_rail {
    qn_rail_kind kind;
    qn_sensor sensor; /* power or energy; voltage */
    qn_sensor amps;   /* current */
    double unit_w;    /* watts of one count of power, or of voltage times current */
    qn_power_gauge gauge;
    qn_energy energy;
} qn_rail;

/*     n rails, the i-th of which gives channel i */
typedef struct qn_rails {
    const qn_allocator *allocator;
    qn_speaker speaker;
    int n;
    size_t n_rails, n_channels; /* room */
    qn_channel *channels;
    qn_rail *rails;
} qn_rails;

qn_status qn_rails_create(const qn_source_options *options, const char *source, qn_rails **rails);

/* Takes the rail, its open files with it, also where it fails. The channel's source and quantity
 * are filled in; one whose name is taken gets a number behind it. */
qn_status qn_rails_add(qn_rails *rails, const qn_channel *channel, const qn_rail *rail);

/* Takes a rail away; those behind it move up. */
void qn_rails_remove(qn_rails *rails, int rail);

/* The rail of a channel's name, or -1. */
int qn_rails_find(const qn_rails *rails, const char *name);

/* What a file that must hold one whole number and nothing else says. */
bool qn_rails_number(const qn_speaker *speaker, qn_sensor *sensor, int64_t now_ns, int64_t *number);

/* Forgets what was seen: the next reading begins anew. */
void qn_rails_forget(qn_rails *rails);

/* For a source's row; source is a qn_rails. */
const qn_channel *qn_rails_channels(const void *source, int *n);
void qn_rails_read(void *source, int64_t now_ns, qn_reading *readings);
void qn_rails_close(void *source);

/* Ends open with its status: gives the rails away, or closes them where there are none. A folder
 * that may not be looked into is said and fails nothing. */
qn_status qn_rails_finish(qn_rails *rails, qn_status status, void **source);

#endif
