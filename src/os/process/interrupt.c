/* See interrupt.h. */
#include "os/process/interrupt.h"

#include <signal.h>
#include <stdint.h>
#include <stdlib.h>

static volatile sig_atomic_t was_asked, n_asked, has_ctrl_c, end_status;

/* A connection that drops sends HUP more than once (the terminal, and the shell): only who asks
 * again means it. */
static void note(int number) {
    was_asked = 1;
    has_ctrl_c |= number == SIGINT;
    if (number != SIGHUP && n_asked++ > 0)
        _Exit(has_ctrl_c ? 128 + SIGINT : end_status);
}

/* What whoever started us wanted to be ignored stays so: HUP under nohup, INT of a shell's job in
 * the background. */
static void watch(int number) {
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART}, old;
    sigemptyset(&action.sa_mask);
    if (sigaction(number, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
        sigaction(number, &action, NULL);
}

void qn_broken_pipe_ignore(void) {
    signal(SIGPIPE, SIG_IGN);
}

void qn_interrupt_watch(int status) {
    end_status = status;
    watch(SIGINT);
    watch(SIGTERM);
    watch(SIGHUP);
    qn_broken_pipe_ignore();
}

bool qn_was_ctrl_c(void) {
    return has_ctrl_c;
}

bool qn_was_interrupted(void) {
    return was_asked;
}

const int *qn_interrupt_flag(void) {
    _Static_assert(sizeof was_asked == sizeof(int), "a flag of signals is an int");
    return (const int *)(uintptr_t)&was_asked;
}
