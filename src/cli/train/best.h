/* Messages about the best weights of a run. */
#ifndef QN_CLI_TRAIN_BEST_H
#define QN_CLI_TRAIN_BEST_H

#include "quern/training.h"

/* "test", "validation". */
const char *best_split(const qn_best *b);

/* Adds it to a JSON object: best_metric "validation_loss", best_value, best_step; null while there
 * is none. */
void best_add_json(const qn_best *b);

#endif
