/* The last layer of a network whose body stays as it is, fitted to the body's features at once:
 * softmax regression with a quadratic penalty (multinomial logistic regression), whose minimum does
 * not depend on the order of samples or on random numbers, by L-BFGS (Nocedal 1980). The penalty is
 * chosen by cross-validation; what was held out there also gives the temperature (Guo et al. 2017)
 * that makes chances honest, and the chance below which an answer is unsure. All by one thread, in
 * a fixed order: equal features give equal bits. Leaves out: weights of classes. */
#ifndef QN_TASKS_FEATURES_HEAD_FIT_H
#define QN_TASKS_FEATURES_HEAD_FIT_H

#include "base/memory.h"

/* Features of samples, of which each is seen in several views. */
typedef struct qn_features {
    int64_t n, n_views, width;
    float *x;   /* (n, n_views, width) */
    int32_t *y; /* (n) classes */
} qn_features;

typedef struct qn_head_fit {
    double decay;       /* the penalty that was chosen, of features of length 1 on average */
    double temperature; /* that the outputs were divided by; 1: not known */
    double unsure;      /* an answer of less chance is unsure; 0: not known */
    int n_folds; /* of the cross-validation; 0: a class has one sample, nothing was held out */
    double accuracy, calibration_error; /* of what was held out */
    double answered;                    /* the part of it that is not unsure */
} qn_head_fit;

/* weight (n_classes, width) and bias (n_classes): the layer, the temperature in it; null, both: it
 * is not wanted. held (n, n_classes; may be null): chances of each sample by a layer that was
 * fitted without it, where fit->n_folds is not 0. Moves and scales features.x.
 * QN_ERROR_INTERRUPTED: should_stop (may be null) said so. */
qn_status qn_head_fit_find(const qn_allocator *allocator, qn_features *features, int n_classes,
                           bool (*should_stop)(void *user), void *user, float *weight, float *bias,
                           float *held, qn_head_fit *fit);

#endif
