/* quern export: a network with its weights as an ONNX file. */
#include "base/decimal.h"
#include "base/status.h"
#include "cli/commands.h"
#include "cli/files/export_language.h"
#include "cli/model.h"
#include "cli/session.h"
#include "cli/terminal.h"
#include "format/metadata.h"
#include "numerics/numerics.h"
#include "quern/onnx.h"
#include "quern/quern.h"
#include "tasks/reading.h"
#include "tasks/tasks.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const option options[] = {
    {.name = "weights",
     .kind = OPTION_INPUT,
     .of_run = "best",
     .argument = "FILE",
     .otherwise = "the numbers that training begins with",
     .help = "checkpoint or adapter"},
    {.name = "out",
     .kind = OPTION_TARGET,
     .makes = QN_OWN_NETWORK,
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
    {.name = "numerics",
     .kind = OPTION_NUMERICS,
     .argument = "NAME|FILE",
     .otherwise = "the checkpoint's",
     .help = "weights and activations in int8 as these hold them (quern numerics), behind "
             "QuantizeLinear and DequantizeLinear"},
    {.name = "data",
     .kind = OPTION_DATA,
     .argument = "DATA",
     .otherwise = "the checkpoint's",
     .help = "with numerics: training samples whose activations give the scales"},
    {.name = "samples",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e6,
     .fallback = "64",
     .help = "with numerics: how many samples"},
    {.name = "with-preparation",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help =
         "the network takes image bytes (0 to 255) and normalises them itself, as it does numbers"},
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
    qn_numerics *numerics; /* null: floats */
    qn_data_source source; /* of the samples below, while is_open */
    bool is_open;
    qn_loader *loader;
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
static qn_status keep_vocabulary(exported *x, const qn_metadata *pairs) {
    static const char *const keys[] = {"text.characters",   "text.words",     "text.source_words",
                                       "text.target_words", "wordpiece.text", "wordpiece.source",
                                       "squad.unanswerable"};
    QN_TRY(qn_metadata_create(NULL, &x->properties));
    x->options.properties = x->properties;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *value = qn_metadata_get(pairs, keys[i]);
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
    return keep_vocabulary(x, s->pairs);
}

/* The file that a network came from, with the weights of a checkpoint in place of its own. What
 * adapters add is worked out by an engine. */
static bool is_substituted(const exported *x) {
    return model_network(x->options.model) && !x->numerics && x->metadata &&
           !qn_metadata_get(x->metadata, "lora");
}

static qn_status substitute(const arguments *a, exported *x, const char *weights) {
    const bool is_classifier = !x->options.model->network;
    if (!is_classifier && (arguments_get(a, "input") || arguments_get(a, "classes")))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "--input and --classes are for networks that classify; %s goes with the "
                       "sizes of its checkpoint",
                       x->options.model->name);
    QN_TRY(model_check(x->options.model, x->metadata, weights));
    x->options.weights = weights;
    return is_classifier ? QN_OK : keep_vocabulary(x, x->metadata);
}

/* What the file's numbers are, for programs that run it. */
static void tell_numbers(const exported *x) {
    const qn_preparation *p = &x->preparation;
    const char *elements = qn_metadata_get(x->properties, QN_ELEMENTS);
    const bool has_columns = p->table && p->table->n_columns > 0;
    const bool are_numbers =
        has_columns || (elements && strcmp(elements, QN_ELEMENTS_NUMBERS) == 0);
    if (has_columns)
        terminal_note("the file takes the %lld numbers of a row as they are, column by column as "
                      "quern.preparation.table in its properties lists them",
                      (long long)qn_shape_count(p->sample));
    else if (are_numbers)
        terminal_note("the file takes numbers as they are in the data");
    else if (x->options.with_preparation)
        terminal_note("the file takes bytes, as numbers from 0 to 255");
    else if (p->n_statistics > 0)
        terminal_note(
            "the file takes bytes over 255, minus mean, over deviation (quern.preparation "
            "in its properties); --with-preparation puts that into the file");
    if (p->n_scaled > 0)
        terminal_note("the file gives %s in the units of the data",
                      p->table && p->table->n_targets == 1 ? p->table->targets[0] : "targets");
}

