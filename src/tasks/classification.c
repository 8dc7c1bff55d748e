/* Classification: samples of a data set and the class of each or, if the data has numeric targets,
 * regression. A client of the trainer and the loader. The preparation of samples (size, mean and
 * deviation, classes) is stored in the settings: a resumed run on the same data and every
 * evaluation prepare samples the same way. */
#include "base/memory.h"
#include "base/print.h"
#include "base/status.h"
#include "data/prepare.h"
#include "format/metadata.h"
#include "models/models.h"
#include "onnx/import.h"
#include "onnx/targets.h"
#include "quern/trainer.h"
#include "run/trainer.h"
#include "tasks/class_weights.h"
#include "tasks/confusion.h"
#include "tasks/features/calibration.h"
#include "tasks/features/features.h"
#include "tasks/features/unknown.h"
#include "tasks/reading.h"
#include "tasks/rows/labels.h"
#include "tasks/rows/regression.h"
#include "tasks/tasks.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The class weights that were found for the setting "class-weights", and for which of its values.
 */
static const char weights_key[] = "class_weights", weighted_key[] = "class_weights_of";

/* That of the names of a preparation's classes. */
static const char class_names_key[] = "preparation.class_names";

/* A budget keeps room for so many of a picture. */
enum { MOST_FEATURES = 1280 };

typedef struct classification {
    qn_data_source source;
    qn_preparation preparation;
    qn_shape input;
    int n_outputs;
    bool is_regression;
    qn_loader *train;           /* of training, null otherwise */
    qn_loader *test[QN_SPLITS]; /* by split, made when first asked for, or under a budget at once */
    qn_trainer *trainer;
    qn_batch last;                  /* of train, valid until the next */
    double *class_weights;          /* (n_outputs), or null */
    qn_confusion_counts *confusion; /* null: not wanted */
    int32_t *taken;                 /* (test batch) where it is */
    bool is_calibrated;             /* the weights know below which chance they are unsure */
    qn_calibration calibration;
    qn_errors errors;       /* of regression */
    bool are_labels;        /* targets are 0 or 1, each of its own */
    qn_label_counts labels; /* of those */
    double *thresholds;     /* (n_outputs) likewise */
    char input_text[QN_SHAPE_TEXT], output_text[32];
} classification;

/* ---- data ---- */

/* The input that the settings ask for; false: they ask for none. */
static bool find_asked(const qn_task *task, qn_shape *shape) {
    const char *text = qn_setting_text(task, "input", NULL);
    return text && qn_shape_parse(text, shape);
}

static bool has_open_size(const qn_data_source *source) {
    for (int i = 0; i < source->sample.rank; i++) {
        if (source->sample.dims[i] == 0)
            return true;
    }
    return false;
}

/* Classes that the settings ask for, for the model or for a new head, or 0. */
static int count_asked(const qn_task *task) {
    const int n_head = (int)qn_setting_count(task, "head", 0);
    return n_head > 0 ? n_head : (int)qn_setting_count(task, "classes", 0);
}

/* A network of a file may know classes that the data happen not to show. */
static void keep_outputs(const qn_task *task, classification *c, int n_found) {
    char text[256];
    if (!task->model->has_fixed_outputs || task->model->n_classes <= n_found ||
        qn_setting_text(task, "head", NULL))
        return;
    c->n_outputs = task->model->n_classes;
    snprintf(text, sizeof text,
             "the network has %d outputs, and the data shows %d classes: the others are trained as "
             "classes that do not occur; --head data makes an output for each class",
             c->n_outputs, n_found);
    if (task->training && task->log)
        task->log->write(task->log->user, 0, text);
}

/* The loss follows from the targets. */
static qn_status check_loss(const qn_task *task, const classification *c) {
    const qn_loss loss = !c->is_regression ? QN_LOSS_CROSS_ENTROPY
                         : c->are_labels   ? QN_LOSS_BCE
                                           : QN_LOSS_MSE;
    const char *asked = qn_setting_text(task, "loss", qn_loss_names[QN_LOSS_AUTO]);
    const char *targets = !c->is_regression ? "classes" : c->are_labels ? "labels" : "numbers";
    if (!task->training || strcmp(asked, qn_loss_names[QN_LOSS_AUTO]) == 0 ||
        strcmp(asked, qn_loss_names[loss]) == 0)
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT, "--loss %s: the targets of %s are %s, whose loss is %s%s",
                   asked, c->source.name, targets, qn_loss_names[loss],
                   c->is_regression ? ""
                                    : "; --task regression takes numbers of a table as "
                                      "amounts");
}

static qn_status find_outputs(qn_task *task, classification *c) {
    const int n_asked = count_asked(task);
    const int n_found = c->source.preparation.n_classes;
    c->is_regression = c->source.n_targets > 0;
    c->are_labels =
        c->is_regression && c->source.preparation.table && c->source.preparation.table->are_labels;
    c->n_outputs = c->is_regression ? c->source.n_targets : n_asked > 0 ? n_asked : n_found;
    QN_TRY(check_loss(task, c));
    if (!c->is_regression && n_asked == 0)
        keep_outputs(task, c, n_found);
    if (!c->is_regression && n_asked > 0 && n_asked < n_found)
        return qn_fail(QN_ERROR_ARGUMENT, "%s has %d classes, but the model is to have %d",
                       c->source.name, n_found, n_asked);
    if (task->training && !c->is_regression && c->n_outputs == 1)
        return qn_fail(
            QN_ERROR_FORMAT,
            "%s has one class%s%s: there is nothing to tell apart; --classes 2 trains all "
            "the same",
            c->source.name, c->source.preparation.class_names ? ", " : "",
            c->source.preparation.class_names ? c->source.preparation.class_names[0] : "");
    return QN_OK;
}

