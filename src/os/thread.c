/* Plain threads, and the mutex with a condition that a bounded queue needs; see os.h. Locking and
 * waiting on a valid monitor cannot fail, so these functions return nothing. */
#include "base/memory.h"
#include "base/status.h"
#include "os/heap.h"
#include "os/os.h"
#include "os/process/pause.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <time.h>

/* ---- forks ---- */

static int n_forks; /* above this process */
static pthread_once_t counts_forks = PTHREAD_ONCE_INIT;

static void count_fork(void) {
    n_forks++;
}

static void begin_counting(void) {
    pthread_atfork(NULL, NULL, count_fork);
}

int qn_fork_count(void) {
    pthread_once(&counts_forks, begin_counting);
    return n_forks;
}

/* ---- threads ---- */

struct qn_thread {
    const qn_allocator *allocator;
    int n_forks;
    pthread_t id;
    void (*body)(void *);
    void *context;
};

static void *thread_main(void *argument) {
    qn_thread *thread = argument;
    thread->body(thread->context);
    return NULL;
}

/* Signals stay with the threads of the program: one like Ctrl-C is not the library's. Faults belong
 * to the thread whose instruction they are. */
static int create_without_signals(qn_thread *thread) {
    sigset_t all, old;
    const int faults[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL};
    sigfillset(&all);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&all, faults[i]);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int error = pthread_create(&thread->id, NULL, thread_main, thread);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return error;
}

qn_status qn_thread_start(const qn_allocator *allocator, void (*body)(void *), void *context,
                          qn_thread **thread) {
    qn_thread *started;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *started, &started));
    *started = (qn_thread){
        .allocator = allocator, .n_forks = qn_fork_count(), .body = body, .context = context};
    int error = create_without_signals(started);
    if (error) {
        qn_release(allocator, started, 1, sizeof *started);
        return qn_fail(QN_ERROR_MEMORY, "cannot start a thread: %s", strerror(error));
    }
    *thread = started;
    return QN_OK;
}

void qn_thread_join(qn_thread *thread) {
    if (!thread)
        return;
    if (thread->n_forks == qn_fork_count())
        pthread_join(thread->id, NULL);
    qn_release(thread->allocator, thread, 1, sizeof *thread);
}

struct qn_monitor {
    const qn_allocator *allocator;
    int n_forks;
    pthread_mutex_t mutex;
    pthread_cond_t condition;
};

qn_status qn_monitor_create(const qn_allocator *allocator, qn_monitor **monitor) {
    qn_monitor *created;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *created, &created));
    created->allocator = allocator;
    created->n_forks = qn_fork_count();
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC); /* that of wait_until */
    pthread_mutex_init(&created->mutex, NULL);
    pthread_cond_init(&created->condition, &attributes);
    pthread_condattr_destroy(&attributes);
    *monitor = created;
    return QN_OK;
}

/* Of this process; a thread that is not in it may hold others. */
static bool is_ours(const qn_monitor *monitor) {
    return monitor->n_forks == qn_fork_count();
}

void qn_monitor_destroy(qn_monitor *monitor) {
    if (!monitor)
        return;
    if (is_ours(monitor)) {
        pthread_cond_destroy(&monitor->condition);
        pthread_mutex_destroy(&monitor->mutex);
    }
    qn_release(monitor->allocator, monitor, 1, sizeof *monitor);
}

void qn_monitor_lock(qn_monitor *monitor) {
    if (is_ours(monitor))
        pthread_mutex_lock(&monitor->mutex);
}

bool qn_monitor_try_lock(qn_monitor *monitor) {
    return pthread_mutex_trylock(&monitor->mutex) == 0;
}

void qn_monitor_unlock(qn_monitor *monitor) {
    if (is_ours(monitor))
        pthread_mutex_unlock(&monitor->mutex);
}

void qn_monitor_wait(qn_monitor *monitor) {
    pthread_cond_wait(&monitor->condition, &monitor->mutex);
}

bool qn_monitor_wait_until(qn_monitor *monitor, int64_t moment_ns) {
    const struct timespec moment = {.tv_sec = (time_t)(moment_ns / 1000000000),
                                    .tv_nsec = (long)(moment_ns % 1000000000)};
    return pthread_cond_timedwait(&monitor->condition, &monitor->mutex, &moment) == 0;
}

void qn_monitor_notify(qn_monitor *monitor) {
    if (is_ours(monitor))
        pthread_cond_broadcast(&monitor->condition);
}

void qn_yield(void) {
    sched_yield();
}
