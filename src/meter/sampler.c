/* See sampler.h. A tick reads the fast sources, and only ticks modify the history. Each slow source
 * has a thread that leaves its readings in a tray, which the next tick empties. Ticks run on a
 * thread of the sampler or in whoever calls qn_sampler_tick, one at a time: a caller that finds a
 * tick running returns. Nothing is allocated between start and stop. */
#include "meter/sampler.h"

#include "base/memory.h"
#include "base/status.h"
#include "meter/history.h"
#include "meter/notices.h"
#include "os/heap.h"
#include "os/os.h"
#include "os/process/cpu_time.h"

#include <string.h>

enum { DEFAULT_INTERVAL_NS = 10000000, LEAST_INTERVAL_NS = 1000000 };
enum { MOST_INTERVAL_NS = 1000000000, DEFAULT_BYTES = 4 << 20 };
enum { MOST_PATIENCE_NS = 40000000, MOST_PATIENCE = 16, COST_PERIOD_NS = 10000000 };
enum { MOST_STEADY_NS = 80000000 };

/* A source that has something to say. */
typedef struct member {
    qn_sampler *sampler;
    const qn_source_kind *kind;
    void *source;
    int followed;         /* the member that it follows, or -1 */
    int first, n, n_used; /* its channels; of these, those that were in use at the last reading */
    int64_t every;        /* ticks between two readings */
    int64_t next_tick;    /* of a fast one */
    int64_t wait;         /* ticks from its last reading to that */
    qn_reading *readings; /* (n) of one call */
    qn_reading *tray;     /* (n) of a slow one: not yet in the history; end_ns 0: nothing */
    qn_thread *thread;    /* of a slow one */
} member;

struct qn_sampler {
    qn_counter counter;
    qn_allocator allocator;
    qn_sampler_options options;
    qn_notices said;
    member *members; /* (n_members) */
    int n_members, capacity, n_channels;
    const qn_channel **channels; /* (n_channels) */
    qn_history history;
    qn_monitor *monitor; /* of is_stopping and the trays */
    bool is_stopping, is_started, is_stopped, has_slow;
    qn_thread *thread;
    int64_t begin_ns;
    qn_monitor *ticking;                /* of the history, the fast sources, tick and is_stopped */
    int64_t tick;                       /* the next one */
    int64_t due_ns;                     /* atomic: when that is: begin_ns + tick * interval */
    int64_t other_ns;                   /* atomic: when another thread took one last; 0: never */
    int64_t n_ticks, n_missed, busy_ns; /* atomic */
    qn_load begin, end;                 /* of the machine */
};

/* ---- reading ---- */

static void read_member(member *m) {
    memset(m->readings, 0, (size_t)m->n_used * sizeof *m->readings);
    if (m->followed >= 0)
        m->kind->follow(m->source, m->sampler->members[m->followed].readings);
    m->kind->read(m->source, qn_clock_ns(), m->readings);
    m->n_used = m->kind->in_use ? m->kind->in_use(m->source) : m->n;
}

static bool is_highest(const qn_channel *channel) {
    return channel->quantity == QN_QUANTITY_MEMORY || channel->quantity == QN_QUANTITY_TEMPERATURE;
}

/* The readings of a member's first n channels. */
static void keep(const member *m, const qn_reading *readings, int n) {
    for (int i = 0; i < n; i++)
        if (readings[i].end_ns != 0)
            qn_history_add(&m->sampler->history, m->first + i, &readings[i]);
}

/* Adds to the tray what was read; what still lies there is merged with it. Locked. */
static void leave_in_tray(member *m) {
    for (int i = 0; i < m->n_used; i++) {
        const qn_reading *reading = &m->readings[i];
        const bool is_single = is_highest(m->sampler->channels[m->first + i]);
        if (reading->end_ns == 0)
            continue;
        m->tray[i] =
            m->tray[i].end_ns == 0 ? *reading : qn_reading_merge(&m->tray[i], reading, is_single);
    }
}

static void empty_trays(qn_sampler *s) {
    if (!s->has_slow)
        return;
    qn_monitor_lock(s->monitor);
    for (int i = 0; i < s->n_members; i++) {
        member *m = &s->members[i];
        if (!m->kind->is_slow)
            continue;
        keep(m, m->tray, m->n);
        memset(m->tray, 0, (size_t)m->n * sizeof *m->tray);
    }
    qn_monitor_unlock(s->monitor);
}