/* Whether the settings hold the preparation that is to be used: any checkpoint's for evaluation,
 * those of versions that did not name the data too; that of the same data for training. */
static bool is_prepared(const qn_task *task) {
    const char *prepared = qn_setting_text(task, QN_PREPARED, NULL);
    const char *data = qn_setting_text(task, "data", NULL);
    if (qn_setting_flag(task, "prepared_inside", false))
        return true; /* the network itself does it: what it is given is given to it in training too
                      */
    if (!task->training && qn_setting_count(task, "preparation.n_classes", 0) > 0)
        return true;
    return prepared && (!task->training || (data && strcmp(prepared, data) == 0));
}

/* Rows of numbers, and series of them, decide the input themselves, as does what has other channels
 * than any image (texts, sounds); images are matched to the model. */
static void find_input(const qn_task *task, classification *c) {
    const qn_shape own = c->source.sample, usual = task->model->input;
    if (find_asked(task, &c->input))
        return;
    const bool is_other = own.rank == 3 && usual.rank == 3 && !has_open_size(&c->source) &&
                          !qn_channels_match(own.dims[2], usual.dims[2]);
    c->input = own.rank == 1 || is_other || qn_reading_is_series(&c->source) ? own : usual;
}

/* How data of the task are opened; the table that they are matched to is left to the caller. */
static qn_data_options data_options(const qn_task *task) {
    const int n_classes = count_asked(task);
    qn_shape asked;
    const qn_shape sample = find_asked(task, &asked) ? asked : task->model->input;
    return (qn_data_options){
        QN_OPTIONS_INIT(qn_data_options),
        .allocator = task->allocator,
        .log = task->log,
        .seed = (uint64_t)qn_setting_count(task, "seed", 1),
        .holdout = qn_setting_number(task, "holdout", 0),
        .validation = qn_setting_number(task, "validation", 0),
        .sample = sample,
        .n_classes = n_classes > 0 ? n_classes : qn_model_classes(task->model, sample),
        .strict = qn_setting_flag(task, "strict", false),
    };
}

static qn_status open_source(qn_task *task, classification *c) {
    const char *data = qn_setting_text(task, "data", NULL);
    QN_TRY(qn_task_read_start(task));
    if (task->source) {
        c->source = *task->source;
        c->source.close = NULL; /* it stays the caller's */
        return data ? QN_OK : qn_setting_set(task, "data", c->source.name);
    }
    if (!data)
        return qn_fail(QN_ERROR_ARGUMENT, "nothing says what data to use; give --data");
    qn_data_options options = data_options(task);
    options.held_out = qn_task_held_out(task->settings);
    QN_TRY(qn_task_table_options(task, is_prepared(task), &options));
    return qn_data_open(data, &options, &c->source);
}

/* The classes of matched data are the network's, those of data without names are fewer. */
static void take_classes(classification *c) {
    const qn_preparation *found = &c->source.preparation;
    if (c->is_regression || !found->class_names)
        return;
    c->preparation.n_classes = found->n_classes;
    c->preparation.class_names = found->class_names;
}

/* Samples of a source whose sizes differ come in the network's. */
static qn_status set_size(const classification *c, const qn_data_source *source) {
    if (!has_open_size(source) || !source->set_size || c->input.rank != 3)
        return QN_OK;
    return source->set_size(source->self, c->input.dims[0], c->input.dims[1], c->input.dims[2]);
}

/* A run that goes on with other data: the network goes on with the numbers that its inputs and
 * outputs are scaled by. With those of the new data it would be another one. */
static qn_status keep_scales(const qn_task *task, classification *c) {
    qn_preparation kept, *p = &c->preparation;
    if (!qn_setting_text(task, QN_PREPARED, NULL))
        return QN_OK;
    QN_TRY(qn_metadata_get_preparation(task->settings, &kept));
    if (kept.n_statistics == 0 || kept.n_statistics == p->n_statistics) {
        p->n_statistics = kept.n_statistics;
        p->mean = kept.mean;
        p->std_dev = kept.std_dev;
    }
    if (p->n_classes > 0 || kept.n_classes > 0 || c->source.n_targets != c->n_outputs ||
        (kept.n_scaled > 0 && kept.n_scaled != c->n_outputs))
        return QN_OK;
    p->n_scaled = kept.n_scaled;
    p->target_mean = kept.target_mean;
    p->target_scale = kept.target_scale;
    return QN_OK;
}

/* Whether the run fits the head to features of weights that are there. */
static bool has_start(const qn_task *task) {
    return task->training && strcmp(qn_setting_text(task, QN_START, "none"), "none") != 0;
}

/* Whether every sample will be looked at. */
static bool gives_features(const qn_task *task) {
    return qn_setting_text(task, QN_GIVES_FEATURES, NULL) != NULL;
}

static void tell(const qn_task *task, const char *text) {
    if (task->log && task->log->write)
        task->log->write(task->log->user, 0, text);
}

/* Whether the weights that training begins with say how their samples were prepared. */
static bool begins_prepared(const qn_task *task) {
    return task->start && qn_metadata_get(task->start, "preparation.sample") &&
           !qn_setting_text(task, QN_PREPARED, NULL);
}

static bool has_same_statistics(const qn_preparation *a, const qn_preparation *b) {
    const size_t bytes = (size_t)a->n_statistics * sizeof *a->mean;
    return a->n_statistics == b->n_statistics &&
           (bytes == 0 ||
            (memcmp(a->mean, b->mean, bytes) == 0 && memcmp(a->std_dev, b->std_dev, bytes) == 0));
}

