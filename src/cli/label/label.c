/* quern label: labels a stream when examples exist for only some of the classes. */
#include "cli/label/label.h"

#include "base/status.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/session.h"
#include "cli/terminal.h"
#include "os/affinity.h"
#include "os/files/room.h"
#include "os/heap.h"
#include "quern/data.h"
#include "tensor/tensor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const option options[] = {
    {.name = "known",
     .kind = OPTION_INPUT,
     .argument = "DATA",
     .otherwise = "none, must be given to init",
     .help = "labelled rows, pictures or series; columns of rows are numbers or, if half of their "
             "fields are none, texts; the benchmark holds some of the classes back"},
    {.name = "data",
     .kind = OPTION_INPUT,
     .argument = "ROWS",
     .otherwise = "none, must be given to stream",
     .help =
         "csv:FILE, rows whose columns are found by name, or without names in their order, or - "
         "for standard input; of pictures and series any data set, whose own classes are not "
         "read"},
    {.name = "out",
     .kind = OPTION_TARGET,
     .makes = QN_OWN_LABELLER | QN_OWN_LABELS,
     .argument = "FILE",
     .otherwise = "standard output; init must have it",
     .help = "the labeller that init makes, or the labels: sample,label,confidence"},
    {.name = "target",
     .kind = OPTION_TEXT,
     .argument = "NAME",
     .otherwise = "the last column",
     .help = "of labelled rows: the column of classes"},
    {.name = "ignore",
     .kind = OPTION_TEXT,
     .argument = "NAMES",
     .otherwise = "columns that count the rows",
     .help = "of labelled rows: columns to leave out; none: keep those too that count the rows"},
    {.name = "categories",
     .kind = OPTION_TEXT,
     .argument = "NAMES",
     .otherwise = "columns of texts",
     .help = "of labelled rows: columns whose numbers are names"},
    {.name = "missing",
     .kind = OPTION_CHOICE,
     .argument = "refuse|median",
     .fallback = "refuse",
     .help = "numbers that rows lack: named with their line, or taken to be the median of the "
             "labelled samples"},
    {.name = "skip-bad",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "leave out rows that lack a value, or, of a stream, have something else wrong; in the "
             "labels, such a row is a line of two commas"},
    {.name = "follow",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "wait for more rows at the end of the file, until Ctrl-C"},
    {.name = "background",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "give way to whatever else runs (idle priority), as to a program that draws"},
    {.name = "revise",
     .kind = OPTION_COUNT,
     .argument = "N",
     .most = 999,
     .fallback = "0",
     .help = "give each label N samples later, by what is known then"},
    {.name = "answers",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "ask one question after another; a line of standard input is the name, - for none"},
    {.name = "html",
     .kind = OPTION_TARGET,
     .makes = QN_OWN_PAGE,
     .argument = "FILE",
     .otherwise = "none",
     .help = "write a page of the classes, of the questions with their pictures, or of the "
             "benchmark"},
    {.name = "settings",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1000,
     .fallback = "5",
     .help = "of the benchmark: streams that are made"},
    {.name = "seed",
     .kind = OPTION_COUNT,
     .argument = "N",
     .most = 9e15,
     .fallback = "1",
     .help = "of what is drawn; streams of the benchmark have this one and the next"},
    {.name = "features",
     .kind = OPTION_COUNT,
     .argument = "N",
     .most = 20,
     .fallback = "0",
     .help =
         "of the benchmark's streams; 0: each its own, 3 to 20, and 4 to 8 classes; else 4 classes "
         "of 10 centroids"},
    {.name = "speed",
     .kind = OPTION_NUMBER,
     .argument = "X",
     .most = 1,
     .fallback = "0",
     .help = "of the benchmark's centroids, a sample, in a cube of side 1"},
    {.name = "nothing-new",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "the benchmark's streams have known classes alone: FNew are false alarms"},
    {.name = "threads",
     .kind = OPTION_COUNT,
     .argument = "N",
     .most = 256,
     .fallback = "0",
     .help = "of the network; 0: the processors available; labels do not depend on it"},
    {.name = "splits",
     .kind = OPTION_COUNT,
     .argument = "N",
     .most = 1000,
     .fallback = "0",
     .help =
         "draws of the classes that a benchmark of pictures knows; after N settings they repeat, "
         "with other samples; 0: each setting has its own"},
    {.name = "samples",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 100,
     .most = 1000000,
     .fallback = "6000",
     .help = "of a benchmark's stream of pictures"},
    {.name = "drift",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "the benchmark's pictures turn, get darker and noisy along the stream"},
    {.name = "json", .kind = OPTION_FLAG, .fallback = "no", .help = "print one JSON object a line"},
};

/* ---- init ---- */

