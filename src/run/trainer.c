/* The trainer: an engine with a training and an evaluation program of a classifier. */
#include "run/trainer.h"

#include "base/options.h"
#include "base/status.h"
#include "graph/graph.h"
#include "os/heap.h"
#include "os/os.h"
#include "os/ranks.h"
#include "passes/head.h"
#include "run/engine.h"
#include "run/inspect.h"

#include <string.h>

/* Results of the two programs, in the order in which they are marked. */
enum { TRAINING_LOSS, TRAINING_OUTPUTS };
enum { EVALUATION_LOSSES, EVALUATION_OUTPUTS, EVALUATION_CHANCES, EVALUATION_FEATURES };

/* Of a batch. */
typedef struct batch_result {
    double loss;
    int64_t n_correct;
} batch_result;

struct qn_trainer {
    const qn_allocator *allocator; /* the caller's */
    qn_trainer_options options;
    qn_engine *engine;
    void *labels;           /* zeros, for predictions */
    double loss_sum;        /* of the accumulated batches */
    int64_t n_correct;      /* likewise */
    batch_result *of_ranks; /* (ranks), or null: one */
    size_t label_bytes;     /* of labels */
    double *class_weights;  /* (n_outputs), or null */
    void *weights;          /* (batch) reals of the samples of a training batch, or null */
};

qn_trainer_options qn_trainer_options_for(const qn_model *model) {
    QN_NEED_OR(model, "model", (qn_trainer_options){0});
    return (qn_trainer_options){
        QN_TRAINER_OPTIONS_INIT,
        .engine.update = qn_update_options_for(model),
        .model = model,
        .input = model->input,
        .batch = model->recipe.batch,
        .label_smoothing = model->recipe.label_smoothing,
    };
}

static qn_status check_count(const char *what, int64_t value) {
    if (value >= 1 && value < 1000000000)
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT, "%s is %lld; it must be at least 1 and below 1e9", what,
                   (long long)value);
}

static qn_status check_options(const qn_trainer_options *o) {
    if (!o->model || !o->model->build)
        return qn_fail(QN_ERROR_ARGUMENT, "a trainer needs a model with a build function%s",
                       o->model && o->model->network ? "; models of other tasks train as a qn_task"
                                                     : "");
    if (o->input.rank < 1 || o->input.rank >= QN_MAX_RANK)
        return qn_fail(QN_ERROR_ARGUMENT, "the input's rank is %d; it must be 1 to %d",
                       o->input.rank, QN_MAX_RANK - 1);
    QN_TRY(check_count("batch", o->batch));
    QN_TRY(check_count("evaluation batch", o->evaluation_batch));
    QN_TRY(check_count("number of outputs", o->n_outputs));
    if (!(o->label_smoothing >= 0 && o->label_smoothing < 1))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "label smoothing is %g; it must be at least 0 and below 1",
                       o->label_smoothing);
    return QN_OK;
}

/* Whether losses of samples are weighted. */
static bool has_weights(const qn_trainer_options *o) {
    return o->class_weights || o->sample_weights;
}

static qn_status check_weights(const qn_trainer_options *o) {
    if (o->labels && !o->regression)
        return qn_fail(QN_ERROR_ARGUMENT, "labels are targets of 0 and 1: set regression, too");
    if (o->class_weights && o->regression)
        return qn_fail(
            QN_ERROR_ARGUMENT,
            "class weights need classes, but the targets are numbers; leave the weights out");
    for (int i = 0; o->class_weights && i < o->n_outputs; i++) {
        if (!(o->class_weights[i] >= 0 && o->class_weights[i] <= 1e30))
            return qn_fail(QN_ERROR_ARGUMENT,
                           "class %d has the weight %g; weights must be finite and at least 0", i,
                           o->class_weights[i]);
    }
    return QN_OK;
}

static void fill_defaults(qn_trainer_options *o) {
    o->engine.real = o->engine.real ? o->engine.real : QN_F32;
    if (o->input.rank == 0 && o->model)
        o->input = o->model->input;
    if (o->n_outputs == 0 && o->model)
        o->n_outputs = qn_model_classes(o->model, o->input);
    o->evaluation_batch = o->evaluation_batch ? o->evaluation_batch : o->batch;
}

/* ---- the programs ---- */