/* Mean and deviation of samples are those that the weights were trained with, which expect them. Of
 * converted weights the file may not say them. */
static qn_status take_statistics(qn_task *task, classification *c) {
    qn_preparation p;
    if (!begins_prepared(task))
        return QN_OK;
    QN_TRY(qn_metadata_get_preparation(task->start, &p));
    const bool is_silent =
        p.n_statistics == 0 && !qn_metadata_get(task->start, "data") && !task->start_is_file;
    if (!qn_statistics_fit(&p, &c->input) || (is_silent && !has_start(task)))
        return QN_OK;
    if (!has_same_statistics(&p, &c->preparation) && !has_start(task))
        tell(task,
             "samples are normalised by mean and deviation of the weights, which expect them");
    c->preparation.n_statistics = p.n_statistics;
    c->preparation.mean = p.mean;
    c->preparation.std_dev = p.std_dev;
    return QN_OK;
}

/* Whether amounts are so far from those that the weights were trained for that another scale is
 * meant: by more than their deviations, or of another size. */
static bool is_far(const qn_preparation *old, const qn_preparation *new) {
    enum { MOST_DEVIATIONS = 4, MOST_TIMES = 10 };
    for (int i = 0; i < old->n_scaled; i++) {
        const bool is_scaled = new->n_scaled == old->n_scaled;
        const double mean = is_scaled ? (double)new->target_mean[i] : 0;
        const double scale = is_scaled ? (double)new->target_scale[i] : 1;
        const double old_scale = (double)old->target_scale[i];
        if (fabs(mean - (double)old->target_mean[i]) > MOST_DEVIATIONS * old_scale ||
            scale > MOST_TIMES * old_scale || old_scale > MOST_TIMES * scale)
            return true;
    }
    return false;
}

/* Amounts are scaled as the weights' outputs are, which go on: not where the head begins anew. */
static qn_status take_scales(qn_task *task, classification *c) {
    qn_preparation p;
    if (!begins_prepared(task) || !c->is_regression || c->are_labels ||
        qn_setting_text(task, "head", NULL))
        return QN_OK;
    QN_TRY(qn_metadata_get_preparation(task->start, &p));
    if (p.n_classes > 0 || p.n_scaled != c->n_outputs)
        return QN_OK;
    const qn_preparation *new = &c->source.preparation;
    if (is_far(&p, new)) {
        c->preparation.n_scaled = new->n_scaled;
        c->preparation.target_mean = new->target_mean;
        c->preparation.target_scale = new->target_scale;
        tell(task,
             "the amounts are far from those that the weights were trained for, and are scaled "
             "anew: until it has trained, the network's answers mean nothing");
        return QN_OK;
    }
    c->preparation.n_scaled = p.n_scaled;
    c->preparation.target_mean = p.target_mean;
    c->preparation.target_scale = p.target_scale;
    return QN_OK;
}

/* A network of another program's file says nothing of how its samples were prepared: what is done
 * is said. Without training, numbers are its own. */
static void take_foreign(const qn_task *task, classification *c) {
    static const char *const done[] = {"they are normalised by mean and deviation of this data",
                                       "numbers are given to it as they are"};
    const bool is_raw = !task->training && c->source.dtype != QN_U8;
    char text[400];
    if (!qn_onnx_network_of(task->model) || qn_setting_text(task, "preparation.sample", NULL) ||
        begins_prepared(task) || c->preparation.n_statistics == 0)
        return;
    snprintf(text, sizeof text, "%.200s does not say how its samples were prepared: %s",
             task->model->name, done[is_raw]);
    if (is_raw)
        c->preparation.n_statistics = 0;
    tell(task, text);
}

static qn_status prepare(qn_task *task, classification *c) {
    c->preparation = c->source.preparation;
    QN_TRY(is_prepared(task) ? qn_metadata_get_preparation(task->settings, &c->preparation)
                             : keep_scales(task, c));
    take_foreign(task, c);
    QN_TRY(take_statistics(task, c));
    QN_TRY(take_scales(task, c));
    take_classes(c);
    const int64_t n_asked = qn_setting_count(task, "classes", c->n_outputs);
    if (!task->training && ((c->preparation.n_classes == 0) != c->is_regression ||
                            (c->is_regression && c->n_outputs != n_asked)))
        return qn_fail(QN_ERROR_FORMAT, "%s has other targets than the weights were trained for",
                       qn_setting_text(task, "data", ""));
    c->preparation.sample = c->input;
    QN_TRY(set_size(c, &c->source));
    if (!task->training)
        return QN_OK;
    QN_TRY(qn_setting_set(task, "input", c->input_text));
    QN_TRY(qn_setting_set_count(task, "classes", c->n_outputs));
    QN_TRY(qn_setting_set(task, QN_PREPARED, qn_setting_text(task, "data", "")));
    QN_TRY(qn_setting_set(task, QN_ELEMENTS, qn_elements_of(&c->source)));
    if (c->source.held_out)
        QN_TRY(qn_setting_set(task, QN_HELD_OUT, c->source.held_out));
    return qn_metadata_set_preparation(task->settings, &c->preparation);
}

/* ---- class weights ---- */

