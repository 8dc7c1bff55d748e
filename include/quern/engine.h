/* The engine: programs over one set of parameters. A program is a graph with its plan, such as a
 * training step, an evaluation, the acting half of a Q-network, or one length of sentences. All
 * memory is allocated when the engine is created; running allocates nothing. For one build on one
 * instruction set, equal options and inputs give equal bits for any number of threads. The trainer
 * (trainer.h) is an engine for classifiers; tasks (task.h) consist of engines.
 *
 * Threads: one call at a time, except qn_engine_set_budget and functions that only read steps
 * and memory. */
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

/* The options of a model's recipe. */
QN_API qn_update_options qn_update_options_for(const qn_model *model);

/* How much time may be spent, when plans are made, on measuring which tiling of matrix products
 * is fastest on this machine: block sizes, memory access, distribution among threads. Results
 * are stored in the user's cache folder by machine and shape. Bits, plans and memory do not
 * depend on it (docs/tuning.md). */
typedef enum qn_kernel_tuning {
    QN_TUNE_OFF,   /* fixed rules by shape */
    QN_TUNE_QUICK, /* earlier results, and about two seconds for the slowest products */
    QN_TUNE_FULL,  /* all products without earlier results */
} qn_kernel_tuning;

/* Which operations run at the same time. Bits do not depend on it. */
typedef enum qn_cores_choice {
    QN_CORES_ONE_BY_ONE, /* one after another, each on all threads */
    QN_CORES_AUTO,       /* side by side where that is measured to be faster (docs/cores.md); begins
                            with the schedule in the cache folder, if one is kept */
    QN_CORES_MEASURED,   /* the same, measured anew */
    QN_CORES_LATER,      /* the same, in training's own steps, once so many have run that it costs
                            less than a fiftieth of their time; only schedules that need no larger
                            arena, and without a memory budget or ranks */
} qn_cores_choice;

/* What training programs make again instead of keeping it, where no budget decides. Bits do not
 * depend on it. */
typedef enum qn_recompute {
    QN_RECOMPUTE_USUAL,  /* as the task has it: of language models from files layers, else little */
    QN_RECOMPUTE_LITTLE, /* of large programs what takes next to no time */
    QN_RECOMPUTE_LAYERS, /* whole layers, right before their gradients: much less memory, up to half
                            as much time more; of programs whose feature maps are most of the
                            memory */
} qn_recompute;

/* What is to be least of a step: its time, its energy, or the product of the two. */
typedef enum qn_prefer { QN_PREFER_TIME, QN_PREFER_ENERGY, QN_PREFER_BALANCED } qn_prefer;

/* What device "auto" is chosen for. Watts: what a processor takes while it works, above those of
 * the idle machine; both are needed for energy. */
typedef struct qn_device_wish {
    qn_prefer prefer;
    double cpu_watts, device_watts, idle_watts;
} qn_device_wish;

/* What the ways of running over the cores are compared for, and a ceiling. Watts are a model: so
 * many of a core that works, above those of the idle machine; both for energy and for a ceiling. */
typedef struct qn_core_wish {
    qn_prefer prefer;
    double core_watts, idle_watts;
    double most_watts; /* no more threads than these allow; 0: no ceiling */
} qn_core_wish;

/* How an engine runs; part of the options of everything that creates one (trainer, task). All
 * fields 0 except size: the defaults. update and tuning never grow: new fields are added at the
 * end. */
