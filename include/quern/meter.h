/* The meter: measures time, bytes and energy of training down to the single operation, on any
 * device with the sensors it has. The training program starts and stops it:
 *
 *     qn_meter_start(&options, &meter);
 *     for (...) { qn_task_step(task, &metrics); qn_meter_mark(meter); }
 *     qn_meter_stop(meter);
 *     qn_meter_report(meter, &summary);
 *     qn_meter_write(meter, QN_METER_TRACE, "trace.json");
 *     qn_meter_destroy(meter);
 *
 * Sampling runs on separate threads; measuring never changes what is computed.
 *
 * Threads: one call at a time; qn_meter_mark on the thread that runs the engine. */
#ifndef QUERN_METER_H
#define QUERN_METER_H

#include "quern/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qn_meter qn_meter;

typedef struct qn_meter_options {
    size_t size;                   /* QN_OPTIONS_INIT(qn_meter_options) */
    const qn_allocator *allocator; /* null: the C library's heap */
    const qn_log *log;             /* what sensors say, once each; may be null */
    qn_engine *engine;       /* whose operations are recorded; null: none. Must outlive the meter */
    double samples_per_step; /* for throughput; 0: unknown */
    int64_t skip_steps;      /* left out of every figure; negative: 3 */
    int64_t interval_ns;     /* between samples, 1 ms to 1 s; 0: 10 ms */
    size_t most_bytes;       /* of memory for events and samples; 0: 12 MiB. Beyond it single events
                                      are folded into the tables, and samples are merged */
    const char *title;       /* of reports: "resnet50, batch 16"; null: "training" */
    /* Where samples come from: null or 0 for this device and this process. */
    const char *sysroot;     /* a recorded tree of /sys and /proc */
    const char *replay;      /* a file of recorded power */
    const char *description; /* a device's coefficients, where it has no power sensor */
} qn_meter_options;

/* Starts to measure. */
QN_API qn_status qn_meter_start(const qn_meter_options *options, qn_meter **meter);

/* A step is done: the clock that steps are measured by. On the thread that runs the engine;
 * null: does nothing. */
QN_API void qn_meter_mark(qn_meter *meter);

/* Ends measuring; the engine is no longer watched. Calling it again does nothing. */
QN_API void qn_meter_stop(qn_meter *meter);

QN_API void qn_meter_destroy(qn_meter *meter);

/* The run in short; what was not measured is NaN. The rest is in the reports. */
typedef struct qn_meter_summary {
    int64_t steps; /* measured */
    double median_step_ms, mean_step_ms;
    double operations_ms_per_step; /* time in which an operation ran: their union */
    double idle_ms_per_step;       /* time in which no thread ran one */
    double energy_mj_per_step;     /* of the whole device, or of what of it is measured */
    bool energy_is_estimated;      /* from a model, not a sensor */
    double samples_per_second, flops_per_second;
    double cpu_utilisation, gpu_utilisation; /* 0 to 1 */
    double resident_peak_bytes;
} qn_meter_summary;

/* After stop. Fails where no step was measured, and says what to do. */
QN_API qn_status qn_meter_report(qn_meter *meter, qn_meter_summary *summary);

typedef enum qn_meter_format {
    QN_METER_CSV,   /* a row for each node of the graph */
    QN_METER_TRACE, /* Chrome trace events with counters: opens in Perfetto */
    QN_METER_HTML,  /* one file to look at, offline */
    QN_METER_JSON,  /* all of the run's metrics */
} qn_meter_format;

/* Writes a report to a file, whole or not at all. After stop. */
QN_API qn_status qn_meter_write(qn_meter *meter, qn_meter_format format, const char *path);

#ifdef __cplusplus
}
#endif
#endif
