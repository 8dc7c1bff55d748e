/* The best weights of a run: which epoch measured best so far, on the validation samples or, where
 * there are none, on the test samples, by the first metric: a loss, or what is better the higher it
 * is. Kept in the pairs of checkpoints, so that a resumed run goes on with it. */
#ifndef QN_CLI_BEST_H
#define QN_CLI_BEST_H

#include "quern/task.h"

/* value is of no meaning while step < 0: nothing was measured. */
typedef struct best {
    double value;
    int64_t step;     /* of the best */
    int64_t measured; /* the step that was measured last, -1: none */
    int64_t n_worse;  /* measurements since the best */
    char metric[40];  /* "loss" */
    qn_split split;
} best;

/* From the pairs of a checkpoint, or none. */
void best_read(best *b, const qn_metadata *pairs);

/* Notes what was measured at a step, and keeps it in pairs: *is_better. A measurement of another
 * split or metric than before begins anew. */
qn_status best_note(best *b, qn_split split, const qn_metric *metric, int64_t step,
                    qn_metadata *pairs, bool *is_better);

/* "test", "validation". */
const char *best_split(const best *b);

/* Adds it to a JSON object: best_metric "validation_loss", best_value, best_step; null while there
 * is none. */
void best_add_json(const best *b);

#endif
