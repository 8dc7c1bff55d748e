/* The CPU, a device and both at once, compared by steps that are measured before training, and what
 * was found. Energy is not measured: it is what the planner predicts from the watts that were
 * given, for the time that was measured. Beside a device that is emulated nothing is measured but
 * what it counts: the CPU's times are its model's, and steps are those that the planner predicts.
 */
#ifndef QN_RUN_PLACING_COMPARISON_H
#define QN_RUN_PLACING_COMPARISON_H

#include "run/placing/placing.h"

/* Pieces: both, with the batch in pieces of which each works on some. */
typedef enum qn_device_mode {
    QN_DEVICE_MODE_CPU,
    QN_DEVICE_MODE_DEVICE,
    QN_DEVICE_MODE_BOTH,
    QN_DEVICE_MODE_PIECES,
    QN_DEVICE_MODES
} qn_device_mode;

typedef struct qn_device_mode_cost {
    bool is_measured;              /* or modelled: it can be chosen */
    double ns;                     /* shortest step */
    double joules;                 /* of a step; 0 where no watts are known */
    qn_placement_result predicted; /* n_nodes of nodes that have a choice are those of site_of */
} qn_device_mode_cost;

/* Kept by the engine. Nodes are those of a program's graph as built. */
typedef struct qn_device_choice {
    char name[160], reason[200];  /* of the device; why it failed, or "" */
    const qn_device_model *model; /* null: all was measured */
    qn_device_wish wish;          /* with the model's watts where none were given */
    int program;
    int32_t n_nodes;
    double *ns;       /* (n_nodes, 2): on the CPU, on the device; below 0: not seen there */
    int16_t *site_of; /* (n_nodes): predicted to be best: 1: the device */
    qn_placing_copies in, out;
    qn_device_mode_cost modes[QN_DEVICE_MODES];
    qn_device_mode chosen;
    int64_t pieces;  /* that the batch is in, where that was chosen; else 0 */
    bool has_failed; /* the device, when it was measured */
} qn_device_choice;

/* What was found when the device was chosen; null: there was nothing to choose. */
const qn_device_choice *qn_engine_device_choice(const qn_engine *engine);
void qn_device_choice_destroy(qn_engine *engine);

#endif
