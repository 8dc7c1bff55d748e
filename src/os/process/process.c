/* Programs that we start and talk to over their standard input and output; see os.h. No call waits
 * longer than its timeout, and a process that has ended never raises a signal in ours. */
#define _GNU_SOURCE /* pipe2 */

#include "base/memory.h"
#include "base/status.h"
#include "os/heap.h"
#include "os/os.h"
#include "os/process/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct qn_process {
    const qn_allocator *allocator;
    pid_t id;
    int to, from; /* our ends */
    bool has_ended;
    int end; /* as waitpid says, once it has ended */
};

extern char **environ;

/* ---- starting ---- */

/* With our end of each, which does not wait: poll does. */
static bool open_pipes(int to[2], int from[2]) {
    if (pipe2(to, O_CLOEXEC) != 0)
        return false;
    if (pipe2(from, O_CLOEXEC) != 0) {
        close(to[0]);
        close(to[1]);
        return false;
    }
    fcntl(to[1], F_SETFL, O_NONBLOCK);
    fcntl(from[0], F_SETFL, O_NONBLOCK);
    return true;
}

/* Its signals are as a program expects to find them, whatever ours are. */
static int spawn(const char *command, const int *files, int n_files, int input, int output,
                 pid_t *id) {
    char *const arguments[] = {"sh", "-c", (char *)(uintptr_t)command, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, usual;
    sigemptyset(&none);
    sigfillset(&usual);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    for (int i = 0; i < n_files; i++)
        posix_spawn_file_actions_adddup2(&actions, files[i], STDERR_FILENO + 1 + i);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                              POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    const int error = posix_spawn(id, "/bin/sh", &actions, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

static void close_all(const int *files, int n) {
    for (int i = 0; i < n; i++)
        close(files[i]);
}

/* The pipes' ends and the files to give, where none of them is yet: none is then closed in giving
 * another. */
static qn_status move_away(const int *from, int n, int *to) {
    enum { AWAY = 32 };
    for (int i = 0; i < n; i++) {
        to[i] = fcntl(from[i], F_DUPFD_CLOEXEC, AWAY);
        if (to[i] >= 0)
            continue;
        const int error = errno;
        close_all(to, i);
        return qn_fail(QN_ERROR_IO, "cannot give a file to a process: %s", strerror(error));
    }
    return QN_OK;
}

static qn_status start(qn_process *p, const char *command, const int *files, int n_files) {
    int to[2], from[2], moved[QN_PROCESS_MOST_FILES];
    QN_TRY(move_away(files, n_files, moved));
    if (!open_pipes(to, from)) {
        const int error = errno;
        close_all(moved, n_files);
        return qn_fail(QN_ERROR_IO, "cannot open a pipe to \"%.100s\": %s", command,
                       strerror(error));
    }
    const int error = spawn(command, moved, n_files, to[0], from[1], &p->id);
    close_all(moved, n_files);
    close(to[0]);
    close(from[1]);
    p->to = to[1];
    p->from = from[0];
    if (error == 0)
        return QN_OK;
    close(p->to);
    close(p->from);
    return qn_fail(QN_ERROR_IO, "cannot start \"%.100s\": %s", command, strerror(error));
}

qn_status qn_process_start_with(const qn_allocator *allocator, const char *command,
                                const int *files, int n_files, qn_process **process) {
    qn_process *p;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *p, &p));
    p->allocator = allocator;
    qn_status status = start(p, command, files, n_files);
    if (status != QN_OK) {
        qn_release(allocator, p, 1, sizeof *p);
        return status;
    }
    *process = p;
    return QN_OK;
}

qn_status qn_process_start(const qn_allocator *allocator, const char *command,
                           qn_process **process) {
    return qn_process_start_with(allocator, command, NULL, 0, process);
}

void qn_process_kill(const qn_process *process) {
    kill(process->id, SIGKILL);
}

/* ---- ending ---- */

/* Whether it has ended, after at most so many milliseconds. */
static bool wait_for_end(qn_process *p, int most_ms) {
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int i = 0; !p->has_ended; i++) {
        p->has_ended = waitpid(p->id, &p->end, WNOHANG) == p->id;
        if (p->has_ended || i >= most_ms)
            break;
        nanosleep(&pause, NULL);
    }
    return p->has_ended;
}

