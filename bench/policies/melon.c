/* Melon (Wang et al., MobiSys 2022; algorithms from the authors' published code): a pool whose
 * addresses are planned beforehand, the longest life first at the best fit; and recomputation that
 * is calibrated with it: before each node, while anything that is alive then ends above the limit,
 * the value with the largest TPS = bytes x time until its release / time to make it again is
 * evicted. Its box is cut at that moment; of what lies above it, what is alive already and lives
 * within its life sinks, the rest is placed anew. Forward feature maps alone are evicted. Before
 * anything is evicted, all that is alive then or later is placed anew, which the paper does not do:
 * without it what is made again piles up on top. What is made again gets a box of its own at the
 * best fit. Both are done as the paper says them, not with the errors that the published code has.
 */
#include "replay.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

/* A turn is as many moments, of which its own node has the last. */
enum { MOMENTS = 1 << 20 };

typedef struct box {
    int64_t lower, upper; /* moments, half open */
    size_t bytes, offset;
    int32_t value; /* or -1: a workspace */
    bool is_up;    /* to be placed anew */
} box;

typedef struct melon {
    const qn_facts *facts;
    size_t limit_bytes, top_bytes;
    box *boxes;
    size_t n_boxes, capacity;
    int32_t *box_of; /* (n_values): latest box of a value, or -1 */
    int32_t *order;  /* (n_order): boxes that have a place, the lowest first */
    size_t n_order, order_capacity;
    int32_t *scratch; /* (n_boxes) */
    size_t scratch_capacity;
    int32_t *mark, *stack; /* (n_values), of the search for what is missing */
    int32_t search;
    const qn_allocator *allocator;
} melon;

static bool meets(const box *a, const box *b) {
    return a->lower < b->upper && b->lower < a->upper;
}

/* ---- placing: order holds the boxes that have a place, by their offset ---- */

static void settle(melon *m, int32_t index, size_t offset) {
    size_t at = m->n_order++;
    for (; at > 0 && m->boxes[m->order[at - 1]].offset > offset; at--)
        m->order[at] = m->order[at - 1];
    m->order[at] = index;
    m->boxes[index].offset = offset;
    m->boxes[index].is_up = false;
}

/* Takes the boxes that are up out of the order. */
static void lift(melon *m) {
    size_t n = 0;
    for (size_t i = 0; i < m->n_order; i++) {
        if (!m->boxes[m->order[i]].is_up)
            m->order[n++] = m->order[i];
    }
    m->n_order = n;
}

/* The smallest gap that is large enough between the boxes that are alive at some time with it, or
 * on top of them. */
static void best_fit(melon *m, int32_t index) {
    const box *fresh = &m->boxes[index];
    size_t end = 0, best = SIZE_MAX, best_room = SIZE_MAX;
    for (size_t i = 0; i < m->n_order; i++) {
        const box *other = &m->boxes[m->order[i]];
        if (!meets(other, fresh))
            continue;
        if (other->offset > end && other->offset - end >= fresh->bytes &&
            other->offset - end < best_room) {
            best = end;
            best_room = other->offset - end;
        }
        if (other->offset + other->bytes > end)
            end = other->offset + other->bytes;
    }
    settle(m, index, best == SIZE_MAX ? end : best);
}

static const box *sorted_boxes; /* of the comparison below: the program is one thread */

static int by_life(const void *left, const void *right) {
    const box *a = &sorted_boxes[*(const int32_t *)left];
    const box *b = &sorted_boxes[*(const int32_t *)right];
    const int64_t x = a->upper - a->lower, y = b->upper - b->lower;
    if (x != y)
        return x < y ? 1 : -1;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    if (a->lower != b->lower)
        return a->lower > b->lower ? 1 : -1;
    return (a->value > b->value) - (a->value < b->value);
}

/* Best fit of all boxes that are up, the longest life first. */
static void place_all(melon *m) {
    size_t n = 0;
    for (size_t i = 0; i < m->n_boxes; i++) {
        if (m->boxes[i].is_up)
            m->scratch[n++] = (int32_t)i;
    }
    sorted_boxes = m->boxes;
    qsort(m->scratch, n, sizeof *m->scratch, by_life);
    for (size_t i = 0; i < n; i++)
        best_fit(m, m->scratch[i]);
}

static qn_status add_box(melon *m, box added) {
    QN_TRY(qn_grow(m->allocator, &m->boxes, &m->capacity, m->n_boxes + 1, sizeof *m->boxes));
    QN_TRY(qn_grow(m->allocator, &m->order, &m->order_capacity, m->capacity, sizeof *m->order));
    QN_TRY(
        qn_grow(m->allocator, &m->scratch, &m->scratch_capacity, m->capacity, sizeof *m->scratch));
    m->boxes[m->n_boxes] = added;
    if (added.value >= 0)
        m->box_of[added.value] = (int32_t)m->n_boxes;
    m->n_boxes++;
    return QN_OK;
}