typedef struct qn_engine_options {
    size_t size;                   /* QN_OPTIONS_INIT(qn_engine_options) */
    const qn_allocator *allocator; /* null: the C library's heap */
    qn_dtype real;                 /* QN_F32 (also for 0) or QN_F64 */
    qn_update_options update;
    qn_tuning tuning;
    bool no_dropout;     /* dropout layers pass their input through (checks against references) */
    int64_t micro_batch; /* samples that a training program processes at a time, a divisor of its
                            batch; 0: all, or as a budget requires. Equal bits in less memory;
                            refused if a sample's result depends on others (batch norm) */
    int n_threads;       /* 0: the processors available */
    uint64_t seed;
    /* Creates graphs and plans but allocates no parameters, optimiser state or arena: to inspect
     * plans that this device could not hold. Tensors have no data, and nothing can be run. */
    bool plan_only;
    bool no_fusion; /* operators as the network is written, for comparisons; equal bits */
    /* Rules that choose the algorithm of each convolution, as text (docs/rules.md). Results
     * depend on them as on the seed. Null: the built-in rules. Copied. */
    const char *rules;
    qn_kernel_tuning tune;
    /* Limit in bytes for all memory of the engine: parameters, gradients, optimiser state,
     * feature maps, workspace, graphs, plans, and planning; 0: no limit. If the default plan
     * needs more, batches are split or values are recomputed instead of kept: equal bits, more
     * time. */
    size_t memory_budget_bytes;
    bool no_least; /* refuse a budget that cannot work without searching the smallest that can */
    /* Plans of all programs from a file, verified on creation (format/plan_file.h); null: plans
     * are made. Only read while the engine is created. */
    const struct qn_saved_plan *saved_plan;
    /* Folder on a disk (not in memory) for a swap file, to which feature maps may go while they
     * are not needed, if that is cheaper than recomputing them; null: none. Copied. The disk's
     * speed is measured on first use. The file has no name, so nothing is left of it; its space
     * is reserved at once. */
    const char *swap_folder;
    size_t swap_bytes; /* limit of the swap file; 0: the free space of the disk */
    /* Allows qn_engine_set_budget. Graphs are kept twice, and part of a budget is reserved for
     * planning during training. */
    bool budget_changes;
    bool plan_later;       /* qn_engine_plan will be called after everything else is allocated */
    bool aligned_inputs;   /* all inputs are aligned to 64 bytes: saves the memory for copies */
    bool no_random_values; /* random initial values are replaced by zeros: the caller loads all
                              parameters */
    /* Types, scales and rounding of integer or mixed-precision training (quern/numerics.h); null:
     * all in the real type. Only read while the engine is created. */
    const struct qn_numerics *numerics;
    /* What computes: "cpu" (also for null), "opencl", "opencl:N", "cuda", "cuda:N" or
     * "hexagon:emulated" (quern devices lists them), or "auto": the CPU, the first GPU, or both,
     * whichever has the best steps (device_wish) when plans are made; what it came to is a name
     * with a placement, which repeats it ("opencl/h12d30"). hexagon:emulated is placed likewise,
     * by what it counts; ":N" lets N works stay prepared there, "/all" gives it all that it can do.
     * What the device lacks, and every update, runs on the CPU. Results depend on the device as on
     * the seed. Only read while the engine is created. */
    const char *device;
    const qn_log *log;     /* told when a device is lost; null: nobody */
    qn_cores_choice cores; /* of the first training program; not with budget_changes or a swap file
                              in use. Needs memory for a second plan; never above the budget */
    /* The processes of one mpirun that train together (os/ranks.h): each runs its share of the
     * update.accumulate batches of a step, with the bits of one process that runs them all. Null:
     * this process alone. It must outlive the engine. */
    struct qn_ranks *ranks;
    qn_device_wish device_wish; /* of devices that are chosen; all 0: the fastest steps */
    /* Frames a second of somebody who draws with the same device: its work is cut into pieces of
     * an eighth of a frame, at most 4 ms, with pauses. 0: nobody. */
    double foreground_hz;
    qn_core_wish core_wish; /* of cores; its ceiling holds for all choices */
    /* This machine's cores as quern devices --calibrate measured them (plan/schedule/cores.h), for
     * predictions; null: typical ones. Only read while the engine is created. */
    const struct qn_cores *core_facts;
    /* Which layers, and which part of their weights, are trained: "weights=1,biases=4,conv2=0.25"
     * trains the last layer's weight, the biases of the last four, and a quarter of the input
     * channels of conv2's weight (docs/fine-tuning.md). Null: as tuning or numerics say. Only read
     * while the engine is created. */
    const char *sparse_update;
    qn_recompute recompute;
} qn_engine_options;