static qn_status make(const arguments *a, const qn_data_source *source, qn_labeller **labeller) {
    label_samples set = {.n = 0};
    const uint64_t seed = (uint64_t)arguments_count(a, "seed");
    qn_status status = label_has_pictures(source) ? label_pictures_read(source, seed, &set)
                                                  : label_samples_read(a, source, &set);
    if (status == QN_OK)
        status = qn_labeller_create(
            &(qn_label_options){QN_OPTIONS_INIT(qn_label_options), .n_features = set.n_features,
                                .n_classes = source->preparation.n_classes,
                                .names = source->preparation.class_names, .n_samples = set.n,
                                .x = set.x, .label = set.label, .seed = seed, .sample = set.sample,
                                .columns = source->columns,
                                .n_threads = (int)arguments_count(a, "threads")},
            labeller);
    label_samples_deinit(&set);
    return status;
}

static void print_made(const arguments *a, const qn_labeller *labeller) {
    const qn_label_cost cost = qn_labeller_get_cost(labeller);
    char bytes[QN_SIZE_TEXT];
    if (arguments_flag(a, "json")) {
        json_begin();
        json_text("event", "labeller");
        json_count("features", qn_labeller_features(labeller));
        json_count("classes", qn_labeller_class_count(labeller));
        json_count("bytes", (int64_t)cost.bytes);
        json_number("mean_flops", cost.mean_flops);
        json_number("largest_flops", cost.largest_flops);
        json_end();
        return;
    }
    printf(
        "%d classes of %d numbers; holds %s, at most %.2f MFLOP a sample in the mean and %.1f at "
        "once\nsaved to %s\n",
        qn_labeller_class_count(labeller), qn_labeller_features(labeller),
        qn_text_print_size(cost.bytes, bytes), cost.mean_flops * 1e-6, cost.largest_flops * 1e-6,
        terminal_name(arguments_get(a, "out")));
}

enum { LEAST_BYTES = 1 << 16 }; /* of a labeller's file */

static int init(const arguments *a) {
    const char *out = arguments_get(a, "out");
    qn_data_source source;
    qn_labeller *labeller = NULL;
    if (!arguments_has(a, "known") || !out)
        return report_failure(
            qn_fail(QN_ERROR_ARGUMENT, "quern label init --known DATA --out FILE"));
    qn_status status = label_open_known(a, &source);
    if (status != QN_OK)
        return report_failure(status);
    status = qn_room_try(NULL, out, LEAST_BYTES); /* a full disk is found before it learns */
    if (status == QN_OK)
        status = make(a, &source, &labeller);
    qn_data_close(&source);
    if (status == QN_OK)
        status = qn_labeller_save(labeller, out);
    if (status == QN_OK)
        print_made(a, labeller);
    qn_labeller_destroy(labeller);
    return status == QN_OK ? EXIT_DONE : report_failure(status);
}

/* ---- name, merge ---- */

static qn_status rename_class(qn_labeller *labeller, const char *word) {
    char name[QN_LABEL_NAME];
    const char *sign = strchr(word, '=');
    if (!sign || sign - word >= (long)sizeof name)
        return qn_fail(QN_ERROR_ARGUMENT, "'%.80s' is not OLD=NEW, as new-1=boots", word);
    snprintf(name, sizeof name, "%.*s", (int)(sign - word), word);
    return qn_labeller_rename(labeller, name, sign + 1);
}

static int name(const arguments *a, qn_labeller *labeller) {
    qn_status status =
        a->n_words > 2 ? QN_OK : qn_fail(QN_ERROR_ARGUMENT, "quern label name FILE OLD=NEW...");
    for (int i = 2; status == QN_OK && i < a->n_words; i++)
        status = rename_class(labeller, a->words[i]);
    if (status == QN_OK)
        status = label_save_correction(labeller, a->words[1]);
    return status == QN_OK ? EXIT_DONE : report_failure(status);
}

static int merge(const arguments *a, qn_labeller *labeller) {
    qn_status status = a->n_words > 3
                           ? QN_OK
                           : qn_fail(QN_ERROR_ARGUMENT, "quern label merge FILE CLASS CLASS...");
    for (int i = 3; status == QN_OK && i < a->n_words; i++)
        status = qn_labeller_rename(labeller, a->words[i], a->words[2]);
    if (status == QN_OK)
        status = label_save_correction(labeller, a->words[1]);
    return status == QN_OK ? EXIT_DONE : report_failure(status);
}

/* ---- a review ---- */

static int review(const arguments *a, qn_labeller *labeller) {
    int64_t n_changed = 0;
    qn_status status = a->n_words == 2
                           ? QN_OK
                           : qn_fail(QN_ERROR_ARGUMENT, "quern label review FILE has no "
                                                        "more words");
    if (status == QN_OK)
        status = qn_labeller_review(labeller, &n_changed);
    if (status == QN_OK)
        status = label_save_correction(labeller, a->words[1]);
    if (status != QN_OK)
        return report_failure(status);
    if (arguments_flag(a, "json")) {
        json_begin();
        json_text("event", "review");
        json_count("changed", n_changed);
        json_end();
    } else {
        printf("%" PRId64 " labels changed\n", n_changed);
    }
    return EXIT_DONE;
}

/* ---- which ---- */

