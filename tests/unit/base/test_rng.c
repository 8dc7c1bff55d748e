/* Counter-based random numbers: published vectors, ranges, moments, bijections. */
#include "base/rng.h"

#include "check.h"

#include <stdlib.h>

/* Known answers of Random123's philox4x32 with 10 rounds (file kat_vectors). */
static void test_published_vectors(void) {
    static const struct {
        qn_rng rng;
        uint64_t block;
        uint32_t words[4];
    } cases[] = {
        {{0, 0}, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{UINT64_MAX, UINT64_MAX}, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x299f31d0a4093822u, 0x0370734413198a2eu},
         0x85a308d3243f6a88u,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t words[4];
        qn_rng_block(cases[i].rng, cases[i].block, words);
        CHECK(memcmp(words, cases[i].words, sizeof words) == 0);
    }
}

static void test_hash(void) {
    /* FNV-1a's published values. */
    CHECK(qn_hash_text("") == 0xcbf29ce484222325u);
    CHECK(qn_hash_text("a") == 0xaf63dc4c8601ec8cu);
    CHECK(qn_hash_text("foobar") == 0x85944171f73967e8u);
}

static void test_words_and_uniform(void) {
    qn_rng rng = qn_rng_make(1, qn_hash_text("words"), 7);
    for (uint64_t i = 0; i < 64; i++) {
        uint32_t words[4];
        qn_rng_block(rng, i / 4, words);
        CHECK(qn_rng_word(rng, i) == words[i % 4]);
    }
    CHECK(qn_rng_uniform(0) == 0.0f);
    CHECK(qn_rng_uniform(UINT32_MAX) < 1.0f);
}

/* Streams that differ in seed, purpose or step are unrelated. */
/* Many at once are the same as one by one, across the border of the counter's words too. */
static void test_many(void) {
    enum { BLOCKS = 301 };
    const qn_rng rng = qn_rng_make(11, 12, 13);
    const uint64_t starts[] = {0, 5, UINT32_MAX - 3, UINT64_MAX - 150};
    static uint32_t words[4 * BLOCKS];
    static float uniforms[4 * BLOCKS];
    for (size_t s = 0; s < sizeof starts / sizeof *starts; s++) {
        qn_rng_blocks(rng, starts[s], BLOCKS, words);
        qn_rng_uniforms(rng, starts[s], 4 * BLOCKS - 3, uniforms);
        for (uint64_t i = 0; i < BLOCKS; i++) {
            uint32_t one[4];
            qn_rng_block(rng, starts[s] + i, one);
            CHECK(memcmp(one, words + 4 * i, sizeof one) == 0);
            for (uint64_t j = 0; j < 4 && 4 * i + j < 4 * BLOCKS - 3; j++)
                CHECK(uniforms[4 * i + j] == qn_rng_uniform(one[j]));
        }
    }
}

static void test_streams_differ(void) {
    qn_rng a = qn_rng_make(1, 2, 3);
    CHECK(qn_rng_word(a, 0) != qn_rng_word(qn_rng_make(2, 2, 3), 0));
    CHECK(qn_rng_word(a, 0) != qn_rng_word(qn_rng_make(1, 3, 3), 0));
    CHECK(qn_rng_word(a, 0) != qn_rng_word(qn_rng_make(1, 2, 4), 0));
    CHECK(qn_rng_word(a, 0) == qn_rng_word(qn_rng_make(1, 2, 3), 0));
}

/* Bounds are five standard deviations of the estimate; the numbers are fixed by the seed. */
static void test_moments(void) {
    enum { COUNT = 100000 };
    qn_rng rng = qn_rng_make(5, qn_hash_text("moments"), 0);
    double uniform = 0, sum = 0, squares = 0, product = 0, previous = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        uniform += (double)qn_rng_uniform(qn_rng_word(rng, i));
        double x = qn_rng_normal(rng, i);
        CHECK(isfinite(x));
        sum += x;
        squares += x * x;
        product += x * previous;
        previous = x;
    }
    const double deviation = 5 / sqrt(COUNT);
    CHECK(fabs(uniform / COUNT - 0.5) < deviation * sqrt(1.0 / 12));
    CHECK(fabs(sum / COUNT) < deviation);
    CHECK(fabs(squares / COUNT - 1) < deviation * sqrt(2));
    CHECK(fabs(product / COUNT) < deviation);
}

static void test_below(void) {
    qn_rng rng = qn_rng_make(6, qn_hash_text("below"), 0);
    enum { BOUND = 7, COUNT = 70000 };
    int counts[BOUND] = {0};
    for (uint64_t i = 0; i < COUNT; i++) {
        uint64_t x = qn_rng_below(rng, i, BOUND);
        CHECK(x < BOUND);
        counts[x % BOUND]++;
        CHECK(qn_rng_below(rng, i, 1) == 0);
    }
    for (int i = 0; i < BOUND; i++)
        CHECK(abs(counts[i] - COUNT / BOUND) < 5 * 100);
    CHECK(qn_rng_below(rng, 3, UINT64_MAX) < UINT64_MAX);
}

/* Every place is hit once, and the order depends on the stream. */
static void test_permutation(void) {
    static const uint64_t sizes[] = {1, 2, 3, 4, 5, 16, 17, 255, 256, 257, 1000, 60000};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const uint64_t n = sizes[s];
        unsigned char *seen = calloc(n, 1);
        CHECK(seen != NULL);
        uint64_t n_new = 0, n_moved = 0, n_other = 0;
        for (uint64_t i = 0; seen && i < n; i++) {
            uint64_t place = qn_rng_permute(qn_rng_make(1, 2, 0), i, n);
            if (place < n && !seen[place]++)
                n_new++;
            n_moved += place != i;
            n_other += place != qn_rng_permute(qn_rng_make(1, 2, 1), i, n);
        }
        CHECK(n_new == n);
        if (n > 100) {
            CHECK(n_moved > n - 10);
            CHECK(n_other > n - 10);
        }
        free(seen);
    }
    /* Large sets need no table. */
    CHECK(qn_rng_permute(qn_rng_make(1, 2, 0), 123, (uint64_t)1 << 40) < (uint64_t)1 << 40);
}

int main(void) {
    test_published_vectors();
    test_hash();
    test_words_and_uniform();
    test_many();
    test_streams_differ();
    test_moments();
    test_below();
    test_permutation();
    return checks_finish();
}
