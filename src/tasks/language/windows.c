/* See windows.h. */
#include "tasks/language/windows.h"

#include "base/status.h"

#include <string.h>

void qn_windows_init(qn_windows *w, const qn_allocator *allocator) {
    *w = (qn_windows){.allocator = allocator, .begin_token = -1};
    qn_tokens_init(&w->tokens, allocator);
}

void qn_windows_deinit(qn_windows *w) {
    qn_tokens_deinit(&w->tokens);
    qn_release(w->allocator, w->list, w->capacity, sizeof *w->list);
    qn_release(w->allocator, w->learned, w->learned_capacity, sizeof *w->learned);
}

static qn_status add_windows(qn_windows *w, int64_t first, int64_t end) {
    const int64_t begin = w->begin_token >= 0 ? first : first + 1;
    for (int64_t at = begin; at < end; at += w->length) {
        QN_TRY(qn_grow(w->allocator, &w->list, &w->capacity, w->n + 1, sizeof *w->list));
        const int64_t n = end - at < w->length ? end - at : w->length;
        w->list[w->n++] = (qn_window_of_tokens){at, (int32_t)n, at == begin};
        w->n_predicted += n;
    }
    return QN_OK;
}

/* What a text's tokens stand for, where bytes that the vocabulary lacks are left out of texts. */
static size_t count_bytes(const qn_windows *w, const qn_tokenizer *tokenizer, size_t first,
                          size_t bytes) {
    size_t sum = 0, of_token;
    if (qn_tokenizer_missing(tokenizer) == 0)
        return bytes;
    for (size_t i = first; i < w->tokens.n; i++) {
        (void)qn_tokenizer_token(tokenizer, w->tokens.list[i], &of_token);
        sum += of_token;
    }
    return sum < bytes ? sum : bytes;
}

qn_status qn_windows_add(qn_windows *w, qn_language_model *model, const char *text, size_t bytes) {
    qn_tokenizer *tokenizer;
    size_t unpredicted = 0;
    const size_t first = w->tokens.n;
    QN_TRY(qn_language_model_tokenizer(model, &tokenizer));
    QN_TRY(qn_tokenizer_encode(tokenizer, text, bytes, &w->tokens));
    if (w->begin_token < 0 && w->tokens.n > first)
        (void)qn_tokenizer_token(tokenizer, w->tokens.list[first], &unpredicted);
    const size_t kept = count_bytes(w, tokenizer, first, bytes);
    w->n_lost += (int64_t)(bytes - kept);
    w->n_bytes += (int64_t)(kept > unpredicted ? kept - unpredicted : 0);
    return add_windows(w, (int64_t)first, (int64_t)w->tokens.n);
}

/* Of the tokens [begin, begin + n). */
static int64_t count_learned(qn_windows *w, const qn_tokenizer *tokenizer, int64_t begin,
                             int64_t n) {
    int64_t sum = 0;
    for (int64_t i = begin; i < begin + n; i++) {
        size_t bytes;
        (void)qn_tokenizer_token(tokenizer, w->tokens.list[i], &bytes);
        sum += w->learned[i];
        w->n_bytes += w->learned[i] ? (int64_t)bytes : 0;
    }
    return sum;
}

qn_status qn_windows_add_learned(qn_windows *w, const qn_tokenizer *tokenizer,
                                 const qn_tokens *tokens, const bool *learned) {
    const size_t first = w->tokens.n, n = first + tokens->n;
    QN_TRY(
        qn_grow(w->allocator, &w->tokens.list, &w->tokens.capacity, n + 1, sizeof *w->tokens.list));
    QN_TRY(qn_grow(w->allocator, &w->learned, &w->learned_capacity, n + 1, sizeof *w->learned));
    if (tokens->n > 0) {
        memcpy(w->tokens.list + first, tokens->list, tokens->n * sizeof *tokens->list);
        memcpy(w->learned + first, learned, tokens->n * sizeof *learned);
    }
    w->tokens.n = n;
    for (int64_t at = (int64_t)first + 1; at < (int64_t)n; at += w->length) {
        const int64_t length = (int64_t)n - at < w->length ? (int64_t)n - at : w->length;
        const int64_t n_learned = count_learned(w, tokenizer, at, length);
        if (n_learned == 0)
            continue;
        QN_TRY(qn_grow(w->allocator, &w->list, &w->capacity, w->n + 1, sizeof *w->list));
        w->list[w->n++] = (qn_window_of_tokens){at, (int32_t)length, at == (int64_t)first + 1};
        w->n_predicted += n_learned;
    }
    return QN_OK;
}

void qn_windows_fill(const qn_windows *w, size_t index, int32_t *tokens, int32_t *labels) {
    const qn_window_of_tokens *window = &w->list[index];
    for (int64_t i = 0; i < w->length; i++) {
        const bool is_there = i < window->n;
        const int64_t at = window->begin + i;
        const bool is_begin = i == 0 && w->begin_token >= 0;
        tokens[i] = !is_there ? 0 : is_begin ? w->begin_token : w->tokens.list[at - 1];
        const bool is_learned = is_there && (!w->learned || w->learned[at]);
        labels[i] = is_learned ? w->tokens.list[at] : -1;
    }
}
