/* A queue served by a host thread with its own team: a further lane of the CPU and, with hooks, a
 * simulated device. Nothing is allocated between open and close. */
#ifndef QN_DEVICE_HOST_QUEUE_H
#define QN_DEVICE_HOST_QUEUE_H

#include "device/device.h"

typedef struct qn_host_queue_hooks {
    void *user;
    /* Before each work, when it waits for nothing any more; false: the device is lost, and the
     * work is not done. Null: nothing to do. */
    bool (*begin)(void *user, const qn_work *work);
    /* What the queue's thread runs instead of a call, made by the hook; null: the call itself. */
    const qn_call *(*translate)(void *user, const qn_call *call);
} qn_host_queue_hooks;

/* run does a call to its end. */
qn_status qn_host_queue_open(const qn_allocator *allocator, int n_threads,
                             void (*run)(const qn_call *call), const qn_host_queue_hooks *hooks,
                             qn_queue **queue);
void qn_host_queue_close(qn_queue *queue);
qn_timeline *qn_host_queue_timeline(const qn_queue *queue);
void qn_host_queue_submit(qn_queue *queue, const qn_work *works, int32_t n,
                          const qn_queue_watch *watch);

/* The hooks that a queue was opened with. */
void *qn_host_queue_user(const qn_queue *queue);

#endif
