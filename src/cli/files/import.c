/* quern import: the contents of an ONNX file or a language model, and what of it quern can use. */
#include "base/status.h"
#include "cli/commands.h"
#include "cli/files/import_language.h"
#include "cli/model.h"
#include "cli/terminal.h"
#include "format/pretrained/pretrained.h"
#include "os/os.h"
#include "quern/onnx.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

static const option options[] = {
    {.name = "check",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "exit with status 1 if any part of the file is unsupported"},
    {.name = "train-only",
     .kind = OPTION_PARTS,
     .argument = "NAMES",
     .otherwise = "none",
     .help = "initialisers that train though the file does not say so"},
    {.name = "requires-grad",
     .kind = OPTION_NAMES,
     .argument = "FILE",
     .otherwise = "the file says it, else names and use",
     .help = "list of the initialisers that train, one a line; no other does"},
    {.name = "json",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "one JSON object instead of text"},
};

static const char *text_of(const cJSON *object, const char *key) {
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    return text ? text : "";
}

/* Names are a stranger's. */
static const char *shown(const cJSON *object, const char *key) {
    return terminal_name(text_of(object, key));
}

static bool flag_of(const cJSON *object, const char *key) {
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, key));
}

static double number_of(const cJSON *object, const char *key) {
    const cJSON *number = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(number) ? number->valuedouble : 0;
}

/* "1x3x?x?"; "scalar". */
static void print_shape(const cJSON *object) {
    const cJSON *extent, *shape = cJSON_GetObjectItemCaseSensitive(object, "shape");
    const char *between = "";
    cJSON_ArrayForEach(extent, shape) {
        printf("%s", between);
        if (cJSON_IsNumber(extent))
            printf("%.0f", extent->valuedouble);
        else
            printf("?");
        between = "x";
    }
    if (!*between)
        printf("scalar");
}

static void print_places(const cJSON *report, const char *key, const char *word) {
    const cJSON *place;
    cJSON_ArrayForEach(place, cJSON_GetObjectItemCaseSensitive(report, key)) {
        printf("%-12s%s ", word, shown(place, "name"));
        print_shape(place);
        const double batch = number_of(place, "batch_axis");
        printf(" %s%s%s\n", shown(place, "type"),
               flag_of(place, "channels_last") ? ", an image: channels go last here" : "",
               batch < 0    ? ", without a batch: one sample at a time"
               : batch == 1 ? ", with the batch as its second axis"
               : batch > 1  ? ", with the batch as a later axis"
                            : "");
    }
}

static void print_operators(const cJSON *report) {
    const cJSON *one;
    cJSON_ArrayForEach(one, cJSON_GetObjectItemCaseSensitive(report, "operators")) {
        printf("%-12s%-24s %5.0f%s\n", "operator", shown(one, "type"), number_of(one, "count"),
               flag_of(one, "supported") ? "" : "  not supported");
    }
}

static void print_parameters(const cJSON *report) {
    const cJSON *one;
    char count[32];
    cJSON_ArrayForEach(one, cJSON_GetObjectItemCaseSensitive(report, "parameters")) {
        printf("%-12s%s ", "parameter", shown(one, "name"));
        print_shape(one);
        printf("%s\n", flag_of(one, "trains") ? "" : "  does not train");
    }
    printf("%-12s%s numbers\n", "train",
           grouped((int64_t)number_of(report, "numbers_that_train"), count));
}

/* "unsure, trains": by its name and use alone. */
static void print_initializers(const cJSON *report) {
    const cJSON *one;
    int64_t n_unsure = 0;
    char count[32];
    cJSON_ArrayForEach(one, cJSON_GetObjectItemCaseSensitive(report, "initializers")) {
        const bool trains = flag_of(one, "trains"), is_sure = flag_of(one, "sure");
        printf("%-12s%s ", "initializer", shown(one, "name"));
        print_shape(one);
        printf(" %s  %s%s: %s\n", shown(one, "type"), is_sure ? "" : "unsure, ",
               trains ? "trains" : "fixed", shown(one, "reason"));
        n_unsure += !is_sure;
    }
    cJSON_ArrayForEach(one, cJSON_GetObjectItemCaseSensitive(report, "missing")) printf(
        "%-12s%s  of the module: nothing reads it, or the exporter dropped it, or made it one "
        "with another that begins alike (export with optimize=False)\n",
        "missing", cJSON_GetStringValue(one));
    if (n_unsure > 0)
        printf("%-12s%s: change them by --train-only, --freeze or --requires-grad FILE\n", "unsure",
               grouped(n_unsure, count));
}

