/* The programs of a trainer, for tests of the layers below it. */
#ifndef QN_RUN_TRAINER_H
#define QN_RUN_TRAINER_H

#include "quern/trainer.h"

enum { QN_TRAINER_TRAINING, QN_TRAINER_EVALUATION, QN_TRAINER_PROGRAMS };

/* Describes them for complete options, which they refer to. */
void qn_trainer_describe(const qn_trainer_options *options,
                         qn_program_options programs[QN_TRAINER_PROGRAMS]);

/* What the network gave (evaluation batch, n_outputs) for the batch evaluated last. */
const void *qn_trainer_outputs(const qn_trainer *trainer);

#endif
