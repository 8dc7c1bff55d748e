/* See intervals.h. */
#include "plan/swap/intervals.h"

#include "base/status.h"
#include "plan/usual_sequence.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A disk that serves others too, through threads that wait for busy cores, takes about twice as
 * long as it did when it was measured alone. */
#define BUSY 2.0

double qn_swap_write_ns(const qn_swap_speed *speed, size_t bytes) {
    return BUSY * ((double)speed->latency_ns + (double)bytes / speed->write_bytes_per_ns);
}

double qn_swap_read_ns(const qn_swap_speed *speed, size_t bytes) {
    return BUSY * ((double)speed->latency_ns + (double)bytes / speed->read_bytes_per_ns);
}

static size_t bytes_of(const qn_graph *graph, int32_t value) {
    return qn_tensor_bytes(graph->values[value]->tensor);
}

void qn_item_times(const qn_sequence *sequence, const double *node_ns, double *item_ns) {
    for (size_t i = 0; i < sequence->n; i++) {
        const qn_item *item = &sequence->items[i];
        item_ns[i] = item->action == QN_ACTION_RUN ? node_ns[item->id] : 0;
    }
}

/* ---- candidates ---- */

static bool is_own(const qn_graph *graph, int32_t value) {
    const qn_value_info *info = graph->values[value];
    return info->producer >= 0 && info->overwrites < 0 && !info->is_overwritten &&
           !info->is_result && !graph->nodes[info->producer]->op->is_view;
}

/* Whether an item reads a value or a view of it. */
static bool reads(const qn_graph *graph, const qn_item *item, int32_t value) {
    if (item->action != QN_ACTION_RUN)
        return item->id == value;
    const qn_node *node = graph->nodes[item->id];
    for (int i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i].id >= 0 && qn_graph_unview(graph, node->inputs[i]).id == value)
            return true;
    }
    return false;
}

/* A view that is a result is read from outside, at the end. */
static bool has_result_view(const qn_graph *graph, int32_t value) {
    for (int v = 0; v < graph->n_values; v++) {
        if (graph->values[v]->is_result && qn_graph_unview(graph, (qn_value){v}).id == value)
            return true;
    }
    return false;
}

qn_swap_interval qn_swap_interval_find(const qn_graph *graph, const qn_sequence *sequence,
                                       const double *item_ns, int32_t value) {
    qn_swap_interval interval = {.value = -1, .made = -1};
    double gap_ns = 0, widest_ns = 0;
    int32_t last = -1;
    if (!is_own(graph, value) || has_result_view(graph, value))
        return interval;
    for (int32_t i = 0; i < (int32_t)sequence->n; i++) {
        const qn_item *item = &sequence->items[i];
        if (item->action == QN_ACTION_RUN && item->id == graph->values[value]->producer) {
            if (interval.made >= 0)
                return (qn_swap_interval){.value = -1};
            interval.made = last = i;
            gap_ns = 0;
        } else if (interval.made >= 0 && reads(graph, item, value)) {
            if (i - last > 1 && gap_ns >= widest_ns) {
                interval = (qn_swap_interval){
                    .value = value, .made = interval.made, .after = last, .before = i};
                widest_ns = gap_ns;
            }
            last = i;
            gap_ns = 0;
        } else {
            gap_ns += item_ns[i];
        }
    }
    return interval;
}

/* ---- untils ---- */

static int by_made(const void *left, const void *right) {
    const qn_swap_interval *a = left, *b = right;
    return a->made != b->made ? (a->made > b->made) - (a->made < b->made)
                              : (a->value > b->value) - (a->value < b->value);
}

static int by_before_downwards(const void *left, const void *right) {
    const qn_swap_interval *a = left, *b = right;
    return a->before != b->before ? (a->before < b->before) - (a->before > b->before)
                                  : (a->value > b->value) - (a->value < b->value);
}

/* The first item from `from` to `to` that begins at `until` or later; else `to`. begins (n_items).
 */
