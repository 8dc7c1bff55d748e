/* When values go to the swap file and come back, so that the file works while nodes run. An
 * interval is one absence of a value, between two uses of it in a sequence. The planner decides
 * which intervals are worthwhile (budget.h); this file has the candidates, the times at which
 * they start and end, and the run time of a sequence with intervals, all by one model: the file
 * handles one request after the other, in the order in which they begin. A simple policy is
 * included for comparison. */
#ifndef QN_PLAN_SWAP_INTERVALS_H
#define QN_PLAN_SWAP_INTERVALS_H

#include "passes/sequence.h"
#include "plan/swap/swap_speed.h"

/* What a write or a read of so many bytes takes while training goes on. */
double qn_swap_write_ns(const qn_swap_speed *speed, size_t bytes);
double qn_swap_read_ns(const qn_swap_speed *speed, size_t bytes);

/* Items of the sequence: `made` makes the value, `after` is the last to use it before it goes (or
 * made), `before` the next to use it. The four actions go before the items store to loaded
 * (filled):
 *     made < store <= stored
 *     after < stored <= load <= loaded = before */
typedef struct qn_swap_interval {
    int32_t value;
    int32_t made, after, before;
    int32_t store, stored, load, loaded;
} qn_swap_interval;

/* The interval in the largest gap between two uses of a value, by the time that items take;
 * value -1: it has none, for it is no value of its own that is made once, a result, or used in
 * one place only. item_ns (sequence->n). */
qn_swap_interval qn_swap_interval_find(const qn_graph *graph, const qn_sequence *sequence,
                                       const double *item_ns, int32_t value);

/* Times of items by the times of nodes (n_nodes); those of swaps are 0. item_ns (sequence->n). */
void qn_item_times(const qn_sequence *sequence, const double *node_ns, double *item_ns);

/* Fills the moments of intervals in a sequence without swaps: each is stored from when it is
 * made, its memory is free when the file should have it, and its load begins so early that it
 * should be there when it is read. Intervals are put into the order in which they are made. */
qn_status qn_swap_intervals_schedule(const qn_allocator *allocator, const qn_graph *graph,
                                     const double *item_ns, int32_t n_items,
                                     const qn_swap_speed *speed, qn_swap_interval *intervals,
                                     int32_t n);

/* The sequence with the intervals in it. */
qn_status qn_swap_intervals_insert(const qn_sequence *from, const qn_swap_interval *intervals,
                                   int32_t n, qn_sequence *to);

/* Time of a sequence with swaps, and how much of it is waiting for the file (may be null). The
 * processor time of swapping counts whole: a team's shares are fixed, so a thread that loses time
 * delays all. */
qn_status qn_swap_intervals_estimate(const qn_allocator *allocator, const qn_graph *graph,
                                     const qn_sequence *sequence, const double *node_ns,
                                     const qn_swap_speed *speed, double *ns, double *waiting_ns);

/* The usual sequence in which the input of every convolution goes to the file from its forward to
 * its backward pass (as in Rhu et al., "vDNN", MICRO 2016, section III: all convolution layers). */
qn_status qn_swap_intervals_of_convolutions(const qn_allocator *allocator, const qn_graph *graph,
                                            const double *node_ns, const qn_swap_speed *speed,
                                            qn_sequence *sequence);

#endif
