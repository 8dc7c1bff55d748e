/* quern convert: imports another program's weights as a checkpoint of a model of the zoo. */
#include "base/status.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/files/maps.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "format/foreign/foreign_weights.h"
#include "os/heap.h"
#include "os/os.h"
#include "quern/quern.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

static const option options[] = {
    {.name = "model",
     .kind = OPTION_TEXT,
     .argument = "MODEL",
     .otherwise = "none, must be given",
     .help = "model of the zoo that the weights are for"},
    {.name = "map",
     .kind = OPTION_INPUT,
     .argument = "FILE",
     .otherwise = "that which quern has for the model, else equal names",
     .help = "map of names, CSV with the columns from,to[,layout]"},
    {.name = "key",
     .kind = OPTION_TEXT,
     .argument = "KEY",
     .otherwise = "the only one",
     .help = "dictionary of a PyTorch file with several, such as state_dict_ema"},
    {.name = "out",
     .kind = OPTION_TARGET,
     .makes = QN_OWN_WEIGHTS,
     .argument = "FILE",
     .otherwise = "none, only check",
     .help = "checkpoint to write"},
    {.name = "input",
     .kind = OPTION_SHAPE,
     .argument = "HxWxC",
     .otherwise = "that of published weights, 224x224x3, else the model's",
     .help = "input shape"},
    {.name = "classes",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e6,
     .otherwise = "the model's for the input",
     .help = "outputs"},
    {.name = "vocabulary",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e7,
     .otherwise = "the model's",
     .help = "vocabulary size of text models"},
    {.name = "partial",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "initialise parameters missing from the file, such as a new head"},
    {.name = "seed",
     .kind = OPTION_COUNT,
     .argument = "N",
     .most = 9e18,
     .fallback = "1",
     .help = "random seed of --partial"},
    {.name = "real",
     .kind = OPTION_CHOICE,
     .argument = "f32|f64",
     .fallback = "f32",
     .help = "type of the written weights; quern's commands read f32"},
    {.name = "licence",
     .kind = OPTION_TEXT,
     .argument = "TEXT",
     .otherwise = "none",
     .help = "licence of the weights, kept in the checkpoint"},
    {.name = "source",
     .kind = OPTION_TEXT,
     .argument = "TEXT",
     .otherwise = "none",
     .help = "where the weights are from, likewise"},
    {.name = "show-map",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "print quern's built-in map for the model"},
    {.name = "json", .kind = OPTION_FLAG, .fallback = "no", .help = "print a JSON object"},
};

typedef struct conversion {
    const arguments *a;
    qn_counter counter; /* of all memory below */
    qn_allocator allocator;
    const qn_model *model;
    const shipped_map *shipped; /* for the model, where there is one */
    qn_name_map map;
    qn_shape input; /* of classifiers */
    int n_outputs;
    qn_network_sizes sizes; /* of the others */
    qn_engine *engine;
    qn_metadata *pairs;
    qn_foreign_counts counts;
} conversion;

/* ---- the model ---- */

static qn_value build_classifier(qn_graph *graph, const conversion *c) {
    qn_shape shape = {.rank = c->input.rank + 1, .dims = {1}};
    memcpy(shape.dims + 1, c->input.dims, (size_t)c->input.rank * sizeof *shape.dims);
    const qn_value x = qn_input(graph, "input", shape);
    qn_result(graph, c->model->build(graph, c->model->user, x, c->n_outputs));
    return QN_NO_VALUE;
}

static qn_value build(qn_graph *graph, void *user, int phase, qn_value *kept) {
    const conversion *c = user;
    if (!c->model->network)
        return build_classifier(graph, c);
    c->model->network(graph, c->model->user, &c->sizes, phase, kept);
    return QN_NO_VALUE;
}

static void find_sizes(conversion *c) {
    const int64_t n_words = arguments_count(c->a, "vocabulary");
    const int side = c->shipped ? c->shipped->side : 0;
    c->sizes = c->model->sizes;
    c->sizes.n_inputs = n_words > 0 ? n_words : c->sizes.n_inputs;
    c->input = side > 0 ? QN_SHAPE(side, side, 3) : c->model->input;
    if (arguments_get(c->a, "input"))
        qn_shape_parse(arguments_get(c->a, "input"), &c->input);
    const int64_t n_classes = arguments_count(c->a, "classes");
    c->n_outputs = n_classes > 0 ? (int)n_classes : qn_model_classes(c->model, c->input);
}

