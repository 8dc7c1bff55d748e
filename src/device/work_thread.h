/* What the queues of devices have in common whose works a thread of the host does: the thread, what
 * was submitted to it, and the timeline on which it says how far it is. */
#ifndef QN_DEVICE_WORK_THREAD_H
#define QN_DEVICE_WORK_THREAD_H

#include "device/device.h"

typedef struct qn_work_thread qn_work_thread;

/* Does the n works of one submission, in order; raises the timeline for each, and fails it at the
 * first that cannot be done. */
typedef void qn_do_works(void *queue, const qn_work *works, int32_t n, const qn_queue_watch *watch);

qn_status qn_work_thread_start(const qn_allocator *allocator, qn_do_works *do_works, void *queue,
                               qn_work_thread **thread);

/* Ends it after what was submitted. */
void qn_work_thread_end(qn_work_thread *thread);

qn_timeline *qn_work_thread_timeline(const qn_work_thread *thread);

/* Returns at once; works stay as they are until they are done. */
void qn_work_thread_submit(qn_work_thread *thread, const qn_work *works, int32_t n,
                           const qn_queue_watch *watch);

/* Whether works were submitted behind those that are being done. */
bool qn_work_thread_has_more(const qn_work_thread *thread);

/* Records a work that ends now. Operations count as the step's own work, since nothing is done
 * beside them; copies do not. */
void qn_work_thread_record(const qn_queue_watch *watch, const qn_work *work, int64_t begin_ns);

/* The same, with an end of its own. */
void qn_work_thread_record_as(const qn_queue_watch *watch, const qn_work *work, int64_t begin_ns,
                              int64_t end_ns);

#endif
