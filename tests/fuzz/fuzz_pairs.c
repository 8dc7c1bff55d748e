/* Parallel sentences, a byte 0xff between the two files: every number is one of its vocabulary's,
 * which reads back as it was written. */
#define _GNU_SOURCE /* memfd_create */

#include "data/pairs.h"

#include "memory_file.h"

#include <stdlib.h>
#include <string.h>

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[96];
    int descriptors[2];
    qn_pairs *pairs;
    const qn_pairs_options options = {.most_words = 16, .length = 8};
    const uint8_t *mark = size > 0 ? memchr(data, 0xff, size) : NULL;
    const size_t first = mark ? (size_t)(mark - data) : size, second = mark ? first + 1 : size;
    qn_file *source = memory_file_open(data, first, &descriptors[0]);
    qn_file *target = memory_file_open(data + second, size - second, &descriptors[1]);
    snprintf(path, sizeof path, "pairs:/proc/self/fd/%d,/proc/self/fd/%d", descriptors[0],
             descriptors[1]);
    if (source && target && qn_pairs_open(path, &options, &pairs) == QN_OK) {
        check(pairs);
        qn_pairs_close(pairs);
    }
    qn_file_close(source);
    qn_file_close(target);
    close(descriptors[0]);
    close(descriptors[1]);
    return 0;
}
