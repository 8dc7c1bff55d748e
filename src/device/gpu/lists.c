/* See lists.h. */
#include "device/gpu/lists.h"

#include "base/memory.h"
#include "base/status.h"

#include <string.h>

/* A launch with all that it points to. */
typedef struct entry {
    qn_gpu_launch launch;
    qn_gpu_buffer buffer;
    qn_gpu_arguments arguments;
    int version; /* of the shared memory */
} entry;

/* Launches of a run from one on, up to where someone waits. */
typedef struct segment {
    int32_t first, n;
    int n_same, n_changed; /* times that it was as before; that one which was recorded was not */
    void *list;            /* the driver's; null: not recorded */
} segment;

/* now[i] is the i-th launch of the run; before[i] that of the last run that came so far. */
enum { MOST_SEGMENTS = 16 };

struct qn_gpu_lists {
    const qn_allocator *allocator;
    qn_gpu *gpu;
    void *stream;
    int32_t n_entries, first, n; /* first: of the launches that are not started, n: behind them */
    entry *now, *before;         /* (n_entries) */
    int next;                    /* the segment that comes next */
    segment segments[MOST_SEGMENTS];
};

/* ---- making ---- */

qn_status qn_gpu_lists_create(const qn_allocator *allocator, qn_gpu *gpu, void *stream,
                              int32_t n_works, qn_gpu_lists **lists) {
    enum { MOST_WORKS = 256, LAUNCHES = 3, MORE = 16 };
    qn_gpu_lists *l;
    *lists = NULL;
    if (!gpu->can_record || n_works > MOST_WORKS)
        return QN_OK;
    QN_TRY(qn_allocate(allocator, 1, sizeof *l, &l));
    *l = (qn_gpu_lists){.allocator = allocator,
                        .gpu = gpu,
                        .stream = stream,
                        .n_entries = n_works * LAUNCHES + MORE};
    *lists = l; /* destroyed by the caller from here on */
    QN_TRY(qn_allocate(allocator, (size_t)l->n_entries, sizeof *l->now, &l->now));
    return qn_allocate(allocator, (size_t)l->n_entries, sizeof *l->before, &l->before);
}

static void drop(const qn_gpu_lists *l, segment *s) {
    if (s->list && !qn_gpu_is_silent(l->gpu))
        l->gpu->driver->list_drop(l->gpu, s->list);
    s->list = NULL;
}

void qn_gpu_lists_destroy(qn_gpu_lists *l) {
    if (!l)
        return;
    for (int i = 0; i < MOST_SEGMENTS; i++)
        drop(l, &l->segments[i]);
    qn_release(l->allocator, l->now, (size_t)l->n_entries, sizeof *l->now);
    qn_release(l->allocator, l->before, (size_t)l->n_entries, sizeof *l->before);
    qn_release(l->allocator, l, 1, sizeof *l);
}

/* ---- comparing ---- */

static bool is_same(const entry *a, const entry *b) {
    const qn_gpu_launch *x = &a->launch, *y = &b->launch;
    return x->kernel == y->kernel && x->x == y->x && x->y == y->y && x->z == y->z &&
           memcmp(x->first, y->first, sizeof x->first) == 0 &&
           a->buffer.memory == b->buffer.memory && a->version == b->version &&
           memcmp(&a->arguments, &b->arguments, sizeof a->arguments) == 0;
}

/* Whether a segment is what it was, and remembers it. */
static bool compare(qn_gpu_lists *l, segment *s) {
    bool is_as_before = s->first == l->first && s->n == l->n - l->first;
    for (int32_t i = l->first; is_as_before && i < l->n; i++)
        is_as_before = is_same(&l->now[i], &l->before[i]);
    if (is_as_before)
        return true;
    memcpy(l->before + l->first, l->now + l->first, (size_t)(l->n - l->first) * sizeof *l->now);
    s->first = l->first;
    s->n = l->n - l->first;
    return false;
}

/* ---- starting ---- */

static bool start_each(const qn_gpu_lists *l) {
    for (int32_t i = l->first; i < l->n; i++) {
        qn_gpu_launch launch = l->now[i].launch;
        launch.buffer = &l->now[i].buffer;
        launch.arguments = &l->now[i].arguments;
        if (!l->gpu->driver->launch(l->gpu, l->stream, &launch))
            return false;
    }
    return true;
}

/* A driver that cannot after all is not asked again. */
static bool record(qn_gpu_lists *l, segment *s) {
    const qn_gpu_driver *driver = l->gpu->driver;
    if (!driver->list_begin(l->gpu, l->stream)) {
        s->n_changed = INT32_MAX;
        return true;
    }
    const bool is_good = start_each(l);
    s->list = driver->list_end(l->gpu, l->stream);
    s->n_changed = s->list ? s->n_changed : INT32_MAX;
    return is_good;
}

static bool start(qn_gpu_lists *l, segment *s) {
    enum { LEAST = 2, MOST_CHANGES = 3 };
    s->n_same = compare(l, s) ? s->n_same + 1 : 0;
    if (s->n_same == 0 && s->list) {
        drop(l, s);
        s->n_changed++;
    }
    if (s->n_same > 0 && !s->list && s->n >= LEAST && s->n_changed < MOST_CHANGES && !record(l, s))
        return false;
    return s->list ? l->gpu->driver->list_start(l->gpu, l->stream, s->list) : start_each(l);
}

bool qn_gpu_lists_start(qn_gpu_lists *l) {
    bool is_good = true;
    if (l->first < l->n && l->next < MOST_SEGMENTS)
        is_good = start(l, &l->segments[l->next++]);
    else
        is_good = start_each(l);
    l->first = l->n;
    return is_good;
}

/* ---- gathering ---- */

void qn_gpu_lists_begin(qn_gpu_lists *l) {
    l->first = l->n = 0;
    l->next = 0;
}

bool qn_gpu_lists_take(qn_gpu_lists *l, const qn_gpu_launch *launch) {
    if (l->n == l->n_entries) /* never, of what operators start */
        return qn_gpu_lists_start(l) && l->gpu->driver->launch(l->gpu, l->stream, launch);
    l->now[l->n++] = (entry){.launch = *launch,
                             .buffer = *launch->buffer,
                             .arguments = *launch->arguments,
                             .version = l->gpu->shared.version};
    return true;
}
