/* Ctrl-C, SIGTERM and SIGHUP (a lost connection) ask the command to stop cleanly; a second Ctrl-C
 * or SIGTERM ends it at once. A closed output pipe loses output but does not end the program. */
#ifndef QN_OS_PROCESS_INTERRUPT_H
#define QN_OS_PROCESS_INTERRUPT_H

#include <stdbool.h>

/* Writing to a pipe whose reader has gone is an error from now on, and no longer ends the program:
 * for commands that make files beside their output, before their first message. */
void qn_broken_pipe_ignore(void);

/* The same, and from now on signals are noted, and a second one ends the program with the status;
 * qn_was_interrupted says whether one came. */
void qn_interrupt_watch(int status);
bool qn_was_interrupted(void);

/* Zero until a signal comes: for what looks at it often. */
const int *qn_interrupt_flag(void);

/* Whether it was Ctrl-C. */
bool qn_was_ctrl_c(void);

#endif
