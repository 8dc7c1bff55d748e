/* Which processor runs each node: processors with memories of their own or the host's, the time of
 * every node on every one of them, and what copies between memories cost. What is chosen is judged
 * by the same order of works that the executor submits (run/executor_lanes.h): every processor does
 * its nodes and copies one after the other, in the graph's order.
 *
 * By prediction, what is chosen is never worse than the best single processor with the host as its
 * fallback, as that is among what it chooses from. Everything is deterministic. It knows nothing of
 * where times come from: measured, remembered or estimated. */
#ifndef QN_PLAN_PLACEMENT_PROBLEM_H
#define QN_PLAN_PLACEMENT_PROBLEM_H

#include "graph/graph.h"
#include "plan/schedule/timetable.h"

enum { QN_MAX_SITES = 8 };

/* A processor: site 0 is the host's. Sites of one space need no copies between them. */
typedef struct qn_site {
    int16_t space;    /* row of the machine's; 0: the host's */
    bool can_be_lost; /* updates wait for all its work (plan/plan.h) */
    double watts;     /* that it takes while it works or copies, above the idle machine */
    double copy_in_ns, copy_out_ns;           /* of a copy, besides its bytes */
    double in_bytes_per_ns, out_bytes_per_ns; /* from the host's memory, and to it */
} qn_site;

/* What is to be placed. ns (n_nodes, n_sites): of a node on a site; negative: it cannot run there.
 * Site 0 runs every node that is no view. */
typedef struct qn_placement_problem {
    const qn_graph *graph;
    int n_sites;
    const qn_site *sites; /* (n_sites) */
    const double *ns;
    double idle_watts;
    /* Site 1 makes all updates (it can run them), and what they change lies in its space from step
     * to step; else the host makes them, behind all that can be lost. */
    bool keeps;
    /* Further placements to begin with: node n on site 1 where numbers[n] is at least one of 1 to
     * below n_starts. Null: there are none. */
    const int32_t *numbers;
    int32_t n_starts;
} qn_placement_problem;

typedef struct qn_placement_result {
    double ns, joules;
    double busy_ns[QN_MAX_SITES]; /* its nodes and the copies in its lane */
    int32_t n_nodes[QN_MAX_SITES], n_copies;
    int64_t copied_bytes;
} qn_placement_result;

/* Whether a site can run a node. */
bool qn_placement_allows(const qn_placement_problem *problem, int32_t node, int site);

/* Whether a site can run all updates. */
bool qn_placement_can_keep(const qn_placement_problem *problem, int site);

/* What a placement takes, as one number, by what is preferred. */
double qn_placement_cost(const qn_placement_result *result, qn_prefer prefer);

/* All that a site can run on it, the rest on the host: site_of (n_nodes). */
void qn_placement_fill(const qn_placement_problem *problem, int site, int16_t *site_of);

/* What a placement takes; sites that cannot run a node leave it to the host. */
qn_status qn_placement_predict(const qn_allocator *allocator, const qn_placement_problem *problem,
                               const int16_t *site_of, qn_placement_result *result);

/* Chooses site_of (n_nodes) for what is preferred; it says of updates, too, where they run. */
qn_status qn_placement_choose(const qn_allocator *allocator, const qn_placement_problem *problem,
                              qn_prefer prefer, int16_t *site_of, qn_placement_result *result);

/* The best there is, by trying all. QN_ERROR_UNSUPPORTED: there are more than 2^20 ways. */
qn_status qn_placement_optimum(const qn_allocator *allocator, const qn_placement_problem *problem,
                               qn_prefer prefer, int16_t *site_of, qn_placement_result *result);

#endif
