/* The rules for held-out samples; see holdout.h. By content, a bit for each sample says where it
 * is, and a count for every block of bits finds the n-th of a side. */
#include "data/split/holdout.h"

#include "base/status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_BITS = 64, BLOCK_WORDS = 8, BLOCK = BLOCK_WORDS * WORD_BITS };

static qn_status check_part(double part) {
    if (part >= 0 && part < 1)
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT, "a held-out part of %g is not between 0 and 1", part);
}

/* Nothing can be held out where all is one. */
static qn_status fail_one_unit(const char *units, int64_t n) {
    return qn_fail(QN_ERROR_ARGUMENT,
                   "all %lld samples are of one of the %s: none of them can be held out; give "
                   "samples of others too, or leave --group and --holdout out",
                   (long long)n, units);
}

static qn_status fail_empty(double part, int64_t n) {
    return qn_fail(QN_ERROR_ARGUMENT,
                   "holding out a part of %g of %lld samples leaves none to train with", part,
                   (long long)n);
}

/* ---- by place ---- */

/* First sample of stretch j. */
static int64_t stretch_begin(const qn_holdout *holdout, int64_t j) {
    return (int64_t)((__int128)j * holdout->n / holdout->n_test);
}

static int64_t held_in_stretch(const qn_holdout *holdout, int64_t j) {
    int64_t begin = stretch_begin(holdout, j), length = stretch_begin(holdout, j + 1) - begin;
    return begin + (int64_t)qn_rng_below(holdout->rng, (uint64_t)j, (uint64_t)length);
}

qn_status qn_holdout_by_place(int64_t n, double part, uint64_t seed, qn_holdout *holdout) {
    *holdout = (qn_holdout){.n = n, .rng = qn_rng_make(seed, qn_hash_text("holdout"), 0)};
    QN_TRY(check_part(part));
    if (part == 0)
        return QN_OK;
    holdout->n_test = llround((double)n * part);
    if (holdout->n_test < 1)
        holdout->n_test = 1;
    return holdout->n_test >= n ? fail_empty(part, n) : QN_OK;
}

static int64_t index_by_place(const qn_holdout *holdout, qn_split split, int64_t index) {
    if (split == QN_TEST)
        return held_in_stretch(holdout, index);
    /* Stretch j begins with training sample stretch_begin(j) - j: a guess, then a step or two. */
    int64_t n_train = holdout->n - holdout->n_test;
    int64_t j = (int64_t)((__int128)index * holdout->n_test / n_train);
    while (stretch_begin(holdout, j) - j > index)
        j--;
    while (j + 1 < holdout->n_test && stretch_begin(holdout, j + 1) - (j + 1) <= index)
        j++;
    int64_t number = index + j;
    return number < held_in_stretch(holdout, j) ? number : number + 1;
}

/* ---- copies ---- */

/* The hashes of all samples or, where they are many, of a part of them that their value decides:
 * equal ones are in it together. */
typedef struct copies {
    uint64_t *kept; /* (n_kept) of MOST_KEPT */
    size_t n_kept;
    uint64_t mask; /* those are kept that have no bit of it */
} copies;

enum { MOST_KEPT = 1 << 15 };

static void copies_add(copies *c, uint64_t hash) {
    while (c->n_kept == MOST_KEPT) {
        size_t n = 0;
        c->mask = c->mask << 1 | 1;
        for (size_t i = 0; i < c->n_kept; i++)
            if ((c->kept[i] & c->mask) == 0)
                c->kept[n++] = c->kept[i];
        c->n_kept = n;
    }
    if ((hash & c->mask) == 0)
        c->kept[c->n_kept++] = hash;
}

