/* Processes that work together: the ranks of one mpirun, over the system's Open MPI library, which
 * is opened at run time. Messages are queued in both directions and then waited for together.
 * Waiting polls: it yields the processor, and ends when the process is asked to stop, since the
 * death of another rank is told by mpirun with a signal only. After a failure no rank can be
 * reached any more; the process then ends without qn_ranks_finish, and mpirun ends the others. */
#ifndef QN_OS_RANKS_H
#define QN_OS_RANKS_H

#include "quern/base.h"

typedef struct qn_ranks qn_ranks;

typedef struct qn_ranks_use {
    int64_t sent_bytes, received_bytes;
    int64_t wait_ns; /* in which this rank had nothing to do but wait */
} qn_ranks_use;

/* A message is at most this long. */
enum { QN_RANKS_MOST_BYTES = 1 << 30 };

#ifdef QN_WITH_MPI

/* Whether mpirun has started several processes, of which this is one. */
bool qn_ranks_are_given(void);

/* Joins the others. QN_ERROR_UNSUPPORTED: there is no such library, or it cannot start. */
qn_status qn_ranks_open(const qn_allocator *allocator, qn_ranks **ranks);

/* Memory for so many messages between two waits, in one direction each. */
qn_status qn_ranks_reserve(qn_ranks *ranks, size_t n_messages);

/* All ranks are done: waits for the others to say so too. */
void qn_ranks_finish(qn_ranks *ranks);
void qn_ranks_close(qn_ranks *ranks);

int qn_ranks_count(const qn_ranks *ranks);
int qn_ranks_own(const qn_ranks *ranks);

/* Threads for each rank of this machine if they share its processors. */
int qn_ranks_threads(const qn_ranks *ranks);
qn_ranks_use qn_ranks_get_use(const qn_ranks *ranks);

/* Queues a message, whose memory stays as it is until the wait. Messages of one tag between two
 * ranks keep their order. */
qn_status qn_ranks_send(qn_ranks *ranks, int to, int tag, const void *data, size_t bytes);
qn_status qn_ranks_receive(qn_ranks *ranks, int from, int tag, void *data, size_t bytes);

/* Gives the library a chance to move messages, without waiting. */
void qn_ranks_poll(qn_ranks *ranks);

/* Until all queued messages are through. QN_ERROR_INTERRUPTED: this process was asked to stop. */
qn_status qn_ranks_wait(qn_ranks *ranks);

/* The same number of bytes of every rank, to all (count * bytes), in the order of ranks. */
qn_status qn_ranks_gather(qn_ranks *ranks, const void *own, size_t bytes, void *all);

#else /* mpirun's processes are then as any others */

static inline bool qn_ranks_are_given(void) {
    return false;
}
static inline int qn_ranks_count(const qn_ranks *ranks) {
    (void)ranks;
    return 1;
}
static inline int qn_ranks_own(const qn_ranks *ranks) {
    (void)ranks;
    return 0;
}

#endif
#endif
