/* The results of a measured run: the tables and numbers of which reports are made. Times are
 * seconds unless noted; a number that could not be measured is NaN. The measurement owns the
 * tables; the recording owns events, readings and texts, and must outlive it. */
#ifndef QN_METER_RESULTS_MEASUREMENT_H
#define QN_METER_RESULTS_MEASUREMENT_H

#include "base/events.h"
#include "base/memory.h"
#include "meter/sources/source.h"
#include "quern/engine.h"

/* Whether arithmetic or memory limits an operation, by its FLOPs, bytes and the measured roofline.
 */
typedef enum qn_bound { QN_BOUND_UNKNOWN, QN_BOUND_COMPUTE, QN_BOUND_MEMORY } qn_bound;

/* A line of the operations' table: a node of a program, a type of operator, or a layer. */
typedef struct qn_operation_row {
    const char *type, *name, *device; /* of a type: name null; of a layer: type null */
    int32_t program, item;            /* of a node */
    int64_t calls;
    double total_ms, share; /* of the time of all operations that are not a further lane's */
    double mean_us, p50_us, p95_us;
    double flops, bytes; /* of all calls */
    double gflops;       /* per second */
    double roof; /* time by the measured roofline / time: above 1 where data were cached, or where
                    Winograd's algorithm did with fewer FLOPs than are counted, the direct one's */
    qn_bound bound;
    double energy_mj, mean_w; /* of the whole, as qn_measurement.energy_j */
    double utilisation;       /* busy cores / cores */
    bool is_estimated;        /* the energy */
} qn_operation_row;

/* A measured step: from mark to mark, by the clock outside the executor. */
typedef struct qn_step_row {
    int64_t begin_ns, end_ns;
    double operations_ms, idle_ms; /* union of operations; time in which none ran */
    double energy_mj;              /* NaN where no power was seen */
} qn_step_row;

/* A channel with its readings. */
typedef struct qn_series {
    qn_channel channel;
    bool counts; /* power: towards the whole */
    size_t n;
    const qn_reading *readings;
    double seen;        /* part of the measured time that readings cover; the rest is unknown */
    double mean, most;  /* over the measured steps, by time */
    double energy_j;    /* of power, over the time that was seen */
    double idle_ratio;  /* of utilisation: part of the time in which it was 0, rounded to percent */
    double period_s;    /* where autocorrelation of what it shows peaks near the step time */
    double periodicity; /* height of that peak, -1 to 1: how predictable a step is */
} qn_series;

typedef struct qn_measurement {
    qn_arena *arena; /* of all below */
    /* the run */
    const char *machine;            /* null: this one */
    int n_threads;                  /* 0: unknown */
    double cpu_watts, device_watts; /* while they work, as the user says; 0: not said */
    int64_t begin_ns, end_ns;       /* of the measured steps */
    int64_t skipped_steps;          /* left out before them */
    int n_steps;
    const qn_step_row *steps;
    double samples_per_step; /* 0: unknown */
    /* the study's metrics (TX2 study, equations 1 to 4) and what else belongs beside them */
    double step_ms_mean, step_ms_median, step_ms_deviation;
    /* How far the median can be relied on: the least and the largest median of five stretches of
     * the steps, in all measurements (qn_metrics_interval). */
    double step_ms_low, step_ms_high;
    double others;      /* part of the processors' time that other programs used; NaN: unknown */
    int n_measurements; /* this one, and those repeated because others were at work */
    double operations_ms_per_step, idle_ms_per_step;
    double throughput;                       /* samples per second */
    double cpu_utilisation, gpu_utilisation; /* 0 to 1 */
    double energy_j, energy_mj_per_step, energy_mj_per_sample;
    double part_energy_j[QN_PART_COUNT]; /* by component; NaN: not seen */
    double idle_energy_j;                /* of time without operations */
    bool energy_is_estimated;
    double flops_per_step, gflops;
    /* The roofline it is held against: of arithmetic, and of the nearest level of memory that holds
     * what a step walks through. NaN: not calibrated. */
    double peak_flops, peak_bandwidth;
    qn_memory_use memory; /* the plan's bytes by kind */
    double resident_peak_bytes;
    /* operations: a row per node in the order of the plan, per type and per layer by time */
    int n_nodes, n_types, n_layers;
    const qn_operation_row *nodes, *types, *layers;
    /* single instances, in order of begin_ns (all that were kept) */
    size_t n_events;
    const qn_event *events;
    int64_t n_lost_events;   /* not in events nor in the tables */
    int64_t n_folded_events; /* in the tables, but not kept one by one */
    /* samples */
    int n_series;
    const qn_series *series;
    int n_said;
    const char *const *said; /* what sources said: "rapl: ..." */
    int64_t n_ticks, n_missed_ticks;
    double sampling_s;  /* processor time of the sampler */
    size_t meter_bytes; /* most memory that the meter held */
} qn_measurement;

#endif
