/* Utilisation of the watched process, in cores, and of each of its threads, from the scheduler's
 * count of nanoseconds: exact for this process, up to the scheduler's last tick for another one,
 * whose descendants count too. Each new thread gets a channel; when none is left, channels of ended
 * threads are reused.
 *
 * For this process, most ticks read only the clocks of active threads and advance the process's
 * time by their use. Every 50 ms all threads and the process's own clock are read, so that nothing
 * is lost: looking for new and at waiting threads costs as much as the rest of a tick. */
#include "base/memory.h"
#include "base/status.h"
#include "meter/family.h"
#include "meter/sources/busy.h"
#include "meter/sources/sensor.h"
#include "os/process/cpu_time.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_THREADS = 64, MOST_LISTED = 512, LIST_PERIOD_NS = 1000000000 };

/* How often all is looked at: 50 ms, but for what a tick may come early after a late one. */
enum { WHOLE_PERIOD_NS = 49500000 };

/* A thread that used less of a core waits mostly. */
static const double quiet = 0.125;

#define MOST_CPU_NS (INT64_C(1) << 56) /* two years: what is beyond is nonsense */

typedef struct watched {
    int64_t id;     /* 0: none */
    bool was_used;  /* by this thread or one that has ended */
    bool is_listed; /* at the last look */
    bool is_quiet;  /* by its last reading */
    qn_probe file;  /* of another process */
    qn_busy busy;
} watched;

typedef struct threads {
    const qn_allocator *allocator;
    qn_speaker speaker;
    char folder[240];
    qn_numbered list;
    int64_t process;
    bool is_own, is_recorded, is_crowded;
    int64_t count, list_ns; /* threads at the last look, and when that was */
    int64_t whole_ns;       /* when all was looked at */
    int n_used;             /* channels of threads that were ever used are before this */
    qn_busy busy;
    qn_family family;                /* of another process */
    int64_t seen_ns[QN_FAMILY_MOST]; /* processor time of each of them, at the last look */
    int64_t ended_ns;                /* and of those that have ended */
    char root[200];
    qn_channel channels[1 + MOST_THREADS];
    watched threads[MOST_THREADS];
} threads;

/* ---- which threads there are ---- */

static watched *find_thread(threads *t, int64_t id) {
    for (int i = 0; i < MOST_THREADS; i++)
        if (t->threads[i].id == id)
            return &t->threads[i];
    return NULL;
}

/* A channel that nobody had, else one of a thread that has ended, else null. */
static watched *find_free(threads *t) {
    for (int i = 0; i < MOST_THREADS; i++)
        if (!t->threads[i].was_used)
            return &t->threads[i];
    return find_thread(t, 0);
}

static void end_thread(watched *thread) {
    qn_probe_close(&thread->file);
    thread->id = 0;
}

static void begin_thread(threads *t, int64_t id) {
    char path[300];
    watched *thread = find_free(t);
    if (!thread) {
        if (!t->is_crowded)
            qn_speaker_say(&t->speaker,
                           "process %lld has more than %d threads; further ones count in the "
                           "total, but are not listed",
                           (long long)t->process, MOST_THREADS);
        t->is_crowded = true;
        return;
    }
    *thread = (watched){.id = id, .was_used = true, .is_listed = true};
    const int n = (int)(thread - t->threads) + 1;
    t->n_used = n > t->n_used ? n : t->n_used;
    snprintf(path, sizeof path, "%s/%lld/schedstat", t->folder, (long long)id);
    if (!t->is_own && qn_probe_open(path, &thread->file) != QN_OK)
        thread->id = 0; /* it has ended meanwhile */
}

static void list_threads(threads *t, int64_t now_ns) {
    int64_t ids[MOST_LISTED];
    int n = qn_numbered_list(&t->list, ids, MOST_LISTED);
    n = n < MOST_LISTED ? n : MOST_LISTED;
    for (int i = 0; i < MOST_THREADS; i++)
        t->threads[i].is_listed = false;
    for (int i = 0; i < n; i++) {
        watched *thread = find_thread(t, ids[i]);
        if (thread)
            thread->is_listed = true;
    }
    for (int i = 0; i < MOST_THREADS; i++)
        if (t->threads[i].id != 0 && !t->threads[i].is_listed)
            end_thread(&t->threads[i]);
    for (int i = 0; i < n; i++)
        if (!find_thread(t, ids[i]))
            begin_thread(t, ids[i]);
    t->count = qn_numbered_count(&t->list);
    t->list_ns = now_ns;
}

/* ---- reading ---- */

static int64_t thread_cpu_ns(const threads *t, const watched *thread) {
    char text[96];
    if (t->is_own)
        return qn_own_thread_cpu_ns(thread->id);
    if (qn_probe_text(&thread->file, text, sizeof text) != QN_OK)
        return -1;
    const long long cpu_ns = text[0] ? strtoll(text, NULL, 10) : -1;
    return cpu_ns <= MOST_CPU_NS ? cpu_ns : -1;
}

/* Reads the clocks of all threads, or of those at work. What they used: since they began, or since
 * the last reading. */
