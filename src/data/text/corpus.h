/* A text to learn from: text:FILE, text:FOLDER (its files in order of their names, without those
 * that contain a zero byte and links to files already read), or synthetic (random words). The last
 * part of every file is held out. The rest, one file after the other, is the training text, whose
 * characters form the vocabulary. CRLF line ends are read as LF. The whole text is in memory, two
 * bytes for each character. */
#ifndef QN_DATA_TEXT_CORPUS_H
#define QN_DATA_TEXT_CORPUS_H

#include "data/text/characters.h"
#include "quern/data.h"

typedef struct qn_corpus_options {
    const qn_allocator *allocator; /* null: the heap; this and the log outlive the corpus */
    const qn_log *log;
    const char
        *characters;     /* of a checkpoint, as qn_characters_print makes them; null: the text's */
    int most_characters; /* of a vocabulary that is counted, number 0 included */
    double holdout;      /* part of every file held out; 0: a twentieth */
    uint64_t seed;       /* of synthetic text */
} qn_corpus_options;

/* tokens[s][i] < characters.n for 0 <= i < n[s], s a qn_split. n[QN_TRAIN] >= 1. */
typedef struct qn_corpus {
    qn_arena arena;
    const char *name;
    qn_characters characters;
    const uint16_t *tokens[2];
    int64_t n[2];
} qn_corpus;

qn_status qn_corpus_open(const char *specification, const qn_corpus_options *options,
                         qn_corpus *corpus);
void qn_corpus_close(qn_corpus *corpus);

#endif
