/* The predictor: one program, the network with a softmax, over the weights of a file. The file's
 * text pairs give the model, the input and the preparation, both in a checkpoint and in an ONNX
 * file written by quern. An ONNX file is closed as soon as the engine has its weights. */
#include "quern/predictor.h"

#include "base/options.h"
#include "base/status.h"
#include "models/models.h"
#include "os/heap.h"
#include "passes/head.h"
#include "quern/checkpoint.h"
#include "quern/onnx.h"
#include "tasks/features/unknown.h"
#include "tasks/rows/predict.h"
#include "tasks/rows/regression.h"
#include "tasks/tasks.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The only program, its results: the second where it tells unknown things. */
enum { PROGRAM = 0, OUTPUTS = 0, FEATURES = 1 };

struct qn_predictor {
    const qn_allocator *below; /* the caller's */
    qn_counter counter;        /* of all memory below */
    qn_allocator allocator;
    qn_metadata *pairs;
    qn_onnx_network
        *network;          /* until the engine is made; null: a model of the zoo, or the user's */
    const qn_model *model; /* likewise of the network's */
    qn_preparation preparation;
    qn_shape input;
    int n_outputs;
    bool is_regression;
    int64_t batch;
    qn_engine *engine;
    float *x;              /* (batch,) + input */
    qn_known_region known; /* no classes: it does not tell unknown things */
    bool is_unknown;       /* the first sample of the last batch */
};

static bool is_onnx(const char *path) {
    const size_t n = strlen(path);
    return n > 5 && strcmp(path + n - 5, ".onnx") == 0;
}

/* ---- the model ---- */

static qn_status import(qn_predictor *p, const qn_predictor_options *o, const char *path) {
    qn_onnx_options options = {QN_OPTIONS_INIT(qn_onnx_options)};
    if (o->onnx)
        QN_TRY(QN_OPTIONS_TAKE(qn_onnx_options, o->onnx, &options));
    options.allocator = &p->allocator;
    options.log = o->log;
    options.keep_softmax = false;
    qn_onnx_options_read(p->pairs, &options);
    QN_TRY(qn_onnx_open(&options, path, &p->network));
    QN_TRY(qn_onnx_model_for(p->network, "classification", &p->model));
    if (qn_onnx_input(p->network, 0)->batch_axis < 0) /* it takes one sample at a time */
        p->batch = 1;
    return QN_OK;
}

/* Beside the file that names it, where it is no longer where it was. */
static qn_status import_named(qn_predictor *p, const qn_predictor_options *o, const char *path,
                              const char *name) {
    const char *end = strrchr(path, '/'), *last = strrchr(name, '/');
    const qn_status status = import(p, o, name);
    char beside[4096];
    if (status != QN_ERROR_IO || o->model || !end)
        return status;
    const int n =
        snprintf(beside, sizeof beside, "%.*s/%s", (int)(end - path), path, last ? last + 1 : name);
    if ((size_t)n < sizeof beside && import(p, o, beside) == QN_OK)
        return QN_OK;
    return qn_fail(status, "%s was trained from %s, which is not there any more", path, name);
}

static qn_status check_hash(const qn_predictor *p, const char *path, const char *name) {
    const char *wanted = qn_metadata_get(p->pairs, "model_hash");
    char hash[QN_ONNX_HASH_TEXT];
    if (!p->network || !wanted)
        return !p->network == !wanted ? QN_OK
                                      : qn_fail(QN_ERROR_FORMAT, "%s is of %s, not of %s", path,
                                                qn_metadata_get(p->pairs, "model"), p->model->name);
    QN_TRY(qn_onnx_hash(p->network, hash));
    if (strcmp(hash, wanted) == 0)
        return QN_OK;
    return qn_fail(QN_ERROR_FORMAT,
                   "%s was trained from another file than %s, or that file has changed since: give "
                   "the one that it was trained from",
                   path, name);
}

