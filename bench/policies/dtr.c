/* Dynamic tensor rematerialisation (Kirisame et al., ICLR 2021, sections 3 and 4.1): when memory is
 * short, what costs least to make again for each byte and each moment that it was not used is
 * evicted. What it costs is its own node and its evicted neighbourhood: everything evicted that its
 * remaking would need, or that needs it. Three ways to know the neighbourhood: going through it
 * (h_DTR), by classes of evicted values that touch, joined and never split (h_eq), not at all. What
 * nothing will read any more is evicted at once (the paper's eager eviction). */
#include "replay.h"

#include "base/status.h"

typedef enum reach { WHOLE, CLASSES, LOCAL } reach;

typedef struct dtr {
    const qn_facts *facts;
    size_t limit_bytes;
    reach reach;
    int32_t *mark;  /* (n_values): the search that saw it last */
    int32_t *stack; /* (n_values) */
    int32_t search;
    int32_t *class_of; /* (n_values): place in the trees of classes, new at each eviction */
    int32_t *parent;   /* (most_places) */
    double *class_ns;  /* (most_places): of a class, by its root */
    int32_t n_places;
    size_t most_places;
    bool *is_evicted; /* (n_values) */
    int32_t *users;   /* nodes that read a value, those of value v at first_user[v] on */
    int32_t *first_user;
} dtr;

static double own_ns(const dtr *d, int32_t value) {
    return d->facts->problem->node_ns[d->facts->graph->values[value]->producer];
}

/* ---- neighbours: what a value's node reads, and what is made from it ---- */

typedef void visit(dtr *d, int32_t neighbour, void *context);

static void visit_parents(dtr *d, int32_t value, visit *to, void *context) {
    const qn_node *node = d->facts->graph->nodes[d->facts->graph->values[value]->producer];
    for (int i = 0; i < node->n_inputs; i++) {
        const int32_t v = node->inputs[i].id < 0 ? -1 : d->facts->root[node->inputs[i].id];
        if (v >= 0 && d->is_evicted[v])
            to(d, v, context);
    }
}

static void visit_children(dtr *d, int32_t value, visit *to, void *context) {
    for (int32_t u = d->first_user[value]; u < d->first_user[value + 1]; u++) {
        const qn_node *node = d->facts->graph->nodes[d->users[u]];
        for (int i = 0; i < node->n_outputs; i++) {
            if (d->is_evicted[node->outputs[i].id])
                to(d, node->outputs[i].id, context);
        }
    }
}

/* ---- the whole neighbourhood: evicted ancestors, then evicted descendants ---- */

typedef struct walk {
    double ns;
    int32_t n;
} walk;

static void push(dtr *d, int32_t value, void *context) {
    walk *w = context;
    if (d->mark[value] == d->search)
        return;
    d->mark[value] = d->search;
    d->stack[w->n++] = value;
    w->ns += own_ns(d, value);
}

static double whole_ns(dtr *d, int32_t value) {
    walk w = {0};
    d->search++;
    d->mark[value] = d->search;
    visit_parents(d, value, push, &w);
    while (w.n > 0)
        visit_parents(d, d->stack[--w.n], push, &w);
    visit_children(d, value, push, &w);
    while (w.n > 0)
        visit_children(d, d->stack[--w.n], push, &w);
    return w.ns;
}

/* ---- classes ---- */

static int32_t find_class(dtr *d, int32_t value) {
    int32_t place = d->class_of[value];
    while (d->parent[place] != place) {
        d->parent[place] = d->parent[d->parent[place]];
        place = d->parent[place];
    }
    return place;
}

/* Classes that were added already are in the stack. */
static void add_class(dtr *d, int32_t value, void *context) {
    walk *w = context;
    const int32_t class = find_class(d, value);
    for (int32_t i = 0; i < w->n; i++) {
        if (d->stack[i] == class)
            return;
    }
    d->stack[w->n++] = class;
    w->ns += d->class_ns[class];
}

static double classes_ns(dtr *d, int32_t value) {
    walk w = {0};
    visit_parents(d, value, add_class, &w);
    visit_children(d, value, add_class, &w);
    return w.ns;
}

static void join_class(dtr *d, int32_t value, void *context) {
    const int32_t a = find_class(d, value), b = find_class(d, *(int32_t *)context);
    if (a == b)
        return;
    d->parent[a] = b;
    d->class_ns[b] += d->class_ns[a];
}

/* ---- hooks ---- */

static void went(void *user, bench_replay *replay, int32_t value, bool evicted) {
    dtr *d = user;
    (void)replay;
    (void)evicted;
    d->is_evicted[value] = true;
    if (d->reach != CLASSES || (size_t)d->n_places == d->most_places)
        return;
    d->class_of[value] = d->n_places++;
    d->parent[d->class_of[value]] = d->class_of[value];
    d->class_ns[d->class_of[value]] = own_ns(d, value);
    visit_parents(d, value, join_class, &value);
    visit_children(d, value, join_class, &value);
}

