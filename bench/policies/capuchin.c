/* Capuchin (Peng et al., ASPLOS 2020, sections 4.2 to 4.4): from measured times of accesses,
 * feature maps that are alive at the peak are evicted until it is within the limit. First those
 * whose swap hides behind the time between their accesses, the longest such time first; then, when
 * swapping would cost time, what saves most bytes for each moment of recomputation (MSPS), unless
 * swapping it costs less. Costs of recomputation take into account what was evicted already.
 * Loading begins early enough to be done at the access, as far as the channel is free. */
#include "decided.h"

#include "base/status.h"

#include <string.h>

typedef struct capuchin {
    qn_decided d;
    const qn_swap_speed *swap; /* null: recomputation alone */
    double *begin_ns;          /* (n_turns + 1): clock before a turn in a step without evictions */
    int64_t *live;             /* (n_turns + 1): bytes alive in a turn, by what was decided */
    double write_ns, read_ns;  /* of the channel, taken by what is swapped already */
    double forward_ns;
    int32_t *mark, *stack; /* (n_values) */
    int32_t search;
} capuchin;

static void change(capuchin *c, int32_t from, int32_t to, int64_t bytes) {
    for (int32_t t = from; t < to; t++)
        c->live[t] += bytes;
}

static qn_status init(capuchin *c, qn_facts *f) {
    const size_t n_turns = (size_t)f->n_turns + 1, n_values = (size_t)f->graph->n_values;
    QN_TRY(qn_decided_init(&c->d, f));
    c->swap = f->problem->swap;
    c->begin_ns = qn_arena_allocate(&f->arena, n_turns, sizeof *c->begin_ns);
    c->live = qn_arena_allocate(&f->arena, n_turns, sizeof *c->live);
    c->mark = qn_arena_allocate(&f->arena, n_values, sizeof *c->mark);
    c->stack = qn_arena_allocate(&f->arena, n_values, sizeof *c->stack);
    if (!c->begin_ns || !c->live || !c->mark || !c->stack)
        return QN_ERROR_MEMORY;
    for (int32_t t = 0; t < f->n_turns; t++) {
        const double ns = f->problem->node_ns[f->nodes[t]];
        c->begin_ns[t + 1] = c->begin_ns[t] + ns;
        c->live[t] = (int64_t)f->problem->workspace[f->nodes[t]];
        c->forward_ns += f->is_backward[f->nodes[t]] ? 0 : ns;
    }
    for (int32_t v = 0; v < f->graph->n_values; v++) {
        const int32_t last = f->last[v] < 0 ? f->made[v] : f->last[v];
        if (f->bytes[v])
            change(c, f->made[v], last < f->n_turns ? last + 1 : last, (int64_t)f->bytes[v]);
    }
    return QN_OK;
}

static int32_t find_peak(const capuchin *c) {
    int32_t peak = 0;
    for (int32_t t = 1; t < c->d.facts->n_turns; t++)
        peak = c->live[t] > c->live[peak] ? t : peak;
    return peak;
}

static double gap_ns(const capuchin *c, int32_t v) {
    return c->begin_ns[c->d.to[v]] - c->begin_ns[c->d.from[v] + 1];
}

static double store_ns(const capuchin *c, int32_t v) {
    return (double)c->swap->latency_ns + (double)c->d.facts->bytes[v] / c->swap->write_bytes_per_ns;
}

static double load_ns(const capuchin *c, int32_t v) {
    return (double)c->swap->latency_ns + (double)c->d.facts->bytes[v] / c->swap->read_bytes_per_ns;
}

/* Time lost to swapping a value: what does not fit between its accesses, or beside the step. */
static double swap_loss_ns(const capuchin *c, int32_t v) {
    const double store = store_ns(c, v), load = load_ns(c, v);
    const double backward = c->begin_ns[c->d.facts->n_turns] - c->forward_ns;
    double loss = store + load - gap_ns(c, v);
    loss = loss < c->write_ns + store - c->forward_ns ? c->write_ns + store - c->forward_ns : loss;
    loss = loss < c->read_ns + load - backward ? c->read_ns + load - backward : loss;
    return loss < 0 ? 0 : loss;
}

