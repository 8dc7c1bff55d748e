/* Features of pictures: what a network whose body stays as it is makes of each before its last
 * layer. Every picture and its mirror image go through the body once; what comes out is kept in the
 * user's cache folder, by the picture's content and the body's weights, so that a picture that is
 * added later is all that has to be computed then, and data sets of one body share what they have.
 * Equal pictures give equal bits, kept or not. */
#ifndef QN_TASKS_FEATURES_FEATURES_H
#define QN_TASKS_FEATURES_FEATURES_H

#include "os/os.h"
#include "quern/data.h"
#include "run/trainer.h"
#include "tasks/features/head_fit.h"

/* Views of a picture: itself, and its mirror image. */
enum { QN_FEATURE_VIEWS = 2 };

typedef struct qn_feature_maker {
    const qn_allocator *allocator;
    const qn_log *log;   /* may be null */
    qn_trainer *trainer; /* whose evaluation gives features (qn_trainer_options.features) */
    qn_loader
        *loaders[QN_SPLITS]; /* of all samples of a split in order, in its evaluation batches */
    int64_t n[QN_SPLITS];    /* samples; 0: the split is left out, and needs no loader */
    qn_shape sample;         /* (H, W, C) */
    int64_t batch;           /* samples of one */
    const char *name;        /* of the data: what the cache file was asked for */
    bool (*should_stop)(void *user); /* may be null; what was made until then is kept */
    void *user;
    int64_t n_made; /* pictures that went through the body: the others were kept */
} qn_feature_maker;

/* Fills features, one split after the other, whose memory is the allocator's until
 * qn_features_deinit; the latter copes with what failed. */
qn_status qn_features_make(qn_feature_maker *maker, qn_features *features);
void qn_features_deinit(const qn_allocator *allocator, qn_features *features);

/* Bytes that they take of a memory budget, with what making and fitting needs. */
size_t qn_features_bytes(int64_t n, int64_t width, int n_classes, qn_shape sample, int64_t batch);

#endif
