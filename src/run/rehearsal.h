/* Runs of a planned engine before its first run, for measuring it: in its own arena and on its own
 * parameters, which have their values again afterwards, on inputs of zeros. */
#ifndef QN_RUN_REHEARSAL_H
#define QN_RUN_REHEARSAL_H

#include "run/engine.h"

/* Whether a call can be run before training without keeping anything: its inputs are there (those
 * of the network are not), and what it writes is in the arena alone. */
bool qn_rehearsal_can_run(const qn_engine *engine, const qn_call *call);

/* Fills the arena with numbers as in training, so that no time is that of denormals or of pages
 * that are not there. */
void qn_rehearsal_fill(qn_engine *engine);

/* What is kept while whole steps of a program are run. */
typedef struct qn_rehearsal {
    qn_engine *engine;
    const qn_program *program;
    char *kept;  /* (kept_bytes): of the stores */
    char *zeros; /* (zeros_bytes): inputs, one behind the other */
    size_t kept_bytes, zeros_bytes;
} qn_rehearsal;

/* Keeps all that runs change; the end restores it. Begin needs memory for a copy. */
qn_status qn_rehearsal_begin(qn_engine *engine, const qn_program *program, qn_rehearsal *rehearsal);
void qn_rehearsal_end(qn_rehearsal *rehearsal);

/* Binds the inputs of an executor of the program to zeros. */
void qn_rehearsal_bind(const qn_rehearsal *rehearsal, qn_executor *executor);

/* Runs an executor of the program once, and says how long that took. watch: null, or where its
 * operations are recorded. */
qn_status qn_rehearsal_run(const qn_rehearsal *rehearsal, qn_executor *executor,
                           const qn_watch *watch, int64_t *ns);

#endif
