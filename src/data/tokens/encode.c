/* See tokenizer.h: text into tokens. Text between added tokens is normalised and split into words.
 * The tokens of a word are remembered, since most words of a text occur again and again. */
#include "base/status.h"
#include "data/tokens/build.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* A symbol that is merged with no other: the token of a byte or the unknown one. */
static int32_t fixed(int32_t token) {
    return -3 - token;
}

static int32_t unfixed(int32_t symbol) {
    return symbol <= -3 ? -3 - symbol : symbol;
}

static qn_status put_tokens(qn_tokens *to, const int32_t *tokens, size_t n) {
    if (n == 0)
        return QN_OK;
    QN_TRY(qn_grow(to->allocator, &to->list, &to->capacity, to->n + n, sizeof *to->list));
    memcpy(to->list + to->n, tokens, n * sizeof *tokens);
    to->n += n;
    return QN_OK;
}

/* ---- a word ---- */

/* What a character that is no token becomes. */
static size_t put_unknown(const qn_tokenizer *t, const uint8_t *at, int bytes, size_t n) {
    bool has_bytes = true;
    for (int i = 0; i < bytes; i++)
        has_bytes &= t->byte_tokens[at[i]] >= 0;
    for (int i = 0; has_bytes && i < bytes; i++)
        t->symbols[n++] = fixed(t->byte_tokens[at[i]]);
    if (has_bytes || t->unknown < 0)
        return n;
    if (!t->fuses || n == 0 || t->symbols[n - 1] != fixed(t->unknown))
        t->symbols[n++] = fixed(t->unknown);
    return n;
}

static size_t put_bytes(const qn_tokenizer *t, const uint8_t *word, size_t bytes) {
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++) {
        const int32_t token = t->byte_tokens[word[i]];
        if (token >= 0)
            t->symbols[n++] = token;
        else
            n = put_unknown(t, word + i, 1, n);
    }
    return n;
}

static size_t put_characters(const qn_tokenizer *t, const uint8_t *at, const uint8_t *end) {
    size_t n = 0;
    for (int bytes; at < end; at += bytes) {
        int32_t c;
        bytes = qn_classes_character(at, end, &c);
        const int32_t token =
            bytes > 0 ? qn_vocabulary_find(&t->vocabulary, (const char *)at, (size_t)bytes) : -1;
        bytes = bytes > 0 ? bytes : 1;
        if (token >= 0)
            t->symbols[n++] = token;
        else
            n = put_unknown(t, at, bytes, n);
    }
    return n;
}

/* The word's tokens, in the tokenizer's symbols. */
static qn_status merge_word(qn_tokenizer *t, const uint8_t *word, size_t bytes, size_t *n) {
    QN_TRY(qn_grow(t->allocator, &t->symbols, &t->symbol_capacity, bytes, sizeof *t->symbols));
    const int32_t whole =
        t->whole_words ? qn_vocabulary_find(&t->vocabulary, (const char *)word, bytes) : -1;
    if (whole >= 0) {
        t->symbols[0] = whole;
        *n = 1;
        return QN_OK;
    }
    *n = t->is_byte_level ? put_bytes(t, word, bytes) : put_characters(t, word, word + bytes);
    QN_TRY(qn_merges_run(&t->merges, t->symbols, n));
    for (size_t i = 0; i < *n; i++)
        t->symbols[i] = unfixed(t->symbols[i]);
    return QN_OK;
}

static void remember(const qn_tokenizer *t, qn_cached *slot, const uint8_t *word, size_t bytes,
                     size_t n) {
    if (bytes > QN_CACHED_BYTES || n > QN_CACHED_TOKENS)
        return;
    memcpy(slot->text, word, bytes);
    memcpy(slot->tokens, t->symbols, n * sizeof *t->symbols);
    slot->bytes = (uint8_t)bytes;
    slot->n = (uint8_t)n;
}

