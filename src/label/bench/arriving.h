/* The benchmark of labelling pictures: some classes are known by a few labelled samples each, and
 * the others appear in the stream one after another, at equal distances. How pictures look may
 * drift. A label is right if it is the known class of its sample; found classes are matched one to
 * one with the new ones, so that most are right (Kuhn 1955, the assignment problem). */
#ifndef QN_LABEL_ARRIVING_H
#define QN_LABEL_ARRIVING_H

#include "label/bench/score.h"
#include "quern/graph.h"
#include "quern/label.h"

enum {
    QN_ARRIVING_LABELLED = 50, /* of each known class */
    QN_ARRIVING_STREAM = 6000,
    QN_ARRIVING_LEAST = 100, /* a stream is not made shorter for small data sets */
    QN_ARRIVING_MOST_CLASSES = 64
};

/* The data set: bytes (n, sample). */
typedef struct qn_arriving_set {
    qn_shape sample;
    int n, n_classes;
    const uint8_t *bytes;
    const int32_t *label;
} qn_arriving_set;

typedef struct qn_arriving_options {
    const qn_allocator *allocator; /* null: the heap */
    uint64_t class_seed;           /* draws the known classes */
    uint64_t seed;                 /* draws the samples and their order, and is the labeller's */
    int n_known;                   /* 0: 3 of 5 classes */
    int n_labelled; /* of each known class; 0: QN_ARRIVING_LABELLED, or a third of the smallest */
    int n_stream;   /* at most; 0: QN_ARRIVING_STREAM */
    bool has_drift; /* pictures turn by up to 40 degrees, get half as bright, and noisy */
    int n_threads;  /* of networks */
} qn_arriving_options;

/* Right labels in per cent. */
typedef struct qn_arriving_part {
    double whole;   /* of the stream */
    double emerged; /* of its part since the last class appeared */
} qn_arriving_part;

enum { QN_ARRIVING_MOST_METHODS = 16 };

typedef struct qn_arriving_method {
    const char *name;
    bool is_other; /* than the labeller, and not told how many classes are new */
    qn_arriving_part part;
    qn_label_score score; /* which samples are taken for new ones */
} qn_arriving_method;

typedef struct qn_arriving_trial {
    int n_known, n_classes, n_stream, n_found;
    double known_share; /* of the stream, in per cent */
    int n_methods;
    qn_arriving_method methods[QN_ARRIVING_MOST_METHODS]; /* the labeller's own are the first */
    double all_ns;    /* time of the labeller, lessons included */
    double answer_ns; /* median of an answer */
    double piece_ns;  /* the longest piece of a lesson */
} qn_arriving_trial;

qn_status qn_label_try_arriving(const qn_arriving_set *set, const qn_arriving_options *options,
                                qn_arriving_trial *trial);

#endif
