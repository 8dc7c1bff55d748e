/* The parts of a labeller that its files share. Three sets of clusters: the known classes as
 * learned, the known classes as tracked, and the found classes. Of the two sets of known classes,
 * the one that predicted the last samples better is used for answers. Beside those as learned there
 * may be examples: labelled samples that predict others better than clusters do.
 *
 *     fresh cluster 0 represents all new samples without a cluster
 *     n_window <= QN_LABEL_WINDOW, window_at < QN_LABEL_WINDOW
 *     labels of found classes: n_known + serial, in the order in which they were found */
#ifndef QN_LABEL_LABELLER_H
#define QN_LABEL_LABELLER_H

#include "base/memory.h"
#include "label/columns.h"
#include "label/examples.h"
#include "label/grow.h"
#include "quern/label.h"

enum {
    QN_LABEL_WINDOW = 1000,        /* samples that are kept */
    QN_LABEL_FRESH = 32,           /* lanes of found clusters */
    QN_LABEL_CLASS_SAMPLES = 2000, /* of a known class that are looked at */
    QN_LABEL_STAGES = 6            /* of a refit */
};

/* A class as it is shown. */
typedef struct qn_label_record {
    char name[QN_LABEL_NAME];
    int64_t serial; /* of found classes; -1: a free place */
    int64_t n_members, first, last;
} qn_label_record;

struct qn_labeller {
    const qn_allocator *allocator;
    int d, n_known, capacity; /* lanes of the sets of known classes */
    qn_label_columns columns; /* of rows; d is their features */
    uint64_t seed;
    float *block; /* (n_floats) all that follows, in this order */
    size_t n_floats;
    float *shift, *factor; /* (d) a feature is (x - shift) * factor */
    float *turn; /* (d, d) what scaled features are multiplied by (turn.h); null: nothing */
    float *step; /* (2, d) of numbers on steps, and one of them (blur.h); step 0: others */
    qn_clusters origin, known, fresh;
    float *window;       /* (QN_LABEL_WINDOW, d), a ring */
    float *rest;         /* (QN_LABEL_WINDOW) ln of the density of the known classes */
    float *spread;       /* (1) of the known clusters, ln mean u - mean ln u */
    float *known_weight; /* (1) share of known classes */
    float *lead;         /* (1) by how much following foretells better, in logarithms */
    float *scratch;      /* no state: what fits need */
    qn_grow_space space;
    int32_t owner[QN_MAX_LANES];        /* class of a known cluster */
    int32_t place[QN_LABEL_FRESH];      /* of a fresh cluster's class in found */
    int32_t n_window, window_at, stage; /* stage of the refit under way; 0: none */
    int64_t n_samples, n_found;         /* n_found: serials given so far */
    float *example_block;               /* (n_example_floats) state as well; null: no examples */
    size_t n_example_floats;
    qn_examples examples;     /* answer beside the clusters of origin */
    qn_label_record *records; /* (n_known) known classes, then (QN_LABEL_MAX_NEW) found ones */
    qn_label_place where;
    struct qn_label_net *net; /* labels samples that need a network (network/net.h); then block is
                                 empty. Null: none */
};

/* A labeller with its memory and no content. */
qn_status qn_labeller_make(const qn_allocator *allocator, int d, int n_known, int capacity,
                           qn_labeller **labeller);

/* One without memory for clusters: for a network. */
qn_status qn_labeller_make_empty(const qn_allocator *allocator, int n_known,
                                 qn_labeller **labeller);

/* Names the known classes. */
void qn_labeller_begin_records(qn_labeller *labeller, const qn_label_options *options);

/* Fits the known classes' clusters and all that follows from the labelled samples, whose x are
 * features. */
qn_status qn_labeller_learn(qn_labeller *labeller, const qn_label_options *options);

/* The features (d) of a scaled sample. */
void qn_labeller_unscale(const qn_labeller *labeller, const float *scaled, float *features);

/* Makes room for a turn, of zeros; there is none. */
qn_status qn_labeller_make_turn(qn_labeller *labeller);
void qn_labeller_drop_turn(qn_labeller *labeller);

/* Makes room for n examples; there is none. */
qn_status qn_labeller_make_examples(qn_labeller *labeller, int n);
void qn_labeller_drop_examples(qn_labeller *labeller);

/* What is believed of clusters in the stream. */
qn_cluster_prior qn_labeller_prior(const qn_labeller *labeller);

/* The part of refitting that is due after a sample, if one is. */
void qn_labeller_refit(qn_labeller *labeller);

/* ln of the odds of known to new of a sample whose known density's logarithm is given. */
float qn_labeller_odds(const qn_labeller *labeller, const float *x, float log_known);

/* Sets the limit of the examples by the last samples; there are examples. */
void qn_labeller_set_limit(qn_labeller *labeller);

/* Found clusters that labelled samples lie in become known ones (absorb.c). */
void qn_labeller_absorb(qn_labeller *labeller);

/* Drops found cluster k; the last one takes its place. */
void qn_labeller_drop_fresh(qn_labeller *labeller, int k);

/* Samples between two refits by now. */
int qn_labeller_interval(int64_t n_samples);

/* How a sample looks to the labeller. */
typedef struct qn_label_view {
    qn_cluster_view known, fresh;
    bool has_examples;
    float examples[QN_LABEL_MAX_KNOWN]; /* if it has: densities by class, times e^-known.base */
    float known_part, fresh_part;       /* densities, both times e^-fresh.base */
    float log_known;                    /* ln of the density of the known classes alone */
    float odds;                         /* if it has examples: ln of known to new */
} qn_label_view;

/* Whether labelled samples are part of the known density. */
static inline bool qn_labeller_has_examples(const qn_labeller *labeller) {
    return labeller->examples.n > 0 && *labeller->examples.share > 0;
}

/* The least logarithm that a density counts with. Beside examples none is too small: in many
 * dimensions all known densities of a sample may be far below what float holds. */
static inline float qn_labeller_least_log(const qn_labeller *labeller) {
    return qn_labeller_has_examples(labeller) ? -1e30f : -80.0f;
}

void qn_labeller_look(const qn_labeller *labeller, const qn_clusters *known, const float *x,
                      qn_label_view *view);

/* The densities of the known classes (n_known), in the unit of the view's; their sum comes back. */
float qn_labeller_class_parts(const qn_labeller *labeller, const qn_label_view *view, float *part);

/* Counts a sample, the one with number n_samples, among the members of its label. */
void qn_labeller_count(const qn_labeller *labeller, int64_t label);

/* Puts a new found class with the next serial and name in a place among those found. */
void qn_labeller_begin_class(qn_labeller *labeller, int place);

/* Whether a place of records has a found class that nobody has named: as it was found. */
bool qn_labeller_is_unnamed(const qn_labeller *labeller, int place);

/* Fails if a class may not get this name: one that a class has (the two are then one), or a new one
 * without control characters that the labeller does not give by itself. */
qn_status qn_labeller_check_name(const qn_labeller *labeller, const char *name);

/* Places for known and found classes. */
size_t qn_labeller_record_count(const qn_labeller *labeller);

qn_label_record *qn_labeller_found(const qn_labeller *labeller, int place);

#endif