static int compare_hashes(const void *left, const void *right) {
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static void copies_count(copies *c, qn_holdout *holdout) {
    int64_t n = 0;
    qsort(c->kept, c->n_kept, sizeof *c->kept, compare_hashes);
    for (size_t i = 1; i < c->n_kept; i++)
        n += c->kept[i] == c->kept[i - 1];
    holdout->n_copies = n * (int64_t)(c->mask + 1);
    holdout->is_estimate = c->mask > 0;
}

/* ---- by content ---- */

/* What is known of a class, or of a set without classes. */
typedef struct group {
    int64_t n, n_test;
    uint64_t least, most; /* of the hashes of its samples */
} group;

/* The samples of a hash go to the other side than the part says. */
typedef struct exception {
    uint64_t hash;
    bool is_test;
} exception;

typedef struct dividing {
    const qn_holdout_samples *samples;
    qn_rng rng;
    double part;
    const char *units;
    uint64_t end; /* a sample whose hash is below it is held out */
    uint64_t *held;
    size_t n_groups, n_exceptions;
    group *groups;         /* (n_groups) */
    exception *exceptions; /* (n_groups), by hash */
    group all;
    copies copies;
} dividing;

static qn_status look(const dividing *d, int64_t i, uint64_t *hash, int32_t *class) {
    uint64_t content = 0;
    uint32_t words[4];
    *class = 0;
    QN_TRY(d->samples->look(d->samples->context, i, &content, class));
    qn_rng_block(d->rng, content, words);
    *hash = (uint64_t)words[0] << 32 | words[1];
    return QN_OK;
}

static void note(group *g, uint64_t hash, bool is_test) {
    g->least = g->n == 0 || hash < g->least ? hash : g->least;
    g->most = g->n == 0 || hash > g->most ? hash : g->most;
    g->n++;
    g->n_test += is_test;
}

static void set_side(const dividing *d, int64_t i, bool is_test) {
    const uint64_t bit = UINT64_C(1) << (i % WORD_BITS);
    if (is_test)
        d->held[i / WORD_BITS] |= bit;
    else
        d->held[i / WORD_BITS] &= ~bit;
}

static qn_status divide(dividing *d) {
    for (int64_t i = 0; i < d->samples->n; i++) {
        uint64_t hash;
        int32_t class;
        QN_TRY(look(d, i, &hash, &class));
        const bool is_test = hash < d->end;
        const size_t g = class >= 0 ? (size_t) class : 0;
        set_side(d, i, is_test);
        note(&d->groups[g < d->n_groups ? g : 0], hash, is_test);
        note(&d->all, hash, is_test);
        copies_add(&d->copies, hash);
    }
    return QN_OK;
}

static int compare_exceptions(const void *left, const void *right) {
    const uint64_t a = ((const exception *)left)->hash, b = ((const exception *)right)->hash;
    return (a > b) - (a < b);
}

/* Groups that have too few on one side for what they could have. */
static void find_exceptions(dividing *d) {
    const bool has_several = d->samples->n >= 2 * (int64_t)d->n_groups;
    d->n_exceptions = 0;
    for (size_t i = 0; i < d->n_groups; i++) {
        const group *g = &d->groups[i];
        const bool has_two = g->n > 0 && g->least != g->most;
        if (has_two && g->n_test == 0 && (double)g->n * d->part >= 1)
            d->exceptions[d->n_exceptions++] = (exception){g->least, true};
        else if (has_several && g->n > 0 && g->n_test == g->n)
            d->exceptions[d->n_exceptions++] = (exception){g->most, false};
    }
    qsort(d->exceptions, d->n_exceptions, sizeof *d->exceptions, compare_exceptions);
}

static qn_status except(dividing *d) {
    for (int64_t i = 0; i < d->samples->n && d->n_exceptions > 0; i++) {
        exception wanted = {0};
        int32_t class;
        QN_TRY(look(d, i, &wanted.hash, &class));
        const exception *e =
            bsearch(&wanted, d->exceptions, d->n_exceptions, sizeof wanted, compare_exceptions);
        if (e)
            set_side(d, i, e->is_test);
    }
    return QN_OK;
}

static int64_t count_test(const dividing *d) {
    int64_t n = 0;
    for (int64_t i = 0; i < d->samples->n; i += WORD_BITS)
        n += __builtin_popcountll(d->held[i / WORD_BITS]);
    return n;
}

/* Looks again only where a side would lack what it could have: at the groups, then at the whole. */
static qn_status divide_evenly(dividing *d) {
    QN_TRY(divide(d));
    find_exceptions(d);
    QN_TRY(except(d));
    const int64_t n_test = count_test(d);
    if (n_test > 0 && n_test < d->samples->n)
        return QN_OK;
    d->n_exceptions = d->all.least != d->all.most;
    d->exceptions[0] = (exception){n_test == 0 ? d->all.least : d->all.most, n_test == 0};
    return except(d);
}

static qn_status count_blocks(qn_arena *arena, const dividing *d, qn_holdout *holdout) {
    const size_t n_blocks = (size_t)((holdout->n + BLOCK - 1) / BLOCK);
    int64_t *before = qn_arena_allocate(arena, n_blocks, sizeof *before);
    if (!before)
        return QN_ERROR_MEMORY;
    int64_t n = 0;
    for (size_t i = 0; i < n_blocks; i++) {
        before[i] = n;
        for (int k = 0; k < BLOCK_WORDS; k++)
            n += __builtin_popcountll(d->held[i * BLOCK_WORDS + (size_t)k]);
    }
    holdout->n_test = n;
    holdout->held = d->held;
    holdout->before = before;
    if (n > 0 && n < holdout->n)
        return QN_OK;
    return d->units ? fail_one_unit(d->units, holdout->n) : fail_empty(d->part, holdout->n);
}

static qn_status make_by_content(qn_arena *arena, const qn_allocator *allocator, dividing *d,
                                 qn_holdout *holdout) {
    const size_t n_blocks = (size_t)((holdout->n + BLOCK - 1) / BLOCK), n_groups = d->n_groups;
    const size_t n_kept = holdout->n < MOST_KEPT ? (size_t)holdout->n : MOST_KEPT;
    d->held = qn_arena_allocate(arena, n_blocks * BLOCK_WORDS, sizeof *d->held);
    if (!d->held)
        return QN_ERROR_MEMORY;
    qn_status status = qn_allocate(allocator, n_groups, sizeof *d->groups, &d->groups);
    if (status == QN_OK)
        status = qn_allocate(allocator, n_groups, sizeof *d->exceptions, &d->exceptions);
    if (status == QN_OK)
        status = qn_allocate(allocator, n_kept, sizeof *d->copies.kept, &d->copies.kept);
    if (status == QN_OK)
        status = divide_evenly(d);
    if (status == QN_OK)
        copies_count(&d->copies, holdout);
    qn_release(allocator, d->copies.kept, n_kept, sizeof *d->copies.kept);
    qn_release(allocator, d->exceptions, n_groups, sizeof *d->exceptions);
    qn_release(allocator, d->groups, n_groups, sizeof *d->groups);
    return status == QN_OK ? count_blocks(arena, d, holdout) : status;
}

qn_status qn_holdout_by_content(qn_arena *arena, const qn_holdout_samples *samples,
                                const qn_holdout_options *options, qn_holdout *holdout) {
    const double whole = 18446744073709551616.0; /* 2^64 */
    *holdout = (qn_holdout){.n = samples->n};
    QN_TRY(check_part(options->part));
    if (options->part == 0)
        return QN_OK;
    if (samples->n < 1)
        return fail_empty(options->part, samples->n);
    dividing d = {
        .samples = samples,
        .rng = qn_rng_make(options->seed, qn_hash_text(options->purpose), 0),
        .part = options->part,
        .units = options->units,
        .end = (uint64_t)(options->part * whole),
        .n_groups = samples->n_classes > 0 ? (size_t)samples->n_classes : 1,
    };
    return make_by_content(arena, options->allocator, &d, holdout);
}

/* ---- finding ---- */

/* Samples of a side before a block. */
static int64_t count_before(const qn_holdout *h, int64_t block, bool is_test) {
    return is_test ? h->before[block] : block * BLOCK - h->before[block];
}

/* The last block with at most so many of a side before it. */
static int64_t find_block(const qn_holdout *h, int64_t index, bool is_test) {
    int64_t first = 0, end = (h->n + BLOCK - 1) / BLOCK;
    while (end - first > 1) {
        const int64_t middle = first + (end - first) / 2;
        if (count_before(h, middle, is_test) <= index)
            first = middle;
        else
            end = middle;
    }
    return first;
}

static int64_t index_by_content(const qn_holdout *h, bool is_test, int64_t index) {
    const int64_t block = find_block(h, index, is_test);
    int64_t left = index - count_before(h, block, is_test), word = block * BLOCK_WORDS;
    for (;; word++) {
        uint64_t bits = is_test ? h->held[word] : ~h->held[word];
        const int64_t n = __builtin_popcountll(bits);
        if (left >= n) {
            left -= n;
            continue;
        }
        for (; left > 0; left--)
            bits &= bits - 1;
        return word * WORD_BITS + __builtin_ctzll(bits);
    }
}

int64_t qn_holdout_index(const qn_holdout *holdout, qn_split split, int64_t index) {
    if (holdout->n_test == 0)
        return index;
    return holdout->held ? index_by_content(holdout, split == QN_TEST, index)
                         : index_by_place(holdout, split, index);
}
