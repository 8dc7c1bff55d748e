/* See roofline.h: measuring. All threads work for the same short time and count what they complete,
 * so that cores of different speed add up correctly. */
#include "base/memory.h"
#include "base/status.h"
#include "kernels/peak.h"
#include "meter/processor.h"
#include "meter/roofline.h"
#include "os/affinity.h"
#include "os/heap.h"

#include <math.h>
#include <string.h>

enum { MOST_LANES = 256, TRIES = 4, MOST_TRIES = 12, ROUNDS = 2000, LEVELS = 3 };

#define WINDOW_NS   30000000
#define SMALL_BYTES 262144 /* passes over less are repeated between looks at the clock */
#define MOST_BYTES  ((int64_t)768 << 20) /* of memory that is walked through */
#define LEAST_BYTES ((int64_t)64 << 20)
#define SKEW        320 /* floats between arrays, so that their lines do not share a cache set */

typedef enum work_kind { WORK_F32, WORK_F64, WORK_TRIAD } work_kind;

/* What a thread of a gang does, and the result. */
typedef struct lane {
    struct gang *gang;
    int core;  /* -1: any */
    float *to; /* the triad's three arrays */
    int64_t n; /* floats in one of them */
    double rate, sum;
} lane;

typedef struct gang {
    const qn_allocator *allocator;
    const qn_peak_loops *loops;
    work_kind kind;
    bool is_shared; /* threads work on what they have in common */
    bool is_first;  /* the rate is that of the first thread alone */
    qn_monitor *monitor;
    int n_lanes, n_ready; /* n_ready: under the monitor */
    bool is_off;          /* a thread could not be started: none works */
    lane lanes[MOST_LANES];
} gang;

/* Cores that may be used, by kind. */
typedef struct cores {
    int n_kinds, n;
    struct {
        char name[32];
        int n, list[MOST_LANES];
    } kinds[QN_KINDS_MOST];
} cores;

typedef struct calibration {
    gang gang;
    cores cores;
    qn_processor *processor;
    qn_roofline *roofline;
    int64_t one_bytes[LEVELS + 1]; /* by level: that one thread walks through */
    int64_t share_bytes;           /* of DRAM, that each of all threads does */
    int n_done, n_all;
    void *user;
    void (*tell)(void *user, const char *what, double done);
} calibration;

/* ---- a gang at work ---- */

/* A piece of work; returns FLOPs, or bytes moved. */
static double do_piece(lane *l) {
    const gang *g = l->gang;
    const float factor = 0.999F, term = 0.001F;
    double moved = 0;
    switch (g->kind) {
    case WORK_F32:
        l->sum += g->loops->f32(ROUNDS, factor, term);
        return (double)ROUNDS * (double)g->loops->f32_flops;
    case WORK_F64:
        l->sum += g->loops->f64(ROUNDS, (double)factor, (double)term);
        return (double)ROUNDS * (double)g->loops->f64_flops;
    case WORK_TRIAD:
        break;
    }
    for (; moved < SMALL_BYTES; moved += 12 * (double)l->n)
        g->loops->triad(l->n, factor, l->to, l->to + l->n + SKEW, l->to + 2 * (l->n + SKEW));
    return moved;
}

static bool wait_for_all(gang *g) {
    qn_monitor_lock(g->monitor);
    g->n_ready++;
    qn_monitor_notify(g->monitor);
    while (g->n_ready < g->n_lanes && !g->is_off)
        qn_monitor_wait(g->monitor);
    const bool is_on = !g->is_off;
    qn_monitor_unlock(g->monitor);
    return is_on;
}

/* What a thread does for itself is timed by its own processor time, so that it does not matter who
 * else uses the machine; what threads share, by the clock that they share. */
static int64_t time_of(const gang *g) {
    return g->is_shared ? qn_clock_ns() : qn_thread_cpu_ns();
}

static void work(void *context) {
    lane *l = context;
    if (l->core >= 0)
        qn_thread_pin(l->core); /* where it may not, the system's choice has to do */
    do_piece(l);                /* warms caches and clocks up */
    if (!wait_for_all(l->gang))
        return;
    const int64_t end_ns = qn_clock_ns() + WINDOW_NS, begin_ns = time_of(l->gang);
    double done = 0;
    do
        done += do_piece(l);
    while (qn_clock_ns() < end_ns);
    l->rate = done / (fmax((double)(time_of(l->gang) - begin_ns), 1) * 1e-9);
}