/* x, y, the model, and the loss of every sample; marks nothing. */
static qn_value add_forward(qn_graph *graph, const qn_trainer_options *o, int64_t batch,
                            double smoothing, qn_value *outputs) {
    qn_shape shape = {.rank = o->input.rank + 1};
    qn_value y;
    shape.dims[0] = batch;
    for (int i = 0; i < o->input.rank; i++)
        shape.dims[i + 1] = o->input.dims[i];
    const qn_value x = qn_input(graph, "input", shape);
    if (o->regression)
        y = qn_label(graph, "target", o->engine.real, QN_SHAPE(batch, o->n_outputs));
    else
        y = qn_label(graph, "label", QN_I32, QN_SHAPE(batch));
    *outputs = qn_build_outputs(graph, o->model, x, o->n_outputs, o->engine.tuning.head);
    const qn_value_info *info = qn_graph_value(graph, *outputs);
    if (info && !qn_shape_equal(info->tensor.shape, QN_SHAPE(batch, o->n_outputs)))
        qn_graph_fail(graph, QN_ERROR_ARGUMENT,
                      "model %s: its output must have the shape (batch, %d); return that of its "
                      "last linear layer",
                      o->model->name, o->n_outputs);
    if (o->labels)
        return qn_reduce(graph, "loss.samples",
                         qn_binary_cross_entropy(graph, "loss.labels", *outputs, y), -1, QN_MEAN);
    return o->regression ? qn_squared_error(graph, "loss.samples", *outputs, y)
                         : qn_softmax_cross_entropy(graph, "loss.samples", *outputs, y, smoothing);
}

static qn_value build_training(qn_graph *graph, void *user, int phase, qn_value *kept) {
    const qn_trainer_options *o = user;
    qn_value outputs;
    (void)phase;
    (void)kept;
    qn_value losses = add_forward(graph, o, o->batch, o->label_smoothing, &outputs);
    if (has_weights(o))
        losses = qn_multiply(graph, "loss.weighted", losses,
                             qn_label(graph, "weight", o->engine.real, QN_SHAPE(o->batch)));
    const qn_value loss = qn_mean(graph, "loss", losses);
    qn_result(graph, loss);
    qn_result(graph, outputs);
    return loss;
}

/* What the last layer is given, as rows. */
static void add_features(qn_graph *graph, const qn_trainer_options *o, qn_value outputs) {
    const qn_node *head = qn_find_head(graph, outputs, NULL);
    if (!head) {
        qn_graph_fail(graph, QN_ERROR_UNSUPPORTED, "model %s has no last layer to give features",
                      o->model->name);
        return;
    }
    const qn_shape shape = qn_graph_shape(graph, head->inputs[0]);
    qn_result(graph, qn_reshape(graph, "features", head->inputs[0],
                                QN_SHAPE(shape.dims[0], qn_shape_count(shape) / shape.dims[0])));
}

static qn_value build_evaluation(qn_graph *graph, void *user, int phase, qn_value *kept) {
    const qn_trainer_options *o = user;
    qn_value outputs;
    (void)phase;
    (void)kept;
    qn_result(graph, add_forward(graph, o, o->evaluation_batch, 0, &outputs));
    qn_result(graph, o->labels ? qn_sigmoid(graph, "chances", outputs) : outputs);
    if (!o->regression)
        qn_result(graph, qn_softmax(graph, "probabilities", outputs));
    if (o->features)
        add_features(graph, o, outputs);
    return QN_NO_VALUE;
}

void qn_trainer_describe(const qn_trainer_options *options,
                         qn_program_options programs[QN_TRAINER_PROGRAMS]) {
    void *user = (void *)(uintptr_t)options;
    programs[QN_TRAINER_TRAINING] =
        (qn_program_options){QN_OPTIONS_INIT(qn_program_options), .training = true, .user = user,
                             .build = build_training, .may_train_nothing = options->only_evaluates};
    programs[QN_TRAINER_EVALUATION] = (qn_program_options){QN_OPTIONS_INIT(qn_program_options),
                                                           .user = user, .build = build_evaluation};
}

static qn_status make_engine(qn_trainer *t, const qn_engine_options *engine) {
    const qn_trainer_options *o = &t->options;
    qn_program_options programs[QN_TRAINER_PROGRAMS];
    qn_trainer_describe(o, programs);
    QN_TRY(qn_engine_make(engine, programs, QN_TRAINER_PROGRAMS, &t->engine));
    t->engine->run.refuses_infinite = true; /* samples and targets are all that it has */
    t->options.engine = *qn_engine_get_options(t->engine);
    t->label_bytes = qn_engine_input_at(t->engine, QN_TRAINER_EVALUATION, 1).bytes;
    QN_TRY(qn_allocate(qn_engine_allocator(t->engine), 1, t->label_bytes, &t->labels));
    if (has_weights(o))
        QN_TRY(qn_allocate(qn_engine_allocator(t->engine), (size_t)o->batch, sizeof(double),
                           &t->weights));
    if (qn_ranks_count(o->engine.ranks) > 1)
        QN_TRY(qn_allocate(qn_engine_allocator(t->engine), (size_t)qn_ranks_count(o->engine.ranks),
                           sizeof *t->of_ranks, &t->of_ranks));
    return QN_OK;
}