static qn_status make_engine(conversion *c) {
    const qn_engine_options engine = {
        QN_OPTIONS_INIT(qn_engine_options),
        .allocator = &c->allocator,
        .real = strcmp(arguments_get(c->a, "real"), "f64") == 0 ? QN_F64 : QN_F32,
        .seed = (uint64_t)arguments_count(c->a, "seed"),
        .n_threads = 1,
    };
    const qn_program_options program = {
        QN_OPTIONS_INIT(qn_program_options),
        .name = c->model->name,
        .n_phases = c->model->n_phases,
        .user = c,
        .build = build,
    };
    return qn_engine_create(&engine, &program, 1, &c->engine);
}

/* ---- the map ---- */

static qn_status read_map(conversion *c) {
    const char *path = arguments_get(c->a, "map");
    char *text;
    size_t bytes;
    if (!path && c->shipped)
        return qn_name_map_parse(&c->map, c->shipped->name, (const char *)c->shipped->begin,
                                 (size_t)(c->shipped->end - c->shipped->begin));
    if (!path)
        return QN_OK;
    QN_TRY(qn_file_read_whole(&c->allocator, path, &text, &bytes));
    const qn_status status = qn_name_map_parse(&c->map, path, text, bytes);
    qn_release(&c->allocator, text, bytes + 1, 1);
    return status;
}

static int show_map(const conversion *c) {
    if (!c->shipped) {
        fprintf(stderr, "quern: there is no map for %s; those with one:", c->model->name);
        for (size_t i = 0; shipped_map_at(i); i++)
            fprintf(stderr, " %s", shipped_map_at(i)->model);
        fputc('\n', stderr);
        return EXIT_FAILED;
    }
    fwrite(c->shipped->begin, 1, (size_t)(c->shipped->end - c->shipped->begin), stdout);
    return EXIT_DONE;
}

/* ---- the checkpoint ---- */

static qn_status keep_option(conversion *c, const char *name) {
    const char *text = arguments_get(c->a, name);
    return text ? qn_metadata_set(c->pairs, name, text) : QN_OK;
}

/* So that quern predict can use published weights of images as they are. */
static qn_status set_pairs(conversion *c) {
    const bool is_image = !c->model->network && c->input.rank == 3;
    char text[QN_SHAPE_TEXT];
    QN_TRY(qn_metadata_set(c->pairs, "format", "quern checkpoint 1"));
    QN_TRY(qn_metadata_set(c->pairs, "model", c->model->name));
    QN_TRY(keep_option(c, "licence"));
    QN_TRY(keep_option(c, "source"));
    if (c->model->network)
        return QN_OK;
    QN_TRY(qn_metadata_set(c->pairs, "input", qn_shape_print(c->input, text)));
    snprintf(text, sizeof text, "%d", c->n_outputs);
    QN_TRY(qn_metadata_set(c->pairs, "classes", text));
    const bool is_known = c->shipped && is_image && c->input.dims[2] == 3;
    const qn_preparation preparation = {.sample = c->input,
                                        .centre_crop = true,
                                        .n_statistics = is_known ? 3 : 0,
                                        .mean = is_known ? c->shipped->mean : NULL,
                                        .std_dev = is_known ? c->shipped->deviation : NULL,
                                        .n_classes = c->n_outputs};
    return qn_metadata_set_preparation(c->pairs, &preparation);
}

static void tell_line(void *user, const char *line) {
    enum { MOST_LINES = 200 };
    int64_t *n = user;
    if (++*n <= MOST_LINES)
        terminal_note("%s", line);
    else if (*n == MOST_LINES + 1)
        fputs("quern: ... and more\n", stderr);
}

