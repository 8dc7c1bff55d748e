/* See tokenizer.h: making one, and what it is asked for. */
#include "data/tokens/tokenizer.h"

#include "base/status.h"
#include "data/tokens/build.h"
#include "os/heap.h"
#include "os/os.h"

#include <stdlib.h>
#include <string.h>

void qn_tokens_init(qn_tokens *tokens, const qn_allocator *allocator) {
    *tokens = (qn_tokens){.allocator = qn_allocator_or_default(allocator)};
}

void qn_tokens_deinit(qn_tokens *tokens) {
    qn_release(tokens->allocator, tokens->list, tokens->capacity, sizeof *tokens->list);
    *tokens = (qn_tokens){.allocator = tokens->allocator};
}

qn_status qn_tokenizer_create(const qn_allocator *allocator, qn_tokenizer **tokenizer) {
    qn_tokenizer *t;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *t, &t));
    t->allocator = allocator;
    t->unknown = -1;
    qn_vocabulary_init(&t->vocabulary, allocator);
    qn_merges_init(&t->merges, allocator, &t->vocabulary);
    qn_status status = qn_allocate(allocator, QN_CLASSES_BYTES, 1, &t->classes);
    if (status == QN_OK)
        status = qn_allocate(allocator, QN_CACHE_WORDS, sizeof *t->cache, &t->cache);
    if (status != QN_OK) {
        qn_tokenizer_destroy(t);
        return status;
    }
    qn_classes_fill(t->classes);
    memset(t->byte_tokens, 0xff, sizeof t->byte_tokens);
    *tokenizer = t;
    return QN_OK;
}

void qn_tokenizer_destroy(qn_tokenizer *t) {
    if (!t)
        return;
    qn_merges_deinit(&t->merges);
    qn_vocabulary_deinit(&t->vocabulary);
    qn_release(t->allocator, t->classes, QN_CLASSES_BYTES, 1);
    qn_release(t->allocator, t->cache, QN_CACHE_WORDS, sizeof *t->cache);
    qn_release(t->allocator, t->added, t->added_capacity, sizeof *t->added);
    qn_release(t->allocator, t->changed, t->changed_capacity, 1);
    qn_release(t->allocator, t->symbols, t->symbol_capacity, sizeof *t->symbols);
    qn_release(t->allocator, t, 1, sizeof *t);
}

/* ---- what byte-level vocabularies write bytes as ---- */

