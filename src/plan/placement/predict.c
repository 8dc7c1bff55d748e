/* What a placement takes: the lanes' works are walked through in the graph's order, copies where
 * plan/lanes/spread.c puts them. See problem.h. */
#include "base/memory.h"
#include "base/status.h"
#include "os/heap.h"
#include "plan/placement/trial.h"
#include "plan/plan.h"

#include <string.h>

bool qn_placement_allows(const qn_placement_problem *problem, int32_t node, int site) {
    return problem->ns[(size_t)node * (size_t)problem->n_sites + (size_t)site] >= 0;
}

void qn_placement_fill(const qn_placement_problem *problem, int site, int16_t *site_of) {
    for (int32_t n = 0; n < problem->graph->n_nodes; n++)
        site_of[n] = (int16_t)(qn_placement_allows(problem, n, site) ? site : 0);
}

/* ---- memory ---- */

static size_t n_values_of(const qn_trial_sites *t) {
    return (size_t)t->problem->graph->n_values + 1;
}

static size_t n_nodes_of(const qn_trial_sites *t) {
    return (size_t)t->problem->graph->n_nodes + 1;
}

void qn_trial_sites_deinit(qn_trial_sites *t) {
    const size_t n = n_values_of(t);
    qn_release(t->allocator, t->is_late, n_nodes_of(t), sizeof *t->is_late);
    qn_release(t->allocator, t->fixed_at, n_nodes_of(t), sizeof *t->fixed_at);
    qn_release(t->allocator, t->there_ns, n * (size_t)t->n_spaces, sizeof *t->there_ns);
    qn_release(t->allocator, t->home, n, sizeof *t->home);
}

static bool is_update(const qn_graph *graph, const qn_node *node) {
    bool is = false;
    for (int i = 0; i < node->n_outputs; i++)
        is |= graph->values[node->outputs[i].id]->overwrites >= 0;
    return is;
}

bool qn_placement_can_keep(const qn_placement_problem *problem, int site) {
    bool can = true;
    for (int32_t n = 0; n < problem->graph->n_nodes; n++)
        can = can && (!is_update(problem->graph, problem->graph->nodes[n]) ||
                      qn_placement_allows(problem, n, site));
    return can;
}

/* As plan/lanes/spread.c places them. */
static void find_fixed(qn_trial_sites *t) {
    const qn_graph *graph = t->problem->graph;
    bool can_be_lost = false;
    for (int site = 0; site < t->problem->n_sites; site++)
        can_be_lost |= t->problem->sites[site].can_be_lost;
    if (!t->problem->keeps && can_be_lost)
        qn_plan_find_late(graph, t->is_late);
    for (int n = 0; n < graph->n_nodes; n++) {
        const qn_node *node = graph->nodes[n];
        const bool is_host_only = t->is_late[n] || node->op->is_view || node->op->is_wait;
        t->fixed_at[n] = is_host_only ? 0 : -1;
        if (t->problem->keeps && is_update(graph, node))
            t->fixed_at[n] = 1;
    }
}

qn_status qn_trial_sites_init(const qn_allocator *allocator, const qn_placement_problem *problem,
                              qn_prefer prefer, qn_trial_sites *t) {
    *t = (qn_trial_sites){.allocator = allocator, .problem = problem, .prefer = prefer};
    for (int i = 0; i < problem->n_sites; i++)
        t->n_spaces =
            problem->sites[i].space >= t->n_spaces ? problem->sites[i].space + 1 : t->n_spaces;
    qn_status status = qn_allocate(allocator, n_nodes_of(t), sizeof *t->is_late, &t->is_late);
    if (status == QN_OK)
        status = qn_allocate(allocator, n_nodes_of(t), sizeof *t->fixed_at, &t->fixed_at);
    if (status == QN_OK)
        status = qn_allocate(allocator, n_values_of(t) * (size_t)t->n_spaces, sizeof *t->there_ns,
                             &t->there_ns);
    if (status == QN_OK)
        status = qn_allocate(allocator, n_values_of(t), sizeof *t->home, &t->home);
    if (status == QN_OK)
        find_fixed(t);
    else
        qn_trial_sites_deinit(t);
    return status;
}

bool qn_trial_sites_is_free(const qn_trial_sites *t, int32_t node) {
    int n = 0;
    for (int site = 0; site < t->problem->n_sites; site++)
        n += qn_placement_allows(t->problem, node, site);
    return n > 1 && t->fixed_at[node] < 0;
}

/* ---- a run of the lanes ---- */

typedef struct walk {
    qn_trial_sites *t;
    double free_ns[QN_MAX_SITES];
    qn_placement_result result;
} walk;

static double larger(double a, double b) {
    return a > b ? a : b;
}

static double *there(const walk *w, int32_t v, int space) {
    return &w->t->there_ns[(size_t)v * (size_t)w->t->n_spaces + (size_t)space];
}

/* Takes a lane for so long from when it is free and something has come; the end. */
static double take(walk *w, int site, double from_ns, double ns) {
    const double end = larger(w->free_ns[site], from_ns) + ns;
    w->free_ns[site] = end;
    w->result.busy_ns[site] += ns;
    w->result.ns = larger(w->result.ns, end);
    return end;
}

static double copy_ns(const qn_site *s, size_t bytes, bool is_in) {
    const double rate = is_in ? s->in_bytes_per_ns : s->out_bytes_per_ns;
    return (is_in ? s->copy_in_ns : s->copy_out_ns) + (rate > 0 ? (double)bytes / rate : 0);
}

