/* quern predict: trained weights on image files, and on all samples of a table, an array, texts or
 * sounds. */
#include "tasks/rows/predict.h"
#include "base/decimal.h"
#include "base/print.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/model.h"
#include "cli/session.h"
#include "data/images/image.h"
#include "format/output.h"
#include "os/os.h"
#include "quern/quern.h"
#include "tasks/rows/labels.h"
#include "tasks/tasks.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 64 }; /* of data, in a batch */

static const option options[] = {
    {.name = "weights",
     .kind = OPTION_INPUT,
     .of_run = "best",
     .argument = "FILE",
     .otherwise = "those of an ONNX file, else it must be given",
     .help = "checkpoint with the weights, preparation and classes, or a run's folder"},
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
    {.name = "group",
     .kind = OPTION_TEXT,
     .argument = "NAME",
     .otherwise = "the column that it was trained with",
     .help = "column, or array of rows, where windows end; none: nothing does"},
    {.name = "time",
     .kind = OPTION_TEXT,
     .argument = "NAME",
     .otherwise = "the column that it was trained with",
     .help = "column, or array, of time, where windows end at gaps; none: there is none"},
    {.name = "csv",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "print a table: predictions, and the probability of every class"},
    {.name = "json", .kind = OPTION_FLAG, .fallback = "no", .help = "print one JSON object a line"},
};

/* What is predicted, and how it is shown. */
typedef struct prediction {
    const char *model; /* null: the checkpoint's */
    qn_predictor *predictor;
    const qn_preparation *preparation;
    bool is_regression, is_json, is_csv;
    bool are_labels;    /* chances of labels, of which a sample may have several */
    double *thresholds; /* (n_outputs) of those */
    bool tells_unknown; /* things that are none of the classes */
    double unsure;      /* an answer of less chance is unsure; 0: none */
    bool has_head;      /* of the table was printed */
    int64_t batch;
    int n_outputs, n_top, result; /* of the command */
    float *outputs;               /* (n_outputs) */
    qn_prediction *best;          /* (n_outputs) */
} prediction;

/* Whether the first word is a model; else the checkpoint says which. One that is neither a model
 * nor anything on the disk was meant to be a model. */
static qn_status find_model(const arguments *a, prediction *p, const qn_model **zoo) {
    const char *name = a->words[0];
    const bool is_there = qn_path_is_file(name) || qn_path_is_folder(name) || strchr(name, ':');
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

/* What a word that names data is opened as; null: it is an image or a folder. */
static const char *data_of(const char *word, char text[PATH_MAX + 8]) {
    static const char *const kinds[] = {"csv:", "npy:", "texts:", "sounds:"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strncmp(word, kinds[i], strlen(kinds[i])) == 0)
            return word;
    const char *kind = qn_path_is_file(word) ? qn_data_kind_of(word) : NULL;
    if (!kind || (strcmp(kind, "csv") != 0 && strcmp(kind, "sounds") != 0))
        return NULL;
    snprintf(text, PATH_MAX + 8, "%s:%s", kind, word);
    return text;
}

static bool has_data(const arguments *a, const prediction *p) {
    char text[PATH_MAX + 8];
    for (int i = p->model ? 1 : 0; i < a->n_words; i++)
        if (data_of(a->words[i], text))
            return true;
    return false;
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
    p->batch = has_data(a, p) ? ROWS : 1;
    model_read_options(a);
    if (zoo)
        QN_TRY(model_check_built_in(zoo->name));
    const qn_predictor_options how = {
        QN_OPTIONS_INIT(qn_predictor_options),           .log = &session_log,
        .model = has_own_weights ? NULL : p->model,      .batch = p->batch,
        .n_threads = (int)arguments_count(a, "threads"), .onnx = model_given_options()};
    if (zoo && !zoo->build)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "quern predict names what images show; see quern sample for %s", zoo->name);
    QN_TRY(qn_predictor_open(weights, &how, &p->predictor));
    const qn_predictor_facts facts = qn_predictor_get_facts(p->predictor);
    const int64_t n_top = arguments_count(a, "top");
    p->is_regression = facts.is_regression;
    p->n_outputs = facts.n_outputs;
    p->preparation = qn_predictor_preparation(p->predictor);
    p->n_top = p->is_regression || n_top > facts.n_outputs ? facts.n_outputs : (int)n_top;
    p->are_labels = p->preparation->table && p->preparation->table->are_labels;
    const char *unsure = qn_predictor_setting(p->predictor, QN_UNSURE_BELOW);
    p->unsure = unsure && !p->is_regression ? qn_decimal_read(unsure, NULL) : 0;
    p->tells_unknown = p->batch == 1 && qn_predictor_tells_unknown(p->predictor);
    p->thresholds = calloc((size_t)facts.n_outputs, sizeof *p->thresholds);
    if (p->thresholds)
        qn_label_thresholds_read(qn_predictor_setting(p->predictor, QN_LABEL_THRESHOLDS),
                                 facts.n_outputs, p->thresholds);
    p->outputs = calloc((size_t)facts.n_outputs, sizeof *p->outputs);
    p->best = calloc((size_t)facts.n_outputs, sizeof *p->best);
    return p->outputs && p->best && p->thresholds
               ? QN_OK
               : qn_fail(QN_ERROR_MEMORY, "no memory for outputs");
}

