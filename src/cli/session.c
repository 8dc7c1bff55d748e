/* See session.h. */
#include "cli/session.h"

#include "base/status.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PREFETCHED = 2 };

static void write_log(void *user, int level, const char *text) {
    (void)user;
    fprintf(stderr, "quern: %s%s\n", level > 0 ? "warning: " : "", text);
}

const qn_log session_log = {NULL, write_log};

void session_init(session *s) {
    *s = (session){.model = NULL};
    s->allocator = qn_counter_init(&s->counter, NULL);
}

void session_deinit(session *s) {
    qn_trainer_destroy(s->trainer);
    qn_loader_destroy(s->test);
    qn_loader_destroy(s->train);
    qn_data_close(&s->source);
    qn_metadata_destroy(s->metadata);
}

/* ---- data ---- */

static bool has_open_size(const qn_data_source *source) {
    for (int i = 0; i < source->sample.rank; i++) {
        if (source->sample.dims[i] == 0)
            return true;
    }
    return false;
}

/* Rows of numbers decide the input themselves; images are matched to the model. */
static qn_shape find_input(const session *s, qn_shape asked) {
    if (asked.rank > 0)
        return asked;
    return s->source.sample.rank == 1 ? s->source.sample : s->model->input;
}

static qn_status find_outputs(session *s, int n_classes) {
    const qn_data_source *source = &s->source;
    const int n_found = source->preparation.n_classes;
    s->is_regression = source->n_targets > 0;
    if (s->is_regression) {
        s->n_outputs = source->n_targets;
        return QN_OK;
    }
    if (n_classes > 0 && n_classes < n_found)
        return qn_fail(QN_ERROR_ARGUMENT, "%s has %d classes, but the model is to have %d",
                       source->name, n_found, n_classes);
    s->n_outputs = n_classes > 0 ? n_classes : n_found;
    return QN_OK;
}

qn_status session_open_data(session *s, const data_request *request, const qn_preparation *kept) {
    const qn_shape sample = request->input.rank > 0 ? request->input : s->model->input;
    const qn_data_options options = {
        .allocator = &s->allocator,
        .log = &session_log,
        .seed = request->seed,
        .holdout = request->holdout,
        .sample = sample,
        .n_classes =
            request->n_classes > 0 ? request->n_classes : qn_model_classes(s->model, sample),
    };
    QN_TRY(qn_data_open(request->specification, &options, &s->source));
    s->input = find_input(s, request->input);
    QN_TRY(find_outputs(s, request->n_classes));
    s->preparation = kept ? *kept : s->source.preparation;
    s->preparation.sample = s->input;
    if (has_open_size(&s->source) && s->source.set_size && s->input.rank == 3)
        return s->source.set_size(s->source.self, s->input.dims[0], s->input.dims[1],
                                  s->input.dims[2]);
    return QN_OK;
}

qn_status session_open_test(session *s, qn_split split, int64_t batch) {
    const int64_t n_samples = s->source.n_samples[split];
    const qn_loader_options options = {
        .allocator = &s->allocator,
        .split = split,
        .batch = batch,
        .pad_last = true,
        .n_batches = (n_samples + batch - 1) / batch,
        .n_prefetched = PREFETCHED,
    };
    return qn_loader_create(&s->source, &s->preparation, &options, &s->test);
}

/* ---- checkpoints ---- */

static qn_status read_outputs(session *s, const char *path) {
    const char *input = qn_metadata_get(s->metadata, "input");
    const char *classes = qn_metadata_get(s->metadata, "classes");
    if (!input || !classes || !shape_parse(input, &s->input))
        return qn_fail(QN_ERROR_FORMAT, "%s: its settings do not say input and classes", path);
    s->n_outputs = atoi(classes);
    s->is_regression = s->preparation.n_classes == 0;
    if (s->n_outputs < 1 || s->n_outputs < s->preparation.n_classes ||
        !qn_shape_equal(s->input, s->preparation.sample))
        return qn_fail(QN_ERROR_FORMAT, "%s: its settings and its preparation differ", path);
    return QN_OK;
}

qn_status session_read_checkpoint(session *s, const char *path) {
    QN_TRY(qn_checkpoint_read(&s->allocator, path, &s->metadata));
    qn_status status = qn_metadata_get_preparation(s->metadata, &s->preparation);
    if (status != QN_OK)
        return qn_fail_within(status, "%s", path);
    return read_outputs(s, path);
}

qn_status session_load(session *s, const char *path, bool with_state) {
    const char *kept = s->metadata ? qn_metadata_get(s->metadata, "model") : NULL;
    const bool is_other = kept && strcmp(kept, s->model->name) != 0;
    qn_status status = qn_checkpoint_load(qn_trainer_engine(s->trainer), path, with_state);
    if (is_other && status == QN_OK)
        return qn_fail(QN_ERROR_FORMAT, "%s is of model %s, not %s", path, kept, s->model->name);
    if (is_other)
        return qn_fail_within(status, "%s is of model %s, not %s", path, kept, s->model->name);
    return status;
}

qn_status session_open_weights(session *s, const char *path, int64_t batch, int n_threads) {
    qn_trainer_options options = qn_trainer_options_for(s->model);
    options.allocator = &s->allocator;
    options.input = s->input;
    options.n_outputs = s->n_outputs;
    options.regression = s->is_regression;
    options.batch = 1;
    options.evaluation_batch = batch;
    options.update.optimizer = QN_SGD;
    options.update.momentum = 0;
    options.update.nesterov = false;
    options.n_threads = n_threads;
    QN_TRY(qn_trainer_create(&options, &s->trainer));
    return session_load(s, path, false);
}

const char *class_name(const qn_preparation *preparation, int64_t index, char *text, size_t bytes) {
    if (preparation->class_names && index < preparation->n_classes)
        return preparation->class_names[index];
    snprintf(text, bytes, "%lld", (long long)index);
    return text;
}