static void call_off(gang *g) {
    qn_monitor_lock(g->monitor);
    g->is_off = true;
    qn_monitor_notify(g->monitor);
    qn_monitor_unlock(g->monitor);
}

static qn_status try_once(gang *g, double *rate) {
    qn_thread *threads[MOST_LANES];
    qn_status status = QN_OK;
    int n = 0;
    g->n_ready = 0;
    g->is_off = false;
    while (n < g->n_lanes && status == QN_OK) {
        status = qn_thread_start(g->allocator, work, &g->lanes[n], &threads[n]);
        n += status == QN_OK;
    }
    if (status != QN_OK)
        call_off(g);
    for (int i = 0; i < n; i++)
        qn_thread_join(threads[i]);
    *rate = 0;
    for (int i = 0; i < (g->is_first ? 1 : n); i++)
        *rate += g->lanes[i].rate;
    return status;
}

/* The best of some tries, and of more while they still get better. */
static qn_status measure(gang *g, double *best) {
    *best = 0;
    for (int i = 0, last = TRIES; i < last && i < MOST_TRIES; i++) {
        double rate;
        QN_TRY(try_once(g, &rate));
        last = rate > *best * 1.01 ? i + TRIES : last;
        *best = fmax(*best, rate);
    }
    return QN_OK;
}

/* The first n of a list of cores; lanes of the gang. */
static void set_lanes(gang *g, const int *list, int n) {
    g->n_lanes = n;
    for (int i = 0; i < n; i++)
        g->lanes[i] = (lane){.gang = g, .core = list[i]};
}

static void tell(calibration *c, const char *what) {
    if (c->tell)
        c->tell(c->user, what, (double)c->n_done / c->n_all);
    c->n_done++;
}

/* ---- arithmetic ---- */

static qn_status measure_peak(calibration *c, int kind, work_kind work_of) {
    const int n = c->cores.kinds[kind].n;
    const char *dtype = work_of == WORK_F64 ? "f64" : "f32";
    qn_roofline_peak *p = &c->roofline->peaks[c->roofline->n_peaks];
    char what[96];
    if (c->roofline->n_peaks == QN_ROOFLINE_MOST)
        return QN_OK;
    snprintf(p->core, sizeof p->core, "%s", c->cores.kinds[kind].name);
    snprintf(p->dtype, sizeof p->dtype, "%s", dtype);
    p->n_cores = n;
    c->gang.kind = work_of;
    c->gang.is_shared = false;
    snprintf(what, sizeof what, "arithmetic of one %s core, %s", p->core, dtype);
    tell(c, what);
    set_lanes(&c->gang, c->cores.kinds[kind].list, 1);
    QN_TRY(measure(&c->gang, &p->flops));
    snprintf(what, sizeof what, "arithmetic of all %s cores, %s", p->core, dtype);
    tell(c, what);
    set_lanes(&c->gang, c->cores.kinds[kind].list, n);
    QN_TRY(measure(&c->gang, &p->all_flops));
    p->all_flops = fmax(p->all_flops, p->flops); /* all can do what one can */
    c->roofline->n_peaks++;
    return QN_OK;
}

/* ---- bandwidth ---- */

/* Floats of an array, of three in so many bytes. */
static int64_t array_floats(int64_t bytes) {
    const int64_t n = bytes / 12 / QN_PEAK_STEP * QN_PEAK_STEP;
    return n > QN_PEAK_STEP ? n : QN_PEAK_STEP;
}