/* Ticks to a fast source's next reading. */
static int64_t wait_of(const qn_sampler *s, member *m) {
    const bool is_steady = m->kind->is_steady && m->kind->is_steady(m->source);
    if (!is_steady)
        m->wait = m->every;
    else if (2 * m->wait * s->options.interval_ns <= MOST_STEADY_NS)
        m->wait *= 2;
    return m->wait;
}

/* Reads the fast sources that are due at a tick. */
static void read_fast(qn_sampler *s, int64_t tick) {
    for (int i = 0; i < s->n_members; i++) {
        member *m = &s->members[i];
        if (m->kind->is_slow || tick < m->next_tick)
            continue;
        read_member(m);
        keep(m, m->readings, m->n_used);
        m->next_tick = tick + wait_of(s, m);
    }
}

/* ---- ticks ---- */

static void add_to(int64_t *counter, int64_t value) {
    __atomic_fetch_add(counter, value, __ATOMIC_RELAXED);
}

static int64_t next_due_ns(const qn_sampler *s) {
    return __atomic_load_n(&s->due_ns, __ATOMIC_RELAXED);
}

static void set_next_tick(qn_sampler *s, int64_t tick) {
    s->tick = tick;
    __atomic_store_n(&s->due_ns, s->begin_ns + tick * s->options.interval_ns, __ATOMIC_RELAXED);
}

/* Takes the tick that is due, if one is, without those that lie a whole interval back. Locked. */
static bool take_tick(qn_sampler *s) {
    const int64_t late_ns = qn_clock_ns() - next_due_ns(s);
    if (late_ns < 0 || s->is_stopped)
        return false;
    const int64_t n_missed = late_ns / s->options.interval_ns, tick = s->tick + n_missed;
    set_next_tick(s, tick + 1);
    read_fast(s, tick);
    empty_trays(s);
    add_to(&s->n_missed, n_missed);
    add_to(&s->n_ticks, 1);
    if (s->options.on_tick)
        s->options.on_tick(s->options.user);
    return true;
}

static bool try_tick(qn_sampler *s) {
    if (!qn_monitor_try_lock(s->ticking))
        return false;
    const bool is_taken = take_tick(s);
    qn_monitor_unlock(s->ticking);
    return is_taken;
}

int64_t qn_sampler_tick(qn_sampler *s, int64_t now_ns) {
    if (now_ns < next_due_ns(s))
        return next_due_ns(s);
    if (try_tick(s)) {
        __atomic_store_n(&s->other_ns, now_ns, __ATOMIC_RELAXED);
        add_to(&s->busy_ns, qn_clock_ns() - now_ns);
    }
    return next_due_ns(s);
}

/* ---- threads ---- */

/* false: the sampler stops. */
static bool sleep_until(qn_sampler *s, int64_t moment_ns) {
    qn_monitor_lock(s->monitor);
    while (!s->is_stopping && qn_clock_ns() < moment_ns)
        qn_monitor_wait_until(s->monitor, moment_ns);
    const bool is_going_on = !s->is_stopping;
    qn_monitor_unlock(s->monitor);
    return is_going_on;
}

/* Waits until tick k of a period is due, and skips those that lie a whole period back; false: the
 * sampler stops. */
static bool wait_for_tick(qn_sampler *s, int64_t period_ns, int64_t *tick) {
    const int64_t due_ns = s->begin_ns + *tick * period_ns;
    const bool is_going_on = sleep_until(s, due_ns);
    *tick += (qn_clock_ns() - due_ns) / period_ns;
    return is_going_on;
}

/* Adds the calling thread's processor time since *since_ns. */
static void add_cost(qn_sampler *s, int64_t *since_ns) {
    const int64_t now_ns = qn_thread_cpu_ns();
    add_to(&s->busy_ns, now_ns - *since_ns);
    *since_ns = now_ns;
}

/* Whether others have taken ticks of late. */
static bool has_help(const qn_sampler *s) {
    const int64_t since_ns = next_due_ns(s) - __atomic_load_n(&s->other_ns, __ATOMIC_RELAXED);
    return since_ns < MOST_PATIENCE * s->options.interval_ns;
}

