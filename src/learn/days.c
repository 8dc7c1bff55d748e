/* See days.h. The data's training samples come in one shuffled order: first those of the model's
 * training, of classes that it knows, then the user's, changed by the drift. */
#include "learn/days.h"

#include "base/memory.h"
#include "base/rng.h"
#include "base/status.h"
#include "data/prepare.h"
#include "format/checkpoint.h"
#include "os/heap.h"
#include "quern/checkpoint.h"
#include "tasks/tasks.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

enum { START_BATCH = 32 };

typedef struct labelled {
    float *x;        /* (n, n_values) */
    int32_t *labels; /* (n) */
    int64_t n, room;
} labelled;

struct qn_days {
    qn_days_options o;
    qn_learner *learner;
    qn_preparer preparer;
    bool is_ready;
    int64_t n_values, next; /* next: training sample in the shuffled order */
    size_t raw_bytes;
    void *raw, *changed; /* a sample as the data has it */
    labelled start, day, user_test, old_test;
    qn_room *room; /* for the model at the end; null: none is kept */
};

/* ---- samples ---- */

static qn_status reserve(const qn_days *d, int64_t room, labelled *s) {
    s->room = room;
    QN_TRY(qn_allocate(d->o.allocator, (size_t)room * (size_t)d->n_values, sizeof *s->x, &s->x));
    return qn_allocate(d->o.allocator, (size_t)room, sizeof *s->labels, &s->labels);
}

static void release(const qn_days *d, labelled *s) {
    qn_release(d->o.allocator, s->x, (size_t)s->room * (size_t)d->n_values, sizeof *s->x);
    qn_release(d->o.allocator, s->labels, (size_t)s->room, sizeof *s->labels);
}

static bool is_new(const qn_days *d, int32_t label) {
    return label >= d->o.data->preparation.n_classes - d->o.drift.n_new;
}

/* Adds a sample as the model knew such (of classes it knew), or as the user has it. */
static qn_status add(qn_days *d, qn_split split, int64_t place, bool is_user, labelled *to) {
    const qn_data_source *data = d->o.data;
    const qn_rng rng = qn_rng_make(d->o.seed, qn_hash_text("learn.order"), split);
    const int64_t index =
        (int64_t)qn_rng_permute(rng, (uint64_t)place, (uint64_t)data->n_samples[split]);
    int32_t label;
    QN_TRY(data->read(data->self, split, index, d->raw, &label));
    if (!is_user && is_new(d, label))
        return QN_OK;
    if (is_user)
        qn_drift_apply(&d->o.drift, data->sample, data->dtype, (uint64_t)index * QN_SPLITS + split,
                       d->raw, d->changed);
    qn_preparer_apply(&d->preparer, is_user ? d->changed : d->raw, to->x + to->n * d->n_values);
    to->labels[to->n++] = label;
    return QN_OK;
}

static qn_status read_start(qn_days *d) {
    QN_TRY(reserve(d, d->o.n_start, &d->start));
    while (d->start.n < d->o.n_start && d->next < d->o.data->n_samples[QN_TRAIN])
        QN_TRY(add(d, QN_TRAIN, d->next++, false, &d->start));
    return QN_OK;
}

static qn_status read_tests(qn_days *d) {
    const int64_t most = d->o.data->n_samples[QN_TEST];
    const int64_t n = d->o.n_test < most ? d->o.n_test : most;
    QN_TRY(reserve(d, n, &d->user_test));
    QN_TRY(reserve(d, n, &d->old_test));
    for (int64_t i = 0; i < n; i++) {
        QN_TRY(add(d, QN_TEST, i, true, &d->user_test));
        QN_TRY(add(d, QN_TEST, i, false, &d->old_test));
    }
    return QN_OK;
}

/* ---- before the first day ---- */

static void make_batch(const qn_days *d, int64_t step, int64_t n, float *x, int32_t *y) {
    const qn_rng rng =
        qn_rng_make(d->o.seed, qn_hash_text("learn.start"), (uint64_t)(step * START_BATCH / n));
    for (int64_t i = 0; i < START_BATCH; i++) {
        const uint64_t place = (uint64_t)((step * START_BATCH + i) % n);
        const int64_t k = (int64_t)qn_rng_permute(rng, place, (uint64_t)n);
        memcpy(x + i * d->n_values, d->start.x + k * d->n_values, (size_t)d->n_values * sizeof *x);
        y[i] = d->start.labels[k];
    }
}