static qn_status encode_word(qn_tokenizer *t, const uint8_t *word, size_t bytes, qn_tokens *to) {
    qn_cached *slot = &t->cache[qn_tokens_hash((const char *)word, bytes) & (QN_CACHE_WORDS - 1)];
    size_t n;
    if (slot->bytes == bytes && memcmp(slot->text, word, bytes) == 0)
        return put_tokens(to, slot->tokens, slot->n);
    QN_TRY(merge_word(t, word, bytes, &n));
    remember(t, slot, word, bytes, n);
    return put_tokens(to, t->symbols, n);
}

/* Up to the next blank that follows another character. */
static size_t find_gap(const uint8_t *text, size_t bytes) {
    for (size_t i = 1; i + QN_BLANK_BYTES <= bytes; i++) {
        if (text[i] == 0xe2 && memcmp(text + i, QN_BLANK_MARK, QN_BLANK_BYTES) == 0 &&
            (i < QN_BLANK_BYTES ||
             memcmp(text + i - QN_BLANK_BYTES, QN_BLANK_MARK, QN_BLANK_BYTES) != 0))
            return i;
    }
    return bytes;
}

static qn_status encode_words(qn_tokenizer *t, const uint8_t *text, size_t bytes, qn_tokens *to) {
    for (size_t at = 0, n; at < bytes; at += n) {
        if (t->split)
            n = qn_split_next(t->split, t->classes, text + at, bytes - at);
        else
            n = t->cuts_at_gaps ? find_gap(text + at, bytes - at) : bytes - at;
        QN_TRY(encode_word(t, text + at, n, to));
    }
    return QN_OK;
}

/* ---- normalising ---- */

/* Puts n bytes behind the first *used of changed. */
static qn_status put_changed(qn_tokenizer *t, size_t *used, const void *from, size_t n) {
    QN_TRY(qn_tokenizer_reserve(t, *used + n));
    memcpy(t->changed + *used, from, n);
    *used += n;
    return QN_OK;
}

/* Characters below U+0300 are in NFC as they are. */
static bool is_composed(const uint8_t *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] >= 0xcc)
            return false;
    }
    return true;
}

/* Bytes up to the end of the line that are UTF-8; 0: the first is not. */
static size_t find_valid(const uint8_t *text, size_t bytes) {
    size_t n = 0;
    while (n < bytes) {
        int32_t c;
        const int n_character = qn_classes_character(text + n, text + bytes, &c);
        n += (size_t)n_character;
        if (n_character == 0 || c == '\n')
            break;
    }
    return n;
}

