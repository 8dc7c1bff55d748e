/* quern inspect: what is understood of a data set, before anything is trained on it. */
#include "base/decimal.h"
#include "base/status.h"
#include "cli/commands.h"
#include "cli/data_name.h"
#include "cli/json.h"
#include "cli/look/facts.h"
#include "cli/look/reading.h"
#include "cli/look/samples.h"
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
    {.name = "json", .kind = OPTION_FLAG, .fallback = "no", .help = "print a JSON object"},
};

/* settings and texts must outlive the source. */
static qn_status open_data(const arguments *a, qn_arena *texts, qn_metadata *settings,
                           qn_data_source *source) {
    const char *name, *input = arguments_get(a, "input");
    qn_data_options how = {
        QN_OPTIONS_INIT(qn_data_options),
        .log = &session_log,
        .seed = (uint64_t)arguments_count(a, "seed"),
        .holdout = qn_decimal_read(arguments_get(a, "holdout"), NULL),
        .validation = qn_decimal_read(arguments_get(a, "validation"), NULL),
        .strict = arguments_flag(a, "strict"),
    };
    if (input && !qn_shape_parse(input, &how.sample))
        return QN_ERROR_ARGUMENT;
    QN_TRY(data_name_find(a->words[0], texts, &name));
    QN_TRY(reading_store(a, settings));
    qn_reading_set(settings, &how);
    return qn_data_open(name, &how, source);
}

static void print_warning(void *context, const char *text) {
    (void)context;
    terminal_print(2, "warning: %s", text);
}

static qn_status show(const arguments *a, const qn_data_source *source) {
    const qn_look_options how = {source->preparation.sample, MOST_COMPARED};
    qn_look look;
    QN_TRY(qn_look_at(NULL, source, &how, &look));
    if (arguments_flag(a, "json")) {
        json_begin();
        json_text("event", "data");
        facts_add_json(source);
        samples_add_json(source, &look);
        json_end();
    } else {
        facts_print(source);
        samples_print(source, &look, false);
        samples_warn(source, &look, (samples_known){false, false}, print_warning, NULL);
    }
    qn_look_deinit(&look);
    return QN_OK;
}

static int run(const arguments *a) {
    qn_data_source source = {.self = NULL};
    qn_arena texts;
    qn_metadata *settings = NULL;
    qn_arena_init(&texts, qn_allocator_default());
    qn_status status = qn_metadata_create(NULL, &settings);
    if (status == QN_OK)
        status = open_data(a, &texts, settings, &source);
    if (status == QN_OK)
        status = show(a, &source);
    qn_data_close(&source);
    qn_metadata_destroy(settings);
    qn_arena_deinit(&texts);
    return status == QN_OK ? EXIT_DONE : report_failure(status);
}

const command command_inspect = {
    .name = "inspect",
    .words = "DATA",
    .least_words = 1,
    .most_words = 1,
    .summary = "Show what is understood of data, before training",
    .description = "Nothing is trained. What is shown is what quern train would train on.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .shared = {&table_options, &table_form_options, &reading_options},
    .run = run,
};
