/* A stream of known density: random radial basis functions. A centroid has a centre in the unit
 * cube, a class, a weight and a deviation; a sample is its centre plus a random direction with a
 * normally distributed length. So the best possible labels are known too. */
#ifndef QN_LABEL_RBF_H
#define QN_LABEL_RBF_H

#include "base/rng.h"

#include <stdbool.h>

enum { QN_RBF_FEATURES = 20, QN_RBF_CENTROIDS = 20, QN_RBF_CLASSES = 8, QN_RBF_KNOWN = 2 };

/* Extents of 0 are drawn: 3 to 20 features, 4 to 8 classes, 10 to 20 centroids. */
typedef struct qn_rbf_options {
    uint64_t seed;
    int n_features, n_classes, n_centroids;
    double speed;     /* that each centroid moves by between two samples, in a direction of its own,
                         off the walls of the cube */
    bool nothing_new; /* the stream has known classes alone */
} qn_rbf_options;

/* Classes 0 and 1 are known: each has a centroid, both together a tenth to nine of all samples. */
typedef struct qn_rbf {
    qn_rng rng;
    uint64_t drawn;
    int n_features, n_classes, n_centroids;
    double speed, new_share;
    double centre[QN_RBF_CENTROIDS][QN_RBF_FEATURES], heading[QN_RBF_CENTROIDS][QN_RBF_FEATURES];
    double deviation[QN_RBF_CENTROIDS], weight[QN_RBF_CENTROIDS];
    int class_of[QN_RBF_CENTROIDS];
} qn_rbf;

void qn_rbf_init(qn_rbf *rbf, const qn_rbf_options *options);

/* Draws a sample x (n_features); known_only: of the classes 0 and 1. Returns its class. */
int qn_rbf_draw(qn_rbf *rbf, bool known_only, float *x);

/* Time goes on by one sample. */
void qn_rbf_move(qn_rbf *rbf);

/* Density of each class at x (n_classes), all times one factor. */
void qn_rbf_densities(const qn_rbf *rbf, const float *x, double *density);

#endif
