/* quern tokens: the tokens of a text, as a language model's tokenizer makes them. */
#include "base/text.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/terminal.h"
#include "data/tokens/tokenizer.h"
#include "os/heap.h"
#include "os/os.h"

#include <stdio.h>

static const option options[] = {
    {.name = "list",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "each token on a line of its own: its number and its text"},
    {.name = "json",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "one JSON object with the numbers of all tokens"},
};

/* A text that is tokenised. */
typedef struct source {
    const char *path, *text;
    size_t bytes;
} source;

static void write_json(const source *from, const qn_tokenizer *t, const qn_tokens *tokens) {
    json_begin();
    json_text("file", from->path);
    json_text("tokenizer", qn_tokenizer_kind(t));
    json_text("split", qn_tokenizer_split(t));
    json_count("vocabulary", qn_tokenizer_count(t));
    json_count("missing_bytes", qn_tokenizer_missing(t));
    json_count("bytes", (int64_t)from->bytes);
    json_open_list("tokens");
    for (size_t i = 0; i < tokens->n; i++)
        json_item_count(tokens->list[i]);
    json_close_list();
    json_end();
}

/* A token may be part of a character: those bytes are escapes. */
static void print_list(const qn_tokenizer *t, const qn_tokens *tokens) {
    char text[256], shown[1024];
    for (size_t i = 0; i < tokens->n; i++) {
        size_t bytes;
        const char *token = qn_tokenizer_token(t, tokens->list[i], &bytes);
        snprintf(text, sizeof text, "%.*s", (int)(bytes < sizeof text ? bytes : sizeof text - 1),
                 token);
        printf("%8d  %s\n", (int)tokens->list[i], qn_text_printable(text, shown, sizeof shown));
    }
}

static void print_tokens(const source *from, const qn_tokenizer *t, const qn_tokens *tokens) {
    char n[32], n_vocabulary[32], bytes[32];
    const char *split = qn_tokenizer_split(t);
    printf("%s: %s tokens of %s bytes%s", terminal_name(from->path), grouped((int64_t)tokens->n, n),
           grouped((int64_t)from->bytes, bytes), tokens->n > 0 ? ", " : "");
    if (tokens->n > 0)
        printf("%.2f bytes a token", (double)from->bytes / (double)tokens->n);
    printf("\n%s%s%s, %s tokens in the vocabulary\n", qn_tokenizer_kind(t),
           *split ? ", split as by " : "", split, grouped(qn_tokenizer_count(t), n_vocabulary));
    if (qn_tokenizer_missing(t) > 0)
        printf("%d of the 256 bytes have no token: texts lose them\n", qn_tokenizer_missing(t));
}

static qn_status encode(const arguments *a, qn_tokenizer *t) {
    source from = {.path = a->words[1]};
    char *text;
    qn_tokens tokens;
    qn_tokens_init(&tokens, NULL);
    qn_status status = qn_file_read_whole(qn_allocator_default(), from.path, &text, &from.bytes);
    if (status != QN_OK)
        return status;
    from.text = text;
    status = qn_tokenizer_encode(t, from.text, from.bytes, &tokens);
    if (status == QN_OK && arguments_flag(a, "json"))
        write_json(&from, t, &tokens);
    else if (status == QN_OK && arguments_flag(a, "list"))
        print_list(t, &tokens);
    else if (status == QN_OK)
        print_tokens(&from, t, &tokens);
    qn_release(qn_allocator_default(), text, from.bytes + 1, 1);
    qn_tokens_deinit(&tokens);
    return status;
}

static int run(const arguments *a) {
    qn_tokenizer *t = NULL;
    qn_status status = qn_tokenizer_open(NULL, a->words[0], &t);
    if (status == QN_OK)
        status = encode(a, t);
    qn_tokenizer_destroy(t);
    return status == QN_OK ? EXIT_DONE : report_failure(status);
}

const command command_tokens = {
    .name = "tokens",
    .words = "FILE|FOLDER TEXT",
    .least_words = 2,
    .most_words = 2,
    .summary = "Split a text into the tokens of a language model",
    .description =
        "The model is a GGUF file or a folder with tokenizer.json; TEXT is a file.\n"
        "Special tokens in the text are found; none is added. A byte that is no UTF-8 is a\n"
        "character of its own. docs/language-models.md has the tokenizers that quern knows.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .run = run,
};