/* Numbers with commas between, as later runs on the same data find them. */
static qn_status keep_weights(qn_task *task, const classification *c, const char *asked) {
    enum { NUMBER_BYTES = 26 };
    const size_t bytes = (size_t)c->n_outputs * NUMBER_BYTES;
    size_t used = 0;
    char *text;
    QN_TRY(qn_allocate(task->allocator, bytes, 1, &text));
    for (int i = 0; i < c->n_outputs; i++)
        used += (size_t)qn_print(text + used, bytes - used, "%s%.17g", i ? "," : "",
                                 c->class_weights[i]);
    qn_status status = qn_setting_set(task, weights_key, text);
    if (status == QN_OK)
        status = qn_setting_set(task, weighted_key, asked);
    qn_release(task->allocator, text, bytes, 1);
    return status;
}

/* was_prepared: whether the settings are of the same data. */
static qn_status find_weights(qn_task *task, classification *c, bool was_prepared) {
    const char *asked = qn_setting_text(task, "class-weights", "none");
    const char *of = qn_setting_text(task, weighted_key, "");
    const char *kept = qn_setting_text(task, weights_key, NULL);
    const bool is_kept = was_prepared && kept && strcmp(of, asked) == 0;
    if (!task->training || strcmp(asked, "none") == 0)
        return QN_OK;
    if (c->is_regression)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "--class-weights is for classes; the targets of %s are "
                       "numbers",
                       c->source.name);
    QN_TRY(qn_allocate(task->allocator, (size_t)c->n_outputs, sizeof(double), &c->class_weights));
    QN_TRY(qn_class_weights_find(task->allocator, &c->source, is_kept ? kept : asked, c->n_outputs,
                                 c->class_weights));
    return is_kept ? QN_OK : keep_weights(task, c, asked);
}

/* The class of a training sample; x has room for one. */
static qn_status read_class(const qn_data_source *source, int64_t index, void *x, int32_t *class) {
    return source->read_class ? source->read_class(source->self, QN_TRAIN, index, class)
                              : source->read(source->self, QN_TRAIN, index, x, class);
}

static qn_status has_two_classes(const qn_task *task, const qn_data_source *source, bool *has) {
    const int64_t n = source->n_samples[QN_TRAIN];
    const size_t bytes = (size_t)qn_shape_count(source->sample) * qn_dtype_bytes(source->dtype);
    int32_t first = 0, class = 0;
    void *x = NULL;
    if (!source->read_class)
        QN_TRY(qn_allocate(task->allocator, bytes, 1, &x));
    qn_status status = n > 0 ? read_class(source, 0, x, &first) : QN_OK;
    *has = false;
    for (int64_t i = 1; i < n && !*has && status == QN_OK; i++) {
        status = read_class(source, i, x, &class);
        *has = class != first;
    }
    qn_release(task->allocator, x, x ? bytes : 0, 1);
    return status;
}

/* What has one class is always right, and has learned nothing. A network that knows others may go
 * on with one. */
static qn_status check_classes(const qn_task *task, const qn_data_source *source) {
    const qn_preparation *p = &source->preparation;
    const bool knows_others = qn_setting_text(task, QN_PREPARED, NULL) ||
                              (task->start && qn_metadata_get(task->start, class_names_key));
    bool has = true;
    if (!task->training || task->how->plan_only || source->n_targets > 0 || knows_others ||
        source->n_samples[QN_TRAIN] == 0)
        return QN_OK;
    QN_TRY(has_two_classes(task, source, &has));
    if (has)
        return QN_OK;
    return qn_fail(QN_ERROR_FORMAT,
                   "%s: all %lld training samples are of one class%s%.80s: there is nothing to "
                   "tell apart, and every answer would count as right; add samples of another one",
                   source->name, (long long)source->n_samples[QN_TRAIN],
                   p->class_names && p->n_classes == 1 ? ", " : "",
                   p->class_names && p->n_classes == 1 ? p->class_names[0] : "");
}

static qn_status open_data(qn_task *task, classification *c) {
    QN_TRY(open_source(task, c));
    QN_TRY(qn_task_match_classes(task, &c->source));
    task->data = &c->source;
    if (task->training && c->source.n_samples[QN_TRAIN] == 0)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s has no training samples, only samples to test on; quern evaluate "
                       "judges weights by them",
                       c->source.name);
    QN_TRY(check_classes(task, &c->source));
    find_input(task, c);
    if (task->training && !task->source)
        QN_TRY(qn_reading_check(task->settings, &c->source));
    QN_TRY(qn_reading_fit(task->settings, &c->source, &c->input));
    QN_TRY(find_outputs(task, c));
    qn_shape_print(c->input, c->input_text);
    snprintf(c->output_text, sizeof c->output_text, "%d output%s", c->n_outputs,
             c->n_outputs == 1 ? "" : "s");
    const bool was_prepared = is_prepared(task);
    if (task->training && has_open_size(&c->source)) {
        QN_TRY(qn_task_choose_for_photos(task, c->source.n_samples[QN_TRAIN], c->are_labels));
        if (!c->are_labels)
            QN_TRY(qn_task_warn_of_few(task, &c->source));
    }
    QN_TRY(qn_task_fit_batch(task, c->source.n_samples[QN_TRAIN], "samples"));
    QN_TRY(prepare(task, c));
    return find_weights(task, c, was_prepared);
}

/* ---- opening ---- */

static qn_status make_trainer(qn_task *task, classification *c) {
    const qn_trainer_options options = {
        .size = sizeof options,
        .model = task->model,
        .input = c->input,
        .n_outputs = c->n_outputs,
        .regression = c->is_regression,
        .labels = c->are_labels,
        .batch = task->training ? qn_task_batch(task) : qn_model_batch(task->model),
        .evaluation_batch = qn_task_test_batch(task),
        .label_smoothing =
            qn_setting_number(task, "label-smoothing", task->model->recipe.label_smoothing),
        .class_weights = c->class_weights,
        .only_evaluates = !task->training,
        .sample_weights = task->training && c->source.read_weight,
        .features = has_start(task) || (gives_features(task) && c->input.rank > 1),
    };
    QN_TRY(qn_trainer_make(&options, qn_task_engine_options(task), &c->trainer));
    task->engine = qn_trainer_engine(c->trainer);
    return qn_task_keep_outputs(task, c->input);
}