static int32_t find_item(const double *begins, int32_t from, int32_t to, double until) {
    while (from < to && begins[from] < until)
        from++;
    return from;
}

/* Forward in time: each write begins when its value is made and those before are done. */
static void schedule_writes(const qn_graph *graph, const double *begins, const qn_swap_speed *speed,
                            qn_swap_interval *intervals, int32_t n) {
    double free_ns = 0;
    for (int32_t i = 0; i < n; i++) {
        qn_swap_interval *t = &intervals[i];
        t->store = t->made + 1;
        free_ns =
            fmax(free_ns, begins[t->store]) + qn_swap_write_ns(speed, bytes_of(graph, t->value));
        t->stored = find_item(begins, t->after + 1, t->before, free_ns);
    }
}

/* Backward in time: each read ends when its value is needed and the next read has to begin. */
static void schedule_reads(const qn_graph *graph, const double *begins, const qn_swap_speed *speed,
                           qn_swap_interval *intervals, int32_t n) {
    double next_ns = INFINITY;
    for (int32_t i = 0; i < n; i++) {
        qn_swap_interval *t = &intervals[i];
        next_ns =
            fmin(next_ns, begins[t->before]) - qn_swap_read_ns(speed, bytes_of(graph, t->value));
        t->loaded = t->load = t->before;
        while (t->load > t->stored && begins[t->load] > next_ns)
            t->load--;
    }
}

qn_status qn_swap_intervals_schedule(const qn_allocator *allocator, const qn_graph *graph,
                                     const double *item_ns, int32_t n_items,
                                     const qn_swap_speed *speed, qn_swap_interval *intervals,
                                     int32_t n) {
    double *begins;
    if (n == 0)
        return QN_OK;
    QN_TRY(qn_allocate(allocator, (size_t)n_items + 1, sizeof *begins, &begins));
    for (int32_t i = 0; i < n_items; i++)
        begins[i + 1] = begins[i] + item_ns[i];
    qsort(intervals, (size_t)n, sizeof *intervals, by_made);
    schedule_writes(graph, begins, speed, intervals, n);
    qsort(intervals, (size_t)n, sizeof *intervals, by_before_downwards);
    schedule_reads(graph, begins, speed, intervals, n);
    qsort(intervals, (size_t)n, sizeof *intervals, by_made);
    qn_release(allocator, begins, (size_t)n_items + 1, sizeof *begins);
    return QN_OK;
}

/* ---- putting them in ---- */

/* Actions before one item, in an order in which memory is free as early and taken as late as can
 * be. */
static qn_status insert_before(int32_t item, const qn_swap_interval *intervals, int32_t n,
                               qn_sequence *to) {
    for (int32_t i = 0; i < n; i++) {
        if (intervals[i].store == item)
            QN_TRY(qn_sequence_add(to, QN_ACTION_STORE, intervals[i].value));
    }
    for (int32_t i = 0; i < n; i++) {
        if (intervals[i].stored == item)
            QN_TRY(qn_sequence_add(to, QN_ACTION_STORED, intervals[i].value));
    }
    for (int32_t i = n - 1; i >= 0; i--) {
        if (intervals[i].load == item)
            QN_TRY(qn_sequence_add(to, QN_ACTION_LOAD, intervals[i].value));
    }
    for (int32_t i = 0; i < n; i++) {
        if (intervals[i].loaded == item)
            QN_TRY(qn_sequence_add(to, QN_ACTION_LOADED, intervals[i].value));
    }
    return QN_OK;
}

qn_status qn_swap_intervals_insert(const qn_sequence *from, const qn_swap_interval *intervals,
                                   int32_t n, qn_sequence *to) {
    qn_status status = QN_OK;
    qn_sequence_init(to, from->allocator);
    for (int32_t i = 0; i < (int32_t)from->n && status == QN_OK; i++) {
        status = insert_before(i, intervals, n, to);
        if (status == QN_OK)
            status = qn_sequence_add(to, from->items[i].action, from->items[i].id);
    }
    if (status != QN_OK)
        qn_sequence_deinit(to);
    return status;
}