static qn_status copy_weights(qn_trainer *t) {
    const size_t n = (size_t)t->options.n_outputs;
    if (!t->options.class_weights)
        return QN_OK;
    QN_TRY(qn_allocate(t->allocator, n, sizeof(double), &t->class_weights));
    memcpy(t->class_weights, t->options.class_weights, n * sizeof(double));
    t->options.class_weights = t->class_weights;
    return QN_OK;
}

qn_status qn_trainer_make(const qn_trainer_options *options, const qn_engine_options *engine,
                          qn_trainer **trainer) {
    const qn_allocator *allocator = qn_allocator_or_default(engine->allocator);
    qn_trainer *t;
    QN_TRY(qn_allocate(allocator, 1, sizeof *t, &t));
    t->allocator = allocator;
    t->options = *options;
    t->options.engine = *engine; /* for the programs' descriptions, and who asks */
    fill_defaults(&t->options);
    qn_status status = check_options(&t->options);
    if (status == QN_OK)
        status = check_weights(&t->options);
    if (status == QN_OK)
        status = copy_weights(t);
    if (status == QN_OK)
        status = make_engine(t, engine);
    if (status != QN_OK) {
        qn_trainer_destroy(t);
        return status;
    }
    *trainer = t;
    return QN_OK;
}

/* Plans it, too, unless that is to come later. *is_made: all but the plans was made. */
static qn_status create(const qn_trainer_options *options, bool is_later, qn_trainer **trainer,
                        bool *is_made) {
    qn_trainer *t;
    QN_TRY(qn_trainer_make(options, &options->engine, &t));
    *is_made = true;
    const qn_status status = is_later ? QN_OK : qn_engine_plan(t->engine, sizeof *t);
    if (status != QN_OK) {
        qn_trainer_destroy(t);
        return status;
    }
    *trainer = t;
    return QN_OK;
}

static qn_status plan_only(void *context) {
    qn_trainer_options *options = context;
    bool is_made = false;
    qn_trainer *trainer;
    options->engine.plan_only = true;
    QN_TRY(create(options, false, &trainer, &is_made));
    qn_trainer_destroy(trainer);
    return QN_OK;
}

qn_status qn_trainer_create(const qn_trainer_options *options, qn_trainer **trainer) {
    QN_NEED(options, "options");
    QN_NEED(trainer, "trainer");
    qn_trainer_options taken;
    QN_TRY(qn_options_take_nested(options, sizeof taken, sizeof taken.engine, "qn_trainer_options",
                                  &taken));
    const bool is_later = taken.engine.plan_later;
    bool is_made = false;
    taken.engine.plan_later = true;
    const qn_status status = create(&taken, is_later, trainer, &is_made);
    return status != QN_ERROR_MEMORY || is_made || is_later || taken.engine.plan_only ||
                   taken.engine.memory_budget_bytes == 0
               ? status
               : qn_budget_refuse(&taken.engine, plan_only, &taken);
}

void qn_trainer_destroy(qn_trainer *t) {
    if (!t)
        return;
    if (t->engine) {
        qn_release(qn_engine_allocator(t->engine), t->labels, 1, t->label_bytes);
        qn_release(qn_engine_allocator(t->engine), t->of_ranks,
                   (size_t)qn_ranks_count(t->options.engine.ranks), sizeof *t->of_ranks);
        qn_release(qn_engine_allocator(t->engine), t->weights, (size_t)t->options.batch,
                   sizeof(double));
    }
    qn_engine_destroy(t->engine);
    qn_release(t->allocator, t->class_weights, (size_t)t->options.n_outputs, sizeof(double));
    qn_release(t->allocator, t, 1, sizeof *t);
}

const qn_trainer_options *qn_trainer_get_options(const qn_trainer *trainer) {
    QN_NEED_OR(trainer, "trainer", NULL);
    /* A plan may have said more of the device since, in a text that took the place of the first. */
    qn_trainer *t = (qn_trainer *)(uintptr_t)trainer;
    t->options.engine.device = qn_engine_get_options(t->engine)->device;
    return &trainer->options;
}

qn_engine *qn_trainer_engine(const qn_trainer *trainer) {
    QN_NEED_OR(trainer, "trainer", NULL);
    return trainer->engine;
}