typedef struct qn_program_options {
    size_t size;      /* QN_OPTIONS_INIT(qn_program_options); the same in all of an array */
    const char *name; /* for messages and reports; null: "training" or "evaluation" */
    bool training;    /* batch norm and dropout behave as in training; the losses are minimised */
    /* A step may have several updates in turn (a discriminator's, then a generator's), one per
     * phase; later phases see parameters that earlier ones changed. 0: 1. */
    int n_phases;
    /* For each phase, the parameters it changes: those whose names begin with this; null: all
     * that the loss depends on. */
    const char *trained[QN_MAX_PHASES];
    void *user;
    /* Adds a phase to the graph: declares inputs and labels (phase 0 only), marks results with
     * qn_result, and returns the loss, a scalar (QN_NO_VALUE if nothing is trained). Values in
     * kept are passed from phase to phase; all others are invalid in the next. */
    qn_value (*build)(qn_graph *graph, void *user, int phase, qn_value kept[QN_MAX_KEPT]);
    bool may_train_nothing; /* the losses may depend on no trainable parameter */
    /* Keeps what the numerics say of int8 values until after a run, for qn_onnx_export. */
    bool shows_types;
} qn_program_options;

/* Builds and plans all programs and initialises the parameters. The names of inputs and results,
 * and build, are not used afterwards. */
QN_API qn_status qn_engine_create(const qn_engine_options *options,
                                  const qn_program_options *programs, int n_programs,
                                  qn_engine **engine);
QN_API void qn_engine_destroy(qn_engine *engine);

/* Makes the plans of an engine created with plan_later and allocates the rest of its memory.
 * outside_bytes: the part of the budget that the caller uses outside the engine. QN_ERROR_MEMORY
 * if the budget cannot work; the message names the smallest that can. */
QN_API qn_status qn_engine_plan(qn_engine *engine, size_t outside_bytes);

/* The options in force, defaults filled in. */
QN_API const qn_engine_options *qn_engine_get_options(const qn_engine *engine);

/* Runs a program. inputs: what it declared with qn_input, qn_index_input and qn_label, in that
 * order (memory that is not aligned to 64 bytes is copied first). A training program updates the
 * parameters or, with accumulation, adds to the gradients and updates with the last batch. NaN in
 * an input of a training program is QN_ERROR_ARGUMENT and changes nothing: another batch may
 * follow. A loss or a gradient that is not finite is QN_ERROR_NUMERIC, names the step and the
 * parameter, never gets into parameters, and changes nothing: of a step of several batches it may
 * give up all (qn_engine_accumulated). It is found too late in phases behind the first, where a
 * gradient comes to overflow from numbers below 2^60 after some updates were made (all parameters
 * stay finite), and on a device, whose updates are not looked at. As after a failing swap file
 * (QN_ERROR_IO) qn_engine_is_sound says so: continue from a checkpoint. Ranks end all at once, with
 * the parameters from before the step. */
QN_API qn_status qn_engine_run(qn_engine *engine, int program, const void *const *inputs);

/* A result of a program's last run, by the order of qn_result, and its shape. Valid until the
 * next run of any program. */
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

/* Whether the parameters are those after qn_engine_steps, and finite: false after a training
 * program failed when it had already changed some, or because some are no numbers, until a
 * checkpoint is loaded. */
QN_API bool qn_engine_is_sound(const qn_engine *engine);

/* Sets the number of steps after the tensors were filled from a checkpoint. */
QN_API void qn_engine_set_steps(qn_engine *engine, int64_t steps);

/* Learning rate of the next step; and whether there is a parameter that the optimiser changes by it
 * (not where all are integers, and "update" of the numerics is "subtract"). */
QN_API double qn_engine_rate(const qn_engine *engine);
QN_API bool qn_engine_has_rate(const qn_engine *engine);

