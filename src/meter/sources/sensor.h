/* A small file of the kernel with a number, read repeatedly: the basis of most sources. If it
 * becomes unreadable, this is reported once, and it gives no readings until it is readable again.
 */
#ifndef QN_METER_SOURCES_SENSOR_H
#define QN_METER_SOURCES_SENSOR_H

#include "meter/sources/source.h"
#include "os/probe.h"

/* Whom a source speaks to: what it keeps of its options. */
typedef struct qn_speaker {
    const char *source; /* name of its kind */
    void *user;
    void (*say)(void *user, const char *source, const char *text);
} qn_speaker;

qn_speaker qn_speaker_of(const qn_source_options *options, const char *source);
void qn_speaker_say(const qn_speaker *speaker, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

typedef struct qn_sensor {
    char path[240];
    qn_probe probe;
    bool is_lost;
    int64_t retry_ns; /* when a lost one is tried again */
} qn_sensor;

/* Opens root + path if it is there and reads it once. False: not there, or it gives nothing; the
 * latter is said. */
bool qn_sensor_open(const qn_source_options *options, const char *source, qn_sensor *sensor,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));
void qn_sensor_close(qn_sensor *sensor);

/* What the file says now. False: it cannot be read, and that has been said. */
bool qn_sensor_text(qn_sensor *sensor, const qn_speaker *speaker, int64_t now_ns, char *text,
                    size_t bytes);

/* As text, for a file that begins with a whole number. */
bool qn_sensor_number(qn_sensor *sensor, const qn_speaker *speaker, int64_t now_ns,
                      int64_t *number);

/* Takes what was read for a loss, since its text makes no sense. */
void qn_sensor_doubt(qn_sensor *sensor, const qn_speaker *speaker, const char *text);

#endif
