/* Counter-based random numbers: a value is a pure function of a key and a counter, so any element
 * can be computed again, in any order, on any thread. Philox 4x32 with 10 rounds (Salmon et al.,
 * "Parallel random numbers: as easy as 1, 2, 3", SC 2011, section 3.3). */
#ifndef QN_BASE_RNG_H
#define QN_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

/* A stream: what the numbers are for. */
typedef struct qn_rng {
    uint64_t key;  /* mixed from seed and purpose */
    uint64_t step; /* time in that stream: a training step, an epoch */
} qn_rng;

/* 64-bit FNV-1a of a text: the stable number of a stable name. */
uint64_t qn_hash_text(const char *text);

/* A number that tells one content from another, by words of 8 bytes: against mistakes, not against
 * whoever wants two contents to look the same. */
uint64_t qn_hash_bytes(const void *bytes, size_t n);

/* The same a piece at a time: begin with the length of all, add pieces of a multiple of 8 bytes but
 * for the last, end. */
uint64_t qn_hash_begin(size_t n);
uint64_t qn_hash_add(uint64_t hash, const void *bytes, size_t n);
uint64_t qn_hash_end(uint64_t hash);

/* The stream of a purpose (the hash of a node's or parameter's name) under a seed. */
qn_rng qn_rng_make(uint64_t seed, uint64_t purpose, uint64_t step);

/* Four random words of block `block` of a stream. */
void qn_rng_block(qn_rng rng, uint64_t block, uint32_t words[4]);

/* n blocks from `block` on: words (n, 4). */
void qn_rng_blocks(qn_rng rng, uint64_t block, size_t n, uint32_t *words);

/* n numbers uniform in [0, 1), of the words of `block` and those after it. */
void qn_rng_uniforms(qn_rng rng, uint64_t block, size_t n, float *to);

/* Word `index` of a stream: word index % 4 of block index / 4. */
uint32_t qn_rng_word(qn_rng rng, uint64_t index);

/* Uniform in [0, 1) with 24 bits, from one word. */
float qn_rng_uniform(uint32_t word);

/* Element `index` of a stream of standard normals (Box and Muller on two words each). */
double qn_rng_normal(qn_rng rng, uint64_t index);

/* Number `index` of a stream, uniform in [0, bound); bound > 0. */
uint64_t qn_rng_below(qn_rng rng, uint64_t index, uint64_t bound);

/* Where element `index` of n goes under the stream's permutation of [0, n): a Feistel network over
 * the next even power of two with cycle walking, so that no table is kept. index < n. */
uint64_t qn_rng_permute(qn_rng rng, uint64_t index, uint64_t n);

#endif