/* The model that a checkpoint is of: the caller's, or by name. */
static qn_status find_model(qn_predictor *p, const qn_predictor_options *o, const char *path) {
    const char *kept = qn_metadata_get(p->pairs, "model"), *name = o->model ? o->model : kept;
    p->model = o->own_model;
    if (!p->model && !name)
        return qn_fail(QN_ERROR_FORMAT, "%s does not name its model; say which it is", path);
    if (!p->model && is_onnx(name))
        QN_TRY(import_named(p, o, path, name));
    else if (!p->model && !(p->model = qn_model_find(name)))
        return QN_ERROR_ARGUMENT;
    if (!p->model->build)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "%s is a model of the task %s; only classifiers and regressions predict",
                       p->model->name, qn_task_of(p->model));
    if (o->onnx && !p->network)
        return qn_fail(QN_ERROR_ARGUMENT, "%s is not of an ONNX file, and options of one are given",
                       path);
    return o->own_model ? QN_OK : check_hash(p, path, p->model->name);
}

/* ---- what goes in and comes out ---- */

/* The input and outputs of a checkpoint, which its settings and its preparation must agree on. */
static qn_status read_sizes(qn_predictor *p, const char *path) {
    const char *input = qn_metadata_get(p->pairs, "input");
    const char *classes = qn_metadata_get(p->pairs, "classes");
    if (!input || !classes || !qn_shape_parse(input, &p->input))
        return qn_fail(QN_ERROR_FORMAT, "%s: its settings do not say input and classes", path);
    p->n_outputs = atoi(classes);
    if (p->n_outputs < 1 || p->n_outputs < p->preparation.n_classes ||
        !qn_shape_equal(p->input, p->preparation.sample))
        return qn_fail(QN_ERROR_FORMAT, "%s: its settings and its preparation differ", path);
    return QN_OK;
}

static qn_status read_preparation(qn_predictor *p, const qn_predictor_options *o,
                                  const char *path) {
    if (o->preparation) {
        p->preparation = *o->preparation;
        return QN_OK;
    }
    const qn_status status = qn_metadata_get_preparation(p->pairs, &p->preparation);
    return status == QN_OK ? QN_OK : qn_fail_within(status, "%s", path);
}

static qn_status open_checkpoint(qn_predictor *p, const qn_predictor_options *o, const char *path) {
    QN_TRY(qn_checkpoint_read(&p->allocator, path, &p->pairs));
    QN_TRY(find_model(p, o, path));
    QN_TRY(read_preparation(p, o, path));
    return read_sizes(p, path);
}

/* An ONNX file without a checkpoint: its input and outputs are the file's own. */
static qn_status open_network(qn_predictor *p, const qn_predictor_options *o, const char *path) {
    QN_TRY(qn_metadata_create(&p->allocator, &p->pairs));
    QN_TRY(import(p, o, path));
    QN_TRY(qn_onnx_properties(p->network, p->pairs));
    if (!o->preparation && !qn_metadata_get(p->pairs, "preparation.sample"))
        return qn_fail(QN_ERROR_FORMAT,
                       "%s does not say how images are prepared (size, mean, deviation): quern "
                       "export --weights writes it down; else give a preparation",
                       path);
    QN_TRY(read_preparation(p, o, path));
    p->input = p->preparation.sample;
    p->n_outputs = p->model->n_classes;
    if (p->n_outputs < p->preparation.n_classes)
        return qn_fail(QN_ERROR_FORMAT, "%s makes %d outputs, but names %d classes", path,
                       p->n_outputs, p->preparation.n_classes);
    return QN_OK;
}

/* ---- the engine ---- */

static qn_value build(qn_graph *graph, void *user, int phase, qn_value *kept) {
    const qn_predictor *p = user;
    const qn_tuning tuning = qn_tuning_of(p->pairs);
    qn_shape shape = {.rank = p->input.rank + 1, .dims = {p->batch}};
    (void)phase;
    (void)kept;
    memcpy(shape.dims + 1, p->input.dims, (size_t)p->input.rank * sizeof *shape.dims);
    const qn_value outputs = qn_build_outputs(graph, p->model, qn_input(graph, "input", shape),
                                              p->n_outputs, tuning.head);
    const bool are_labels = p->preparation.table && p->preparation.table->are_labels;
    qn_result(graph, are_labels         ? qn_sigmoid(graph, "chances", outputs)
                     : p->is_regression ? outputs
                                        : qn_softmax(graph, "probabilities", outputs));
    const qn_node *head = p->known.n_classes > 0 ? qn_find_head(graph, outputs, NULL) : NULL;
    if (head)
        qn_result(graph, qn_reshape(graph, "features", head->inputs[0],
                                    QN_SHAPE(p->batch, p->known.width)));
    return QN_NO_VALUE;
}