static void close_all(prediction *p) {
    free(p->outputs);
    free(p->thresholds);
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

/* What a sample is called: an image by its path, others by the number of their row. */
typedef struct sample_name {
    const char *image; /* null: a row, or the rows of a window */
    int64_t row, last;
    bool is_window;
} sample_name;

/* The name of target i; null: it has none. */
static const char *target_name(const prediction *p, int i) {
    const qn_table *table = p->preparation->table;
    return p->is_regression && table && i < table->n_targets ? table->targets[i] : NULL;
}

static bool is_predicted(const prediction *p, const qn_prediction *of) {
    return (double)of->value >= p->thresholds[of->index];
}

/* Whether the first of the ranked answers is. */
static bool is_unsure(const prediction *p) {
    return p->unsure > 0 && (double)p->best[0].value < p->unsure;
}

/* An unsure answer, of a picture that is far from all classes; pictures are predicted one by
 * one. */
static bool is_unknown(const prediction *p) {
    return p->tells_unknown && is_unsure(p) && qn_predictor_is_unknown(p->predictor);
}

/* The labels of a sample, with a bar between, as a field. */
static void print_labels(const prediction *p, const float *outputs, qn_output *out) {
    bool is_first = true;
    qn_output_text(out, ",\"");
    for (int i = 0; i < p->n_outputs; i++) {
        const char *name = target_name(p, i);
        if ((double)outputs[i] < p->thresholds[i] || !name)
            continue;
        qn_output_text(out, is_first ? "" : "|");
        is_first = false;
        for (; *name; name++) {
            qn_output_bytes(out, name, 1);
            if (*name == '"')
                qn_output_text(out, "\"");
        }
    }
    qn_output_text(out, "\"");
}

static void print_json(const prediction *p, sample_name of) {
    char number[24];
    json_begin();
    if (of.image)
        json_text("image", of.image);
    else
        json_count("row", of.row);
    if (of.is_window)
        json_count("last_row", of.last);
    json_open_list(p->are_labels ? "labels" : p->is_regression ? "values" : "classes");
    for (int i = 0; i < p->n_top; i++) {
        json_begin_item();
        if (!p->is_regression)
            json_text("class", class_name(&p->best[i], number, sizeof number));
        else if (target_name(p, p->best[i].index))
            json_text(p->are_labels ? "label" : "target", target_name(p, p->best[i].index));
        json_number(p->is_regression && !p->are_labels ? "value" : "probability", p->best[i].value);
        if (p->are_labels)
            json_flag("predicted", is_predicted(p, &p->best[i]));
        json_end_item();
    }
    json_close_list();
    if (p->unsure > 0)
        json_flag("unsure", is_unsure(p));
    if (p->tells_unknown)
        json_flag("unknown", is_unknown(p));
    json_end();
}

static void print_line(const prediction *p, sample_name of) {
    char number[24], value[40], text[1024];
    if (of.image)
        printf("%s:", qn_text_printable(of.image, text, sizeof text));
    else if (of.is_window)
        printf("rows %lld to %lld:", (long long)of.row, (long long)of.last);
    else
        printf("row %lld:", (long long)of.row);
    if (is_unknown(p))
        fputs(" unknown:", stdout);
    else if (is_unsure(p))
        fputs(" unsure:", stdout);
    for (int i = 0; i < p->n_top; i++) {
        const char *name = class_name(&p->best[i], number, sizeof number);
        const bool is_amount = p->is_regression && !p->are_labels;
        const double shown = is_amount ? p->best[i].value : 100.0 * p->best[i].value;
        if (p->are_labels)
            name = target_name(p, p->best[i].index);
        qn_print(value, sizeof value, is_amount ? "%.6g" : "%.1f", shown);
        if (is_amount)
            printf(" %s", value);
        else
            printf("%s %s %s %%%s", i ? "," : "", qn_text_printable(name, text, sizeof text), value,
                   p->are_labels && is_predicted(p, &p->best[i]) ? " *" : "");
    }
    putchar('\n');
}

/* ---- a table ---- */

static qn_status put_out(void *user, const void *data, size_t bytes) {
    (void)user;
    fwrite(data, 1, bytes, stdout);
    return QN_OK;
}

/* The name of output i: a target's, or a class's or its number. */
static const char *output_name(const prediction *p, int i, char text[24]) {
    const qn_preparation *by = p->preparation;
    const char *target = target_name(p, i);
    if (target || (!p->is_regression && by->class_names && i < by->n_classes))
        return target ? target : by->class_names[i];
    snprintf(text, 24, p->is_regression ? "value%d" : "%d", i);
    return text;
}

static void print_head(const prediction *p, qn_output *out, const sample_name *of) {
    char text[24];
    qn_output_text(out, of->image ? "image" : of->is_window ? "row,last_row" : "row");
    if (!p->is_regression || p->are_labels)
        qn_output_text(out, ",prediction");
    for (int i = 0; i < p->n_outputs; i++) {
        qn_output_text(out, ",");
        qn_output_csv(out, output_name(p, i, text));
    }
    qn_output_text(out, "\n");
}

static void print_table_row(prediction *p, sample_name of, const float *outputs) {
    qn_output out = {.put = put_out};
    char text[24];
    if (!p->has_head)
        print_head(p, &out, &of);
    p->has_head = true;
    if (of.image)
        qn_output_csv(&out, of.image);
    else
        qn_output_count(&out, of.row);
    if (of.is_window) {
        qn_output_text(&out, ",");
        qn_output_count(&out, of.last);
    }
    if (p->are_labels)
        print_labels(p, outputs, &out);
    if (!p->is_regression) {
        qn_output_text(&out, ",");
        qn_output_csv(&out, output_name(p, p->best[0].index, text));
    }
    for (int i = 0; i < p->n_outputs; i++) {
        qn_output_text(&out, ",");
        qn_output_number(&out, (double)outputs[i], 7, "");
    }
    qn_output_text(&out, "\n");
}

static void print_sample(prediction *p, sample_name of, const float *outputs) {
    qn_predictor_rank(p->predictor, outputs, p->n_top, p->best);
    if (p->is_csv)
        print_table_row(p, of, outputs);
    else if (p->is_json)
        print_json(p, of);
    else
        print_line(p, of);
}

static qn_status take_row(void *user, qn_sample_rows of, const float *outputs) {
    const sample_name name = {.row = of.first + 1, .last = of.first + of.n, .is_window = of.n > 1};
    print_sample(user, name, outputs);
    return QN_OK;
}

/* How the file is written, as options say. */
static qn_data_options read_form(const arguments *a) {
    const char *separator = arguments_get(a, "separator");
    return (qn_data_options){
        QN_OPTIONS_INIT(qn_data_options),
        .log = &session_log,
        .header = arguments_get(a, "header"),
        .separator = separator && strcmp(separator, "bar") == 0 ? "|" : separator,
        .decimal = arguments_get(a, "decimal"),
        .dates = arguments_get(a, "dates"),
        .group = arguments_get(a, "group"),
        .time = arguments_get(a, "time"),
    };
}

static void predict_data_or_tell(const arguments *a, prediction *p, const char *data) {
    const qn_data_options form = read_form(a);
    if (qn_predict_all(p->predictor, data, &form, p->batch, take_row, p) != QN_OK)
        p->result = report_failed_run();
}

/* ---- images ---- */

static qn_status predict(prediction *p, const char *path) {
    QN_TRY(qn_predictor_predict_file(p->predictor, path, p->outputs));
    print_sample(p, (sample_name){.image = path}, p->outputs);
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
    char text[PATH_MAX + 8];
    p->is_json = arguments_flag(a, "json");
    p->is_csv = arguments_flag(a, "csv");
    for (int i = p->model ? 1 : 0; i < a->n_words; i++) {
        const char *data = data_of(a->words[i], text);
        if (data)
            predict_data_or_tell(a, p, data);
        else if (!qn_path_is_folder(a->words[i]))
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
    .words = "[MODEL] IMAGE|FOLDER|DATA...",
    .least_words = 1,
    .most_words = -1,
    .summary = "Predict on images, tables, texts, sounds and arrays",
    .description =
        "Samples are prepared as in training: size, mean and deviation come from the checkpoint,\n"
        "and columns are found by its names. DATA is csv:FILE, texts:FILE, npy:X.npy (of each\n"
        "- is standard input) or sounds:DIR. Amounts are in the units of the target.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .shared = {&table_form_options, &onnx_options},
    .run = run,
};
