/* See attribution.h. One sweep over the ends of spans and readings, O((spans + readings) log
 * running). Running spans are in a heap by their end. One number accumulates the energy for a unit
 * of weight, so each event costs one heap operation, not a visit to every running span. */
#include "meter/results/attribution.h"

#include "base/memory.h"
#include "base/status.h"
#include "meter/results/readings.h"

#include <math.h>

typedef struct running {
    int64_t end_ns;
    int32_t row;
    double weight;
    double before; /* sweep.unit when it began */
} running;

/* heap[i].end_ns <= heap[2i + 1].end_ns, heap[2i + 2].end_ns; all end after now_ns.
 * weight = the sum of heap[i].weight; n == 0 => weight == unit == 0. */
typedef struct sweep {
    const qn_allocator *allocator;
    running *heap; /* (n) of capacity */
    size_t n, capacity;
    const qn_span *spans;
    size_t n_spans, next; /* spans[next] has not begun */
    int64_t now_ns;
    double weight;
    double unit;       /* what a weight of 1 has got since something runs */
    qn_shares *shares; /* null: only to see how large the heap gets */
} sweep;

/* ---- the heap ---- */

static void push(sweep *s, running added) {
    size_t at = s->n++;
    while (at > 0 && s->heap[(at - 1) / 2].end_ns > added.end_ns) {
        s->heap[at] = s->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    s->heap[at] = added;
}

static running pop(sweep *s) {
    const running first = s->heap[0], last = s->heap[--s->n];
    size_t at = 0;
    for (size_t child = 1; child < s->n; child = 2 * at + 1) {
        if (child + 1 < s->n && s->heap[child + 1].end_ns < s->heap[child].end_ns)
            child++;
        if (s->heap[child].end_ns >= last.end_ns)
            break;
        s->heap[at] = s->heap[child];
        at = child;
    }
    s->heap[at] = last;
    return first;
}

/* ---- the sweep ---- */

static void end_spans(sweep *s) {
    while (s->n > 0 && s->heap[0].end_ns <= s->now_ns) {
        const running ended = pop(s);
        if (s->shares)
            s->shares->rows[ended.row] += ended.weight * (s->unit - ended.before);
        s->weight -= ended.weight;
    }
    if (s->n == 0)
        s->weight = s->unit = 0; /* so that rounding does not gather over the run */
}

/* A weight that is no number above 0 takes no part. */
static qn_status begin_spans(sweep *s) {
    for (; s->next < s->n_spans && s->spans[s->next].begin_ns <= s->now_ns; s->next++) {
        const qn_span *span = &s->spans[s->next];
        if (span->end_ns <= s->now_ns || !(span->weight > 0) || !isfinite(span->weight))
            continue;
        QN_TRY(qn_grow(s->allocator, &s->heap, &s->capacity, s->n + 1, sizeof *s->heap));
        push(s, (running){span->end_ns, span->row, span->weight, s->unit});
        s->weight += span->weight;
    }
    return QN_OK;
}

static int64_t next_border(const sweep *s, int64_t border) {
    if (s->next < s->n_spans && s->spans[s->next].begin_ns < border)
        border = s->spans[s->next].begin_ns;
    return s->n > 0 && s->heap[0].end_ns < border ? s->heap[0].end_ns : border;
}

static void give(sweep *s, double amount) {
    if (s->n > 0)
        s->unit += amount / s->weight;
    else
        s->shares->idle += amount;
    s->shares->total += amount;
}

/* Goes on to a moment, while the value is `rate`. */
static qn_status run_to(sweep *s, int64_t to_ns, double rate) {
    while (s->now_ns < to_ns) {
        end_spans(s);
        QN_TRY(begin_spans(s));
        const int64_t border = next_border(s, to_ns);
        if (s->shares && rate != 0)
            give(s, rate * (double)(border - s->now_ns) * 1e-9);
        s->now_ns = border;
    }
    return QN_OK;
}

/* What still runs at the end gets its part up to there. */
static void end_all(sweep *s) {
    for (size_t i = 0; i < s->n && s->shares; i++)
        s->shares->rows[s->heap[i].row] += s->heap[i].weight * (s->unit - s->heap[i].before);
    s->n = 0;
}

static qn_status run_all(sweep *s, const qn_reading *readings, size_t n, int64_t begin_ns,
                         int64_t end_ns) {
    s->now_ns = begin_ns;
    s->next = s->n = 0;
    s->weight = s->unit = 0;
    for (size_t i = qn_readings_find(readings, n, begin_ns); i < n && s->now_ns < end_ns; i++) {
        const qn_reading *r = &readings[i];
        QN_TRY(run_to(s, r->begin_ns < end_ns ? r->begin_ns : end_ns, 0));
        QN_TRY(
            run_to(s, r->end_ns < end_ns ? r->end_ns : end_ns, isfinite(r->value) ? r->value : 0));
    }
    end_all(s);
    return QN_OK;
}

qn_status qn_attribute(const qn_allocator *allocator, const qn_reading *readings, size_t n_readings,
                       const qn_span *spans, size_t n_spans, int64_t begin_ns, int64_t end_ns,
                       qn_shares *shares) {
    sweep s = {.allocator = allocator, .spans = spans, .n_spans = n_spans};
    /* Once without shares: memory can only run out here, before anything has changed. */
    qn_status status = run_all(&s, readings, n_readings, begin_ns, end_ns);
    s.shares = shares;
    if (status == QN_OK)
        status = run_all(&s, readings, n_readings, begin_ns, end_ns);
    qn_release(allocator, s.heap, s.capacity, sizeof *s.heap);
    return status;
}
