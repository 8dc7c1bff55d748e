/* The training program of a model, as an engine builds it, without an engine: for tests of what is
 * done with programs. */
#ifndef QN_TESTS_TRAINING_PROGRAM_H
#define QN_TESTS_TRAINING_PROGRAM_H

#include "os/heap.h"
#include "quern/quern.h"
#include "run/program.h"
#include "run/trainer.h"

typedef struct training_network {
    const qn_model *model;
    int64_t batch;
} training_network;

static qn_value build_training_network(qn_graph *graph, void *user, int phase, qn_value *kept) {
    const training_network *n = user;
    qn_network_sizes sizes = n->model->sizes;
    sizes.batch = n->batch;
    return n->model->network(graph, n->model->user, &sizes, phase, kept);
}

/* The program for float batches of that many samples; update null: the model's own. */
static qn_status build_training(const qn_model *model, int64_t batch,
                                const qn_update_options *update, qn_program *program) {
    training_network network = {model, batch};
    qn_engine_options engine = {QN_OPTIONS_INIT(qn_engine_options),
                                .allocator = qn_allocator_default(), .real = QN_F32,
                                .update = update ? *update : qn_update_options_for(model)};
    if (engine.update.accumulate == 0)
        engine.update.accumulate = 1;
    qn_program_options programs[QN_TRAINER_PROGRAMS] = {
        {QN_OPTIONS_INIT(qn_program_options), .name = model->name, .training = true,
         .n_phases = model->n_phases, .trained = {model->trained[0], model->trained[1]},
         .user = &network, .build = build_training_network}};
    qn_trainer_options trainer = qn_trainer_options_for(model);
    trainer.engine.allocator = engine.allocator;
    trainer.engine.real = QN_F32;
    trainer.n_outputs = model->n_classes;
    trainer.batch = trainer.evaluation_batch = batch;
    trainer.engine.update = engine.update;
    if (!model->network)
        qn_trainer_describe(&trainer, programs);
    return qn_program_build(program, &programs[QN_TRAINER_TRAINING], &engine);
}

#endif
