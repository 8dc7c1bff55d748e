/* See sensor.h. */
#include "meter/sources/sensor.h"

#include "base/print.h"
#include "base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { RETRY_NS = 1000000000 };

qn_speaker qn_speaker_of(const qn_source_options *options, const char *source) {
    return (qn_speaker){source, options->user, options->say};
}

void qn_speaker_say(const qn_speaker *speaker, const char *format, ...) {
    char text[320];
    va_list arguments;
    if (!speaker->say)
        return;
    va_start(arguments, format);
    qn_print_list(text, sizeof text, format, arguments);
    va_end(arguments);
    speaker->say(speaker->user, speaker->source, text);
}

bool qn_sensor_open(const qn_source_options *options, const char *source, qn_sensor *sensor,
                    const char *format, ...) {
    const qn_speaker speaker = qn_speaker_of(options, source);
    char text[16];
    va_list arguments;
    *sensor = (qn_sensor){.is_lost = false};
    int length = snprintf(sensor->path, sizeof sensor->path, "%s", options->root);
    if (length < 0 || (size_t)length >= sizeof sensor->path)
        return false;
    va_start(arguments, format);
    const int rest = qn_print_list(sensor->path + length, sizeof sensor->path - (size_t)length,
                                   format, arguments);
    va_end(arguments);
    if (rest < 0 || (size_t)(length + rest) >= sizeof sensor->path)
        return false;
    if (!qn_path_is_there(sensor->path))
        return false;
    if (qn_probe_open(sensor->path, &sensor->probe) != QN_OK) {
        qn_speaker_say(&speaker, "%s", qn_error_message());
        return false;
    }
    if (qn_probe_text(&sensor->probe, text, sizeof text) != QN_OK) {
        qn_speaker_say(&speaker, "%s: %s", sensor->path, qn_error_message());
        qn_sensor_close(sensor);
        return false;
    }
    return true;
}

void qn_sensor_close(qn_sensor *sensor) {
    qn_probe_close(&sensor->probe);
}

/* Said once for a sensor, however often it comes and goes. */
static void lose(qn_sensor *sensor, const qn_speaker *speaker, int64_t now_ns, const char *why) {
    if (!sensor->is_lost)
        qn_speaker_say(speaker, "%s: %s; its values are missing until it can be read again",
                       sensor->path, why);
    sensor->is_lost = true;
    sensor->retry_ns = now_ns + RETRY_NS;
    qn_probe_close(&sensor->probe);
}

bool qn_sensor_text(qn_sensor *sensor, const qn_speaker *speaker, int64_t now_ns, char *text,
                    size_t bytes) {
    if (sensor->probe.handle == 0 && now_ns < sensor->retry_ns)
        return false;
    if (sensor->probe.handle == 0 && qn_probe_open(sensor->path, &sensor->probe) != QN_OK) {
        sensor->retry_ns = now_ns + RETRY_NS;
        return false;
    }
    if (qn_probe_text(&sensor->probe, text, bytes) == QN_OK)
        return true;
    lose(sensor, speaker, now_ns, qn_error_message());
    return false;
}

bool qn_sensor_number(qn_sensor *sensor, const qn_speaker *speaker, int64_t now_ns,
                      int64_t *number) {
    char text[64], *end;
    if (!qn_sensor_text(sensor, speaker, now_ns, text, sizeof text))
        return false;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (end == text || errno) {
        qn_sensor_doubt(sensor, speaker, text);
        return false;
    }
    *number = value;
    return true;
}

void qn_sensor_doubt(qn_sensor *sensor, const qn_speaker *speaker, const char *text) {
    if (!sensor->is_lost)
        qn_speaker_say(speaker, "%s: the value \"%.40s\" is invalid and is left out", sensor->path,
                       text);
    sensor->is_lost = true;
}
