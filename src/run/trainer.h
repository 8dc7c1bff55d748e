/* The programs of a trainer, for tests of the layers below it. */
#ifndef QN_RUN_TRAINER_H
#define QN_RUN_TRAINER_H

#include "quern/trainer.h"

enum { QN_TRAINER_TRAINING, QN_TRAINER_EVALUATION, QN_TRAINER_PROGRAMS };

/* As qn_trainer_create of options of this version, but for engine, which are those of the engine,
 * with plan_later: they are passed on as they are. */
qn_status qn_trainer_make(const qn_trainer_options *options, const qn_engine_options *engine,
                          qn_trainer **trainer);

/* Describes them for complete options, which they refer to. */
void qn_trainer_describe(const qn_trainer_options *options,
                         qn_program_options programs[QN_TRAINER_PROGRAMS]);

/* What the network gave (evaluation batch, n_outputs) for the batch evaluated last. */
const void *qn_trainer_outputs(const qn_trainer *trainer);

/* With options.features: what the last layer is given of an evaluation batch x, (batch, width),
 * until the next run. */
qn_status qn_trainer_features(qn_trainer *trainer, const void *x, const float **features);
int64_t qn_trainer_feature_width(const qn_trainer *trainer);

/* Runs the network on an evaluation batch x; outputs and chances are its own then. */
qn_status qn_trainer_run_evaluation(qn_trainer *trainer, const void *x);

/* Chances of classes (batch, n_outputs) of the last evaluation batch. */
const void *qn_trainer_chances(const qn_trainer *trainer);

#endif