qn_status qn_trainer_set_budget(qn_trainer *trainer, size_t bytes) {
    QN_NEED(trainer, "trainer");
    return qn_engine_set_budget(trainer->engine, bytes);
}

int64_t qn_trainer_steps(const qn_trainer *trainer) {
    QN_NEED_OR(trainer, "trainer", 0);
    return qn_engine_steps(trainer->engine);
}

/* ---- running ---- */

static double real_at(const qn_trainer *t, const void *memory, int64_t i) {
    return t->options.engine.real == QN_F64 ? ((const double *)memory)[i]
                                            : ((const float *)memory)[i];
}

static qn_status check_labels(const qn_trainer *t, const int32_t *labels, int64_t n) {
    for (int64_t i = 0; !t->options.regression && i < n; i++) {
        if (labels[i] < 0 || labels[i] >= t->options.n_outputs)
            return qn_fail(QN_ERROR_ARGUMENT,
                           "sample %lld of the batch has class %d, but the model has classes 0 to "
                           "%d; create it with more outputs",
                           (long long)i, labels[i], t->options.n_outputs - 1);
    }
    return QN_OK;
}

/* What a sample of a batch counts, before all are divided by their mean. */
static double weight_of(const qn_trainer *t, const int32_t *labels, const float *weights,
                        int64_t i) {
    if (!t->options.regression && labels[i] < 0)
        return 0;
    return (t->class_weights ? t->class_weights[labels[i]] : 1) *
           (weights ? (double)weights[i] : 1);
}

/* What the samples of a batch count in the mean of their losses: weights whose mean is 1. */
static void weigh(const qn_trainer *t, const int32_t *labels, const float *weights) {
    const int64_t n = t->options.batch;
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += weight_of(t, labels, weights, i);
    for (int64_t i = 0; i < n; i++) {
        const double weight = weight_of(t, labels, weights, i);
        const double part = sum > 0 ? weight * (double)n / sum : 0;
        if (t->options.engine.real == QN_F64)
            ((double *)t->weights)[i] = part;
        else
            ((float *)t->weights)[i] = (float)part;
    }
}

static qn_status check_sample_weights(const qn_trainer *t, const float *weights) {
    if (!weights)
        return QN_OK;
    if (!t->options.sample_weights)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "the trainer was made for samples without weights; set sample_weights");
    for (int64_t i = 0; i < t->options.batch; i++)
        if (!(weights[i] >= 0 && weights[i] <= 1e30f))
            return qn_fail(QN_ERROR_ARGUMENT,
                           "sample %lld of the batch has the weight %g; weights must be finite and "
                           "at least 0",
                           (long long)i, (double)weights[i]);
    return QN_OK;
}

/* How many of the first n rows of outputs are largest at their label; taken (n) as qn_evaluation's.
 */
static int64_t count_correct(const qn_trainer *t, const void *outputs, const int32_t *labels,
                             int64_t n, int32_t *taken) {
    const int64_t n_classes = t->options.n_outputs;
    int64_t n_correct = 0;
    for (int64_t i = 0; !t->options.regression && i < n; i++) {
        int64_t best = 0;
        for (int64_t c = 1; c < n_classes; c++) {
            if (real_at(t, outputs, i * n_classes + c) > real_at(t, outputs, i * n_classes + best))
                best = c;
        }
        n_correct += best == labels[i];
        if (taken)
            taken[i] = (int32_t)best;
    }
    return n_correct;
}

/* Loss and correct samples of the batch just run, or of every rank's in their order. */
static qn_status add_result(qn_trainer *t, const int32_t *labels) {
    const int n = qn_ranks_count(t->options.engine.ranks);
    batch_result own = {
        .loss = real_at(t, qn_engine_result(t->engine, QN_TRAINER_TRAINING, TRAINING_LOSS), 0),
        .n_correct =
            count_correct(t, qn_engine_result(t->engine, QN_TRAINER_TRAINING, TRAINING_OUTPUTS),
                          labels, t->options.batch, NULL)};
    batch_result *all = n > 1 ? t->of_ranks : &own;
#ifdef QN_WITH_MPI
    if (n > 1)
        QN_TRY(qn_ranks_gather(t->options.engine.ranks, &own, sizeof own, all));
#endif
    for (int i = 0; i < n; i++) {
        t->loss_sum += all[i].loss;
        t->n_correct += all[i].n_correct;
    }
    return QN_OK;
}

