/* See team.h. The caller publishes a job by raising `round` to an odd number and closes it by
 * raising it to an even one. A worker enters a round by counting `inside` up; if the round is
 * closed by then, it leaves at once. So the caller never waits for a worker that has no processor
 * and has not begun. Both sides spin briefly and then sleep on a condition. Before sleeping, a side
 * announces it and checks once more; the other side looks for sleepers after changing the word. One
 * of the two therefore always sees the other (both orders are sequentially consistent), as do a
 * worker that enters and a caller that closes. Threads spin only if each has a processor of its
 * own, and for longer than the gap between two operations of a step: a sleeping thread may have to
 * wait for its processor if other programs want it. */
#include "os/team.h"

#include "base/memory.h"
#include "base/status.h"
#include "os/heap.h"
#include "os/os.h"
#include "os/process/pause.h"

#include <pthread.h>
#include <string.h>

enum {
    SPIN_NS = 300000,
    PAUSES_PER_LOOK_AT_CLOCK = 64,
    PARTS = 4, /* a piece is one part in so many of what is left */
    CACHE_LINE = 64,
    LONG_PIECE_NS = 100000
};

/* Also the thread's share of a round: what is left of it begins at `next`, and whoever has time
 * takes a piece from there, its own thread first. The caller's is workers[0], which has no handle.
 */
typedef struct worker {
    struct qn_team *team;
    int thread;
    pthread_t handle;
    int64_t end;
    _Alignas(CACHE_LINE) int64_t next; /* atomic */
} worker;

struct qn_team {
    const qn_allocator *allocator;
    int n_forks;              /* qn_fork_count when it was made */
    int n_threads, n_started; /* n_started: workers that run, without the caller */
    int most_threads;         /* room for workers */
    bool may_spin, stop;
    worker *workers;

    qn_events *events; /* null: not watched */
    /* Of the caller, watched: looks at the clock between the pieces of this round; when it did
     * last. */
    bool is_looking;
    int64_t look_ns;

    /* One line, so that a worker that sees a round has its job. */
    _Alignas(CACHE_LINE) uint32_t round; /* atomic; odd: open */
    qn_team_task *task;                  /* the job of this round, written before round is raised */
    void *context;
    qn_event label; /* of what is recorded: program, step and item */
    int next_guest; /* atomic: the thread that the next one who helps is */

    _Alignas(CACHE_LINE) int inside; /* atomic: workers in the round */
    int n_asleep;                    /* atomic: workers about to sleep or asleep */
    int caller_asleep;
    pthread_mutex_t mutex;
    pthread_cond_t started, finished;
};

/* Spins until *word is (or, if !equal, is not) value; false when the time is over. */
static bool spin_until(const qn_team *team, const int *word, int value, bool equal) {
    int64_t end_ns = 0;
    for (int turn = 0;; turn++) {
        for (int i = 0; i < PAUSES_PER_LOOK_AT_CLOCK; i++) {
            if ((__atomic_load_n(word, __ATOMIC_SEQ_CST) == value) == equal)
                return true;
            if (!team->may_spin)
                return false;
            qn_pause();
        }
        int64_t now_ns = qn_clock_ns();
        if (turn == 0)
            end_ns = now_ns + SPIN_NS;
        if (equal && team->events) /* the caller */
            qn_events_look(team->events, now_ns);
        if (now_ns >= end_ns)
            return false;
        qn_yield(); /* whoever is waited for may need this processor */
    }
}

/* Rings the alarm of who watches, if it is due. A short round is left at one look. */
static void look(qn_team *team) {
    const int64_t now_ns = qn_clock_ns();
    qn_events_look(team->events, now_ns);
    team->is_looking = now_ns - team->look_ns >= LONG_PIECE_NS;
    team->look_ns = now_ns;
}