static void count_copy(walk *w, size_t bytes) {
    w->result.n_copies++;
    w->result.copied_bytes += (int64_t)bytes;
}

/* When a value is in the space of a site that reads it. */
static double bring(walk *w, int32_t v, int site) {
    const qn_site *sites = w->t->problem->sites;
    const size_t bytes = qn_tensor_bytes(w->t->problem->graph->values[v]->tensor);
    const int space = sites[site].space, home = w->t->home[v];
    if (*there(w, v, space) >= 0)
        return *there(w, v, space);
    if (*there(w, v, 0) < 0) {
        *there(w, v, 0) =
            take(w, home, *there(w, v, sites[home].space), copy_ns(&sites[home], bytes, false));
        count_copy(w, bytes);
    }
    if (space != 0) {
        *there(w, v, space) = take(w, site, *there(w, v, 0), copy_ns(&sites[site], bytes, true));
        count_copy(w, bytes);
    }
    return *there(w, v, space);
}

static void walk_view(walk *w, const qn_node *node) {
    const int32_t from = node->inputs[0].id, to = node->outputs[0].id;
    for (int space = 0; space < w->t->n_spaces; space++)
        *there(w, to, space) = *there(w, from, space);
    w->t->home[to] = w->t->home[from];
}

/* The end of all that may be lost. */
static double lost_ns(const walk *w) {
    double ns = 0;
    for (int site = 0; site < w->t->problem->n_sites; site++)
        ns = w->t->problem->sites[site].can_be_lost ? larger(ns, w->free_ns[site]) : ns;
    return ns;
}

static void walk_node(walk *w, int32_t n, int site) {
    const qn_placement_problem *s = w->t->problem;
    const qn_node *node = s->graph->nodes[n];
    double from_ns = 0;
    if (w->t->fixed_at[n] >= 0)
        site = w->t->fixed_at[n];
    else if (!qn_placement_allows(s, n, site))
        site = 0;
    if (w->t->is_late[n])
        from_ns = lost_ns(w);
    for (int i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i].id >= 0)
            from_ns = larger(from_ns, bring(w, node->inputs[i].id, site));
    }
    const double ns = s->ns[(size_t)n * (size_t)s->n_sites + (size_t)site];
    const double end = take(w, site, from_ns, ns > 0 ? ns : 0);
    w->result.n_nodes[site]++;
    for (int i = 0; i < node->n_outputs; i++) {
        *there(w, node->outputs[i].id, s->sites[site].space) = end;
        w->t->home[node->outputs[i].id] = (int16_t)site;
    }
}

/* Late nodes come behind all others (plan/plan.h). */
static void walk_all(walk *w, const int16_t *site_of, bool is_late) {
    const qn_graph *graph = w->t->problem->graph;
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        if (w->t->is_late[n] != is_late)
            continue;
        if (graph->nodes[n]->op->is_view)
            walk_view(w, graph->nodes[n]);
        else
            walk_node(w, n, site_of[n]);
    }
}

/* Where a value from outside lies: what site 1 updates is there alone; what nobody changes comes to
 * be there once. */
static void place_source(walk *w, int32_t v) {
    const qn_value_info *info = w->t->problem->graph->values[v];
    const bool is_kept =
        w->t->problem->keeps && (info->kind == QN_KIND_PARAMETER || info->kind == QN_KIND_STATE);
    w->t->home[v] = is_kept && info->is_overwritten;
    if (info->producer >= 0)
        return;
    if (is_kept)
        *there(w, v, w->t->problem->sites[1].space) = 0;
    if (!is_kept || !info->is_overwritten)
        *there(w, v, 0) = 0;
}

qn_placement_result qn_trial_sites_run(qn_trial_sites *t, const int16_t *site_of) {
    const qn_graph *graph = t->problem->graph;
    walk w = {.t = t};
    for (size_t i = 0; i < n_values_of(t) * (size_t)t->n_spaces; i++)
        t->there_ns[i] = -1;
    for (int v = 0; v < graph->n_values; v++)
        place_source(&w, v);
    walk_all(&w, site_of, false);
    walk_all(&w, site_of, true);
    for (int v = 0; v < graph->n_values; v++) {
        if (graph->values[v]->is_result)
            (void)bring(&w, v, 0);
    }
    w.result.joules = w.result.ns * t->problem->idle_watts * 1e-9;
    for (int site = 0; site < t->problem->n_sites; site++)
        w.result.joules += w.result.busy_ns[site] * t->problem->sites[site].watts * 1e-9;
    return w.result;
}

double qn_placement_cost(const qn_placement_result *r, qn_prefer prefer) {
    switch (prefer) {
    case QN_PREFER_ENERGY:
        return r->joules;
    case QN_PREFER_BALANCED:
        return r->joules * r->ns;
    default:
        return r->ns;
    }
}

double qn_trial_sites_cost(qn_trial_sites *t, const int16_t *site_of) {
    const qn_placement_result r = qn_trial_sites_run(t, site_of);
    return qn_placement_cost(&r, t->prefer);
}

qn_status qn_placement_predict(const qn_allocator *allocator, const qn_placement_problem *problem,
                               const int16_t *site_of, qn_placement_result *result) {
    qn_trial_sites t;
    QN_TRY(qn_trial_sites_init(allocator, problem, QN_PREFER_TIME, &t));
    *result = qn_trial_sites_run(&t, site_of);
    qn_trial_sites_deinit(&t);
    return QN_OK;
}
