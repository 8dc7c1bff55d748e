/* See rng.h. */
#include "base/rng.h"

#include <math.h>
#include <string.h>

uint64_t qn_hash_text(const char *text) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        hash = (hash ^ *c) * 0x100000001b3u;
    return hash;
}

/* The finaliser of SplitMix64: every input bit moves every output bit. */
static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t qn_hash_begin(size_t n) {
    return mix(n);
}

uint64_t qn_hash_add(uint64_t hash, const void *bytes, size_t n) {
    const unsigned char *from = bytes;
    for (size_t i = 0; i < n; i += sizeof hash) {
        uint64_t word = 0;
        memcpy(&word, from + i, n - i < sizeof word ? n - i : sizeof word);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
    }
    return hash;
}

uint64_t qn_hash_end(uint64_t hash) {
    return mix(hash);
}

uint64_t qn_hash_bytes(const void *bytes, size_t n) {
    return qn_hash_end(qn_hash_add(qn_hash_begin(n), bytes, n));
}

qn_rng qn_rng_make(uint64_t seed, uint64_t purpose, uint64_t step) {
    return (qn_rng){.key = mix(mix(seed + 0x9e3779b97f4a7c15u) ^ purpose), .step = step};
}

/* The rounds of AT_ONCE blocks side by side: one waits for its products, all of them do not. */
enum { AT_ONCE = 4, WORDS_AT_ONCE = 256 };

static inline __attribute__((always_inline)) void make_blocks(qn_rng rng, uint64_t block, int n,
                                                              uint32_t *words) {
    uint32_t x0[AT_ONCE], x1[AT_ONCE], x2[AT_ONCE], x3[AT_ONCE];
    uint32_t k0 = (uint32_t)rng.key, k1 = (uint32_t)(rng.key >> 32);
    for (int i = 0; i < n; i++) {
        x0[i] = (uint32_t)(block + (uint64_t)i);
        x1[i] = (uint32_t)((block + (uint64_t)i) >> 32);
        x2[i] = (uint32_t)rng.step;
        x3[i] = (uint32_t)(rng.step >> 32);
    }
    for (int round = 0; round < 10; round++) {
#pragma GCC unroll 4
        for (int i = 0; i < n; i++) {
            const uint64_t p0 = (uint64_t)0xd2511f53u * x0[i];
            const uint64_t p1 = (uint64_t)0xcd9e8d57u * x2[i];
            x0[i] = (uint32_t)(p1 >> 32) ^ x1[i] ^ k0;
            x1[i] = (uint32_t)p1;
            x2[i] = (uint32_t)(p0 >> 32) ^ x3[i] ^ k1;
            x3[i] = (uint32_t)p0;
        }
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    for (int i = 0; i < n; i++) {
        words[4 * i] = x0[i];
        words[4 * i + 1] = x1[i];
        words[4 * i + 2] = x2[i];
        words[4 * i + 3] = x3[i];
    }
}

void qn_rng_block(qn_rng rng, uint64_t block, uint32_t words[4]) {
    make_blocks(rng, block, 1, words);
}

void qn_rng_blocks(qn_rng rng, uint64_t block, size_t n, uint32_t *words) {
    size_t i = 0;
    for (; i + AT_ONCE <= n; i += AT_ONCE)
        make_blocks(rng, block + i, AT_ONCE, words + 4 * i);
    for (; i < n; i++)
        make_blocks(rng, block + i, 1, words + 4 * i);
}

void qn_rng_uniforms(qn_rng rng, uint64_t block, size_t n, float *to) {
    uint32_t words[WORDS_AT_ONCE];
    for (size_t i = 0; i < n; i += WORDS_AT_ONCE) {
        const size_t count = n - i < WORDS_AT_ONCE ? n - i : WORDS_AT_ONCE;
        qn_rng_blocks(rng, block + i / 4, (count + 3) / 4, words);
        for (size_t j = 0; j < count; j++)
            to[i + j] = qn_rng_uniform(words[j]);
    }
}

uint32_t qn_rng_word(qn_rng rng, uint64_t index) {
    uint32_t words[4];
    qn_rng_block(rng, index / 4, words);
    return words[index % 4];
}

float qn_rng_uniform(uint32_t word) {
    return (float)(word >> 8) * 0x1p-24f;
}

double qn_rng_normal(qn_rng rng, uint64_t index) {
    uint32_t words[4];
    qn_rng_block(rng, index / 2, words);
    /* (0, 1], so that the logarithm is finite. */
    double radius = sqrt(-2.0 * log(((double)words[index % 2 * 2] + 1.0) * 0x1p-32));
    double angle = 6.283185307179586476925286766559 * (double)words[index % 2 * 2 + 1] * 0x1p-32;
    return radius * cos(angle);
}

uint64_t qn_rng_below(qn_rng rng, uint64_t index, uint64_t bound) {
    uint32_t words[4];
    qn_rng_block(rng, index / 2, words);
    uint64_t word = (uint64_t)words[index % 2 * 2] << 32 | words[index % 2 * 2 + 1];
    return (uint64_t)((unsigned __int128)word * bound >> 64);
}

uint64_t qn_rng_permute(qn_rng rng, uint64_t index, uint64_t n) {
    if (n < 2)
        return index;
    int half_bits = 1;
    while (half_bits < 32 && (n - 1) >> (2 * half_bits))
        half_bits++;
    const uint64_t mask = ((uint64_t)1 << half_bits) - 1;
    do {
        uint64_t left = index >> half_bits, right = index & mask;
        for (uint64_t round = 0; round < 4; round++) {
            uint64_t next = left ^ (mix(right ^ rng.key ^ mix(rng.step * 4 + round)) & mask);
            left = right;
            right = next;
        }
        index = left << half_bits | right;
    } while (index >= n);
    return index;
}
