/* See swap_or_recompute.h. If recomputation alone reaches the limit, recomputations are replaced by
 * swaps as long as that saves time. Otherwise values are ranked by the cost of swapping against
 * that of recomputation. The first n go to the file, in a graph in which their swaps are ordinary
 * nodes, and that graph is planned within the limit by recomputation; several n are tried. The two
 * sequences are then merged into one of the original graph. */
#include "plan/budget/swap_or_recompute.h"

#include "base/status.h"
#include "plan/budget/swap_recomputed.h"
#include "plan/swap/intervals.h"

#include <math.h>
#include <stdlib.h>

/* Shorter values are not worth a request. */
enum { LEAST_BYTES = 64 * 1024 };

/* Work of a try, as most_work of the planning without swapping. */
enum { USUAL_MEASURES = 1500 };

/* The parts of all candidates that are tried. */
static const int eighths[QN_SWAPPED_PARTS] = {8, 5, 3, 2, 1};

/* A value that may go, and ns of the file over ns of making it again. */
typedef struct candidate {
    qn_swap_interval interval;
    double ratio;
} candidate;

typedef struct mixing {
    qn_counter counter;
    qn_allocator allocator; /* counts in counter */
    qn_arena arena;
    const qn_graph *graph;
    const qn_machine *machine;
    const qn_budget_options *options;
    qn_sequence base;
    double *node_ns, *item_ns; /* (n_nodes), (base.n) */
    int32_t n_candidates;
    candidate *candidates;       /* (n_candidates), best first */
    qn_swap_interval *intervals; /* room for n_candidates */
    double base_ns;
    qn_sequence best; /* the cheapest within the limit, if n > 0 */
    double best_ns;   /* lost by it, or by what is to be bettered */
    size_t least_bytes;
} mixing;

/* ---- candidates ---- */

static int by_ratio(const void *left, const void *right) {
    const candidate *a = left, *b = right;
    return a->ratio != b->ratio
               ? (a->ratio > b->ratio ? 1 : -1)
               : (a->interval.value > b->interval.value) - (a->interval.value < b->interval.value);
}

static double file_ns(const mixing *m, size_t bytes) {
    const qn_swap_speed *s = m->options->swap;
    return qn_swap_write_ns(s, bytes) + qn_swap_read_ns(s, bytes) +
           2 * (double)bytes * s->work_ns_per_byte;
}

static void find_candidates(mixing *m) {
    for (int32_t v = 0; v < m->graph->n_values; v++) {
        const size_t bytes = qn_tensor_bytes(m->graph->values[v]->tensor);
        if (bytes < LEAST_BYTES || m->graph->values[v]->producer < 0)
            continue;
        const qn_swap_interval interval = qn_swap_interval_find(m->graph, &m->base, m->item_ns, v);
        if (interval.value < 0)
            continue;
        const double again_ns = m->node_ns[m->graph->values[v]->producer];
        m->candidates[m->n_candidates++] =
            (candidate){interval, file_ns(m, bytes) / (again_ns + 1)};
    }
    qsort(m->candidates, (size_t)m->n_candidates, sizeof *m->candidates, by_ratio);
}

/* Leaves out, from the worst on, what the file has no time for. */
static void limit_candidates(mixing *m) {
    double busy_ns = 0;
    int32_t n = 0;
    while (n < m->n_candidates && busy_ns < m->base_ns) {
        const int32_t v = m->candidates[n++].interval.value;
        busy_ns += file_ns(m, qn_tensor_bytes(m->graph->values[v]->tensor));
    }
    m->n_candidates = n;
}

static qn_status prepare(mixing *m) {
    const size_t n_nodes = (size_t)m->graph->n_nodes, n_values = (size_t)m->graph->n_values;
    QN_TRY(qn_sequence_base(&m->allocator, m->graph, &m->base));
    m->node_ns = qn_arena_allocate(&m->arena, n_nodes + 1, sizeof *m->node_ns);
    m->item_ns = qn_arena_allocate(&m->arena, m->base.n + 1, sizeof *m->item_ns);
    m->candidates = qn_arena_allocate(&m->arena, n_values + 1, sizeof *m->candidates);
    m->intervals = qn_arena_allocate(&m->arena, n_values + 1, sizeof *m->intervals);
    if (!m->node_ns || !m->item_ns || !m->candidates || !m->intervals)
        return QN_ERROR_MEMORY;
    for (int32_t n = 0; n < m->graph->n_nodes; n++)
        m->node_ns[n] = m->options->node_ns ? m->options->node_ns[n]
                                            : qn_estimate_ns(m->graph, n, &m->options->speed);
    qn_item_times(&m->base, m->node_ns, m->item_ns);
    for (size_t i = 0; i < m->base.n; i++)
        m->base_ns += m->item_ns[i];
    find_candidates(m);
    limit_candidates(m);
    return QN_OK;
}