/* Of the samples before the first day, the last are kept out of training: some of them are what
 * forgetting is measured by. */
static int64_t n_trained(const qn_days *d) {
    return d->start.n - d->start.n / 4;
}

static qn_status train_steps(const qn_days *d, qn_trainer *trainer, int64_t n_steps) {
    float *x;
    int32_t y[START_BATCH];
    qn_status status = QN_OK;
    QN_TRY(qn_allocate(d->o.allocator, START_BATCH * (size_t)d->n_values, sizeof *x, &x));
    for (int64_t i = 0; i < n_steps && status == QN_OK; i++) {
        qn_step_result result;
        make_batch(d, i, n_trained(d), x, y);
        status = qn_trainer_step(trainer, x, y, &result);
    }
    qn_release(d->o.allocator, x, START_BATCH * (size_t)d->n_values, sizeof *x);
    return status;
}

static qn_status train_start(qn_days *d) {
    qn_trainer *trainer;
    qn_trainer_options o = qn_trainer_options_for(d->o.model);
    const int64_t n_steps = (int64_t)(d->o.start_epochs * (double)n_trained(d) / START_BATCH);
    o.engine.allocator = d->o.allocator;
    o.engine.n_threads = d->o.n_threads;
    o.engine.seed = d->o.seed;
    o.engine.update.schedule_steps = n_steps;
    o.input = d->o.data->preparation.sample;
    o.n_outputs = d->o.data->preparation.n_classes;
    o.batch = START_BATCH;
    QN_TRY(qn_trainer_create(&o, &trainer));
    qn_status status = train_steps(d, trainer, n_steps);
    if (status == QN_OK)
        status = qn_learner_begin(d->learner, qn_trainer_engine(trainer));
    qn_trainer_destroy(trainer);
    return status;
}

static qn_status begin(qn_days *d) {
    if (!d->o.weights)
        return train_start(d);
    qn_engine *engine = qn_learner_engine(d->learner);
    QN_TRY(qn_checkpoint_load(engine, d->o.weights, false));
    return qn_learner_begin(d->learner, engine);
}

/* Samples that the app ships with the model. */
static qn_status offer_old(qn_days *d) {
    for (int64_t i = 0; i < d->start.n; i++) {
        const qn_sample_use use = i < n_trained(d) ? QN_USE_TRAIN : QN_USE_TEST;
        QN_TRY(qn_learner_offer(d->learner, QN_ORIGIN_OLD, use, d->start.x + i * d->n_values,
                                d->start.labels[i], NULL));
    }
    return QN_OK;
}

/* ---- creation ---- */

static qn_status check(const qn_days_options *o) {
    const qn_data_source *data = o->data;
    if (data->n_targets > 0 || data->preparation.n_classes < 2)
        return qn_fail(QN_ERROR_UNSUPPORTED, "%s has no classes", data->name);
    if (data->sample.rank != 3 || data->sample.dims[0] == 0)
        return qn_fail(QN_ERROR_UNSUPPORTED, "%s has no images of one size", data->name);
    if (o->drift.n_new > data->preparation.n_classes - 2)
        return qn_fail(QN_ERROR_ARGUMENT, "%d new classes leave less than two of %d",
                       o->drift.n_new, data->preparation.n_classes);
    if (data->n_samples[QN_TEST] == 0)
        return qn_fail(QN_ERROR_ARGUMENT, "%s has no test samples; give --holdout", data->name);
    return QN_OK;
}

static qn_status make_learner(qn_days *d) {
    const qn_learner_options o = {
        .allocator = d->o.allocator,
        .model = d->o.model,
        .input = d->o.data->preparation.sample,
        .n_classes = d->o.data->preparation.n_classes,
        .n_kept = d->o.n_kept,
        .n_held_out = d->o.n_kept,
        .batch = 32,
        .epochs = 6,
        .n_threads = d->o.n_threads,
        .seed = d->o.seed,
    };
    return qn_learner_create(&o, &d->learner);
}

static qn_status set_up(qn_days *d) {
    const qn_data_source *data = d->o.data;
    d->n_values = qn_shape_count(data->preparation.sample);
    d->raw_bytes = (size_t)qn_shape_count(data->sample) * qn_dtype_bytes(data->dtype);
    QN_TRY(qn_allocate(d->o.allocator, d->raw_bytes, 1, &d->raw));
    QN_TRY(qn_allocate(d->o.allocator, d->raw_bytes, 1, &d->changed));
    QN_TRY(qn_preparer_init(&d->preparer, d->o.allocator, &data->sample, data->dtype,
                            &data->preparation));
    d->is_ready = true;
    QN_TRY(make_learner(d));
    QN_TRY(reserve(d, d->o.n_daily, &d->day));
    QN_TRY(read_start(d));
    QN_TRY(read_tests(d));
    QN_TRY(begin(d));
    return offer_old(d);
}