/* Below this work of a call a second thread saves less time than its share of memory and energy is
 * worth: some tenths of a millisecond. */
static const double small_flops = 100e6;

/* As many as were asked for, one for little work, or 0: all processors. */
static qn_status choose_threads(const qn_predictor *p, int asked, int *n_threads) {
    qn_model_size size;
    *n_threads = asked;
    if (asked != 0)
        return QN_OK;
    QN_TRY(qn_model_measure(p->model, p->input, p->n_outputs, &size));
    *n_threads = (double)size.forward_flops * (double)p->batch < small_flops ? 1 : 0;
    return QN_OK;
}

static qn_status make_engine(qn_predictor *p, const qn_predictor_options *o) {
    int n_threads;
    qn_numerics numerics;
    QN_TRY(choose_threads(p, o->n_threads, &n_threads));
    QN_TRY(qn_numerics_of(p->pairs, &numerics));
    const qn_engine_options engine = {
        QN_OPTIONS_INIT(qn_engine_options),
        .allocator = &p->allocator,
        .tuning = qn_tuning_of(p->pairs),
        .seed = qn_seed_of(p->pairs),
        .n_threads = n_threads,
        .aligned_inputs = true,
        .no_random_values = true,
        .numerics = numerics.name[0] ? &numerics : NULL,
    };
    const qn_program_options program = {QN_OPTIONS_INIT(qn_program_options), .name = "prediction",
                                        .user = p, .build = build};
    return qn_engine_create(&engine, &program, 1, &p->engine);
}

static qn_status load(qn_predictor *p, const qn_predictor_options *o, const char *path) {
    const char *kept = qn_metadata_get(p->pairs, "model");
    QN_TRY(qn_checkpoint_load_base(p->engine, p->pairs, path));
    const qn_status status = qn_checkpoint_load(p->engine, path, false);
    if (status != QN_OK && kept && !o->own_model && strcmp(kept, p->model->name) != 0)
        return qn_fail_within(status, "%s is of model %s, not %s", path, kept, p->model->name);
    return status;
}

/* The name goes into the pairs, since the model may end with its file. */
static qn_status keep_name(qn_predictor *p) {
    QN_TRY(qn_metadata_set(p->pairs, "model", p->model->name));
    p->model = p->network ? NULL : p->model;
    qn_onnx_close(p->network);
    p->network = NULL;
    return QN_OK;
}

/* Of the batch that was asked for, or, where the network of a file fits no other than its own, of
 * that. */
static qn_status make_engine_for_batch(qn_predictor *p, const qn_predictor_options *o) {
    const int64_t fixed = p->model->build ? p->model->sizes.batch : 0;
    const qn_status status = make_engine(p, o);
    if (status == QN_OK || status == QN_ERROR_MEMORY || fixed < 1 || fixed == p->batch)
        return status;
    p->batch = fixed;
    return make_engine(p, o);
}

/* Of weights whose head was fitted, and not trained on in steps. */
static qn_status read_known(qn_predictor *p) {
    const char *step = qn_metadata_get(p->pairs, "step");
    return step && strcmp(step, "1") == 0 ? qn_known_region_read(&p->allocator, p->pairs, &p->known)
                                          : QN_OK;
}

static qn_status open_all(qn_predictor *p, const qn_predictor_options *o, const char *path) {
    const bool is_network = is_onnx(path);
    p->batch = o->batch > 0 ? o->batch : 1;
    QN_TRY(is_network ? open_network(p, o, path) : open_checkpoint(p, o, path));
    p->is_regression = p->preparation.n_classes == 0;
    if (!is_network)
        QN_TRY(read_known(p));
    QN_TRY(make_engine_for_batch(p, o));
    if (!is_network)
        QN_TRY(load(p, o, path));
    QN_TRY(keep_name(p));
    return qn_allocate(&p->allocator, (size_t)(p->batch * qn_shape_count(p->input)), sizeof *p->x,
                       &p->x);
}

