/* See foreground.h. Ctrl-C reaches all programs of the terminal's group, so signals from the kernel
 * are not forwarded; signals that another process sends to us alone are. */
#define _GNU_SOURCE /* pipe2 */

#include "os/process/foreground.h"

#include "base/status.h"
#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const int passed_on[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM};

enum { N_PASSED_ON = sizeof passed_on / sizeof passed_on[0] };

/* The process that signals go to; 0: none. */
static volatile sig_atomic_t receiver;

static void pass_on(int number, siginfo_t *info, void *context) {
    const int error = errno;
    (void)context;
    if (receiver > 0 && info->si_code <= 0)
        kill(receiver, number);
    errno = error;
}

/* Signals that whoever started us wanted to be ignored (nohup) stay so, for both. */
static void watch_signals(void) {
    struct sigaction action = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO | SA_RESTART}, old;
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < N_PASSED_ON; i++) {
        if (sigaction(passed_on[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(passed_on[i], &action, NULL);
    }
}

/* From now on they are ours again. */
static void unwatch_signals(void) {
    struct sigaction old;
    for (int i = 0; i < N_PASSED_ON; i++) {
        if (sigaction(passed_on[i], NULL, &old) == 0 && old.sa_sigaction == pass_on)
            signal(passed_on[i], SIG_DFL);
    }
}

/* ---- in the new process ---- */

/* Waits at the gate and becomes the program; answers with an errno where it cannot. */
static void become(const qn_foreground *l, int gate, int answer, const char *const *words) {
    char go;
    if (read(gate, &go, 1) == 1) {
        signal(SIGCHLD, SIG_DFL);
        signal(SIGXFSZ, SIG_DFL);
        sigprocmask(SIG_SETMASK, &l->mask, NULL);
        execvp(words[0], (char *const *)(uintptr_t)words);
        const int error = errno;
        if (write(answer, &error, sizeof error) < 0)
            _exit(EXIT_NOT_EXECUTABLE);
    }
    _exit(EXIT_NOT_FOUND);
}

/* ---- in ours ---- */

static qn_status fail_start(const char *name, int error) {
    return qn_fail(QN_ERROR_IO, "cannot run %s: %s", name, strerror(error));
}

qn_status qn_foreground_hold(qn_foreground *l, const char *const *words) {
    int gate[2], answer[2];
    sigset_t all;
    *l = (qn_foreground){.exit_status = EXIT_NOT_EXECUTABLE};
    if (pipe2(gate, O_CLOEXEC) != 0)
        return fail_start(words[0], errno);
    if (pipe2(answer, O_CLOEXEC) != 0) {
        const int error = errno;
        close(gate[0]);
        close(gate[1]);
        return fail_start(words[0], error);
    }
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &l->mask);
    signal(SIGCHLD, SIG_DFL);
    l->id = fork();
    if (l->id == 0) {
        close(gate[1]);
        become(l, gate[0], answer[1], words);
    }
    const int error = errno;
    close(gate[0]);
    close(answer[1]);
    l->gate = gate[1];
    l->answer = answer[0];
    if (l->id > 0)
        return QN_OK;
    close(l->gate);
    close(l->answer);
    sigprocmask(SIG_SETMASK, &l->mask, NULL);
    return fail_start(words[0], error);
}

void qn_foreground_finish(qn_foreground *l) {
    int status = 0;
    struct rusage used = {.ru_maxrss = 0};
    receiver = 0; /* its number is free from now on */
    unwatch_signals();
    while (wait4((pid_t)l->id, &status, 0, &used) < 0 && errno == EINTR) {
    }
    l->exit_status = WIFSIGNALED(status) ? EXIT_BY_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
    l->cpu_ns = (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * INT64_C(1000000000) +
                (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * INT64_C(1000);
    l->peak_bytes = used.ru_maxrss * INT64_C(1024);
}

qn_status qn_foreground_release(qn_foreground *l, const char *const *words) {
    int error = 0;
    ssize_t n;
    l->begin_ns = qn_clock_ns();
    n = write(l->gate, "", 1);
    close(l->gate);
    do
        n = read(l->answer, &error, sizeof error);
    while (n < 0 && errno == EINTR);
    close(l->answer);
    if (n <= 0)
        return QN_OK;
    qn_foreground_finish(l);
    l->exit_status = error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
    sigprocmask(SIG_SETMASK, &l->mask, NULL);
    return fail_start(words[0], error);
}

void qn_foreground_cancel(qn_foreground *l) {
    close(l->gate);
    close(l->answer);
    qn_foreground_finish(l);
    sigprocmask(SIG_SETMASK, &l->mask, NULL);
}

void qn_foreground_wait(qn_foreground *l) {
    siginfo_t ended;
    receiver = (sig_atomic_t)l->id;
    watch_signals();
    sigprocmask(SIG_SETMASK, &l->mask, NULL);
    while (waitid(P_PID, (id_t)l->id, &ended, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
    }
    l->end_ns = qn_clock_ns();
}
