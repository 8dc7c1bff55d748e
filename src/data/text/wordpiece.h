/* WordPiece: splits text into tokens of a vocabulary as BERT does (Devlin et al. 2019, section 3),
 * each with its position in the text, so that a span of tokens maps back to text. A vocabulary is
 * UTF-8, one token a line, numbered from 0; it is cased if a token outside square brackets has a
 * capital letter, otherwise texts are lower-cased and accents removed. */
#ifndef QN_DATA_TEXT_WORDPIECE_H
#define QN_DATA_TEXT_WORDPIECE_H

#include "base/memory.h"

typedef struct qn_wordpiece qn_wordpiece;

/* A token and the bytes [begin, end) of the text that it stands for. */
typedef struct qn_piece {
    int32_t token, begin, end;
} qn_piece;

/* Pieces of one or several texts, in order. */
typedef struct qn_pieces {
    const qn_allocator *allocator;
    qn_piece *list; /* (n) of capacity */
    size_t n, capacity;
} qn_pieces;

/* Numbers of the tokens with a meaning: "[PAD]", "[UNK]", "[CLS]", "[SEP]", and "[MASK]", which is
 * -1 in a vocabulary without it. */
typedef struct qn_wordpiece_marks {
    int32_t padding, unknown, first, separator, mask;
} qn_wordpiece_marks;

/* A vocabulary from its text (bytes of it; copied); name: what messages call it. */
qn_status qn_wordpiece_create(const qn_allocator *allocator, const char *name, const char *text,
                              size_t bytes, qn_wordpiece **wordpiece);

/* The same from a file. */
qn_status qn_wordpiece_open(const qn_allocator *allocator, const char *path,
                            qn_wordpiece **wordpiece);
void qn_wordpiece_destroy(qn_wordpiece *wordpiece);

/* Number of tokens, the vocabulary's text, and one token (bytes of it, not terminated). */
int32_t qn_wordpiece_count(const qn_wordpiece *wordpiece);
const char *qn_wordpiece_text(const qn_wordpiece *wordpiece);
const char *qn_wordpiece_token(const qn_wordpiece *wordpiece, int32_t token, size_t *bytes);
bool qn_wordpiece_is_cased(const qn_wordpiece *wordpiece);
qn_wordpiece_marks qn_wordpiece_get_marks(const qn_wordpiece *wordpiece);

/* Appends the tokens of a text to pieces. Bytes that are no UTF-8 and control characters are passed
 * over. On failure pieces is as it was. */
qn_status qn_wordpiece_split(const qn_wordpiece *wordpiece, const char *text, size_t bytes,
                             qn_pieces *pieces);

void qn_pieces_init(qn_pieces *pieces, const qn_allocator *allocator);
void qn_pieces_deinit(qn_pieces *pieces);

#endif