qn_status qn_predictor_open(const char *path, const qn_predictor_options *options,
                            qn_predictor **predictor) {
    QN_NEED(path, "path");
    QN_NEED(predictor, "predictor");
    const qn_predictor_options none = {QN_OPTIONS_INIT(qn_predictor_options), .model = NULL},
                               *o = options ? options : &none;
    qn_predictor_options taken;
    qn_predictor *p;
    QN_TRY(QN_OPTIONS_TAKE(qn_predictor_options, o, &taken));
    o = &taken;
    const qn_allocator *below = qn_allocator_or_default(o->allocator);
    if (o->batch < 0 || o->batch > 1000000)
        return qn_fail(QN_ERROR_ARGUMENT, "batch is %lld; it must be 1 to 1000000",
                       (long long)o->batch);
    QN_TRY(qn_allocate(below, 1, sizeof *p, &p));
    p->below = below;
    p->allocator = qn_counter_init(&p->counter, below);
    const qn_status status = open_all(p, o, path);
    if (status != QN_OK) {
        qn_predictor_close(p);
        return status;
    }
    *predictor = p;
    return QN_OK;
}

void qn_predictor_close(qn_predictor *p) {
    if (!p)
        return;
    if (p->x)
        qn_release(&p->allocator, p->x, (size_t)(p->batch * qn_shape_count(p->input)),
                   sizeof *p->x);
    qn_known_region_deinit(&p->allocator, &p->known);
    qn_engine_destroy(p->engine);
    qn_onnx_close(p->network);
    qn_metadata_destroy(p->pairs);
    qn_release(p->below, p, 1, sizeof *p);
}

/* ---- predicting ---- */

/* Runs what is in x; the first n samples of it count. */
static qn_status run(qn_predictor *p, int64_t n, float *outputs) {
    QN_TRY(qn_engine_run(p->engine, PROGRAM, (const void *[]){p->x}));
    memcpy(outputs, qn_engine_result(p->engine, PROGRAM, OUTPUTS),
           (size_t)(n * p->n_outputs) * sizeof *outputs);
    if (p->is_regression)
        qn_targets_restore(&p->preparation, p->n_outputs, n, outputs);
    if (p->known.n_classes > 0)
        p->is_unknown =
            qn_known_region_distance(&p->known, qn_engine_result(p->engine, PROGRAM, FEATURES)) >
            p->known.most;
    return QN_OK;
}

bool qn_predictor_tells_unknown(const qn_predictor *p) {
    return p->known.n_classes > 0;
}

bool qn_predictor_is_unknown(const qn_predictor *p) {
    return p->is_unknown;
}

static qn_status check_images(const qn_predictor *p) {
    if (p->input.rank == 3)
        return QN_OK;
    return qn_fail(QN_ERROR_UNSUPPORTED, "%s was trained on rows of numbers, not on images",
                   qn_metadata_get(p->pairs, "model"));
}

qn_status qn_predictor_predict(qn_predictor *p, const qn_image *images, int64_t n, float *outputs) {
    QN_NEED(p, "predictor");
    QN_NEED(images, "images");
    QN_NEED(outputs, "outputs");
    const int64_t sample = qn_shape_count(p->input);
    QN_TRY(check_images(p));
    for (int64_t first = 0; first < n; first += p->batch) {
        const int64_t n_now = n - first < p->batch ? n - first : p->batch;
        for (int64_t i = 0; i < n_now; i++)
            QN_TRY(qn_image_prepare_pixels(&p->allocator, &images[first + i], &p->preparation,
                                           p->x + i * sample));
        QN_TRY(run(p, n_now, outputs + first * p->n_outputs));
    }
    return QN_OK;
}

qn_status qn_predictor_predict_file(qn_predictor *p, const char *path, float *outputs) {
    QN_NEED(p, "predictor");
    QN_NEED(path, "path");
    QN_NEED(outputs, "outputs");
    QN_TRY(check_images(p));
    QN_TRY(qn_image_prepare(&p->allocator, path, &p->preparation, p->x));
    return run(p, 1, outputs);
}

