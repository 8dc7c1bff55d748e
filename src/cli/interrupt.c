/* See interrupt.h. */
#include "cli/interrupt.h"

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
