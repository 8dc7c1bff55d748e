/* A text: every number is one of the vocabulary's, which reads back as it was written, alone and as
 * the vocabulary of the same text. */
#define _GNU_SOURCE /* memfd_create */

#include "data/corpus.h"

#include "memory_file.h"

#include <stdlib.h>
#include <string.h>

static void check(const qn_corpus *c) {
    for (int s = 0; s < 2; s++)
        for (int64_t i = 0; i < c->n[s]; i++)
            if (c->tokens[s][i] >= c->characters.n)
                abort();
    if (c->n[QN_TRAIN] < 1 || c->characters.n < 2 || c->characters.codes[0] != QN_UNKNOWN_CHARACTER)
        abort();
}

static void check_again(const char *path, qn_corpus *c) {
    qn_corpus again;
    qn_corpus_options options = {.characters = qn_characters_print(&c->arena, &c->characters)};
    if (qn_corpus_open(path, &options, &again) != QN_OK || again.n[0] != c->n[0] ||
        memcmp(again.tokens[0], c->tokens[0], (size_t)c->n[0] * sizeof *c->tokens[0]) != 0)
        abort();
    qn_corpus_close(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    int descriptor;
    qn_corpus corpus;
    qn_corpus_options options = {.most_characters = 32};
    qn_file *file = memory_file_open(data, size, &descriptor);
    snprintf(path, sizeof path, "text:/proc/self/fd/%d", descriptor);
    if (file && qn_corpus_open(path, &options, &corpus) == QN_OK) {
        check(&corpus);
        check_again(path, &corpus);
        qn_corpus_close(&corpus);
    }
    qn_file_close(file);
    close(descriptor);
    return 0;
}