/* How long after a tick is due the thread looks whether it was taken: at once, or, where others
 * help, half an interval, and where it woke in vain twice in a row or more, one and a half, three
 * and a half, and so on. */
static int64_t patience_ns(const qn_sampler *s, int n_needless) {
    const int64_t interval_ns = s->options.interval_ns;
    int64_t n = 1;
    if (n_needless == 0 && !has_help(s))
        return 0;
    for (int i = 1; i < n_needless && n < MOST_PATIENCE; i++)
        n *= 2;
    while (n > 1 && n * interval_ns > MOST_PATIENCE_NS)
        n--;
    return n * interval_ns - interval_ns / 2;
}

static void run_fast(void *context) {
    qn_sampler *s = context;
    int64_t cpu_ns = 0, cost_ns = s->begin_ns;
    int n_needless = 0;
    while (sleep_until(s, next_due_ns(s) + patience_ns(s, n_needless))) {
        n_needless = try_tick(s) ? 0 : n_needless < MOST_PATIENCE ? n_needless + 1 : n_needless;
        if (next_due_ns(s) < cost_ns)
            continue;
        cost_ns = next_due_ns(s) + COST_PERIOD_NS;
        add_cost(s, &cpu_ns);
    }
    add_cost(s, &cpu_ns);
}

static void run_slow(void *context) {
    member *m = context;
    qn_sampler *s = m->sampler;
    const int64_t period_ns = m->every * s->options.interval_ns;
    int64_t cpu_ns = 0;
    bool is_going_on = true;
    for (int64_t tick = 0; is_going_on; tick++) {
        is_going_on = wait_for_tick(s, period_ns, &tick);
        read_member(m);
        qn_monitor_lock(s->monitor);
        leave_in_tray(m);
        qn_monitor_unlock(s->monitor);
        add_cost(s, &cpu_ns);
    }
}

static void join_all(qn_sampler *s) {
    qn_monitor_lock(s->monitor);
    s->is_stopping = true;
    qn_monitor_notify(s->monitor);
    qn_monitor_unlock(s->monitor);
    qn_thread_join(s->thread);
    s->thread = NULL;
    for (int i = 0; i < s->n_members; i++) {
        qn_thread_join(s->members[i].thread);
        s->members[i].thread = NULL;
    }
}

static qn_status start_threads(qn_sampler *s) {
    for (int i = 0; i < s->n_members; i++) {
        member *m = &s->members[i];
        if (m->kind->is_slow)
            QN_TRY(qn_thread_start(&s->allocator, run_slow, m, &m->thread));
    }
    return qn_thread_start(&s->allocator, run_fast, s, &s->thread);
}

static qn_load read_load(const qn_sampler *s) {
    const qn_sampler_options *o = &s->options;
    if (!o->root && o->pid != qn_process_id())
        return (qn_load){0};
    return qn_load_read(o->root ? o->root : "", o->pid);
}

qn_status qn_sampler_start(qn_sampler *s) {
    if (s->is_started)
        return qn_fail(QN_ERROR_ARGUMENT, "the sampler has been started before; create another");
    int64_t cpu_ns = qn_thread_cpu_ns();
    s->is_started = true;
    s->begin = read_load(s);
    s->begin_ns = qn_clock_ns();
    read_fast(s, 0); /* here, since a thread may be late: what follows is measured from its start */
    set_next_tick(s, 1);
    s->n_ticks = 1;
    add_cost(s, &cpu_ns);
    const qn_status status = start_threads(s);
    if (status != QN_OK) {
        join_all(s);
        s->is_stopped = true;
    }
    return status;
}

void qn_sampler_stop(qn_sampler *s) {
    if (!s->is_started || s->is_stopped)
        return;
    join_all(s);
    int64_t cpu_ns = qn_thread_cpu_ns();
    qn_monitor_lock(s->ticking);
    for (int i = 0; i < s->n_members; i++)
        s->members[i].next_tick = 0;
    read_fast(s, 0);
    empty_trays(s);
    s->is_stopped = true;
    qn_monitor_unlock(s->ticking);
    add_cost(s, &cpu_ns);
    s->end = read_load(s);
}

/* ---- creating ---- */

/* The member of a kind, or -1. */
static int find_member(const qn_sampler *s, const char *kind) {
    for (int i = 0; kind && i < s->n_members; i++) {
        if (strcmp(s->members[i].kind->name, kind) == 0)
            return i;
    }
    return -1;
}

