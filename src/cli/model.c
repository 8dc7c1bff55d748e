/* See model.h. */
#include "cli/model.h"

#include "base/status.h"
#include "cli/commands.h"
#include "cli/outputs/outputs.h"
#include "cli/session.h"
#include "cli/terminal.h"
#include "format/onnx/onnx_file.h"
#include "models/language/model.h"
#include "onnx/import.h"
#include "quern/onnx.h"
#include "tasks/tasks.h"
#include "tensor/tensor.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { MOST_NAMED = 6 }; /* initialisers that one message names */

/* The one that is open: a command has one model. */
static struct {
    qn_onnx_network *network;
    qn_language_model *language; /* that it is of, in place of a network; or null */
    const qn_model *model;
    char hash[QN_ONNX_HASH_TEXT];
    qn_onnx_options how;    /* what the command line and checkpoints say of it */
    qn_metadata *planned;   /* settings of a plan; or null */
    bool refuses_links;     /* the command line does */
    const char *own_option; /* that the command line has of ONNX files; or null */
} imported;

/* Null: the command has no such option, or it was not given. */
static const char *text_of(const arguments *a, const char *name) {
    return option_find(a->command, name) < 0 ? NULL : arguments_get(a, name);
}

static const option rows[] = {
    {.name = "shape",
     .kind = OPTION_PARTS,
     .argument = "INPUT=1x3x512x512",
     .is_kept = true,
     .otherwise = "the data's, else guessed",
     .help = "open extents of an ONNX file's inputs; N: the batch; INPUT=none: no batch"},
    {.name = "set",
     .kind = OPTION_PARTS,
     .argument = "INPUT=VALUE",
     .is_kept = true,
     .otherwise = "none",
     .help = "values of an ONNX file's inputs that decide branches or shapes"},
    {.name = "follow-links",
     .kind = OPTION_FLAG,
     .is_kept = true,
     .otherwise = "no",
     .help = "external data of an ONNX file may be links out of its folder"},
};

const option_list onnx_options = {rows, sizeof rows / sizeof rows[0]};

/* What is of ONNX files alone. */
static const char *const own_options[] = {"shape", "set", "follow-links", "requires-grad"};

void model_read_options(const arguments *a) {
    const char *links = text_of(a, "follow-links");
    imported.how.size = sizeof imported.how;
    imported.how.log = &session_log;
    imported.how.shapes = text_of(a, "shape");
    imported.how.values = text_of(a, "set");
    imported.how.follow_links = links && strcmp(links, "yes") == 0;
    imported.refuses_links = links && strcmp(links, "no") == 0;
    imported.how.train_only = text_of(a, "train-only");
    imported.how.requires_grad = text_of(a, "requires-grad");
    imported.own_option = NULL;
    for (size_t i = 0; i < sizeof own_options / sizeof *own_options; i++) {
        if (text_of(a, own_options[i]))
            imported.own_option = own_options[i];
    }
}

void model_read_kept(const qn_metadata *kept) {
    qn_onnx_options_read(kept, &imported.how); /* what the command line says comes first */
    imported.how.follow_links = imported.how.follow_links && !imported.refuses_links;
}

qn_status model_read_plan(const qn_plan_file *plan) {
    qn_metadata_destroy(imported.planned);
    imported.planned = NULL;
    QN_TRY(qn_metadata_create(NULL, &imported.planned));
    for (size_t i = 0; i < plan->n_settings; i++)
        QN_TRY(qn_metadata_set(imported.planned, plan->settings[i].key, plan->settings[i].value));
    model_read_kept(imported.planned);
    return QN_OK;
}

const qn_onnx_options *model_import_options(void) {
    return &imported.how;
}

const qn_onnx_options *model_given_options(void) {
    return imported.own_option ? &imported.how : NULL;
}

qn_status model_check_built_in(const char *name) {
    return imported.own_option ? qn_fail(QN_ERROR_ARGUMENT, "--%s is of ONNX files, and %s is none",
                                         imported.own_option, name)
                               : QN_OK;
}

const char *model_task_of_data(const char *data) {
    static const char *const tasks[][2] = {
        {"text:", "language"},   {"chat:", "language"},   {"pairs:", "translation"},
        {"squad:", "answering"}, {"cartpole", "control"}, {"breakout", "control"},
        {"process:", "control"}, {"npz:", "arrays"},
    };
    for (size_t i = 0; data && i < sizeof tasks / sizeof *tasks; i++) {
        if (strncmp(data, tasks[i][0], strlen(tasks[i][0])) == 0)
            return tasks[i][1];
    }
    return NULL;
}

/* Files of weights beside the network's are read, too, and no output may replace them. */
static qn_status check_outputs(const char *path) {
    const char *slash = strrchr(path, '/'), *location;
    const int n_folder = slash ? (int)(slash + 1 - path) : 0;
    char what[512], outside[PATH_MAX];
    snprintf(what, sizeof what, "%s, its weights", path);
    for (int i = 0; (location = qn_onnx_file_outside(imported.network->file, i)); i++) {
        if (snprintf(outside, sizeof outside, "%.*s%s", n_folder, path, location) < PATH_MAX)
            QN_TRY(outputs_check_input(what, outside));
    }
    return QN_OK;
}