static qn_status put_composed(qn_tokenizer *t, size_t *used, const uint8_t *text, size_t bytes) {
    utf8proc_uint8_t *composed = NULL;
    if (is_composed(text, bytes))
        return put_changed(t, used, text, bytes);
    const utf8proc_ssize_t n =
        utf8proc_map(text, (utf8proc_ssize_t)bytes, &composed, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    if (n < 0)
        return n == UTF8PROC_ERROR_NOMEM
                   ? qn_fail_memory(4 * bytes)
                   : qn_fail(QN_ERROR_UNSUPPORTED, "a text cannot be brought to NFC: %s",
                             utf8proc_errmsg(n));
    const qn_status status = put_changed(t, used, composed, (size_t)n);
    free(composed);
    return status;
}

static qn_status compose(qn_tokenizer *t, const uint8_t *text, size_t bytes, size_t *used) {
    *used = 0;
    for (size_t at = 0, n; at < bytes; at += n) {
        n = find_valid(text + at, bytes - at);
        if (n > 0) {
            QN_TRY(put_composed(t, used, text + at, n));
        } else {
            n = 1;
            QN_TRY(put_changed(t, used, text + at, n));
        }
    }
    return QN_OK;
}

static bool is_prefixed(const qn_tokenizer *t, const uint8_t *text, size_t bytes, bool is_first) {
    if (t->prefix == QN_PREFIX_NONE || (t->prefix == QN_PREFIX_FIRST && !is_first))
        return false;
    const bool has_blank = text[0] == ' ' || (bytes >= QN_BLANK_BYTES &&
                                              memcmp(text, QN_BLANK_MARK, QN_BLANK_BYTES) == 0);
    return t->prefix == QN_PREFIX_ALWAYS || !has_blank;
}

/* Blanks as SentencePiece writes them. */
static qn_status mark_blanks(qn_tokenizer *t, const uint8_t *text, size_t bytes, bool is_first,
                             size_t *used) {
    *used = 0;
    if (is_prefixed(t, text, bytes, is_first))
        QN_TRY(put_changed(t, used, QN_BLANK_MARK, QN_BLANK_BYTES));
    for (size_t at = 0, n; at < bytes; at += n) {
        const uint8_t *blank = memchr(text + at, ' ', bytes - at);
        n = blank == text + at ? 1 : blank ? (size_t)(blank - text) - at : bytes - at;
        if (blank == text + at)
            QN_TRY(put_changed(t, used, QN_BLANK_MARK, QN_BLANK_BYTES));
        else
            QN_TRY(put_changed(t, used, text + at, n));
    }
    return QN_OK;
}

/* A text without added tokens. */
static qn_status encode_text(qn_tokenizer *t, const uint8_t *text, size_t bytes, bool is_first,
                             qn_tokens *to) {
    size_t used;
    if (bytes == 0)
        return QN_OK;
    if (!t->is_byte_level)
        QN_TRY(mark_blanks(t, text, bytes, is_first, &used));
    else if (t->composes && !is_composed(text, bytes))
        QN_TRY(compose(t, text, bytes, &used));
    else
        return encode_words(t, text, bytes, to);
    return encode_words(t, (const uint8_t *)t->changed, used, to);
}

/* ---- added tokens ---- */

static const qn_added *match_added(const qn_tokenizer *t, const uint8_t *at, size_t left) {
    const uint32_t end = t->added_begin[*at + 1];
    for (uint32_t i = t->added_begin[*at]; i < end; i++) {
        const qn_token *token = &t->vocabulary.list[t->added[i].token];
        if (token->bytes <= left && memcmp(token->text, at, token->bytes) == 0)
            return &t->added[i];
    }
    return NULL;
}

static bool is_space_at(const qn_tokenizer *t, const uint8_t *at, const uint8_t *end, int *bytes) {
    return qn_classes_get(t->classes, at, end, bytes) >= QN_CLASS_SPACE;
}

/* The text from begin to end without the white space at its end. */
static const uint8_t *trim(const qn_tokenizer *t, const uint8_t *begin, const uint8_t *end) {
    while (end > begin) {
        const uint8_t *last = end - 1;
        int bytes;
        while (last > begin && end - last < 4 && (*last & 0xc0) == 0x80)
            last--;
        if (!is_space_at(t, last, end, &bytes) || last + bytes != end)
            break;
        end = last;
    }
    return end;
}

static qn_status encode(qn_tokenizer *t, const uint8_t *text, const uint8_t *end, qn_tokens *to) {
    const uint8_t *begin = text, *at = text;
    while (at < end) {
        const qn_added *added = match_added(t, at, (size_t)(end - at));
        if (!added) {
            at++;
            continue;
        }
        const uint8_t *stop = added->takes_left ? trim(t, begin, at) : at;
        QN_TRY(encode_text(t, begin, (size_t)(stop - begin), begin == text, to));
        QN_TRY(put_tokens(to, &added->token, 1));
        at += t->vocabulary.list[added->token].bytes;
        for (int bytes; added->takes_right && at < end && is_space_at(t, at, end, &bytes);)
            at += bytes;
        begin = at;
    }
    return encode_text(t, begin, (size_t)(end - begin), begin == text, to);
}

qn_status qn_tokenizer_encode(qn_tokenizer *t, const char *text, size_t bytes, qn_tokens *tokens) {
    const size_t before = tokens->n;
    const uint8_t *begin = (const uint8_t *)text;
    const qn_status status = encode(t, begin, begin + bytes, tokens);
    if (status != QN_OK)
        tokens->n = before;
    return status;
}