bool qn_budget_may_swap(const qn_budget_options *options, const qn_machine *machine,
                        const qn_plan *plan) {
    const int disk = qn_machine_disk(machine);
    return options->swap_bytes == 0 || disk < 0 ||
           qn_plan_arena(plan, disk).bytes <= options->swap_bytes;
}

/* ---- one try ---- */

/* A graph in which the first n candidates are swapped, and the sequence that says so. */
typedef struct swapped_graph {
    qn_sequence sequence;
    qn_graph *graph;
    qn_origins origins;
    double *node_ns; /* (graph's n_nodes); those of swaps are 0 */
} swapped_graph;

static void drop(const mixing *m, swapped_graph *s) {
    if (s->graph)
        qn_release(&m->allocator, s->node_ns, (size_t)s->graph->n_nodes, sizeof *s->node_ns);
    qn_graph_destroy(s->graph);
    if (s->sequence.allocator)
        qn_sequence_deinit(&s->sequence);
}

static qn_status swap_first(const mixing *m, int32_t n, swapped_graph *s) {
    for (int32_t i = 0; i < n; i++)
        m->intervals[i] = m->candidates[i].interval;
    QN_TRY(qn_swap_intervals_schedule(&m->allocator, m->graph, m->item_ns, (int32_t)m->base.n,
                                      m->options->swap, m->intervals, n));
    QN_TRY(qn_swap_intervals_insert(&m->base, m->intervals, n, &s->sequence));
    QN_TRY(
        qn_resequence(m->graph, &s->sequence, qn_machine_disk(m->machine), &s->graph, &s->origins));
    const int32_t n_nodes = s->graph->n_nodes;
    QN_TRY(qn_allocate(&m->allocator, (size_t)n_nodes, sizeof *s->node_ns, &s->node_ns));
    for (int32_t i = 0; i < n_nodes; i++)
        s->node_ns[i] = s->origins.node_of[i] < 0 ? 0 : m->node_ns[s->origins.node_of[i]];
    return QN_OK;
}

/* The sequence of the graph itself that a sequence of the swapped graph is. */
static qn_status compose(const swapped_graph *s, const qn_sequence *of_swapped,
                         qn_sequence *sequence) {
    for (size_t i = 0; i < of_swapped->n; i++) {
        const int32_t node = of_swapped->items[i].id, old = s->origins.node_of[node];
        const qn_item swap = s->sequence.items[s->origins.item_of[node]];
        QN_TRY(old >= 0 ? qn_sequence_add(sequence, QN_ACTION_RUN, old)
                        : qn_sequence_add(sequence, swap.action, swap.id));
    }
    return QN_OK;
}

/* Keeps a sequence that is cheaper than the best if its plan holds the limit. */
static qn_status keep_cheaper(mixing *m, qn_sequence *sequence) {
    qn_budget_plan made = {0};
    double ns;
    QN_TRY(qn_swap_intervals_estimate(&m->allocator, m->graph, sequence, m->node_ns,
                                      m->options->swap, &ns, NULL));
    if (ns - m->base_ns >= m->best_ns)
        return QN_OK;
    QN_TRY(qn_budget_plan_make(&m->allocator, m->graph, m->machine, sequence, &made));
    const bool fits = qn_plan_bytes(made.plan, m->machine, 0) <= m->options->arena_bytes &&
                      qn_budget_may_swap(m->options, m->machine, made.plan);
    qn_budget_plan_deinit(&made);
    if (!fits)
        return QN_OK;
    const qn_sequence old = m->best;
    m->best = *sequence;
    *sequence = old;
    m->best_ns = ns - m->base_ns;
    return QN_OK;
}

/* Whether a failure only says that this try leads nowhere: no plan within the limit, or one that
 * makes a value while the file works on it. */
