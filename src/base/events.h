/* Records of which work ran when, in one ring for each thread. A thread writes to its own ring
 * without lock, allocation or wait; one reader empties all rings. A full ring keeps its contents,
 * drops the new record and counts it. A reader can set a time at which thread 0, which runs the
 * plan, calls it between two records. */
#ifndef QN_BASE_EVENTS_H
#define QN_BASE_EVENTS_H

#include "quern/base.h"

#include <stddef.h>
#include <stdint.h>

typedef enum qn_event_kind {
    QN_EVENT_OPERATION, /* a step of a plan, on the thread that runs the plan */
    QN_EVENT_SHARE,     /* what a further thread of the team did of an operation */
    QN_EVENT_RUN,       /* a whole run of a program: its operations and what is between them */
    QN_EVENT_QUEUED,    /* a step of a further lane, beside the thread that runs the plan */
    QN_EVENT_MARK,      /* the end of a step, as the program that trains says: no length */
} qn_event_kind;

typedef struct qn_event {
    int64_t begin_ns, end_ns; /* of qn_clock_ns */
    int32_t step;             /* updates done before it, low 31 bits */
    int32_t item;             /* step of the program's plan; of a run and a mark: -1 */
    int16_t program;          /* of the engine; -1: the update from accumulated gradients */
    int16_t thread;           /* of the team; behind them further lanes */
    int32_t kind;             /* qn_event_kind */
} qn_event;

typedef struct qn_events qn_events;

/* What is to be done on thread 0 as soon as it puts a record that ends at or after due_ns, or
 * looks. */
typedef struct qn_alarm {
    int64_t due_ns;
    int64_t (*ring)(void *user, int64_t now_ns); /* returns when it is due again */
    void *user;
} qn_alarm;

/* Rings of at least `capacity` records each for threads 0 to n_threads - 1. */
qn_status qn_events_create(const qn_allocator *allocator, int n_threads, size_t capacity,
                           qn_events **events);
void qn_events_destroy(qn_events *events);
int qn_events_thread_count(const qn_events *events);

/* Records that a ring holds. */
size_t qn_events_capacity(const qn_events *events);

/* The one alarm from now on. Not while thread 0 puts. */
void qn_events_set_alarm(qn_events *events, const qn_alarm *alarm);

/* Only from the thread that `thread` stands for. */
void qn_events_put(qn_events *events, int thread, const qn_event *event);

/* Rings the alarm if it is due: from thread 0, in the middle of long work too. */
void qn_events_look(qn_events *events, int64_t now_ns);

/* Takes the oldest of a ring, at most `most`, and returns how many. One reader at a time. */
size_t qn_events_take(qn_events *events, int thread, qn_event *to, size_t most);

/* Records in a ring; as of a moment ago where others put or take. */
size_t qn_events_waiting(const qn_events *events, int thread);

/* Records lost so far because a ring was full. */
int64_t qn_events_lost(const qn_events *events);

#endif