static qn_status add_member(qn_sampler *s, const qn_source_kind *kind, void *source) {
    int n;
    kind->channels(source, &n);
    size_t capacity = (size_t)s->capacity;
    qn_status status = qn_grow(&s->allocator, &s->members, &capacity, (size_t)s->n_members + 1,
                               sizeof *s->members);
    s->capacity = (int)capacity;
    if (status != QN_OK)
        return status;
    const int64_t interval_ns = s->options.interval_ns;
    member *m = &s->members[s->n_members];
    *m = (member){.sampler = s,
                  .kind = kind,
                  .source = source,
                  .followed = find_member(s, kind->follows),
                  .first = s->n_channels,
                  .n = n,
                  .n_used = n};
    s->has_slow = s->has_slow || kind->is_slow;
    m->every = kind->period_ns <= interval_ns ? 1 : (kind->period_ns - 1) / interval_ns + 1;
    if (m->followed >= 0)
        m->every = s->members[m->followed].every;
    m->wait = m->every;
    QN_TRY(qn_allocate(&s->allocator, (size_t)n, sizeof *m->readings, &m->readings));
    status = qn_allocate(&s->allocator, (size_t)n, sizeof *m->tray, &m->tray);
    if (status != QN_OK) {
        qn_release(&s->allocator, m->readings, (size_t)n, sizeof *m->readings);
        return status;
    }
    s->n_members++;
    s->n_channels += n;
    return QN_OK;
}

static qn_status open_members(qn_sampler *s) {
    const qn_source_options options = {.allocator = &s->allocator,
                                       .root = s->options.root ? s->options.root : "",
                                       .is_recorded = s->options.root != NULL,
                                       .pid = s->options.pid,
                                       .replay = s->options.replay,
                                       .description = s->options.description,
                                       .user = &s->said,
                                       .say = qn_notices_add};
    for (int i = 0; qn_source_kinds[i]; i++) {
        const qn_source_kind *kind = qn_source_kinds[i];
        void *source = NULL;
        QN_TRY(kind->open(&options, &source));
        if (!source)
            continue;
        const qn_status status = add_member(s, kind, source);
        if (status != QN_OK) {
            kind->close(source);
            return status;
        }
    }
    return QN_OK;
}

static qn_status make_history(qn_sampler *s) {
    const size_t n = (size_t)s->n_channels;
    QN_TRY(qn_allocate(&s->allocator, n, sizeof *s->channels, &s->channels));
    if (n == 0)
        return QN_OK;
    QN_TRY(qn_history_init(&s->allocator, s->n_channels, s->options.most_bytes, &s->history));
    for (int i = 0; i < s->n_members; i++) {
        const member *m = &s->members[i];
        int n_own;
        const qn_channel *own = m->kind->channels(m->source, &n_own);
        for (int j = 0; j < n_own; j++) {
            s->channels[m->first + j] = &own[j];
            s->history.rows[m->first + j].is_highest = is_highest(&own[j]);
        }
    }
    return QN_OK;
}

static qn_status fill_options(const qn_sampler_options *options, qn_sampler *s) {
    qn_sampler_options *own = &s->options;
    *own = *options;
    own->interval_ns = own->interval_ns ? own->interval_ns : DEFAULT_INTERVAL_NS;
    own->most_bytes = own->most_bytes ? own->most_bytes : DEFAULT_BYTES;
    own->pid = own->pid ? own->pid : qn_process_id();
    if (own->interval_ns < LEAST_INTERVAL_NS || own->interval_ns > MOST_INTERVAL_NS)
        return qn_fail(QN_ERROR_ARGUMENT, "cannot sample every %g ms; choose 1 to 1000 ms",
                       (double)own->interval_ns * 1e-6);
    return QN_OK;
}

static qn_status fill(const qn_sampler_options *options, qn_sampler *s) {
    QN_TRY(fill_options(options, s));
    QN_TRY(qn_monitor_create(&s->allocator, &s->monitor));
    QN_TRY(qn_monitor_create(&s->allocator, &s->ticking));
    QN_TRY(qn_notices_init(&s->allocator, options->log, &s->said));
    QN_TRY(open_members(s));
    return make_history(s);
}

