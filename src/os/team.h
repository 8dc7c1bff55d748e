/* A team of threads that work on one task after another. The splitting is fixed: thread t of T
 * gets the t-th of T contiguous shares. Results never depend on T, because a kernel's tasks are
 * cut by the shape alone and a task is done by one thread. Waiting threads spin shortly, then
 * sleep. Nothing is allocated between create and destroy. */
#ifndef QN_OS_TEAM_H
#define QN_OS_TEAM_H

#include "quern/base.h"

typedef struct qn_team qn_team;

enum { QN_MAX_THREADS = 256 };

/* Part of a task list: does tasks [begin, end) as thread `thread` (0 <= thread < team size). */
typedef void qn_team_task(void *context, int64_t begin, int64_t end, int thread);

/* A team of n_threads, the calling thread included. */
qn_status qn_team_create(const qn_allocator *allocator, int n_threads, qn_team **team);
void qn_team_destroy(qn_team *team);

/* Threads in the team; 1 for null. */
int qn_team_size(const qn_team *team);

/* Runs tasks 0 to n_tasks - 1 and returns when all are done. A null team and a single task run on
 * the calling thread. Calls from inside a task are not allowed. */
void qn_team_run(qn_team *team, int64_t n_tasks, qn_team_task *task, void *context);

#endif