static bool leads_nowhere(qn_status status, size_t least) {
    return status == QN_ERROR_ARGUMENT || (status == QN_ERROR_MEMORY && least > 0);
}

/* part: of the candidates. What is known of the least is of the graph without swaps; what is known
 * of this one stands beside it. */
static qn_status plan_swapped(mixing *m, const swapped_graph *s, size_t part) {
    qn_budget_options options = *m->options;
    qn_budget_low *known = options.low, low = {.most_bytes = 1};
    qn_budget_plan found = {0};
    qn_sequence sequence;
    size_t least = 0;
    options.swap = NULL;
    if (known) {
        low.arena_bytes = known->swapped[part].arena_bytes;
        low.peak_bytes = known->swapped[part].peak_bytes;
    }
    options.low = &low;
    options.node_ns = s->node_ns;
    options.most_work = options.most_work ? options.most_work / 4 + 1 : USUAL_MEASURES;
    qn_status status =
        qn_budget_plan_find(&m->allocator, s->graph, m->machine, &options, &found, &least);
    if (known) {
        known->swapped[part].arena_bytes = low.arena_bytes;
        known->swapped[part].peak_bytes = low.peak_bytes;
    }
    qn_sequence_init(&sequence, &m->allocator);
    if (status == QN_OK)
        status = compose(s, &found.sequence, &sequence);
    else if (least > 0 && least < m->least_bytes)
        m->least_bytes = least;
    qn_budget_plan_deinit(&found);
    if (status == QN_OK)
        status = qn_sequence_check(&sequence, m->graph);
    if (status == QN_OK)
        status = keep_cheaper(m, &sequence);
    qn_sequence_deinit(&sequence);
    return leads_nowhere(status, least) ? QN_OK : status;
}

static qn_status try_first(mixing *m, int32_t n, size_t part) {
    swapped_graph s = {0};
    qn_status status = swap_first(m, n, &s);
    if (status == QN_OK)
        status = plan_swapped(m, &s, part);
    drop(m, &s);
    return status;
}

static qn_status try_all(mixing *m) {
    int32_t last = 0;
    for (size_t i = 0; i < QN_SWAPPED_PARTS; i++) {
        const int32_t n = (m->n_candidates * eighths[i] + 7) / 8;
        if (n > 0 && n != last)
            QN_TRY(try_first(m, n, i));
        last = n;
    }
    return QN_OK;
}

/* Betters what is known. */
static qn_status replace_runs(mixing *m, const qn_budget_plan *known) {
    double ns;
    QN_TRY(qn_budget_swap_recomputed(&m->allocator, m->graph, m->machine, m->options, m->node_ns,
                                     &known->sequence, &m->best, &ns));
    m->best_ns = ns - m->base_ns;
    return QN_OK;
}

static qn_status take_best(const mixing *m, const qn_allocator *allocator, qn_budget_plan *known) {
    qn_budget_plan made = {0};
    if (m->best.n == 0)
        return QN_OK;
    QN_TRY(qn_budget_plan_make(allocator, m->graph, m->machine, &m->best, &made));
    made.base_ns = m->base_ns;
    made.extra_ns = m->best_ns;
    qn_budget_plan_deinit(known);
    *known = made;
    return QN_OK;
}

qn_status qn_budget_swap_or_recompute(const qn_allocator *allocator, const qn_graph *graph,
                                      const qn_machine *machine, const qn_budget_options *options,
                                      qn_budget_plan *known, size_t *least_bytes,
                                      size_t *planner_bytes) {
    mixing m = {.graph = graph,
                .machine = machine,
                .options = options,
                .best_ns = known->plan ? known->extra_ns : INFINITY,
                .least_bytes = *least_bytes};
    m.allocator = qn_counter_init(&m.counter, allocator);
    qn_arena_init(&m.arena, &m.allocator);
    qn_sequence_init(&m.base, &m.allocator);
    qn_sequence_init(&m.best, &m.allocator);
    qn_status status = prepare(&m);
    if (status == QN_OK)
        status = known->plan ? replace_runs(&m, known) : try_all(&m);
    if (status == QN_OK)
        status = take_best(&m, allocator, known);
    *least_bytes = m.least_bytes;
    *planner_bytes = m.counter.peak_bytes;
    qn_sequence_deinit(&m.base);
    qn_sequence_deinit(&m.best);
    qn_arena_deinit(&m.arena);
    return status;
}
