/* See affinity.h. */
#define _GNU_SOURCE

#include "os/affinity.h"

#include <sched.h>

bool qn_core_is_allowed(int core) {
    cpu_set_t set;
    if (core < 0 || core >= CPU_SETSIZE || sched_getaffinity(0, sizeof set, &set) != 0)
        return false;
    return CPU_ISSET((size_t)core, &set);
}

bool qn_thread_keep_to(const int *cores, int n) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < n; i++) {
        if (cores[i] < 0 || cores[i] >= CPU_SETSIZE)
            return false;
        CPU_SET((size_t)cores[i], &set);
    }
    return sched_setaffinity(0, sizeof set, &set) == 0;
}

bool qn_thread_pin(int core) {
    return qn_thread_keep_to(&core, 1);
}

bool qn_thread_give_way(void) {
    const struct sched_param none = {.sched_priority = 0};
    return sched_setscheduler(0, SCHED_IDLE, &none) == 0;
}
