/* A bounded memory of labelled samples, balanced by class: a sample of a rare class replaces one of
 * the largest class; one of a class that fills its share is kept with the chance that makes what is
 * kept a uniform draw of all that came (Chrysakis and Moens, "Online continual learning from
 * imbalanced data", ICML 2020, algorithm 1). What is kept depends on seed and order
 * alone. Whoever fills a memory from what was kept sets x, labels, n, counts, seen and full. */
#ifndef QN_LEARN_SAMPLES_H
#define QN_LEARN_SAMPLES_H

#include "quern/base.h"

/*     0 <= n <= capacity; counts[c] of the labels are c; full[c] once c was a largest class */
typedef struct qn_sample_memory {
    const qn_allocator *allocator;
    int64_t capacity, n, n_values;
    int n_classes;
    uint64_t seed;
    float *x;        /* (capacity, n_values) */
    int32_t *labels; /* (capacity) */
    int64_t *counts; /* (n_classes) kept */
    int64_t *seen;   /* (n_classes) that came */
    bool *full;      /* (n_classes) */
} qn_sample_memory;

qn_status qn_sample_memory_init(const qn_allocator *allocator, int64_t capacity, int64_t n_values,
                                int n_classes, uint64_t seed, qn_sample_memory *memory);
void qn_sample_memory_deinit(qn_sample_memory *memory);

/* Offers a sample. Returns its place, or -1 if it is not kept. */
int64_t qn_sample_memory_offer(qn_sample_memory *memory, const float *x, int32_t label);

/* Takes a sample out; the last one comes to its place. */
void qn_sample_memory_remove(qn_sample_memory *memory, int64_t place);

#endif
