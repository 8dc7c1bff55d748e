/* Fine-tuning: which parts of a network train, their learning rates, and low-rank adapters.
 * Patterns match names of parameters and are separated by commas: "*" matches any characters,
 * including dots, "?" one. Frozen parameters get no gradient and no optimiser state, and the
 * graph does not compute any for them. */
#ifndef QUERN_TUNING_H
#define QUERN_TUNING_H

#include "quern/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All 0: everything trains. Texts must outlive the engine or trainer created with them. A
 * pattern that matches no name is an error that suggests some. A batch norm whose scale is
 * frozen normalises with its running statistics, also in training, and does not change them. */
typedef struct qn_tuning {
    const char *freeze; /* patterns of frozen parameters; null: none */
    /* Patterns of the only parameters that train; "bias": all biases and shifts, "norm": all
     * scales and shifts of norms, "head": those of the head. null: all, or none with adapters. A
     * given head always trains. */
    const char *train_only;
    /* "PATTERN=0.001": a learning rate that replaces the usual one, with the same schedule;
     * "PATTERN=x0.1": a factor of it. The last match wins; null: none. */
    const char *rates;
    /* Patterns of the output layer: the last match counts, "*" is the last layer. Its parameters
     * are marked (qn_stored_tensor.is_head). null: only train_only may search for it. */
    const char *head;
    /* Adapters (Hu et al. 2021, section 4.1): each linear layer and 1x1 convolution whose name,
     * or whose weight's name, matches computes W x + alpha / rank * B A x. A (rank, C) is
     * initialised from a normal distribution with deviation 1 / sqrt(C), B (K, rank) with zeros;
     * both train while W is frozen. */
    const char *lora_layers;
    int64_t lora_rank; /* 0: no adapters */
    double lora_alpha; /* 0: the rank, so that the factor is 1 */
} qn_tuning;

#ifdef __cplusplus
}
#endif
#endif
