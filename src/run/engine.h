/* The engine's internals, for the files of this folder: its contents, and how its programs are
 * planned. */
#ifndef QN_RUN_ENGINE_H
#define QN_RUN_ENGINE_H

#include "device/machine.h"
#include "kernels/rules.h"
#include "os/team.h"
#include "run/program.h"
#include "run/watch.h"

/* A text that is printed once and kept. */
typedef struct qn_engine_text {
    char *to;
    size_t bytes, full_bytes; /* full_bytes counts on when there is no room */
} qn_engine_text;

/* A user's rules, and the kernels that go by them. */
typedef struct qn_ruled {
    qn_kernels kernels;
    qn_rules rules;
    qn_rule rows[QN_MAX_RULES];
    uint64_t hash; /* of their text */
} qn_ruled;

struct qn_live_budget;
struct qn_reducer;
struct qn_resident;
struct qn_tuner;
struct qn_core_plans;

/* Invariants: 0 <= n_accumulated < options.update.accumulate; every program's outside values are
 * bound to store, sums, hyper or, during a run, to its inputs. */
struct qn_engine {
    qn_counter counter;
    qn_allocator allocator; /* counts in counter */
    qn_allocator shared;    /* counts there, too: of what operations read and write, which a device
                               may work in (run/shared.c) */
    qn_engine_options options;
    qn_team *team;
    qn_machine machine;     /* with the tables below, where there are any */
    qn_ruled *ruled;        /* where they go by a user's rules, or null */
    struct qn_tuner *tuner; /* where they are tiled as this machine likes it, or null */
    qn_store store;         /* parameters and state */
    qn_store sums;          /* of gradients, where batches are accumulated */
    int n_programs;
    qn_program *programs; /* (n_programs) */
    qn_program update;    /* from the sums */
    void *arena;
    size_t arena_bytes;
    size_t mapped_bytes;  /* most so far of the system's or a device's, not the allocator's */
    size_t shared_bytes;  /* now, of the device's */
    size_t outside_bytes; /* of the budget, that others hold */
    size_t noted_bytes;   /* that were held at most before the plans, by others too */
    size_t planner_bytes; /* that planning held at most, besides the rest */
    int64_t planning_ns;
    void *update_arena; /* of its own: results of the batch before it outlive the update */
    void *hyper;        /* (QN_HYPER_COUNT) */
    char *copies;       /* of inputs that are not aligned, one behind the other */
    size_t copy_bytes;
    size_t planned_bytes; /* that were left out, as nothing is to be run */
    int64_t steps, n_accumulated;
    int n_forks; /* qn_fork_count when it was made */
    bool is_planned;
    bool is_spoiled;       /* a training program has failed, with parameters half changed */
    bool refuses_infinite; /* in inputs of training; else NaN alone: masks hold infinity */
    bool plans_within;     /* now, with sequences kept that the counter does not count */
    qn_events *timing;     /* memory to measure operations in, or null */
    qn_events *events;     /* where runs are recorded, or null */
    const int *stop;       /* qn_engine_stop_on */
    char *swap_folder;     /* (swap_folder_bytes), or null */
    size_t swap_folder_bytes;
    qn_swap_speed swap_speed;           /* of the folder */
    struct qn_live_budget *live_budget; /* null: the budget is fixed */
    char *device_name; /* (device_name_bytes), of the options: "opencl:1/h3d20": of which nodes */
    size_t device_name_bytes;
    int device;        /* row of the machine's that programs use beside the CPU; 0: none */
    int opened_device; /* the same, which stays when the device is left */
    void *left_arena;  /* (left_arena_bytes): that a device may still write to, or null */
    size_t left_arena_bytes;
    bool is_device_tried;                   /* it is used only if that is better */
    struct qn_resident *resident;           /* what stays on the device; null: no device yet */
    struct qn_device_choice *device_choice; /* what was found then, or null */
    struct qn_core_plans *cores;            /* null: operations run one by one */
    int n_team_threads, most_threads;       /* of a limit; 0: none was ever set */
    struct qn_reducer *reducer;             /* where ranks share the steps, or null */
    qn_engine_text plan_text;
};

/* A program by its number, or the update program, whose graph is null where there is none. */
const qn_program *qn_engine_get_program(const qn_engine *engine, int program);

/* From the next run on no more than n threads work; what has more lanes than that runs one by one.
 * The same bits. */
void qn_engine_limit_threads(qn_engine *engine, int n);