/* Time to make a value again at its backward access: its node, and all that is not there then. */
static double again_ns(capuchin *c, int32_t value) {
    const qn_facts *f = c->d.facts;
    const int32_t at = c->d.to[value];
    double ns = 0;
    int32_t n = 0;
    c->mark[value] = ++c->search;
    c->stack[n++] = value;
    while (n > 0) {
        const int32_t v = c->stack[--n];
        const qn_node *node = f->graph->nodes[f->graph->values[v]->producer];
        ns += f->problem->node_ns[f->graph->values[v]->producer];
        for (int i = 0; i < node->n_inputs; i++) {
            const int32_t u = node->inputs[i].id < 0 ? -1 : f->root[node->inputs[i].id];
            if (u < 0 || f->bytes[u] == 0 || c->mark[u] == c->search)
                continue;
            const bool is_dropped = c->d.fate[u] == QN_DROP && at <= c->d.to[u];
            if (!is_dropped && f->last[u] >= at)
                continue;
            c->mark[u] = c->search;
            c->stack[n++] = u;
        }
    }
    return ns;
}

static bool is_candidate(const capuchin *c, int32_t v, int32_t peak) {
    return c->d.from[v] >= 0 && c->d.fate[v] == QN_KEEP && c->d.from[v] < peak && peak < c->d.to[v];
}

static void take_swap(capuchin *c, int32_t v) {
    const qn_facts *f = c->d.facts;
    int32_t at = c->d.to[v];
    c->write_ns += store_ns(c, v);
    c->read_ns += load_ns(c, v);
    while (at > c->d.from[v] + 1 && c->begin_ns[c->d.to[v]] - c->begin_ns[at] < load_ns(c, v) &&
           f->is_backward[f->nodes[at - 1]])
        at--;
    c->d.fate[v] = QN_SWAP;
    c->d.load_at[v] = at;
    change(c, c->d.from[v] + 1, at, -(int64_t)f->bytes[v]);
}

/* The value with the longest time to spare whose swap is free, or -1. */
static int32_t choose_swap(const capuchin *c, int32_t peak) {
    int32_t chosen = -1;
    double most = 0;
    for (int32_t v = 0; c->swap && v < c->d.facts->graph->n_values; v++) {
        if (!is_candidate(c, v, peak) || swap_loss_ns(c, v) > 0)
            continue;
        const double spare = gap_ns(c, v) - store_ns(c, v) - load_ns(c, v);
        if (chosen < 0 || spare > most) {
            chosen = v;
            most = spare;
        }
    }
    return chosen;
}

static int32_t choose_again(capuchin *c, int32_t peak, double *ns) {
    int32_t chosen = -1;
    double most = 0;
    for (int32_t v = 0; v < c->d.facts->graph->n_values; v++) {
        if (!is_candidate(c, v, peak))
            continue;
        const double cost = again_ns(c, v) + 1;
        const double saving = (double)c->d.facts->bytes[v] / cost;
        if (chosen < 0 || saving > most) {
            chosen = v;
            most = saving;
            *ns = cost;
        }
    }
    return chosen;
}

static void decide(capuchin *c) {
    const int64_t limit = (int64_t)c->d.facts->problem->limit_bytes;
    for (;;) {
        const int32_t peak = find_peak(c);
        double ns = 0;
        if (c->live[peak] <= limit)
            return;
        int32_t v = choose_swap(c, peak);
        if (v >= 0) {
            take_swap(c, v);
            continue;
        }
        v = choose_again(c, peak, &ns);
        if (v < 0)
            return;
        if (c->swap && swap_loss_ns(c, v) < ns) {
            take_swap(c, v);
            continue;
        }
        c->d.fate[v] = QN_DROP;
        change(c, c->d.from[v] + 1, c->d.to[v], -(int64_t)c->d.facts->bytes[v]);
    }
}

static qn_status make(const qn_policy_problem *problem, qn_sequence *sequence, size_t *own) {
    qn_facts facts;
    capuchin c = {0};
    (void)own;
    QN_TRY(qn_facts_init(&facts, problem));
    qn_status status = init(&c, &facts);
    if (status == QN_OK) {
        decide(&c);
        status = qn_decided_run(&c.d, sequence);
    }
    qn_facts_deinit(&facts);
    return status;
}

static qn_status make_without_swap(const qn_policy_problem *problem, qn_sequence *sequence,
                                   size_t *own) {
    qn_policy_problem without = *problem;
    without.swap = NULL;
    return make(&without, sequence, own);
}

const qn_policy qn_policy_capuchin = {.name = "capuchin",
                                      .source = "Peng et al. 2020",
                                      .swaps = true,
                                      .has_limit = true,
                                      .make = make};
const qn_policy qn_policy_capuchin_recompute = {.name = "capuchin-recompute",
                                                .source = "Peng et al. 2020, recomputation alone",
                                                .has_limit = true,
                                                .make = make_without_swap};
