/* Radial clusters: the components of a density of samples. A cluster has a centre and a
 * distribution of the squared distance from it, u = |x - centre|^2 + smooth: a gamma distribution
 * of shape a and scale theta (Kotz 1975, "Multivariate distributions at a cross road"):
 *     ln p(x) = constant + (a - d/2) ln u - u / theta
 * a = d/2 is a spherical normal distribution; smaller a give a peak and longer tails: a = 1/2 is a
 * normally distributed length in a random direction. Clusters are stored side by side in lanes, so
 * that loops over them become vector code; the bits do not depend on the vectors' width. */
#ifndef QN_LABEL_CLUSTERS_H
#define QN_LABEL_CLUSTERS_H

#include "quern/base.h"

#include <stdint.h>

enum { QN_CLUSTER_LANES = 8, QN_MAX_LANES = 1024 };

/* n <= capacity, a multiple of QN_CLUSTER_LANES; lanes from n on have a weight of 0. Every row has
 * capacity numbers; all of them lie in one block that begins at centre. */
typedef struct qn_clusters {
    int d, n, capacity;
    float *centre;   /* (d, capacity) */
    float *shape;    /* a */
    float *scale;    /* theta */
    float *smooth;   /* added to squared distances */
    float *constant; /* of the logarithm of the density */
    float *weight;   /* share of all samples */
} qn_clusters;

/* Floats of the block of a set. */
size_t qn_clusters_floats(int d, int capacity);

/* Lays a set over a block of that many floats. */
void qn_clusters_lay(qn_clusters *set, int d, int capacity, float *block);

/* No clusters, and lanes that can be computed with. */
void qn_clusters_clear(qn_clusters *set);

/* What samples say of each cluster, in lanes as the clusters are; one block, as theirs. */
typedef struct qn_cluster_sums {
    int d, capacity;
    float *count;      /* of members, each by its probability */
    float *pull;       /* the sum of what members weigh in the centre */
    float *pulled;     /* (d, capacity) the members by it */
    float *square;     /* sum of u */
    float *log_square; /* sum of ln u */
    float *gain;       /* of the logarithm of the likelihood, by having the cluster */
} qn_cluster_sums;

size_t qn_cluster_sums_floats(int d, int capacity);
void qn_cluster_sums_lay(qn_cluster_sums *sums, int d, int capacity, float *block);
void qn_cluster_sums_clear(qn_cluster_sums *sums);

/* What one sample has to do with each cluster. */
typedef struct qn_cluster_view {
    float square[QN_MAX_LANES];     /* u */
    float log_square[QN_MAX_LANES]; /* ln u */
    float density[QN_MAX_LANES];    /* weight * p(x), all of them times e^-base */
    float base;
} qn_cluster_view;

/* Looks at a sample; base is at least least_base (the logarithm of another density to be compared
 * with). The sum of the densities of all lanes comes back. */
float qn_clusters_look(const qn_clusters *set, const float *x, float least_base,
                       qn_cluster_view *view);

/* Adds a sample to the sums: part (capacity) is its share in each cluster. */
void qn_cluster_sums_add(qn_cluster_sums *sums, const qn_clusters *set, const float *x,
                         const qn_cluster_view *view, const float *part);

/* What is believed of a cluster before its members are seen. */
typedef struct qn_cluster_prior {
    float spread; /* ln of the mean of u minus the mean of ln u */
    float count;  /* members that it is worth */
    float smooth; /* part of the mean of u that is added to squared distances */
    float least;  /* of the mean of u: no cluster is a point */
} qn_cluster_prior;

/* Fits cluster k to the sums: its centre, then its shape and scale. */
void qn_cluster_fit(qn_clusters *set, int k, const qn_cluster_sums *sums,
                    const qn_cluster_prior *prior);

/* Sets shape and scale from the mean of u and the spread, and the constant that belongs to them. */
void qn_cluster_set(qn_clusters *set, int k, float mean_square, float spread,
                    const qn_cluster_prior *prior);

/* The spread of a cluster as it is: the inverse of what qn_cluster_set does. */
float qn_cluster_spread(const qn_clusters *set, int k);

/* Copies cluster k to place `to` of another set of the same d; weight and all. */
void qn_cluster_copy(const qn_clusters *set, int k, qn_clusters *other, int to);

/* Natural logarithm of a positive number of ordinary size, at most 3 ulp off. */
float qn_ln(float x);

#endif
