/* The engine: programs over one set of parameters. A program is a graph with its plan: a training
 * step, an evaluation, the acting half of a Q-network, one length of sentences. All memory is taken
 * when the engine is made; a run allocates nothing. For one build on one instruction set, equal
 * options and inputs give equal bits, whatever the number of threads. The trainer (trainer.h) is an
 * engine for classifiers; tasks (task.h) are made of engines. */
#ifndef QUERN_ENGINE_H
#define QUERN_ENGINE_H

#include "quern/model.h"
#include "quern/tuning.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qn_engine qn_engine;

/* How gradients change parameters. */
typedef struct qn_update_options {
    qn_optimizer optimizer;
    double rate, momentum, weight_decay;
    bool nesterov;
    double beta1, beta2, epsilon; /* of Adam; 0: 0.9, 0.999, 1e-8 */
    qn_schedule schedule;
    int64_t warmup, schedule_steps; /* length of the schedule; 0: constant after warm-up */
    double clip_norm;               /* 0: none */
    int64_t accumulate;             /* batches for one step; 0: 1 */
} qn_update_options;

/* Those of a model's recipe. */
QN_API qn_update_options qn_update_options_for(const qn_model *model);

/* How long is spent, when plans are made, on finding out how this machine cuts the products of
 * convolutions and linear layers fastest: which blocks of rows and columns, which way through
 * memory, how they are shared out. What was found is kept in the user's cache folder, by machine
 * and shape. Bits, plans and memory do not depend on it (docs/tuning.md). */
typedef enum qn_kernel_tuning {
    QN_TUNE_OFF,   /* by fixed rules of the shape */
    QN_TUNE_QUICK, /* what was found before, and about two seconds for the longest products that
                      take no longer */
    QN_TUNE_FULL,  /* all products that are not known yet */
} qn_kernel_tuning;

typedef struct qn_engine_options {
    const qn_allocator *allocator; /* null: the C library's heap */
    qn_dtype real;                 /* QN_F32 (also for 0) or QN_F64 */
    qn_update_options update;
    qn_tuning tuning;
    bool no_dropout;     /* dropout layers pass their input through (checks against references) */
    int64_t micro_batch; /* samples that a training program works on at a time, a divisor of its
                            batch; 0: all, or as a budget needs. Equal bits with less memory;
                            refused where a sample's results depend on others (batch norm) */
    int n_threads;       /* 0: the processors available */
    uint64_t seed;
    /* Graphs and plans are made, but no memory for parameters, optimiser state and arena: to look
     * at plans of what this device could not hold. Tensors have no data, and nothing can be run. */
    bool plan_only;
    bool no_fusion; /* every operator as the network is written (comparisons); equal bits */
    /* A table of rules by which convolutions choose their algorithm, as text (docs/rules.md): part
     * of what results are, like the seed. Null: the built-in one. Copied. */
    const char *rules;
    qn_kernel_tuning tune;
    /* Bytes within which all of it has to keep: parameters, gradients, optimiser state, feature
     * maps, workspace, graphs, plans, and planning them; 0: no limit. Where they are too few for
     * the usual plan, batches are worked on in pieces, or values are made again instead of kept:
     * equal bits, more time. */
    size_t memory_budget_bytes;
    bool no_least; /* a budget that cannot work is refused without looking for one that can */
    /* The plans of all programs, read from a file and proven here (format/plan_file.h); null: they
     * are made. It need not outlive the making of the engine. */
    const struct qn_saved_plan *saved_plan;
    /* Folder on a disk (not in memory) to whose file feature maps may go while they are not needed,
     * where that is cheaper than making them again; null: none. Copied. Its speed is measured at
     * its first use. The file has no name, so that nothing is left of it, and its space is reserved
     * at once. */
    const char *swap_folder;
    size_t swap_bytes; /* that the file may have; 0: as many as the disk has */
    /* qn_engine_set_budget may be called. Graphs are kept twice, and of a budget some memory is set
     * aside for planning while training goes on. */
    bool budget_changes;
    bool plan_later;     /* qn_engine_plan will be called, when all else has been allocated */
    bool aligned_inputs; /* all inputs are aligned to 64 bytes: no memory for copies of them */
} qn_engine_options;

