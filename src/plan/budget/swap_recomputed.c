/* See swap_recomputed.h. Recomputations are considered one by one, those that save the most time
 * for a byte first; nodes that only a replaced recomputation needed are removed with it. */
#include "plan/budget/swap_recomputed.h"

#include "base/status.h"
#include "plan/budget/swap_or_recompute.h"
#include "plan/swap/intervals.h"

#include <stdlib.h>
#include <string.h>

/* Runs that are looked at, and plans made to see whether they hold the limit. */
enum { MOST_LOOKS = 400, MOST_PLANS = 60 };

/* A run of a node that ran before. */
typedef struct again {
    int32_t item;
    double worth; /* ns saved at most, a byte swapped */
    bool is_taken;
} again;

typedef struct replacing {
    const qn_allocator *allocator;
    qn_arena arena;
    const qn_graph *graph;
    const qn_machine *machine;
    const qn_budget_options *options;
    const double *node_ns;
    const qn_sequence *from;
    int32_t n_agains, n_intervals;
    again *agains;   /* (n_agains), the most worth first */
    bool *is_left;   /* (from->n): a run that was taken, or that nothing needs any more */
    bool *is_needed; /* (n_values) */
    bool *is_out;    /* (n_values): has an interval */
    qn_swap_interval *intervals; /* (n_intervals) */
    int32_t *index; /* (from->n + 1): an item's place once what is left out is left out */
} replacing;

/* ---- candidates ---- */

static const qn_node *node_of(const replacing *r, int32_t item) {
    return r->graph->nodes[r->from->items[item].id];
}

static bool reads(const replacing *r, int32_t item, int32_t value) {
    const qn_node *node = node_of(r, item);
    for (int i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i].id >= 0 && qn_graph_unview(r->graph, node->inputs[i]).id == value)
            return true;
    }
    return false;
}

/* The item behind one that reads a value next, or -1: it is made again before, or not read. */
static int32_t find_reader(const replacing *r, int32_t item, int32_t value) {
    const int32_t producer = r->graph->values[value]->producer;
    for (int32_t i = item + 1; i < (int32_t)r->from->n; i++) {
        if (!r->is_left[i] && reads(r, i, value))
            return i;
        if (r->from->items[i].id == producer)
            return -1;
    }
    return -1;
}

static int by_worth(const void *left, const void *right) {
    const again *a = left, *b = right;
    return a->worth != b->worth ? (a->worth < b->worth ? 1 : -1)
                                : (a->item > b->item) - (a->item < b->item);
}

static double worth_of(const replacing *r, int32_t item) {
    const qn_node *node = node_of(r, item);
    double bytes = 1;
    for (int i = 0; i < node->n_outputs; i++) {
        if (find_reader(r, item, node->outputs[i].id) >= 0)
            bytes += (double)qn_tensor_bytes(qn_graph_tensor(r->graph, node->outputs[i]));
    }
    return r->node_ns[r->from->items[item].id] / bytes;
}

static void find_agains(replacing *r, bool *has_run) {
    for (int32_t i = 0; i < (int32_t)r->from->n; i++) {
        const int32_t node = r->from->items[i].id;
        if (has_run[node])
            r->agains[r->n_agains++] = (again){.item = i, .worth = worth_of(r, i)};
        has_run[node] = true;
    }
    qsort(r->agains, (size_t)r->n_agains, sizeof *r->agains, by_worth);
}

static qn_status prepare(replacing *r) {
    const size_t n_items = r->from->n + 1, n_values = (size_t)r->graph->n_values + 1;
    qn_arena *arena = &r->arena;
    bool *has_run = qn_arena_allocate(arena, (size_t)r->graph->n_nodes + 1, sizeof *has_run);
    r->agains = qn_arena_allocate(arena, n_items, sizeof *r->agains);
    r->is_left = qn_arena_allocate(arena, n_items, sizeof *r->is_left);
    r->is_needed = qn_arena_allocate(arena, n_values, sizeof *r->is_needed);
    r->is_out = qn_arena_allocate(arena, n_values, sizeof *r->is_out);
    r->intervals = qn_arena_allocate(arena, n_values, sizeof *r->intervals);
    r->index = qn_arena_allocate(arena, n_items, sizeof *r->index);
    if (!has_run || !r->agains || !r->is_left || !r->is_needed || !r->is_out || !r->intervals ||
        !r->index)
        return QN_ERROR_MEMORY;
    find_agains(r, has_run);
    return QN_OK;
}

