/* Data sets: where samples come from, how they are prepared, and the loader that makes batches of
 * them ahead of time. A source of one's own is a qn_data_source with a read function. */
#ifndef QUERN_DATA_H
#define QUERN_DATA_H

#include "quern/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Validation samples are training samples that are held out: to say when to stop, and which weights
 * to keep. */
typedef enum qn_split { QN_TRAIN = 0, QN_TEST, QN_VALIDATION, QN_SPLITS } qn_split;

/* What a sample is matched to a network with; kept in checkpoints, so that evaluation and
 * prediction do the same. Pixel bytes count as 0 to 1. Order: resize, repeat grey, (augment),
 * subtract mean, divide by deviation. */
typedef struct qn_preparation {
    qn_shape sample;      /* (H, W, C) of the network's input, or (C) for rows of numbers */
    bool centre_crop;     /* resize the short side, crop the centre; else stretch */
    int n_statistics;     /* 0: no normalisation; 1: one for all; else one per channel, or one per
                             element (columns of rows that feed a network of images) */
    const float *mean;    /* (n_statistics) */
    const float *std_dev; /* (n_statistics), never 0 */
    int n_classes;        /* 0: targets are numbers */
    const char *const *class_names; /* (n_classes), or null */
} qn_preparation;

/* A data set. Samples are dense; a class is an int32_t, a numeric target n_targets floats. */
typedef struct qn_data_source {
    void *self;
    const char *name;
    int64_t n_samples[QN_SPLITS]; /* there may be no test samples, and no validation samples */
    qn_shape sample;              /* (H, W, C) or (C); extents of 0: differ between samples */
    qn_dtype dtype;               /* QN_U8 or QN_F32 */
    int n_targets;                /* 0: classes */
    qn_preparation preparation;   /* the set's own; the sample shape is the one it suggests */
    /* Reads sample `index` of a split into x, and its class (int32_t) or targets (float) into y. x
     * holds what preparation.sample says where sizes differ between samples (the source resizes,
     * as bytes or floats of dtype), else `sample`. Each loader with a thread calls it from there:
     * two loaders over one source at the same time call it at the same time. */
    qn_status (*read)(void *self, qn_split split, int64_t index, void *x, void *y);
    /* The set with samples delivered in another size than its own suggestion. The loader calls it,
     * before its first read, only where sizes differ between samples; a second size while the first
     * is in use is an error. May be null otherwise. */
    qn_status (*set_size)(void *self, int64_t h, int64_t w, int64_t c);
    void (*close)(void *self); /* may be null */
    /* As read, the class alone, where it is to be had without the sample; may be null. */
    qn_status (*read_class)(void *self, qn_split split, int64_t index, int32_t *label);
} qn_data_source;

typedef struct qn_data_options {
    const qn_allocator *allocator; /* null: the heap; this and the log outlive the source */
    const qn_log *log;
    uint64_t seed;  /* of held-out parts and synthetic data */
    double holdout; /* part held out as test set where the set has none of its own; 0: its rule */
    double validation; /* part of the training samples held out for validation; 0: none */
    qn_shape sample;   /* of the model, for synthetic data and images; rank 0: none */
    int n_classes;     /* of the model, for synthetic data */
    int n_targets;     /* > 0: synthetic targets are numbers */
} qn_data_options;

/* Opens what --data names: fashion-mnist, idx:DIR, cifar10:DIR, cifar100:DIR, images:DIR,
 * npy:X,Y[,nchw], csv:FILE[,label=NAME], synthetic. */
QN_API qn_status qn_data_open(const char *specification, const qn_data_options *options,
                              qn_data_source *source);
QN_API void qn_data_close(qn_data_source *source);

/* ---- loader ---- */

/* A prepared batch. Valid until the next call of next. */
typedef struct qn_batch {
    const float *x;   /* (batch,) + preparation.sample */
    const void *y;    /* (batch) int32_t, or (batch, n_targets) float */
    int64_t n_valid;  /* the first so many are samples, the rest padding (x 0, class -1) */
    int64_t epoch;    /* from 0 */
    int64_t position; /* batch of that epoch, from 0 */
} qn_batch;

typedef struct qn_loader_options {
    const qn_allocator *allocator;
    qn_split split;
    int64_t batch;
    uint64_t seed;
    bool shuffle;  /* a new order every epoch, by seed */
    bool crop;     /* augment: shift by up to 1/8 of the size, zero padding (after preparation) */
    bool flip;     /* augment: mirror left and right, half of the time */
    bool pad_last; /* true: the last partial batch is padded; false: it is dropped */
    int64_t first; /* batch to begin with, counted over all epochs: where a resume goes on */
    int64_t n_batches; /* how many until the end; < 0: without end */
    int n_prefetched;  /* batches made ahead by a thread of its own; 0: none, no thread */
} qn_loader_options;

typedef struct qn_loader qn_loader;

/* A loader over a source, which must stay open (the structure itself is copied). The samples in a
 * batch, their order and their augmentation depend only on the seed and the batch's number. */
QN_API qn_status qn_loader_create(const qn_data_source *source, const qn_preparation *preparation,
                                  const qn_loader_options *options, qn_loader **loader);
QN_API void qn_loader_destroy(qn_loader *loader);

/* The next batch; batch->x null at the end. A failure to read comes with the batch it concerns, and
 * again at every call after it. */
QN_API qn_status qn_loader_next(qn_loader *loader, qn_batch *batch);

/* Batches in an epoch. */
QN_API int64_t qn_loader_epoch_batches(const qn_loader *loader);

/* Goes back to the batch the loader was created with (options.first). */
QN_API qn_status qn_loader_rewind(qn_loader *loader);

/* A stream of batches, whatever makes them: what the training loop reads. */
typedef struct qn_batches {
    void *self;
    qn_status (*next)(void *self, qn_batch *batch); /* batch->x null: the end */
    qn_status (*rewind)(void *self);                /* to the first batch again */
} qn_batches;

/* The loader as a stream; it stays the caller's. */
QN_API qn_batches qn_loader_batches(qn_loader *loader);

/* Nanoseconds that next has waited for data so far. */
QN_API int64_t qn_loader_wait_ns(const qn_loader *loader);

/* Reads one image file (PNG or JPEG) and prepares it: x gets preparation->sample floats. */
QN_API qn_status qn_image_prepare(const qn_allocator *allocator, const char *path,
                                  const qn_preparation *preparation, float *x);

#ifdef __cplusplus
}
#endif
#endif
