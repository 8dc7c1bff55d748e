/* Parallel sentences: pairs:SOURCE,TARGET, two files with corresponding lines, or synthetic (the
 * target is the reversed source). Pairs with an empty side and pairs that are too long are skipped.
 * A part drawn by seed is held out; the words of the rest form the vocabularies. All sentences are
 * in memory, four bytes for each word. */
#ifndef QN_DATA_TEXT_PAIRS_H
#define QN_DATA_TEXT_PAIRS_H

#include "data/text/words.h"
#include "quern/data.h"

typedef enum qn_side { QN_SOURCE = 0, QN_TARGET = 1 } qn_side;

typedef struct qn_pairs_options {
    const qn_allocator *allocator; /* null: the heap; this and the log outlive the pairs */
    const qn_log *log;
    const char *words[2]; /* of a checkpoint, as qn_words_print makes them; null: the text's */
    int64_t most_words;   /* of each vocabulary that is counted, the first three numbers included */
    int64_t least_count;  /* of a word that is in it; 0: 1 */
    int64_t length;       /* words of a sentence at most: of a target, one less */
    double holdout;       /* 0: a twentieth */
    uint64_t seed;
    bool by_place; /* held out as versions did that kept no rule, not by the source sentence */
} qn_pairs_options;

/* tokens[0..n) of a sentence, without begin and end; n >= 1. */
typedef struct qn_sentence {
    const int32_t *tokens;
    int n;
} qn_sentence;

typedef struct qn_pairs qn_pairs;

qn_status qn_pairs_open(const char *specification, const qn_pairs_options *options,
                        qn_pairs **pairs);
void qn_pairs_close(qn_pairs *pairs);

const char *qn_pairs_name(const qn_pairs *pairs);
const qn_words *qn_pairs_words(const qn_pairs *pairs, qn_side side);
int64_t qn_pairs_count(const qn_pairs *pairs, qn_split split);
qn_sentence qn_pairs_get(const qn_pairs *pairs, qn_split split, int64_t index, qn_side side);

#endif
