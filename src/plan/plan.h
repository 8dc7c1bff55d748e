/* The plan of a graph: the order in which its nodes run, and the place of every value. It is data:
 * made before the first step, checked, printed, and run by an executor that decides nothing.
 *
 * Invariants (qn_plan_check):
 *   memory
 *     offset and bytes are multiples of the space's alignment, and offset + bytes <= bytes of its
 *     space's arena
 *     two storages of a space that overlap: all uses of one happen before all of the other
 *     (one lane: their [first, last] are disjoint)
 *     lower_bound_bytes <= arena_bytes
 *   values
 *     a step reads only what its storage holds at that time: it was written before, and is not
 *     overwritten before its last reader; values stored in one another hold the same there
 *     strided rows are written and read only by operators that support them; no result is strided
 *     a step overwrites what it reads only in place
 *   lanes
 *     a step waits for earlier steps of other lanes
 *     it reads and writes its lane's space; a copy writes the space that it copies to
 *     an update happens after every step of a lane that can be lost
 *     a value from outside lies in the space that the graph says */
#ifndef QN_PLAN_PLAN_H
#define QN_PLAN_PLAN_H

#include "device/machine.h"
#include "graph/graph.h"

enum { QN_MAX_LANES = 16 };

/* Where steps run one after the other. Lane 0 is the thread that runs the plan, with its team; each
 * other one is a queue of its device. */
typedef struct qn_lane {
    int16_t device;    /* row of the machine's; 0: the CPU */
    int16_t space;     /* row of the machine's, that its steps read and write; 0: the host's */
    int16_t n_threads; /* of a lane of the CPU; else 1 */
    bool can_be_lost;  /* its device may fail in the middle of a run, which then shall have updated
                          nothing */
    bool in_turn;      /* its steps begin when lane 0 has done those before them in the order, so
                          that what they write may lie where those have read */
} qn_lane;

/* A node's turn. Views have none. Steps of one lane run in their order; a step begins when the
 * steps are done that it waits for. */
typedef struct qn_step {
    int32_t node;
    int16_t lane;
    int16_t n_threads;  /* that take part */
    int32_t workspace;  /* storage, or -1 */
    int32_t first_wait; /* in the plan's waits; they end where the next step's begin */
} qn_step;

/* A piece of memory and the steps during which it holds something that is still read. Where there
 * are several lanes, `last` is the last step in the order of the plan that may run before all uses
 * have ended: every step behind it happens after them. */
typedef struct qn_storage {
    size_t offset, bytes; /* in its space's arena */
    int32_t first, last;  /* steps, both included */
    qn_kind kind;
    int16_t space; /* 0: the host's */
    bool is_bound; /* memory given from outside the arena: parameters, state, inputs */
} qn_storage;

/* What one space's arena needs. */
typedef struct qn_arena_need {
    size_t bytes;
    size_t lower_bound_bytes; /* largest sum of bytes alive in one step: no packing is smaller */
    size_t alignment;         /* of the space */
} qn_arena_need;

/* Where a value lies: several values may be views of one storage. Rows (all axes but the last) are
 * equally far apart:
 *     strides[rank - 1] = 1, strides[rank - 2] >= dims[rank - 1], and
 *     strides[i] = strides[i + 1] * dims[i + 1] for the axes before */
typedef struct qn_placement {
    int32_t storage;              /* -1: the value is never made */
    size_t offset;                /* bytes from the storage's begin */
    int64_t strides[QN_MAX_RANK]; /* elements from one index of an axis to the next */
} qn_placement;

/* Of a plan of several lanes. */
typedef struct qn_lanes {
    int n_lanes, n_further;
    qn_lane *lanes;         /* (n_lanes) */
    qn_arena_need *further; /* (n_further): of spaces 1 and on */
    /* Lanes are cores: a step of n threads uses that many lanes from its own on. Those before it in
     * any of them are done when it begins. Threads that have nothing to do take part too, as far as
     * its workspace allows (qn_plan_team_size). */
    bool are_cores;
    int32_t n_waits;
    size_t wait_capacity;
    int32_t *waits; /* (n_waits): steps of other lanes, before the one that waits */
} qn_lanes;

typedef struct qn_plan {
    const qn_allocator *allocator;
    int n_threads;
    int32_t n_steps, n_storages, n_values;
    size_t step_capacity, storage_capacity;
    qn_step *steps;
    qn_storage *storages;
    qn_placement *placements; /* by value */
    size_t arena_bytes;       /* of space 0, the host's: what its arena needs */
    size_t lower_bound_bytes; /* of it */
    qn_lanes *lanes;          /* null: lane 0 alone, on the CPU, in the host's memory */
} qn_plan;

/* Plans the graph for a machine: in one lane of its CPU, with all of its threads. */
qn_status qn_plan_create(const qn_allocator *allocator, const qn_graph *graph,
                         const qn_machine *machine, qn_plan **plan);

/* The same for a graph whose order is decided: all its nodes run, one after the other. Those that
 * copy between the host's memory and another space do so in lanes of that space's device, one for
 * each way, each in its turn. */
qn_status qn_plan_create_as_is(const qn_allocator *allocator, const qn_graph *graph,
                               const qn_machine *machine, qn_plan **plan);

/* Which lanes there are, and in which of them each node of a graph runs; views have none. Values
 * that cross spaces do so by nodes that copy (plan/lanes/partition.h). */
