/* A WordPiece vocabulary and, after a zero byte, a text: pieces are of the vocabulary, in order and
 * inside the text. */
#include "data/text/wordpiece.h"

#include <stdlib.h>
#include <string.h>

static void check_pieces(const qn_wordpiece *w, const qn_pieces *pieces, size_t bytes) {
    int32_t begin = 0, end = 0;
    for (size_t i = 0; i < pieces->n; i++) {
        const qn_piece *p = &pieces->list[i];
        if (p->token < 0 || p->token >= qn_wordpiece_count(w) || p->begin < begin || p->end < end ||
            p->begin >= p->end || p->end > (int64_t)bytes)
            abort();
        begin = p->begin;
        end = p->end;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *vocabulary = (const char *)data;
    const char *zero = size > 0 ? memchr(data, 0, size) : NULL;
    const size_t bytes = zero ? (size_t)(zero - vocabulary) : size;
    qn_wordpiece *w;
    qn_pieces pieces;
    if (qn_wordpiece_create(NULL, "fuzz", vocabulary, bytes, &w) != QN_OK)
        return 0;
    qn_pieces_init(&pieces, NULL);
    if (zero && qn_wordpiece_split(w, zero + 1, size - bytes - 1, &pieces) == QN_OK)
        check_pieces(w, &pieces, size - bytes - 1);
    qn_pieces_deinit(&pieces);
    qn_wordpiece_destroy(w);
    return 0;
}
