/* quern sample: prints what a trained model generates: text, translations, answers, images, a game.
 */
#include "base/decimal.h"
#include "base/status.h"
#include "cli/json.h"
#include "cli/session.h"

#include <stdio.h>
#include <stdlib.h>

static const option options[] = {
    {.name = "weights",
     .kind = OPTION_INPUT,
     .of_run = "best",
     .argument = "FILE",
     .otherwise = "none, must be given",
     .help = "checkpoint"},
    {.name = "data",
     .kind = OPTION_DATA,
     .argument = "DATA",
     .otherwise = "the checkpoint's",
     .help = "data to draw prompts from if none is given"},
    {.name = "prompt",
     .kind = OPTION_TEXT,
     .argument = "TEXT",
     .otherwise = "some of the data's",
     .help = "text to continue, sentence to translate, or question"},
    {.name = "context",
     .kind = OPTION_TEXT,
     .argument = "TEXT",
     .otherwise = "none",
     .help = "text in which the question is answered"},
    {.name = "count",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e6,
     .otherwise = "the task's",
     .help = "how many samples"},
    {.name = "characters",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e6,
     .otherwise = "the task's",
     .help = "length of a text"},
    {.name = "temperature",
     .kind = OPTION_NUMBER,
     .argument = "X",
     .most = 100,
     .fallback = "1",
     .help = "sampling temperature; 0 takes the likeliest character"},
    {.name = "seed",
     .kind = OPTION_COUNT,
     .argument = "N",
     .most = 9e18,
     .fallback = "1",
     .help = "random seed"},
    {.name = "picture",
     .kind = OPTION_TARGET,
     .makes = QN_OWN_PICTURE,
     .argument = "FILE",
     .otherwise = "none",
     .help = "PNG file to write the samples to"},
    {.name = "memory",
     .kind = OPTION_SIZE,
     .argument = "SIZE",
     .otherwise = "no limit",
     .help = "memory budget, such as 300M; does not change the result"},
    {.name = "threads",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 256,
     .otherwise = "all processors",
     .help = "threads; does not change the result"},
    {.name = "json", .kind = OPTION_FLAG, .fallback = "no", .help = "print one JSON object a line"},
};

static void put_line(void *user, const char *line) {
    (void)user;
    puts(line);
}

static void put_json(void *user, const char *line) {
    (void)user;
    json_begin();
    json_text("event", "sample");
    json_text("text", line);
    json_end();
}

static int sample(const arguments *a, session *s) {
    const qn_sample_options sampled = {
        QN_OPTIONS_INIT(qn_sample_options),
        .prompt = arguments_get(a, "prompt"),
        .context = arguments_get(a, "context"),
        .count = arguments_count(a, "count"),
        .length = arguments_count(a, "characters"),
        .temperature = qn_decimal_read(arguments_get(a, "temperature"), NULL),
        .seed = (uint64_t)arguments_count(a, "seed"),
        .picture = arguments_get(a, "picture"),
        .put = arguments_flag(a, "json") ? put_json : put_line,
    };
    if (qn_task_sample(s->task, &sampled) != QN_OK)
        return report_failed_run();
    if (sampled.picture && !arguments_flag(a, "json"))
        printf("saved to %s\n", sampled.picture);
    return EXIT_DONE;
}

static int run(const arguments *a) {
    static const char *const names[] = {"data", NULL};
    session s;
    session_init(&s);
    qn_status status = session_open_trained(&s, a, names);
    int result = status == QN_OK ? sample(a, &s) : report_failure(status);
    session_deinit(&s);
    return result;
}

const command command_sample = {
    .name = "sample",
    .words = "[MODEL]",
    .most_words = 1,
    .summary = "Generate text, translations, answers or images",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .shared = {&onnx_options},
    .run = run,
};
