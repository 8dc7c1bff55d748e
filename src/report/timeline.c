/* A run as a trace; see profile.h. One process for the program: steps on a track of their own, then
 * a track for each thread of the team, with runs of programs around their operations, and for each
 * further lane and its copies; and its own counters. One process for the device: a counter for each
 * sensor. */
#include "format/trace.h"
#include "report/processors.h"
#include "report/profile.h"
#include "report/words.h"

#include "base/status.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PROGRAM = 1, DEVICE = 2, STEPS_TRACK = 1, FIRST_THREAD_TRACK = 2 };

typedef struct timeline {
    const qn_measurement *m;
    const char *title;
    int n_threads; /* tracks of events */
} timeline;

static int thread_count(const qn_measurement *m) {
    int n = 0;
    for (size_t i = 0; i < m->n_events; i++)
        n = m->events[i].thread >= n ? m->events[i].thread + 1 : n;
    return n;
}

/* Copies of a lane that also computes have a track of their own behind all threads, so that what
 * they delay is seen; a disk does nothing else. */
static bool has_copies_apart(const char *device) {
    return strcmp(device, "disk") != 0;
}

static int track_of(const timeline *t, const qn_event *event, const qn_operation_row *row) {
    const bool is_apart = event->kind == QN_EVENT_QUEUED && row && qn_report_is_copy(row) &&
                          has_copies_apart(row->device);
    return FIRST_THREAD_TRACK + event->thread + (is_apart ? t->n_threads : 0);
}

/* The device of a further lane that has a track; null: the track is a thread of the team. */
static const char *find_device(const qn_measurement *m, int track) {
    for (size_t i = 0; i < m->n_events; i++) {
        const qn_operation_row *row = NULL;
        const qn_event *event = &m->events[i];
        if (event->thread == track &&
            (event->kind == QN_EVENT_QUEUED || event->kind == QN_EVENT_OPERATION))
            row = qn_report_row_of(m, event);
        if (row && strcmp(row->device, "cpu") != 0)
            return row->device;
    }
    return NULL;
}

static bool has_device_series(const qn_measurement *m) {
    for (int i = 0; i < m->n_series; i++) {
        const qn_part part = m->series[i].channel.part;
        if (m->series[i].n > 0 && part != QN_PART_PROCESS && part != QN_PART_THREAD)
            return true;
    }
    return false;
}

static qn_status put_names(const timeline *t, qn_trace *trace) {
    char name[80];
    QN_TRY(qn_trace_process_name(trace, PROGRAM, t->title));
    QN_TRY(qn_trace_thread_name(trace, PROGRAM, STEPS_TRACK, "steps"));
    for (int i = 0; i < t->n_threads; i++) {
        const char *device = find_device(t->m, i);
        snprintf(name, sizeof name, "thread %d", i);
        if (device && has_copies_apart(device)) {
            snprintf(name, sizeof name, "copies of %.40s", device);
            QN_TRY(
                qn_trace_thread_name(trace, PROGRAM, FIRST_THREAD_TRACK + i + t->n_threads, name));
        }
        if (device)
            snprintf(name, sizeof name, "lane of %.40s, track %d", device, i);
        QN_TRY(qn_trace_thread_name(trace, PROGRAM, FIRST_THREAD_TRACK + i, name));
    }
    return has_device_series(t->m) ? qn_trace_process_name(trace, DEVICE, "device") : QN_OK;
}

static qn_status put_steps(const qn_measurement *m, qn_trace *trace) {
    static const char *const names[] = {"operations_ms", "idle_ms", "energy_mj",
                                        "energy_mj (estimated)"};
    for (int i = 0; i < m->n_steps; i++) {
        const qn_step_row *step = &m->steps[i];
        const double values[] = {step->operations_ms, step->idle_ms,
                                 m->energy_is_estimated ? NAN : step->energy_mj,
                                 m->energy_is_estimated ? step->energy_mj : NAN};
        char name[48];
        snprintf(name, sizeof name, "step %lld", (long long)(m->skipped_steps + i + 1));
        QN_TRY(qn_trace_slice(trace, PROGRAM, STEPS_TRACK, name, "step", step->begin_ns,
                              step->end_ns, 4, names, values));
    }
    return QN_OK;
}

static qn_status put_run(const qn_event *event, qn_trace *trace) {
    static const char *const names[] = {"step"};
    const double step = event->step;
    char name[48];
    snprintf(name, sizeof name, event->program < 0 ? "update" : "program %d", event->program);
    return qn_trace_slice(trace, PROGRAM, FIRST_THREAD_TRACK + event->thread, name, "run",
                          event->begin_ns, event->end_ns, 1, names, &step);
}

static qn_status put_operation(const timeline *t, const qn_event *event, qn_trace *trace) {
    static const char *const names[] = {"step", "flops", "bytes"};
    const qn_operation_row *row = qn_report_row_of(t->m, event);
    const double calls = row && row->calls > 0 ? (double)row->calls : NAN;
    const double values[] = {event->step, row ? row->flops / calls : NAN,
                             row ? row->bytes / calls : NAN};
    /* Of a share only the whole operation's numbers are known: it carries none. */
    return qn_trace_slice(trace, PROGRAM, track_of(t, event, row),
                          row && row->name ? row->name : "operation",
                          row && row->type ? row->type : "operation", event->begin_ns,
                          event->end_ns, event->kind == QN_EVENT_SHARE ? 1 : 3, names, values);
}

static qn_status put_events(const timeline *t, qn_trace *trace) {
    for (size_t i = 0; i < t->m->n_events; i++) {
        const qn_event *event = &t->m->events[i];
        if (event->kind == QN_EVENT_RUN)
            QN_TRY(put_run(event, trace));
        else if (event->kind != QN_EVENT_MARK)
            QN_TRY(put_operation(t, event, trace));
    }
    return QN_OK;
}

/* A mean over a stretch of time shows from where that begins; what holds at a moment, from there.
 */
static qn_status put_series(const qn_series *s, qn_trace *trace) {
    const qn_channel *c = &s->channel;
    const bool is_mean =
        c->quantity != QN_QUANTITY_MEMORY && c->quantity != QN_QUANTITY_TEMPERATURE;
    const int process = c->part == QN_PART_PROCESS || c->part == QN_PART_THREAD ? PROGRAM : DEVICE;
    double scale;
    const char *unit = qn_words_unit(c, &scale);
    char name[128];
    snprintf(name, sizeof name, "%s %s (%s%s)", qn_words_quantity(c->quantity), c->name, c->source,
             c->is_estimated ? ", estimated" : "");
    for (size_t i = 0; i < s->n; i++) {
        const qn_reading *r = &s->readings[i];
        QN_TRY(qn_trace_counter(trace, process, name, unit, is_mean ? r->begin_ns : r->end_ns,
                                r->value * scale));
    }
    if (s->n == 0 || !is_mean)
        return QN_OK;
    const qn_reading *last = &s->readings[s->n - 1];
    return qn_trace_counter(trace, process, name, unit, last->end_ns, last->value * scale);
}

static qn_status put_all(void *user, qn_trace *trace) {
    const timeline *t = user;
    QN_TRY(put_names(t, trace));
    QN_TRY(put_steps(t->m, trace));
    QN_TRY(put_events(t, trace));
    for (int i = 0; i < t->m->n_series; i++)
        QN_TRY(put_series(&t->m->series[i], trace));
    return QN_OK;
}

qn_status qn_report_trace(const qn_measurement *m, const char *title, const char *path) {
    timeline t = {m, title, thread_count(m)};
    return qn_trace_write(path, put_all, &t);
}
