/* Which nodes of a program run on the device beside the CPU: chosen from times of every node on
 * both and of copies between them (plan/placement), all measured in rehearsals before training. */
#ifndef QN_RUN_PLACING_PLACING_H
#define QN_RUN_PLACING_PLACING_H

#include "plan/placement/problem.h"
#include "run/offload.h"
#include "run/rehearsal.h"

/* Copies one way. */
typedef struct qn_placing_copies {
    double n, bytes, ns, least_ns;
} qn_placing_copies;

typedef struct qn_placing {
    qn_engine *engine;
    qn_program *program;
    int32_t n_nodes;           /* of the graph as built */
    double *ns;                /* (n_nodes, 2): on the CPU, on the device; below 0: not seen */
    qn_placing_copies in, out; /* to the device, from it */
    qn_device_wish wish;       /* all 0: time */
    qn_events *events;
    int32_t *numbers; /* (n_nodes + 1): of a batch in pieces, that of a node's; null: none */
} qn_placing;

qn_status qn_placing_begin(qn_engine *engine, qn_program *program, qn_placing *placing);
void qn_placing_end(qn_placing *placing);

/* Times the program's nodes as it is planned now: one run. */
qn_status qn_placing_measure(qn_placing *placing, const qn_rehearsal *rehearsal);

/* What a step takes by prediction with all that a site can run on it (0: the CPU). */
qn_status qn_placing_predict(qn_placing *placing, int site, qn_placement_result *result);

/* Fills site_of (n_nodes) with what is predicted to be best, by the wish; and, if that uses both
 * processors where both work, sets the program's. While it is planned for the CPU. */
qn_status qn_placing_choose(qn_placing *placing, int16_t *site_of, bool *is_mixed,
                            qn_placement_result *result);

#endif
