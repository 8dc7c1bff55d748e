/* Batches of sentence pairs of similar length, to keep padding small. Pairs are put into buckets by
 * their longer side; a batch comes from one bucket. The pairs of a batch and the order of batches
 * depend only on the seed and the batch's number. The last pairs of a bucket in an epoch, which do
 * not fill a batch, are in one with its first of the next epoch; or they are skipped, different
 * ones in each epoch, as older versions did. */
#ifndef QN_DATA_TEXT_BUCKETS_H
#define QN_DATA_TEXT_BUCKETS_H

#include "data/text/pairs.h"

enum { QN_MOST_BUCKETS = 4 };

/* order[first[b] .. first[b + 1]) are the training pairs of bucket b; length[b] < length[b + 1]. */
typedef struct qn_buckets {
    int n;
    int64_t length[QN_MOST_BUCKETS]; /* words of a source, or of a target and its end, at most */
    int64_t first[QN_MOST_BUCKETS + 1];
    const int64_t *order;
    int64_t batch;
    uint64_t seed;
    bool shuffle, skips_last;
} qn_buckets;

/* Sorts pairs into buckets for the options batch, seed, shuffle and skips_last of *buckets, in
 * memory of the arena. Buckets that fill no batch are one with the next longer one. */
qn_status qn_buckets_make(qn_arena *arena, const qn_pairs *pairs, qn_buckets *buckets);

/* Pairs of an epoch that no batch has. */
int64_t qn_buckets_count_skipped(const qn_buckets *buckets);

/* Batch `number`, counted over all epochs: the numbers of its training pairs (batch); returns its
 * bucket. */
int qn_buckets_get(const qn_buckets *buckets, int64_t number, int64_t *pairs);

#endif