static int run_on(const arguments *a, qn_labeller *labeller) {
    const char *action = a->words[0];
    if (strcmp(action, "stream") == 0)
        return label_stream(a, labeller);
    if (strcmp(action, "show") == 0)
        return label_show(a, labeller);
    if (strcmp(action, "ask") == 0)
        return label_ask(a, labeller);
    if (strcmp(action, "tell") == 0)
        return label_tell(a, labeller);
    if (strcmp(action, "review") == 0)
        return review(a, labeller);
    if (strcmp(action, "undo") == 0)
        return label_undo(a, labeller);
    if (strcmp(action, "export") == 0)
        return label_export(a, labeller);
    return strcmp(action, "name") == 0 ? name(a, labeller) : merge(a, labeller);
}

static const char *const of_known[] = {"target", "ignore", "categories", NULL};
static const char *const of_rows[] = {"missing", "skip-bad", "header", "separator",
                                      "decimal", "dates",    NULL};

qn_status label_refuse_reading(const arguments *a, const char *why) {
    for (int i = 0; of_known[i]; i++)
        if (arguments_has(a, of_known[i]))
            return qn_fail(QN_ERROR_ARGUMENT, "--%s is of rows: %s", of_known[i], why);
    for (int i = 0; of_rows[i]; i++)
        if (arguments_has(a, of_rows[i]))
            return qn_fail(QN_ERROR_ARGUMENT, "--%s is of rows: %s", of_rows[i], why);
    return QN_OK;
}

/* What says how rows are read means nothing to those who read none. */
static qn_status check_reading(const arguments *a) {
    const char *action = a->words[0];
    const bool reads_known = strcmp(action, "init") == 0 || strcmp(action, "bench") == 0;
    const bool reads = reads_known || strcmp(action, "stream") == 0;
    for (int i = 0; !reads_known && of_known[i]; i++)
        if (arguments_has(a, of_known[i]))
            return qn_fail(QN_ERROR_ARGUMENT, "--%s is for label init and label bench",
                           of_known[i]);
    for (int i = 0; !reads && of_rows[i]; i++)
        if (arguments_has(a, of_rows[i]))
            return qn_fail(QN_ERROR_ARGUMENT, "--%s is for label init, stream and bench",
                           of_rows[i]);
    return QN_OK;
}

static int run(const arguments *a) {
    static const char *const actions[] = {"init", "bench", "stream", "show", "name",  "merge",
                                          "ask",  "tell",  "review", "undo", "export"};
    enum { N_ACTIONS = sizeof actions / sizeof actions[0], N_WITHOUT_FILE = 2 };
    qn_labeller *labeller;
    int which = 0;
    while (which < N_ACTIONS && strcmp(actions[which], a->words[0]) != 0)
        which++;
    if (which == N_ACTIONS)
        return report_failure(qn_fail(
            QN_ERROR_ARGUMENT,
            "%s is not an action: init, stream, show, name, merge, ask, tell, review, undo, "
            "export, bench",
            a->words[0]));
    if (check_reading(a) != QN_OK)
        return report_failure(QN_ERROR_ARGUMENT);
    if (which < N_WITHOUT_FILE)
        return which == 0 ? init(a) : label_bench(a);
    if (a->n_words < 2)
        return report_failure(qn_fail(
            QN_ERROR_ARGUMENT, "quern label %s FILE: a labeller that init made", actions[which]));
    if (arguments_flag(a, "background") && !qn_thread_give_way()) /* before threads are started */
        terminal_note("--background: this system has no idle priority");
    const qn_status status = qn_labeller_load(qn_allocator_default(), a->words[1], &labeller);
    if (status != QN_OK)
        return report_failure(status);
    const int result = run_on(a, labeller);
    qn_labeller_destroy(labeller);
    return result;
}

const command command_label = {
    .name = "label",
    .words = "ACTION [FILE] [WORD...]",
    .least_words = 1,
    .most_words = -1,
    .summary = "Label a stream of known and new classes",
    .description =
        "label init --known DATA --out FILE             learn from labelled samples\n"
        "label stream FILE --data csv:NEW --out LABELS  label each row (a known class or new-1, "
        "...)\n"
        "label show FILE [--html PAGE]                  list the classes, their members and moves\n"
        "label ask FILE [N] [--html PAGE]               list the N samples worth asking for\n"
        "label review FILE                              look at all pictures once more, to train\n"
        "label tell FILE 5321=boots...                  tell of which class samples are\n"
        "label name FILE new-1=boots...                 name new classes\n"
        "label merge FILE CLASS CLASS...                merge classes under the name of the first\n"
        "label undo FILE                                take the last tell, name, merge or review "
        "back\n"
        "label export FILE --out LABELS                 labels of the kept samples, as known now\n"
        "label bench [--html PAGE]                      compare methods on synthetic streams\n"
        "label bench --known DATA                       or on a data set, some of its classes new\n"
        "\n"
        "FILE is written every 500 samples and at the end. After an interruption, the same\n"
        "command continues and gives the same labels.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .shared = {&table_form_options},
    .run = run,
    .makes_files = true,
};
