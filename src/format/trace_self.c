/* See trace.h: self times. A track is traversed once; its open slices are on a stack, the newest on
 * top. A slice that has ended below the top is removed when it is uncovered, so that slices that
 * overlap without being nested are also divided without a gap. */
#include "base/memory.h"
#include "base/status.h"
#include "format/trace.h"
#include "os/heap.h"

typedef struct dividing {
    const qn_allocator *allocator;
    const qn_trace_slice_read *slices;
    size_t *stack; /* (n_open) of those begun, in room for capacity */
    size_t n_open, capacity;
    int64_t done_ns; /* of the track, shared up to here */
    void *context;
    qn_status (*put)(void *context, size_t slice, int64_t begin_ns, int64_t end_ns);
} dividing;

/* Shares the time up to until_ns among those that have begun. */
static qn_status advance(dividing *c, int64_t until_ns) {
    while (c->n_open > 0 && c->done_ns < until_ns) {
        const size_t top = c->stack[c->n_open - 1];
        const int64_t end_ns = c->slices[top].end_ns;
        const int64_t to_ns = end_ns < until_ns ? end_ns : until_ns;
        if (to_ns > c->done_ns) {
            QN_TRY(c->put(c->context, top, c->done_ns, to_ns));
            c->done_ns = to_ns;
        }
        if (end_ns <= until_ns)
            c->n_open--;
    }
    c->done_ns = until_ns;
    return QN_OK;
}

/* To the end of all of its slices. */
static qn_status end_track(dividing *c) {
    const qn_status status = advance(c, INT64_MAX);
    c->n_open = 0;
    c->done_ns = INT64_MIN;
    return status;
}

static qn_status divide_all(dividing *c, size_t n) {
    c->done_ns = INT64_MIN;
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && c->slices[i].track != c->slices[i - 1].track)
            QN_TRY(end_track(c));
        QN_TRY(advance(c, c->slices[i].begin_ns));
        QN_TRY(qn_grow(c->allocator, &c->stack, &c->capacity, c->n_open + 1, sizeof *c->stack));
        c->stack[c->n_open++] = i;
    }
    return end_track(c);
}

qn_status qn_trace_self_times(const qn_allocator *allocator, const qn_trace_slice_read *slices,
                              size_t n, void *context,
                              qn_status (*put)(void *context, size_t slice, int64_t begin_ns,
                                               int64_t end_ns)) {
    dividing c = {.allocator = qn_allocator_or_default(allocator),
                  .slices = slices,
                  .context = context,
                  .put = put};
    const qn_status status = divide_all(&c, n);
    qn_release(c.allocator, c.stack, c.capacity, sizeof *c.stack);
    return status;
}