typedef struct qn_program_options {
    const char *name; /* for messages and reports: "acting"; null: "training", "evaluation" */
    bool training;    /* batch norm and dropout as in training; the losses are minimised */
    /* A step may have several updates in turn (a discriminator's, then a generator's), a phase
     * each; later phases see the parameters that earlier ones have changed. 0: 1. */
    int n_phases;
    /* By phase, the parameters it changes: those whose names begin so; null: all that the loss
     * depends on. */
    const char *trained[QN_MAX_PHASES];
    void *user;
    /* Adds what a phase computes to the graph: declares inputs and labels (phase 0 only), marks
     * results with qn_result, and returns the loss, a scalar (QN_NO_VALUE where nothing is
     * trained). Values in kept are carried from phase to phase; all others are void in the next. */
    qn_value (*build)(qn_graph *graph, void *user, int phase, qn_value kept[QN_MAX_KEPT]);
} qn_program_options;

/* Builds and plans all programs and fills the parameters. The names of inputs and results, and
 * build, are not used after it returns. */
QN_API qn_status qn_engine_create(const qn_engine_options *options,
                                  const qn_program_options *programs, int n_programs,
                                  qn_engine **engine);
QN_API void qn_engine_destroy(qn_engine *engine);

/* Makes the plans of an engine that was made with plan_later and takes the rest of its memory.
 * outside_bytes: of the budget, what the caller holds besides the engine. QN_ERROR_MEMORY where the
 * budget cannot work, with the least that can. */
QN_API qn_status qn_engine_plan(qn_engine *engine, size_t outside_bytes);

/* The options in force, defaults filled in. */
QN_API const qn_engine_options *qn_engine_get_options(const qn_engine *engine);

/* Runs a program. inputs: what it declared with qn_input, qn_index_input and qn_label, in that
 * order (memory that is not aligned to 64 bytes is copied first). A training program updates the
 * parameters, or, where batches are accumulated, adds to the gradients and updates with the last of
 * them. A loss that is not finite is QN_ERROR_NUMERIC and names the step; a swap file that fails is
 * QN_ERROR_IO. The parameters are then of no use, since a step updates them while it runs: go on
 * from a checkpoint. */
QN_API qn_status qn_engine_run(qn_engine *engine, int program, const void *const *inputs);

/* A result of a program's last run, in the order of qn_result, and what it is. Its memory holds it
 * until the next run of any program. */
QN_API const void *qn_engine_result(const qn_engine *engine, int program, int index);
QN_API qn_shape qn_engine_result_shape(const qn_engine *engine, int program, int index);

/* What a program declared as inputs and labels. */
typedef struct qn_engine_input {
    const char *name;
    qn_dtype dtype;
    qn_shape shape;
    size_t bytes;
} qn_engine_input;

QN_API int qn_engine_input_count(const qn_engine *engine, int program);
QN_API qn_engine_input qn_engine_input_at(const qn_engine *engine, int program, int index);

/* Updates done so far, and batches accumulated for the next. */
QN_API int64_t qn_engine_steps(const qn_engine *engine);
QN_API int64_t qn_engine_accumulated(const qn_engine *engine);

/* Says that the tensors were filled as of so many steps (loading a checkpoint). */
QN_API void qn_engine_set_steps(qn_engine *engine, int64_t steps);

/* Learning rate of the next step. */
QN_API double qn_engine_rate(const qn_engine *engine);

/* A parameter, a piece of optimiser state, or state of a task's own (which a parameter whose name
 * begins with "task." is too: a target network's). */
typedef struct qn_stored_tensor {
    const char *name; /* "conv1.weight"; state: "optimizer.momentum.conv1.weight", "task.replay" */
    qn_dtype dtype;
    qn_shape shape;
    bool is_state;
    bool trainable;
    bool is_frozen; /* a parameter that no training program changes */
    bool is_head;   /* of the layer that makes the outputs, where tuning.head is given */
    void *data;
    size_t bytes;
} qn_stored_tensor;

QN_API int qn_engine_tensor_count(const qn_engine *engine);
QN_API qn_stored_tensor qn_engine_tensor_at(const qn_engine *engine, int index);

/* A tensor by name; data null: there is none. */
QN_API qn_stored_tensor qn_engine_find(const qn_engine *engine, const char *name);

/* Puts every adapter into its weight, W + alpha / rank * B A, and makes B zero: what the engine
 * computes stays the same, but for rounding. */
QN_API void qn_engine_merge_adapters(qn_engine *engine);

/* Memory of the caller's that checkpoints keep beside the optimiser's state: zeros, in memory of
 * the engine. The name begins with "task.". */
