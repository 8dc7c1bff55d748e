/* One of an engine's programs: a graph with its plan and executor. */
#ifndef QN_RUN_PROGRAM_H
#define QN_RUN_PROGRAM_H

#include "passes/quantise.h"
#include "plan/budget/budget.h"
#include "quern/engine.h"
#include "run/executor.h"
#include "run/store.h"

enum { QN_MAX_INPUTS = 32 };

/* Where the passes of a phase end in the graph's list of nodes: forward, backward, update. */
typedef struct qn_phase_ends {
    int forward, backward, update;
} qn_phase_ends;

/* Graph and plan are what is run. Where that is not the graph as it was built, since nodes run
 * again or values are swapped, base is the latter, budget holds the others, and built the values
 * below in base. */
typedef struct qn_program {
    const char *name; /* in the built graph's memory */
    qn_graph *graph;
    qn_plan *plan; /* null: not planned yet */
    qn_executor *executor;
    bool training;
    int n_inputs, n_losses, n_phases;
    qn_phase_ends phases[QN_MAX_PHASES]; /* (n_phases), in the graph as built */
    qn_value inputs[QN_MAX_INPUTS];      /* (n_inputs): inputs and labels, as declared */
    qn_value losses[QN_MAX_PHASES];      /* (n_losses) */
    qn_value hyper;                      /* (QN_HYPER_COUNT), or QN_NO_VALUE */
    int n_shown;
    const qn_shown
        *shown; /* (n_shown), in the built graph's memory; values in the graph as built */
    /* Where the batch is split into pieces of so many samples (0: it is whole): the graph before,
     * the values above in it, and its node (-1: none) by node of the graph as built. phases counts
     * its.
     */
    int64_t micro_batch;
    bool is_apart; /* pieces do not wait for one another (qn_split_apart) */
    qn_graph *unsplit;
    const int32_t *unsplit_node;
    struct {
        qn_value inputs[QN_MAX_INPUTS], losses[QN_MAX_PHASES], hyper;
        double *node_ns;
    } whole;
    int16_t *site_of;      /* by node of the graph as built, in its memory: 1: the device runs it;
                              null: all that it can */
    double *node_ns;       /* by node of the graph as built, in its memory: measured; negative:
                              unknown; null: none is known */
    qn_graph *base;        /* null: graph is as built */
    qn_budget_plan budget; /* all 0: graph is as built */
    qn_budget_low low[2];  /* while it is planned: of the whole batch, of pieces of low_pieces */
    int64_t low_pieces;
    struct {
        qn_value inputs[QN_MAX_INPUTS], losses[QN_MAX_PHASES], hyper;
    } built;
} qn_program;

/* Builds all phases, each forward, fused, and, in a training program, with its gradients and the
 * update, or, where batches are accumulated, the sums. */
qn_status qn_program_build(qn_program *program, const qn_program_options *options,
                           const qn_engine_options *engine);

/* Samples of the batch, by the first input; 0: none. */
int64_t qn_program_batch(const qn_program *program);

/* Splits the batch of a training program into pieces of so many samples (passes/split.h); to be
 * done before it is planned. On failure it is as it was; QN_ERROR_UNSUPPORTED: it cannot be split
 * so. */
qn_status qn_program_split(qn_program *program, const qn_machine *machine, int64_t micro_batch);

/* The same into pieces for several processors, and whether that can be; 1 piece: nothing to do. */
qn_status qn_program_split_apart(qn_program *program, const qn_machine *machine, int64_t pieces);
bool qn_program_can_split_apart(const qn_program *program, const qn_machine *machine,
                                int64_t pieces);

/* Pieces for several processors; 0: none. */
int64_t qn_program_pieces(const qn_program *program);

/* Puts the pieces together again, if there are some; while it is not planned. */
void qn_program_unsplit(qn_program *program);

/* The update from accumulated sums, for the parameters of a training program. */
qn_status qn_program_build_update(qn_program *program, const qn_engine_options *engine,
                                  const qn_graph *training);

void qn_program_deinit(qn_program *program);

/* Takes a plan of its graph as built: what made holds is then the program's. It has none yet. */
void qn_program_take(qn_program *program, qn_budget_plan *made);

/* Changes the plan that it has, and its executor, for others of its graph as built, and gives those
 * back. */
void qn_program_exchange(qn_program *program, qn_budget_plan *plan, qn_executor **executor);

/* Back to the graph as built, without plan and executor. */
void qn_program_unplan(qn_program *program);

/* The graph as it was built. */
const qn_graph *qn_program_built_graph(const qn_program *program);

/* The node of the graph as built that a node of the graph is a run of, or -1: none, a swap. */
int32_t qn_program_built_node(const qn_program *program, int32_t node);

/* Binds every outside value of the program that a store holds and that lies in the host's space. */
void qn_program_bind(qn_program *program, const qn_store *store);

/* Fails where what is lent to the program lies in a file that was cut, or written to, since it was
 * mapped. */
qn_status qn_program_check_lent(const qn_program *program);

#endif