/* Bytes that are printed as themselves; the others are characters 256 and on, in order. */
static bool is_itself(int byte) {
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

/* -1: the character stands for no byte. */
static int byte_of_character(int32_t c) {
    if (c < 256)
        return is_itself(c) ? c : -1;
    int next = 256;
    for (int byte = 0; byte < 256; byte++) {
        if (!is_itself(byte) && next++ == c)
            return byte;
    }
    return -1;
}

int64_t qn_bytes_of_characters(const char *text, size_t bytes, char *to) {
    const uint8_t *at = (const uint8_t *)text, *end = at + bytes;
    int64_t n = 0;
    while (at < end) {
        int32_t c;
        const int n_character = qn_classes_character(at, end, &c);
        const int byte = n_character > 0 ? byte_of_character(c) : -1;
        if (byte < 0)
            return -1;
        to[n++] = (char)byte;
        at += n_character;
    }
    return n;
}

int qn_byte_of_token(const char *text, size_t bytes) {
    int value = 0;
    if (bytes != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>')
        return -1;
    for (int i = 3; i < 5; i++) {
        const char c = text[i];
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                                 : -1;
        if (digit < 0)
            return -1;
        value = 16 * value + digit;
    }
    return value;
}

/* ---- finishing ---- */

qn_status qn_tokenizer_add(qn_tokenizer *t, qn_added added) {
    QN_TRY(qn_grow(t->allocator, &t->added, &t->added_capacity, t->n_added + 1, sizeof added));
    t->added[t->n_added++] = added;
    return QN_OK;
}

/* qsort has no context: sorting by text needs the tokens' texts beside the numbers. */
typedef struct sorted {
    qn_added added;
    const qn_token *token;
} sorted;

/* By the first byte; longer ones first. */
static int compare_added(const void *left, const void *right) {
    const qn_token *a = ((const sorted *)left)->token, *b = ((const sorted *)right)->token;
    const uint8_t first_a = (uint8_t)a->text[0], first_b = (uint8_t)b->text[0];
    if (first_a != first_b)
        return first_a < first_b ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return memcmp(a->text, b->text, a->bytes);
}

static void index_added(qn_tokenizer *t) {
    uint32_t next = 0;
    for (int byte = 0; byte <= 256; byte++) {
        while (next < t->n_added && byte > 0 &&
               (uint8_t)t->vocabulary.list[t->added[next].token].text[0] < byte)
            next++;
        t->added_begin[byte] = next;
    }
}

static qn_status sort_added(qn_tokenizer *t) {
    sorted *list;
    size_t n = 0;
    QN_TRY(qn_allocate(t->allocator, t->n_added, sizeof *list, &list));
    for (size_t i = 0; i < t->n_added; i++) {
        const qn_token *token = &t->vocabulary.list[t->added[i].token];
        if (token->text && token->bytes > 0)
            list[n++] = (sorted){t->added[i], token};
    }
    if (n > 0)
        qsort(list, n, sizeof *list, compare_added);
    for (size_t i = 0; i < n; i++)
        t->added[i] = list[i].added;
    qn_release(t->allocator, list, t->n_added, sizeof *list);
    t->n_added = n;
    index_added(t);
    return QN_OK;
}

static void find_bytes(qn_tokenizer *t) {
    for (int byte = 0; t->is_byte_level && byte < 256; byte++) {
        const char text = (char)byte;
        t->byte_tokens[byte] = qn_vocabulary_find(&t->vocabulary, &text, 1);
    }
}

qn_status qn_tokenizer_finish(qn_tokenizer *t, const bool *is_split) {
    if (t->vocabulary.n == 0)
        return qn_fail(QN_ERROR_FORMAT, "its vocabulary is empty");
    QN_TRY(qn_vocabulary_finish(&t->vocabulary, is_split));
    find_bytes(t);
    return sort_added(t);
}

qn_status qn_tokenizer_reserve(qn_tokenizer *t, size_t bytes) {
    return qn_grow(t->allocator, &t->changed, &t->changed_capacity, bytes, 1);
}

qn_status qn_tokenizer_merge(qn_tokenizer *t, const char *text, size_t left, size_t bytes) {
    const qn_vocabulary *v = &t->vocabulary;
    const int32_t a = qn_vocabulary_find(v, text, left);
    const int32_t b = qn_vocabulary_find(v, text + left, bytes - left);
    const int32_t token = qn_vocabulary_find(v, text, bytes);
    if (a < 0 || b < 0 || token < 0)
        return qn_fail(QN_ERROR_FORMAT,
                       "merge %zu is of texts that are no tokens of the vocabulary, or become none",
                       t->merges.n + 1);
    qn_merges_add(&t->merges, a, b, token);
    return QN_OK;
}

static bool has_gap(const qn_token *token) {
    for (uint32_t i = 1; i + QN_BLANK_BYTES <= token->bytes; i++) {
        if (memcmp(token->text + i, QN_BLANK_MARK, QN_BLANK_BYTES) == 0 &&
            (i < QN_BLANK_BYTES ||
             memcmp(token->text + i - QN_BLANK_BYTES, QN_BLANK_MARK, QN_BLANK_BYTES) != 0))
            return true;
    }
    return false;
}

void qn_tokenizer_settle(qn_tokenizer *t) {
    t->cuts_at_gaps = !t->is_byte_level;
    for (size_t i = 0; i < t->vocabulary.n && t->cuts_at_gaps; i++)
        t->cuts_at_gaps = !has_gap(&t->vocabulary.list[i]);
}

/* ---- asking ---- */

qn_status qn_tokenizer_open(const qn_allocator *allocator, const char *path,
                            qn_tokenizer **tokenizer) {
    qn_pretrained *files;
    if (qn_path_is_folder(path))
        return qn_tokenizer_of_json(allocator, path, "tokenizer.json", tokenizer);
    QN_TRY(qn_pretrained_open(allocator, path, &files));
    const qn_status status = qn_tokenizer_of_gguf(allocator, &files->gguf, path, tokenizer);
    qn_pretrained_close(files);
    return status;
}

const char *qn_tokenizer_kind(const qn_tokenizer *t) {
    return t->is_byte_level ? "byte-level BPE" : "SentencePiece BPE";
}

const char *qn_tokenizer_split(const qn_tokenizer *t) {
    return t->split ? t->split->name : "";
}

int qn_tokenizer_missing(const qn_tokenizer *t) {
    int n = 0;
    for (int byte = 0; byte < 256 && t->unknown < 0; byte++)
        n += t->byte_tokens[byte] < 0;
    return n;
}

int32_t qn_tokenizer_count(const qn_tokenizer *t) {
    return (int32_t)t->vocabulary.n;
}

const char *qn_tokenizer_token(const qn_tokenizer *t, int32_t token, size_t *bytes) {
    const qn_token *found = &t->vocabulary.list[token];
    *bytes = found->text ? found->bytes : 0;
    return found->text ? found->text : "";
}

bool qn_tokenizer_is_added(const qn_tokenizer *t, int32_t token) {
    for (size_t i = 0; i < t->n_added; i++) {
        if (t->added[i].token == token)
            return true;
    }
    return false;
}
