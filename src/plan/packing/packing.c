/* Packs boxes: builds the problem, bounds it from below by the bytes alive at once, packs it
 * greedily and, within a work limit, by search. Also the check of a packing, which shares no code
 * with the packer. Equal boxes and equal work give equal offsets. */
#include "plan/packing/packing.h"

#include "base/status.h"
#include "os/heap.h"
#include "os/os.h"
#include "plan/packing/search.h"

#include <stdlib.h>

/* ---- the problem ---- */

/* A box begins or ends. */
typedef struct event {
    int64_t time;
    int32_t box; /* -1 - box: ends */
} event;

static int by_time(const void *left, const void *right) {
    const event *a = left, *b = right;
    return (a->time > b->time) - (a->time < b->time);
}

/* The boxes that have bytes, and their events, sorted. */
static qn_status read_boxes(const qn_box *boxes, int32_t n, qn_packing_problem *p, event *events) {
    size_t sum = 0;
    for (int32_t i = 0; i < n; i++) {
        if (boxes[i].lower >= boxes[i].upper)
            return qn_fail(QN_ERROR_ARGUMENT, "box %d: its lifetime from %lld to %lld is empty", i,
                           (long long)boxes[i].lower, (long long)boxes[i].upper);
        if (__builtin_add_overflow(sum, boxes[i].bytes, &sum) || sum == SIZE_MAX)
            return qn_fail(
                QN_ERROR_ARGUMENT,
                "box %d: its %zu bytes and those of earlier boxes exceed the address space", i,
                boxes[i].bytes);
        if (boxes[i].bytes == 0)
            continue;
        p->boxes[p->n] = (qn_packed_box){.bytes = boxes[i].bytes, .id = p->n};
        events[2 * p->n] = (event){boxes[i].lower, p->n};
        events[2 * p->n + 1] = (event){boxes[i].upper, -1 - p->n};
        p->n++;
    }
    if (p->n > 0)
        qsort(events, 2 * (size_t)p->n, sizeof *events, by_time);
    return QN_OK;
}

/* Numbers the sections between events and sums what is alive in them. */
static void find_sections(qn_packing_problem *p, const event *events) {
    size_t live = 0;
    for (int32_t i = 0; i < 2 * p->n; i++) {
        const int32_t box = events[i].box;
        if (box >= 0) {
            p->boxes[box].lower = p->n_sections;
            live += p->boxes[box].bytes;
        } else {
            p->boxes[-1 - box].upper = p->n_sections;
            live -= p->boxes[-1 - box].bytes;
        }
        if (i + 1 == 2 * p->n || events[i + 1].time == events[i].time)
            continue;
        p->bound_bytes = live > p->bound_bytes ? live : p->bound_bytes;
        p->load_bytes[p->n_sections++] = live;
    }
}

static qn_status make_problem(const qn_allocator *a, const qn_box *boxes, int32_t n,
                              qn_packing_problem *p, event *events) {
    const size_t count = (size_t)n;
    p->allocator = a;
    QN_TRY(qn_allocate(a, count, sizeof *p->boxes, &p->boxes));
    QN_TRY(qn_allocate(a, 2 * count, sizeof *p->load_bytes, &p->load_bytes));
    QN_TRY(qn_allocate(a, count, sizeof *p->best, &p->best));
    QN_TRY(qn_allocate(a, count, sizeof *p->sorted, &p->sorted));
    QN_TRY(qn_allocate(a, count, sizeof *p->ranges, &p->ranges));
    QN_TRY(read_boxes(boxes, n, p, events));
    find_sections(p, events);
    p->proven_bytes = p->bound_bytes;
    return QN_OK;
}

static void release_problem(qn_packing_problem *p, int32_t n) {
    const size_t count = (size_t)n;
    qn_release(p->allocator, p->boxes, count, sizeof *p->boxes);
    qn_release(p->allocator, p->load_bytes, 2 * count, sizeof *p->load_bytes);
    qn_release(p->allocator, p->best, count, sizeof *p->best);
    qn_release(p->allocator, p->sorted, count, sizeof *p->sorted);
    qn_release(p->allocator, p->ranges, count, sizeof *p->ranges);
}

/* ---- packing ---- */

static void set_limits(qn_packing_problem *p, const qn_packing_options *options) {
    const size_t capacity = options->capacity;
    p->target_bytes = capacity > p->bound_bytes ? capacity : p->bound_bytes;
    p->options = options;
    p->most_work = options->most_work;
    if (options->most_ns > 0)
        p->end_ns = qn_clock_ns() + options->most_ns;
}

static void give_offsets(const qn_packing_problem *p, qn_box *boxes, int32_t n) {
    for (int32_t i = 0, j = 0; i < n; i++)
        boxes[i].offset = boxes[i].bytes > 0 ? p->best[j++] : 0;
}

qn_status qn_pack(const qn_allocator *allocator, qn_box *boxes, int32_t n,
                  const qn_packing_options *options, qn_packing *packing) {
    const qn_allocator *a = qn_allocator_or_default(allocator);
    qn_packing_problem problem = {0};
    event *events = NULL;
    qn_status status = qn_allocate(a, 2 * (size_t)n, sizeof *events, &events);
    if (status == QN_OK)
        status = make_problem(a, boxes, n, &problem, events);
    qn_release(a, events, 2 * (size_t)n, sizeof *events);
    if (status == QN_OK) {
        set_limits(&problem, options);
        qn_packing_greedy(&problem);
        status = qn_packing_search(&problem);
    }
    if (status == QN_OK) {
        give_offsets(&problem, boxes, n);
        *packing = qn_packing_so_far(&problem);
    }
    release_problem(&problem, n);
    return status;
}

/* ---- the check ---- */

static qn_status check_pair(const qn_box *boxes, int32_t i, int32_t j) {
    const qn_box *a = &boxes[i], *b = &boxes[j];
    if (a->upper <= b->lower || b->upper <= a->lower || a->offset + a->bytes <= b->offset ||
        b->offset + b->bytes <= a->offset)
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT, "boxes %d and %d overlap: both hold byte %zu at time %lld", i,
                   j, a->offset > b->offset ? a->offset : b->offset,
                   (long long)(a->lower > b->lower ? a->lower : b->lower));
}

qn_status qn_packing_check(const qn_box *boxes, int32_t n, size_t top_bytes) {
    for (int32_t i = 0; i < n; i++) {
        if (boxes[i].bytes > top_bytes || boxes[i].offset > top_bytes - boxes[i].bytes)
            return qn_fail(QN_ERROR_ARGUMENT, "box %d: bytes %zu to %zu exceed the top of %zu", i,
                           boxes[i].offset, boxes[i].offset + boxes[i].bytes, top_bytes);
        for (int32_t j = 0; j < i; j++)
            QN_TRY(check_pair(boxes, j, i));
    }
    return QN_OK;
}
