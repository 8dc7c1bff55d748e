/* How kernels of this room are cut into tasks: some rows, or some elements. */
#ifndef QN_KERNELS_LANGUAGE_TASKS_H
#define QN_KERNELS_LANGUAGE_TASKS_H

#include "kernels/language.h"
#include "kernels/ref/real.h"

static inline int64_t task_rows(int64_t c) {
    return max_int(1, ELEMENTS_PER_TASK / max_int(c, 1));
}

#endif
