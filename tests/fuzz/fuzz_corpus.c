/* A text: every number is one of the vocabulary's, which reads back as it was written, alone and as
 * the vocabulary of the same text; of characters and of words. As a file, and as a folder of files
 * that a byte 0x1e parts, one of them there twice. */
#include "data/text/corpus.h"
#include "fuzz/input.h"

enum { N_FILES = 3, PART = 0x1e };

static void check(const qn_corpus *c) {
    const int n_tokens = c->words.n > 0 ? c->words.n : c->characters.n;
    for (int s = 0; s < QN_SPLITS; s++)
        for (int64_t i = 0; i < c->n[s]; i++)
            if (c->tokens[s][i] >= n_tokens)
                abort();
    if (c->words.n > 0)
        return;
    if (c->n[QN_TRAIN] < 1 || c->characters.n < 2 || c->characters.codes[0] != QN_UNKNOWN_CHARACTER)
        abort();
}

static void check_again(const char *path, qn_corpus *c) {
    qn_corpus again;
    const bool has_words = c->words.n > 0;
    qn_corpus_options options = {.has_words = has_words};
    if (has_words)
        options.words = qn_words_print(&c->arena, &c->words);
    else
        options.characters = qn_characters_print(&c->arena, &c->characters);
    if (qn_corpus_open(path, &options, &again) != QN_OK || again.n[0] != c->n[0] ||
        memcmp(again.tokens[0], c->tokens[0], (size_t)c->n[0] * sizeof *c->tokens[0]) != 0)
        abort();
    qn_corpus_close(&again);
}

static void check_tokens(const char *path, const qn_allocator *allocator, bool has_words,
                         int64_t n_first) {
    qn_corpus corpus;
    qn_corpus_options options = {
        .allocator = allocator, .most_tokens = 32, .has_words = has_words, .n_first = n_first};
    if (qn_corpus_open(path, &options, &corpus) != QN_OK)
        return;
    check(&corpus);
    if (!allocator && n_first == 0)
        check_again(path, &corpus);
    qn_corpus_close(&corpus);
}

static void check_path(const char *path, const qn_allocator *allocator) {
    check_tokens(path, allocator, false, 0);
    check_tokens(path, allocator, true, 0);
    check_tokens(path, allocator, true, 6);
}

static void write_folder(const uint8_t *data, size_t size) {
    const uint8_t *at = data, *end = data + size;
    char folder[128], name[160], link[160];
    snprintf(folder, sizeof folder, "%s/texts", input_folder());
    if (qn_folder_create(folder) != QN_OK)
        abort();
    for (int i = 0; i < N_FILES; i++) {
        const uint8_t *mark = at < end ? memchr(at, PART, (size_t)(end - at)) : NULL;
        snprintf(name, sizeof name, "texts/%d.txt", i);
        input_write(name, at, (size_t)((mark ? mark : end) - at));
        at = mark ? mark + 1 : end;
    }
    snprintf(name, sizeof name, "%s/0.txt", folder);
    snprintf(link, sizeof link, "%s/3.txt", folder);
    (void)(symlink(name, link) + 0); /* there already, but for the first input */
}

static void check_others(void) {
    static const char *const others[] = {"synthetic", "csv:a", "text:"};
    static bool is_done;
    for (int i = 0; i < 3 && !is_done; i++)
        check_path(others[i], NULL);
    is_done = true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char file[128], folder[128];
    failing f = input_failing(data, size);
    const qn_allocator allocator = input_allocator(&f);
    snprintf(file, sizeof file, "text:%s/text", input_folder());
    snprintf(folder, sizeof folder, "text:%s/texts", input_folder());
    input_write("text", data, size);
    write_folder(data, size);
    check_path(file, NULL);
    check_path(folder, NULL);
    check_path(folder, &allocator);
    input_check_memory(&f);
    check_others();
    return 0;
}
