/* Fits radial clusters to samples in addition to a given density, and finds their number (greedy
 * expectation-maximisation: Verbeek, Vlassis and Kroese 2003, "Efficient greedy learning of
 * Gaussian mixture models"). Candidates start where samples are denser than the model predicts;
 * each is fitted alone against the model, and the best joins it if the gain in likelihood exceeds
 * the penalty for its parameters. */
#ifndef QN_LABEL_GROW_H
#define QN_LABEL_GROW_H

#include "base/rng.h"
#include "label/clusters.h"

/* Samples, and what explains them besides the clusters. */
typedef struct qn_grow_samples {
    int n, d;
    const float *x;    /* (n, d) */
    const float *rest; /* (n) ln of the density of the rest; null: there is none */
    float rest_weight; /* its share of all samples; changed by fits */
} qn_grow_samples;

/* Memory for one fit at a time. */
typedef struct qn_grow_space {
    int most_samples, d, capacity;
    qn_cluster_sums sums; /* of capacity lanes */
    qn_clusters tried;    /* QN_CLUSTER_LANES lanes */
    float *model;         /* (most_samples) ln of the density of rest and clusters */
    float *distance;      /* (most_samples) */
} qn_grow_space;

size_t qn_grow_space_floats(int most_samples, int d, int capacity);
void qn_grow_space_lay(qn_grow_space *space, int most_samples, int d, int capacity, float *block);

/* Steps of expectation and maximisation over clusters first to n - 1 of the set, with the weights
 * of all. Returns the logarithm of the likelihood before the last step. */
double qn_grow_fit(qn_clusters *set, int first, qn_grow_samples *samples, int steps,
                   const qn_cluster_prior *prior, qn_grow_space *space);

/* One round: looks at `looks` samples drawn by rng, adds up to most_added clusters. Returns how
 * many were added; they are the last of the set, their weights taken from all others'. */
int qn_grow_add(qn_clusters *set, qn_grow_samples *samples, int looks, int most_added, float price,
                qn_rng rng, const qn_cluster_prior *prior, qn_grow_space *space);

/* ln of the density of all clusters and the rest for each sample, into space->model. */
void qn_grow_model(const qn_clusters *set, const qn_grow_samples *samples, qn_grow_space *space);

#endif
