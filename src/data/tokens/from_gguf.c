/* Tokenizers of GGUF files: "tokenizer.ggml.model" is "gpt2" (byte-level, with merges) or "llama"
 * (SentencePiece, with scores). */
#include "base/status.h"
#include "data/tokens/build.h"

#include <stdlib.h>
#include <string.h>

/* Kinds of tokens in the file. */
enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, BYTE = 6 };

typedef struct builder {
    const qn_gguf *file;
    qn_tokenizer *t;
    const qn_gguf_value *tokens, *types, *scores, *merges;
    bool *is_split; /* (tokens->n) */
} builder;

static const qn_gguf_value *find_list(const builder *b, const char *key, bool is_text) {
    const qn_gguf_value *value = qn_gguf_find(b->file, key);
    return value && value->is_list && (value->kind == QN_GGUF_TEXT) == is_text ? value : NULL;
}

/* A copy of a short text; "": there is none. */
static void get_text(const qn_gguf *file, const char *key, char *to, size_t bytes) {
    const qn_gguf_value *value = qn_gguf_find(file, key);
    size_t n = 0;
    if (value && !value->is_list && value->kind == QN_GGUF_TEXT) {
        const uint8_t *at = value->data;
        const char *text = qn_gguf_next_text(&at, &n);
        n = n < bytes ? n : bytes - 1;
        memcpy(to, text, n);
    }
    to[n] = 0;
}

static bool get_flag(const qn_gguf *file, const char *key, bool fallback) {
    const qn_gguf_value *value = qn_gguf_find(file, key);
    double number;
    return value && qn_gguf_get_number(value, 0, &number) ? number != 0 : fallback;
}

static int type_of(const builder *b, uint64_t token) {
    double type;
    return b->types && qn_gguf_get_number(b->types, token, &type) ? (int)type : NORMAL;
}

/* ---- tokens ---- */

/* A byte-level token's bytes; a special one's text may hold characters that stand for no byte. */
static qn_status set_text(builder *b, uint64_t token, const char *text, size_t bytes) {
    qn_vocabulary *v = &b->t->vocabulary;
    char *raw;
    if (!b->t->is_byte_level)
        return qn_vocabulary_set(v, (int64_t)token, text, bytes);
    QN_TRY(qn_allocate(b->t->allocator, bytes + 1, 1, &raw));
    const int64_t n = b->is_split[token] ? qn_bytes_of_characters(text, bytes, raw) : -1;
    const qn_status status =
        qn_vocabulary_set(v, (int64_t)token, n < 0 ? text : raw, n < 0 ? bytes : (size_t)n);
    qn_release(b->t->allocator, raw, bytes + 1, 1);
    return status;
}

/* Bytes, of which each has one token, and the unknown token. */
static qn_status note_token(builder *b, uint64_t token, int type, const char *text, size_t bytes) {
    if (type == CONTROL || type == USER_DEFINED)
        return qn_tokenizer_add(b->t, (qn_added){.token = (int32_t)token});
    if (type == UNKNOWN)
        b->t->unknown = (int32_t)token;
    const int byte = type == BYTE ? qn_byte_of_token(text, bytes) : -1;
    if (byte >= 0)
        b->t->byte_tokens[byte] = (int32_t)token;
    return QN_OK;
}

static qn_status read_tokens(builder *b) {
    const uint8_t *at = b->tokens->data;
    if (b->tokens->n > QN_MOST_TOKENS)
        return qn_fail(QN_ERROR_FORMAT, "more than %d tokens", QN_MOST_TOKENS);
    for (uint64_t i = 0; i < b->tokens->n; i++) {
        size_t bytes;
        const char *text = qn_gguf_next_text(&at, &bytes);
        const int type = type_of(b, i);
        b->is_split[i] = type == NORMAL || (type == USER_DEFINED && !b->t->is_byte_level);
        QN_TRY(set_text(b, i, text, bytes));
        QN_TRY(note_token(b, i, type, text, bytes));
    }
    return qn_tokenizer_finish(b->t, b->is_split);
}

/* ---- merges ---- */

/* "left right", in characters that stand for bytes: a blank is none of them. */
static qn_status read_merge(builder *b, const char *text, size_t bytes) {
    const char *blank = bytes > 1 ? memchr(text + 1, ' ', bytes - 1) : NULL;
    if (!blank)
        return qn_fail(QN_ERROR_FORMAT, "merge %zu is not two texts with a blank between",
                       b->t->merges.n + 1);
    QN_TRY(qn_tokenizer_reserve(b->t, bytes));
    char *raw = b->t->changed;
    const size_t left = (size_t)(blank - text);
    const int64_t n = qn_bytes_of_characters(text, left, raw);
    const int64_t more = n < 0 ? -1 : qn_bytes_of_characters(blank + 1, bytes - left - 1, raw + n);
    if (more < 0)
        return qn_fail(QN_ERROR_FORMAT, "merge %zu has characters that stand for no byte",
                       b->t->merges.n + 1);
    return qn_tokenizer_merge(b->t, raw, (size_t)n, (size_t)(n + more));
}

