/* See meter.h. Events wait in the rings. The sampler's ticks move them to the journal, every 10 ms
 * at most, and so does the engine's own thread if a ring becomes half full before. Only one of the
 * two does so at a time; the other skips its turn. If the engine's threads occupy all processors,
 * the sampler's thread would interrupt one of them at each tick and the others would wait; then the
 * engine's own thread runs the ticks between operations, and between pieces of long ones, without a
 * thread switch. */
#include "meter/meter.h"

#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"
#include "meter/journal.h"
#include "os/heap.h"
#include "os/os.h"

enum { LEAST_CAPACITY = 512, DEFAULT_SKIPPED = 3 };
enum { DRAIN_NS = 10000000 };
enum { MEBIBYTE = 1 << 20, MOST_BYTES = 12 * MEBIBYTE, LEAST_BYTES = MEBIBYTE };

/* The measurement has an arena as soon as it is worked out. */
struct qn_meter {
    qn_counter counter;
    qn_allocator allocator; /* counts in counter */
    qn_arena arena;         /* of texts and of the recording */
    qn_meter_options options;
    qn_log log;
    int n_threads, n_lanes; /* lanes besides the team */
    qn_events *events;      /* (n_threads + n_lanes + 1 rings): the last one is that of the marks */
    qn_journal journal;
    bool is_draining; /* atomic: a thread is at the journal */
    int64_t drain_ns; /* when a tick moves events again */
    qn_sampler *sampler;
    bool is_running; /* from start to stop */
    qn_measurement measurement;
};

/* ---- moving events ---- */

static void drain(qn_meter *m) {
    if (__atomic_exchange_n(&m->is_draining, true, __ATOMIC_ACQUIRE))
        return;
    qn_journal_drain(&m->journal);
    __atomic_store_n(&m->is_draining, false, __ATOMIC_RELEASE);
}

static void drain_at_tick(void *user) {
    qn_meter *m = user;
    const int64_t now_ns = qn_clock_ns();
    if (now_ns < m->drain_ns)
        return;
    m->drain_ns = now_ns + DRAIN_NS;
    drain(m);
}

static bool is_filling(const qn_meter *m) {
    const size_t half = qn_events_capacity(m->events) / 2;
    for (int i = 0; i <= m->n_threads + m->n_lanes; i++) {
        if (qn_events_waiting(m->events, i) >= half)
            return true;
    }
    return false;
}

void qn_meter_mark(qn_meter *m) {
    if (!m || !m->is_running)
        return;
    const int64_t now_ns = qn_clock_ns();
    const qn_event mark = {.begin_ns = now_ns, .end_ns = now_ns, .item = -1, .kind = QN_EVENT_MARK};
    qn_events_put(m->events, m->n_threads + m->n_lanes, &mark);
    if (is_filling(m))
        drain(m);
}

/* ---- starting ---- */

static qn_status check_options(const qn_meter_options *o) {
    const int64_t ms = 1000000;
    if (o->interval_ns != 0 && (o->interval_ns < ms || o->interval_ns > 1000 * ms))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "the meter cannot sample every %g ms; choose 1 to 1000 ms",
                       (double)o->interval_ns / (double)ms);
    if (!(o->samples_per_step >= 0))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "%g samples in a step is not a valid count; use 0 or more",
                       o->samples_per_step);
    if (o->most_bytes != 0 && o->most_bytes < LEAST_BYTES)
        return qn_fail(QN_ERROR_ARGUMENT, "a meter cannot work in %zu bytes; it needs %d",
                       o->most_bytes, LEAST_BYTES);
    return QN_OK;
}

static qn_status keep_text(qn_meter *m, const char **text) {
    if (!*text)
        return QN_OK;
    *text = qn_arena_text(&m->arena, *text);
    return *text ? QN_OK : QN_ERROR_MEMORY;
}

/* The options' texts and log are the caller's: copies are the meter's. */
static qn_status keep_options(qn_meter *m) {
    qn_meter_options *o = &m->options;
    const char **texts[] = {&o->title, &o->sysroot, &o->replay, &o->description};
    o->title = o->title ? o->title : "training";
    o->skip_steps = o->skip_steps < 0 ? DEFAULT_SKIPPED : o->skip_steps;
    o->most_bytes = o->most_bytes ? o->most_bytes : MOST_BYTES;
    o->allocator = &m->allocator;
    if (o->log) {
        m->log = *o->log;
        o->log = &m->log;
    }
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        QN_TRY(keep_text(m, texts[i]));
    return QN_OK;
}

static size_t count_operations(const qn_engine *engine) {
    size_t n = 0;
    for (int p = QN_PROGRAM_UPDATE; engine && p < qn_engine_program_count(engine); p++)
        n += (size_t)qn_engine_operation_count(engine, p);
    return n;
}

/* Rings whose half holds a step at the least, since they are emptied at the end of one, and that
 * are no larger than that asks for: what was written a moment ago is to be in the cache when it is
 * read, and the next record's place when it is written. In a sixth of the memory. */
static qn_status make_rings(qn_meter *m) {
    const size_t n_rings = (size_t)m->n_threads + (size_t)m->n_lanes + 1;
    const size_t most = m->options.most_bytes / 6 / n_rings / sizeof(qn_event);
    const size_t enough = 4 * count_operations(m->options.engine);
    size_t capacity = LEAST_CAPACITY;
    while (capacity < enough && capacity * 2 <= most)
        capacity *= 2;
    return qn_events_create(&m->allocator, (int)n_rings, capacity, &m->events);
}