static qn_status make_confusion(qn_task *task, classification *c) {
    if (!task->wants_confusion || c->is_regression)
        return QN_OK;
    task->confusion = (qn_confusion){
        .n_classes = c->n_outputs,
        .n_names = c->preparation.class_names ? c->preparation.n_classes : 0,
        .names = c->preparation.class_names,
    };
    int64_t most = 0;
    for (int split = 0; split < QN_SPLITS; split++)
        most += c->source.n_samples[split]; /* all may be asked for at once */
    QN_TRY(qn_allocate(task->allocator, (size_t)qn_task_test_batch(task), sizeof *c->taken,
                       &c->taken));
    QN_TRY(qn_confusion_counts_create(task->allocator, c->n_outputs, most, &c->confusion));
    qn_confusion_counts_finish(c->confusion, &task->confusion);
    return QN_OK;
}

static void fill_facts(qn_task *task, const classification *c) {
    task->facts.data = c->source.name;
    task->facts.input = c->input_text;
    task->facts.output = c->output_text;
    task->facts.unit = "samples";
    task->facts.n_left_out = task->training && !has_open_size(&c->source)
                                 ? qn_task_left_out(task, c->source.n_samples[QN_TRAIN])
                                 : 0;
    for (int split = 0; split < QN_SPLITS; split++)
        task->facts.n_samples[split] = c->source.n_samples[split];
}

/* Batches in an epoch; of photos none is left out, so that one may begin in a batch. */
static double epoch_batches(const qn_task *task, const classification *c) {
    if (has_open_size(&c->source))
        return (double)c->source.n_samples[QN_TRAIN] / (double)qn_task_batch(task);
    return qn_task_epoch_batches(task, c->source.n_samples[QN_TRAIN]);
}

/* What regression and labels are measured by. */
static qn_status open_measures(qn_task *task, classification *c) {
    if (!c->are_labels)
        return qn_errors_init(&c->errors, task->allocator, c->n_outputs);
    QN_TRY(qn_label_counts_init(&c->labels, task->allocator, c->n_outputs));
    QN_TRY(
        qn_allocate(task->allocator, (size_t)c->n_outputs, sizeof *c->thresholds, &c->thresholds));
    qn_label_thresholds_read(qn_setting_text(task, QN_LABEL_THRESHOLDS, NULL), c->n_outputs,
                             c->thresholds);
    return QN_OK;
}

static qn_status classification_open(qn_task *task) {
    classification *c;
    QN_TRY(qn_allocate(task->allocator, 1, sizeof *c, &c));
    task->self = c;
    if (task->training)
        QN_TRY(qn_task_choose_last_batch(task, NULL));
    QN_TRY(open_data(task, c));
    if (task->training) {
        QN_TRY(qn_task_open_train(task, &c->source, &c->preparation, 0, &c->train));
        qn_task_set_length(task, epoch_batches(task, c));
    }
    QN_TRY(
        qn_task_open_tests(task, &c->source, &c->preparation, qn_task_test_batch(task), c->test));
    fill_facts(task, c);
    QN_TRY(make_confusion(task, c));
    if (c->is_regression)
        QN_TRY(open_measures(task, c));
    task->aligned_inputs = true;
    if (has_start(task))
        task->reserve_bytes = qn_features_bytes(c->source.n_samples[QN_TRAIN], MOST_FEATURES,
                                                c->n_outputs, c->input, qn_task_test_batch(task));
    return make_trainer(task, c);
}

static void classification_close(qn_task *task) {
    classification *c = task->self;
    if (!c)
        return;
    qn_trainer_destroy(c->trainer);
    task->engine = NULL;
    for (int split = 0; split < QN_SPLITS; split++)
        qn_loader_destroy(c->test[split]);
    qn_loader_destroy(c->train);
    qn_confusion_counts_destroy(c->confusion);
    qn_errors_deinit(&c->errors, task->allocator);
    qn_label_counts_deinit(&c->labels, task->allocator);
    qn_release(task->allocator, c->thresholds, (size_t)c->n_outputs, sizeof *c->thresholds);
    qn_release(task->allocator, c->taken, (size_t)qn_task_test_batch(task), sizeof *c->taken);
    qn_release(task->allocator, c->class_weights, (size_t)c->n_outputs, sizeof(double));
    qn_data_close(&c->source);
    qn_release(task->allocator, c, 1, sizeof *c);
}

static qn_status classification_resume(qn_task *task) {
    classification *c = task->self;
    const int64_t accumulate = qn_setting_count(task, "accumulate", 1);
    if (!task->training)
        return QN_OK;
    qn_loader_destroy(c->train);
    c->train = NULL;
    return qn_task_open_train(task, &c->source, &c->preparation,
                              qn_trainer_steps(c->trainer) * accumulate, &c->train);
}

/* ---- running ---- */

static qn_status classification_step(qn_task *task, qn_metrics *metrics) {
    classification *c = task->self;
    qn_step_result result = {0};
    while (!result.completed) {
        QN_TRY(qn_loader_next(c->train, &c->last));
        QN_TRY(c->last.weight ? qn_trainer_step_weighted(c->trainer, c->last.x, c->last.y,
                                                         c->last.weight, &result)
                              : qn_trainer_step(c->trainer, c->last.x, c->last.y, &result));
    }
    qn_metrics_add(metrics, "loss", result.loss, false);
    if (!c->is_regression)
        qn_metrics_add(metrics, "accuracy", result.accuracy, true);
    return QN_OK;
}

