/* Parameters and optimiser state that stay in a device's memory from step to step, where the device
 * makes every update. The engine's store then holds what they were when they were last read from
 * there; steps since then are kept with their inputs (runs.h), so that losing the device costs
 * time, and no result. They are read when somebody asks for a tensor, or when no further step can
 * be kept, and written before the next step if somebody may have changed them. For the host a step
 * is over when its results are there: the next one is given to the device while it still computes
 * gradients and updates.
 *
 * Where the device cannot make some update, none of this is used: parameters are copied to the
 * device in every step, and the host updates them.
 *
 * Invariants: is_host_old implies is_active and that the device has all of them, and then
 * the store and the kept runs together are what the device holds. */
#ifndef QN_RUN_RESIDENT_RESIDENT_H
#define QN_RUN_RESIDENT_RESIDENT_H

#include "run/offload.h"
#include "run/resident/runs.h"

typedef struct qn_resident {
    bool is_active;
    bool is_host_old;   /* the device has changed them since they were read */
    bool is_device_old; /* the host may have changed them since they were written */
    int ahead;          /* 1 more than the program whose runs may not have ended; 0: none */
    int n_tensors;      /* of the store */
    bool *is_there;     /* (n_tensors) */
    size_t *offsets;    /* (n_tensors): in the memory */
    size_t bytes;       /* of those that are there, each aligned */
    size_t arena_bytes; /* of the space, of the largest program */
    qn_memory memory;   /* them, then the arena; handle null: not reserved */
    char *spare;        /* (spare_bytes): where they are read to, as reading may fail */
    size_t spare_bytes;
    qn_runs runs;
} qn_resident;

/* Chooses what stays on the engine's device, for the programs as they are about to be planned. */
qn_status qn_resident_choose(qn_engine *engine);

/* Whether a value from outside of some name stays there. */
bool qn_resident_has(const qn_engine *engine, const char *name);

/* Bytes of the host's memory that it will take when it is opened; 0: it is open, or not active. */
size_t qn_resident_host_bytes(const qn_engine *engine);

/* Whether the device makes every update, so that runs that fail need not have changed nothing. */
bool qn_resident_is_active(const qn_engine *engine);

/* Reserves the memory, binds what lies there, and opens the lanes of the programs that are planned.
 */
qn_status qn_resident_open(qn_engine *engine);

/* Gives the memory back, when the programs have no executors; what it held is gone. */
void qn_resident_close(qn_engine *engine);
void qn_resident_destroy(qn_engine *engine);

/* Before inputs of a run are bound: waits for the end of the runs before, unless this one may be
 * given to the device behind them (run/executor.h). A device that is lost meanwhile is left. */
qn_status qn_resident_prepare(qn_engine *engine, int program);

/* Runs it, ahead where that can be. QN_ERROR_DEVICE: the device is lost. */
qn_status qn_resident_run(qn_engine *engine, int program, uint64_t step, const qn_watch *watch);

/* Before a run of a program whose inputs are bound: brings the device up to date, and keeps the
 * inputs. QN_ERROR_DEVICE: it is lost. */
qn_status qn_resident_begin_run(qn_engine *engine, int program);

/* After a run of a program that succeeded. */
void qn_resident_end_run(qn_engine *engine, int program, uint64_t step);

/* Before a run that is only tried; and when what it changed is to be forgotten. */
qn_status qn_resident_load(qn_engine *engine);
void qn_resident_forget(qn_engine *engine);

/* Makes the store hold what is, and expects that somebody changes it. A device that is lost
 * meanwhile is left. */
qn_status qn_resident_fetch(qn_engine *engine);

/* Makes the kept runs again, on the CPU, from the store; *n: how many. */
qn_status qn_resident_repeat(qn_engine *engine, int *n);

#endif
