/* Vocabularies of words. Words are separated by blanks and are byte strings: case, punctuation and
 * everything else are kept. Numbers 0 to 2 are the unknown word and the beginning and end of a
 * sentence; the others are words, the most frequent first. */
#ifndef QN_DATA_TEXT_WORDS_H
#define QN_DATA_TEXT_WORDS_H

#include "base/memory.h"

enum { QN_UNKNOWN_WORD = 0, QN_SENTENCE_BEGIN, QN_SENTENCE_END, QN_FIRST_WORD };

/* The next word at *at, before end: false: there is none. *at goes behind it. */
bool qn_word_next(const char **at, const char *end, const char **word, size_t *bytes);

/* How often each word was met. It is a hash table with open addressing.
 *     n < capacity / 2 or both are 0; capacity is a power of two */
typedef struct qn_word_entry {
    const char *word; /* with its closing zero; null: free */
    size_t bytes;
    int64_t count;
    int32_t number; /* in the vocabulary */
} qn_word_entry;

typedef struct qn_word_table {
    qn_arena *arena;
    qn_word_entry *entries; /* (capacity), of the arena's allocator */
    size_t n, capacity;
} qn_word_table;

qn_status qn_word_table_add(qn_word_table *table, const char *word, size_t bytes);
void qn_word_table_deinit(qn_word_table *table);

/* words[i] for i >= QN_FIRST_WORD is word number i; before it "<unknown>" and so on. The table
 * finds each of them. */
typedef struct qn_words {
    int32_t n;
    const char **words; /* (n) */
    qn_word_table table;
} qn_words;

/* Of the words counted the most frequent, at most `most` with the first three numbers, and none
 * that was met less than `least` times; of equally frequent ones the first by bytes. */
qn_status qn_words_choose(qn_arena *arena, const qn_word_table *counted, int64_t most,
                          int64_t least, qn_words *words);

/* As text, a word a line, and back; text null: memory is out. */
const char *qn_words_print(qn_arena *arena, const qn_words *words);
qn_status qn_words_parse(qn_arena *arena, const char *text, qn_words *words);

/* Gives back the table. */
void qn_words_deinit(qn_words *words);

/* The number of a word. */
int32_t qn_words_find(const qn_words *words, const char *word, size_t bytes);

#endif
