/* The inside of a Hexagon DSP: for the files of this folder. */
#ifndef QN_DRIVER_HEXAGON_STATE_H
#define QN_DRIVER_HEXAGON_STATE_H

#include "device/machine.h"
#include "driver/hexagon/dsp/protocol.h"
#include "driver/hexagon/hexagon.h"
#include "os/os.h"
#include "os/pages.h"

enum { QN_HEXAGON_MOST_MEMORIES = 16 };

/* A piece of the shared memory; bytes 0: free. */
typedef struct qn_hexagon_region {
    size_t offset, bytes;
} qn_hexagon_region;

/* A work that the DSP is to do. */
typedef struct qn_hexagon_task {
    qn_dsp_work work;
    int32_t bits;
    uint32_t packets; /* that it took, once it is done */
} qn_hexagon_task;

typedef struct qn_hexagon {
    const qn_allocator *allocator;
    qn_shared_pages shared, program;
    qn_hexagon_region regions[QN_HEXAGON_MOST_MEMORIES]; /* changed while no work is done */
    qn_monitor *busy;    /* held while the process works, starts or ends */
    qn_monitor *guard;   /* of the pointer to it */
    qn_process *process; /* null: none */
    size_t mapped_bytes; /* by it */
    int n_slots, n_used;
    int last_slot;         /* that was used */
    qn_dsp_work *resident; /* (n_used of n_slots): what is prepared */
    bool is_lost;          /* atomic; behind the reason */
    char reason[160];
    qn_device_counters counters; /* atomic, each by itself */
    qn_hexagon_counts counts;    /* likewise */
} qn_hexagon;

/* ---- the process ---- */

/* Starts it, if there is none, with all memory there is. */
qn_status qn_hexagon_start(qn_hexagon *h);
void qn_hexagon_stop(qn_hexagon *h);

/* Whether it can be started: again and again, where something ends it. */
qn_status qn_hexagon_try(qn_hexagon *h);

/* Has tasks done, in order; begins again with what is left where the process ends meanwhile.
 * False: the device is lost. */
bool qn_hexagon_do(qn_hexagon *h, qn_hexagon_task *tasks, int n);

bool qn_hexagon_is_lost(const void *state);

/* ---- works ---- */

/* What does not depend on places: false: the DSP does not do it. */
bool qn_hexagon_describe(const qn_op *op, const void *attributes, int n_inputs, int n_outputs,
                         const qn_tensor *inputs, const qn_tensor *outputs, qn_dsp_work *work);

/* The same of a call, with all places. False: an operand lies in no memory of the device. */
bool qn_hexagon_make_task(const qn_hexagon *h, const qn_call *call, qn_hexagon_task *task);

/* Scratch memory of a work. */
size_t qn_hexagon_work_bytes(const qn_dsp_work *work);

/* ---- functions of qn_device ---- */

qn_status qn_hexagon_queue_open(void *state, const qn_allocator *allocator,
                                const qn_queue_options *options, qn_queue **queue);
void qn_hexagon_queue_close(qn_queue *queue);
qn_timeline *qn_hexagon_queue_timeline(const qn_queue *queue);
void qn_hexagon_queue_submit(qn_queue *queue, const qn_work *works, int32_t n,
                             const qn_queue_watch *watch);

#endif
