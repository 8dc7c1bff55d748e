/* See drip.h. Images are taken in one shuffled order: the first n_pretraining, then 64 for each
 * day; no day reuses an image of another. */
#include "study/drip.h"

#include "base/status.h"
#include "os/heap.h"
#include "os/os.h"
#include "quern/checkpoint.h"
#include "quern/trainer.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

enum { SEED = 1, AHEAD = 2 };

/* The rate of a day's steps, as part of the recipe's: small steps that keep what was learned; in
 * proportion to the batch (Goyal et al. 2017). */
static const double daily_rate = 0.1;

typedef struct dripping {
    const qn_drip_options *o;
    const qn_allocator *allocator;
    qn_data_source source;
    qn_preparation preparation;
    int64_t n_pretraining, n_test;
    qn_trainer *trainer;
    qn_loader *test;
    bool *right;    /* (n_test): today */
    bool *first;    /* (n_test): before the first day */
    float *outputs; /* (QN_DRIP_IMAGES, n_classes) */
} dripping;

/* ---- data ---- */

static int64_t whole_batches(int64_t wanted, int64_t available) {
    const int64_t n = wanted < available ? wanted : available;
    return n > 0 ? n / QN_DRIP_IMAGES * QN_DRIP_IMAGES : 0;
}

static qn_status check_data(dripping *d) {
    const int64_t new_images = (int64_t)QN_DRIP_DAYS * QN_DRIP_IMAGES;
    d->n_pretraining =
        whole_batches(d->o->n_pretraining, d->source.n_samples[QN_TRAIN] - new_images);
    d->n_test = whole_batches(d->o->n_test, d->source.n_samples[QN_TEST]);
    if (d->source.n_targets > 0 || d->preparation.n_classes < 2)
        return qn_fail(QN_ERROR_FORMAT, "%s has no classes; drip training needs labelled data",
                       d->o->data);
    if (d->n_pretraining == 0 || d->n_test == 0)
        return qn_fail(
            QN_ERROR_FORMAT,
            "%s has %lld training and %lld test samples; drip training needs %lld and %d",
            d->o->data, (long long)d->source.n_samples[QN_TRAIN],
            (long long)d->source.n_samples[QN_TEST], (long long)new_images + QN_DRIP_IMAGES,
            QN_DRIP_IMAGES);
    return QN_OK;
}

/* In the size that the data has, where it has one. */
static qn_status open_data(dripping *d) {
    const qn_data_options options = {QN_OPTIONS_INIT(qn_data_options),
                                     .allocator = d->allocator,
                                     .log = d->o->log,
                                     .seed = SEED,
                                     .holdout = 0.1,
                                     .sample = d->o->model->input,
                                     .n_classes = d->o->model->n_classes};
    QN_TRY(qn_data_open(d->o->data, &options, &d->source));
    d->preparation = d->source.preparation;
    if (d->source.set_size) {
        const qn_shape size = d->o->model->input;
        d->preparation.sample = size;
        QN_TRY(d->source.set_size(d->source.self, size.dims[0], size.dims[1], size.dims[2]));
    }
    return check_data(d);
}

/* A loader over batches [first, first + n) of a split, in one order. */
static qn_status open_loader(dripping *d, qn_split split, int64_t first, int64_t n,
                             qn_loader **loader) {
    const qn_loader_options options = {QN_OPTIONS_INIT(qn_loader_options),
                                       .allocator = d->allocator,
                                       .split = split,
                                       .batch = QN_DRIP_IMAGES,
                                       .seed = SEED,
                                       .shuffle = true,
                                       .first = first,
                                       .n_batches = n,
                                       .n_prefetched = AHEAD};
    return qn_loader_create(&d->source, &d->preparation, &options, loader);
}

/* ---- training ---- */

static qn_status make_trainer(dripping *d, int64_t batch, double rate) {
    qn_trainer_options options = qn_trainer_options_for(d->o->model);
    options.engine.allocator = d->allocator;
    options.input = d->preparation.sample;
    options.n_outputs = d->preparation.n_classes;
    options.batch = batch;
    options.evaluation_batch = QN_DRIP_IMAGES;
    options.engine.update.schedule = QN_CONSTANT;
    options.engine.update.warmup = 0;
    options.engine.update.rate *= rate;
    options.engine.n_threads = d->o->n_threads;
    options.engine.seed = SEED;
    qn_trainer_destroy(d->trainer);
    d->trainer = NULL;
    return qn_trainer_create(&options, &d->trainer);
}

/* All of a loaded batch, in pieces of the trainer's size. */
static qn_status learn(dripping *d, const qn_batch *batch) {
    const int64_t size = qn_trainer_get_options(d->trainer)->batch;
    const int64_t n_values = qn_shape_count(d->preparation.sample);
    for (int64_t i = 0; i + size <= QN_DRIP_IMAGES; i += size) {
        qn_step_result result;
        QN_TRY(qn_trainer_step(d->trainer, batch->x + i * n_values, (const int32_t *)batch->y + i,
                               &result));
    }
    return QN_OK;
}

static qn_status learn_all(dripping *d, qn_loader *loader) {
    qn_batch batch;
    for (;;) {
        QN_TRY(qn_loader_next(loader, &batch));
        if (!batch.x)
            return QN_OK;
        QN_TRY(learn(d, &batch));
    }
}