void qn_process_close(qn_process *process) {
    if (!process)
        return;
    close(process->to);
    wait_for_end(process, 1000);
    kill(-process->id, SIGKILL);
    if (!process->has_ended)
        waitpid(process->id, &process->end, 0);
    close(process->from);
    qn_release(process->allocator, process, 1, sizeof *process);
}

static qn_status fail_ended(qn_process *p) {
    if (!wait_for_end(p, 1000))
        return qn_fail(QN_ERROR_IO, "the process has closed its end of the pipe");
    if (WIFSIGNALED(p->end))
        return qn_fail(QN_ERROR_IO, "the process was ended by signal %d", WTERMSIG(p->end));
    return qn_fail(QN_ERROR_IO, "the process has ended with status %d", WEXITSTATUS(p->end));
}

/* ---- talking ---- */

/* Until the descriptor is ready; a deadline in clock time. Once the command is to end, a process
 * that works has some time to answer, so that the step under way is finished. */
static qn_status wait_until_ready(int descriptor, short events, int64_t deadline_ns) {
    enum { LOOK_MS = 100 };
    static const int64_t grace_ns = 2000000000;
    int64_t asked_ns = 0; /* when it was seen that the command is to end */
    for (;;) {
        struct pollfd watched = {.fd = descriptor, .events = events};
        const int64_t now_ns = qn_clock_ns(), left_ms = (deadline_ns - now_ns) / 1000000;
        const int n = poll(&watched, 1,
                           left_ms < 0         ? 0
                           : left_ms < LOOK_MS ? (int)left_ms
                                               : LOOK_MS);
        if (n > 0)
            return QN_OK;
        if (n < 0 && errno != EINTR)
            return qn_fail(QN_ERROR_IO, "cannot wait for the process: %s", strerror(errno));
        asked_ns = asked_ns == 0 && qn_was_interrupted() ? now_ns : asked_ns;
        if (asked_ns > 0 && now_ns - asked_ns > grace_ns)
            return qn_fail(QN_ERROR_INTERRUPTED, "interrupted while the process was waited for");
        if (now_ns >= deadline_ns)
            return qn_fail(QN_ERROR_IO, "the process has not answered in time");
    }
}

/* write, whose SIGPIPE is taken back if it was this one. */
static ssize_t write_without_signal(int descriptor, const void *data, size_t bytes) {
    const struct timespec now = {0};
    sigset_t pipe_signal, old, pending;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &pipe_signal, &old);
    const ssize_t n = write(descriptor, data, bytes);
    const int error = errno;
    if (n < 0 && error == EPIPE && !sigismember(&pending, SIGPIPE))
        sigtimedwait(&pipe_signal, NULL, &now);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    errno = error;
    return n;
}

qn_status qn_process_write(qn_process *process, const void *data, size_t bytes,
                           int64_t timeout_ns) {
    const int64_t deadline_ns = qn_clock_ns() + timeout_ns;
    for (const char *from = data; bytes > 0;) {
        QN_TRY(wait_until_ready(process->to, POLLOUT, deadline_ns));
        const ssize_t n = write_without_signal(process->to, from, bytes);
        if (n < 0 && errno == EPIPE)
            return fail_ended(process);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return qn_fail(QN_ERROR_IO, "cannot write to the process: %s", strerror(errno));
        from += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
    }
    return QN_OK;
}

qn_status qn_process_read(qn_process *process, void *data, size_t bytes, int64_t timeout_ns,
                          size_t *n_read) {
    const int64_t deadline_ns = qn_clock_ns() + timeout_ns;
    for (;;) {
        QN_TRY(wait_until_ready(process->from, POLLIN, deadline_ns));
        const ssize_t n = read(process->from, data, bytes);
        if (n == 0)
            return fail_ended(process);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return qn_fail(QN_ERROR_IO, "cannot read from the process: %s", strerror(errno));
        if (n > 0) {
            *n_read = (size_t)n;
            return QN_OK;
        }
    }
}
