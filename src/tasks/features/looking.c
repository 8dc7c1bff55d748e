/* See looking.h. Features of a body that stays as it is are kept in the cache folder (features.h);
 * those of other networks are made anew, and of rows of numbers are the rows. */
#include "tasks/features/looking.h"

#include "base/fmath.h"
#include "base/status.h"
#include "tasks/features/features.h"
#include "tasks/tasks.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

/* ---- kept features ---- */

/* The answers of a layer (n_classes, width) to features x. */
static void answer(const qn_looking *l, int64_t width, const float *x, float *chances) {
    double most = -INFINITY, sum = 0;
    for (int c = 0; c < l->n_classes; c++) {
        double z = (double)l->bias[c];
        for (int64_t i = 0; i < width; i++)
            z += (double)l->weight[c * width + i] * (double)x[i];
        chances[c] = (float)z;
        most = z > most ? z : most;
    }
    for (int c = 0; c < l->n_classes; c++)
        sum += qn_exp_f64((double)chances[c] - most);
    for (int c = 0; c < l->n_classes; c++)
        chances[c] = (float)(qn_exp_f64((double)chances[c] - most) / sum);
}

static qn_status make_kept(const qn_looking *l, qn_sample_looks *looks) {
    const qn_task *task = l->task;
    const qn_features *f = &looks->features;
    qn_feature_maker maker = {.allocator = task->allocator,
                              .log = task->log,
                              .trainer = l->trainer,
                              .sample = l->sample,
                              .batch = qn_task_test_batch(task),
                              .name = l->source->name,
                              .should_stop = l->should_stop,
                              .user = l->user};
    qn_status status = QN_OK;
    for (int split = 0; split < QN_SPLITS && status == QN_OK; split++) {
        maker.n[split] = looks->n[split];
        if (looks->n[split] > 0)
            status = qn_task_open_split(task, l->source, l->preparation, (qn_split)split,
                                        maker.batch, &maker.loaders[split]);
    }
    if (status == QN_OK)
        status = qn_features_make(&maker, &looks->features);
    for (int split = 0; split < QN_SPLITS; split++)
        qn_loader_destroy(maker.loaders[split]);
    for (int64_t i = 0; i < f->n && status == QN_OK; i++)
        answer(l, f->width, f->x + i * f->n_views * f->width, looks->chances + i * l->n_classes);
    return status;
}

/* ---- features that are made now ---- */

static qn_status take_batch(const qn_looking *l, const qn_batch *batch, int64_t first,
                            qn_sample_looks *looks) {
    qn_features *f = &looks->features;
    const size_t n = (size_t)batch->n_valid;
    const float *x = batch->x;
    if (looks->are_inputs)
        QN_TRY(qn_trainer_run_evaluation(l->trainer, batch->x));
    else
        QN_TRY(qn_trainer_features(l->trainer, batch->x, &x));
    memcpy(f->x + first * f->width, x, n * (size_t)f->width * sizeof *x);
    memcpy(f->y + first, batch->y, n * sizeof *f->y);
    memcpy(looks->chances + first * l->n_classes, qn_trainer_chances(l->trainer),
           n * (size_t)l->n_classes * sizeof *looks->chances);
    return QN_OK;
}

static qn_status take_split(const qn_looking *l, qn_loader *loader, int64_t *n_done,
                            qn_sample_looks *looks) {
    const qn_log *log = l->task->log;
    qn_batch batch;
    for (;;) {
        if (l->should_stop && l->should_stop(l->user))
            return qn_fail(QN_ERROR_INTERRUPTED, "stopped while looking at samples");
        QN_TRY(qn_loader_next(loader, &batch));
        if (!batch.x)
            return QN_OK;
        QN_TRY(take_batch(l, &batch, *n_done, looks));
        *n_done += batch.n_valid;
        if (log && log->progress)
            log->progress(log->user, "features of samples", *n_done, looks->features.n);
    }
}

static qn_status make_now(const qn_looking *l, qn_sample_looks *looks) {
    const qn_task *task = l->task;
    qn_features *f = &looks->features;
    int64_t n_done = 0;
    for (int split = 0; split < QN_SPLITS; split++)
        f->n += looks->n[split];
    f->n_views = 1;
    f->width = looks->are_inputs ? qn_shape_count(l->sample) : qn_trainer_feature_width(l->trainer);
    QN_TRY(qn_allocate(task->allocator, (size_t)(f->n * f->width), sizeof *f->x, &f->x));
    QN_TRY(qn_allocate(task->allocator, (size_t)f->n, sizeof *f->y, &f->y));
    for (int split = 0; split < QN_SPLITS; split++) {
        qn_loader *loader = NULL;
        if (looks->n[split] == 0)
            continue;
        QN_TRY(qn_task_open_split(task, l->source, l->preparation, (qn_split)split,
                                  qn_task_test_batch(task), &loader));
        const qn_status status = take_split(l, loader, &n_done, looks);
        qn_loader_destroy(loader);
        QN_TRY(status);
    }
    return QN_OK;
}

/* ---- all ---- */

static int64_t count_answers(const qn_sample_looks *looks) {
    int64_t n = 0;
    for (int split = 0; split < QN_SPLITS; split++)
        n += looks->n[split];
    return n * looks->n_classes;
}

static void release_answers(qn_sample_looks *looks, float **answers) {
    qn_release(looks->allocator, *answers, (size_t)count_answers(looks), sizeof **answers);
    *answers = NULL;
}

qn_status qn_looks_make(const qn_looking *l, qn_sample_looks *looks) {
    const qn_allocator *allocator = l->task->allocator;
    *looks = (qn_sample_looks){.allocator = allocator,
                               .n_classes = l->n_classes,
                               .is_fitted = l->weight != NULL,
                               .are_inputs = l->sample.rank == 1};
    for (int split = 0; split < QN_SPLITS; split++)
        looks->n[split] = l->source->n_samples[split];
    const size_t n = (size_t)count_answers(looks);
    QN_TRY(qn_allocate(allocator, n, sizeof *looks->chances, &looks->chances));
    QN_TRY(qn_allocate(allocator, n, sizeof *looks->held, &looks->held));
    QN_TRY(looks->is_fitted ? make_kept(l, looks) : make_now(l, looks));
    QN_TRY(qn_head_fit_find(allocator, &looks->features, l->n_classes, l->should_stop, l->user,
                            NULL, NULL, looks->held, &looks->fit));
    if (looks->fit.n_folds == 0)
        release_answers(looks, &looks->held);
    return QN_OK;
}

void qn_looks_deinit(qn_sample_looks *looks) {
    if (!looks->allocator)
        return;
    qn_features_deinit(looks->allocator, &looks->features);
    release_answers(looks, &looks->chances);
    release_answers(looks, &looks->held);
}
