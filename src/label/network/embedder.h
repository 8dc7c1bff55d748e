/* A small convolutional network that turns samples into features in which classes are apart. It is
 * trained with two altered views of each sample: the two must be recognised as one among those of
 * the other samples (contrastive loss: Chen et al. 2020, "SimCLR", equation 1), and samples with a
 * label must be classified. Equal calls give equal bits, whatever the number of threads. What a
 * caller must store are the weights alone: every lesson begins with a fresh optimiser. */
#ifndef QN_LABEL_EMBEDDER_H
#define QN_LABEL_EMBEDDER_H

#include "quern/engine.h"

enum {
    QN_EMBEDDER_WIDTH = 64, /* features */
    QN_EMBEDDER_MANY = 32   /* samples that are embedded at once, where there are so many */
};

typedef struct qn_embedder qn_embedder;

typedef struct qn_embedder_options {
    const qn_allocator *allocator;
    qn_shape sample; /* (H, W, C); an axis of extent 1 is not looked along: series are (T, 1, C) */
    int n_outputs;   /* classes that may have labelled samples */
    int64_t n_pairs; /* samples of a training step */
    bool is_plain;   /* labels alone teach it, and views are no pairs */
    uint64_t seed;
    int n_threads; /* 0: the processors available */
} qn_embedder_options;

qn_status qn_embedder_create(const qn_embedder_options *options, qn_embedder **embedder);
void qn_embedder_destroy(qn_embedder *embedder);

/* Begins a lesson: the optimiser forgets. */
void qn_embedder_begin(qn_embedder *embedder);

/* A training step. x (2 n_pairs, H, W, C): sample i, and its other view at n_pairs + i; label
 * (2 n_pairs), below 0: none. */
qn_status qn_embedder_step(qn_embedder *embedder, const float *x, const int32_t *label,
                           float *loss);

/* Features z (n, QN_EMBEDDER_WIDTH) of x (n, H, W, C); n is 1 or QN_EMBEDDER_MANY. */
qn_status qn_embedder_embed(qn_embedder *embedder, const float *x, int n, float *z);

/* The weights, in an order that depends on the options alone. */
int qn_embedder_weight_count(const qn_embedder *embedder);
qn_stored_tensor qn_embedder_weight_at(const qn_embedder *embedder, int index);

/* Copies all weights to an array of so many numbers, and exchanges them with such an array. */
size_t qn_embedder_size(const qn_embedder *embedder);
void qn_embedder_copy_weights(const qn_embedder *embedder, float *weights);
void qn_embedder_swap_weights(qn_embedder *embedder, float *weights);

/* Memory that it holds. */
size_t qn_embedder_bytes(const qn_embedder *embedder);

/* Multiplications and additions of embedding a sample. */
double qn_embedder_flops(const qn_embedder *embedder);

#endif
