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
     .help = "checkpoint or adapter that quern train has saved"},
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
    {.name = "outside",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "weights in FILE.data beside it; without being asked for where FILE would pass 2 GB"},
};

/* What is exported. */
typedef struct exported {
    qn_onnx_export_options options;
    qn_metadata *metadata; /* of the checkpoint; null: none */
    qn_trainer *trainer;   /* holds a classifier's weights */
    session session;       /* likewise those of other tasks */
    qn_network_sizes sizes;
    qn_metadata *properties;
} exported;

/* Input and outputs as given, else as the checkpoint says. */
static qn_status choose_sizes(const arguments *a, exported *x) {
    const char *input = arguments_get(a, "input"), *classes = arguments_get(a, "classes");
    if (!input && x->metadata)
        input = qn_metadata_get(x->metadata, "input");
    if (!classes && x->metadata)
        classes = qn_metadata_get(x->metadata, "classes");
    if (input && !qn_shape_parse(input, &x->options.input))
        return qn_fail(QN_ERROR_ARGUMENT, "%s is no shape as 28x28x1", input);
    x->options.n_outputs = classes ? atoi(classes) : 0;
    return QN_OK;
}

static qn_status load(exported *x, const char *weights) {
    const qn_trainer_options trainer = {
        .model = x->options.model,
        .input = x->options.input,
        .n_outputs = x->options.n_outputs,
        .tuning = qn_tuning_of(x->metadata),
        .seed = qn_seed_of(x->metadata),
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
    static const char *const keys[] = {"text.characters",   "text.source_words",
                                       "text.target_words", "wordpiece.text",
                                       "wordpiece.source",  "squad.unanswerable"};
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

static qn_status export(const arguments *a, exported *x) {
    const char *weights = arguments_get(a, "weights"), *out = arguments_get(a, "out");
    if (!out)
        return qn_fail(QN_ERROR_ARGUMENT, "quern export needs --out FILE");
    if (weights)
        QN_TRY(qn_checkpoint_read(NULL, weights, &x->metadata));
    const char *data = x->metadata ? qn_metadata_get(x->metadata, "data") : NULL;
    QN_TRY(model_find(a->words[0], data, &x->options.model));
    x->options.is_outside = arguments_flag(a, "outside");
    if (weights && x->options.model->network) {
        QN_TRY(load_task(a, x, weights));
    } else {
        QN_TRY(choose_sizes(a, x));
        if (weights)
            QN_TRY(load(x, weights));
    }
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
        "The file holds the network for inference, images as (N, C, H, W), with the names of its\n"
        "layers and weights and with its dropout, which runtimes pass through. A network for text\n"
        "takes its vocabulary along, so that quern train and evaluate go on from the file.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .run = run,
};
