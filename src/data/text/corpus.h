/* A text to learn from: text:FILE, text:FOLDER (its files in order of their names, without those
 * that contain a zero byte and links to files already read), or synthetic (random words). The last
 * part of every file is held out. The rest, one file after the other, is the training text, whose
 * characters, or words, form the vocabulary. CRLF line ends are read as LF. Words are those that
 * one types (data/text/typed.h). The whole text is in memory, two bytes for each character, three
 * for each word. */
#ifndef QN_DATA_TEXT_CORPUS_H
#define QN_DATA_TEXT_CORPUS_H

#include "data/text/characters.h"
#include "data/text/words.h"
#include "quern/data.h"

typedef struct qn_corpus_options {
    const qn_allocator *allocator; /* null: the heap; this and the log outlive the corpus */
    const qn_log *log;
    const char
        *characters;   /* of a checkpoint, as qn_characters_print makes them; null: the text's */
    const char *words; /* likewise, as qn_words_print makes them */
    bool has_words;    /* tokens are words */
    bool is_raw;       /* there are no tokens: the texts themselves are kept */
    bool is_whole;     /* nothing is held out */
    int most_tokens;   /* of a vocabulary that is counted, number 0 included */
    double holdout;    /* part of every file held out; 0: a twentieth */
    int64_t n_first;   /* words of every file to learn from, the last fifth of them to validate; the
                            others are held out. 0: by holdout */
    uint64_t seed;     /* of synthetic text */
} qn_corpus_options;

/* A part of a file: one text. */
typedef struct qn_passage {
    const char *text; /* (bytes) */
    size_t bytes;
} qn_passage;

/* tokens[s][i] < characters.n or words.n for 0 <= i < n[s], s a qn_split. n[QN_TRAIN] >= 1. */
typedef struct qn_corpus {
    qn_arena arena;
    const char *name;
    qn_characters characters;
    qn_words words; /* n 0: tokens are characters */
    const uint16_t *tokens[QN_SPLITS];
    const uint8_t *letters[QN_SPLITS]; /* of each word, at most 255; null: tokens are characters */
    int64_t n[QN_SPLITS];
    const qn_passage *passages[QN_SPLITS]; /* (n) of raw texts, none of which is empty */
} qn_corpus;

qn_status qn_corpus_open(const char *specification, const qn_corpus_options *options,
                         qn_corpus *corpus);
void qn_corpus_close(qn_corpus *corpus);

#endif
