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
    }
    b->first[b->n] = used;
    b->order = order;
    return QN_OK;
}

qn_status qn_buckets_make(qn_arena *arena, const qn_pairs *pairs, qn_buckets *buckets) {
    const int64_t n = qn_pairs_count(pairs, QN_TRAIN);
    int64_t counts[QN_MOST_BUCKETS] = {0}, longest = 1;
    qn_buckets b = *buckets;
    b.n = 0;
    QN_DEMAND(b.batch >= 1 && b.batch <= n);
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

/* Pairs of a bucket that an epoch uses. */
static int64_t count_used(const qn_buckets *b, int bucket) {
    const int64_t n = b->first[bucket + 1] - b->first[bucket];
    return b->skips_last ? n / b->batch * b->batch : n;
}

int64_t qn_buckets_count_skipped(const qn_buckets *b) {
    int64_t n = b->first[b->n];
    for (int bucket = 0; bucket < b->n; bucket++)
        n -= count_used(b, bucket);
    return n;
}

/* Batches of a bucket that begin before an epoch's: one of two epochs is the later one's. */
static int64_t count_before(const qn_buckets *b, int bucket, int64_t epoch) {
    return (int64_t)((__int128)epoch * count_used(b, bucket) / b->batch);
}

static int64_t count_all_before(const qn_buckets *b, int64_t epoch) {
    int64_t n = 0;
    for (int bucket = 0; bucket < b->n; bucket++)
        n += count_before(b, bucket, epoch);
    return n;
}

/* The epoch of a batch. All buckets together have fewer batches before an epoch than their pairs
 * would fill, by less than one for each. */
static int64_t epoch_of(const qn_buckets *b, int64_t number) {
    const int64_t n_used = b->first[b->n] - qn_buckets_count_skipped(b);
    int64_t epoch = (int64_t)((__int128)number * b->batch / n_used);
    while (count_all_before(b, epoch + 1) <= number)
        epoch++;
    return epoch;
}

static uint64_t permute(const qn_buckets *b, const char *purpose, int64_t epoch, int64_t index,
                        int64_t n) {
    const qn_rng rng = qn_rng_make(b->seed, qn_hash_text(purpose), (uint64_t)epoch);
    return b->shuffle ? qn_rng_permute(rng, (uint64_t)index, (uint64_t)n) : (uint64_t)index;
}

/* Pair `at` of the stream of all epochs of a bucket. */
static int64_t pair_at(const qn_buckets *b, int bucket, int64_t at) {
    static const char *const purposes[QN_MOST_BUCKETS] = {"bucket0", "bucket1", "bucket2",
                                                          "bucket3"};
    const int64_t n = b->first[bucket + 1] - b->first[bucket], n_used = count_used(b, bucket);
    const uint64_t place = permute(b, purposes[bucket], at / n_used, at % n_used, n);
    return b->order[b->first[bucket] + (int64_t)place];
}

int qn_buckets_get(const qn_buckets *b, int64_t number, int64_t *pairs) {
    const int64_t epoch = epoch_of(b, number), first = count_all_before(b, epoch);
    const int64_t n_batches = count_all_before(b, epoch + 1) - first;
    int64_t batch = (int64_t)permute(b, "buckets", epoch, number - first, n_batches), before;
    int bucket = 0;
    for (;; bucket++) {
        before = count_before(b, bucket, epoch);
        const int64_t n = count_before(b, bucket, epoch + 1) - before;
        if (batch < n)
            break;
        batch -= n;
    }
    for (int64_t i = 0; i < b->batch; i++)
        pairs[i] = pair_at(b, bucket, (before + batch) * b->batch + i);
    return bucket;
}
