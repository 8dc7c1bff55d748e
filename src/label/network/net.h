/* A labeller of samples that need a network, such as pictures: an embedder, micro-clusters of its
 * features that find new classes, and a classifier that answers. It keeps the labelled samples, the
 * last QN_NET_WINDOW of the stream, and a part of the earlier ones, drawn by seed. At fixed numbers
 * of samples a lesson begins (lesson.h): the embedder learns from all that is kept, then classes
 * are found, then the classifier learns. What it taught answers from QN_NET_DELAY samples later on.
 * All that is known follows from the samples and their order.
 *
 * Samples lie in places: labelled ones in 0 to n_labelled - 1, the window, a ring, in the next
 * QN_NET_WINDOW, and older ones in the n_old after it. While a lesson is under way these stay as
 * they are, and new samples, n_recent, lie behind those in use. A class is a number: of a known
 * class, or n_known + the place of a found one among the labeller's records.
 *     n_window <= QN_NET_WINDOW, and < only if n_old = 0; n_old <= old_capacity
 *     label below n_known + QN_LABEL_MAX_NEW */
#ifndef QN_LABEL_NET_H
#define QN_LABEL_NET_H

#include "format/safetensors.h"
#include "label/labeller.h"
#include "label/network/arrivals.h"
#include "label/network/embedder.h"
#include "label/network/groups.h"
#include "label/network/head.h"
#include "label/network/lesson.h"
#include "label/network/views.h"

enum {
    QN_NET_WINDOW = 1800,
    QN_NET_MOST_LABELLED = 4096, /* labelled samples that are kept; others are passed over */
    QN_NET_PAIRS = 8,            /* samples of a training step */
    QN_NET_DELAY = 100,          /* samples that come while a lesson is under way */
    QN_NET_FIRST_STEPS = 1200,   /* of the first lesson, from the labelled samples alone */
    QN_NET_STEPS = 320           /* of each later one */
};

typedef struct qn_label_net {
    const qn_allocator *allocator;
    qn_shape sample;
    size_t n_values; /* of a sample */
    float low, step; /* a number of a sample is low + step * byte */
    qn_view_scale scale;
    int n_known, n_labelled, n_window, n_old, n_recent, old_capacity;
    uint64_t seed;
    int64_t n_drawn; /* samples of lessons so far: numbers of draws and views */
    qn_embedder *embedder;
    qn_pose pose
        [QN_NET_POSES]; /* of the stream in the latest intervals between lessons, latest first */
    qn_whitening whitening;
    qn_head head;
    uint8_t is_open[QN_HEAD_MOST_OUTPUTS];
    uint8_t *bytes;    /* (places, n_values) */
    int32_t *label;    /* (places) class, below 0: none */
    float *confidence; /* (places) */
    float *is_new;     /* (places) probability of no known class */
    int64_t *arrived;  /* (places) number in the stream; of those there since loading, too */
    uint8_t *is_told;  /* (places) whether the user said the class, of samples of the stream */
    uint8_t *shown;  /* (n_labelled, n_values) as they look in these poses; from here on no state */
    float *z;        /* (places, QN_EMBEDDER_WIDTH) whitened */
    float *x;        /* (batch or QN_EMBEDDER_MANY, n_values) */
    int32_t *taught; /* (places) class that the classifier is taught, or what a batch is */
    float *weight;   /* (places) */
    float *room;
    qn_groups groups;
    qn_arrivals arrivals;
    qn_lesson lesson;
} qn_label_net;

/* Places, and how many of them are in use, the first ones, without recent samples. */
int qn_net_places(const qn_label_net *net);
int qn_net_used(const qn_label_net *net);

/* Makes one without content. */
qn_status qn_net_make(const qn_allocator *allocator, qn_shape sample, int n_known, int n_labelled,
                      uint64_t seed, int n_threads, qn_label_net **net);
void qn_net_destroy(qn_label_net *net);

/* A labeller of this kind, by the options of qn_labeller_create, which are checked. */
qn_status qn_net_create(const qn_label_options *options, qn_labeller **labeller);

qn_status qn_net_add(qn_labeller *labeller, const float *x, qn_label_answer *answer);
void qn_net_revise(const qn_labeller *labeller, int64_t age, float *x, qn_label_answer *answer);
qn_label_cost qn_net_get_cost(const qn_labeller *labeller);

/* Part of the last samples that have a class. */
double qn_net_share(const qn_label_net *net, int class);

/* Fills in which samples of the stream are kept, for one that was read, after n of them. */
void qn_net_find_arrived(qn_label_net *net, int64_t n);

/* Puts the samples that came during a lesson to the others, labelled by what it taught. */
qn_status qn_net_take_recent(qn_labeller *labeller);

/* Work that is due sooner or later: does a piece of it. */
qn_status qn_net_work(qn_labeller *labeller, bool *is_left);

#endif
