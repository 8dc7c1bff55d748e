/* What methods for comparison share, of rows as of windows of pictures: the nearest of points,
 * clusters of them (k-means), and labels that spread over neighbours. */
#ifndef QN_LABEL_POINTS_H
#define QN_LABEL_POINTS_H

#include "label/network/groups.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct qn_points {
    int n, d;
    const float *x;       /* (n, d) */
    const int32_t *state; /* (n); null: all of them count */
    int least;            /* points of a state below it are passed over */
} qn_points;

static inline bool qn_point_counts(const qn_points *p, int i) {
    return !p->state || p->state[i] >= p->least;
}

/* The largest of n numbers, the first of equal ones. */
int qn_largest(const float *v, int n);

/* The point nearest to x, and its squared distance; -1 and 3e38: there is none. */
int qn_points_nearest(const qn_points *p, const float *x, float *square);

enum { QN_POINTS_MOST_NEAR = 16 };

/* The points nearest to point i but itself, from the nearest on; -1 where there are fewer. */
void qn_points_neighbours(const qn_points *p, int i, int n_near, int32_t *near);

/* The squared distance that nineteen of twenty points have at most to another. room (n) */
float qn_points_reach(const qn_points *p, float *room);

/* ---- k-means: a step is both ---- */

/* Where each point is nearest: of (n); -1 for those passed over. */
void qn_points_assign(const qn_points *p, const qn_points *centres, int32_t *of);

/* means (k, d) of what is of each; that of none stays as it is. */
void qn_points_average(const qn_points *p, const int32_t *of, int k, float *means);

/* The class that most of n labelled points of a cluster have: name (k); -1: it has none. */
void qn_points_name(int n, const int32_t *of, const int32_t *label, int n_classes, int k,
                    int32_t *name);

/* ---- label spreading ---- */

typedef struct qn_spread {
    int n, n_labelled, n_classes, n_near;
    const int32_t *near;  /* (n, n_near), below 0: none */
    const int32_t *label; /* (n_labelled) */
} qn_spread;

/* A step: nine tenths of what the neighbours have, a tenth of the own label (Zhou et al. 2003,
 * "Learning with local and global consistency", each neighbour alike). before and now
 * (n, n_classes) may be the same: points then take what others have by now. */
void qn_spread_step(const qn_spread *s, const float *before, float *now);

#endif
