/* The training loop of a trainer: batches, steps, a test after every epoch, periodic checkpoints.
 */
#include "base/options.h"
#include "base/status.h"
#include "os/os.h"
#include "quern/trainer.h"

/* What one epoch has gathered so far. */
typedef struct epoch {
    double loss_sum;
    int64_t n_steps, n_batches;
    int64_t nanoseconds; /* of training, data included */
} epoch;

qn_status qn_trainer_evaluate_all(qn_trainer *trainer, qn_batches test, qn_evaluation *evaluation) {
    QN_NEED(trainer, "trainer");
    QN_NEED(evaluation, "evaluation");
    QN_NEED(test.next, "test.next");
    QN_NEED(test.rewind, "test.rewind");
    *evaluation = (qn_evaluation){0};
    QN_TRY(test.rewind(test.self));
    for (;;) {
        qn_batch batch;
        QN_TRY(test.next(test.self, &batch));
        if (!batch.x)
            return QN_OK;
        QN_TRY(qn_trainer_evaluate(trainer, batch.x, batch.y, batch.n_valid, evaluation));
    }
}

static qn_status end_epoch(qn_trainer *trainer, const qn_fit_options *options, epoch *e,
                           int64_t number) {
    const int64_t n_samples = e->n_batches * qn_trainer_get_options(trainer)->batch;
    qn_epoch_result result = {
        .epoch = number,
        .train_loss = e->n_steps ? e->loss_sum / (double)e->n_steps : 0,
        .samples_per_second = e->nanoseconds ? 1e9 * (double)n_samples / (double)e->nanoseconds : 0,
    };
    if (options->test.next) {
        qn_evaluation evaluation;
        QN_TRY(qn_trainer_evaluate_all(trainer, options->test, &evaluation));
        result.has_test = evaluation.n_samples > 0;
        if (result.has_test) {
            result.test_loss = evaluation.loss_sum / (double)evaluation.n_samples;
            result.test_accuracy = (double)evaluation.n_correct / (double)evaluation.n_samples;
        }
    }
    *e = (epoch){0};
    return options->on_epoch ? options->on_epoch(options->user, &result) : QN_OK;
}

/* All batches of one step. */
static qn_status do_step(qn_trainer *trainer, const qn_fit_options *options, epoch *e) {
    const int64_t begin = qn_clock_ns();
    qn_step_result result = {0};
    while (!result.completed) {
        qn_batch batch = {.x = NULL};
        QN_TRY(options->train.next(options->train.self, &batch));
        if (!batch.x)
            return qn_fail(
                QN_ERROR_ARGUMENT,
                "the training data ended after %lld of %lld steps; use a loader that repeats",
                (long long)qn_trainer_steps(trainer), (long long)options->steps);
        const bool is_weighted = batch.weight && qn_trainer_get_options(trainer)->sample_weights;
        QN_TRY(is_weighted
                   ? qn_trainer_step_weighted(trainer, batch.x, batch.y, batch.weight, &result)
                   : qn_trainer_step(trainer, batch.x, batch.y, &result));
        e->n_batches++;
    }
    const int64_t nanoseconds = qn_clock_ns() - begin;
    e->loss_sum += result.loss;
    e->n_steps++;
    e->nanoseconds += nanoseconds;
    return options->on_step ? options->on_step(options->user, &result, nanoseconds) : QN_OK;
}

qn_status qn_trainer_fit(qn_trainer *trainer, const qn_fit_options *options) {
    QN_NEED(trainer, "trainer");
    QN_NEED(options, "options");
    qn_fit_options taken;
    QN_TRY(QN_OPTIONS_TAKE(qn_fit_options, options, &taken));
    options = &taken;
    const int64_t accumulate = qn_trainer_get_options(trainer)->engine.update.accumulate;
    QN_NEED(options->train.next, "options.train.next");
    QN_DEMAND(options->epoch_batches >= 1);
    QN_DEMAND(options->steps >= 0 && options->checkpoint_every >= 0);
    epoch e = {0};
    if (qn_trainer_get_options(trainer)->engine.real != QN_F32)
        return qn_fail(QN_ERROR_ARGUMENT, "the training loop feeds floats: create the trainer with "
                                          "QN_F32, or call qn_trainer_step with doubles");
    while (qn_trainer_steps(trainer) < options->steps) {
        const int64_t before = qn_trainer_steps(trainer) * accumulate / options->epoch_batches;
        QN_TRY(do_step(trainer, options, &e));
        const int64_t steps = qn_trainer_steps(trainer);
        const int64_t after = steps * accumulate / options->epoch_batches;
        if (after > before || steps == options->steps)
            QN_TRY(end_epoch(trainer, options, &e, after));
        if (options->on_checkpoint && options->checkpoint_every > 0 &&
            steps % options->checkpoint_every == 0 && steps < options->steps)
            QN_TRY(options->on_checkpoint(options->user));
        if (options->should_stop && steps < options->steps && options->should_stop(options->user))
            return qn_fail(QN_ERROR_INTERRUPTED, "stopped after step %lld of %lld",
                           (long long)steps, (long long)options->steps);
    }
    return QN_OK;
}