QN_API qn_status qn_engine_add_state(qn_engine *engine, const char *name, qn_dtype dtype,
                                     qn_shape shape, void **data);

typedef struct qn_memory_use {
    size_t held_bytes;      /* all that the engine's allocator holds */
    size_t peak_bytes;      /* and what it held at most */
    size_t mapped_bytes;    /* of an engine with budget_changes: its largest arena, whose pages come
                               from the system, not from the allocator; in both numbers above */
    size_t parameter_bytes; /* parameters and optimiser state */
    size_t arena_bytes;     /* the largest plan */
    size_t planned_bytes; /* of an engine that only plans: what one that runs would hold besides */
    size_t kind_bytes[7]; /* at the peak of the first program's plan: input, label, parameter,
                               gradient, state, feature map, workspace */
} qn_memory_use;

QN_API qn_memory_use qn_engine_get_memory(const qn_engine *engine);

/* What a budget costs, as foreseen when its plans were made. */
typedef struct qn_budget_use {
    size_t budget_bytes;  /* 0: none */
    size_t peak_bytes;    /* all that is held of it, outside bytes included */
    size_t planner_bytes; /* that planning held at most, besides what there was; gone since */
    int64_t planning_ns;
    int64_t n_operations, n_again; /* of the training programs; n_again of them run a second time */
    size_t swapped_bytes;          /* written to a file in a step, and read again */
    bool is_measured;              /* times of operations were, else they are estimated */
    int64_t micro_batch;           /* samples that a training program works on at a time; 0: all */
    double slowdown;               /* time of a step over that without a budget, at least 1 */
} qn_budget_use;

QN_API qn_budget_use qn_engine_get_budget(const qn_engine *engine);

/* What tuning came to. */
typedef struct qn_kernel_tuning_use {
    qn_kernel_tuning tune;
    int64_t n_products;          /* that can be cut otherwise: each shape once */
    int64_t n_known, n_measured; /* of them: found in the cache; measured now */
    int64_t n_cut;               /* of these: not cut by the fixed rules, which were slower */
    int64_t n_left;              /* that there was no time for */
    int64_t ns;
    size_t bytes;          /* that it took, and those of the table that stays; in the budget */
    bool is_over_budget;   /* nothing was done, since this would be too large a part of it */
    bool cache_is_damaged; /* what was kept is no such table, and was left out */
} qn_kernel_tuning_use;

QN_API qn_kernel_tuning_use qn_engine_get_kernel_tuning(const qn_engine *engine);

/* ---- budgets that change while programs run ---- */

/* What a change of the budget came to. */
typedef struct qn_budget_change {
    size_t from_bytes, to_bytes; /* the budgets; 0: none */
    int64_t step;                /* updates done before it */
    int64_t n_waited;            /* operations that ran before it was possible, or worth it */
    size_t kept_bytes;           /* of what the new plan needs there: were there */
    size_t moved_bytes;          /* copied inside the arena */
    int64_t n_again;             /* operations that ran again, for what was not there */
    double again_ns, restart_ns; /* estimated: theirs, and those of beginning the step anew */
    int64_t ns;                  /* that it took */
} qn_budget_change;

/* Changes the budget of an engine made with budget_changes; from any thread, also while a program
 * runs. Plans for it on the calling thread while training goes on, asks for the change, and
 * returns; the thread that runs programs makes it between two operations, at the first one at which
 * all that the new plan needs is there or can be made again from it: the step under way is not
 * lost, and bits stay equal. Less memory is given back at once, more is used as soon as that saves
 * more time than it costs, at the next run at the latest. While an engine is watched, changes wait.
 * A budget that cannot work is QN_ERROR_MEMORY with the least that can, and the one before stays.
 * 0: none. */
QN_API qn_status qn_engine_set_budget(qn_engine *engine, size_t bytes);

/* Calls changed after every change, on the thread that runs programs; null: no longer. */
QN_API void qn_engine_on_budget(qn_engine *engine,
                                void (*changed)(void *user, const qn_budget_change *change),
                                void *user);

/* The engine's allocator: counts towards peak_bytes. */
QN_API const qn_allocator *qn_engine_allocator(const qn_engine *engine);

/* Nodes of a program's plan as text, a step a line, for people; in memory of the engine. */
QN_API const char *qn_engine_print_plan(qn_engine *engine, int program);

#ifdef __cplusplus
}
#endif
#endif