static qn_status import(const char *path, const char *data) {
    imported.how.size = sizeof imported.how;
    imported.how.log = &session_log;
    QN_TRY(qn_onnx_open(&imported.how, path, &imported.network));
    qn_status status = check_outputs(path);
    if (status == QN_OK)
        status = qn_onnx_hash(imported.network, imported.hash);
    if (status == QN_OK)
        status = qn_onnx_model_for(imported.network, model_task_of_data(data), &imported.model);
    if (status != QN_OK) {
        qn_onnx_close(imported.network);
        imported.network = NULL;
    }
    return status;
}

static qn_status open_language(const char *path) {
    QN_TRY(model_check_built_in(path));
    QN_TRY(qn_language_model_open(NULL, path, &imported.language));
    imported.model = &imported.language->model;
    qn_language_hash(&imported.language->language, imported.hash);
    return QN_OK;
}

bool model_is_file(const char *name) {
    const size_t n = strlen(name);
    return (n > 5 && strcmp(name + n - 5, ".onnx") == 0) || qn_pretrained_is(NULL, name);
}

qn_status model_find(const char *name, const char *data, const qn_model **model) {
    if (!model_is_file(name)) {
        *model = qn_model_find(name);
        return *model ? model_check_built_in(name) : QN_ERROR_ARGUMENT;
    }
    const bool is_open = imported.model && strcmp(imported.model->name, name) == 0;
    if (imported.model && !is_open)
        return qn_fail(QN_ERROR_ARGUMENT, "%s and %s: one model's file at a time",
                       imported.model->name, name);
    if (!is_open)
        QN_TRY(qn_pretrained_is(NULL, name) ? open_language(name) : import(name, data));
    *model = imported.model;
    return QN_OK;
}

qn_status model_add_pairs(const qn_model *model, bool training, qn_metadata *pairs) {
    return model_network(model) ? qn_task_read_network(imported.network, training, pairs) : QN_OK;
}

const char *model_hash(const qn_model *model) {
    return model && model == imported.model ? imported.hash : NULL;
}

const qn_onnx_network *model_network(const qn_model *model) {
    return model && model == imported.model ? imported.network : NULL;
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

/* "a, b, ... z": the first unsure ones that train, or do not. */
static int64_t list_unsure(bool trains, char *text, size_t n) {
    const qn_onnx_initializer *it;
    int64_t count = 0;
    size_t at = 0;
    for (int i = 0; (it = qn_onnx_initializer_at(imported.network, i)); i++) {
        if (it->is_sure || it->trains != trains)
            continue;
        if (count < MOST_NAMED && at < n)
            at += (size_t)snprintf(text + at, n - at, "%s%.80s", count > 0 ? ", " : "", it->name);
        count++;
    }
    if (count > MOST_NAMED && at < n)
        snprintf(text + at, n - at, ", ...");
    return count;
}

/* What trains, or does not, though the file does not say so. */
static void note_unsure(const qn_model *model) {
    char trained[1024], fixed[1024];
    const int64_t n_trained = list_unsure(true, trained, sizeof trained);
    const int64_t n_fixed = list_unsure(false, fixed, sizeof fixed);
    if (n_trained > 0)
        terminal_note("%s does not say that %s train%s; --freeze or --requires-grad FILE to change "
                      "that",
                      model->name, trained, n_trained == 1 ? "s" : "");
    if (n_fixed > 0)
        terminal_note("%s does not say that %s %s; --train-only or --requires-grad FILE to "
                      "change that",
                      model->name, fixed, n_fixed == 1 ? "is fixed" : "are fixed");
}

/* "NAME and 3 others" that a file has no more; false: there is nothing to say. */
static bool name_missing(const qn_onnx_network *network, char *text, size_t size) {
    int n = 0;
    const char *first = network ? qn_onnx_missing_parameter(network, &n) : NULL;
    if (!first)
        return false;
    if (n == 1)
        snprintf(text, size, "%.200s", first);
    else
        snprintf(text, size, "%.200s and %d other%s", first, n - 1, n == 2 ? "" : "s");
    return true;
}

/* What trains is then not what the module trains. */
static void note_missing(const qn_model *model) {
    char names[256];
    if (name_missing(imported.network, names, sizeof names))
        terminal_note(
            "%s has no %s of the module's parameters: nothing reads them, or the exporter "
            "dropped them, or made them one with others that begin alike, which trains "
            "otherwise than PyTorch; export with optimize=False",
            model->name, names);
}

qn_status model_say(const qn_model *model) {
    qn_model_size size;
    char count[32];
    if (!model_network(model))
        return QN_OK;
    QN_TRY(qn_model_measure(model, model->input, model->n_classes, &size));
    if (size.n_parameters == 0)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "%s: nothing in it would train, since no layer reads real weights of the "
                       "file; export with the weights as initialisers",
                       model->name);
    terminal_note("%s: %s numbers train; quern import lists them", model->name,
                  grouped(size.n_parameters, count));
    note_unsure(model);
    note_missing(model);
    return QN_OK;
}
