/* See model.h. */
#include "cli/model.h"

#include "base/status.h"
#include "cli/commands.h"
#include "cli/session.h"
#include "cli/terminal.h"
#include "quern/onnx.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

/* The one that is open: a command has one model. */
static struct {
    qn_onnx_network *network;
    const qn_model *model;
    char hash[QN_ONNX_HASH_TEXT];
    const char *shapes; /* of inputs; null: none */
} imported;

void model_set_shapes(const char *shapes) {
    if (!imported.shapes) /* what the command line says comes first */
        imported.shapes = shapes;
}

const char *model_task_of_data(const char *data) {
    static const char *const tasks[][2] = {
        {"text:", "language"},   {"pairs:", "translation"}, {"squad:", "answering"},
        {"cartpole", "control"}, {"breakout", "control"},   {"process:", "control"},
        {"npz:", "arrays"},
    };
    for (size_t i = 0; data && i < sizeof tasks / sizeof *tasks; i++) {
        if (strncmp(data, tasks[i][0], strlen(tasks[i][0])) == 0)
            return tasks[i][1];
    }
    return NULL;
}

static qn_status import(const char *path, const char *data) {
    const qn_onnx_options options = {QN_OPTIONS_INIT(qn_onnx_options), .log = &session_log,
                                     .shapes = imported.shapes};
    QN_TRY(qn_onnx_open(&options, path, &imported.network));
    qn_status status = qn_onnx_hash(imported.network, imported.hash);
    if (status == QN_OK)
        status = qn_onnx_model_for(imported.network, model_task_of_data(data), &imported.model);
    if (status != QN_OK) {
        qn_onnx_close(imported.network);
        imported.network = NULL;
    }
    return status;
}

qn_status model_find(const char *name, const char *data, const qn_model **model) {
    const size_t n = strlen(name);
    if (n < 5 || strcmp(name + n - 5, ".onnx") != 0) {
        *model = qn_model_find(name);
        return *model ? QN_OK : QN_ERROR_ARGUMENT;
    }
    const bool is_open = imported.model && strcmp(imported.model->name, name) == 0;
    if (imported.model && !is_open)
        return qn_fail(QN_ERROR_ARGUMENT, "%s and %s: one ONNX file at a time",
                       imported.model->name, name);
    if (!is_open)
        QN_TRY(import(name, data));
    *model = imported.model;
    return QN_OK;
}

qn_status model_add_pairs(const qn_model *model, qn_metadata *pairs) {
    return model_hash(model) ? qn_onnx_properties(imported.network, pairs) : QN_OK;
}

const char *model_hash(const qn_model *model) {
    return model && model == imported.model ? imported.hash : NULL;
}

const qn_onnx_network *model_network(const qn_model *model) {
    return model_hash(model) ? imported.network : NULL;
}

qn_status model_check(const qn_model *model, const qn_metadata *kept, const char *path) {
    const char *hash = model_hash(model), *said = kept ? qn_metadata_get(kept, "model_hash") : NULL;
    const char *name = kept ? qn_metadata_get(kept, "model") : NULL;
    if (!kept || (!hash && !said) || (hash && said && strcmp(hash, said) == 0))
        return QN_OK;
    if (!hash || !said)
        return qn_fail(QN_ERROR_FORMAT, "%s is of %s, not of %s", path,
                       name ? name : "another model", model->name);
    return qn_fail(QN_ERROR_FORMAT,
                   "%s was trained from another file than %s, or that file has changed since: give "
                   "the one that it was trained from (it was %s)",
                   path, model->name, name ? name : "not named");
}

qn_status model_say(const qn_model *model) {
    qn_model_size size;
    char count[32];
    if (!model_hash(model))
        return QN_OK;
    QN_TRY(qn_model_measure(model, model->input, model->n_classes, &size));
    if (size.n_parameters == 0)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "%s: nothing in it would train, since no layer reads real weights of the "
                       "file; export with the weights as initialisers",
                       model->name);
    terminal_note("%s: %s numbers train; quern import lists them", model->name,
                  grouped(size.n_parameters, count));
    return QN_OK;
}
