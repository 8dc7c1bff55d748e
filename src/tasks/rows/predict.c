/* See predict.h. */
#include "tasks/rows/predict.h"

#include "base/memory.h"
#include "base/print.h"
#include "base/status.h"
#include "data/source.h"
#include "os/heap.h"
#include "tasks/reading.h"

#include <string.h>

typedef struct prediction {
    qn_predictor *predictor;
    qn_loader *loader;
    const qn_data_source *data;
    int n_outputs;
    float *outputs; /* (batch, n_outputs) */
    qn_take_outputs *take;
    void *user;
} prediction;

static qn_status predict_batches(const prediction *p) {
    qn_batch batch;
    for (int64_t index = 0;; index += batch.n_valid) {
        QN_TRY(qn_loader_next(p->loader, &batch));
        if (!batch.x)
            return QN_OK;
        QN_TRY(qn_predictor_predict_prepared(p->predictor, batch.x, batch.n_valid, p->outputs));
        for (int64_t i = 0; i < batch.n_valid; i++) {
            qn_sample_rows of;
            QN_TRY(qn_source_rows_of(p->data, QN_TRAIN, index + i, &of.first, &of.n));
            QN_TRY(p->take(p->user, of, p->outputs + i * p->n_outputs));
        }
    }
}

/* All samples are read, and what they are of is not looked at: a class takes the bytes of a
 * target. */
static qn_status predict_source(prediction *p, qn_data_source data, int64_t batch) {
    qn_preparation preparation = *qn_predictor_preparation(p->predictor);
    preparation.n_scaled = 0;
    data.n_targets = data.n_targets > 0 ? data.n_targets : 1;
    const int64_t n = data.n_samples[QN_TRAIN];
    p->data = &data;
    const qn_loader_options options = {QN_OPTIONS_INIT(qn_loader_options), .split = QN_TRAIN,
                                       .batch = batch, .pad_last = true,
                                       .n_batches = (n + batch - 1) / batch};
    const size_t count = (size_t)(batch * p->n_outputs);
    QN_TRY(qn_allocate(qn_allocator_default(), count, sizeof *p->outputs, &p->outputs));
    qn_status status = qn_loader_create(&data, &preparation, &options, &p->loader);
    if (status == QN_OK)
        status = predict_batches(p);
    qn_loader_destroy(p->loader);
    qn_release(qn_allocator_default(), p->outputs, count, sizeof *p->outputs);
    return status;
}

static bool is_told(const char *name) {
    return name && strcmp(name, "none") != 0;
}

/* What says where a recording ends: as the caller names it, else as the checkpoint does. Arrays of
 * groups and times are of the data that they were made for, and no others'. */
static qn_status set_recordings(const qn_data_options *form, bool are_arrays,
                                const char *specification, qn_data_options *options) {
    const char *given = is_told(form->group) ? "--group" : is_told(form->time) ? "--time" : NULL;
    if (options->window == 0 && given)
        return qn_fail(
            QN_ERROR_ARGUMENT,
            "%s means nothing here: the network takes single rows, and each is predicted "
            "by itself; it is for networks that were trained with --window",
            given);
    const bool are_lost =
        (is_told(options->group) && !form->group) || (is_told(options->time) && !form->time);
    if (options->window > 0 && are_arrays && are_lost && form->log && form->log->write) {
        char text[1024];
        qn_print(text, sizeof text,
                 "%s: nothing says where a recording ends (it was trained with --group %s, --time "
                 "%s): windows may lie in two; name arrays of these rows with --group and --time",
                 specification, options->group ? options->group : "none",
                 options->time ? options->time : "none");
        form->log->write(form->log->user, 1, text);
    }
    if (form->group || are_arrays)
        options->group = form->group;
    if (form->time || are_arrays)
        options->time = form->time;
    return QN_OK;
}

qn_status qn_predict_all(qn_predictor *predictor, const char *specification,
                         const qn_data_options *form, int64_t batch, qn_take_outputs *take,
                         void *user) {
    prediction p = {.predictor = predictor,
                    .take = take,
                    .user = user,
                    .n_outputs = qn_predictor_get_facts(predictor).n_outputs};
    const qn_preparation *preparation = qn_predictor_preparation(predictor);
    qn_data_options options = *form;
    qn_data_source source;
    if (qn_predictor_settings(predictor))
        qn_reading_set_windows(qn_predictor_settings(predictor), &options);
    QN_TRY(set_recordings(form, strncmp(specification, "npy:", 4) == 0, specification, &options));
    options.table = preparation->table;
    options.sample = preparation->sample;
    options.is_unlabelled = true;
    QN_TRY(qn_data_open(specification, &options, &source));
    qn_status status =
        qn_reading_fit(qn_predictor_settings(predictor), &source, &preparation->sample);
    if (status == QN_OK)
        status = predict_source(&p, source, batch);
    qn_data_close(&source);
    return status;
}
