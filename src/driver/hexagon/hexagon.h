/* A Hexagon DSP with vector instructions as a device that runs nodes: products of int8 whose sums
 * are shifted, what works on their mantissas, and nothing of floats. A program on the DSP (dsp/)
 * answers over memory that both share; its bits are the CPU's. On a machine without a DSP it runs
 * under qemu-hexagon, as a process of its own. Where that ends, for whatever reason, it is started
 * again and gets what it has not done: the memory is the host's, so nothing is lost. */
#ifndef QN_DRIVER_HEXAGON_HEXAGON_H
#define QN_DRIVER_HEXAGON_HEXAGON_H

#include "device/device.h"

typedef struct qn_hexagon_options {
    int n_resident; /* works that stay prepared on it; 0: as many as it has room for */
} qn_hexagon_options;

extern const qn_device qn_device_hexagon; /* opened with qn_hexagon_options */

/* Whether it can be opened here; QN_ERROR_UNSUPPORTED says what is missing. */
qn_status qn_hexagon_check(void);

/* Ends its process, as a crash does. From any thread. */
void qn_hexagon_kill(void *state);

/* Why it was lost; "" if it was not. */
const char *qn_hexagon_reason(const void *state);

typedef struct qn_hexagon_counts {
    int64_t n_works, n_prepared;          /* of these, the works that were prepared first */
    int64_t n_calls;                      /* messages to the DSP */
    int64_t n_starts;                     /* of its process */
    int64_t n_packets, n_prepare_packets; /* instruction packets; of these, preparing works */
} qn_hexagon_counts;

qn_hexagon_counts qn_hexagon_count(const void *state);

/* The phone that the emulated DSP is said to be part of. */
extern const qn_device_model qn_hexagon_model;
double qn_hexagon_copy_ns(size_t bytes); /* a message, and the bytes of both caches */

#endif