static int64_t read_threads(threads *t, int64_t now_ns, bool is_whole, qn_reading *readings) {
    int64_t sum_ns = 0;
    for (int i = 0; i < t->n_used; i++) {
        watched *thread = &t->threads[i];
        if (thread->id == 0 || (thread->is_quiet && !is_whole))
            continue;
        const int64_t before_ns = is_whole ? 0 : thread->busy.counter_ns;
        const int64_t cpu_ns = thread_cpu_ns(t, thread);
        if (cpu_ns < 0) {
            end_thread(thread);
            continue;
        }
        sum_ns += cpu_ns - before_ns;
        if (qn_busy_add(&thread->busy, now_ns, cpu_ns, 1, &readings[i]))
            thread->is_quiet = readings[i].value < quiet;
    }
    return sum_ns;
}

/* Processor time of another process and of all that it started, those that have ended included. */
static int64_t read_family(threads *t, int64_t now_ns) {
    qn_family *family = &t->family;
    const int n_before = family->n;
    int64_t sum_ns = 0;
    qn_family_look(family, now_ns);
    for (int i = n_before; i < family->n; i++)
        t->seen_ns[i] = 0;
    for (int i = 0; i < family->n; i++) {
        const int64_t cpu_ns = qn_process_cpu_ns(family->ids[i]);
        if (cpu_ns >= 0) {
            t->seen_ns[i] = cpu_ns;
            sum_ns += cpu_ns;
            continue;
        }
        t->ended_ns += t->seen_ns[i];
        t->seen_ns[i] = t->seen_ns[family->n - 1];
        qn_family_remove(family, i--);
    }
    return family->n > 0 ? sum_ns + t->ended_ns : -1;
}

/* Its own clock is read a moment after its threads', so that going on from it by theirs may end a
 * little beyond it. */
static int64_t read_own(const threads *t, bool is_whole, int64_t threads_ns) {
    const int64_t last_ns = t->busy.counter_ns;
    const int64_t cpu_ns = is_whole ? qn_process_cpu_ns(t->process) : last_ns + threads_ns;
    return cpu_ns < 0 || cpu_ns > last_ns ? cpu_ns : last_ns;
}

static int64_t read_process(threads *t, int64_t now_ns, bool is_whole, int64_t threads_ns) {
    if (t->is_recorded)
        return threads_ns;
    return t->is_own ? read_own(t, is_whole, threads_ns) : read_family(t, now_ns);
}

static void threads_read(void *source, int64_t now_ns, qn_reading *readings) {
    threads *t = source;
    const bool is_whole = !t->is_own || now_ns - t->whole_ns >= WHOLE_PERIOD_NS;
    if (is_whole) {
        t->whole_ns = now_ns;
        if (now_ns - t->list_ns >= LIST_PERIOD_NS || qn_numbered_count(&t->list) != t->count)
            list_threads(t, now_ns);
    }
    const int64_t sum_ns = read_threads(t, now_ns, is_whole, readings + 1);
    const int64_t cpu_ns = read_process(t, now_ns, is_whole, sum_ns);
    const bool is_alone = t->is_own || t->is_recorded || t->family.n == 1;
    const double most = !is_alone ? 1e6 : t->count > 0 ? (double)t->count : 1;
    if (cpu_ns >= 0)
        qn_busy_add(&t->busy, now_ns, cpu_ns, most, readings);
}

static int threads_in_use(const void *source) {
    return 1 + ((const threads *)source)->n_used;
}

/* ---- opening ---- */

static void fill_channels(threads *t) {
    for (int i = 0; i <= MOST_THREADS; i++) {
        qn_channel *channel = &t->channels[i];
        *channel = (qn_channel){.source = "threads",
                                .quantity = QN_QUANTITY_UTILISATION,
                                .part = i == 0 ? QN_PART_PROCESS : QN_PART_THREAD,
                                .index = i == 0 ? 0 : i - 1,
                                .inside = -1};
        snprintf(channel->name, sizeof channel->name, i == 0 ? "process" : "thread-%d", i - 1);
    }
}

static qn_status threads_open(const qn_source_options *options, void **source) {
    threads *t;
    QN_TRY(qn_allocate(options->allocator, 1, sizeof *t, &t));
    t->allocator = options->allocator;
    t->speaker = qn_speaker_of(options, "threads");
    t->process = options->pid;
    t->is_recorded = options->is_recorded;
    t->is_own = !options->is_recorded && options->pid == qn_process_id();
    snprintf(t->folder, sizeof t->folder, "%s/proc/%lld/task", options->root,
             (long long)options->pid);
    snprintf(t->root, sizeof t->root, "%s", options->root);
    qn_family_init(t->root, options->pid, &t->family);
    if (qn_numbered_open(t->folder, &t->list) != QN_OK) {
        if (!options->is_recorded)
            qn_speaker_say(&t->speaker, "%s", qn_error_message());
        qn_release(options->allocator, t, 1, sizeof *t);
        return QN_OK;
    }
    fill_channels(t);
    *source = t;
    return QN_OK;
}

static const qn_channel *threads_channels(const void *source, int *n) {
    *n = 1 + MOST_THREADS;
    return ((const threads *)source)->channels;
}

static void threads_close(void *source) {
    threads *t = source;
    for (int i = 0; i < MOST_THREADS; i++)
        end_thread(&t->threads[i]);
    qn_numbered_close(&t->list);
    qn_release(t->allocator, t, 1, sizeof *t);
}

const qn_source_kind qn_source_threads = {.name = "threads",
                                          .about = "utilisation of the process and its threads",
                                          .open = threads_open,
                                          .channels = threads_channels,
                                          .read = threads_read,
                                          .in_use = threads_in_use,
                                          .close = threads_close};
