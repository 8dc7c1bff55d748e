/* Runs another program in the foreground, with our standard streams, terminal and environment, as
 * if it had been started in our place: signals sent to us are forwarded to it, and we end with its
 * exit status. */
#ifndef QN_OS_PROCESS_FOREGROUND_H
#define QN_OS_PROCESS_FOREGROUND_H

#include "quern/base.h"

#include <signal.h>

/* As shells have it. */
enum { EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127, EXIT_BY_SIGNAL = 128 };

typedef struct qn_foreground {
    int64_t id;               /* of its process */
    int gate, answer;         /* pipes: it waits for the one and says on the other why it failed */
    sigset_t mask;            /* as it was before */
    int64_t begin_ns, end_ns; /* of qn_clock_ns, once it runs and has ended */
    int exit_status;          /* the program's; 128 + signal where one ended it */
    int64_t cpu_ns;           /* processor time of it and of what it started and waited for */
    int64_t peak_bytes;       /* largest resident size of one of these */
} qn_foreground;

/* Makes the process, which waits: whoever wants to watch it can get ready. words is ended by null.
 * Signals to us wait until it is released. */
qn_status qn_foreground_hold(qn_foreground *l, const char *const *words);

/* Lets it become the program. On failure it has ended, and exit_status says how a shell would
 * tell. */
qn_status qn_foreground_release(qn_foreground *l, const char *const *words);

/* Instead of release: it never becomes the program. */
void qn_foreground_cancel(qn_foreground *l);

/* Waits for its end. It stays a process, of which /proc still knows. */
void qn_foreground_wait(qn_foreground *l);

/* After wait: takes its exit status and what it used. */
void qn_foreground_finish(qn_foreground *l);

#endif