static qn_status make_sampler(qn_meter *m) {
    const qn_meter_options *o = &m->options;
    const qn_sampler_options options = {.allocator = &m->allocator,
                                        .log = o->log,
                                        .interval_ns = o->interval_ns,
                                        .root = o->sysroot,
                                        .replay = o->replay,
                                        .description = o->description,
                                        .most_bytes = o->most_bytes / 3,
                                        .user = m,
                                        .on_tick = drain_at_tick};
    return qn_sampler_create(&options, &m->sampler);
}

static int64_t tick(void *user, int64_t now_ns) {
    qn_meter *m = user;
    return qn_sampler_tick(m->sampler, now_ns);
}

static void watch(qn_meter *m) {
    if (m->n_threads >= qn_cpu_count())
        qn_events_set_alarm(m->events, &(qn_alarm){.ring = tick, .user = m});
    qn_engine_watch(m->options.engine, m->events);
}

static qn_status start(qn_meter *m) {
    const qn_engine *engine = m->options.engine;
    m->n_threads = engine ? qn_engine_get_options(engine)->n_threads : 1;
    m->n_lanes = engine ? qn_engine_lane_count(engine) : 0;
    QN_TRY(keep_options(m));
    QN_TRY(make_rings(m));
    QN_TRY(qn_journal_init(&m->journal, &m->allocator, engine, m->events, m->options.skip_steps,
                           m->options.most_bytes / 3));
    QN_TRY(make_sampler(m));
    QN_TRY(qn_sampler_start(m->sampler));
    if (engine)
        watch(m);
    m->is_running = true;
    qn_meter_mark(m);
    return QN_OK;
}

qn_status qn_meter_start(const qn_meter_options *options, qn_meter **meter) {
    QN_NEED(options, "options");
    QN_NEED(meter, "meter");
    qn_meter_options taken;
    qn_meter *m;
    QN_TRY(QN_OPTIONS_TAKE(qn_meter_options, options, &taken));
    options = &taken;
    const qn_allocator *below = qn_allocator_or_default(options->allocator);
    QN_TRY(check_options(options));
    QN_TRY(qn_allocate(below, 1, sizeof *m, &m));
    m->allocator = qn_counter_init(&m->counter, below);
    m->options = *options;
    qn_arena_init(&m->arena, &m->allocator);
    qn_status status = start(m);
    if (status != QN_OK) {
        qn_meter_destroy(m);
        return status;
    }
    *meter = m;
    return QN_OK;
}

/* ---- stopping ---- */

void qn_meter_stop(qn_meter *m) {
    QN_NEED_OR(m, "meter", );
    if (!m || !m->is_running)
        return;
    m->is_running = false;
    if (m->options.engine)
        qn_engine_watch(m->options.engine, NULL);
    qn_sampler_stop(m->sampler);
    drain(m);
}

void qn_meter_destroy(qn_meter *m) {
    if (!m)
        return;
    qn_meter_stop(m);
    const qn_allocator *below = m->counter.below;
    if (m->measurement.arena)
        qn_measurement_deinit(&m->measurement);
    qn_sampler_destroy(m->sampler);
    if (m->events)
        qn_journal_deinit(&m->journal);
    qn_events_destroy(m->events);
    qn_arena_deinit(&m->arena);
    qn_release(below, m, 1, sizeof *m);
}

/* ---- results ---- */

static qn_status measure(qn_meter *m) {
    qn_recording recording = {.allocator = &m->allocator,
                              .samples_per_step = m->options.samples_per_step,
                              .meter_bytes = m->counter.peak_bytes};
    if (m->options.engine)
        QN_TRY(qn_recording_add_engine(&recording, &m->arena, m->options.engine));
    QN_TRY(qn_recording_add_sampler(&recording, &m->arena, m->sampler));
    qn_journal_get(&m->journal, &recording);
    QN_TRY(qn_measurement_init(&recording, &m->measurement));
    m->measurement.skipped_steps += m->journal.n_left_out;
    m->measurement.meter_bytes = m->counter.peak_bytes + sizeof *m;
    return QN_OK;
}

qn_status qn_meter_measure(qn_meter *m, const qn_measurement **measurement) {
    if (m->is_running)
        return qn_fail(QN_ERROR_ARGUMENT, "the meter is still running; stop it first");
    if (!m->measurement.arena)
        QN_TRY(measure(m));
    *measurement = &m->measurement;
    return QN_OK;
}

const char *qn_meter_title(const qn_meter *meter) {
    return meter->options.title;
}

qn_status qn_meter_report(qn_meter *meter, qn_meter_summary *summary) {
    QN_NEED(meter, "meter");
    QN_NEED(summary, "summary");
    const qn_measurement *m = NULL;
    QN_TRY(qn_meter_measure(meter, &m));
    *summary = (qn_meter_summary){
        .steps = m->n_steps,
        .median_step_ms = m->step_ms_median,
        .mean_step_ms = m->step_ms_mean,
        .operations_ms_per_step = m->operations_ms_per_step,
        .idle_ms_per_step = m->idle_ms_per_step,
        .energy_mj_per_step = m->energy_mj_per_step,
        .energy_is_estimated = m->energy_is_estimated,
        .samples_per_second = m->throughput,
        .flops_per_second = m->gflops * 1e9,
        .cpu_utilisation = m->cpu_utilisation,
        .gpu_utilisation = m->gpu_utilisation,
        .resident_peak_bytes = m->resident_peak_bytes,
    };
    return QN_OK;
}
