/* The policy of a device beside the CPU: programs run on it with all that it supports, or where a
 * placement says (run/placing). Parameters stay there between steps where they can (run/resident).
 * A device that is lost is left, and the step is run again on the CPU. */
#ifndef QN_RUN_OFFLOAD_H
#define QN_RUN_OFFLOAD_H

#include "driver/driver.h"
#include "run/engine.h"
#include "run/inspect.h"
#include "run/placing/placed.h"

struct qn_device_choice;
struct qn_resident;

/* Every engine has one; that of the CPU alone has no device. */
typedef struct qn_offload {
    const qn_driver *driver; /* of the device, and its number; null: the CPU alone */
    int number;
    qn_placed placed; /* of the first program that trains */
    char *name;       /* (name_bytes): all three as a text, of the options */
    size_t name_bytes;
    int device;       /* row of the machine's that programs use beside the CPU; 0: none */
    int opened;       /* the same, which stays when the device is left */
    bool is_tried;    /* it is used only if that is better */
    void *left_arena; /* (left_arena_bytes): that a device may still write to, or null */
    size_t left_arena_bytes;
    struct qn_resident *resident;    /* what stays on the device; null: no device yet */
    struct qn_device_choice *choice; /* what was found when it was tried, or null */
} qn_offload;

static inline qn_offload *qn_offload_of(const qn_engine *engine) {
    return engine->policies[QN_POLICY_OFFLOAD];
}

/* The row of the machine's devices that programs use; 0: none. */
static inline int qn_engine_device(const qn_engine *engine) {
    const qn_offload *offload = qn_offload_of(engine);
    return offload ? offload->device : 0;
}

/* The device that was opened, also after it was left; the CPU: none was. */
static inline const qn_machine_device *qn_offload_opened(const qn_engine *engine) {
    const qn_offload *offload = qn_offload_of(engine);
    return &engine->machine.devices[offload ? offload->opened : 0];
}

/* Plans a program with all that the device supports, or what is placed there, on it. */
qn_status qn_engine_plan_device(qn_engine *engine, qn_program *program);

/* The lanes: the CPU's and the device's; the node and the value of a graph that each of its
 * partition's is (copies are none); and where a graph's values from outside lie. */
void qn_engine_fill_lanes(const qn_engine *engine, qn_lane lanes[2]);
struct qn_partition;
qn_status qn_engine_find_origins(const qn_graph *graph, const struct qn_partition *partition,
                                 qn_origins *origins);
void qn_engine_fill_space_of(const qn_engine *engine, const qn_graph *graph, int16_t *space_of);

/* The lane of each node of a program that is not planned: 1: the device. */
qn_status qn_engine_fill_lane_of(const qn_engine *engine, const qn_program *program,
                                 int16_t *lane_of);

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

/* "opencl (NAME)", and why it was lost. */
void qn_engine_describe_device(const qn_engine *engine, char name[160], char reason[200]);

/* Notes where a program's nodes run now, in how many pieces of the batch (null: all that the device
 * can), and names it in the options, for a run that goes on; or that the CPU alone runs all. */
qn_status qn_engine_note_placed(qn_engine *engine, const qn_program *placed);
qn_status qn_engine_note_cpu(qn_engine *engine);

/* Where the device is only tried: measures a step on it, on the CPU and on both, and takes the best
 * (run/placing/comparison.h). */
qn_status qn_engine_choose_device(qn_engine *engine);

#endif