static qn_status step(qn_trainer *t, const void *x, const void *y, const float *weights,
                      qn_step_result *result) {
    QN_NEED(t, "trainer");
    QN_NEED(x, "x");
    QN_NEED(y, "y");
    QN_NEED(result, "result");
    const qn_trainer_options *o = &t->options;
    const int64_t n_done =
        qn_engine_accumulated(t->engine) + qn_ranks_count(t->options.engine.ranks);
    const double rate = qn_engine_rate(t->engine);
    if (qn_engine_accumulated(t->engine) == 0) { /* a step may have been given up */
        t->loss_sum = 0;
        t->n_correct = 0;
    }
    QN_TRY(check_labels(t, y, o->batch));
    QN_TRY(check_sample_weights(t, weights));
    if (has_weights(o))
        weigh(t, y, weights);
    QN_TRY(qn_engine_run(t->engine, QN_TRAINER_TRAINING, (const void *[]){x, y, t->weights}));
    QN_TRY(add_result(t, y));
    *result = (qn_step_result){
        .step = qn_engine_steps(t->engine),
        .completed = n_done == o->engine.update.accumulate,
        .loss = t->loss_sum / (double)n_done,
        .accuracy = (double)t->n_correct / (double)(n_done * o->batch),
        .rate = rate,
    };
    return QN_OK;
}

qn_status qn_trainer_step(qn_trainer *t, const void *x, const void *y, qn_step_result *result) {
    return step(t, x, y, NULL, result);
}

qn_status qn_trainer_step_weighted(qn_trainer *t, const void *x, const void *y,
                                   const float *weights, qn_step_result *result) {
    QN_NEED(weights, "weights");
    return step(t, x, y, weights, result);
}

qn_status qn_trainer_evaluate(qn_trainer *t, const void *x, const void *y, int64_t n_valid,
                              qn_evaluation *sum) {
    QN_NEED(t, "trainer");
    QN_NEED(x, "x");
    QN_NEED(y, "y");
    QN_NEED(sum, "sum");
    if (n_valid < 0 || n_valid > t->options.evaluation_batch)
        return qn_fail(QN_ERROR_ARGUMENT, "%lld valid samples in an evaluation batch of %lld",
                       (long long)n_valid, (long long)t->options.evaluation_batch);
    QN_TRY(check_labels(t, y, n_valid));
    QN_TRY(qn_engine_run(t->engine, QN_TRAINER_EVALUATION, (const void *[]){x, y}));
    const void *losses = qn_engine_result(t->engine, QN_TRAINER_EVALUATION, EVALUATION_LOSSES);
    for (int64_t i = 0; i < n_valid; i++)
        sum->loss_sum += real_at(t, losses, i);
    sum->n_correct +=
        count_correct(t, qn_engine_result(t->engine, QN_TRAINER_EVALUATION, EVALUATION_OUTPUTS), y,
                      n_valid, sum->taken);
    sum->n_samples += n_valid;
    return QN_OK;
}

const void *qn_trainer_outputs(const qn_trainer *t) {
    return qn_engine_result(t->engine, QN_TRAINER_EVALUATION, EVALUATION_OUTPUTS);
}

const void *qn_trainer_chances(const qn_trainer *t) {
    return qn_engine_result(t->engine, QN_TRAINER_EVALUATION, EVALUATION_CHANCES);
}

qn_status qn_trainer_run_evaluation(qn_trainer *t, const void *x) {
    return qn_engine_run(t->engine, QN_TRAINER_EVALUATION, (const void *[]){x, t->labels});
}

qn_status qn_trainer_features(qn_trainer *t, const void *x, const float **features) {
    QN_TRY(qn_trainer_run_evaluation(t, x));
    *features = qn_engine_result(t->engine, QN_TRAINER_EVALUATION, EVALUATION_FEATURES);
    return QN_OK;
}

int64_t qn_trainer_feature_width(const qn_trainer *t) {
    return qn_engine_result_shape(t->engine, QN_TRAINER_EVALUATION, EVALUATION_FEATURES).dims[1];
}

qn_status qn_trainer_predict(qn_trainer *t, const void *x, void *outputs) {
    QN_NEED(t, "trainer");
    QN_NEED(x, "x");
    QN_NEED(outputs, "outputs");
    const int result = t->options.regression ? EVALUATION_OUTPUTS : EVALUATION_CHANCES;
    const qn_shape shape = qn_engine_result_shape(t->engine, QN_TRAINER_EVALUATION, result);
    QN_TRY(qn_engine_run(t->engine, QN_TRAINER_EVALUATION, (const void *[]){x, t->labels}));
    memcpy(outputs, qn_engine_result(t->engine, QN_TRAINER_EVALUATION, result),
           (size_t)qn_shape_count(shape) * qn_dtype_bytes(t->options.engine.real));
    return QN_OK;
}
