/* quern models: the zoo as a table. */
#include "cli/commands.h"
#include "cli/json.h"
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
        fprintf(stderr, "quern: %s: %s\n", m->name, qn_error_message());
        return false;
    }
    const char *text = m->network ? m->input_text : qn_shape_print(input, shape);
    if (arguments_flag(a, "json"))
        print_json(m, text, &size);
    else
        print_row(m, text, &size);
    return true;
}

static int run(const arguments *a) {
    int n_shown = 0;
    if (!arguments_flag(a, "json"))
        printf("%-14s %-22s %-24s %13s %14s %15s\n", "model", "domain", "input", "parameters",
               "forward MFLOP", "bytes/sample");
    for (int i = 0; qn_model_at(i); i++)
        n_shown += show(qn_model_at(i), a);
    return n_shown > 0 ? EXIT_DONE : EXIT_FAILED;
}

const command command_models = {
    .name = "models",
    .summary = "List the models with their size",
    .description =
        "Parameters are trainable numbers; forward MFLOP counts a multiply-add as two, for one\n"
        "sample; bytes/sample are all feature maps that the forward pass writes.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .run = run,
};
