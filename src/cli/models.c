/* quern models: the zoo as a table. */
#include "models/models.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/model.h"
#include "cli/terminal.h"
#include "quern/task.h"
#include "tensor/tensor.h"

#include <stdio.h>

static const option options[] = {
    {.name = "input",
     .kind = OPTION_SHAPE,
     .argument = "HxWxC",
     .otherwise = "each model's own",
     .help = "input shape to measure with; from 224x224x3 on the ImageNet form is built"},
    {.name = "json", .kind = OPTION_FLAG, .fallback = "no", .help = "print one JSON object a line"},
};

static void print_row(const qn_model *m, const char *input, const qn_model_size *size) {
    char parameters[32], bytes[32];
    printf("%-14s %-22s %-24s %13s %14.2f %15s\n", m->name, m->domain, input,
           grouped(size->n_parameters, parameters), (double)size->forward_flops * 1e-6,
           grouped(size->feature_bytes, bytes));
}

static void print_json(const qn_model *m, const char *input, const qn_model_size *size) {
    json_begin();
    json_text("model", m->name);
    json_text("domain", m->domain);
    json_text("task", qn_task_of(m));
    json_text("source", m->source);
    json_text("input", input);
    json_count("parameters", size->n_parameters);
    json_number("forward_mflop", (double)size->forward_flops * 1e-6);
    json_count("feature_bytes", size->feature_bytes);
    json_end();
}

/* A model that cannot take the shape is passed over with a word about it. */
static bool show(const qn_model *m, const arguments *a) {
    qn_model_size size;
    qn_shape input = m->input;
    char shape[QN_SHAPE_TEXT];
    if (arguments_has(a, "input"))
        qn_shape_parse(arguments_get(a, "input"), &input);
    if (qn_model_measure(m, input, qn_model_classes(m, input), &size) != QN_OK) {
        terminal_note("%s: %s", m->name, qn_error_message());
        return false;
    }
    const char *text = m->network ? m->input_text : qn_shape_print(input, shape);
    if (arguments_flag(a, "json"))
        print_json(m, text, &size);
    else
        print_row(m, text, &size);
    return true;
}

/* ---- the parameters of one ---- */

static void put_parameter(void *user, int layer, const char *name, const qn_shape *shape,
                          const char *reader) {
    char text[QN_SHAPE_TEXT];
    const bool is_json = *(const bool *)user;
    qn_shape_print(*shape, text);
    if (!is_json) {
        printf("#%-4d %-40s %16s  %s\n", layer, terminal_name(name), text, terminal_name(reader));
        return;
    }
    json_begin();
    json_count("layer", layer);
    json_text("parameter", name);
    json_text("shape", text);
    json_text("read_by", reader);
    json_end();
}

static int show_parameters(const arguments *a) {
    const qn_model *m;
    bool is_json = arguments_flag(a, "json");
    const qn_parameter_list list = {&is_json, put_parameter};
    qn_status status = model_find(a->words[0], NULL, &m);
    if (status == QN_OK) {
        qn_shape input = m->input;
        if (arguments_has(a, "input"))
            qn_shape_parse(arguments_get(a, "input"), &input);
        if (!is_json)
            printf("%-5s %-40s %16s  %s\n", "layer", "parameter", "shape", "read by");
        status = qn_model_list_parameters(m, input, qn_model_classes(m, input), &list);
    }
    return status == QN_OK ? EXIT_DONE : report_failure(status);
}

static int run(const arguments *a) {
    int n_shown = 0;
    if (a->n_words > 0)
        return show_parameters(a);
    if (!arguments_flag(a, "json"))
        printf("%-14s %-22s %-24s %13s %14s %15s\n", "model", "domain", "input", "parameters",
               "forward MFLOP", "bytes/sample");
    for (int i = 0; qn_model_at(i); i++)
        n_shown += show(qn_model_at(i), a);
    return n_shown > 0 ? EXIT_DONE : EXIT_FAILED;
}

const command command_models = {
    .name = "models",
    .words = "[MODEL]",
    .most_words = 1,
    .summary = "List the models with their size, or the parameters of one",
    .description =
        "Parameters counts trainable numbers. Forward MFLOP is for one sample; a multiply-add\n"
        "counts as two. Bytes/sample is the size of all feature maps that the forward pass\n"
        "writes. With a model (or ONNX file): every parameter with its layer. --freeze and\n"
        "--train-only accept the parameter's name, the name of the layer that reads it, or its\n"
        "position, such as '#1-10'.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .run = run,
};