typedef struct qn_assignment {
    int n_lanes, n_spaces;
    const qn_lane *lanes;   /* (n_lanes) */
    const int16_t *lane_of; /* (n_nodes) */
    /* Where lanes are cores: how many each node uses, and the nodes that run, in their order. Null:
     * lanes are no cores; the graph's order. */
    const int16_t *width_of; /* (n_nodes) */
    const int32_t *order;    /* (n_order) */
    int32_t n_order;
    /* How many of the first in the order are done before each begins, whether it needs them or not:
     * lanes that do not drift apart need less memory. Falls nowhere; null: none. */
    const int32_t *behind;   /* (n_order) */
    const int16_t *space_of; /* (n_values), for a partition: where values from outside lie; null: in
                                the host's space */
    int swap_space; /* for a partition: what the graph swaps to this space goes to the host's
                                instead, from a device's own memory; 0: it swaps nothing */
} qn_assignment;

/* The same as_is for several lanes. */
qn_status qn_plan_create_for_lanes(const qn_allocator *allocator, const qn_graph *graph,
                                   const qn_machine *machine, const qn_assignment *assignment,
                                   qn_plan **plan);
void qn_plan_destroy(qn_plan *plan);

/* Bytes of the arenas of all spaces that are the same memory as one (qn_machine_same_memory): what
 * a budget of that memory has to hold. */
size_t qn_plan_bytes(const qn_plan *plan, const qn_machine *machine, int space);

/* Bytes of values from outside that lie in a space, each once. */
size_t qn_plan_given_bytes(const qn_plan *plan, int space);

/* The arena of a space. */
qn_arena_need qn_plan_arena(const qn_plan *plan, int space);

/* The lane of a step, and how many steps it waits for and which. */
qn_lane qn_plan_lane(const qn_plan *plan, int lane);
const int32_t *qn_plan_waits(const qn_plan *plan, int32_t step, int32_t *n);

/* Threads that may take part in a step: those it is planned for, and where lanes are cores as many
 * again. */
int qn_plan_team_size(const qn_plan *plan, int32_t step);

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

/* Bytes alive by kind in the host's memory, in the step where most arena bytes are alive. */
void qn_plan_peak_by_kind(const qn_plan *plan, size_t bytes[QN_KIND_COUNT]);

/* Writes the plan for people, a step a line, through put. */
void qn_plan_print(const qn_plan *plan, const qn_graph *graph, const qn_machine *machine,
                   void (*put)(void *context, const char *line), void *context);

/* ---- the stages, in order ---- */

/* Fills steps: nodes that something needs, in the graph's order, updates as early as what they
 * overwrite allows, so that gradients are released early. */
qn_status qn_plan_order(qn_plan *plan, const qn_graph *graph);

/* Fills steps: all nodes but views and waits, in the graph's order. */
qn_status qn_plan_keep_order(qn_plan *plan, const qn_graph *graph);

/* Fills steps: nodes in an order that is given. */
qn_status qn_plan_take_order(qn_plan *plan, const int32_t *nodes, int32_t n);

/* Nodes that update in place, and those that read what they or such nodes make: is_late (n_nodes).
 */
void qn_plan_find_late(const qn_graph *graph, bool *is_late);

/* Gives steps that are ordered their lanes, and fills waits: what a node reads is there, what it
 * overwrites is read by nobody any more. Where a lane can be lost, updates and what depends on them
 * come last and wait for all of it, so that a run that fails has updated nothing. One lane: nothing
 * to do. */
qn_status qn_plan_order_lanes(qn_plan *plan, const qn_graph *graph, const qn_machine *machine,
                              const qn_assignment *assignment);

/* The same for a graph that is to run in lane 0: copies to and from other spaces have lanes of
 * their own. None: one lane. */
qn_status qn_plan_order_copies(qn_plan *plan, const qn_graph *graph, const qn_machine *machine);

/* The value that one lies in, and at which column of its rows; outer -1: in none. */
typedef struct qn_berth {
    int32_t outer;
    int64_t column;
} qn_berth;

/* Fills berths (n_values). */
qn_status qn_plan_share(const qn_plan *plan, const qn_graph *graph, qn_berth *berths);

/* Whether rows of an input or output of a node may lie apart. */
bool qn_plan_reads_strided(const qn_graph *graph, const qn_node *node, int input);
bool qn_plan_writes_strided(const qn_graph *graph, const qn_node *node, int output);

/* What a node leaves uncopied if it lies at its place: inner at a column of outer. Of a node that
 * joins its inputs: input and output 0; of one that slices: output 0 and its input; else -1. */
typedef struct qn_columns {
    int32_t inner, outer;
    int64_t column;
} qn_columns;

qn_columns qn_plan_columns(const qn_graph *graph, const qn_node *node, int input);

/* Whether an input of a node lies already where the node is to leave it: a part at its columns of
 * what joins it, columns at those that are sliced out, another input in the place of an output.
 * The node then copies none of it. */
bool qn_plan_is_placed(const qn_plan *plan, const qn_graph *graph, const qn_node *node, int input);

/* Fills storages and placements: lifetimes, views, results in place. */
qn_status qn_plan_lifetimes(qn_plan *plan, const qn_graph *graph, const qn_machine *machine);

/* Fills the offsets of arena storages, arena_bytes and lower_bound_bytes. */
qn_status qn_plan_pack(qn_plan *plan);

#endif