/* A parameter, a piece of optimiser state, or a task's own state (including parameters whose
 * name begins with "task.", such as a target network's). */
typedef struct qn_stored_tensor {
    const char *name; /* "conv1.weight"; state: "optimizer.momentum.conv1.weight", "task.replay" */
    qn_dtype dtype;
    qn_shape shape;
    bool is_state;
    bool trainable;
    bool is_frozen; /* a parameter that no training program changes */
    bool is_head;   /* of the output layer, if tuning.head is given */
    void *data;
    size_t bytes;
} qn_stored_tensor;

/* What the tensors hold may lie in a device's memory from step to step: these two functions read it
 * back. What `data` points to is up to date, and may be changed, until the next run. */
QN_API int qn_engine_tensor_count(const qn_engine *engine);
QN_API qn_stored_tensor qn_engine_tensor_at(const qn_engine *engine, int index);

/* A tensor by name; data null: there is none. */
QN_API qn_stored_tensor qn_engine_find(const qn_engine *engine, const char *name);

/* Merges every adapter into its weight, W + alpha / rank * B A, and sets B to zero: the network
 * computes the same, except for rounding. */
QN_API void qn_engine_merge_adapters(qn_engine *engine);

/* State of the caller that checkpoints store beside the optimiser's: zero-initialised memory
 * owned by the engine; null if the engine only plans. The name begins with "task.". */
QN_API qn_status qn_engine_add_state(qn_engine *engine, const char *name, qn_dtype dtype,
                                     qn_shape shape, void **data);

typedef struct qn_memory_use {
    size_t held_bytes;      /* all that the engine's allocator holds */
    size_t peak_bytes;      /* and its maximum so far */
    size_t mapped_bytes;    /* with budget_changes: the largest arena, whose pages come from the
                               system, not from the allocator; included in both numbers above */
    size_t parameter_bytes; /* parameters and optimiser state */
    size_t arena_bytes;     /* the largest plan */
    size_t planned_bytes;   /* with plan_only: what a running engine would hold in addition */
    size_t kind_bytes[7];   /* at the peak of the first program's plan: input, label, parameter,
                               gradient, state, feature map, workspace */
} qn_memory_use;

QN_API qn_memory_use qn_engine_get_memory(const qn_engine *engine);

/* The predicted cost of a budget, from when the plans were made. */
typedef struct qn_budget_use {
    size_t budget_bytes;  /* 0: none */
    size_t peak_bytes;    /* all memory used, including outside_bytes */
    size_t planner_bytes; /* peak memory of planning itself, since released */
    int64_t planning_ns;
    int64_t n_operations, n_again; /* of the training programs; n_again of them run a second time */
    size_t swapped_bytes;          /* written to a file in a step, and read again */
    bool is_measured;              /* times of operations were, else they are estimated */
    int64_t micro_batch;           /* samples that a training program works on at a time; 0: all */
    double slowdown;               /* time of a step over that without a budget, at least 1 */
} qn_budget_use;

QN_API qn_budget_use qn_engine_get_budget(const qn_engine *engine);

/* Results of tuning. */
typedef struct qn_kernel_tuning_use {
    qn_kernel_tuning tune;
    int64_t n_products;          /* distinct products that can be tuned */
    int64_t n_known, n_measured; /* of them: found in the cache; measured in this run */
    int64_t n_tiled;             /* of these: tiled differently from the fixed rules, because
                                    that was faster */
    int64_t n_left;              /* left for a later run */
    int64_t ns;
    size_t bytes;          /* that it took, and those of the table that stays; in the budget */
    bool is_over_budget;   /* skipped: it would take too large a part of the budget */
    bool cache_is_damaged; /* the cache file was invalid and ignored */
} qn_kernel_tuning_use;

QN_API qn_kernel_tuning_use qn_engine_get_kernel_tuning(const qn_engine *engine);