/* The pool of a step in which nothing is evicted. */
static qn_status fill_pool(melon *m) {
    const qn_facts *f = m->facts;
    for (int32_t v = 0; v < f->graph->n_values; v++) {
        m->box_of[v] = -1;
        if (f->bytes[v] == 0)
            continue;
        const int64_t last = f->last[v] < 0 ? f->made[v] : f->last[v];
        QN_TRY(add_box(m, (box){.lower = (f->made[v] + 1) * (int64_t)MOMENTS - 1,
                                .upper = (last + 1) * (int64_t)MOMENTS,
                                .bytes = f->bytes[v],
                                .value = v,
                                .is_up = true}));
    }
    for (int32_t t = 0; t < f->n_turns; t++) {
        const size_t bytes = f->problem->workspace[f->nodes[t]];
        if (bytes)
            QN_TRY(
                add_box(m, (box){.lower = (t + 1) * (int64_t)MOMENTS - 1,
                                 .upper = (t + 1) * (int64_t)MOMENTS,
                                 .bytes = (bytes + QN_ALIGNMENT - 1) / QN_ALIGNMENT * QN_ALIGNMENT,
                                 .value = -1,
                                 .is_up = true}));
    }
    place_all(m);
    return QN_OK;
}

/* ---- evicting ---- */

static int64_t moment(const bench_replay *r, bool again) {
    return again ? r->turn * (int64_t)MOMENTS + r->n_again : (r->turn + 1) * (int64_t)MOMENTS - 1;
}

/* Takes up all that lies, box on box, above what a box was, and is alive now or later. */
static size_t lift_above(melon *m, const box *below, int64_t now) {
    size_t n = 0;
    for (size_t i = 0; i < m->n_order; i++) {
        box *b = &m->boxes[m->order[i]];
        if (b->upper <= now)
            continue;
        bool is_above = b->offset >= below->offset + below->bytes && meets(b, below);
        for (size_t j = 0; j < n && !is_above; j++) {
            const box *under = &m->boxes[m->scratch[j]];
            is_above = meets(b, under) && b->offset >= under->offset + under->bytes;
        }
        if (!is_above)
            continue;
        b->is_up = true;
        m->scratch[n++] = m->order[i];
    }
    lift(m);
    return n;
}

/* As low as what lies below it allows. */
static void sink(melon *m, int32_t index) {
    const box *b = &m->boxes[index];
    size_t end = 0;
    for (size_t i = 0; i < m->n_order && m->boxes[m->order[i]].offset <= b->offset; i++) {
        const box *under = &m->boxes[m->order[i]];
        if (meets(under, b) && under->offset + under->bytes > end)
            end = under->offset + under->bytes;
    }
    settle(m, index, end);
}

static void replan(melon *m, const box *evicted, int64_t now) {
    const size_t n = lift_above(m, evicted, now);
    for (size_t i = 0; i < n; i++) {
        const box *b = &m->boxes[m->scratch[i]];
        if (b->lower < now && b->lower >= evicted->lower && b->upper <= evicted->upper)
            sink(m, m->scratch[i]);
    }
    place_all(m);
}

/* Places all that is alive now or later anew. */
static void replan_rest(melon *m, int64_t now) {
    for (size_t i = 0; i < m->n_boxes; i++)
        m->boxes[i].is_up = m->boxes[i].upper > now;
    lift(m);
    place_all(m);
}

static size_t top_at(const melon *m, int64_t now) {
    size_t top = 0;
    for (size_t i = 0; i < m->n_boxes; i++) {
        const box *b = &m->boxes[i];
        if (b->lower <= now && now < b->upper && b->offset + b->bytes > top)
            top = b->offset + b->bytes;
    }
    return top;
}

/* Time to make a value again now: its node and all ancestors that are not here. */
static double again_ns(melon *m, const bench_replay *r, int32_t value) {
    const qn_facts *f = m->facts;
    double ns = 1;
    int32_t n = 0;
    m->mark[value] = ++m->search;
    m->stack[n++] = value;
    while (n > 0) {
        const int32_t producer = f->graph->values[m->stack[--n]]->producer;
        const qn_node *node = f->graph->nodes[producer];
        ns += f->problem->node_ns[producer];
        for (int i = 0; i < node->n_inputs; i++) {
            const int32_t u = node->inputs[i].id < 0 ? -1 : f->root[node->inputs[i].id];
            if (u < 0 || f->bytes[u] == 0 || r->residence[u] != QN_AWAY || m->mark[u] == m->search)
                continue;
            m->mark[u] = m->search;
            m->stack[n++] = u;
        }
    }
    return ns;
}