/* What one trains it on, or, where nothing but arrays fits, what each task needs. */
static void print_tasks(const cJSON *report) {
    static const char *const data[][2] = {
        {"classification", "any samples with classes, images:DIR"},
        {"language", "text:FILE"},
        {"answering", "squad:FILE"},
        {"translation", "pairs:FILE,FILE"},
        {"generation", "images:DIR"},
        {"control", "cartpole, breakout or process:COMMAND"},
        {"arrays", "npz:FILE, with arrays by the names of inputs and outputs"},
    };
    const cJSON *one, *tasks = cJSON_GetObjectItemCaseSensitive(report, "tasks");
    int n_fitting = 0;
    cJSON_ArrayForEach(one, tasks) {
        for (size_t i = 0; flag_of(one, "fits") && i < sizeof data / sizeof *data; i++) {
            if (strcmp(data[i][0], text_of(one, "task")) == 0)
                printf("%-12s%s, --data %s\n", "task", data[i][0], data[i][1]);
        }
        n_fitting += flag_of(one, "fits") && strcmp(text_of(one, "task"), "arrays") != 0;
    }
    cJSON_ArrayForEach(one, tasks) {
        if (n_fitting == 0 && !flag_of(one, "fits"))
            printf("%-12s%s\n", "no task", shown(one, "reason"));
    }
}

static void print_report(const cJSON *report) {
    const cJSON *one;
    printf("%s: opset %.0f%s%s\n", shown(report, "file"), number_of(report, "opset"),
           *text_of(report, "producer") ? ", made by " : "", shown(report, "producer"));
    print_places(report, "inputs", "input");
    print_places(report, "outputs", "output");
    print_operators(report);
    if (flag_of(report, "supported"))
        print_parameters(report);
    print_initializers(report);
    print_tasks(report);
    if (flag_of(report, "softmax_left_out"))
        printf("the softmax at the end is left out in training: the loss has one of its own\n");
    cJSON_ArrayForEach(one, cJSON_GetObjectItemCaseSensitive(report, "failures")) {
        if (*text_of(one, "node"))
            printf("node %s (%s): ", shown(one, "node"), shown(one, "type"));
        printf("%s\n", shown(one, "reason"));
    }
    printf("%s\n", flag_of(report, "supported") ? "everything in it is supported"
                                                : "it cannot be trained as it is");
}

static int run_onnx(const arguments *a) {
    model_read_options(a);
    const qn_onnx_options onnx = *model_import_options();
    char *text;
    const qn_status status = qn_onnx_inspect(&onnx, a->words[0], &text);
    if (status != QN_OK)
        return report_failure(status);
    cJSON *report = cJSON_Parse(text);
    const bool is_supported = flag_of(report, "supported");
    if (arguments_flag(a, "json"))
        printf("%s\n", text);
    else
        print_report(report);
    cJSON_Delete(report);
    qn_onnx_free_text(&onnx, text);
    return is_supported || !arguments_flag(a, "check") ? EXIT_DONE : EXIT_FAILED;
}

/* Options of ONNX files, which a language model has no use for. */
static qn_status check_options(const arguments *a) {
    static const char *const names[] = {"shape", "set", "follow-links", "train-only",
                                        "requires-grad"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (arguments_has(a, names[i]))
            return qn_fail(QN_ERROR_ARGUMENT, "--%s is for ONNX files; %s is a language model",
                           names[i], a->words[0]);
    }
    return QN_OK;
}

static int run_language(const arguments *a) {
    const qn_status status = check_options(a);
    return status == QN_OK
               ? import_language(a->words[0], arguments_flag(a, "check"), arguments_flag(a, "json"))
               : report_failure(status);
}

static int run(const arguments *a) {
    if (qn_path_is_folder(a->words[0]) || qn_pretrained_is(NULL, a->words[0]))
        return run_language(a);
    return run_onnx(a);
}

const command command_import = {
    .name = "import",
    .words = "FILE|FOLDER",
    .least_words = 1,
    .most_words = 1,
    .summary = "Inspect an ONNX file or a language model: contents, what can be used",
    .description =
        "Lists inputs, outputs, operators, parameters, and the tasks that fit. To train or\n"
        "evaluate the network, give the file in place of a model's name: quern train mine.onnx\n"
        "--data images:FOLDER. docs/onnx.md explains how to export a network from PyTorch.\n\n"
        "Of a language model, a GGUF file or a folder of Hugging Face's with config.json and\n"
        "*.safetensors, it lists family, sizes, types and template, and compares every tensor "
        "with\n"
        "those that the family has. docs/language-models.md has the families and types.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .shared = {&onnx_options},
    .run = run,
};
