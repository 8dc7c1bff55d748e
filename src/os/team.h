/* A team of threads that work on one task after another. The work is split into T contiguous
 * shares, one for each of T threads, and each share into pieces that become smaller. A thread that
 * finishes takes pieces from a thread that is slower or was preempted. Results depend neither on T
 * nor on this, because the shape alone determines a kernel's tasks and one thread does a whole
 * task. Waiting threads spin briefly, then sleep. Nothing is allocated between create and destroy.
 */
#ifndef QN_OS_TEAM_H
#define QN_OS_TEAM_H

#include "base/events.h"

typedef struct qn_team qn_team;

enum { QN_MAX_THREADS = 256 };

/* Part of a task list: does tasks [begin, end) as thread `thread` (0 <= thread < team size). A
 * thread is given several parts, in no order that can be relied on. */
typedef void qn_team_task(void *context, int64_t begin, int64_t end, int thread);

/* A team of n_threads, the calling thread included. */
qn_status qn_team_create(const qn_allocator *allocator, int n_threads, qn_team **team);
void qn_team_destroy(qn_team *team);

/* Threads in the team; 1 for null. */
int qn_team_size(const qn_team *team);

/* Runs tasks 0 to n_tasks - 1 and returns when all are done. A null team and a single task run on
 * the calling thread. Calls from inside a task are not allowed. */
void qn_team_run(qn_team *team, int64_t n_tasks, qn_team_task *task, void *context);

/* ---- teams whose further threads are lent ---- */

/* A team without threads of its own, of at most so many: others come and go. */
qn_status qn_team_create_open(const qn_allocator *allocator, int most_threads, qn_team **team);

/* Until the next call, so many threads take part in what the team runs, the caller included. */
void qn_team_begin_turn(qn_team *team, int n_threads);

/* Lends the calling thread to an open team for what its caller runs now, if there is something and
 * room for one more; whether there was work. *seen is the caller's, 0 at first: the round that it
 * was in last, which it does not enter again. What it does is recorded in a ring of events (null:
 * nowhere). */
bool qn_team_help(qn_team *team, uint32_t *seen, qn_events *events, int ring);

/* From now on what the team's further threads do is recorded in events, a record for each round,
 * labelled with the program, step and item of the last label; null: no longer. Not inside a task.
 * Returns the events before. A null team does nothing. */
qn_events *qn_team_watch(qn_team *team, qn_events *events);
void qn_team_label(qn_team *team, const qn_event *label);

#endif