static int32_t choose(melon *m, const bench_replay *r) {
    int32_t chosen = -1;
    double most = -1;
    for (int32_t i = 0; i < r->n_listed; i++) {
        const int32_t v = r->listed[i];
        if (!bench_replay_may_evict(r, v) ||
            m->facts->is_backward[m->facts->graph->values[v]->producer])
            continue;
        const double tps =
            (double)m->facts->bytes[v] * (double)(m->facts->last[v] - r->turn) / again_ns(m, r, v);
        if (tps > most) {
            chosen = v;
            most = tps;
        }
    }
    return chosen;
}

/* ---- hooks ---- */

/* A node that runs again needs boxes of its own before it is known whether they are too high. */
static qn_status add_again(melon *m, const bench_replay *r, int32_t node, int64_t now) {
    const qn_facts *f = m->facts;
    const qn_node *of = f->graph->nodes[node];
    const size_t workspace = f->problem->workspace[node];
    for (int i = 0; i < of->n_outputs; i++) {
        const int32_t v = of->outputs[i].id;
        if (f->bytes[v] == 0 || r->residence[v] != QN_AWAY)
            continue;
        const bool is_read = qn_facts_next_read(f, v, r->turn) >= 0;
        const int64_t upper =
            is_read ? (f->last[v] + 1) * (int64_t)MOMENTS : r->turn * (int64_t)MOMENTS + r->n_set;
        QN_TRY(add_box(m, (box){now, upper > now ? upper : now + 1, f->bytes[v], 0, v, true}));
        best_fit(m, (int32_t)m->n_boxes - 1);
    }
    if (!workspace)
        return QN_OK;
    QN_TRY(add_box(m, (box){now, now + 1, workspace, 0, -1, true}));
    best_fit(m, (int32_t)m->n_boxes - 1);
    return QN_OK;
}

static qn_status before(void *user, bench_replay *r, int32_t node, size_t bytes) {
    melon *m = user;
    const bool again = node != m->facts->nodes[r->turn];
    const int64_t now = moment(r, again);
    (void)bytes;
    if (again)
        QN_TRY(add_again(m, r, node, now));
    size_t top = top_at(m, now);
    if (top > m->limit_bytes)
        replan_rest(m, now);
    while ((top = top_at(m, now)) > m->limit_bytes) {
        const int32_t v = choose(m, r);
        if (v < 0)
            break;
        box *b = &m->boxes[m->box_of[v]];
        const box evicted = *b;
        b->upper = now > b->lower ? now : b->lower + 1;
        bench_replay_evict(r, v);
        replan(m, &evicted, now);
    }
    m->top_bytes = top > m->top_bytes ? top : m->top_bytes;
    return QN_OK;
}

/* ---- the policy ---- */

static qn_status run(melon *m, qn_facts *facts, qn_sequence *sequence) {
    const bench_replay_hooks hooks = {.user = m, .before = before};
    const size_t n_values = (size_t)facts->graph->n_values;
    bench_replay replay;
    m->box_of = qn_arena_allocate(&facts->arena, n_values, sizeof *m->box_of);
    m->mark = qn_arena_allocate(&facts->arena, n_values, sizeof *m->mark);
    m->stack = qn_arena_allocate(&facts->arena, n_values, sizeof *m->stack);
    if (!m->box_of || !m->mark || !m->stack)
        return QN_ERROR_MEMORY;
    QN_TRY(fill_pool(m));
    QN_TRY(bench_replay_init(&replay, facts, &hooks, sequence));
    return bench_replay_run(&replay);
}

/* Where the boxes end, moved as they were after moments had passed. */
static size_t pool_top(const melon *m) {
    size_t top = 0;
    for (size_t i = 0; i < m->n_boxes; i++) {
        if (m->boxes[i].offset + m->boxes[i].bytes > top)
            top = m->boxes[i].offset + m->boxes[i].bytes;
    }
    return top;
}

static qn_status make(const qn_policy_problem *problem, qn_sequence *sequence,
                      size_t *own_top_bytes) {
    qn_facts facts;
    QN_TRY(qn_facts_init(&facts, problem));
    melon m = {
        .facts = &facts, .limit_bytes = problem->limit_bytes, .allocator = problem->allocator};
    qn_status status = run(&m, &facts, sequence);
    *own_top_bytes = pool_top(&m);
    qn_release(m.allocator, m.boxes, m.capacity, sizeof *m.boxes);
    qn_release(m.allocator, m.order, m.order_capacity, sizeof *m.order);
    qn_release(m.allocator, m.scratch, m.scratch_capacity, sizeof *m.scratch);
    qn_facts_deinit(&facts);
    return status;
}

const qn_policy qn_policy_melon = {
    .name = "melon", .source = "Wang et al. 2022", .has_limit = true, .make = make};
