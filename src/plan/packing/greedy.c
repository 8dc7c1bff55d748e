/* Greedy packing: in each of several orders, every box goes to the lowest offset that is free for
 * its whole lifetime; the best result is kept. (Pisarchyk and Lee, "Efficient memory management for
 * deep neural net inference", 2020, section 5: by size; the other orders are by length of lifetime,
 * by area, and by time.) On boxes cut from a rectangle all orders exceed the optimum by a quarter
 * or more. */
#include "plan/packing/greedy.h"

#include "os/os.h"

#include <stdlib.h>
#include <string.h>

qn_packing qn_packing_so_far(const qn_packing_problem *p) {
    const size_t capacity = p->options->capacity;
    return (qn_packing){.top_bytes = p->best_bytes,
                        .lower_bound_bytes = p->bound_bytes,
                        .proven_bytes = p->proven_bytes,
                        .is_optimal = p->best_bytes == p->proven_bytes,
                        .is_impossible = capacity > 0 && capacity < p->proven_bytes,
                        .work = p->work};
}

enum { MANY = 4096, CLOCK_PUTS = 256 }; /* boxes for which an order by time comes first */

bool qn_packing_is_done(qn_packing_problem *p) {
    if (p->best_bytes <= p->target_bytes || p->best_bytes <= p->proven_bytes ||
        p->work >= p->most_work || (p->end_ns > 0 && qn_clock_ns() >= p->end_ns))
        return true;
    const qn_packing so_far = qn_packing_so_far(p);
    p->was_stopped |= p->options->go_on && !p->options->go_on(p->options->user, &so_far);
    return p->was_stopped;
}

static int by_id(const qn_packed_box *a, const qn_packed_box *b) {
    return (a->id > b->id) - (a->id < b->id);
}

static int by_size(const void *left, const void *right) {
    const qn_packed_box *a = left, *b = right;
    return a->bytes != b->bytes ? (a->bytes < b->bytes ? 1 : -1) : by_id(a, b);
}

static int by_area(const void *left, const void *right) {
    const qn_packed_box *a = left, *b = right;
    const double x = (double)a->bytes * (a->upper - a->lower);
    const double y = (double)b->bytes * (b->upper - b->lower);
    return x != y ? (x < y ? 1 : -1) : by_size(a, b);
}

static int by_length(const void *left, const void *right) {
    const qn_packed_box *a = left, *b = right;
    const int32_t x = a->upper - a->lower, y = b->upper - b->lower;
    return x != y ? (x < y ? 1 : -1) : by_size(a, b);
}

static int by_begin(const void *left, const void *right) {
    const qn_packed_box *a = left, *b = right;
    return a->lower != b->lower ? (a->lower > b->lower ? 1 : -1) : by_length(a, b);
}

static int by_end(const void *left, const void *right) {
    const qn_packed_box *a = left, *b = right;
    return a->upper != b->upper ? (a->upper < b->upper ? 1 : -1) : by_length(a, b);
}

/* Puts a box at the lowest offset that is free of n ranges, which are sorted by offset and of which
 * it becomes one. Returns its end. */
static size_t put(qn_packed_range *ranges, int32_t n, qn_packed_box *box) {
    size_t offset = 0;
    int32_t at = 0;
    for (; at < n; at++) {
        const qn_packed_range *other = &ranges[at];
        if (other->upper <= box->lower || box->upper <= other->lower)
            continue;
        if (other->offset >= offset + box->bytes)
            break;
        offset = other->end > offset ? other->end : offset;
    }
    for (; at > 0 && ranges[at - 1].offset > offset; at--)
        ;
    memmove(&ranges[at + 1], &ranges[at], (size_t)(n - at) * sizeof *ranges);
    ranges[at] = (qn_packed_range){offset, offset + box->bytes, box->lower, box->upper};
    box->offset = offset;
    return offset + box->bytes;
}

/* Forgets ranges that end before a box begins or begin after it ends: in an order by time none that
 * follows meets them. Returns how many are left. */
static int32_t forget(qn_packed_range *ranges, int32_t n, const qn_packed_box *box) {
    int32_t n_kept = 0;
    for (int32_t i = 0; i < n; i++) {
        if (ranges[i].upper > box->lower && ranges[i].lower < box->upper)
            ranges[n_kept++] = ranges[i];
    }
    return n_kept;
}

/* Puts all boxes in the order of sorted, as long as that is better than the best and there is time,
 * and keeps it then. */
static void put_all(qn_packing_problem *p, bool is_by_time) {
    size_t top = 0;
    for (int32_t i = 0, n = 0; i < p->n; i++, n++) {
        if (is_by_time)
            n = forget(p->ranges, n, &p->sorted[i]);
        const size_t end = put(p->ranges, n, &p->sorted[i]);
        top = end > top ? end : top;
        p->work++;
        if (top >= p->best_bytes || (i % CLOCK_PUTS == 0 && p->best_bytes < SIZE_MAX &&
                                     p->end_ns > 0 && qn_clock_ns() >= p->end_ns))
            return;
    }
    p->best_bytes = top;
    for (int32_t i = 0; i < p->n; i++)
        p->best[p->sorted[i].id] = p->sorted[i].offset;
}

/* An order that is by time takes no more than the boxes alive at once to put one. */
typedef struct order {
    int (*compare)(const void *, const void *);
    bool is_by_time;
} order;

void qn_packing_greedy(qn_packing_problem *p) {
    static const order orders[] = {{by_length, false}, {by_size, false}, {by_area, false},
                                   {by_begin, true},   {by_end, true},   {by_length, false},
                                   {by_size, false},   {by_area, false}};
    const order *first = p->n > MANY ? &orders[3] : orders;
    p->best_bytes = p->n > 0 ? SIZE_MAX : 0;
    for (int i = 0; i < 5 && p->best_bytes > p->target_bytes; i++) {
        memcpy(p->sorted, p->boxes, (size_t)p->n * sizeof *p->sorted);
        qsort(p->sorted, (size_t)p->n, sizeof *p->sorted, first[i].compare);
        put_all(p, first[i].is_by_time);
    }
}

static int by_offset(const void *left, const void *right) {
    const qn_packed_box *a = left, *b = right;
    return a->offset != b->offset ? (a->offset > b->offset ? 1 : -1) : by_id(a, b);
}

void qn_packing_sink(qn_packing_problem *p) {
    memcpy(p->sorted, p->boxes, (size_t)p->n * sizeof *p->sorted);
    for (int32_t i = 0; i < p->n; i++)
        p->sorted[i].offset = p->best[i];
    qsort(p->sorted, (size_t)p->n, sizeof *p->sorted, by_offset);
    p->best_bytes = SIZE_MAX;
    put_all(p, false);
}
