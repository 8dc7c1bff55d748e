/* The memory budget of a training run that changes while it runs: set by a file, and lowered under
 * memory pressure. */
#ifndef QN_CLI_BUDGET_H
#define QN_CLI_BUDGET_H

#include "cli/train/training.h"
#include "os/os.h"
#include "os/pressure.h"

/* Invariant: with the lock, asked_bytes is what the engine was last asked for. */
typedef struct budget {
    training *t;
    qn_engine *engine;
    const char *path; /* of the file, or null */
    qn_monitor *lock;
    qn_thread *thread; /* reads the file */
    qn_pressure *pressure;
    bool is_ending, is_short;
    int64_t modified_ns;
    size_t wanted_bytes, low_bytes, asked_bytes; /* 0: no limit */
} budget;

/* Whether the command line lets the budget change. */
bool budget_may_change(const arguments *a);

/* From now to the end the budget follows the options; nothing without them. */
qn_status budget_begin(budget *b, training *t);
void budget_end(budget *b);

#endif
