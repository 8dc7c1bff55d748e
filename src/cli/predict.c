/* quern predict: classifies image files with trained weights. */
#include "base/status.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/session.h"
#include "data/images/image.h"
#include "os/os.h"
#include "quern/quern.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const option options[] = {
    {.name = "weights",
     .kind = OPTION_INPUT,
     .argument = "FILE",
     .otherwise = "those of an ONNX file, else it must be given",
     .help = "checkpoint with the weights, the preparation and the classes"},
    {.name = "top",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e6,
     .fallback = "3",
     .help = "number of classes to print, most likely first"},
    {.name = "threads",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 256,
     .otherwise = "all processors",
     .help = "threads; does not change the result"},
    {.name = "json", .kind = OPTION_FLAG, .fallback = "no", .help = "print one JSON object a line"},
};

/* What is predicted, and how it is shown. */
typedef struct prediction {
    const char *model; /* null: the checkpoint's */
    qn_predictor *predictor;
    bool is_regression, is_json;
    int n_top, result;   /* of the command */
    float *outputs;      /* (n_outputs) */
    qn_prediction *best; /* (n_outputs) */
} prediction;

/* Whether the first word is a model; else the checkpoint says which. One that is neither a model
 * nor anything on the disk was meant to be a model. */
static qn_status find_model(const arguments *a, prediction *p, const qn_model **zoo) {
    const char *name = a->words[0];
    const bool is_there = qn_path_is_file(name) || qn_path_is_folder(name);
    const size_t n = strlen(name);
    const bool is_onnx = n > 5 && strcmp(name + n - 5, ".onnx") == 0;
    *zoo = is_onnx ? NULL : qn_model_find(name);
    p->model = is_onnx || *zoo ? name : NULL;
    if (!p->model && !is_there && !strchr(name, '.'))
        return QN_ERROR_ARGUMENT;
    if (p->model && a->n_words < 2)
        return qn_fail(QN_ERROR_ARGUMENT, "quern predict needs IMAGE or FOLDER");
    return QN_OK;
}

static qn_status open_all(const arguments *a, prediction *p) {
    const char *weights = arguments_get(a, "weights");
    const qn_model *zoo;
    QN_TRY(find_model(a, p, &zoo));
    const bool has_own_weights = !weights && p->model && !zoo; /* an ONNX file's */
    if (has_own_weights)
        weights = p->model;
    if (!weights)
        return qn_fail(QN_ERROR_ARGUMENT, "quern predict needs --weights FILE");
    const qn_predictor_options how = {QN_OPTIONS_INIT(qn_predictor_options), .log = &session_log,
                                      .model = has_own_weights ? NULL : p->model,
                                      .n_threads = (int)arguments_count(a, "threads")};
    if (zoo && !zoo->build)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "quern predict names what images show; see quern sample for %s", zoo->name);
    QN_TRY(qn_predictor_open(weights, &how, &p->predictor));
    const qn_predictor_facts facts = qn_predictor_get_facts(p->predictor);
    const int64_t n_top = arguments_count(a, "top");
    p->is_regression = facts.is_regression;
    p->n_top = p->is_regression || n_top > facts.n_outputs ? facts.n_outputs : (int)n_top;
    p->outputs = calloc((size_t)facts.n_outputs, sizeof *p->outputs);
    p->best = calloc((size_t)facts.n_outputs, sizeof *p->best);
    return p->outputs && p->best ? QN_OK : qn_fail(QN_ERROR_MEMORY, "no memory for outputs");
}

static void close_all(prediction *p) {
    free(p->outputs);
    free(p->best);
    qn_predictor_close(p->predictor);
}

/* The name of a class, or its number, in text. */
static const char *class_name(const qn_prediction *of, char *text, size_t bytes) {
    if (of->name)
        return of->name;
    snprintf(text, bytes, "%d", of->index);
    return text;
}

static void print_json(const prediction *p, const char *path) {
    char number[24];
    json_begin();
    json_text("image", path);
    json_open_list(p->is_regression ? "values" : "classes");
    for (int i = 0; i < p->n_top; i++) {
        json_begin_item();
        if (!p->is_regression)
            json_text("class", class_name(&p->best[i], number, sizeof number));
        json_number(p->is_regression ? "value" : "probability", p->best[i].value);
        json_end_item();
    }
    json_close_list();
    json_end();
}

static void print_line(const prediction *p, const char *path) {
    char number[24];
    printf("%s:", path);
    for (int i = 0; i < p->n_top; i++) {
        const char *name = class_name(&p->best[i], number, sizeof number);
        if (p->is_regression)
            printf(" %.6g", p->best[i].value);
        else
            printf("%s %s %.1f %%", i ? "," : "", name, 100.0 * p->best[i].value);
    }
    putchar('\n');
}

static qn_status predict(const prediction *p, const char *path) {
    QN_TRY(qn_predictor_predict_file(p->predictor, path, p->outputs));
    qn_predictor_rank(p->predictor, p->outputs, p->n_top, p->best);
    if (p->is_json)
        print_json(p, path);
    else
        print_line(p, path);
    return QN_OK;
}

/* An image that cannot be read does not keep the others from being looked at. */
static void predict_or_tell(prediction *p, const char *path) {
    if (predict(p, path) != QN_OK)
        p->result = report_failed_run();
}

typedef struct folder_visit {
    prediction *p;
    const char *folder;
} folder_visit;

static qn_status predict_folder(prediction *p, const char *folder);

/* Pictures, and folders below; other files are passed over. */
static qn_status visit(void *context, const char *name, bool is_folder) {
    const folder_visit *v = context;
    char path[PATH_MAX];
    const int n = snprintf(path, sizeof path, "%s/%s", v->folder, name);
    if (name[0] == '.' || (size_t)n >= sizeof path)
        return QN_OK;
    if (is_folder)
        return predict_folder(v->p, path);
    if (qn_image_has_name(name))
        predict_or_tell(v->p, path);
    return QN_OK;
}

static qn_status predict_folder(prediction *p, const char *folder) {
    folder_visit v = {p, folder};
    return qn_folder_list(NULL, folder, visit, &v);
}

static int predict_all(const arguments *a, prediction *p) {
    p->is_json = arguments_flag(a, "json");
    for (int i = p->model ? 1 : 0; i < a->n_words; i++) {
        if (!qn_path_is_folder(a->words[i]))
            predict_or_tell(p, a->words[i]);
        else if (predict_folder(p, a->words[i]) != QN_OK)
            p->result = report_failed_run();
    }
    return p->result;
}

static int run(const arguments *a) {
    prediction p = {.outputs = NULL};
    const qn_status status = open_all(a, &p);
    const int result = status == QN_OK ? predict_all(a, &p) : report_failure(status);
    close_all(&p);
    return result;
}

const command command_predict = {
    .name = "predict",
    .words = "[MODEL] IMAGE|FOLDER...",
    .least_words = 1,
    .most_words = -1,
    .summary = "Classify images",
    .description =
        "Images are prepared as in training: size, mean and deviation come from the checkpoint.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .run = run,
};
