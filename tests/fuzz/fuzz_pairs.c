/* Parallel sentences, a byte 0xff between the two files: every number is one of its vocabulary's,
 * which reads back as it was written. */
#include "data/text/pairs.h"
#include "fuzz/input.h"

static void check_sentence(qn_sentence s, const qn_words *words, int most) {
    if (s.n < 1 || s.n > most)
        abort();
    for (int i = 0; i < s.n; i++)
        if (s.tokens[i] < 0 || s.tokens[i] >= words->n)
            abort();
}

static void check_words(const qn_words *words) {
    qn_arena arena;
    qn_words back;
    qn_arena_init(&arena, qn_allocator_default());
    const char *text = qn_words_print(&arena, words);
    if (!text || qn_words_parse(&arena, text, &back) != QN_OK || back.n != words->n)
        abort();
    for (int32_t i = 0; i < back.n; i++)
        if (strcmp(back.words[i], words->words[i]) != 0)
            abort();
    qn_words_deinit(&back);
    qn_arena_deinit(&arena);
}

static void check(const qn_pairs *pairs) {
    for (int side = 0; side < 2; side++) {
        const qn_words *words = qn_pairs_words(pairs, (qn_side)side);
        check_words(words);
        for (int split = 0; split < 2; split++)
            for (int64_t i = 0; i < qn_pairs_count(pairs, (qn_split)split); i++)
                check_sentence(qn_pairs_get(pairs, (qn_split)split, i, (qn_side)side), words,
                               8 - side);
    }
}

static void try_pairs(const char *path, const qn_pairs_options *options) {
    qn_pairs *pairs;
    if (qn_pairs_open(path, options, &pairs) != QN_OK)
        return;
    if (strcmp(qn_pairs_name(pairs), path) != 0)
        abort();
    check(pairs);
    qn_pairs_close(pairs);
}

static void hear(void *user, int level, const char *text) {
    (void)user;
    (void)level;
    if (!*text)
        abort();
}

/* Once: pairs that are made, with counted words and with those of a checkpoint. */
static void try_synthetic(void) {
    static bool is_done;
    qn_pairs_options options = {.most_words = 16, .length = 8};
    qn_pairs *pairs;
    if (is_done || qn_pairs_open("synthetic", &options, &pairs) != QN_OK)
        return;
    qn_arena arena;
    qn_arena_init(&arena, qn_allocator_default());
    for (int side = 0; side < 2; side++)
        options.words[side] = qn_words_print(&arena, qn_pairs_words(pairs, (qn_side)side));
    qn_pairs_close(pairs);
    try_pairs("synthetic", &options);
    qn_arena_deinit(&arena);
    try_pairs("synthetic", &(qn_pairs_options){.most_words = 1, .length = 8});
    try_pairs("synthetic", &(qn_pairs_options){.most_words = 16, .length = 1});
    try_pairs("pairs:one", &(qn_pairs_options){.most_words = 16, .length = 8});
    is_done = true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[160];
    failing f = input_failing(data, size);
    const qn_allocator allocator = input_allocator(&f);
    const qn_log log = {.write = hear};
    qn_pairs_options options = {.log = &log, .most_words = 16, .length = 8};
    const uint8_t *mark = size > 0 ? memchr(data, 0xff, size) : NULL;
    const size_t first = mark ? (size_t)(mark - data) : size, second = mark ? first + 1 : size;
    input_write("source", data, first);
    input_write("target", data + second, size - second);
    snprintf(path, sizeof path, "pairs:%s/source,%s/target", input_folder(), input_folder());
    try_pairs(path, &options);
    options.allocator = &allocator;
    try_pairs(path, &options);
    input_check_memory(&f);
    try_synthetic();
    return 0;
}
