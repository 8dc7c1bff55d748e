/* How a placement is chosen: from that of each site alone and of the nodes' own costs, by moving
 * segments of the graph's order to another site as long as that is better. See problem.h. */
#include "base/memory.h"
#include "base/status.h"
#include "os/heap.h"
#include "plan/placement/trial.h"

#include <string.h>

typedef struct choosing {
    qn_trial_sites t;
    size_t n_nodes;
    int16_t *now, *trial, *best; /* (n_nodes) */
    double now_cost, best_cost;
    int64_t trials_left;
} choosing;

/* Bounds what planning takes: about two seconds of the largest graphs. */
enum { MOST_TRIALS = 40000 };

static void take_best(choosing *c) {
    if (c->now_cost >= c->best_cost)
        return;
    c->best_cost = c->now_cost;
    memcpy(c->best, c->now, c->n_nodes * sizeof *c->best);
}

/* Moves the free nodes of a segment to a site; whether that is better. */
static bool try_segment(choosing *c, size_t first, size_t length, int16_t site) {
    bool changes = false;
    memcpy(c->trial, c->now, c->n_nodes * sizeof *c->trial);
    for (size_t n = first; n < first + length && n < c->n_nodes; n++) {
        if (!qn_trial_sites_is_free(&c->t, (int32_t)n) || c->trial[n] == site ||
            !qn_placement_allows(c->t.problem, (int32_t)n, site))
            continue;
        c->trial[n] = site;
        changes = true;
    }
    if (!changes || c->trials_left-- <= 0)
        return false;
    const double cost = qn_trial_sites_cost(&c->t, c->trial);
    if (cost >= c->now_cost * (1 - 1e-9))
        return false;
    memcpy(c->now, c->trial, c->n_nodes * sizeof *c->now);
    c->now_cost = cost;
    return true;
}

/* One pass with segments of a length, at every beginning. */
static bool improve_by(choosing *c, size_t length) {
    const size_t step = length > 4 ? length / 4 : 1;
    bool is_better = false;
    for (size_t first = 0; first < c->n_nodes; first += step) {
        for (int site = 0; site < c->t.problem->n_sites; site++)
            is_better |= try_segment(c, first, length, (int16_t)site);
    }
    return is_better;
}

/* In small graphs: two nodes that are not neighbours, each to any site. */
static bool improve_pair(choosing *c, size_t a, size_t b) {
    const int n = c->t.problem->n_sites;
    for (int i = 0; i < n * n; i++) {
        const int16_t before = c->now[a];
        const int16_t site = (int16_t)(i / n);
        if (!qn_trial_sites_is_free(&c->t, (int32_t)a) ||
            !qn_placement_allows(c->t.problem, (int32_t)a, site))
            continue;
        c->now[a] = site;
        if (try_segment(c, b, 1, (int16_t)(i % n)))
            return true;
        c->now[a] = before;
    }
    return false;
}

static bool improve_by_pairs(choosing *c) {
    enum { FEW = 48 };
    for (size_t a = 0; c->n_nodes <= FEW && a < c->n_nodes; a++) {
        for (size_t b = a + 1; b < c->n_nodes; b++) {
            if (improve_pair(c, a, b))
                return true;
        }
    }
    return false;
}

static void improve(choosing *c) {
    bool is_better = true;
    c->trials_left = MOST_TRIALS;
    c->now_cost = qn_trial_sites_cost(&c->t, c->now);
    while (is_better && c->trials_left > 0) {
        is_better = false;
        for (size_t length = c->n_nodes; length > 0; length /= 2)
            is_better |= improve_by(c, length);
        if (!is_better)
            is_better = improve_by_pairs(c);
    }
    take_best(c);
}

/* Each node where it is cheapest by itself, copies not counted. */
static void fill_by_node(choosing *c) {
    const qn_placement_problem *s = c->t.problem;
    for (size_t n = 0; n < c->n_nodes; n++) {
        const double *ns = s->ns + n * (size_t)s->n_sites;
        double least = -1;
        c->now[n] = 0;
        for (int site = 0; site < s->n_sites; site++) {
            const double factor =
                c->t.prefer == QN_PREFER_ENERGY ? s->sites[site].watts + s->idle_watts : 1;
            if (ns[site] < 0 || (least >= 0 && ns[site] * factor >= least))
                continue;
            least = ns[site] * factor;
            c->now[n] = (int16_t)site;
        }
    }
}

static void fill_by_number(choosing *c, int32_t from) {
    const qn_placement_problem *s = c->t.problem;
    for (size_t n = 0; n < c->n_nodes; n++)
        c->now[n] = s->numbers[n] >= from && qn_placement_allows(s, (int32_t)n, 1);
}