/* The class that it leaves is not split: it only gets cheaper. */
static qn_status came(void *user, bench_replay *replay, int32_t value, bool again) {
    dtr *d = user;
    (void)replay;
    (void)again;
    if (d->reach == CLASSES && d->is_evicted[value])
        d->class_ns[find_class(d, value)] -= own_ns(d, value);
    d->is_evicted[value] = false;
    return QN_OK;
}

static double score(dtr *d, const bench_replay *replay, int32_t value) {
    double ns = own_ns(d, value) + 1;
    if (d->reach != LOCAL)
        ns += d->reach == WHOLE ? whole_ns(d, value) : classes_ns(d, value);
    const double staleness = replay->clock_ns - replay->read_ns[value] + 1;
    return ns / ((double)d->facts->bytes[value] * staleness);
}

static qn_status before(void *user, bench_replay *replay, int32_t node, size_t bytes) {
    dtr *d = user;
    (void)node;
    while (replay->live_bytes + bytes > d->limit_bytes) {
        int32_t chosen = -1;
        double least = 0;
        for (int32_t i = 0; i < replay->n_listed; i++) {
            const int32_t v = replay->listed[i];
            if (!bench_replay_may_evict(replay, v))
                continue;
            const double s = score(d, replay, v);
            if (chosen >= 0 && s >= least)
                continue;
            chosen = v;
            least = s;
        }
        if (chosen < 0)
            return QN_OK;
        bench_replay_evict(replay, chosen);
    }
    return QN_OK;
}

/* ---- the policy ---- */

static void list_users(const qn_facts *f, dtr *d) {
    int32_t *counts = d->first_user + 1;
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t t = 0; t < f->n_turns; t++) {
            const qn_node *node = f->graph->nodes[f->nodes[t]];
            for (int i = 0; i < node->n_inputs; i++) {
                const int32_t v = node->inputs[i].id < 0 ? -1 : f->root[node->inputs[i].id];
                if (v >= 0 && pass == 0)
                    counts[v + 1]++;
                else if (v >= 0)
                    d->users[counts[v]++] = f->nodes[t];
            }
        }
        for (int32_t v = 0; pass == 0 && v < f->graph->n_values; v++)
            counts[v + 1] += counts[v];
    }
}

static qn_status init(dtr *d, qn_facts *f) {
    const size_t n = (size_t)f->graph->n_values + 2;
    const size_t n_reads = (size_t)f->first_read[f->graph->n_values] + 1;
    d->most_places = 4 * bench_replay_most_items(f);
    d->mark = qn_arena_allocate(&f->arena, n, sizeof *d->mark);
    d->stack = qn_arena_allocate(&f->arena, n, sizeof *d->stack);
    d->class_of = qn_arena_allocate(&f->arena, n, sizeof *d->class_of);
    d->parent = qn_arena_allocate(&f->arena, d->most_places, sizeof *d->parent);
    d->class_ns = qn_arena_allocate(&f->arena, d->most_places, sizeof *d->class_ns);
    d->is_evicted = qn_arena_allocate(&f->arena, n, sizeof *d->is_evicted);
    d->users = qn_arena_allocate(&f->arena, n_reads, sizeof *d->users);
    d->first_user = qn_arena_allocate(&f->arena, n, sizeof *d->first_user);
    if (!d->mark || !d->stack || !d->class_of || !d->parent || !d->class_ns || !d->is_evicted ||
        !d->users || !d->first_user)
        return QN_ERROR_MEMORY;
    list_users(f, d);
    return QN_OK;
}

static qn_status make(const qn_policy_problem *problem, qn_sequence *sequence, reach how) {
    qn_facts facts;
    bench_replay replay;
    QN_TRY(qn_facts_init(&facts, problem));
    dtr d = {.facts = &facts, .limit_bytes = problem->limit_bytes, .reach = how};
    const bench_replay_hooks hooks = {.user = &d, .before = before, .came = came, .went = went};
    qn_status status = init(&d, &facts);
    if (status == QN_OK)
        status = bench_replay_init(&replay, &facts, &hooks, sequence);
    if (status == QN_OK)
        status = bench_replay_run(&replay);
    qn_facts_deinit(&facts);
    return status;
}

static qn_status make_whole(const qn_policy_problem *problem, qn_sequence *sequence, size_t *own) {
    (void)own;
    return make(problem, sequence, WHOLE);
}

static qn_status make_classes(const qn_policy_problem *problem, qn_sequence *sequence,
                              size_t *own) {
    (void)own;
    return make(problem, sequence, CLASSES);
}

static qn_status make_local(const qn_policy_problem *problem, qn_sequence *sequence, size_t *own) {
    (void)own;
    return make(problem, sequence, LOCAL);
}

const qn_policy qn_policy_dtr = {
    .name = "dtr", .source = "Kirisame et al. 2021, h_DTR", .has_limit = true, .make = make_whole};
const qn_policy qn_policy_dtr_eq = {.name = "dtr-eq",
                                    .source = "Kirisame et al. 2021, h_DTR^eq",
                                    .has_limit = true,
                                    .make = make_classes};
const qn_policy qn_policy_dtr_local = {.name = "dtr-local",
                                       .source = "Kirisame et al. 2021, h_DTR^local",
                                       .has_limit = true,
                                       .make = make_local};
