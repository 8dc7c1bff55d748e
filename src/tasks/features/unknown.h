/* Things that are none of the classes: a picture is unknown where its features are farther from the
 * mean of every class than those of nearly all training pictures are from the mean of their own,
 * which is found without them. A distance counts each feature in deviations within classes, which
 * all classes share (a Mahalanobis distance with a diagonal covariance; Lee et al. 2018). The means
 * are kept in a checkpoint's settings, 8 bits a number. Leaves out: more classes than
 * QN_KNOWN_MOST_CLASSES, and data of which every class has a single picture. */
#ifndef QN_TASKS_FEATURES_UNKNOWN_H
#define QN_TASKS_FEATURES_UNKNOWN_H

#include "quern/checkpoint.h"
#include "tasks/features/head_fit.h"

enum { QN_KNOWN_MOST_CLASSES = 256 };

/* Setting of what is known of classes, and of the distance from which a picture is unknown. */
#define QN_KNOWN_MEANS   "known.means"
#define QN_UNKNOWN_ABOVE "known.distance"

typedef struct qn_known_region {
    int n_classes;
    int64_t width;
    float *means; /* (n_classes, width), in deviations */
    float *scale; /* (width): 1 / deviation */
    double most;  /* a picture farther from all means is unknown */
} qn_known_region;

/* Finds the region of features as the network gives them (their first view), and keeps it in the
 * settings; where there can be none, nothing is kept. */
qn_status qn_known_region_keep(const qn_allocator *allocator, const qn_features *features,
                               int n_classes, qn_metadata *settings);

/* Reads it: n_classes 0 where the settings have none. What they have may be anybody's. */
qn_status qn_known_region_read(const qn_allocator *allocator, const qn_metadata *settings,
                               qn_known_region *region);
void qn_known_region_deinit(const qn_allocator *allocator, qn_known_region *region);

/* The distance to the nearest mean. */
double qn_known_region_distance(const qn_known_region *region, const float *features);

#endif
