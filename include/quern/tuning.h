/* Fine-tuning: which parts of a network are trained, how fast, and low-rank adapters beside its
 * layers. Patterns are over the names of parameters, with commas between: "*" stands for any
 * characters, dots too, and "?" for one. Whatever is not trained gets no gradient and no optimiser
 * state, and nothing in the graph works one out. */
#ifndef QUERN_TUNING_H
#define QUERN_TUNING_H

#include "quern/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All 0: everything trains. Texts must outlive the engine or trainer that is made with them; a
 * pattern that fits no name is an error that names some. A batch norm whose scale is not trained
 * normalises with its running statistics, which then stay as they are, in training too. */
typedef struct qn_tuning {
    const char *freeze; /* patterns of parameters that stay as they are; null: none */
    /* Patterns of those that train, all others stay; "bias": all biases and shifts, "norm": all
     * scales and shifts of norms, "head": those of the head. null: all, or with adapters none. A
     * head that is given trains in any case. */
    const char *train_only;
    /* "PATTERN=0.001": a rate instead of the usual one, with the same schedule; "PATTERN=x0.1": a
     * factor of it. The last that fits a parameter counts; null: none. */
    const char *rates;
    /* Patterns of the layer that makes the outputs, the last that fits, "*": the last of all; its
     * parameters are told apart then (qn_stored_tensor.is_head). null: only train_only may look for
     * it. */
    const char *head;
    /* Adapters (Hu et al. 2021, section 4.1): each linear layer and 1x1 convolution whose name, or
     * its weight's, fits these patterns computes W x + alpha / rank * B A x, where A (rank, C)
     * starts normal with deviation 1 / sqrt(C), B (K, rank) zero, and both train while W does not.
     */
    const char *lora_layers;
    int64_t lora_rank; /* 0: no adapters */
    double lora_alpha; /* 0: the rank, so that the factor is 1 */
} qn_tuning;

#ifdef __cplusplus
}
#endif
#endif