static void count_calibration(classification *c, const qn_batch *batch) {
    const int32_t *labels = batch->y;
    const float *of = c->is_calibrated ? qn_trainer_chances(c->trainer) : NULL;
    for (int64_t i = 0; of && i < batch->n_valid; i++, of += c->n_outputs) {
        int best = 0;
        for (int k = 1; k < c->n_outputs; k++)
            best = of[k] > of[best] ? k : best;
        qn_calibration_add(&c->calibration, (double)of[best], best == labels[i]);
    }
}

static void report_calibration(const classification *c, qn_metrics *metrics) {
    const qn_calibration *sum = &c->calibration;
    if (sum->n == 0)
        return;
    qn_metrics_add(metrics, "calibration_error", qn_calibration_error(sum), true);
    qn_metrics_add(metrics, "sure", (double)sum->n_sure / (double)sum->n, true);
    if (sum->n_sure > 0)
        qn_metrics_add(metrics, "accuracy_where_sure",
                       (double)sum->n_sure_right / (double)sum->n_sure, true);
}

static void count_confusion(classification *c, const qn_batch *batch) {
    const int32_t *labels = batch->y;
    for (int64_t i = 0; c->confusion && i < batch->n_valid; i++)
        qn_confusion_counts_add(c->confusion, labels[i], c->taken[i]);
}

/* ---- measuring ---- */

/* An evaluation that is under way, over one split or more. */
typedef struct measuring {
    qn_task *task;
    bool (*should_stop)(void *user);
    void *user;
    qn_evaluation sum;
} measuring;

static measuring measuring_begin(qn_task *task, bool (*should_stop)(void *user), void *user) {
    classification *c = task->self;
    if (c->confusion)
        qn_confusion_counts_clear(c->confusion);
    qn_errors_clear(&c->errors);
    qn_label_counts_clear(&c->labels);
    c->is_calibrated = !c->is_regression && qn_setting_text(task, QN_UNSURE_BELOW, NULL);
    c->calibration = (qn_calibration){.unsure = qn_setting_number(task, QN_UNSURE_BELOW, 0)};
    return (measuring){task, should_stop, user, {.taken = c->taken}};
}

static qn_status measure_batches(measuring *m, qn_loader *loader) {
    classification *c = m->task->self;
    qn_batch batch;
    for (;;) {
        if (m->should_stop && m->should_stop(m->user))
            return qn_fail(QN_ERROR_INTERRUPTED, "stopped while testing");
        QN_TRY(qn_loader_next(loader, &batch));
        if (!batch.x)
            return QN_OK;
        QN_TRY(qn_trainer_evaluate(c->trainer, batch.x, batch.y, batch.n_valid, &m->sum));
        count_confusion(c, &batch);
        count_calibration(c, &batch);
        if (c->are_labels)
            qn_label_counts_add(&c->labels, qn_trainer_outputs(c->trainer), batch.y, batch.n_valid);
        else if (c->is_regression)
            qn_errors_add(&c->errors, &c->preparation, qn_trainer_outputs(c->trainer), batch.y,
                          batch.n_valid);
    }
}

/* At least one sample was measured. */
static void measuring_finish(const measuring *m, qn_metrics *metrics, int64_t *n_samples) {
    classification *c = m->task->self;
    const qn_evaluation *sum = &m->sum;
    if (c->confusion)
        qn_confusion_counts_finish(c->confusion, &m->task->confusion);
    *n_samples = sum->n_samples;
    qn_metrics_add(metrics, "loss", sum->loss_sum / (double)sum->n_samples, false);
    if (!c->is_regression)
        qn_metrics_add(metrics, "accuracy", (double)sum->n_correct / (double)sum->n_samples, true);
    else if (c->are_labels)
        qn_label_report(&c->labels, c->thresholds, metrics);
    else
        qn_errors_report(&c->errors, metrics);
    report_calibration(c, metrics);
    if (c->are_labels && !m->task->training)
        qn_label_tell(&c->labels, c->thresholds, c->preparation.table, m->task->log);
    if (c->is_regression && !c->are_labels && !m->task->training)
        qn_errors_tell(&c->errors, &c->preparation, m->task->log);
}

/* Validation samples say above which chance a sample has a label. */
static qn_status keep_thresholds(qn_task *task, classification *c) {
    const char *text;
    qn_arena arena;
    for (int k = 0; k < c->n_outputs; k++)
        c->thresholds[k] = qn_label_threshold(&c->labels, k);
    qn_arena_init(&arena, task->allocator);
    qn_status status = qn_label_thresholds_write(&arena, c->thresholds, c->n_outputs, &text);
    if (status == QN_OK)
        status = qn_setting_set(task, QN_LABEL_THRESHOLDS, text);
    qn_arena_deinit(&arena);
    return status;
}