/* The first thread walks through so many bytes, the others through so many each. */
static qn_status measure_triads(calibration *c, const int *list, int n_lanes, int64_t first_bytes,
                                int64_t lane_bytes, double *rate) {
    gang *g = &c->gang;
    float *memory;
    size_t floats = 0;
    g->kind = WORK_TRIAD;
    set_lanes(g, list, n_lanes);
    for (int i = 0; i < n_lanes; i++) {
        g->lanes[i].n = array_floats(i == 0 ? first_bytes : lane_bytes);
        floats += (size_t)(3 * (g->lanes[i].n + SKEW));
    }
    QN_TRY(qn_allocate(g->allocator, floats, sizeof *memory, &memory));
    float *to = memory;
    for (int i = 0; i < n_lanes; i++) {
        g->lanes[i].to = to;
        to += 3 * (g->lanes[i].n + SKEW);
    }
    const qn_status status = measure(g, rate);
    qn_release(g->allocator, memory, floats, sizeof *memory);
    return status;
}

static qn_status measure_triad(calibration *c, const int *list, int n_lanes, int64_t lane_bytes,
                               double *rate) {
    return measure_triads(c, list, n_lanes, lane_bytes, lane_bytes, rate);
}

/* All cores, the strongest kind first. */
static int list_all(const cores *from, int *list) {
    int n = 0;
    for (int kind = 0; kind < from->n_kinds; kind++) {
        for (int i = 0; i < from->kinds[kind].n; i++)
            list[n++] = from->kinds[kind].list[i];
    }
    return n;
}

/* one, all: bytes that a thread walks through when it is alone, and when all walk. */
static qn_status measure_level(calibration *c, qn_roofline_level level, int64_t one, int64_t all) {
    int list[MOST_LANES];
    char what[64];
    const int n = list_all(&c->cores, list);
    snprintf(what, sizeof what, "bandwidth of %s, one core", level.name);
    tell(c, what);
    c->gang.is_shared = false;
    QN_TRY(measure_triad(c, list, 1, one, &level.bandwidth));
    snprintf(what, sizeof what, "bandwidth of %s, all cores", level.name);
    tell(c, what);
    c->gang.is_shared = level.all_bytes < level.bytes * n || level.bytes == 0;
    QN_TRY(measure_triad(c, list, n, all, &level.all_bandwidth));
    level.all_bandwidth = fmax(level.all_bandwidth, level.bandwidth);
    c->one_bytes[c->roofline->n_levels] = one;
    c->share_bytes = all; /* the last level's are those of DRAM */
    c->roofline->levels[c->roofline->n_levels++] = level;
    return QN_OK;
}

/* Bytes of a level for all cores that may be used. Of the outer levels, kinds share one. */
static int64_t all_bytes(const calibration *c, int level) {
    const qn_processor *p = c->processor;
    int64_t sum = 0, most = 0;
    for (int i = 0; i < p->n_caches; i++) {
        const qn_cpu_cache *cache = &p->caches[i];
        if (cache->level != level || cache->type == QN_CACHE_INSTRUCTION ||
            cache->kind >= c->cores.n_kinds)
            continue;
        const int sharing = cache->n_sharing > 0 ? cache->n_sharing : 1;
        const int used = (c->cores.kinds[cache->kind].n + sharing - 1) / sharing;
        const int64_t bytes = cache->bytes * (used < cache->n ? used : cache->n);
        sum += bytes;
        most = bytes > most ? bytes : most;
    }
    return level < 3 ? sum : most;
}

static qn_status measure_caches(calibration *c, int64_t *outermost) {
    int64_t inner = 0, inner_share = 0;
    for (int i = 1; i <= LEVELS; i++) {
        qn_roofline_level level = {.bytes = qn_processor_cache_bytes(c->processor, 0, i),
                                   .all_bytes = all_bytes(c, i)};
        const int64_t share = level.all_bytes / c->cores.n;
        if (level.bytes <= inner || share <= 0)
            continue;
        snprintf(level.name, sizeof level.name, "L%c", '0' + i);
        /* Half of the level, and all of what is nearer, so that the nearer one cannot hold it. */
        QN_TRY(measure_level(c, level, inner + level.bytes / 2, inner_share + share / 2));
        inner = level.bytes;
        inner_share = share;
        *outermost = level.all_bytes;
    }
    return QN_OK;
}