/* An executor for a program's plan, bound to what the engine holds; its arena is set later. */
qn_status qn_engine_make_executor(qn_engine *engine, qn_program *program);

/* Says that so much of the budget was held at some time before the plans: reading data. */
void qn_engine_note_peak(qn_engine *engine, size_t bytes);

/* Plans all programs and makes their executors: without a budget each as it is, else so that all
 * that the engine holds, the arena of arena_bytes to come, and outside_bytes keep within it.
 * QN_ERROR_MEMORY says the least budget that does. */
qn_status qn_engine_make_plans(qn_engine *engine);

/* Takes the plans of options.saved_plan for the programs; which is forgotten then. */
qn_status qn_engine_take_saved(qn_engine *engine);

/* A further device: opens what the options name; plans a program with all that the device supports
 * on it; opens the lanes for that. */
qn_status qn_engine_open_device(qn_engine *engine);
qn_status qn_engine_plan_device(qn_engine *engine, qn_program *program);
qn_status qn_engine_open_device_lanes(qn_engine *engine);

/* The allocator of memory that operations read and write; and whether that is the device's, too. */
qn_allocator qn_engine_shared(qn_engine *engine);
bool qn_engine_shares(const qn_engine *engine);

/* The lanes: the CPU's and the device's; the node and the value of a graph that each of its
 * spread's is (copies are none); and where a graph's values from outside lie. */
void qn_engine_fill_lanes(const qn_engine *engine, qn_lane lanes[2]);
struct qn_spread;
qn_status qn_engine_find_origins(const qn_graph *graph, const struct qn_spread *spread,
                                 qn_origins *origins);
void qn_engine_fill_space_of(const qn_engine *engine, const qn_graph *graph, int16_t *space_of);

/* The lane of each node of a program that is not planned: 1: the device. */
qn_status qn_engine_fill_lane_of(const qn_engine *engine, const qn_program *program,
                                 int16_t *lane_of);
void qn_engine_close_device(qn_engine *engine);

/* Plans all programs for the CPU alone, after the device was lost, makes the runs again that were
 * kept (run/resident), and says so; or after it was lost while a program ran, which is to be run
 * again: its inputs stay bound. */
qn_status qn_engine_leave_device(qn_engine *engine);
qn_status qn_engine_lose_device(qn_engine *engine, int program);

/* Plans all programs anew, with a device (0: none), in an arena of their size. Where that fails
 * nothing can be run any more. */
qn_status qn_engine_change_device(qn_engine *engine, int device);

/* The same with a program's batch in so many pieces for several processors (0: whole), and where
 * its nodes then run (null: all that it can on the device). */
qn_status qn_engine_change_pieces(qn_engine *engine, qn_program *program, int64_t pieces,
                                  int16_t *site_of, int device);

/* Pieces of the batch that the device's name says, of the first program that trains; 1: none. */
int64_t qn_engine_named_pieces(const qn_engine *engine);

/* "opencl (NAME)", and why it was lost. */
void qn_engine_describe_device(const qn_engine *engine, char name[160], char reason[200]);

/* Whether such a device (of the options) is one of which the engine finds out what it does best:
 * then its name says more afterwards. */
bool qn_device_is_chosen(const char *device);

/* A text of the engine's own for that of the options, which is not kept: of a device, and where it
 * runs which nodes of a program (null: all that it can), in how many pieces of the batch. */
qn_status qn_engine_name_device(qn_engine *engine, const char *device, const qn_program *placed);

/* Tells the engine's log, if there is one. */
void qn_engine_tell(const qn_engine *engine, int level, const char *text);

/* Where the device is only tried: measures a step on it, on the CPU and on both, and takes the best
 * (run/placing/comparison.h). */
qn_status qn_engine_choose_device(qn_engine *engine);

/* Swapping: keeps a folder (null: none) among the options; adds a disk to the machine; measures the
 * folder before planning; and opens the disk and the lanes that the plans need, which takes so much
 * memory. Close: when the executors are gone. */
qn_status qn_engine_name_swap(qn_engine *engine, const char *folder);
qn_status qn_engine_measure_swap(qn_engine *engine);
size_t qn_engine_swap_memory(const qn_engine *engine);
qn_status qn_engine_add_disk(qn_engine *engine);
qn_status qn_engine_open_swap(qn_engine *engine);
void qn_engine_close_swap(qn_engine *engine);

#endif
