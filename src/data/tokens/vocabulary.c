/* See vocabulary.h. */
#include "data/tokens/vocabulary.h"

#include "base/status.h"
#include "os/heap.h"

#include <string.h>

uint64_t qn_tokens_hash(const char *text, size_t bytes) {
    uint64_t hash = bytes * UINT64_C(0x9e3779b97f4a7c15), word;
    for (; bytes >= 8; text += 8, bytes -= 8) {
        memcpy(&word, text, 8);
        hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
        hash ^= hash >> 32;
    }
    word = 0;
    memcpy(&word, text, bytes);
    hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
    return hash ^ hash >> 32;
}

void qn_vocabulary_init(qn_vocabulary *v, const qn_allocator *allocator) {
    *v = (qn_vocabulary){.n = 0};
    qn_arena_init(&v->texts, qn_allocator_or_default(allocator));
}

void qn_vocabulary_deinit(qn_vocabulary *v) {
    qn_release(v->texts.allocator, v->list, v->capacity, sizeof *v->list);
    qn_release(v->texts.allocator, v->table, v->n_table, sizeof *v->table);
    qn_arena_deinit(&v->texts);
}

qn_status qn_vocabulary_set(qn_vocabulary *v, int64_t number, const char *text, size_t bytes) {
    if (number < 0 || number >= QN_MOST_TOKENS)
        return qn_fail(QN_ERROR_FORMAT, "the number of a token is not within 0 to %d",
                       QN_MOST_TOKENS - 1);
    if (bytes > UINT32_MAX / 2)
        return qn_fail(QN_ERROR_FORMAT, "token %lld is too long", (long long)number);
    QN_TRY(
        qn_grow(v->texts.allocator, &v->list, &v->capacity, (size_t)number + 1, sizeof *v->list));
    qn_token *token = &v->list[number];
    if (token->text && (token->bytes != bytes || memcmp(token->text, text, bytes) != 0))
        return qn_fail(QN_ERROR_FORMAT, "token %lld has two texts", (long long)number);
    char *copy = qn_arena_allocate(&v->texts, bytes + 1, 1);
    if (!copy)
        return QN_ERROR_MEMORY;
    memcpy(copy, text, bytes);
    *token = (qn_token){copy, (uint32_t)bytes};
    v->n = (size_t)number + 1 > v->n ? (size_t)number + 1 : v->n;
    return QN_OK;
}

static size_t find_slot(const qn_vocabulary *v, const char *text, size_t bytes) {
    size_t slot = qn_tokens_hash(text, bytes) & (v->n_table - 1);
    for (; v->table[slot] >= 0; slot = (slot + 1) & (v->n_table - 1)) {
        const qn_token *token = &v->list[v->table[slot]];
        if (token->bytes == bytes && memcmp(token->text, text, bytes) == 0)
            break;
    }
    return slot;
}

qn_status qn_vocabulary_finish(qn_vocabulary *v, const bool *is_split) {
    v->n_table = 16;
    while (v->n_table < 2 * v->n)
        v->n_table *= 2;
    QN_TRY(qn_allocate(v->texts.allocator, v->n_table, sizeof *v->table, &v->table));
    memset(v->table, 0xff, v->n_table * sizeof *v->table);
    for (size_t i = 0; i < v->n; i++) {
        const qn_token *token = &v->list[i];
        if (!token->text || token->bytes == 0 || !is_split[i])
            continue;
        const size_t slot = find_slot(v, token->text, token->bytes);
        if (v->table[slot] < 0)
            v->table[slot] = (int32_t)i;
        v->longest = token->bytes > v->longest ? token->bytes : v->longest;
    }
    return QN_OK;
}

int32_t qn_vocabulary_find(const qn_vocabulary *v, const char *text, size_t bytes) {
    return bytes == 0 || bytes > v->longest ? -1 : v->table[find_slot(v, text, bytes)];
}
