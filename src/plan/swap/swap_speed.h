/* The swap speed of a folder's disk: measured once, cached by machine and folder. */
#ifndef QN_PLAN_SWAP_SWAP_SPEED_H
#define QN_PLAN_SWAP_SWAP_SPEED_H

#include "quern/base.h"

/* Of swapping; bandwidths in bytes per ns. */
typedef struct qn_swap_speed {
    double write_bytes_per_ns, read_bytes_per_ns;
    int64_t latency_ns;
    double
        work_ns_per_byte; /* processor time of a write or a read, taken from those that compute */
} qn_swap_speed;

/* Writes and reads some MiB in the folder, in half a second or a little more, as training would:
 * pieces of a reserved file that have been written before, several at a time. */
qn_status qn_swap_speed_measure(const qn_allocator *allocator, const char *folder,
                                qn_swap_speed *speed);

/* The speed kept for this machine and folder, or, where there is none, measured now and kept. A
 * cache that cannot be written is no failure. */
qn_status qn_swap_speed_get(const qn_allocator *allocator, const char *folder,
                            qn_swap_speed *speed);

/* What is kept, from its text: whether it is a speed, of this machine and folder. */
bool qn_swap_speed_parse(const char *text, size_t bytes, const char *machine, const char *folder,
                         qn_swap_speed *speed);

#endif
