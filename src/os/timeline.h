/* A counter that only rises and that threads can wait for: the progress of a queue. One thread
 * raises it, any number wait. Waiting spins briefly, then sleeps; raising costs one store if nobody
 * sleeps. Nothing is allocated between create and destroy. */
#ifndef QN_OS_TIMELINE_H
#define QN_OS_TIMELINE_H

#include "quern/base.h"

typedef struct qn_timeline qn_timeline;

/* Begins at 0. */
qn_status qn_timeline_create(const qn_allocator *allocator, qn_timeline **timeline);
void qn_timeline_destroy(qn_timeline *timeline); /* nobody waits any more */

uint64_t qn_timeline_value(const qn_timeline *timeline);

/* Raises it to a value above the one that it has. What was written before is seen by those who find
 * or wait for the value. */
void qn_timeline_raise(qn_timeline *timeline, uint64_t value);

/* It will never rise again: all who wait for more are told, now and later, until it is reset. */
void qn_timeline_fail(qn_timeline *timeline);
bool qn_timeline_has_failed(const qn_timeline *timeline);

/* Waits until it has the value; false: it has not and never will, for it failed. */
bool qn_timeline_wait(qn_timeline *timeline, uint64_t value);

/* The same for one who expects to wait long: it does not spin. */
bool qn_timeline_sleep(qn_timeline *timeline, uint64_t value);

/* Back to 0 and sound, while nobody uses it. */
void qn_timeline_reset(qn_timeline *timeline);

#endif
