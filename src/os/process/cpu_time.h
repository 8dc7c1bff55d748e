/* Processor time of a process and its threads, in the nanoseconds that the scheduler counts, idle
 * time of the machine, and the list of threads. Reading allocates nothing. */
#ifndef QN_OS_PROCESS_CPU_TIME_H
#define QN_OS_PROCESS_CPU_TIME_H

#include "quern/base.h"

/* Process and thread numbers of the caller. */
int64_t qn_process_id(void);
int64_t qn_thread_id(void);

/* Bytes of a page of memory. */
int64_t qn_page_bytes(void);

/* Processor time of all threads of a process so far, of those that have ended too; -1: there is no
 * such process. What runs at this moment in another process is counted up to the last tick of the
 * scheduler (1 to 10 ms ago). */
int64_t qn_process_cpu_ns(int64_t process);

/* Processor time of a thread of this process up to now; -1: there is no such thread. */
int64_t qn_own_thread_cpu_ns(int64_t thread);

/* Time in which processors of the machine had nothing to do so far, summed over them, by ticks of
 * the scheduler; -1: the system does not say. */
int64_t qn_idle_cpu_ns(void);

/* A folder whose entries are named by numbers (/proc/PID/task), kept open. */
typedef struct qn_numbered {
    int handle;
} qn_numbered;

qn_status qn_numbered_open(const char *path, qn_numbered *folder);
void qn_numbered_close(qn_numbered *folder);

/* Folders in it, without looking at them; -1 when it has gone. */
int64_t qn_numbered_count(const qn_numbered *folder);

/* The numbers of the first `most` entries that are named so; how many there are in all. */
int qn_numbered_list(const qn_numbered *folder, int64_t *numbers, int most);

#endif