/* QN_ALL_SPLITS is every one. */
static qn_status classification_evaluate(qn_task *task, qn_split split,
                                         bool (*should_stop)(void *user), void *user,
                                         qn_metrics *metrics, int64_t *n_samples) {
    classification *c = task->self;
    measuring m = measuring_begin(task, should_stop, user);
    for (int i = QN_TRAIN; i < QN_SPLITS; i++) {
        if ((split != QN_ALL_SPLITS && i != (int)split) || c->source.n_samples[i] == 0)
            continue;
        QN_TRY(qn_task_open_split(task, &c->source, &c->preparation, (qn_split)i,
                                  qn_task_test_batch(task), &c->test[i]));
        QN_TRY(measure_batches(&m, c->test[i]));
    }
    if (m.sum.n_samples == 0)
        return QN_OK;
    measuring_finish(&m, metrics, n_samples);
    return task->training && split == QN_VALIDATION && c->are_labels ? keep_thresholds(task, c)
                                                                     : QN_OK;
}

/* ---- other data ---- */

qn_status qn_task_open_data(qn_task *task, const char *data, qn_data_source *source) {
    QN_NEED(task, "task");
    QN_NEED(data, "data");
    QN_NEED(source, "source");
    if (task->kind != &qn_task_classification)
        return qn_fail(QN_ERROR_UNSUPPORTED, "model %s is of the task %s, which opens its own data",
                       task->model->name, task->kind->name);
    qn_data_options options = data_options(task);
    const char *own = qn_setting_text(task, "data", "");
    options.held_out = strcmp(own, data) == 0 ? qn_task_held_out(task->settings) : NULL;
    QN_TRY(qn_task_table_options(task, true, &options));
    return qn_data_open(data, &options, source);
}

/* Rows are numbers in the order of the network's columns. */
static qn_status check_columns(const classification *c, const qn_data_source *source) {
    const qn_table *known = c->preparation.table, *given = source->preparation.table;
    if (!known || !given)
        return QN_OK;
    for (int i = 0; i < known->n_columns || i < given->n_columns; i++) {
        const char *wanted = i < known->n_columns ? known->columns[i].name : "no other one";
        const char *found = i < given->n_columns ? given->columns[i].name : "none";
        if (strcmp(wanted, found) != 0)
            return qn_fail(QN_ERROR_FORMAT,
                           "%s: its column %d is %s, where the network was trained on %s: open the "
                           "data with qn_task_open_data, which finds columns by name",
                           source->name, i + 1, found, wanted);
    }
    return QN_OK;
}

static qn_status open_other(qn_task *task, const qn_data_source *source, qn_split split,
                            qn_loader **loader) {
    const classification *c = task->self;
    qn_data_source other = *source;
    QN_TRY(qn_reading_fit(task->settings, &other, &c->input));
    QN_TRY(set_size(c, &other));
    return qn_task_open_split(task, &other, &c->preparation, split, qn_task_test_batch(task),
                              loader);
}

static qn_status check_targets(const classification *c, const qn_data_source *source) {
    if (c->is_regression ? source->n_targets != c->n_outputs : source->n_targets > 0)
        return qn_fail(QN_ERROR_ARGUMENT, "%s has other targets than the network was made for",
                       source->name);
    if (!c->is_regression && source->preparation.n_classes > c->n_outputs)
        return qn_fail(QN_ERROR_ARGUMENT, "%s has %d classes, but the network has %s", source->name,
                       source->preparation.n_classes, c->output_text);
    return check_columns(c, source);
}

static qn_status measure_other(measuring *m, const qn_data_source *source, qn_split split) {
    qn_loader *loader = NULL;
    qn_status status = open_other(m->task, source, split, &loader);
    if (status == QN_OK)
        status = measure_batches(m, loader);
    qn_loader_destroy(loader);
    return status;
}

static qn_status classification_evaluate_on(qn_task *task, const qn_data_source *source,
                                            qn_split split, bool (*should_stop)(void *user),
                                            void *user, qn_metrics *metrics, int64_t *n_samples) {
    const classification *c = task->self;
    QN_TRY(check_targets(c, source));
    qn_data_source matched = *source;
    matched.close = NULL; /* it stays the caller's */
    QN_TRY(qn_match_classes(task->allocator, task->log, &c->preparation, &matched));
    qn_status status = QN_OK;
    measuring m = measuring_begin(task, should_stop, user);
    for (int i = QN_TRAIN; i < QN_SPLITS && status == QN_OK; i++) {
        if ((split == QN_ALL_SPLITS || i == (int)split) && source->n_samples[i] > 0)
            status = measure_other(&m, &matched, (qn_split)i);
    }
    if (status == QN_OK && m.sum.n_samples > 0)
        measuring_finish(&m, metrics, n_samples);
    if (matched.close)
        matched.close(matched.self);
    return status;
}

static qn_status predict_batches(const qn_task *task, qn_loader *loader,
                                 bool (*should_stop)(void *user), void *user, float *all,
                                 float *outputs) {
    const classification *c = task->self;
    qn_batch batch;
    for (;;) {
        if (should_stop && should_stop(user))
            return qn_fail(QN_ERROR_INTERRUPTED, "stopped while predicting");
        QN_TRY(qn_loader_next(loader, &batch));
        if (!batch.x)
            return QN_OK;
        const size_t n = (size_t)(batch.n_valid * c->n_outputs);
        QN_TRY(qn_trainer_predict(c->trainer, batch.x, all));
        memcpy(outputs, all, n * sizeof *outputs);
        if (c->is_regression)
            qn_targets_restore(&c->preparation, c->n_outputs, batch.n_valid, outputs);
        outputs += n;
    }
}

