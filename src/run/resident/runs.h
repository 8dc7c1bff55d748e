/* The runs of training programs since the store was last brought up to date, with copies of their
 * inputs: enough to make them again. All memory is there before the first run. */
#ifndef QN_RUN_RESIDENT_RUNS_H
#define QN_RUN_RESIDENT_RUNS_H

#include "run/program.h"
#include "tensor/arithmetic.h"

typedef struct qn_kept_run {
    int program;
    uint64_t step;
    double hyper[QN_HYPER_COUNT]; /* their bits, of whatever type */
} qn_kept_run;

/* Invariant: 0 <= n <= n_slots; run i has its inputs at i * slot_bytes. */
typedef struct qn_runs {
    int n, n_slots;
    size_t slot_bytes;
    qn_kept_run *runs; /* (n_slots) */
    char *inputs;      /* (n_slots, slot_bytes) */
} qn_runs;

/* Says how many runs there is room for in about so many bytes, of the programs that train; what
 * that takes; and makes it. */
void qn_runs_measure(qn_runs *runs, const qn_program *programs, int n_programs, size_t bytes);
size_t qn_runs_bytes(const qn_runs *runs);
qn_status qn_runs_create(const qn_allocator *allocator, qn_runs *runs);
void qn_runs_destroy(const qn_allocator *allocator, qn_runs *runs);

/* Copies the inputs that are bound into the next slot, and binds them there. */
void qn_runs_take_inputs(const qn_runs *runs, const qn_program *program);

/* Binds the inputs of a kept run. */
void qn_runs_bind(const qn_runs *runs, int run, const qn_program *program);

#endif