/* A way of running steps, as the first steps of training compared them. */
typedef struct qn_core_point {
    int n_threads;
    bool is_beside; /* operations side by side */
    double ns;      /* of a step, the median */
    double joules;  /* by core_wish; 0: unknown */
} qn_core_point;

enum { QN_CORE_POINTS = 6 };

/* What came of QN_CORES_AUTO. Times are of a step of the first training program. */
typedef struct qn_cores_use {
    int n_cores;         /* 0: nothing was tried */
    bool is_beside;      /* operations run side by side now */
    bool is_measured;    /* steps by both plans were compared; is_beside follows from that and from
                            later comparisons */
    bool is_over_budget; /* the second plan's arena is too large */
    int32_t n_operations, n_measured;   /* of the step; of them timed */
    int32_t n_narrow, n_beside;         /* on fewer than all cores; that another core than the first
                                         leads */
    double median_error, most_errors;   /* of times predicted from other shapes, relative: half and
                                         nine tenths are below */
    double one_by_one_ns, predicted_ns; /* predicted by the same times: all cores for each; as
                                           scheduled, which is never more */
    double measured_gain;               /* time one by one over that side by side, by their medians
                                           in the first steps */
    int64_t measuring_ns, planning_ns;  /* of n_profiled steps; of schedules and their plans */
    size_t usual_arena_bytes, arena_bytes; /* of the plan one by one, and of the other */
    int n_changes;      /* times that another way of running steps became the fastest later */
    int n_threads_used; /* of an operation at most, now */
    double bound_ns;    /* no schedule is faster: each operation on one core, all cores busy */
    double rehearsed_usual_ns, rehearsed_ns; /* shortest step by each before training */
    double uncorrected_one_by_one_ns; /* predicted by the times before schedules corrected them */
    int n_profiled;                   /* steps that were measured before training */
    bool is_cached;                   /* the schedule was in the cache folder */
    int n_points;                     /* 0: not compared yet */
    qn_core_point points[QN_CORE_POINTS]; /* (n_points) */
} qn_cores_use;

QN_API qn_cores_use qn_engine_get_cores(const qn_engine *engine);

/* ---- budgets that change while programs run ---- */

/* Report of a budget change. */
typedef struct qn_budget_change {
    size_t from_bytes, to_bytes; /* the budgets; 0: none */
    int64_t step;                /* updates done before it */
    int64_t n_waited;            /* operations that ran before the change was possible or
                                    worthwhile */
    size_t kept_bytes;           /* data that the new plan needs and that was still in place */
    size_t moved_bytes;          /* copied inside the arena */
    int64_t n_again;             /* operations that were repeated for missing data */
    double again_ns, restart_ns; /* estimated time: of these; of restarting the step */
    int64_t ns;                  /* that it took */
} qn_budget_change;

/* Changes the budget of an engine created with budget_changes, from any thread, also while a
 * program runs. Plans on the calling thread while training continues, requests the change, and
 * returns. The thread that runs programs switches between two operations, at the first one where
 * everything that the new plan needs is available or can be recomputed: the current step is not
 * lost, and bits stay equal. Less memory is released at once; more is used as soon as that saves
 * more time than it costs, at the latest with the next run. While an engine is watched, changes
 * wait. A budget that cannot work is QN_ERROR_MEMORY, naming the smallest that can, and the
 * previous one stays. 0: no limit. */
QN_API qn_status qn_engine_set_budget(qn_engine *engine, size_t bytes);

/* Calls changed after every change, on the thread that runs programs; null stops it. */
QN_API void qn_engine_on_budget(qn_engine *engine,
                                void (*changed)(void *user, const qn_budget_change *change),
                                void *user);

/* The engine's allocator: counts towards peak_bytes. */
QN_API const qn_allocator *qn_engine_allocator(const qn_engine *engine);

/* A program's plan as readable text, one step per line; owned by the engine. */
QN_API const char *qn_engine_print_plan(qn_engine *engine, int program);

#ifdef __cplusplus
}
#endif
#endif