qn_status qn_predictor_predict_prepared(qn_predictor *p, const float *x, int64_t n,
                                        float *outputs) {
    QN_NEED(p, "predictor");
    QN_NEED(x, "x");
    QN_NEED(outputs, "outputs");
    const int64_t sample = qn_shape_count(p->input);
    for (int64_t first = 0; first < n; first += p->batch) {
        const int64_t n_now = n - first < p->batch ? n - first : p->batch;
        memcpy(p->x, x + first * sample, (size_t)(n_now * sample) * sizeof *x);
        QN_TRY(run(p, n_now, outputs + first * p->n_outputs));
    }
    return QN_OK;
}

/* ---- what was seen ---- */

static const char *name_of(const qn_predictor *p, int index) {
    const qn_preparation *by = &p->preparation;
    return by->class_names && index < by->n_classes ? by->class_names[index] : NULL;
}

/* Whether output b comes after output a. */
static bool is_behind(const float *outputs, int a, int b) {
    return outputs[b] < outputs[a] || (outputs[b] == outputs[a] && b > a);
}

/* The first output in order behind the given one; last < 0: of all. */
static int next_behind(const qn_predictor *p, const float *outputs, int last) {
    int best = -1;
    for (int i = 0; i < p->n_outputs; i++) {
        if (last >= 0 && !is_behind(outputs, last, i))
            continue;
        if (best < 0 || is_behind(outputs, i, best))
            best = i;
    }
    return best;
}

int qn_predictor_rank(const qn_predictor *p, const float *outputs, int n_best,
                      qn_prediction *best) {
    QN_NEED_OR(p, "predictor", 0);
    QN_NEED_OR(outputs, "outputs", 0);
    QN_NEED_OR(best, "best", 0);
    int n = 0;
    for (int at = -1; n < n_best && n < p->n_outputs; n++) {
        at = p->is_regression ? n : next_behind(p, outputs, at);
        if (at < 0)
            return n;
        best[n] = (qn_prediction){at, name_of(p, at), (double)outputs[at]};
    }
    return n;
}

/* Outputs of one sample to the best of them; the run's own memory holds them. */
static void take_best(const qn_predictor *p, qn_prediction *best) {
    qn_predictor_rank(p, qn_engine_result(p->engine, PROGRAM, OUTPUTS), 1, best);
}

qn_status qn_predictor_classify(qn_predictor *p, const qn_image *image, qn_prediction *best) {
    QN_NEED(p, "predictor");
    QN_NEED(image, "image");
    QN_NEED(best, "best");
    QN_TRY(check_images(p));
    QN_TRY(qn_image_prepare_pixels(&p->allocator, image, &p->preparation, p->x));
    QN_TRY(qn_engine_run(p->engine, PROGRAM, (const void *[]){p->x}));
    take_best(p, best);
    return QN_OK;
}

qn_status qn_predictor_classify_file(qn_predictor *p, const char *path, qn_prediction *best) {
    QN_NEED(p, "predictor");
    QN_NEED(path, "path");
    QN_NEED(best, "best");
    QN_TRY(check_images(p));
    QN_TRY(qn_image_prepare(&p->allocator, path, &p->preparation, p->x));
    QN_TRY(qn_engine_run(p->engine, PROGRAM, (const void *[]){p->x}));
    take_best(p, best);
    return QN_OK;
}

const qn_metadata *qn_predictor_settings(const qn_predictor *p) {
    return p->pairs;
}

const char *qn_predictor_setting(const qn_predictor *p, const char *name) {
    return qn_metadata_get(p->pairs, name);
}

const qn_preparation *qn_predictor_preparation(const qn_predictor *p) {
    return &p->preparation;
}

qn_predictor_facts qn_predictor_get_facts(const qn_predictor *p) {
    QN_NEED_OR(p, "predictor", (qn_predictor_facts){0});
    const qn_memory_use use = qn_engine_get_memory(p->engine);
    return (qn_predictor_facts){
        .model = qn_metadata_get(p->pairs, "model"),
        .input = p->input,
        .n_outputs = p->n_outputs,
        .is_regression = p->is_regression,
        .weight_bytes = use.parameter_bytes,
        .arena_bytes = use.arena_bytes,
        .held_bytes = sizeof *p + qn_counter_held(&p->counter),
        .peak_bytes = sizeof *p + __atomic_load_n(&p->counter.peak_bytes, __ATOMIC_RELAXED),
        .n_names = p->preparation.class_names ? p->preparation.n_classes : 0,
        .names = p->preparation.class_names,
    };
}