/* ---- time ---- */

qn_status qn_swap_intervals_estimate(const qn_allocator *allocator, const qn_graph *graph,
                                     const qn_sequence *sequence, const double *node_ns,
                                     const qn_swap_speed *speed, double *ns, double *waiting_ns) {
    double now = 0, free_ns = 0, waiting = 0, *done_ns;
    QN_TRY(qn_allocate(allocator, (size_t)graph->n_values, sizeof *done_ns, &done_ns));
    for (size_t i = 0; i < sequence->n; i++) {
        const qn_item *item = &sequence->items[i];
        if (item->action == QN_ACTION_RUN) {
            now += node_ns[item->id];
        } else if (item->action == QN_ACTION_STORE || item->action == QN_ACTION_LOAD) {
            const size_t bytes = bytes_of(graph, item->id);
            now += (double)bytes * speed->work_ns_per_byte;
            free_ns = fmax(free_ns, now) + (item->action == QN_ACTION_STORE
                                                ? qn_swap_write_ns(speed, bytes)
                                                : qn_swap_read_ns(speed, bytes));
            done_ns[item->id] = free_ns;
        } else {
            const double wait = fmax(0, done_ns[item->id] - now);
            waiting += wait;
            now += wait;
        }
    }
    qn_release(allocator, done_ns, (size_t)graph->n_values, sizeof *done_ns);
    *ns = now;
    if (waiting_ns)
        *waiting_ns = waiting;
    return QN_OK;
}

/* ---- the policy ---- */

static bool is_convolution(const qn_node *node) {
    return node->op->is_convolution;
}

/* intervals (n_values). */
static int32_t find_convolutions(const qn_graph *graph, const qn_sequence *base,
                                 const double *item_ns, qn_swap_interval *intervals) {
    int32_t n = 0;
    for (size_t i = 0; i < base->n; i++) {
        const qn_node *node = graph->nodes[base->items[i].id];
        if (!is_convolution(node))
            continue;
        const qn_swap_interval interval =
            qn_swap_interval_find(graph, base, item_ns, qn_graph_unview(graph, node->inputs[0]).id);
        bool is_new = interval.value >= 0;
        for (int32_t j = 0; j < n; j++)
            is_new = is_new && intervals[j].value != interval.value;
        if (is_new)
            intervals[n++] = interval;
    }
    return n;
}

static qn_status add_convolutions(const qn_allocator *allocator, const qn_graph *graph,
                                  const qn_sequence *base, const double *node_ns,
                                  const qn_swap_speed *speed, qn_sequence *sequence) {
    const size_t n_values = (size_t)graph->n_values;
    double *item_ns = NULL;
    qn_swap_interval *intervals = NULL;
    int32_t n = 0;
    qn_status status = qn_allocate(allocator, base->n, sizeof *item_ns, &item_ns);
    if (status == QN_OK)
        status = qn_allocate(allocator, n_values, sizeof *intervals, &intervals);
    if (status == QN_OK) {
        qn_item_times(base, node_ns, item_ns);
        n = find_convolutions(graph, base, item_ns, intervals);
        status = qn_swap_intervals_schedule(allocator, graph, item_ns, (int32_t)base->n, speed,
                                            intervals, n);
    }
    if (status == QN_OK)
        status = qn_swap_intervals_insert(base, intervals, n, sequence);
    qn_release(allocator, item_ns, base->n, sizeof *item_ns);
    qn_release(allocator, intervals, n_values, sizeof *intervals);
    return status;
}

qn_status qn_swap_intervals_of_convolutions(const qn_allocator *allocator, const qn_graph *graph,
                                            const double *node_ns, const qn_swap_speed *speed,
                                            qn_sequence *sequence) {
    qn_sequence base;
    QN_TRY(qn_sequence_base(allocator, graph, &base));
    const qn_status status = add_convolutions(allocator, graph, &base, node_ns, speed, sequence);
    qn_sequence_deinit(&base);
    return status;
}