static qn_status classification_predict(qn_task *task, const qn_data_source *source, qn_split split,
                                        bool (*should_stop)(void *user), void *user,
                                        float *outputs) {
    const classification *c = task->self;
    const size_t n = (size_t)(qn_task_test_batch(task) * c->n_outputs);
    qn_data_source data = *source;
    qn_loader *loader = NULL;
    float *all; /* of a batch, padding too */
    if (c->is_regression && data.n_targets == 0)
        data.n_targets = 1; /* a class takes the bytes of a target, and is no class here */
    QN_TRY(qn_allocate(task->allocator, n, sizeof *all, &all));
    qn_status status = open_other(task, &data, split, &loader);
    if (status == QN_OK)
        status = predict_batches(task, loader, should_stop, user, all, outputs);
    qn_loader_destroy(loader);
    qn_release(task->allocator, all, n, sizeof *all);
    return status;
}

static int classification_outputs(const qn_task *task) {
    const classification *c = task->self;
    return c->n_outputs;
}

static qn_status classification_infer(qn_task *task, double *loss) {
    classification *c = task->self;
    const int64_t most = qn_task_test_batch(task), n = c->last.n_valid;
    qn_evaluation sum = {0};
    if (!c->last.x)
        return QN_OK;
    QN_TRY(qn_trainer_evaluate(c->trainer, c->last.x, c->last.y, n < most ? n : most, &sum));
    *loss = sum.loss_sum;
    return QN_OK;
}

/* ---- a head for features ---- */

/* Weight (n_outputs, width) and bias (n_outputs) of the head in the engine. */
static qn_status find_head(const qn_task *task, float **weight, float **bias) {
    const classification *c = task->self;
    const qn_shape rows = QN_SHAPE(c->n_outputs, qn_trainer_feature_width(c->trainer));
    *weight = *bias = NULL;
    for (int i = 0; i < qn_engine_tensor_count(task->engine); i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(task->engine, i);
        if (!t.is_head || t.is_state || t.dtype != QN_F32)
            continue;
        if (qn_shape_equal(t.shape, rows))
            *weight = t.data;
        if (qn_shape_equal(t.shape, QN_SHAPE(c->n_outputs)))
            *bias = t.data;
    }
    return *weight && *bias ? QN_OK
                            : qn_fail(QN_ERROR_UNSUPPORTED,
                                      "the last layer of %s is no linear layer with a bias, which "
                                      "a start needs; train in steps: --start none",
                                      task->model->name);
}

static qn_status keep_unsure(qn_task *task, const qn_head_fit *fit) {
    char text[40];
    qn_print(text, sizeof text, "%.9g", fit->unsure);
    return fit->n_folds > 0 ? qn_setting_set(task, QN_UNSURE_BELOW, text) : QN_OK;
}

static qn_status fit_to(qn_task *task, qn_features *features, bool (*should_stop)(void *user),
                        void *user, qn_head_fit *fit) {
    const classification *c = task->self;
    float *weight, *bias;
    QN_TRY(find_head(task, &weight, &bias));
    QN_TRY(qn_known_region_keep(task->allocator, features, c->n_outputs, task->settings));
    QN_TRY(qn_head_fit_find(task->allocator, features, c->n_outputs, should_stop, user, weight,
                            bias, NULL, fit));
    return keep_unsure(task, fit);
}

static qn_status classification_fit_head(qn_task *task, bool (*should_stop)(void *user), void *user,
                                         int64_t *n_made, qn_head_fit *fit) {
    classification *c = task->self;
    qn_features features = {.n = 0};
    const int64_t batch = qn_task_test_batch(task);
    float *weight, *bias;
    QN_TRY(find_head(task, &weight, &bias)); /* before the work */
    qn_feature_maker maker = {.allocator = task->allocator,
                              .log = task->log,
                              .trainer = c->trainer,
                              .sample = c->input,
                              .n = {[QN_TRAIN] = c->source.n_samples[QN_TRAIN]},
                              .batch = batch,
                              .name = c->source.name,
                              .should_stop = should_stop,
                              .user = user};
    QN_TRY(qn_task_open_split(task, &c->source, &c->preparation, QN_TRAIN, batch,
                              &maker.loaders[QN_TRAIN]));
    qn_status status = qn_features_make(&maker, &features);
    qn_loader_destroy(maker.loaders[QN_TRAIN]);
    if (status == QN_OK)
        status = fit_to(task, &features, should_stop, user, fit);
    qn_features_deinit(task->allocator, &features);
    *n_made = maker.n_made;
    return status;
}

static qn_status classification_look(qn_task *task, bool (*should_stop)(void *user), void *user,
                                     qn_sample_looks *looks) {
    classification *c = task->self;
    float *weight = NULL, *bias = NULL;
    *looks = (qn_sample_looks){.n_classes = 0};
    if (c->is_regression)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "the targets of %s are %s: it is classes that are looked at", c->source.name,
                       c->are_labels ? "labels" : "numbers");
    if (strcmp(qn_setting_text(task, QN_GIVES_FEATURES, ""), "kept") == 0)
        QN_TRY(find_head(task, &weight, &bias));
    const qn_looking looking = {.task = task,
                                .source = &c->source,
                                .preparation = &c->preparation,
                                .trainer = c->trainer,
                                .sample = c->input,
                                .n_classes = c->n_outputs,
                                .weight = weight,
                                .bias = bias,
                                .should_stop = should_stop,
                                .user = user};
    return qn_looks_make(&looking, looks);
}

const qn_task_kind qn_task_classification = {
    .name = "classification",
    .summary = "naming the class of an image or a row of numbers, or its numeric targets",
    .open = classification_open,
    .close = classification_close,
    .resume = classification_resume,
    .step = classification_step,
    .evaluate = classification_evaluate,
    .evaluate_on = classification_evaluate_on,
    .predict = classification_predict,
    .n_outputs = classification_outputs,
    .infer = classification_infer,
    .fit_head = classification_fit_head,
    .look = classification_look,
};
