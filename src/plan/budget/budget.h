/* Planning within a memory limit: which values are kept, recomputed, or swapped out, so that the
 * arena stays within the limit at the least cost in time. Selection and packing are done together,
 * against the real top of the packing. */
#ifndef QN_PLAN_BUDGET_BUDGET_H
#define QN_PLAN_BUDGET_BUDGET_H

#include "device/speed.h"
#include "passes/sequence.h"
#include "plan/plan.h"
#include "plan/swap/swap_speed.h"
#include "plan/usual_sequence.h"

/* Time of a node on a processor of such speed. */
double qn_estimate_ns(const qn_graph *graph, int32_t node, const qn_speed *speed);

/* The sequence with the smallest arena that was found for a graph, kept so that it is looked for
 * once for all limits. It does not depend on the limit it was first looked for at, and a plan does
 * not depend on whether it was known. Zeroed: not known yet. */
enum { QN_SWAPPED_PARTS = 5 }; /* how many values go to the file: so many numbers are tried */

typedef struct qn_budget_low {
    const qn_allocator *allocator; /* of what is kept; null: the planner's */
    size_t most_bytes;             /* that may be kept, else nothing is; 0: any number */
    size_t arena_bytes;            /* 0: not known */
    size_t peak_bytes;             /* that the planner held at most while it looked for it */
    int32_t n_items, n_storages;
    uint16_t *items;   /* (n_items): turns */
    uint32_t *offsets; /* (n_storages), by QN_ALIGNMENT; both null: there was no room */
    /* The same of the graphs with values in the file, without their sequences. */
    struct {
        size_t arena_bytes, peak_bytes;
    } swapped[QN_SWAPPED_PARTS];
} qn_budget_low;

typedef struct qn_budget_options {
    size_t arena_bytes;        /* the limit; SIZE_MAX: none */
    const double *node_ns;     /* (n_nodes) measured; null: estimated */
    qn_speed speed;            /* for estimates; 0: typical */
    const qn_swap_speed *swap; /* null: nothing is swapped */
    size_t swap_bytes;         /* that the swap file may have; 0: any number */
    int64_t most_work;         /* sequences measured to find a cheaper one; 0: usual */
    int64_t most_ns;    /* of planning, after which no cheaper one is looked for; 0: no limit */
    qn_budget_low *low; /* of the same graph, threads and times; filled where it is not known yet;
                           null: not kept */
    bool has_layers;    /* begins with layers made again, and improves on them a shorter time */
} qn_budget_options;

/* What was planned. The graph is one of its own (of the sequence). Zeroed: nothing, and may be
 * deinitialised. */
typedef struct qn_budget_plan {
    qn_sequence sequence;
    qn_graph *graph;
    qn_origins origins;
    qn_plan *plan;
    double base_ns, extra_ns; /* of a step without a limit; lost to recomputation and swapping */
    int64_t n_again;          /* nodes that run again */
    size_t again_bytes;       /* of the values that are made again */
    size_t swapped_bytes;     /* written in a step; as many are read */
    int64_t planning_ns;
    size_t planner_bytes; /* that planning held at most */
} qn_budget_plan;

/* The graph, plan and figures that a sequence gives; times are left 0. The sequence is copied. */
qn_status qn_budget_plan_make(const qn_allocator *allocator, const qn_graph *graph,
                              const qn_machine *machine, const qn_sequence *sequence,
                              qn_budget_plan *made);
void qn_budget_plan_deinit(qn_budget_plan *made);

/* Plans the graph within a limit. QN_ERROR_MEMORY with *least_bytes, the smallest arena that was
 * found, where none was found within it; *least_bytes is 0 where memory for planning was out
 * (least_bytes may be null). Equal options give equal plans, unless most_ns ended the search. */
qn_status qn_budget_plan_find(const qn_allocator *allocator, const qn_graph *graph,
                              const qn_machine *machine, const qn_budget_options *options,
                              qn_budget_plan *found, size_t *least_bytes);

/* Plans the graph with as small an arena as is found at no more than a part of a step's time, by
 * estimates. Nothing is found (found->plan is null) where that saves less than `least_saving` of
 * the arena. Equal graphs, threads and times give equal plans. */
qn_status qn_budget_plan_thrifty(const qn_allocator *allocator, const qn_graph *graph,
                                 const qn_machine *machine, const qn_budget_options *options,
                                 double most_extra, double least_saving, qn_budget_plan *found);

/* Plans the graph with the layers of its forward part made again right before their gradients, and
 * what else takes little time, with as small an arena as that gives (layers.h). Nothing is found
 * (found->plan is null) where the graph cannot be cut into layers, or that saves nothing. */
qn_status qn_budget_plan_layers(const qn_allocator *allocator, const qn_graph *graph,
                                const qn_machine *machine, const qn_budget_options *options,
                                qn_budget_plan *found);

/* Releases what planning has kept; zeroed then. */
void qn_budget_low_deinit(qn_budget_low *low);

/* The smallest arena that the planner finds, whatever the time lost. */
qn_status qn_budget_least(const qn_allocator *allocator, const qn_graph *graph,
                          const qn_machine *machine, const qn_budget_options *options,
                          size_t *least_bytes);

#endif