/* What evaluates the file needs to know which samples it was not trained on. */
static qn_status keep_split(exported *x) {
    for (int i = 0; qn_split_keys[i]; i++) {
        const char *value = qn_metadata_get(x->metadata, qn_split_keys[i]);
        if (value)
            QN_TRY(qn_metadata_set(x->properties, qn_split_keys[i], value));
    }
    return QN_OK;
}

/* And what runs it, how its samples were prepared. */
static qn_status keep_preparation(const arguments *a, exported *x) {
    const bool is_inside = arguments_flag(a, "with-preparation");
    if (x->metadata && !x->options.model->network &&
        qn_metadata_get(x->metadata, "preparation.sample")) {
        const char *prepared = qn_metadata_get(x->metadata, "prepared");
        const char *elements = qn_metadata_get(x->metadata, QN_ELEMENTS);
        QN_TRY(qn_metadata_get_preparation(x->metadata, &x->preparation));
        QN_TRY(qn_metadata_create(NULL, &x->properties));
        QN_TRY(qn_metadata_set(x->properties, "prepared", prepared ? prepared : ""));
        if (elements)
            QN_TRY(qn_metadata_set(x->properties, QN_ELEMENTS, elements));
        QN_TRY(keep_split(x));
        x->options.properties = x->properties;
        x->options.preparation = &x->preparation;
        x->options.with_preparation = is_inside;
        tell_numbers(x);
    }
    if (is_inside && !x->options.preparation)
        return qn_fail(
            QN_ERROR_ARGUMENT,
            "--with-preparation needs --weights of a network that was trained on images; "
            "only that knows mean and deviation");
    return QN_OK;
}

/* ---- numerics ---- */

/* The description of --numerics, else the checkpoint's; null: floats, as all is where no number
 * that numerics round has 8 bits. */
static qn_status choose_numerics(const arguments *a, exported *x) {
    const char *given = arguments_get(a, "numerics");
    const char *text = given ? given : qn_metadata_get(x->metadata, "numerics");
    if (!text || strcmp(text, "f32") == 0)
        return QN_OK;
    QN_TRY(qn_numerics_create(NULL, text, &x->numerics));
    if (qn_numerics_has(x->numerics, QN_I8))
        return QN_OK;
    if (given)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "--numerics: no weights or activations of int8; leave it out");
    qn_numerics_destroy(x->numerics);
    x->numerics = NULL;
    return QN_OK;
}

/* The first batch of the data that the checkpoint was trained on, or of other data. */
static qn_status read_samples(const arguments *a, exported *x) {
    qn_metadata *pairs = x->session.pairs;
    const char *given = arguments_get(a, "data"), *data = given;
    const char *holdout = qn_metadata_get(pairs, "holdout");
    const char *validation = qn_metadata_get(pairs, "validation");
    qn_batch batch;
    if (!data)
        data = qn_metadata_get(pairs, "data");
    if (!data || !qn_metadata_get(pairs, "preparation.sample"))
        return qn_fail(QN_ERROR_ARGUMENT, "%s",
                       data ? "numerics are exported of networks that classify"
                            : "nothing says what data the scales follow from; give --data");
    QN_TRY(qn_metadata_get_preparation(pairs, &x->preparation));
    const qn_data_options opening = {QN_OPTIONS_INIT(qn_data_options),
                                     .log = &session_log,
                                     .seed = qn_seed_of(pairs),
                                     .holdout = holdout ? qn_decimal_read(holdout, NULL) : 0,
                                     .validation =
                                         validation ? qn_decimal_read(validation, NULL) : 0,
                                     .sample = x->preparation.sample,
                                     .n_classes = x->preparation.n_classes,
                                     .held_out = qn_task_held_out(pairs)};
    QN_TRY(qn_data_open(data, &opening, &x->source));
    x->is_open = true;
    QN_TRY(qn_reading_fit(pairs, &x->source, &x->preparation.sample));
    const qn_loader_options how = {QN_OPTIONS_INIT(qn_loader_options),
                                   .batch = arguments_count(a, "samples"), .seed = opening.seed,
                                   .pad_last = true, .n_batches = 1};
    QN_TRY(qn_loader_create(&x->source, &x->preparation, &how, &x->loader));
    QN_TRY(qn_loader_next(x->loader, &batch));
    if (!batch.x)
        return qn_fail(QN_ERROR_ARGUMENT, "%s has no training samples", data);
    x->options.samples = batch.x;
    x->options.n_samples = batch.n_valid;
    return QN_OK;
}

