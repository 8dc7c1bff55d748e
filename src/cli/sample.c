/* quern sample: what trained weights make: text, translations, answers, images, a game. */
#include "base/status.h"
#include "cli/json.h"
#include "cli/session.h"

#include <stdio.h>
#include <stdlib.h>

static const option options[] = {
    {.name = "weights",
     .kind = OPTION_TEXT,
     .argument = "FILE",
     .otherwise = "none, must be given",
     .help = "checkpoint with the weights and what belongs to them"},
    {.name = "data",
     .kind = OPTION_TEXT,
     .argument = "DATA",
     .otherwise = "the checkpoint's",
     .help = "what to take samples from where no prompt is given"},
    {.name = "prompt",
     .kind = OPTION_TEXT,
     .argument = "TEXT",
     .otherwise = "some of the data's",
     .help = "text to go on from, a sentence to translate, a question"},
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
     .help = "of drawing characters; 0 takes the likeliest"},
    {.name = "seed",
     .kind = OPTION_COUNT,
     .argument = "N",
     .most = 9e18,
     .fallback = "1",
     .help = "of what is drawn"},
    {.name = "picture",
     .kind = OPTION_TARGET,
     .argument = "FILE",
     .otherwise = "none",
     .help = "PNG file to write the samples to"},
    {.name = "memory",
     .kind = OPTION_SIZE,
     .argument = "SIZE",
     .otherwise = "as much as it takes",
     .help = "budget of all memory, as 300M; the result does not depend on it"},
    {.name = "threads",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 256,
     .otherwise = "the processors there are",
     .help = "threads; the result does not depend on them"},
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
        .prompt = arguments_get(a, "prompt"),
        .context = arguments_get(a, "context"),
        .count = arguments_count(a, "count"),
        .length = arguments_count(a, "characters"),
        .temperature = strtod(arguments_get(a, "temperature"), NULL),
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
    .words = "MODEL",
    .least_words = 1,
    .most_words = 1,
    .summary = "Show what trained weights make: text, translations, answers, images",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .run = run,
};
