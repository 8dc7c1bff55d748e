/* Which cores threads may run on and do run on, and whom they give way to. Cores are numbered as by
 * the kernel. */
#ifndef QN_OS_AFFINITY_H
#define QN_OS_AFFINITY_H

#include <stdbool.h>

/* Whether this process may run on a core. */
bool qn_core_is_allowed(int core);

/* Keeps the calling thread, and those that it starts from now on, to some cores; false: the system
 * does not let it. */
bool qn_thread_keep_to(const int *cores, int n);

/* The same for one core. */
bool qn_thread_pin(int core);

/* The calling thread, and those that it starts from now on, run only while nothing else wants to:
 * whatever wakes up takes their place at once. Cannot be undone; false: the system does not let it.
 */
bool qn_thread_give_way(void);

#endif
