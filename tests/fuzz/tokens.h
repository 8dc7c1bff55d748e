/* What the fuzz targets of tokenizers check: numbers are the vocabulary's, and, where nothing is
 * changed or lost, the tokens' texts are the text. */
#ifndef QN_TESTS_FUZZ_TOKENS_H
#define QN_TESTS_FUZZ_TOKENS_H

#include "data/tokens/build.h"
#include "fuzz/input.h"

static inline void tokens_check(qn_tokenizer *t, const char *text, size_t size) {
    qn_tokens tokens, again;
    size_t at = 0, bytes;
    bool is_equal = true;
    if (!*qn_tokenizer_kind(t) || (t->split && !*qn_tokenizer_split(t)))
        abort();
    qn_tokens_init(&tokens, NULL);
    qn_tokens_init(&again, NULL);
    if (qn_tokenizer_encode(t, text, size, &tokens) != QN_OK ||
        qn_tokenizer_encode(t, text, size, &again) != QN_OK || tokens.n != again.n ||
        (tokens.n > 0 && memcmp(tokens.list, again.list, tokens.n * sizeof *tokens.list) != 0))
        abort();
    for (size_t i = 0; i < tokens.n; i++) {
        if (tokens.list[i] < 0 || tokens.list[i] >= qn_tokenizer_count(t))
            abort();
        const char *token = qn_tokenizer_token(t, tokens.list[i], &bytes);
        is_equal = is_equal && bytes <= size - at && memcmp(token, text + at, bytes) == 0;
        at += is_equal ? bytes : 0;
    }
    const bool is_lossless = t->is_byte_level && !t->composes && t->n_added == 0 &&
                             t->unknown < 0 && qn_tokenizer_missing(t) == 0;
    if (is_lossless && (!is_equal || at != size))
        abort();
    qn_tokens_deinit(&tokens);
    qn_tokens_deinit(&again);
}

#endif
