/* The engine: programs over one set of parameters. A program is a graph with its plan: a training
 * step, an evaluation, the acting half of a Q-network, one length of sentences. All memory is taken
 * when the engine is made; a run allocates nothing. For one build on one instruction set, equal
 * options and inputs give equal bits, whatever the number of threads. The trainer (trainer.h) is an
 * engine for classifiers; tasks (task.h) are made of engines. */
#ifndef QUERN_ENGINE_H
#define QUERN_ENGINE_H

#include "quern/model.h"

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

typedef struct qn_engine_options {
    const qn_allocator *allocator; /* null: the C library's heap */
    qn_dtype real;                 /* QN_F32 (also for 0) or QN_F64 */
    qn_update_options update;
    bool no_dropout; /* dropout layers pass their input through (checks against references) */
    int n_threads;   /* 0: the processors available */
    uint64_t seed;
} qn_engine_options;

typedef struct qn_program_options {
    const char *name; /* for messages: "training" */
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

/* The options in force, defaults filled in. */
QN_API const qn_engine_options *qn_engine_get_options(const qn_engine *engine);

/* Runs a program. inputs: what it declared with qn_input, qn_index_input and qn_label, in that
 * order (memory that is not aligned to 64 bytes is copied first). A training program updates the
 * parameters, or, where batches are accumulated, adds to the gradients and updates with the last of
 * them. A loss that is not finite is QN_ERROR_NUMERIC and names the step; the parameters are then
 * of no use. */
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
    void *data;
    size_t bytes;
} qn_stored_tensor;

QN_API int qn_engine_tensor_count(const qn_engine *engine);
QN_API qn_stored_tensor qn_engine_tensor_at(const qn_engine *engine, int index);

/* A tensor by name; data null: there is none. */
QN_API qn_stored_tensor qn_engine_find(const qn_engine *engine, const char *name);

/* Memory of the caller's that checkpoints keep beside the optimiser's state: zeros, in memory of the
 * engine. The name begins with "task.". */
QN_API qn_status qn_engine_add_state(qn_engine *engine, const char *name, qn_dtype dtype,
                                     qn_shape shape, void **data);

typedef struct qn_memory_use {
    size_t peak_bytes;      /* all that the engine's allocator held at most */
    size_t parameter_bytes; /* parameters and optimiser state */
    size_t arena_bytes;     /* the largest plan */
    size_t kind_bytes[7];   /* at the peak of the first program's plan: input, label, parameter,
                               gradient, state, feature map, workspace */
} qn_memory_use;

QN_API qn_memory_use qn_engine_get_memory(const qn_engine *engine);

/* The engine's allocator: counts towards peak_bytes. */
QN_API const qn_allocator *qn_engine_allocator(const qn_engine *engine);

/* Nodes of a program's plan as text, a step a line, for people; in memory of the engine. */
QN_API const char *qn_engine_print_plan(qn_engine *engine, int program);

#ifdef __cplusplus
}
#endif
#endif
