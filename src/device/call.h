/* A node about to run, as devices receive it. */
#ifndef QN_DEVICE_CALL_H
#define QN_DEVICE_CALL_H

#include "graph/graph.h"
#include "kernels/kernels.h"

struct qn_cpu_operator;

/* What the updates of a step have found of the numbers that must be finite (finite_inputs of
 * qn_op). After the first one that is not, no further update changes anything. */
typedef struct qn_finite_check {
    bool is_trial;  /* updates only look, and change nothing */
    bool is_over;   /* all was looked at before */
    int is_bad;     /* atomic: found one that is not finite, by the node of this name */
    int is_large;   /* atomic: found one so large that the next step may not be finite */
    int n_changes;  /* atomic: updates that changed what they update, but for running statistics */
    char node[160]; /* with is_bad */
} qn_finite_check;

/* A node about to run: its tensors' descriptions and memory. Axis shapes as the operator says. */
typedef struct qn_call {
    const qn_node *node;
    const struct qn_cpu_operator *cpu; /* how the CPU runs it (qn_cpu_prepare) */
    const void *attributes;
    const qn_kernels *kernels; /* likewise: of the node's real type */
    qn_team *team;
    const qn_tensor *inputs, *outputs;
    void *const *in; /* null: left out */
    void *const *out;
    /* Elements from one row (all axes but the last) of each to the next; null: all are dense. */
    const int64_t *in_strides, *out_strides;
    /* By input: the plan has it already where the node is to leave it in an output
     * (qn_plan_is_placed), so that none of it is copied; null: none is. */
    const bool *is_placed;
    void *workspace;
    uint64_t seed, step;     /* with the node's key: its random stream */
    qn_finite_check *finite; /* of an update that looks at its inputs; null: it does not */
} qn_call;

#endif