static qn_status read_merges(builder *b) {
    if (!b->merges || b->merges->n > QN_MOST_TOKENS)
        return qn_fail(QN_ERROR_FORMAT, "tokenizer.ggml.merges is missing or too long");
    const uint8_t *at = b->merges->data;
    QN_TRY(qn_merges_reserve(&b->t->merges, (size_t)b->merges->n));
    for (uint64_t i = 0; i < b->merges->n; i++) {
        size_t bytes;
        const char *text = qn_gguf_next_text(&at, &bytes);
        QN_TRY(read_merge(b, text, bytes));
    }
    return QN_OK;
}

static qn_status read_scores(builder *b) {
    const size_t n = b->t->vocabulary.n;
    float *scores;
    if (!b->scores || b->scores->n != n)
        return qn_fail(QN_ERROR_FORMAT, "tokenizer.ggml.scores has not one number for each token");
    QN_TRY(qn_allocate(b->t->allocator, n, sizeof *scores, &scores));
    for (size_t i = 0; i < n; i++) {
        double score = 0;
        (void)qn_gguf_get_number(b->scores, i, &score);
        scores[i] = score == score ? (float)score : 0;
    }
    const qn_status status = qn_merges_rank(&b->t->merges, scores);
    qn_release(b->t->allocator, scores, n, sizeof *scores);
    return status;
}

/* ---- the whole ---- */

static qn_status choose_split(builder *b) {
    char pre[64];
    get_text(b->file, "tokenizer.ggml.pre", pre, sizeof pre);
    b->t->split = qn_split_of_gguf(pre);
    if (!b->t->split)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "tokenizer.ggml.pre is \"%s\"; quern splits text as gpt-2, smollm, "
                       "llama-bpe and qwen2 do",
                       pre);
    b->t->composes = b->t->split->composes;
    b->t->whole_words = b->t->split->whole_words;
    return QN_OK;
}

static qn_status choose_kind(builder *b) {
    char model[64];
    get_text(b->file, "tokenizer.ggml.model", model, sizeof model);
    b->t->is_byte_level = strcmp(model, "gpt2") == 0;
    if (b->t->is_byte_level)
        return choose_split(b);
    if (strcmp(model, "llama") != 0)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "tokenizer.ggml.model is \"%s\"; quern has gpt2 (byte-level) and llama "
                       "(SentencePiece)",
                       model);
    b->t->fuses = true;
    b->t->prefix = get_flag(b->file, "tokenizer.ggml.add_space_prefix", true) ? QN_PREFIX_ALWAYS
                                                                              : QN_PREFIX_NONE;
    return QN_OK;
}

static qn_status build(builder *b) {
    b->tokens = find_list(b, "tokenizer.ggml.tokens", true);
    b->types = find_list(b, "tokenizer.ggml.token_type", false);
    b->scores = find_list(b, "tokenizer.ggml.scores", false);
    b->merges = find_list(b, "tokenizer.ggml.merges", true);
    if (!b->tokens)
        return qn_fail(QN_ERROR_FORMAT, "it has no tokenizer.ggml.tokens");
    QN_TRY(choose_kind(b));
    QN_TRY(
        qn_allocate(b->t->allocator, (size_t)b->tokens->n + 1, sizeof *b->is_split, &b->is_split));
    QN_TRY(read_tokens(b));
    QN_TRY(b->t->is_byte_level ? read_merges(b) : read_scores(b));
    qn_tokenizer_settle(b->t);
    return QN_OK;
}

qn_status qn_tokenizer_of_gguf(const qn_allocator *allocator, const qn_gguf *file,
                               const char *place, qn_tokenizer **tokenizer) {
    builder b = {.file = file};
    QN_TRY(qn_tokenizer_create(allocator, &b.t));
    const qn_status status = build(&b);
    if (b.is_split)
        qn_release(b.t->allocator, b.is_split, (size_t)b.tokens->n + 1, sizeof *b.is_split);
    if (status == QN_OK) {
        *tokenizer = b.t;
        return QN_OK;
    }
    qn_tokenizer_destroy(b.t);
    return qn_fail_within(status, "%s", place);
}
