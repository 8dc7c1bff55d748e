/* The density of known classes from labelled samples themselves (Parzen 1962, "On estimation of a
 * probability density function and mode"): the mean of kernels, one around each sample. For classes
 * of no simple shape, where clusters are too coarse. The kernel is radial, as clusters are, and all
 * samples share it. */
#ifndef QN_LABEL_EXAMPLES_H
#define QN_LABEL_EXAMPLES_H

#include "label/clusters.h"

enum { QN_MOST_EXAMPLES = 1024 };

/* n <= capacity, a multiple of QN_CLUSTER_LANES, 0: none; lanes from n on have a weight of 0. All
 * arrays lie in one block that begins at share. */
typedef struct qn_examples {
    int n, d, capacity;
    float *share;       /* (1) of the density of known classes; the rest is the clusters' */
    float *limit;       /* (1) ln of the odds of known to new, below which a sample is new */
    float *weight;      /* (capacity) of an example, 1 in all */
    float *class_of;    /* (capacity) whole numbers */
    float *alone;       /* (capacity) ln of the known density at an example, by all others */
    qn_clusters kernel; /* its lane 0 */
    float *points;      /* (capacity / QN_CLUSTER_LANES, d, QN_CLUSTER_LANES) */
} qn_examples;

/* Floats of the block of a set, and laying a set over one. n of at most QN_MOST_EXAMPLES. */
size_t qn_examples_floats(int d, int n);
void qn_examples_lay(qn_examples *examples, int d, int n, float *block);
void qn_examples_clear(qn_examples *examples);

/* Adds rows x (n, d) of a class; each has `weight`. There is room for them. */
void qn_examples_add(qn_examples *examples, int class, const float *x, int n, float weight);

/* Fits the kernel: what foretells each example best from the others of its class. */
void qn_examples_fit(qn_examples *examples, const qn_cluster_prior *prior);

/* Looks at a sample: part (n_classes) receives the density of each class, all of them times
 * e^-*base. *base is raised to the largest logarithm if that is above it. The sum comes back. */
float qn_examples_look(const qn_examples *examples, const float *x, int n_classes, float *base,
                       float *part);

/* Copies example i to x (d). */
void qn_examples_get(const qn_examples *examples, int i, float *x);

/* The limit of the odds below which a sample is new, by how those of examples (each by all others)
 * and those of the last samples are distributed; both are put in order. It costs least between what
 * weighs both kinds of mistakes by their numbers and by their rates. Densities alone would not do:
 * in many dimensions their ratio is far from calibrated. Of few last samples, one that loses one of
 * twenty known ones. */
float qn_examples_find_limit(float *known, int n_known, float *all, int n_all);

#endif
