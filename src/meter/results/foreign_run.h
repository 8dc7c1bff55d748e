/* A measured run of another program: a sampler's readings and, if the program recorded a trace of
 * its operations, that trace converted to our clock. */
#ifndef QN_METER_RESULTS_FOREIGN_RUN_H
#define QN_METER_RESULTS_FOREIGN_RUN_H

#include "meter/clocks.h"
#include "meter/recording.h"

typedef struct qn_foreign_run_options {
    const qn_allocator *allocator;
    const qn_sampler *sampler;  /* stopped; must outlive the result */
    const qn_clock_log *clocks; /* since before the program began, until after its end */
    int64_t begin_ns, end_ns;   /* of the program */
    int64_t skip_steps;         /* of the trace's steps, left out */
    const char *operations;     /* file of its trace, or null */
    const char *clock;          /* of the trace: qn_clock_name, or null: find out */
} qn_foreign_run_options;

/* What became of the trace. */
typedef struct qn_foreign_run_trace {
    int64_t n_slices, n_tracks; /* operations and their threads */
    double covered_ms;          /* time in which one ran, added up over tracks */
    double self_ms;             /* of all operations, with nested ones counted once */
    int64_t n_steps;            /* slices ProfilerStep#N; 0: the run is one step */
    char clock[160];            /* how it was mapped to ours, in words */
    double clock_error_ms;      /* the mapping is off by at most so much */
} qn_foreign_run_trace;

typedef struct qn_foreign_run qn_foreign_run;

/* Works out what was measured. */
qn_status qn_foreign_run_create(const qn_foreign_run_options *options, qn_foreign_run **outside);
void qn_foreign_run_destroy(qn_foreign_run *outside);

/* The whole run, as one step without operations. */
const qn_measurement *qn_foreign_run_whole(const qn_foreign_run *outside);

/* The trace's steps with their operations: a row for each name, of its own (self) time. Without a
 * trace, the same as the run. */
const qn_measurement *qn_foreign_run_steps(const qn_foreign_run *outside);

/* Null without a trace. */
const qn_foreign_run_trace *qn_foreign_run_get_trace(const qn_foreign_run *outside);

#endif
