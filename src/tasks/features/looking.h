/* What a trained classifier makes of every sample of its data: features, its answers, and the
 * answers of layers that were fitted to features of the other samples alone, which tell a wrong
 * label from one that was learned by heart. For pages and lists; nothing is changed. */
#ifndef QN_TASKS_FEATURES_LOOKING_H
#define QN_TASKS_FEATURES_LOOKING_H

#include "quern/data.h"
#include "tasks/features/head_fit.h"

struct qn_task;
struct qn_trainer;

/* Samples in the order of splits, and within them. */
typedef struct qn_sample_looks {
    const qn_allocator *allocator;
    qn_features features; /* centred, of length 1 on average; the first view is the sample's */
    bool are_inputs;      /* they are the samples' own numbers */
    int n_classes;
    int64_t n[QN_SPLITS];
    float *chances;  /* (n, n_classes) what the network answers */
    float *held;     /* likewise, of layers that were fitted without the sample; null: a class has
                        a single one */
    bool is_fitted;  /* the network's own head was fitted to the training samples' features */
    qn_head_fit fit; /* of held */
} qn_sample_looks;

/* A classifier that is open, not for training, with features (QN_GIVES_FEATURES). */
typedef struct qn_looking {
    const struct qn_task *task;
    const qn_data_source *source;
    const qn_preparation *preparation;
    struct qn_trainer *trainer;
    qn_shape sample; /* of the network's input */
    int n_classes;
    const float *weight, *bias; /* of a head that was fitted to features that are kept; or null */
    bool (*should_stop)(void *user); /* may be null */
    void *user;
} qn_looking;

/* Copes with deinit after a failure, too. */
qn_status qn_looks_make(const qn_looking *looking, qn_sample_looks *looks);
void qn_looks_deinit(qn_sample_looks *looks);

#endif