/* Takes a part of what is left of a share; 0: nothing is. */
static int64_t take_piece(worker *share, int64_t *begin) {
    *begin = __atomic_load_n(&share->next, __ATOMIC_RELAXED);
    for (;;) {
        const int64_t rest = share->end - *begin, piece = (rest + PARTS - 1) / PARTS;
        if (rest <= 0)
            return 0;
        if (__atomic_compare_exchange_n(&share->next, begin, *begin + piece, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
            return piece;
    }
}

/* Takes pieces of a share until nothing is left of it; whether it took any. */
static bool do_pieces(qn_team *team, worker *share, int thread) {
    int64_t begin, piece;
    for (int n = 0;; n++) {
        if ((piece = take_piece(share, &begin)) == 0)
            return n > 0;
        team->task(team->context, begin, begin + piece, thread);
        if (thread == 0 && __builtin_expect(team->is_looking, 0))
            look(team);
    }
}

/* A thread's own share, then what others have not come to: another program may have their
 * processor. */
static bool do_all(qn_team *team, int thread) {
    bool has_worked = false;
    for (int i = 0; i < team->n_threads; i++)
        has_worked |= do_pieces(team, &team->workers[(thread + i) % team->n_threads], thread);
    return has_worked;
}

/* As a thread of the team; what a further one does is recorded in a ring of events, or null.
 * Whether it had work. */
static bool do_round(qn_team *team, int thread, qn_events *events, int ring) {
    if (!events || thread == 0)
        return do_all(team, thread);
    qn_event event = team->label;
    event.kind = QN_EVENT_SHARE;
    event.thread = (int16_t)ring;
    event.begin_ns = qn_clock_ns();
    if (!do_all(team, thread))
        return false;
    event.end_ns = qn_clock_ns();
    qn_events_put(events, ring, &event);
    return true;
}

/* Waits for an open round behind the one that was seen, or the end; gives its number. */
static uint32_t wait_for_round(qn_team *team, uint32_t seen) {
    if (!spin_until(team, (const int *)&team->round, (int)seen, false)) {
        pthread_mutex_lock(&team->mutex);
        __atomic_add_fetch(&team->n_asleep, 1, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(&team->round, __ATOMIC_SEQ_CST) == seen)
            pthread_cond_wait(&team->started, &team->mutex);
        __atomic_sub_fetch(&team->n_asleep, 1, __ATOMIC_SEQ_CST);
        pthread_mutex_unlock(&team->mutex);
    }
    return __atomic_load_n(&team->round, __ATOMIC_SEQ_CST);
}

/* The caller may be asleep when the last worker leaves a round that is closed. */
static void leave(qn_team *team) {
    if (__atomic_sub_fetch(&team->inside, 1, __ATOMIC_SEQ_CST) == 0 &&
        __atomic_load_n(&team->caller_asleep, __ATOMIC_SEQ_CST)) {
        pthread_mutex_lock(&team->mutex);
        pthread_cond_signal(&team->finished);
        pthread_mutex_unlock(&team->mutex);
    }
}

/* Takes part in a round that was seen, unless it is closed by then; false: the team ends. */
static bool take_part(qn_team *team, int thread, uint32_t seen) {
    if (seen % 2 == 0)
        return true;
    __atomic_add_fetch(&team->inside, 1, __ATOMIC_SEQ_CST);
    const bool is_open = __atomic_load_n(&team->round, __ATOMIC_SEQ_CST) == seen;
    const bool is_over = is_open && team->stop;
    if (is_open && !is_over && thread < team->n_threads)
        (void)do_round(team, thread, team->events, thread);
    leave(team);
    return !is_over;
}

static void *work(void *argument) {
    worker *self = argument;
    uint32_t seen = 0;
    do
        seen = wait_for_round(self->team, seen);
    while (take_part(self->team, self->thread, seen));
    return NULL;
}

static void share_out(qn_team *team, int64_t n_tasks) {
    for (int i = 0; i < team->n_threads; i++) {
        worker *share = &team->workers[i];
        const int64_t begin = n_tasks * i / team->n_threads;
        share->end = n_tasks * (i + 1) / team->n_threads;
        __atomic_store_n(&share->next, begin, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&team->next_guest, 1, __ATOMIC_RELAXED);
}

/* Whoever waits for a round looks again. */
static void raise_round(qn_team *team, uint32_t by) {
    __atomic_add_fetch(&team->round, by, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&team->n_asleep, __ATOMIC_SEQ_CST) > 0) {
        pthread_mutex_lock(&team->mutex);
        pthread_cond_broadcast(&team->started);
        pthread_mutex_unlock(&team->mutex);
    }
}

/* Nobody enters any more; those inside finish their pieces. */
static void close_round(qn_team *team) {
    __atomic_add_fetch(&team->round, 1, __ATOMIC_SEQ_CST);
    if (spin_until(team, &team->inside, 0, true))
        return;
    pthread_mutex_lock(&team->mutex);
    /* An exchange, not a store, so that the load below cannot pass it: a test hung under qemu
     * 7 (AArch64) with the round over and the caller asleep. */
    __atomic_exchange_n(&team->caller_asleep, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&team->inside, __ATOMIC_SEQ_CST) > 0)
        pthread_cond_wait(&team->finished, &team->mutex);
    __atomic_store_n(&team->caller_asleep, 0, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&team->mutex);
}

static qn_status start_workers(qn_team *team) {
    for (int i = 1; i < team->n_threads; i++) {
        worker *fresh = &team->workers[i];
        *fresh = (worker){.team = team, .thread = i};
        int code = pthread_create(&fresh->handle, NULL, work, fresh);
        if (code != 0)
            return qn_fail(QN_ERROR_MEMORY, "cannot start thread %d of %d: %s; use fewer threads",
                           i + 1, team->n_threads, strerror(code));
        team->n_started++;
    }
    return QN_OK;
}

static qn_status create(const qn_allocator *allocator, int n_threads, bool is_open,
                        qn_team **team) {
    allocator = qn_allocator_or_default(allocator);
    qn_team *fresh;
    QN_TRY(qn_allocate(allocator, 1, sizeof *fresh, &fresh));
    fresh->allocator = allocator;
    fresh->n_threads = fresh->most_threads = n_threads;
    fresh->n_forks = qn_fork_count();
    fresh->may_spin = n_threads <= qn_cpu_count();
    pthread_mutex_init(&fresh->mutex, NULL);
    pthread_cond_init(&fresh->started, NULL);
    pthread_cond_init(&fresh->finished, NULL);
    qn_status status =
        qn_allocate(allocator, (size_t)n_threads, sizeof *fresh->workers, &fresh->workers);
    if (status == QN_OK && !is_open)
        status = start_workers(fresh);
    if (status != QN_OK) {
        qn_team_destroy(fresh);
        return status;
    }
    *team = fresh;
    return QN_OK;
}

qn_status qn_team_create(const qn_allocator *allocator, int n_threads, qn_team **team) {
    if (n_threads < 1 || n_threads > QN_MAX_THREADS)
        return qn_fail(QN_ERROR_ARGUMENT, "a team of %d threads; 1 to %d are possible", n_threads,
                       QN_MAX_THREADS);
    return create(allocator, n_threads, false, team);
}

static void end_workers(qn_team *team) {
    team->stop = true;
    raise_round(team, 1);
    for (int i = 1; i <= team->n_started; i++)
        pthread_join(team->workers[i].handle, NULL);
    pthread_cond_destroy(&team->finished);
    pthread_cond_destroy(&team->started);
    pthread_mutex_destroy(&team->mutex);
}

void qn_team_destroy(qn_team *team) {
    if (!team)
        return;
    if (team->n_forks == qn_fork_count())
        end_workers(team);
    qn_release(team->allocator, team->workers, (size_t)team->most_threads, sizeof *team->workers);
    qn_release(team->allocator, team, 1, sizeof *team);
}

int qn_team_size(const qn_team *team) {
    return team ? team->n_threads : 1;
}

void qn_team_run(qn_team *team, int64_t n_tasks, qn_team_task *task, void *context) {
    if (n_tasks <= 0)
        return;
    if (!team || team->n_threads == 1 || n_tasks == 1) {
        task(context, 0, n_tasks, 0);
        return;
    }
    team->task = task;
    team->context = context;
    team->is_looking = team->events != NULL;
    share_out(team, n_tasks);
    raise_round(team, 1);
    (void)do_round(team, 0, NULL, 0);
    close_round(team);
}

qn_events *qn_team_watch(qn_team *team, qn_events *events) {
    if (!team)
        return NULL;
    qn_events *before = team->events;
    team->events = events;
    return before;
}

void qn_team_label(qn_team *team, const qn_event *label) {
    team->label = *label;
}

/* ---- lent threads ---- */

qn_status qn_team_create_open(const qn_allocator *allocator, int most_threads, qn_team **team) {
    return create(allocator, most_threads, true, team);
}

/* Nobody is inside between rounds, so nobody reads the number. */
void qn_team_begin_turn(qn_team *team, int n_threads) {
    team->n_threads = n_threads < team->most_threads ? n_threads : team->most_threads;
}

/* A guest that comes when there are as many as the team has room for goes at once. */
bool qn_team_help(qn_team *team, uint32_t *seen, qn_events *events, int ring) {
    const uint32_t round = __atomic_load_n(&team->round, __ATOMIC_SEQ_CST);
    bool has_worked = false;
    if (round % 2 == 0 || round == *seen)
        return false;
    *seen = round;
    __atomic_add_fetch(&team->inside, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&team->round, __ATOMIC_SEQ_CST) == round) {
        const int thread = __atomic_fetch_add(&team->next_guest, 1, __ATOMIC_RELAXED);
        has_worked = thread < team->n_threads && do_round(team, thread, events, ring);
    }
    leave(team);
    return has_worked;
}
