/* Finds the samples of a stream that belong to no known class. Features are divided into small
 * clusters. One is new if it has far fewer labelled samples than its size foretells: labelled
 * samples are a fixed part of their class wherever the class is dense (positive and unlabelled
 * learning). Where the stream had as many samples before, and they were taken for known ones, it
 * has to have fewer still. New clusters are joined to groups at the distance that separates
 * clusters of equal and of different known classes best. */
#ifndef QN_LABEL_GROUPS_H
#define QN_LABEL_GROUPS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    QN_GROUPS_CLUSTERS = 30,
    QN_GROUPS_MOST = 100,   /* clusters that there may be, if so many are wanted */
    QN_GROUPS_LEAST = 25,   /* samples of a new group */
    QN_GROUPS_MOVES = 20,   /* of the clusters' centres */
    QN_GROUPS_PIECE = 30000 /* distances that a piece of work measures, about */
};

/* Samples: the first n_labelled have a known class. */
typedef struct qn_group_samples {
    int n, n_labelled, d, n_classes;
    int k;                  /* clusters, at most QN_GROUPS_MOST; 0: QN_GROUPS_CLUSTERS */
    int moves;              /* of the centres, at most; 0: QN_GROUPS_MOVES */
    const float *z;         /* (n, d) whitened */
    const int32_t *label;   /* (n_labelled) 0 to n_classes - 1 */
    const int32_t *history; /* (n) what an unlabelled sample is, one of the following; may be null
                               where only clusters and doubts are wanted */
    uint64_t seed;
} qn_group_samples;

/* Whether a sample is of the latest ones, or came before them, and was taken for what. */
enum { QN_HISTORY_LATEST, QN_HISTORY_KNOWN, QN_HISTORY_FOUND };

typedef struct qn_groups {
    int n_drawn, move, n_assigned; /* centres, moves, and samples of the next one, so far */
    bool has_changed;
    int k;                                                  /* clusters */
    int n;                                                  /* groups of new ones */
    float *centre;                                          /* (k, d) */
    int32_t *of;                                            /* (n samples) cluster of a sample */
    int32_t size[QN_GROUPS_MOST], labelled[QN_GROUPS_MOST]; /* unlabelled and labelled */
    int32_t latest[QN_GROUPS_MOST], before[QN_GROUPS_MOST]; /* and known, of those */
    int32_t class[QN_GROUPS_MOST]; /* of most labels in it, or of the nearest that has some */
    bool is_new[QN_GROUPS_MOST];
    int32_t group[QN_GROUPS_MOST]; /* of new clusters, from 0; -1: none */
} qn_groups;

/* The squared distance of two points of d numbers. */
float qn_square_distance(const float *a, const float *b, int d);

/* Fills groups, whose arrays are the caller's, in pieces: clusters, until qn_groups_go_on says that
 * no more is left, and which are new. room (n + n_classes * QN_GROUPS_MOST), kept between them. */
void qn_groups_begin(qn_groups *groups, const qn_group_samples *samples);
bool qn_groups_go_on(qn_groups *groups, const qn_group_samples *samples, float *room);
void qn_groups_finish(qn_groups *groups, const qn_group_samples *samples, float *room);

/* All of it. */
void qn_groups_find(qn_groups *groups, const qn_group_samples *samples, float *room);

/* Of clusters that have been moved, instead of finishing: how many unlabelled samples of each one
 * cannot be told to be of its class, doubt (k), as it has fewer labelled ones than they foretell;
 * and the squared distance at which centres are of one class. */
void qn_groups_doubt(qn_groups *groups, const qn_group_samples *samples, float *room, float *doubt,
                     float *joining);

/* How alike clusters with centres (k, d) are, from 0 to 1, by their distance beside that of the
 * sixth next: likeness (k, stride). */
void qn_groups_compare(int k, int d, const float *centre, int stride, float *likeness);

#endif