/* ---- the sequence without the runs that were taken ---- */

static void mark_again(const replacing *r, bool *is_again) {
    for (int32_t i = 0; i < r->n_agains; i++)
        is_again[r->agains[i].item] = true;
}

static bool is_needed_run(const replacing *r, const qn_node *node) {
    for (int i = 0; i < node->n_outputs; i++) {
        if (r->is_needed[node->outputs[i].id])
            return true;
    }
    return false;
}

/* From the end on: a run again whose results nothing reads before the next is left out too. */
static void leave_out(replacing *r, const bool *is_again) {
    memset(r->is_needed, 0, (size_t)r->graph->n_values * sizeof *r->is_needed);
    for (int32_t i = 0; i < r->n_agains; i++)
        r->is_left[r->agains[i].item] = r->agains[i].is_taken;
    for (int32_t i = (int32_t)r->from->n - 1; i >= 0; i--) {
        const qn_node *node = node_of(r, i);
        if (is_again[i] && (r->is_left[i] || !is_needed_run(r, node))) {
            r->is_left[i] = true;
            continue;
        }
        for (int k = 0; k < node->n_outputs; k++)
            r->is_needed[node->outputs[k].id] = false;
        for (int k = 0; k < node->n_inputs; k++) {
            if (node->inputs[k].id >= 0)
                r->is_needed[qn_graph_unview(r->graph, node->inputs[k]).id] = true;
        }
    }
}

static int32_t number_items(replacing *r) {
    int32_t n = 0;
    for (int32_t i = 0; i < (int32_t)r->from->n; i++) {
        r->index[i] = n;
        n += !r->is_left[i];
    }
    return n;
}

static bool is_own(const replacing *r, int32_t value) {
    const qn_value_info *info = r->graph->values[value];
    return info->overwrites < 0 && !info->is_overwritten && !info->is_result;
}

/* Whether a request would take little more than its latency: such a value is kept instead. */
static bool is_small(const replacing *r, int32_t value) {
    const qn_swap_speed *s = r->options->swap;
    const double bytes = (double)qn_tensor_bytes(r->graph->values[value]->tensor);
    return bytes / s->write_bytes_per_ns < (double)s->latency_ns / 4;
}

/* The absence of a value around a run that was taken; false: it cannot be swapped there. */
static bool add_interval(replacing *r, int32_t item, int32_t value) {
    const int32_t before = find_reader(r, item, value);
    const int32_t producer = r->graph->values[value]->producer;
    int32_t after = -1, made = -1;
    if (before < 0 || is_small(r, value))
        return true; /* nothing reads it, or the copy before it */
    for (int32_t i = item - 1; i >= 0 && made < 0; i--) {
        if (r->is_left[i])
            continue;
        made = r->from->items[i].id == producer ? i : -1;
        after = after < 0 && (made >= 0 || reads(r, i, value)) ? i : after;
    }
    if (made < 0 || !is_own(r, value) || r->is_out[value] || r->index[before] - r->index[after] < 2)
        return false;
    r->is_out[value] = true;
    r->intervals[r->n_intervals++] = (qn_swap_interval){.value = value,
                                                        .made = r->index[made],
                                                        .after = r->index[after],
                                                        .before = r->index[before]};
    return true;
}

static bool find_intervals(replacing *r) {
    memset(r->is_out, 0, (size_t)r->graph->n_values * sizeof *r->is_out);
    r->n_intervals = 0;
    for (int32_t i = 0; i < r->n_agains; i++) {
        const qn_node *node = node_of(r, r->agains[i].item);
        for (int k = 0; r->agains[i].is_taken && k < node->n_outputs; k++) {
            if (!add_interval(r, r->agains[i].item, node->outputs[k].id))
                return false;
        }
    }
    return true;
}

