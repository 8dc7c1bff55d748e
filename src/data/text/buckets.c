/* Batches of sentence pairs of like length; see buckets.h. */
#include "data/text/buckets.h"

#include "base/rng.h"
#include "base/status.h"

/* Columns that a training pair needs. */
static int64_t length_of(const qn_pairs *pairs, int64_t index) {
    const int64_t source = qn_pairs_get(pairs, QN_TRAIN, index, QN_SOURCE).n;
    const int64_t target = qn_pairs_get(pairs, QN_TRAIN, index, QN_TARGET).n + 1;
    return source > target ? source : target;
}

static int bucket_of(const qn_buckets *b, int64_t length) {
    int bucket = 0;
    while (b->length[bucket] < length)
        bucket++;
    return bucket;
}

/* Borders at the quarters of the longest pair. */
static void set_borders(qn_buckets *b, int64_t longest) {
    for (int i = 1; i <= QN_MOST_BUCKETS; i++) {
        const int64_t border = (longest * i + QN_MOST_BUCKETS - 1) / QN_MOST_BUCKETS;
        if (b->n == 0 || border > b->length[b->n - 1])
            b->length[b->n++] = border;
    }
}

static void drop_border(qn_buckets *b, int bucket, int64_t counts[QN_MOST_BUCKETS]) {
    counts[bucket + 1] += counts[bucket];
    for (int i = bucket; i + 1 < b->n; i++) {
        counts[i] = counts[i + 1];
        b->length[i] = b->length[i + 1];
    }
    b->n--;
}

/* Joins buckets until each fills a batch; the last one, which has no next, takes those before it.
 */
static void join(qn_buckets *b, int64_t counts[QN_MOST_BUCKETS]) {
    for (int i = 0; i + 1 < b->n;) {
        if (counts[i] < b->batch)
            drop_border(b, i, counts);
        else
            i++;
    }
    while (b->n > 1 && counts[b->n - 1] < b->batch)
        drop_border(b, b->n - 2, counts);
}

static qn_status sort_pairs(qn_arena *arena, const qn_pairs *pairs, qn_buckets *b) {
    const int64_t n = qn_pairs_count(pairs, QN_TRAIN);
    int64_t *order = qn_arena_allocate(arena, (size_t)n, sizeof *order);
    int64_t used = 0;
    if (!order)
        return QN_ERROR_MEMORY;
    for (int bucket = 0; bucket < b->n; bucket++) {
        b->first[bucket] = used;
        for (int64_t i = 0; i < n; i++) {
            if (bucket_of(b, length_of(pairs, i)) == bucket)
                order[used++] = i;
        }
        b->n_batches += (used - b->first[bucket]) / b->batch;
    }
    b->first[b->n] = used;
    b->order = order;
    return QN_OK;
}

qn_status qn_buckets_make(qn_arena *arena, const qn_pairs *pairs, int64_t batch, uint64_t seed,
                          bool shuffle, qn_buckets *buckets) {
    const int64_t n = qn_pairs_count(pairs, QN_TRAIN);
    int64_t counts[QN_MOST_BUCKETS] = {0}, longest = 1;
    qn_buckets b = {.batch = batch, .seed = seed, .shuffle = shuffle};
    if (batch < 1 || batch > n)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "a batch of %lld is larger than the data: %s has %lld training pairs; use a "
                       "smaller --batch",
                       (long long)batch, qn_pairs_name(pairs), (long long)n);
    for (int64_t i = 0; i < n; i++)
        longest = length_of(pairs, i) > longest ? length_of(pairs, i) : longest;
    set_borders(&b, longest);
    for (int64_t i = 0; i < n; i++)
        counts[bucket_of(&b, length_of(pairs, i))]++;
    join(&b, counts);
    QN_TRY(sort_pairs(arena, pairs, &b));
    *buckets = b;
    return QN_OK;
}

static uint64_t permute(const qn_buckets *b, const char *purpose, uint64_t epoch, int64_t index,
                        int64_t n) {
    const qn_rng rng = qn_rng_make(b->seed, qn_hash_text(purpose), epoch);
    return b->shuffle ? qn_rng_permute(rng, (uint64_t)index, (uint64_t)n) : (uint64_t)index;
}

int qn_buckets_get(const qn_buckets *b, int64_t number, int64_t *pairs) {
    static const char *const purposes[QN_MOST_BUCKETS] = {"bucket0", "bucket1", "bucket2",
                                                          "bucket3"};
    const int64_t epoch = number / b->n_batches;
    int64_t batch =
        (int64_t)permute(b, "buckets", (uint64_t)epoch, number % b->n_batches, b->n_batches);
    int bucket = 0;
    int64_t n = b->first[1];
    while (batch >= n / b->batch) {
        batch -= n / b->batch;
        bucket++;
        n = b->first[bucket + 1] - b->first[bucket];
    }
    for (int64_t i = 0; i < b->batch; i++) {
        const uint64_t at = permute(b, purposes[bucket], (uint64_t)epoch, batch * b->batch + i, n);
        pairs[i] = b->order[b->first[bucket] + (int64_t)at];
    }
    return bucket;
}
