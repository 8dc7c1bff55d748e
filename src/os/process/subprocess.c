/* Programs that run to their end; see os.h. */
#define _GNU_SOURCE /* pipe2, wait4 */

#include "base/status.h"
#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

/* ---- in the new process: only calls that are safe between fork and exec ---- */

/* The system then ends it before us when memory runs out. */
static void offer_as_victim(void) {
    const int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    const ssize_t n = file >= 0 ? write(file, "1000", 4) : 0;
    if (file >= 0)
        close(file);
    (void)n; /* where it is refused, both are as likely to go */
}

static void restore_signals(void) {
    sigset_t none;
    sigemptyset(&none);
    for (int i = 1; i < NSIG; i++)
        signal(i, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* 127: it could not be started, as with a shell. */
static void become(const char *const *arguments, int messages, pid_t parent) {
    const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    setpgid(0, 0);
    restore_signals();
#if defined(__linux__)
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    offer_as_victim();
    if (getppid() == parent && nowhere >= 0 && dup2(nowhere, STDIN_FILENO) >= 0 &&
        dup2(nowhere, STDOUT_FILENO) >= 0 && dup2(messages, STDERR_FILENO) >= 0)
        execv(arguments[0], (char *const *)(uintptr_t)arguments);
    _Exit(127);
}

/* ---- in ours ---- */

/* Keeps the last line of what comes that is not empty. */
typedef struct tail {
    char line[256];
    size_t n;
    qn_program_end *end;
} tail;

static void keep_line(tail *t) {
    t->line[t->n] = 0;
    if (t->n > 0)
        memcpy(t->end->last, t->line, sizeof t->line);
    t->n = 0;
}

static void take(tail *t, const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '\n' || text[i] == '\r')
            keep_line(t);
        else if (t->n + 1 < sizeof t->line)
            t->line[t->n++] = text[i];
    }
}

/* Reads until the other end is closed. */
static void follow(int messages, pid_t id, bool (*should_stop)(void *user), void *user,
                   qn_program_end *end) {
    tail t = {.end = end};
    char text[1024];
    for (;;) {
        struct pollfd watched = {.fd = messages, .events = POLLIN};
        const int n_ready = poll(&watched, 1, 100);
        if (!end->was_stopped && should_stop && should_stop(user)) {
            end->was_stopped = true;
            kill(-id, SIGKILL);
        }
        if (n_ready <= 0)
            continue;
        const ssize_t n = read(messages, text, sizeof text);
        if (n == 0 || (n < 0 && errno != EINTR))
            break;
        take(&t, text, n > 0 ? (size_t)n : 0);
    }
    keep_line(&t);
}

static void await(pid_t id, qn_program_end *end) {
    struct rusage usage = {0};
    int how = 0;
    while (wait4(id, &how, 0, &usage) < 0 && errno == EINTR) {
    }
    end->signal = WIFSIGNALED(how) ? WTERMSIG(how) : 0;
    end->status = WIFEXITED(how) ? WEXITSTATUS(how) : -1;
    end->peak_bytes = (int64_t)usage.ru_maxrss * 1024;
}

qn_status qn_subprocess_run(const char *const *arguments, bool (*should_stop)(void *user),
                            void *user, qn_program_end *end) {
    int ends[2];
    const pid_t parent = getpid();
    *end = (qn_program_end){.status = -1};
    if (pipe2(ends, O_CLOEXEC) != 0)
        return qn_fail(QN_ERROR_IO, "cannot open a pipe to %s: %s", arguments[0], strerror(errno));
    const pid_t id = fork();
    if (id == 0)
        become(arguments, ends[1], parent);
    const int error = errno;
    close(ends[1]);
    if (id < 0) {
        close(ends[0]);
        return qn_fail(QN_ERROR_IO, "cannot start %s: %s", arguments[0], strerror(error));
    }
    setpgid(id, id);
    follow(ends[0], id, should_stop, user, end);
    close(ends[0]);
    await(id, end);
    return QN_OK;
}

bool qn_signal_is_kill(int number) {
    return number == SIGKILL;
}

bool qn_program_is_there(const char *name) {
    char path[1024];
    const char *folders = getenv("PATH");
    while (folders && *folders) {
        const int n = (int)strcspn(folders, ":");
        const int length = snprintf(path, sizeof path, "%.*s/%s", n, folders, name);
        if (length < (int)sizeof path && access(path, X_OK) == 0)
            return true;
        folders += n + (folders[n] == ':');
    }
    return false;
}
