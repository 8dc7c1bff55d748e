/* The memory with which placements are tried, for the files of this room. */
#ifndef QN_PLAN_PLACEMENT_TRIAL_H
#define QN_PLAN_PLACEMENT_TRIAL_H

#include "plan/placement/problem.h"

typedef struct qn_trial_sites {
    const qn_allocator *allocator;
    const qn_placement_problem *problem;
    qn_prefer prefer;
    int n_spaces;
    bool *is_late;     /* (n_nodes): updates, and what depends on them, where the host makes them */
    int16_t *fixed_at; /* (n_nodes): the site of those, of views and of updates; -1: any */
    double *there_ns;  /* (n_values, n_spaces): since when a value is in a space; below 0: it is
                           not */
    int16_t *home;     /* (n_values): the site that made it */
} qn_trial_sites;

qn_status qn_trial_sites_init(const qn_allocator *allocator, const qn_placement_problem *problem,
                              qn_prefer prefer, qn_trial_sites *trial);
void qn_trial_sites_deinit(qn_trial_sites *trial);

/* What a placement takes; and as one number, by what is preferred. */
qn_placement_result qn_trial_sites_run(qn_trial_sites *trial, const int16_t *site_of);
double qn_trial_sites_cost(qn_trial_sites *trial, const int16_t *site_of);

/* Whether a node has a choice of sites. */
bool qn_trial_sites_is_free(const qn_trial_sites *trial, int32_t node);

#endif