static qn_status measure_memory(calibration *c, int64_t outermost) {
    const int64_t memory = c->processor->memory_bytes / 4;
    int64_t bytes = 2 * outermost > LEAST_BYTES ? 2 * outermost : LEAST_BYTES;
    bytes = bytes < MOST_BYTES ? bytes : MOST_BYTES;
    bytes = memory > 0 && memory < bytes ? memory : bytes;
    return measure_level(c, (qn_roofline_level){.name = "DRAM"}, bytes, bytes / c->cores.n);
}

/* Interference: what one core has of each level while the others take all they can of the memory,
 * and of the caches that they share with it. */
static qn_status measure_beside(calibration *c) {
    int list[MOST_LANES];
    char what[64];
    const int n = list_all(&c->cores, list);
    c->gang.is_shared = false;
    c->gang.is_first = true;
    for (int i = 0; i < c->roofline->n_levels && n > 1; i++) {
        qn_roofline_level *level = &c->roofline->levels[i];
        snprintf(what, sizeof what, "bandwidth of %s beside others", level->name);
        tell(c, what);
        QN_TRY(
            measure_triads(c, list, n, c->one_bytes[i], c->share_bytes, &level->beside_bandwidth));
        level->beside_bandwidth = fmax(1, fmin(level->beside_bandwidth, level->bandwidth));
    }
    return QN_OK;
}

/* ---- all ---- */

static void add_core(cores *to, int kind, int core) {
    if (to->n == MOST_LANES || to->n == qn_cpu_count())
        return;
    to->kinds[kind].list[to->kinds[kind].n++] = core;
    to->n++;
}

/* A quota may allow fewer than there are: the strongest then. Where nothing is known of cores, or
 * none of those known may be used, they are one kind, and the system chooses. */
static void find_cores(const qn_processor *p, cores *found) {
    for (int kind = 0; kind < p->n_kinds; kind++) {
        const int before = found->n;
        for (int i = 0; i < p->n_cores; i++) {
            if (p->cores[i].kind == kind && qn_core_is_allowed(p->cores[i].number))
                add_core(found, kind, p->cores[i].number);
        }
        snprintf(found->kinds[kind].name, sizeof found->kinds[kind].name, "%s",
                 p->kinds[kind].name);
        if (found->n > before)
            found->n_kinds = kind + 1;
    }
    if (found->n > 0)
        return;
    found->n_kinds = 1;
    snprintf(found->kinds[0].name, sizeof found->kinds[0].name, "cpu");
    while (found->n < qn_cpu_count() && found->n < MOST_LANES)
        add_core(found, 0, -1);
}

static qn_status measure_all(calibration *c) {
    int64_t outermost = 0;
    find_cores(c->processor, &c->cores);
    c->n_all = 4 * c->cores.n_kinds + 3 * (LEVELS + 1);
    for (int kind = 0; kind < c->cores.n_kinds; kind++) {
        if (c->cores.kinds[kind].n == 0)
            continue;
        QN_TRY(measure_peak(c, kind, WORK_F32));
        QN_TRY(measure_peak(c, kind, WORK_F64));
    }
    QN_TRY(measure_caches(c, &outermost));
    QN_TRY(measure_memory(c, outermost));
    return measure_beside(c);
}

qn_status qn_roofline_measure(const qn_allocator *allocator, qn_roofline *roofline, void *user,
                              void (*tell_of)(void *user, const char *what, double done)) {
    qn_roofline made = {.n_peaks = 0};
    calibration *c;
    qn_isa isa;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_cpu_isa(&isa));
    QN_TRY(qn_roofline_machine(allocator, made.machine, sizeof made.machine));
    QN_TRY(qn_allocate(allocator, 1, sizeof *c, &c));
    c->gang.allocator = allocator;
    c->gang.loops = qn_peak_get(isa);
    c->roofline = &made;
    c->user = user;
    c->tell = tell_of;
    qn_status status = qn_monitor_create(allocator, &c->gang.monitor);
    if (status == QN_OK)
        status = qn_processor_create(allocator, "", &c->processor);
    if (status == QN_OK)
        status = measure_all(c);
    qn_processor_destroy(c->processor);
    qn_monitor_destroy(c->gang.monitor);
    qn_release(allocator, c, 1, sizeof *c);
    if (status == QN_OK)
        *roofline = made;
    return status;
}