static qn_status save(const dripping *d) {
    qn_metadata *pairs;
    QN_TRY(qn_metadata_create(d->allocator, &pairs));
    qn_status status = qn_metadata_set(pairs, "model", d->o->model->name);
    if (status == QN_OK)
        status = qn_checkpoint_save(qn_trainer_engine(d->trainer), pairs, d->o->weights);
    qn_metadata_destroy(pairs);
    return status;
}

static qn_status pretrain(dripping *d) {
    qn_loader *loader;
    if (qn_path_is_file(d->o->weights))
        return QN_OK;
    QN_TRY(make_trainer(d, QN_DRIP_IMAGES, 1));
    QN_TRY(open_loader(d, QN_TRAIN, 0, d->n_pretraining / QN_DRIP_IMAGES, &loader));
    qn_status status = QN_OK;
    for (int64_t epoch = 0; epoch < d->o->n_epochs && status == QN_OK; epoch++) {
        status = qn_loader_rewind(loader);
        if (status == QN_OK)
            status = learn_all(d, loader);
    }
    qn_loader_destroy(loader);
    return status == QN_OK ? save(d) : status;
}

/* ---- testing ---- */

static bool is_right(const float *outputs, int64_t n_classes, int32_t class, double *loss) {
    int64_t best = 0;
    for (int64_t i = 1; i < n_classes; i++)
        best = outputs[i] > outputs[best] ? i : best;
    *loss -= log(fmax((double)outputs[class], 1e-30));
    return best == class;
}

static qn_status test(dripping *d, qn_drip_day *day) {
    const int64_t n_classes = d->preparation.n_classes;
    int64_t n = 0, n_right = 0;
    qn_batch batch;
    *day = (qn_drip_day){0};
    QN_TRY(qn_loader_rewind(d->test));
    for (; n < d->n_test; n += QN_DRIP_IMAGES) {
        QN_TRY(qn_loader_next(d->test, &batch));
        QN_TRY(qn_trainer_predict(d->trainer, batch.x, d->outputs));
        for (int64_t i = 0; i < QN_DRIP_IMAGES; i++) {
            d->right[n + i] = is_right(d->outputs + i * n_classes, n_classes,
                                       ((const int32_t *)batch.y)[i], &day->loss);
            n_right += d->right[n + i];
        }
    }
    day->accuracy = (double)n_right / (double)n;
    day->loss /= (double)n;
    return QN_OK;
}

static void compare(const dripping *d, qn_drip_day *day) {
    for (int64_t i = 0; i < d->n_test; i++) {
        day->became_right += d->right[i] && !d->first[i];
        day->became_wrong += !d->right[i] && d->first[i];
    }
}

static qn_status live(dripping *d, qn_drip *drip) {
    for (int day = 0; day <= QN_DRIP_DAYS; day++) {
        qn_loader *loader;
        if (day > 0) {
            QN_TRY(
                open_loader(d, QN_TRAIN, d->n_pretraining / QN_DRIP_IMAGES + day - 1, 1, &loader));
            const qn_status status = learn_all(d, loader);
            qn_loader_destroy(loader);
            QN_TRY(status);
        }
        QN_TRY(test(d, &drip->days[day]));
        if (day == 0)
            memcpy(d->first, d->right, (size_t)d->n_test * sizeof *d->first);
        compare(d, &drip->days[day]);
        drip->n_days = day + 1;
    }
    return QN_OK;
}

/* ---- the whole ---- */

static qn_status allocate(dripping *d) {
    const size_t n = (size_t)d->n_test;
    QN_TRY(qn_allocate(d->allocator, n, sizeof *d->right, &d->right));
    QN_TRY(qn_allocate(d->allocator, n, sizeof *d->first, &d->first));
    return qn_allocate(d->allocator, QN_DRIP_IMAGES,
                       (size_t)d->preparation.n_classes * sizeof *d->outputs, &d->outputs);
}

static qn_status run(dripping *d, qn_drip *drip) {
    QN_TRY(open_data(d));
    QN_TRY(allocate(d));
    QN_TRY(pretrain(d));
    QN_TRY(make_trainer(d, d->o->batch, daily_rate * (double)d->o->batch / QN_DRIP_IMAGES));
    QN_TRY(qn_checkpoint_load(qn_trainer_engine(d->trainer), d->o->weights, false));
    QN_TRY(open_loader(d, QN_TEST, 0, d->n_test / QN_DRIP_IMAGES, &d->test));
    drip->n_pretraining = d->n_pretraining;
    drip->n_test = d->n_test;
    return live(d, drip);
}

qn_status qn_drip_run(const qn_drip_options *options, qn_drip *drip) {
    dripping d = {.o = options, .allocator = qn_allocator_or_default(options->allocator)};
    if (options->batch < 1 || QN_DRIP_IMAGES % options->batch != 0 || !options->model->build)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "drip training needs a classifier and a batch that divides %d",
                       QN_DRIP_IMAGES);
    *drip =
        (qn_drip){.model = options->model->name, .data = options->data, .batch = options->batch};
    const qn_status status = run(&d, drip);
    qn_loader_destroy(d.test);
    qn_trainer_destroy(d.trainer);
    qn_release(d.allocator, d.right, (size_t)d.n_test, sizeof *d.right);
    qn_release(d.allocator, d.first, (size_t)d.n_test, sizeof *d.first);
    qn_release(d.allocator, d.outputs, QN_DRIP_IMAGES,
               (size_t)d.preparation.n_classes * sizeof *d.outputs);
    qn_data_close(&d.source);
    return status;
}