static qn_status put_in(replacing *r, const qn_sequence *runs, qn_sequence *sequence) {
    double *item_ns;
    QN_TRY(qn_allocate(r->allocator, runs->n, sizeof *item_ns, &item_ns));
    qn_item_times(runs, r->node_ns, item_ns);
    qn_status status = qn_swap_intervals_schedule(r->allocator, r->graph, item_ns, (int32_t)runs->n,
                                                  r->options->swap, r->intervals, r->n_intervals);
    if (status == QN_OK)
        status = qn_swap_intervals_insert(runs, r->intervals, r->n_intervals, sequence);
    qn_release(r->allocator, item_ns, runs->n, sizeof *item_ns);
    return status;
}

/* The sequence with what is taken replaced; empty where that cannot be. */
static qn_status build(replacing *r, const bool *is_again, qn_sequence *sequence) {
    qn_sequence runs;
    qn_status status = QN_OK;
    qn_sequence_init(sequence, r->allocator);
    leave_out(r, is_again);
    number_items(r);
    if (!find_intervals(r))
        return QN_OK;
    qn_sequence_init(&runs, r->allocator);
    for (size_t i = 0; i < r->from->n && status == QN_OK; i++) {
        if (!r->is_left[i])
            status = qn_sequence_add(&runs, QN_ACTION_RUN, r->from->items[i].id);
    }
    if (status == QN_OK)
        status = put_in(r, &runs, sequence);
    qn_sequence_deinit(&runs);
    return status;
}

/* ---- the search ---- */

static qn_status check_limit(const replacing *r, const qn_sequence *sequence, bool *fits) {
    qn_budget_plan made = {0};
    QN_TRY(qn_budget_plan_make(r->allocator, r->graph, r->machine, sequence, &made));
    *fits = qn_plan_bytes(made.plan, r->machine, 0) <= r->options->arena_bytes &&
            qn_budget_may_swap(r->options, r->machine, made.plan);
    qn_budget_plan_deinit(&made);
    return QN_OK;
}

/* Whether taking what is marked saves time and holds the limit; then it is the best. */
static qn_status try_taken(replacing *r, const bool *is_again, int *n_plans, qn_sequence *best,
                           double *best_ns, bool *is_better) {
    qn_sequence sequence;
    double ns = *best_ns;
    *is_better = false;
    qn_status status = build(r, is_again, &sequence);
    if (status == QN_OK && sequence.n > 0)
        status = qn_swap_intervals_estimate(r->allocator, r->graph, &sequence, r->node_ns,
                                            r->options->swap, &ns, NULL);
    if (status == QN_OK && ns < *best_ns) {
        ++*n_plans;
        status = check_limit(r, &sequence, is_better);
    }
    if (status == QN_OK && *is_better) {
        const qn_sequence old = *best;
        *best = sequence;
        *best_ns = ns;
        sequence = old;
    }
    qn_sequence_deinit(&sequence);
    return status;
}

static qn_status search(replacing *r, qn_sequence *best, double *best_ns) {
    bool *is_again = qn_arena_allocate(&r->arena, r->from->n + 1, sizeof *is_again);
    int n_plans = 0;
    if (!is_again)
        return QN_ERROR_MEMORY;
    mark_again(r, is_again);
    for (int32_t i = 0; i < r->n_agains && i < MOST_LOOKS && n_plans < MOST_PLANS; i++) {
        bool is_better;
        r->agains[i].is_taken = true;
        QN_TRY(try_taken(r, is_again, &n_plans, best, best_ns, &is_better));
        r->agains[i].is_taken = is_better;
    }
    return QN_OK;
}

qn_status qn_budget_swap_recomputed(const qn_allocator *allocator, const qn_graph *graph,
                                    const qn_machine *machine, const qn_budget_options *options,
                                    const double *node_ns, const qn_sequence *from, qn_sequence *to,
                                    double *ns) {
    replacing r = {.allocator = allocator,
                   .graph = graph,
                   .machine = machine,
                   .options = options,
                   .node_ns = node_ns,
                   .from = from};
    qn_sequence_init(to, allocator);
    qn_arena_init(&r.arena, allocator);
    qn_status status =
        qn_swap_intervals_estimate(allocator, graph, from, node_ns, options->swap, ns, NULL);
    if (status == QN_OK)
        status = prepare(&r);
    if (status == QN_OK)
        status = search(&r, to, ns);
    if (status != QN_OK)
        qn_sequence_deinit(to);
    qn_arena_deinit(&r.arena);
    return status;
}
