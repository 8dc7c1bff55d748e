/* Packing storages into one arena. Each of several greedy orders puts every storage at the lowest
 * offset that is free for its whole lifetime; the smallest result is kept. (Pisarchyk and Lee,
 * "Efficient memory management for deep neural net inference", 2020, section 5: by size; the other
 * orders are by lifetime times size, and by time.) */
#include "base/status.h"
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

/* A storage while it is packed. */
typedef struct box {
    size_t offset, bytes;
    int32_t first, last;
    int32_t storage;
} box;

static int by_number(const box *a, const box *b) {
    return (a->storage > b->storage) - (a->storage < b->storage);
}

static int by_size(const void *left, const void *right) {
    const box *a = left, *b = right;
    return a->bytes != b->bytes ? (a->bytes < b->bytes ? 1 : -1) : by_number(a, b);
}

static int by_area(const void *left, const void *right) {
    const box *a = left, *b = right;
    double x = (double)a->bytes * (a->last - a->first + 1);
    double y = (double)b->bytes * (b->last - b->first + 1);
    return x != y ? (x < y ? 1 : -1) : by_size(a, b);
}

static int by_length(const void *left, const void *right) {
    const box *a = left, *b = right;
    int32_t x = a->last - a->first, y = b->last - b->first;
    return x != y ? (x < y ? 1 : -1) : by_size(a, b);
}

static int by_time(const void *left, const void *right) {
    const box *a = left, *b = right;
    return a->first != b->first ? (a->first > b->first ? 1 : -1) : by_size(a, b);
}

/* Puts boxes[i] at the lowest offset free of boxes[order[0 .. i)], which are sorted by offset. */
static void put(box *boxes, int32_t *order, int32_t i) {
    box *fresh = &boxes[i];
    size_t offset = 0;
    for (int32_t j = 0; j < i; j++) {
        const box *other = &boxes[order[j]];
        if (other->last < fresh->first || fresh->last < other->first)
            continue;
        if (other->offset >= offset && other->offset - offset >= fresh->bytes)
            break;
        if (other->offset + other->bytes > offset)
            offset = other->offset + other->bytes;
    }
    fresh->offset = offset;
    int32_t at = i;
    for (; at > 0 && boxes[order[at - 1]].offset > offset; at--)
        order[at] = order[at - 1];
    order[at] = i;
}

static size_t pack(box *boxes, int32_t *order, int32_t n) {
    size_t top = 0;
    for (int32_t i = 0; i < n; i++) {
        put(boxes, order, i);
        if (boxes[i].offset + boxes[i].bytes > top)
            top = boxes[i].offset + boxes[i].bytes;
    }
    return top;
}

static int32_t collect(const qn_plan *plan, box *boxes) {
    int32_t n = 0;
    for (int32_t i = 0; i < plan->n_storages; i++) {
        const qn_storage *s = &plan->storages[i];
        if (!s->is_bound)
            boxes[n++] = (box){0, s->bytes, s->first, s->last, i};
    }
    return n;
}

static size_t live_bound(const qn_plan *plan, size_t *changes) {
    memset(changes, 0, ((size_t)plan->n_steps + 2) * sizeof *changes);
    for (int32_t i = 0; i < plan->n_storages; i++) {
        const qn_storage *s = &plan->storages[i];
        if (s->is_bound)
            continue;
        changes[s->first] += s->bytes;
        changes[s->last + 1] -= s->bytes; /* wraps around, and back when summed */
    }
    size_t live = 0, most = 0;
    for (int32_t t = 0; t <= plan->n_steps; t++) {
        live += changes[t];
        most = live > most ? live : most;
    }
    return most;
}

static void pack_best(qn_plan *plan, box *boxes, int32_t *order) {
    int (*const orders[])(const void *, const void *) = {by_size, by_area, by_length, by_time};
    const int32_t n = collect(plan, boxes);
    plan->arena_bytes = SIZE_MAX;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        qsort(boxes, (size_t)n, sizeof *boxes, orders[i]);
        size_t top = pack(boxes, order, n);
        if (top >= plan->arena_bytes)
            continue;
        plan->arena_bytes = top;
        for (int32_t j = 0; j < n; j++)
            plan->storages[boxes[j].storage].offset = boxes[j].offset;
    }
}

qn_status qn_plan_pack(qn_plan *plan) {
    const qn_allocator *a = plan->allocator;
    const size_t n = (size_t)plan->n_storages, n_times = (size_t)plan->n_steps + 2;
    box *boxes = NULL;
    int32_t *order = NULL;
    size_t *changes = NULL;
    qn_status status = qn_allocate(a, n, sizeof *boxes, &boxes);
    if (status == QN_OK)
        status = qn_allocate(a, n, sizeof *order, &order);
    if (status == QN_OK)
        status = qn_allocate(a, n_times, sizeof *changes, &changes);
    if (status == QN_OK) {
        plan->lower_bound_bytes = live_bound(plan, changes);
        pack_best(plan, boxes, order);
    }
    qn_release(a, boxes, n, sizeof *boxes);
    qn_release(a, order, n, sizeof *order);
    qn_release(a, changes, n_times, sizeof *changes);
    return status;
}
