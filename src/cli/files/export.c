/* quern export: a network with its weights as an ONNX file. */
#include "base/status.h"
#include "cli/commands.h"
#include "cli/model.h"
#include "cli/session.h"
#include "quern/onnx.h"
#include "quern/quern.h"
#include "tasks/tasks.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <stdlib.h>

static const option options[] = {
    {.name = "weights",
     .kind = OPTION_TEXT,
     .argument = "FILE",
     .otherwise = "the numbers that training begins with",
     .help = "checkpoint or adapter"},
    {.name = "out",
     .kind = OPTION_TARGET,
     .argument = "FILE",
     .otherwise = "none, must be given",
     .help = "ONNX file to write"},
    {.name = "input",
     .kind = OPTION_SHAPE,
     .argument = "HxWxC",
     .otherwise = "the checkpoint's, else the model's",
     .help = "extents of a sample"},
    {.name = "classes",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e6,
     .otherwise = "the checkpoint's, else the model's",
     .help = "outputs"},
    {.name = "with-preparation",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "the network takes image bytes (0 to 255) and normalises them itself"},
    {.name = "outside",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "store weights in FILE.SUM.data; automatic where FILE would exceed 2 GB"},
};

/* What is exported. */
typedef struct exported {
    qn_onnx_export_options options;
    qn_metadata *metadata; /* of the checkpoint; null: none */
    qn_trainer *trainer;   /* holds a classifier's weights */
    session session;       /* likewise those of other tasks */
    qn_network_sizes sizes;
    qn_metadata *properties;
    qn_preparation preparation;
} exported;

/* Input and outputs as given, else as the checkpoint says. */
static qn_status choose_sizes(const arguments *a, exported *x) {
    const char *input = arguments_get(a, "input"), *classes = arguments_get(a, "classes");
    if (!input && x->metadata)
        input = qn_metadata_get(x->metadata, "input");
    if (!classes && x->metadata)
        classes = qn_metadata_get(x->metadata, "classes");
    if (input && !qn_shape_parse(input, &x->options.input))
        return qn_fail(QN_ERROR_ARGUMENT, "%s is not a shape such as 28x28x1", input);
    x->options.n_outputs = classes ? atoi(classes) : 0;
    return QN_OK;
}

static qn_status load(exported *x, const char *weights) {
    const qn_trainer_options trainer = {
        QN_TRAINER_OPTIONS_INIT,
        .model = x->options.model,
        .input = x->options.input,
        .n_outputs = x->options.n_outputs,
        .engine.tuning = qn_tuning_of(x->metadata),
        .engine.seed = qn_seed_of(x->metadata),
        .batch = 1,
        .evaluation_batch = 1,
    };
    QN_TRY(qn_trainer_create(&trainer, &x->trainer));
    qn_engine *engine = qn_trainer_engine(x->trainer);
    x->options.engine = engine;
    QN_TRY(qn_checkpoint_load_base(engine, x->metadata, weights));
    QN_TRY(qn_checkpoint_load(engine, weights, false));
    qn_engine_merge_adapters(engine);
    return QN_OK;
}

/* What tells words and characters apart goes with the weights. */
static qn_status keep_vocabulary(exported *x) {
    static const char *const keys[] = {"text.characters",   "text.words",     "text.source_words",
                                       "text.target_words", "wordpiece.text", "wordpiece.source",
                                       "squad.unanswerable"};
    QN_TRY(qn_metadata_create(NULL, &x->properties));
    x->options.properties = x->properties;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *value = qn_metadata_get(x->session.pairs, keys[i]);
        if (value)
            QN_TRY(qn_metadata_set(x->properties, keys[i], value));
    }
    return QN_OK;
}

/* A checkpoint of a network that is no classifier, by the task that it was trained for. */
static qn_status load_task(const arguments *a, exported *x, const char *weights) {
    session *s = &x->session;
    if (arguments_get(a, "input") || arguments_get(a, "classes"))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "--input and --classes are for networks that classify; %s goes with the "
                       "sizes of its checkpoint",
                       x->options.model->name);
    QN_TRY(session_begin(s, a->words[0], NULL, weights));
    QN_TRY(qn_metadata_set(s->pairs, "batch", "1"));
    QN_TRY(session_keep_pairs(s));
    QN_TRY(session_open_task(s, false, 1));
    QN_TRY(session_load(s, weights, false));
    qn_engine_merge_adapters(qn_task_engine(s->task));
    x->sizes = qn_task_get_facts(s->task).sizes;
    x->options.sizes = &x->sizes;
    x->options.engine = qn_task_engine(s->task);
    return keep_vocabulary(x);
}

/* What runs the file needs to know how its samples were prepared. */
static qn_status keep_preparation(const arguments *a, exported *x) {
    const bool is_inside = arguments_flag(a, "with-preparation");
    if (x->metadata && !x->options.model->network &&
        qn_metadata_get(x->metadata, "preparation.sample")) {
        const char *prepared = qn_metadata_get(x->metadata, "prepared");
        QN_TRY(qn_metadata_get_preparation(x->metadata, &x->preparation));
        QN_TRY(qn_metadata_create(NULL, &x->properties));
        QN_TRY(qn_metadata_set(x->properties, "prepared", prepared ? prepared : ""));
        x->options.properties = x->properties;
        x->options.preparation = &x->preparation;
        x->options.with_preparation = is_inside;
    }
    if (is_inside && !x->options.preparation)
        return qn_fail(
            QN_ERROR_ARGUMENT,
            "--with-preparation needs --weights of a network that was trained on images; "
            "only that knows mean and deviation");
    return QN_OK;
}

static qn_status export(const arguments *a, exported *x) {
    const char *weights = arguments_get(a, "weights"), *out = arguments_get(a, "out");
    if (!out)
        return qn_fail(QN_ERROR_ARGUMENT, "quern export needs --out FILE");
    if (weights)
        QN_TRY(qn_checkpoint_read(NULL, weights, &x->metadata));
    const char *data = x->metadata ? qn_metadata_get(x->metadata, "data") : NULL;
    if (x->metadata)
        model_set_shapes(qn_metadata_get(x->metadata, "shape"));
    x->options.size = sizeof x->options;
    QN_TRY(model_find(a->words[0], data, &x->options.model));
    x->options.is_outside = arguments_flag(a, "outside");
    if (weights && x->options.model->network) {
        QN_TRY(load_task(a, x, weights));
    } else {
        QN_TRY(choose_sizes(a, x));
        if (weights)
            QN_TRY(load(x, weights));
    }
    QN_TRY(keep_preparation(a, x));
    x->options.source = model_network(x->options.model);
    return qn_onnx_export(&x->options, out);
}

static int run(const arguments *a) {
    exported x = {.metadata = NULL};
    session_init(&x.session);
    const qn_status status = export(a, &x);
    if (status == QN_OK)
        printf("exported to %s\n", arguments_get(a, "out"));
    qn_trainer_destroy(x.trainer);
    qn_metadata_destroy(x.properties);
    session_deinit(&x.session);
    qn_metadata_destroy(x.metadata);
    return status == QN_OK ? EXIT_DONE : report_failure(status);
}

const command command_export = {
    .name = "export",
    .words = "MODEL",
    .least_words = 1,
    .most_words = 1,
    .summary = "Write a network with its weights as an ONNX file",
    .description =
        "The file holds the network for inference, with images as (N, C, H, W), the names of\n"
        "layers and weights, and dropout nodes, which runtimes ignore. It also stores the\n"
        "vocabulary of a text model, so that quern can train and evaluate it further, and the\n"
        "class names, mean and deviation of an image classifier.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .run = run,
    .makes_files = true,
};
