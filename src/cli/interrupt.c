/* See interrupt.h. */
#include "cli/interrupt.h"

#include "base/status.h"
#include "cli/commands.h"

#include <signal.h>
#include <stdlib.h>

static volatile sig_atomic_t n_signals;

static void note(int number) {
    if (n_signals++ > 0)
        _Exit(EXIT_FAILED);
    signal(number, note);
}

void interrupt_watch(void) {
    signal(SIGINT, note);
    signal(SIGTERM, note);
}

bool was_interrupted(void) {
    return n_signals > 0;
}

static qn_status next(void *self, qn_batch *batch) {
    const qn_batches *below = self;
    if (was_interrupted())
        return qn_fail(QN_ERROR_INTERRUPTED, "stopped while testing");
    return below->next(below->self, batch);
}

static qn_status rewind_below(void *self) {
    const qn_batches *below = self;
    return below->rewind(below->self);
}

qn_batches interruptible(qn_batches *below) {
    return (qn_batches){below, next, rewind_below};
}