static qn_status measure(qn_days *d, qn_day_result *r) {
    int64_t user, old;
    QN_TRY(qn_learner_test(d->learner, d->user_test.x, d->user_test.labels, d->user_test.n, &user));
    QN_TRY(qn_learner_test(d->learner, d->old_test.x, d->old_test.labels, d->old_test.n, &old));
    r->user_accuracy = (double)user / (double)d->user_test.n;
    r->old_accuracy = (double)old / fmax((double)d->old_test.n, 1);
    return QN_OK;
}

qn_status qn_days_create(const qn_days_options *options, qn_days **days, qn_day_result *start) {
    qn_days *d;
    const qn_allocator *allocator = qn_allocator_or_default(options->allocator);
    QN_TRY(check(options));
    QN_TRY(qn_allocate(allocator, 1, sizeof *d, &d));
    d->o = *options;
    d->o.allocator = allocator;
    qn_status status = set_up(d);
    *start = (qn_day_result){.learned = {.chance = 1}};
    if (status == QN_OK)
        status = measure(d, start);
    if (status != QN_OK) {
        qn_days_destroy(d);
        return status;
    }
    *days = d;
    return QN_OK;
}

void qn_days_destroy(qn_days *d) {
    if (!d)
        return;
    qn_room_close(d->room);
    release(d, &d->start);
    release(d, &d->day);
    release(d, &d->user_test);
    release(d, &d->old_test);
    qn_learner_destroy(d->learner);
    if (d->is_ready)
        qn_preparer_deinit(&d->preparer);
    qn_release(d->o.allocator, d->changed, d->raw_bytes, 1);
    qn_release(d->o.allocator, d->raw, d->raw_bytes, 1);
    qn_release(d->o.allocator, d, 1, sizeof *d);
}

/* ---- days ---- */

qn_status qn_days_receive(qn_days *d, double *wanted_flops) {
    d->day.n = 0;
    while (d->day.n < d->o.n_daily && d->next < d->o.data->n_samples[QN_TRAIN])
        QN_TRY(add(d, QN_TRAIN, d->next++, true, &d->day));
    for (int64_t i = 0; i < d->day.n; i++)
        QN_TRY(qn_learner_offer(d->learner, QN_ORIGIN_USER, QN_USE_DRAWN,
                                d->day.x + i * d->n_values, d->day.labels[i], NULL));
    *wanted_flops = qn_learner_wanted_flops(d->learner);
    return QN_OK;
}

qn_status qn_days_learn(qn_days *d, double flops, qn_day_result *r) {
    *r = (qn_day_result){.learned = {.chance = 1}};
    QN_TRY(qn_learner_learn(d->learner, flops, &r->learned));
    return measure(d, r);
}

static qn_status put_pairs(const qn_days *d, qn_metadata *pairs) {
    char shape[QN_SHAPE_TEXT];
    QN_TRY(qn_metadata_set(pairs, "model", d->o.model->name));
    QN_TRY(qn_metadata_set(pairs, "input", qn_shape_print(d->o.data->preparation.sample, shape)));
    return qn_known_data_put(pairs, d->o.data->name, d->o.data);
}

qn_status qn_days_keep_room(qn_days *d, const char *path) {
    qn_metadata *pairs;
    QN_TRY(qn_metadata_create(d->o.allocator, &pairs));
    qn_status status = put_pairs(d, pairs);
    if (status == QN_OK)
        status = qn_checkpoint_keep_room(d->o.allocator, qn_learner_engine(d->learner), pairs, path,
                                         &d->room);
    qn_metadata_destroy(pairs);
    return status;
}

qn_status qn_days_save(qn_days *d, const char *path) {
    qn_metadata *pairs;
    QN_TRY(qn_metadata_create(d->o.allocator, &pairs));
    qn_status status = put_pairs(d, pairs);
    if (status == QN_OK)
        status = qn_checkpoint_save_in(d->room, qn_learner_engine(d->learner), pairs, path);
    qn_metadata_destroy(pairs);
    return status;
}
