/* The engine's internals, for the files of this folder: the programs, what they run over, and how
 * they are planned. What else an engine can do are policies (run/policy.h), which it calls without
 * knowing them. */
#ifndef QN_RUN_ENGINE_H
#define QN_RUN_ENGINE_H

#include "device/machine.h"
#include "os/team.h"
#include "run/program.h"
#include "run/watch.h"

/* The policies, by number: QN_POLICY_RULES, ... (run/policies.def). */
#define QN_POLICY(id, name)     QN_POLICY_##name,
#define QN_MPI_POLICY(id, name) QN_POLICY_##name,
enum {
#include "run/policies.def"
    QN_POLICIES
};
#undef QN_POLICY
#undef QN_MPI_POLICY

/* A text that is printed once and kept. */
typedef struct qn_engine_text {
    char *to;
    size_t bytes, full_bytes; /* full_bytes counts on when there is no room */
} qn_engine_text;

/* Memory of runs, and what is known of memory that the counter does not count. */
typedef struct qn_engine_memory {
    void *arena;
    size_t arena_bytes;
    void *update_arena; /* of its own: results of the batch before it outlive the update */
    void *hyper;        /* (QN_HYPER_COUNT) */
    char *copies;       /* (copy_bytes): of inputs that are not aligned, one behind the other */
    size_t copy_bytes;
    size_t planned_bytes; /* that were left out, as nothing is to be run */
    size_t mapped_bytes;  /* most so far of the system's or a device's, not the allocator's */
    size_t shared_bytes;  /* now, of the device's */
    size_t outside_bytes; /* of the budget, that others hold */
} qn_engine_memory;

/* How the plans were made. */
typedef struct qn_engine_planning {
    bool is_done;
    bool is_within; /* now, with sequences kept that the counter does not count */
    int64_t ns;
    size_t noted_bytes;   /* that were held at most before the plans, by others too */
    size_t planner_bytes; /* that planning held at most, besides the rest */
    qn_engine_text text;
} qn_engine_planning;

/* What run/guard keeps of tensors of the store while a step may be given up: tensor: its index; at:
 * offset of its copy. Copies (bytes) are null where the engine only plans. */
typedef struct qn_guarded {
    int tensor;
    size_t at;
} qn_guarded;

typedef struct qn_guard {
    int n;
    size_t capacity, bytes;
    qn_guarded *kept;  /* (capacity), n used */
    char *copies;      /* (bytes): before a batch */
    char *step_copies; /* (bytes): before the first batch of a step; null: a step has one */
    bool is_on;
    bool is_undecided; /* the batch that runs has changed nothing that lasts yet */
    /* Why a batch is tried out before it changes anything: large numbers, in its inputs, in the
     * gradients before, or in parameters, which are looked at where others may have written. */
    bool has_large_inputs, has_large_gradients, is_unseen;
    qn_finite_check check; /* of the batch that runs, or of the last one */
} qn_guard;

/* Where training is, and who looks on. */
typedef struct qn_engine_progress {
    int64_t steps, n_accumulated;
    bool is_spoiled;       /* a training program has failed, with parameters half changed */
    bool refuses_infinite; /* in inputs of training; else NaN alone: masks hold infinity */
    int n_forks;           /* qn_fork_count when the engine was made */
    int n_team_threads, most_threads; /* of a limit; 0: none was ever set */
    qn_events *events;                /* where runs are recorded, or null */
    const int *stop;                  /* qn_engine_stop_on */
    bool may_spoil;                   /* likewise */
} qn_engine_progress;

/* Invariants: 0 <= run.n_accumulated < options.update.accumulate; every program's outside values
 * are bound to store, sums, memory.hyper or, during a run, to its inputs. */
struct qn_engine {
    qn_counter counter;
    qn_allocator allocator; /* counts in counter */
    qn_allocator shared;    /* counts there, too: of what operations read and write, which a device
                               may work in (run/shared.c) */
    qn_engine_options options;
    qn_team *team;
    qn_machine machine; /* with the tables of policies, where there are any */
    qn_store store;     /* parameters and state */
    qn_store sums;      /* of gradients, where batches are accumulated */
    int n_programs;
    qn_program *programs; /* (n_programs) */
    qn_program update;    /* from the sums */
    qn_engine_memory memory;
    qn_engine_planning planning;
    qn_engine_progress run;
    qn_guard guard;
    void *policies[QN_POLICIES]; /* their states; null: not in use */
};

/* QN_ERROR_NUMERIC: a loss of the run that has come so far is not finite. */
qn_status qn_engine_check_loss(const qn_engine *engine, const qn_program *program, int loss);

/* An executor for a program's plan, bound to what the engine holds; its arena is set later. */
qn_status qn_engine_make_executor(qn_engine *engine, qn_program *program);

/* Plans all programs and makes their executors: without a budget each as it is, else so that all
 * that the engine holds, the arena of memory.arena_bytes to come, and memory.outside_bytes keep
 * within it. QN_ERROR_MEMORY says the least budget that does. */
qn_status qn_engine_make_plans(qn_engine *engine);

/* The allocator of memory that operations read and write; and whether that is the device's, too. */
qn_allocator qn_engine_shared(qn_engine *engine);
bool qn_engine_shares(const qn_engine *engine);

/* Tells the engine's log, if there is one. */
void qn_engine_tell(const qn_engine *engine, int level, const char *text);

#endif
