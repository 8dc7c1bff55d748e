/* Byte-pair encoding (Gage 1994; Sennrich et al. 2016): of a word's symbols the neighbours with the
 * best rank are merged, the first of several, until no two can be. Time is O(n log n) for a word of
 * n symbols. */
#ifndef QN_DATA_TOKENS_MERGES_H
#define QN_DATA_TOKENS_MERGES_H

#include "data/tokens/vocabulary.h"

typedef struct qn_merge {
    int32_t left, right; /* left < 0: the slot is free */
    int32_t rank, token; /* what they become */
} qn_merge;

/* Either a table of pairs, or, as SentencePiece has it, any two whose texts together are a token's:
 * the rank is then that token's. */
typedef struct qn_merges {
    const qn_allocator *allocator;
    const qn_vocabulary *vocabulary;
    qn_merge *table; /* (n_table), a power of two, found from the pair's hash on */
    size_t n_table, n;
    int32_t *ranks; /* (n_ranks) by token; null: the table counts */
    size_t n_ranks;
    char *joined; /* (longest text of the vocabulary), for two texts; with ranks */
    size_t n_joined;
    /* What is being merged. */
    struct qn_merge_symbol *symbols;       /* of symbol_capacity */
    struct qn_merge_candidate *candidates; /* a heap, of candidate_capacity */
    size_t symbol_capacity, candidate_capacity;
} qn_merges;

void qn_merges_init(qn_merges *merges, const qn_allocator *allocator,
                    const qn_vocabulary *vocabulary);
void qn_merges_deinit(qn_merges *merges);

/* Makes a table for n pairs; adds one, the better the earlier: the second of two equal ones is
 * passed over. */
qn_status qn_merges_reserve(qn_merges *merges, size_t n);
void qn_merges_add(qn_merges *merges, int32_t left, int32_t right, int32_t token);

/* Ranks of tokens by falling score, the first of several with one; scores has one for each token of
 * the vocabulary. */
qn_status qn_merges_rank(qn_merges *merges, const float *scores);

/* Merges n symbols in place; *n is how many are left. */
qn_status qn_merges_run(qn_merges *merges, int32_t *symbols, size_t *n);

#endif