/* The best of the placements by number, improved. */
static void choose_by_number(choosing *c) {
    const qn_placement_problem *s = c->t.problem;
    int32_t best = 1;
    double least = -1;
    for (int32_t from = 1; s->numbers && from < s->n_starts; from++) {
        fill_by_number(c, from);
        const double cost = qn_trial_sites_cost(&c->t, c->now);
        best = least < 0 || cost < least ? from : best;
        least = least < 0 || cost < least ? cost : least;
    }
    if (least < 0)
        return;
    fill_by_number(c, best);
    improve(c);
}

static void choose(choosing *c) {
    choose_by_number(c);
    for (int site = 0; site < c->t.problem->n_sites; site++) {
        qn_placement_fill(c->t.problem, site, c->now);
        improve(c);
    }
    fill_by_node(c);
    improve(c);
}

/* ---- all of them ---- */

static void try_all(choosing *c) {
    const int n_sites = c->t.problem->n_sites;
    qn_placement_fill(c->t.problem, 0, c->now);
    for (;;) {
        size_t n = 0;
        c->now_cost = qn_trial_sites_cost(&c->t, c->now);
        take_best(c);
        for (; n < c->n_nodes; n++) {
            if (!qn_trial_sites_is_free(&c->t, (int32_t)n))
                continue;
            do {
                c->now[n]++;
            } while (c->now[n] < n_sites &&
                     !qn_placement_allows(c->t.problem, (int32_t)n, c->now[n]));
            if (c->now[n] < n_sites)
                break;
            c->now[n] = 0;
        }
        if (n == c->n_nodes)
            return;
    }
}

static qn_status check_count(const choosing *c) {
    double n_placements = 1;
    for (size_t n = 0; n < c->n_nodes; n++) {
        if (qn_trial_sites_is_free(&c->t, (int32_t)n))
            n_placements *= c->t.problem->n_sites;
    }
    if (n_placements <= 1 << 20)
        return QN_OK;
    return qn_fail(QN_ERROR_UNSUPPORTED, "too many ways to place %zu nodes to try all of them",
                   c->n_nodes);
}

/* ---- both ---- */

static void deinit(choosing *c) {
    const size_t n = c->n_nodes + 1;
    qn_release(c->t.allocator, c->now, n, sizeof *c->now);
    qn_release(c->t.allocator, c->trial, n, sizeof *c->trial);
    qn_release(c->t.allocator, c->best, n, sizeof *c->best);
    qn_trial_sites_deinit(&c->t);
}

static qn_status init(choosing *c, const qn_allocator *allocator,
                      const qn_placement_problem *problem, qn_prefer prefer) {
    const size_t n = (size_t)problem->graph->n_nodes + 1;
    *c = (choosing){.n_nodes = n - 1, .best_cost = 1e300};
    QN_TRY(qn_trial_sites_init(allocator, problem, prefer, &c->t));
    qn_status status = qn_allocate(allocator, n, sizeof *c->now, &c->now);
    if (status == QN_OK)
        status = qn_allocate(allocator, n, sizeof *c->trial, &c->trial);
    if (status == QN_OK)
        status = qn_allocate(allocator, n, sizeof *c->best, &c->best);
    if (status != QN_OK)
        deinit(c);
    return status;
}

static void finish(choosing *c, int16_t *site_of, qn_placement_result *result) {
    memcpy(site_of, c->best, c->n_nodes * sizeof *site_of);
    for (size_t n = 0; n < c->n_nodes; n++) {
        if (c->t.fixed_at[n] >= 0)
            site_of[n] = c->t.fixed_at[n];
    }
    *result = qn_trial_sites_run(&c->t, site_of);
    deinit(c);
}

qn_status qn_placement_choose(const qn_allocator *allocator, const qn_placement_problem *problem,
                              qn_prefer prefer, int16_t *site_of, qn_placement_result *result) {
    choosing c;
    QN_TRY(init(&c, allocator, problem, prefer));
    choose(&c);
    finish(&c, site_of, result);
    return QN_OK;
}

qn_status qn_placement_optimum(const qn_allocator *allocator, const qn_placement_problem *problem,
                               qn_prefer prefer, int16_t *site_of, qn_placement_result *result) {
    choosing c;
    QN_TRY(init(&c, allocator, problem, prefer));
    const qn_status status = check_count(&c);
    if (status != QN_OK) {
        deinit(&c);
        return status;
    }
    try_all(&c);
    finish(&c, site_of, result);
    return QN_OK;
}
