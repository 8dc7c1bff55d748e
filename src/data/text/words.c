/* Vocabularies of words; see words.h. */
#include "data/text/words.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

/* A byte 0 could be in no text of a checkpoint. */
static bool is_blank(char c) {
    return c == ' ' || c == 0 || (c >= '\t' && c <= '\r');
}

bool qn_word_next(const char **at, const char *end, const char **word, size_t *bytes) {
    const char *begin = *at;
    while (begin < end && is_blank(*begin))
        begin++;
    const char *behind = begin;
    while (behind < end && !is_blank(*behind))
        behind++;
    *at = behind;
    *word = begin;
    *bytes = (size_t)(behind - begin);
    return behind > begin;
}

/* ---- table ---- */

enum { FIRST_CAPACITY = 1024 };

/* FNV-1a, 64 bits. */
static uint64_t hash_bytes(const char *word, size_t bytes) {
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ (unsigned char)word[i]) * 0x100000001b3;
    return hash ^ hash >> 32;
}

/* The word's entry, or the free one that it would take. */
static qn_word_entry *locate(const qn_word_table *table, const char *word, size_t bytes) {
    size_t i = hash_bytes(word, bytes) & (table->capacity - 1);
    for (;; i = (i + 1) & (table->capacity - 1)) {
        qn_word_entry *e = &table->entries[i];
        if (!e->word || (e->bytes == bytes && memcmp(e->word, word, bytes) == 0))
            return e;
    }
}

static qn_status double_table(qn_word_table *table) {
    qn_word_table wider = *table;
    wider.capacity = table->capacity > 0 ? 2 * table->capacity : FIRST_CAPACITY;
    QN_TRY(qn_allocate(table->arena->allocator, wider.capacity, sizeof *wider.entries,
                       &wider.entries));
    for (size_t i = 0; i < table->capacity; i++) {
        const qn_word_entry *e = &table->entries[i];
        if (e->word)
            *locate(&wider, e->word, e->bytes) = *e;
    }
    qn_word_table_deinit(table);
    *table = wider;
    return QN_OK;
}

qn_status qn_word_table_add(qn_word_table *table, const char *word, size_t bytes) {
    if (2 * (table->n + 1) > table->capacity)
        QN_TRY(double_table(table));
    qn_word_entry *e = locate(table, word, bytes);
    if (!e->word) {
        char *copy = qn_arena_allocate(table->arena, bytes + 1, 1);
        if (!copy)
            return QN_ERROR_MEMORY;
        memcpy(copy, word, bytes);
        *e = (qn_word_entry){.word = copy, .bytes = bytes};
        table->n++;
    }
    e->count++;
    return QN_OK;
}

void qn_word_table_deinit(qn_word_table *table) {
    if (table->entries)
        qn_release(table->arena->allocator, table->entries, table->capacity,
                   sizeof *table->entries);
    table->entries = NULL;
    table->n = table->capacity = 0;
}

/* ---- vocabularies ---- */

static int more_frequent(const void *left, const void *right) {
    const qn_word_entry *a = left, *b = right;
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    const int order = memcmp(a->word, b->word, a->bytes < b->bytes ? a->bytes : b->bytes);
    return order ? order : a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

/* Adds a word under the next number; words has room for it. */
static qn_status add_word(qn_words *words, const char *word, size_t bytes) {
    const size_t n = words->table.n;
    QN_TRY(qn_word_table_add(&words->table, word, bytes));
    if (words->table.n == n)
        return qn_fail(QN_ERROR_FORMAT, "the vocabulary has the word '%s' twice", word);
    qn_word_entry *e = locate(&words->table, word, bytes);
    e->number = words->n;
    words->words[words->n++] = e->word;
    return QN_OK;
}

static qn_status begin_words(qn_arena *arena, size_t n, qn_words *words) {
    *words = (qn_words){.n = QN_FIRST_WORD, .table = {.arena = arena}};
    words->words = qn_arena_allocate(arena, n + QN_FIRST_WORD, sizeof *words->words);
    if (!words->words)
        return QN_ERROR_MEMORY;
    words->words[QN_UNKNOWN_WORD] = "<unknown>";
    words->words[QN_SENTENCE_BEGIN] = "<begin>";
    words->words[QN_SENTENCE_END] = "<end>";
    /* A table without entries finds nothing, but looks. */
    return double_table(&words->table);
}

static qn_status finish(qn_words *words, qn_status status) {
    if (status != QN_OK)
        qn_words_deinit(words);
    return status;
}

qn_status qn_words_choose(qn_arena *arena, const qn_word_table *counted, int64_t most,
                          int64_t least, qn_words *words) {
    qn_word_entry *list;
    size_t n = 0;
    if (most <= QN_FIRST_WORD || most > INT32_MAX)
        return qn_fail(QN_ERROR_ARGUMENT, "a vocabulary of %lld words; it has at least %d",
                       (long long)most, QN_FIRST_WORD + 1);
    QN_TRY(qn_allocate(arena->allocator, counted->n + 1, sizeof *list, &list));
    for (size_t i = 0; i < counted->capacity; i++) {
        if (counted->entries[i].word && counted->entries[i].count >= least)
            list[n++] = counted->entries[i];
    }
    qsort(list, n, sizeof *list, more_frequent);
    if (n > (size_t)most - QN_FIRST_WORD)
        n = (size_t)most - QN_FIRST_WORD;
    qn_status status = begin_words(arena, n, words);
    for (size_t i = 0; i < n && status == QN_OK; i++)
        status = add_word(words, list[i].word, list[i].bytes);
    qn_release(arena->allocator, list, counted->n + 1, sizeof *list);
    return finish(words, status);
}

const char *qn_words_print(qn_arena *arena, const qn_words *words) {
    size_t bytes = 1;
    for (int32_t i = QN_FIRST_WORD; i < words->n; i++)
        bytes += strlen(words->words[i]) + 1;
    char *text = qn_arena_allocate(arena, bytes, 1), *at = text;
    for (int32_t i = QN_FIRST_WORD; text && i < words->n; i++) {
        const size_t length = strlen(words->words[i]);
        memcpy(at, words->words[i], length);
        at += length;
        *at++ = '\n';
    }
    return text;
}

qn_status qn_words_parse(qn_arena *arena, const char *text, qn_words *words) {
    const char *end = text + strlen(text), *at = text, *word;
    size_t bytes, n = 0;
    while (qn_word_next(&at, end, &word, &bytes))
        n++;
    qn_status status = begin_words(arena, n, words);
    for (at = text; status == QN_OK && qn_word_next(&at, end, &word, &bytes);)
        status = add_word(words, word, bytes);
    return finish(words, status);
}

void qn_words_deinit(qn_words *words) {
    qn_word_table_deinit(&words->table);
}

int32_t qn_words_find(const qn_words *words, const char *word, size_t bytes) {
    const qn_word_entry *e = locate(&words->table, word, bytes);
    return e->word ? e->number : QN_UNKNOWN_WORD;
}
