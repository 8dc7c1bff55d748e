/* The plan of a graph: in which order its nodes run, and where every value lies. It is data: made
 * before the first step, checked, printed, and run by an executor that decides nothing.
 *
 * Invariants (qn_plan_check):
 *     two arena storages whose [first, last] meet share no byte
 *     offset % QN_ALIGNMENT = 0 and offset + bytes <= arena_bytes
 *     a step reads only what its storage holds at that time: a value is written before it is read
 *     and not overwritten before its last reader; values that lie in one another hold the same
 * there rows that lie apart are written and read only by operators that can, and no result is so a
 * step writes over what it reads only in place lower_bound_bytes <= arena_bytes offset %
 * QN_SWAP_BLOCK = 0 and offset + bytes <= swap_bytes of every swapped two of them whose [first,
 * last] meet share no byte of the file store, stored, load and loaded of a value follow one
 * another, and nothing reads what is loading */
#ifndef QN_PLAN_PLAN_H
#define QN_PLAN_PLAN_H

#include "graph/graph.h"

/* A node's turn. Views have none. */
typedef struct qn_step {
    int32_t node;
    int32_t device;    /* row of qn_devices */
    int32_t n_threads; /* that take part */
    int32_t workspace; /* storage, or -1 */
    int32_t swapped;   /* of a node that swaps: which place in the file; or -1 */
} qn_step;

/* A place in the swap file and the steps during which it holds a value or is being written or read.
 */
typedef struct qn_swapped {
    size_t offset, bytes; /* multiples of QN_SWAP_BLOCK */
    int32_t first, last;  /* steps, both included */
} qn_swapped;

/* A piece of memory and the steps during which it holds something that is still read. */
typedef struct qn_storage {
    size_t offset, bytes; /* in the arena; a multiple of QN_ALIGNMENT */
    int32_t first, last;  /* steps, both included */
    qn_kind kind;
    bool is_bound; /* memory given from outside the arena: parameters, state, inputs */
} qn_storage;

/* Where a value lies: several values may be views of one storage. Rows (all axes but the last) are
 * equally far apart:
 *     strides[rank - 1] = 1, strides[rank - 2] >= dims[rank - 1], and
 *     strides[i] = strides[i + 1] * dims[i + 1] for the axes before */
typedef struct qn_placement {
    int32_t storage;              /* -1: the value is never made */
    size_t offset;                /* bytes from the storage's begin */
    int64_t strides[QN_MAX_RANK]; /* elements from one index of an axis to the next */
} qn_placement;

typedef struct qn_plan {
    const qn_allocator *allocator;
    int n_threads;
    int32_t n_steps, n_storages, n_values;
    size_t step_capacity, storage_capacity;
    qn_step *steps;
    qn_storage *storages;
    qn_placement *placements; /* by value */
    size_t arena_bytes;       /* what the arena needs */
    size_t lower_bound_bytes; /* largest sum of bytes alive in one step: no packing is smaller */
    int32_t n_swapped, n_requests; /* places in the swap file; writes and reads in a run */
    size_t swapped_capacity;
    qn_swapped *swapped; /* (n_swapped) */
    size_t swap_bytes;   /* what the file needs */
} qn_plan;

/* Plans the graph for a team of n_threads with a kernel table. */
qn_status qn_plan_create(const qn_allocator *allocator, const qn_graph *graph,
                         const qn_kernels *kernels, int n_threads, qn_plan **plan);

/* The same for a graph whose order is decided: all its nodes run, one after the other. */
qn_status qn_plan_create_as_is(const qn_allocator *allocator, const qn_graph *graph,
                               const qn_kernels *kernels, int n_threads, qn_plan **plan);
void qn_plan_destroy(qn_plan *plan);

/* Elements from one row of a value of this shape to the next. */
int64_t qn_placement_step(const qn_placement *placement, qn_shape shape);

/* The invariants at the top; a violation names the step and the values. */
qn_status qn_plan_check(const qn_plan *plan, const qn_graph *graph);

/* The name of the first value that lies in a storage, or of the node whose workspace it is. */
const char *qn_plan_name_of(const qn_plan *plan, const qn_graph *graph, int32_t storage);
/* Which values lie whole where they should before a step (n_steps: at the end), whether or not they
 * are still read: is_held (n_values). What lies in a storage that is alive no longer may have been
 * written over by others. Fails as the check does. */
qn_status qn_plan_held(const qn_plan *plan, const qn_graph *graph, int32_t step, bool *is_held);

/* Bytes alive by kind in the step where most arena bytes are alive. */
void qn_plan_peak_by_kind(const qn_plan *plan, size_t bytes[QN_KIND_COUNT]);

/* Writes the plan for people, a step a line, through put. */
void qn_plan_print(const qn_plan *plan, const qn_graph *graph,
                   void (*put)(void *context, const char *line), void *context);

/* ---- the stages, in order ---- */

/* Fills steps: nodes that something needs, in the graph's order, updates as early as what they
 * overwrite allows, so that gradients are released early. */
qn_status qn_plan_order(qn_plan *plan, const qn_graph *graph);

/* Fills steps: all nodes but views, in the graph's order. */
qn_status qn_plan_keep_order(qn_plan *plan, const qn_graph *graph);

/* The value that one lies in, and at which column of its rows; outer -1: in none. */
typedef struct qn_berth {
    int32_t outer;
    int64_t column;
} qn_berth;

/* Fills berths (n_values). */
qn_status qn_plan_share(const qn_plan *plan, const qn_graph *graph, qn_berth *berths);

/* Whether rows of an input or output of a node may lie apart. */
bool qn_plan_reads_apart(const qn_graph *graph, const qn_node *node, int input);
bool qn_plan_writes_apart(const qn_graph *graph, const qn_node *node, int output);

/* What a node leaves uncopied if it lies at its place: inner at a column of outer. Of a node that
 * joins its inputs: input and output 0; of one that cuts: output 0 and its input; else -1. */
typedef struct qn_columns {
    int32_t inner, outer;
    int64_t column;
} qn_columns;

qn_columns qn_plan_columns(const qn_graph *graph, const qn_node *node, int input);

/* Fills storages and placements: lifetimes, views, results in place. */
qn_status qn_plan_lifetimes(qn_plan *plan, const qn_graph *graph, const qn_kernels *kernels);

/* Fills the offsets of arena storages, arena_bytes and lower_bound_bytes. */
qn_status qn_plan_pack(qn_plan *plan);

/* Fills swapped, the steps' numbers of it, and swap_bytes: the file is packed as the arena is. */
qn_status qn_plan_swap(qn_plan *plan, const qn_graph *graph);

/* The part of qn_plan_check that is about swapping. */
qn_status qn_plan_check_swaps(const qn_plan *plan, const qn_graph *graph);

#endif
