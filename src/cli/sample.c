/* quern sample: prints what a trained model generates: text, translations, answers, images, a game.
 */
#include "base/decimal.h"
#include "base/status.h"
#include "cli/json.h"
#include "cli/session.h"
#include "cli/terminal.h"
#include "models/language/model.h"
#include "tasks/tasks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    {.name = "tokens",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e6,
     .otherwise = "100",
     .help = "length of a language model's text, which may end before"},
    {.name = "top-p",
     .kind = OPTION_NUMBER,
     .argument = "X",
     .most = 1,
     .otherwise = "1, all",
     .help = "draw among the likeliest tokens that together reach X"},
    {.name = "top-k",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e9,
     .otherwise = "all",
     .help = "draw among the N likeliest tokens"},
    {.name = "repetition-penalty",
     .kind = OPTION_NUMBER,
     .argument = "X",
     .most = 100,
     .otherwise = "1, none",
     .help = "divides the logits of tokens that were there"},
    {.name = "chat",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "the prompt is what a user says, in a language model's own chat template"},
    {.name = "stop",
     .kind = OPTION_TEXT,
     .argument = "TEXT",
     .otherwise = "none",
     .help = "text before which a language model's text ends"},
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

static void put_piece(void *user, const char *text, size_t bytes) {
    (void)user;
    fwrite(text, 1, bytes, stdout);
    fflush(stdout);
}

static bool is_of_tokens(const session *s) {
    return strcmp(qn_task_of(s->model), "tokens") == 0;
}

/* A language model from a file: its text is streamed, and counted in tokens. */
static void set_tokens(const arguments *a, qn_sample_options *sampled) {
    sampled->length = arguments_count(a, "tokens");
    sampled->top_k = arguments_count(a, "top-k");
    if (arguments_get(a, "top-p"))
        sampled->top_p = qn_decimal_read(arguments_get(a, "top-p"), NULL);
    if (arguments_get(a, "repetition-penalty"))
        sampled->repetition_penalty = qn_decimal_read(arguments_get(a, "repetition-penalty"), NULL);
    sampled->stop = arguments_get(a, "stop");
    sampled->is_chat = arguments_flag(a, "chat");
    if (!arguments_flag(a, "json"))
        sampled->stream = put_piece;
}

static int sample(const arguments *a, session *s) {
    qn_sample_options sampled = {
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
    if (is_of_tokens(s))
        set_tokens(a, &sampled);
    if (qn_task_sample(s->task, &sampled) != QN_OK)
        return report_failed_run();
    if (sampled.picture && !arguments_flag(a, "json"))
        printf("saved to %s\n", terminal_name(sampled.picture));
    return EXIT_DONE;
}

/* Options of other tasks mean nothing. */
static qn_status check_options(const arguments *a, const session *s) {
    static const char *const of_tokens[] = {"tokens", "top-p", "top-k", "repetition-penalty",
                                            "stop",   "chat"};
    static const char *const of_others[] = {"characters", "context", "picture", "data"};
    const bool is_file = is_of_tokens(s);
    const char *const *refused = is_file ? of_others : of_tokens;
    const size_t n =
        is_file ? sizeof of_others / sizeof *of_others : sizeof of_tokens / sizeof *of_tokens;
    for (size_t i = 0; i < n; i++) {
        if (arguments_has(a, refused[i]))
            return qn_fail(QN_ERROR_ARGUMENT, "--%s is not for %s, %s", refused[i], s->model->name,
                           is_file ? "a language model from a file"
                                   : "which is no language model from a file");
    }
    return QN_OK;
}

/* A prompt has at most a token for each byte, and one before it. */
static qn_status prepare(const arguments *a, session *s) {
    const char *prompt = arguments_get(a, "prompt");
    const int64_t tokens = arguments_has(a, "tokens") ? arguments_count(a, "tokens") : 100;
    char length[24];
    QN_TRY(check_options(a, s));
    if (!is_of_tokens(s))
        return QN_OK;
    const qn_language *language = &qn_language_model_of(s->model)->language;
    if (arguments_flag(a, "chat") && !prompt)
        return qn_fail(QN_ERROR_ARGUMENT, "--chat needs a --prompt: what the user says");
    const int64_t around = arguments_flag(a, "chat") ? (int64_t)strnlen(language->chat, 1024) : 0;
    const int64_t wanted = (int64_t)(prompt ? strlen(prompt) : 0) + around + 1 + tokens;
    const int64_t most = language->sizes[QN_LANGUAGE_CONTEXT];
    snprintf(length, sizeof length, "%lld", (long long)(wanted < most ? wanted : most));
    QN_TRY(qn_metadata_set(s->pairs, "length", length));
    return qn_metadata_set(s->pairs, QN_DRAWS, "yes");
}

static int run(const arguments *a) {
    static const char *const names[] = {"data", NULL};
    session s;
    session_init(&s);
    qn_status status = session_open_trained(&s, a, names, prepare);
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
    .shared = {&session_options, &onnx_options},
    .run = run,
};