qn_status qn_sampler_create(const qn_sampler_options *options, qn_sampler **sampler) {
    const qn_allocator *below = qn_allocator_or_default(options->allocator);
    qn_sampler *s;
    QN_TRY(qn_allocate(below, 1, sizeof *s, &s));
    s->allocator = qn_counter_init(&s->counter, below);
    s->due_ns = INT64_MAX;
    const qn_status status = fill(options, s);
    if (status != QN_OK) {
        qn_sampler_destroy(s);
        return status;
    }
    *sampler = s;
    return QN_OK;
}

void qn_sampler_destroy(qn_sampler *s) {
    if (!s)
        return;
    qn_sampler_stop(s);
    for (int i = 0; i < s->n_members; i++) {
        member *m = &s->members[i];
        m->kind->close(m->source);
        qn_release(&s->allocator, m->readings, (size_t)m->n, sizeof *m->readings);
        qn_release(&s->allocator, m->tray, (size_t)m->n, sizeof *m->tray);
    }
    qn_release(&s->allocator, s->members, (size_t)s->capacity, sizeof *s->members);
    qn_release(&s->allocator, s->channels, (size_t)s->n_channels, sizeof *s->channels);
    qn_history_deinit(&s->history);
    qn_notices_deinit(&s->said);
    qn_monitor_destroy(s->ticking);
    qn_monitor_destroy(s->monitor);
    qn_release(s->counter.below, s, 1, sizeof *s);
}

/* ---- what was read ---- */

int qn_sampler_channel_count(const qn_sampler *s) {
    return s->n_channels;
}

const qn_channel *qn_sampler_channel(const qn_sampler *s, int channel) {
    return s->channels[channel];
}

const qn_reading *qn_sampler_readings(const qn_sampler *s, int channel, size_t *n) {
    return qn_history_get(&s->history, channel, n);
}

const char *qn_sampler_said(const qn_sampler *s, int index) {
    return qn_notices_get(&s->said, index);
}

qn_sampler_cost qn_sampler_get_cost(const qn_sampler *s) {
    return (qn_sampler_cost){.n_ticks = __atomic_load_n(&s->n_ticks, __ATOMIC_RELAXED),
                             .n_missed = __atomic_load_n(&s->n_missed, __ATOMIC_RELAXED),
                             .busy_ns = __atomic_load_n(&s->busy_ns, __ATOMIC_RELAXED),
                             .bytes = sizeof *s + s->counter.held_bytes};
}

void qn_sampler_get_load(const qn_sampler *s, qn_load *begin, qn_load *end) {
    *begin = s->begin;
    *end = s->end;
}

const char *qn_sampler_root(const qn_sampler *s) {
    return s->options.root;
}

/* ---- what counts towards the whole ---- */

/* Whether a channel has energy of its own, not included in another of its source. While nothing
 * was read, a channel is taken at its word. */
static bool is_whole_power(const qn_sampler *s, int channel) {
    const qn_channel *c = s->channels[channel];
    return c->quantity == QN_QUANTITY_POWER && c->inside < 0 &&
           (!s->is_started || s->history.rows[channel].n > 0);
}

/* The first measured channel of power of a part (QN_PART_COUNT: of any), or -1. */
static int find_measured(const qn_sampler *s, qn_part part) {
    for (int i = 0; i < s->n_channels; i++) {
        const qn_channel *c = s->channels[i];
        if (is_whole_power(s, i) && !c->is_estimated && (part == QN_PART_COUNT || c->part == part))
            return i;
    }
    return -1;
}

/* Whether an earlier source measures the processor or the memory, so that this one would count the
 * same again. Of GPUs there may be several, each with a source of its own. */
static bool is_measured_before(const qn_sampler *s, int channel) {
    const qn_channel *c = s->channels[channel];
    if (c->part != QN_PART_CPU && c->part != QN_PART_MEMORY)
        return false;
    return strcmp(s->channels[find_measured(s, c->part)]->source, c->source) != 0;
}

bool qn_sampler_counts(const qn_sampler *s, int channel) {
    const qn_channel *c = s->channels[channel];
    const int system = find_measured(s, QN_PART_SYSTEM);
    if (!is_whole_power(s, channel) || system >= 0)
        return system >= 0 && channel == system;
    if (!c->is_estimated)
        return !is_measured_before(s, channel);
    return find_measured(s, c->part == QN_PART_SYSTEM ? QN_PART_COUNT : c->part) < 0;
}