static qn_status convert(conversion *c) {
    const char *out = arguments_get(c->a, "out");
    int64_t n_lines = 0;
    const qn_foreign_options foreign = {
        .map = &c->map,
        .key = arguments_get(c->a, "key"),
        .is_partial = arguments_flag(c->a, "partial"),
        .user = &n_lines,
        .tell = tell_line,
    };
    QN_TRY(read_map(c));
    QN_TRY(make_engine(c));
    QN_TRY(qn_foreign_weights_load(c->engine, c->a->words[0], &foreign, &c->counts));
    QN_TRY(qn_metadata_create(&c->allocator, &c->pairs));
    QN_TRY(set_pairs(c));
    return out ? qn_checkpoint_save(c->engine, c->pairs, out) : QN_OK;
}

/* ---- what is said ---- */

static int64_t count_parameters(const conversion *c) {
    int64_t n = 0;
    for (int i = 0; i < qn_engine_tensor_count(c->engine); i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(c->engine, i);
        n += t.trainable && !t.is_state ? qn_shape_count(t.shape) : 0;
    }
    return n;
}

static void print_result(const conversion *c) {
    const char *out = arguments_get(c->a, "out");
    const char *map = arguments_get(c->a, "map");
    char parameters[32], key[sizeof c->counts.key];
    if (arguments_flag(c->a, "json")) {
        json_begin();
        json_text("event", "converted");
        json_text("model", c->model->name);
        json_count("parameters", count_parameters(c));
        if (c->counts.key[0])
            json_text("key", c->counts.key);
        json_count("tensors_used", c->counts.n_used);
        json_count("tensors_left_out", c->counts.n_left_out);
        json_count("parameters_filled", c->counts.n_filled);
        json_count("parameters_kept", c->counts.n_kept);
        json_end();
        return;
    }
    if (c->counts.other[0])
        terminal_note("not read: objects such as %s; no code of the file is run", c->counts.other);
    printf("%s: %s parameters; %lld tensors of %s%s%s, by %s%s", c->model->name,
           grouped(count_parameters(c), parameters), (long long)c->counts.n_used,
           terminal_name(c->a->words[0]), c->counts.key[0] ? " under " : "",
           qn_text_printable(c->counts.key, key, sizeof key),
           map          ? terminal_name(map)
           : c->shipped ? "quern's map "
                        : "equal names",
           !map && c->shipped ? c->shipped->name : "");
    if (c->counts.n_left_out > 0)
        printf(", %lld left out", (long long)c->counts.n_left_out);
    if (c->counts.n_kept > 0)
        printf(", %lld parameter tensors newly initialised", (long long)c->counts.n_kept);
    printf(out ? ", saved to %s\n" : "; all fits\n", out ? terminal_name(out) : NULL);
}

static qn_status begin(conversion *c) {
    const char *model = arguments_get(c->a, "model");
    if (!model)
        return qn_fail(QN_ERROR_ARGUMENT, "quern convert needs --model MODEL");
    c->model = qn_model_find(model);
    if (!c->model)
        return QN_ERROR_ARGUMENT;
    if (c->a->n_words == 0 && !arguments_flag(c->a, "show-map"))
        return qn_fail(QN_ERROR_ARGUMENT, "quern convert needs a file with weights");
    c->shipped = shipped_map_find(model);
    find_sizes(c);
    return QN_OK;
}

static int run(const arguments *a) {
    conversion c = {.a = a};
    c.allocator = qn_counter_init(&c.counter, qn_allocator_default());
    qn_name_map_init(&c.map, &c.allocator);
    int result = EXIT_DONE;
    qn_status status = begin(&c);
    if (status == QN_OK && arguments_flag(a, "show-map")) {
        result = show_map(&c);
    } else {
        status = status == QN_OK ? convert(&c) : status;
        if (status == QN_OK)
            print_result(&c);
        else
            result = report_failure(status);
    }
    qn_metadata_destroy(c.pairs);
    qn_engine_destroy(c.engine);
    qn_name_map_deinit(&c.map);
    return result;
}

const command command_convert = {
    .name = "convert",
    .words = "[WEIGHTS]",
    .most_words = 1,
    .summary = "Import weights",
    .description =
        "WEIGHTS is a file that another program wrote: safetensors, or a state dictionary of\n"
        "PyTorch (.pt, .pth), whose code is never run. Filters are rearranged (channels last);\n"
        "F16, BF16 and F64 are converted. If a tensor has no counterpart, on either side, it is\n"
        "named and nothing is written.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .run = run,
    .makes_files = true,
};