/* A checkpoint with the types that the numerics say. */
static qn_status load_numerics(const arguments *a, exported *x, const char *weights) {
    session *s = &x->session;
    if (x->options.model->network || model_network(x->options.model))
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "numerics are exported of quern's own networks that classify");
    QN_TRY(session_begin(s, a->words[0], arguments_get(a, "data"), weights));
    if (arguments_get(a, "numerics"))
        QN_TRY(qn_metadata_set(s->pairs, "numerics", arguments_get(a, "numerics")));
    QN_TRY(session_keep_pairs(s));
    QN_TRY(session_open_task(s, false, 0));
    QN_TRY(session_load(s, weights, false));
    qn_engine_merge_adapters(qn_task_engine(s->task));
    x->options.engine = qn_task_engine(s->task);
    x->options.numerics = x->numerics;
    return read_samples(a, x);
}

static qn_status load_any(const arguments *a, exported *x, const char *weights) {
    const bool is_classifier = !x->options.model->network;
    QN_TRY(choose_numerics(a, x));
    if (x->numerics || is_classifier)
        QN_TRY(choose_sizes(a, x));
    if (is_substituted(x))
        return substitute(a, x, weights);
    if (x->numerics)
        return load_numerics(a, x, weights);
    return is_classifier ? load(x, weights) : load_task(a, x, weights);
}

static qn_status export(const arguments *a, exported *x) {
    const char *weights = arguments_get(a, "weights"), *out = arguments_get(a, "out");
    if (!out)
        return qn_fail(QN_ERROR_ARGUMENT, "quern export needs --out FILE");
    if (weights)
        QN_TRY(qn_checkpoint_read(NULL, weights, &x->metadata));
    const char *data = x->metadata ? qn_metadata_get(x->metadata, "data") : NULL;
    model_read_options(a);
    model_read_kept(x->metadata);
    x->options.size = sizeof x->options;
    QN_TRY(model_find(a->words[0], data, &x->options.model));
    if (strcmp(qn_task_of(x->options.model), "tokens") == 0)
        return export_language(x->options.model, x->metadata, weights, out);
    x->options.is_outside = arguments_flag(a, "outside");
    if (!weights && arguments_get(a, "numerics"))
        return qn_fail(QN_ERROR_ARGUMENT, "--numerics needs --weights of a trained network");
    QN_TRY(weights ? load_any(a, x, weights) : choose_sizes(a, x));
    QN_TRY(keep_preparation(a, x));
    x->options.source = model_network(x->options.model);
    return qn_onnx_export(&x->options, out);
}

static int run(const arguments *a) {
    exported x = {.metadata = NULL};
    session_init(&x.session);
    const qn_status status = export(a, &x);
    if (status == QN_OK)
        printf("exported to %s\n", terminal_name(arguments_get(a, "out")));
    qn_loader_destroy(x.loader);
    if (x.is_open)
        qn_data_close(&x.source);
    qn_numerics_destroy(x.numerics);
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
        "Of a language model's file, its adapters go into a GGUF file for llama.cpp.\n"
        "The file holds the network for inference, with images as (N, C, H, W), the names of\n"
        "layers and weights, and dropout nodes, which runtimes ignore. It also stores the\n"
        "vocabulary of a text model, so that quern can train and evaluate it further, and the\n"
        "class names, mean and deviation of an image classifier. A network that was trained by\n"
        "numerics of int8 keeps its int8 weights, and its activations are rounded as in training,\n"
        "with scales that are fixed: those of a batch of training samples.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .shared = {&onnx_options},
    .run = run,
    .makes_files = true,
};
