/* Default settings for training on photos: batch, length, learning rate and weight decay from the
 * number of images, and a warning about small classes. A model's recipe is made for tens of
 * thousands of images; on a few hundred it would train for a few dozen steps. The choices are
 * stored in the settings and so in checkpoints. */
#include "base/memory.h"
#include "base/print.h"
#include "base/status.h"
#include "tasks/tasks.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Found by trying 252 generated photos of 7 classes, and Fashion-MNIST's first hundreds as files
 * (docs/data.md). */
enum {
    EPOCH_STEPS = 6, /* a batch is small enough for so many steps in an epoch */
    LEAST_BATCH = 16,
    LEAST_STEPS = 2000,     /* from random weights */
    LEAST_TUNE_STEPS = 500, /* from weights that have learned something */
    FEW_IN_ALL = 500,       /* fewer are memorised unless something regularises */
    FEW = 50,               /* images of a class */
    FEW_FITTED = 10         /* where a head is fitted to features of a body that knows photos */
};

static const double most_decay = 0.005, smoothing = 0.1;

static void tell(const qn_task *task, int level, const char *text) {
    if (task->log && task->log->write)
        task->log->write(task->log->user, level, text);
}

static qn_status set_number(qn_task *task, const char *name, double value) {
    char text[40];
    qn_print(text, sizeof text, "%.4g", value);
    return qn_setting_set(task, name, text);
}

static int64_t choose_batch(const qn_recipe *recipe, int64_t n) {
    int64_t batch = recipe->batch;
    while (batch / 2 >= LEAST_BATCH && batch * EPOCH_STEPS > n)
        batch /= 2;
    return batch < n ? batch : n;
}

/* Adam's steps are of the rate's size, so that their noise grows with the root alone. */
static double choose_rate(const qn_recipe *recipe, int64_t batch) {
    const double part = (double)batch / (double)recipe->batch;
    return recipe->rate * (recipe->optimizer == QN_SGD ? part : sqrt(part));
}

static bool is_begun(const qn_task *task) {
    return qn_setting_text(task, "load", NULL) || !task->model->recipe.epochs;
}

static int64_t choose_epochs(const qn_task *task, int64_t n, int64_t batch) {
    const int64_t least = is_begun(task) ? LEAST_TUNE_STEPS : LEAST_STEPS;
    const int64_t epochs = (least * batch + n - 1) / n, usual = task->model->recipe.epochs;
    return epochs > usual ? epochs : usual;
}

static bool is_set(const qn_task *task, const char *name) {
    return qn_setting_text(task, name, NULL) != NULL;
}

/* Recipes that regularise are left alone: more of it slowed mobilenet-v1 down. */
static bool needs_regularisation(const qn_task *task, int64_t n) {
    const qn_recipe *recipe = &task->model->recipe;
    return n < FEW_IN_ALL && !is_begun(task) && recipe->optimizer == QN_SGD &&
           recipe->weight_decay <= 0 && recipe->label_smoothing <= 0 &&
           !is_set(task, "weight-decay") && !is_set(task, "label-smoothing");
}

/* A weight decay of 1 / n gives all samples together the same weight against it whatever their
 * number; from 500 images on it gains nothing. */
static qn_status choose_regularisation(qn_task *task, int64_t n, bool are_labels) {
    const qn_recipe *recipe = &task->model->recipe;
    const bool is_needed = needs_regularisation(task, n);
    const double decay = is_needed ? fmin(most_decay, 1.0 / (double)n) : recipe->weight_decay;
    const double smooth = are_labels ? 0 : is_needed ? smoothing : recipe->label_smoothing;
    char text[160];
    if (qn_task_has_own_optimizer(task))
        return QN_OK;
    if (!is_set(task, "weight-decay"))
        QN_TRY(set_number(task, "weight-decay", decay));
    if (!is_set(task, "label-smoothing"))
        QN_TRY(set_number(task, "label-smoothing", smooth));
    qn_print(text, sizeof text,
             are_labels
                 ? "few images: weight decay %.4g reduces overfitting"
                 : "few images: weight decay %.4g and label smoothing %.4g reduce overfitting",
             decay, smooth);
    if (is_needed)
        tell(task, 0, text);
    return QN_OK;
}

qn_status qn_task_choose_for_photos(qn_task *task, int64_t n_samples, bool are_labels) {
    const qn_recipe *recipe = &task->model->recipe;
    const bool has_batch = qn_setting_text(task, "batch", NULL) != NULL;
    if (!has_batch)
        QN_TRY(qn_setting_set_count(task, "batch", choose_batch(recipe, n_samples)));
    const int64_t batch = qn_task_batch(task);
    if (!qn_setting_text(task, "lr", NULL) && !qn_task_has_own_optimizer(task))
        QN_TRY(set_number(task, "lr", has_batch ? recipe->rate : choose_rate(recipe, batch)));
    if (!qn_setting_text(task, "epochs", NULL) && !qn_setting_text(task, "steps", NULL))
        QN_TRY(qn_setting_set_count(task, "epochs", choose_epochs(task, n_samples, batch)));
    QN_TRY(choose_regularisation(task, n_samples, are_labels));
    return qn_setting_text(task, "augment", NULL) ? QN_OK
                                                  : qn_setting_set(task, "augment", "crop,flip");
}

/* Counts of the training samples of each class, to counts (n_classes). */
static qn_status count_samples(const qn_data_source *source, int64_t *counts) {
    for (int64_t i = 0; i < source->n_samples[QN_TRAIN]; i++) {
        int32_t class;
        QN_TRY(source->read_class(source->self, QN_TRAIN, i, &class));
        counts[class]++;
    }
    return QN_OK;
}

static void tell_counts(const qn_task *task, const qn_preparation *p, const int64_t *counts) {
    char text[600];
    const bool is_fitted = strcmp(qn_setting_text(task, QN_START, "none"), "none") != 0;
    const int enough = is_fitted ? FEW_FITTED : FEW;
    int n_few = 0, least = 0;
    for (int i = 0; i < p->n_classes; i++) {
        n_few += counts[i] < enough;
        if (counts[i] < counts[least])
            least = i;
    }
    if (n_few == 0)
        return;
    snprintf(text, sizeof text,
             "%d of %d classes have fewer than %d images to train on (%s: %" PRId64
             "); expect many wrong predictions: take more photos, from other sides and in other "
             "light%s",
             n_few, p->n_classes, enough, p->class_names[least], counts[least],
             is_fitted ? "" : ", or start from trained weights (quern pretrained)");
    tell(task, 1, text);
}

qn_status qn_task_warn_of_few(const qn_task *task, const qn_data_source *source) {
    const size_t n = (size_t)source->preparation.n_classes;
    int64_t *counts;
    if (!source->read_class || !source->preparation.class_names)
        return QN_OK;
    QN_TRY(qn_allocate(task->allocator, n, sizeof *counts, &counts));
    const qn_status status = count_samples(source, counts);
    if (status == QN_OK)
        tell_counts(task, &source->preparation, counts);
    qn_release(task->allocator, counts, n, sizeof *counts);
    return status;
}
