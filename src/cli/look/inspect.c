/* quern inspect: what is understood of a data set, before anything is trained on it. */
#include "base/decimal.h"
#include "base/status.h"
#include "cli/commands.h"
#include "cli/data_name.h"
#include "cli/json.h"
#include "cli/look/facts.h"
#include "cli/look/page.h"
#include "cli/look/reading.h"
#include "cli/look/samples.h"
#include "cli/look/weights.h"
#include "cli/session.h"
#include "cli/terminal.h"
#include "os/heap.h"
#include "quern/data.h"
#include "tasks/reading.h"
#include "tensor/tensor.h"

#include <stdlib.h>

enum { MOST_COMPARED = 4 << 20 };

static const option options[] = {
    {.name = "input",
     .kind = OPTION_SHAPE,
     .argument = "SHAPE",
     .otherwise = "32x32x3",
     .help = "size at which pictures are compared"},
    {.name = "holdout",
     .kind = OPTION_NUMBER,
     .argument = "X",
     .most = 0.9,
     .fallback = "0",
     .otherwise = "images 0.1 to 0.25, others 0",
     .help = "fraction held out for testing if the data has no test set"},
    {.name = "validation",
     .kind = OPTION_NUMBER,
     .argument = "X",
     .most = 0.9,
     .fallback = "0",
     .help = "fraction of the training samples held out for validation"},
    {.name = "seed",
     .kind = OPTION_COUNT,
     .argument = "N",
     .most = 1e15,
     .fallback = "1",
     .help = "seed of what is held out"},
    {.name = "strict",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "stop at unreadable images instead of skipping them"},
    {.name = "html",
     .kind = OPTION_TARGET,
     .makes = QN_OWN_PAGE,
     .argument = "FILE",
     .otherwise = "none",
     .help = "write a page with the same, pictures of each class, and values of columns"},
    {.name = "json", .kind = OPTION_FLAG, .fallback = "no", .help = "print a JSON object"},
};

/* What was given, and what weights keep, must outlive the source. */
typedef struct inspection {
    qn_arena texts;
    qn_metadata *settings;
    weights weights;
    const char *data;
    qn_data_source source;
} inspection;

static const char *const kept[] = {"input", "holdout", "validation", "seed"};

/* Those that were given; others are as a checkpoint keeps them, or as options begin. */
static qn_status store_given(const arguments *a, qn_metadata *settings) {
    QN_TRY(reading_store(a, settings));
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (arguments_has(a, kept[i]))
            QN_TRY(qn_metadata_set(settings, kept[i], arguments_get(a, kept[i])));
    return QN_OK;
}

static const char *setting(const inspection *in, const arguments *a, const char *name) {
    const char *text = qn_metadata_get(in->settings, name);
    return text ? text : arguments_get(a, name);
}

static qn_status open_data(const arguments *a, inspection *in) {
    QN_TRY(data_name_find(a->words[0], &in->texts, &in->data));
    QN_TRY(store_given(a, in->settings));
    if (a->n_words > 1)
        QN_TRY(weights_read(a->words[1], in->data, &in->texts, &in->weights));
    QN_TRY(weights_keep_settings(&in->weights, in->settings));
    const char *input = setting(in, a, "input");
    qn_data_options how = {
        QN_OPTIONS_INIT(qn_data_options),
        .log = &session_log,
        .seed = strtoull(setting(in, a, "seed"), NULL, 10),
        .holdout = qn_decimal_read(setting(in, a, "holdout"), NULL),
        .validation = qn_decimal_read(setting(in, a, "validation"), NULL),
        .strict = arguments_flag(a, "strict"),
    };
    if (input && !qn_shape_parse(input, &how.sample))
        return QN_ERROR_ARGUMENT;
    qn_reading_set(in->settings, &how);
    return weights_open_data(&in->weights, in->data, &how, &in->source);
}

static void print_warning(void *context, const char *text) {
    (void)context;
    terminal_print(2, "warning: %s", text);
}

/* Lines that go to the terminal and to the page. */
static void put_both(void *context, const char *line) {
    look_terminal.put(look_terminal.context, line);
    page_put(context, line);
}

static void print_lines(inspection *in, const qn_look *look, const look_lines *to) {
    facts_print(&in->source, to);
    samples_print(&in->source, look, false, to);
}

static qn_status show_json(inspection *in, const qn_look *look, const look_lines *to) {
    json_begin();
    json_text("event", "data");
    facts_add_json(&in->source);
    samples_add_json(&in->source, look);
    const qn_status status = weights_print(&in->weights, in->settings, &in->source, look, true, to);
    json_end();
    return status;
}

static qn_status show_look(const arguments *a, inspection *in, const qn_look *look) {
    const char *html = arguments_get(a, "html");
    const bool is_json = arguments_flag(a, "json");
    page p = {.document = NULL};
    if (html)
        QN_TRY(page_begin(&p, &in->source, look));
    const look_lines to = {!html ? look_terminal.put : is_json ? page_put : put_both, &p};
    qn_status status;
    if (html || !is_json)
        print_lines(in, look, &to);
    if (!is_json)
        samples_warn(&in->source, look, (samples_known){false, false}, print_warning, NULL);
    if (is_json)
        status = show_json(in, look, html ? &to : NULL);
    else
        status = weights_print(&in->weights, in->settings, &in->source, look, false, &to);
    const qn_status written = page_finish(&p, status == QN_OK ? html : NULL);
    if (status == QN_OK && written == QN_OK && html && !is_json)
        terminal_print(2, "saved to %s", html);
    return status == QN_OK ? written : status;
}

static qn_status show(const arguments *a, inspection *in) {
    const qn_look_options how = {in->source.preparation.sample, MOST_COMPARED};
    qn_look look;
    QN_TRY(qn_look_at(NULL, &in->source, &how, &look));
    const qn_status status = show_look(a, in, &look);
    qn_look_deinit(&look);
    return status;
}

static int run(const arguments *a) {
    inspection in = {.settings = NULL};
    qn_arena_init(&in.texts, qn_allocator_default());
    qn_status status = qn_metadata_create(NULL, &in.settings);
    if (status == QN_OK)
        status = open_data(a, &in);
    if (status == QN_OK)
        status = show(a, &in);
    qn_data_close(&in.source);
    weights_deinit(&in.weights);
    qn_metadata_destroy(in.settings);
    qn_arena_deinit(&in.texts);
    return status == QN_OK ? EXIT_DONE : report_failure(status);
}

const command command_inspect = {
    .name = "inspect",
    .words = "DATA [MODEL|CHECKPOINT]",
    .least_words = 1,
    .most_words = 2,
    .summary = "Show what is understood of data, before training",
    .description =
        "Nothing is trained. What is shown is what quern train would train on; of a model or a\n"
        "checkpoint also what it takes: shape, columns and classes by name, held-out samples.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .shared = {&table_options, &table_form_options, &reading_options},
    .run = run,
};
