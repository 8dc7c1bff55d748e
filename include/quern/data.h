/* Data sets: sources of samples, their preparation, and the loader, which makes batches ahead of
 * time. A custom source is a qn_data_source with a read function.
 *
 * Threads: one call at a time per loader; a thread of its own reads the source. */
#ifndef QUERN_DATA_H
#define QUERN_DATA_H

#include "quern/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Validation samples are training samples that are held out, to decide when to stop and which
 * weights to keep. */
typedef enum qn_split {
    QN_TRAIN = 0,
    QN_TEST,
    QN_VALIDATION,
    QN_SPLITS,
    QN_ALL_SPLITS = QN_SPLITS /* where a function says that it takes it */
} qn_split;

/* What a column of a table means to a network. A column with gaps has one feature more, which is 1
 * where its value is missing. */
typedef enum qn_column_kind {
    QN_COLUMN_NUMBER,   /* itself */
    QN_COLUMN_TRUTH,    /* 1: true, yes; 0: false, no */
    QN_COLUMN_CATEGORY, /* a feature for each text, 1 for the sample's; 0 of an unknown one */
    QN_COLUMN_HASHED,   /* the same by hashes of the texts, of which there are too many */
    QN_COLUMN_DATE      /* days since 2000, and sine and cosine of weekday, year and hour */
} qn_column_kind;

typedef struct qn_table_column {
    const char *name; /* of the header; "column 3": there is none */
    qn_column_kind kind;
    bool has_gaps;            /* training data lacked values */
    bool is_day_first;        /* of dates: 01/02/2024 is in February */
    float median;             /* of training data: what a missing value counts as */
    int n_texts;              /* of categories */
    const char *const *texts; /* (n_texts) */
} qn_table_column;

/* What the columns of a training table were understood as; other tables are matched to it by
 * name. */
typedef struct qn_table {
    int n_columns, n_targets;
    const qn_table_column *columns; /* (n_columns) inputs, in the order of their features */
    const char *const *targets;     /* (n_targets) names */
    bool are_numbers;               /* the targets are amounts; else a class */
    bool are_labels;                /* the targets are labels, of which a sample may have several */
    const char *label_column; /* that lists a sample's labels (a|b); null: a column for each */
} qn_table;

/* How samples are adapted to a network; stored in checkpoints, so that evaluation and prediction
 * do the same. Pixel bytes become 0 to 1. Order: resize, repeat grey, (augment), subtract mean,
 * divide by deviation. */
typedef struct qn_preparation {
    qn_shape sample;      /* (H, W, C) of the network's input, or (C) for rows of numbers */
    bool centre_crop;     /* resize the short side and crop the centre; otherwise stretch */
    int n_statistics;     /* 0: no normalisation; 1: one for all; otherwise one per channel, or
                             one per element (columns of rows that feed an image network) */
    const float *mean;    /* (n_statistics) */
    const float *std_dev; /* (n_statistics), never 0 */
    int n_classes;        /* 0: targets are numbers */
    const char *const *class_names; /* (n_classes), or null */
    const qn_table *table;          /* of rows from a table; null: others */
    int n_scaled;                   /* 0: targets are learned as they are; else their number */
    const float *target_mean;       /* (n_scaled) a target is target_mean + target_scale * output */
    const float *target_scale;      /* (n_scaled), above 0 */
} qn_preparation;

/* A column of a table. Its numbers are those of its texts, if it has any; -1 is a text that is not
 * among them. */
typedef struct qn_data_column {
    const char *name;         /* "": none */
    int n_texts;              /* 0: a column of numbers */
    const char *const *texts; /* (n_texts) */
} qn_data_column;

/* A data set. Samples are dense arrays; a class is an int32_t, numeric targets are n_targets
 * floats. */
typedef struct qn_data_source {
    void *self;
    const char *name;
    int64_t n_samples[QN_SPLITS]; /* test and validation samples may be 0 */
    qn_shape sample;              /* (H, W, C) or (C); extents of 0: samples differ */
    qn_dtype dtype;               /* QN_U8 or QN_F32 */
    int n_targets;                /* 0: classes */
    qn_preparation preparation;   /* the default of this set; its sample shape is a suggestion */
    /* Reads sample `index` of a split into x, and its class (int32_t) or targets (float) into y.
     * If sizes differ between samples, the source resizes to preparation.sample (bytes or floats
     * of dtype); otherwise x has the shape `sample`. Loader threads call it: two loaders over
     * one source may call it at the same time. */
    qn_status (*read)(void *self, qn_split split, int64_t index, void *x, void *y);
    /* Makes the source deliver samples in another size than it suggests. The loader calls it
     * before its first read, only if sizes differ between samples; a second size while the first
     * is in use is an error. May be null otherwise. */
    qn_status (*set_size)(void *self, int64_t h, int64_t w, int64_t c);
    void (*close)(void *self); /* may be null */
    /* Like read, but only the class, if it is available without the sample; may be null. */
    qn_status (*read_class)(void *self, qn_split split, int64_t index, int32_t *label);
    /* How much a sample counts in training, at least 0; may be null: all count alike. */
    qn_status (*read_weight)(void *self, qn_split split, int64_t index, float *weight);
    const qn_data_column
        *columns; /* (C) of tables that were opened with reads_texts; may be null */
    const struct qn_data_facts *facts; /* what quern understood of it; null: of other sources */
    /* How test and validation samples were held out, as checkpoints keep it (options.held_out);
     * null: the set has its own, or none. */
    const char *held_out;
} qn_data_source;

/* Which folder above a picture is its class. */
typedef enum qn_classes_from {
    QN_CLASSES_FROM_TOP,  /* the first below the data's, or below train and test */
    QN_CLASSES_FROM_LEAF, /* the one that it lies in */
    QN_CLASSES_FROM_PATH  /* all of them: "animals/cat" */
} qn_classes_from;

typedef struct qn_data_options {
    size_t size;                   /* QN_OPTIONS_INIT(qn_data_options) */
    const qn_allocator *allocator; /* null: the heap; must outlive the source, like the log */
    const qn_log *log;
    uint64_t seed;     /* of held-out parts and synthetic data */
    double holdout;    /* fraction held out for testing if the set has no test samples; 0: the
                       default of the format */
    double validation; /* fraction of the training samples held out for validation; 0: none */
    qn_shape sample;   /* of the model, for synthetic data and images; rank 0: none */
    int n_classes;     /* of the model, for synthetic data */
    int n_targets;     /* > 0: synthetic targets are numbers */
    bool strict;       /* unreadable images are an error; otherwise they are skipped */
    bool
        reads_texts; /* texts of CSV files are given as their numbers, for qn_data_source.columns */
    /* Of tables. Names are separated by commas; null or 0: as the file shows it. */
    const char *target;     /* columns to predict; null: the last one */
    const char *ignore;     /* columns to leave out; "none": not even those that count rows */
    const char *categories; /* columns whose numbers are names */
    const char *task;       /* "classification", "regression", "labels" */
    const char *header;     /* whether the first line has names: "yes", "no" */
    const char *separator;  /* "," ";" "tab" "|" */
    const char *decimal;    /* "." "," */
    const char *dates;      /* "dmy" "mdy": which of 01/02/2024 is the day */
    const qn_table *table;  /* what a checkpoint's columns were: found by name, never anew */
    bool is_unlabelled;     /* targets may be missing: the data is to predict on */
    /* qn_data_source.held_out of the set that a network was trained on: samples are held out by the
     * same rule, and the log is told if some of those are test samples now. "place": by the rule of
     * versions that kept none. Null: by a keyed hash of their content, anew. */
    const char *held_out;
    qn_classes_from classes_from; /* of pictures in folders */
    /* Samples that are on one side of the split together: those whose column of this name holds the
     * same text, of tables (and of tables of pictures); of arrays the name of an array of numbers
     * or texts, one for each row; of pictures in folders "folder" (the one that they lie in),
     * "folder:N" (the N-th below the data's) or "name:TEXT" (what the file's name has before TEXT).
     * Null or "none": each sample is of its own. */
    const char *group;
    /* Of tables and arrays whose rows are steps of time: a sample is `window` rows that follow each
     * other, the next one begins `stride` rows later (0: window). No window lies in two groups, or
     * across a gap in time. 0: a sample is a row. */
    int64_t window, stride;
    const char *time; /* column, or array, of time, which is no input; null: as its name tells;
                         "none": there is none */
    const char *window_label; /* "majority", "last", "mean" of the rows' targets, or "same": of
                                 windows whose rows have one label; null: majority of classes, last
                                 of numbers */
    bool keeps_gaps; /* with reads_texts: a number that is missing is NaN, and a row without a class
                        is left out; otherwise both are refused */
} qn_data_options;

/* Opens what --data names: fashion-mnist, idx:DIR, cifar10:DIR, cifar100:DIR,
 * images:DIR[,LABELS.csv[,label=NAME]], npy:X,Y[,AXES], npy:FILE.npz[,AXES], npy:DIR,
 * csv:FILE|DIR[,label=NAME], labelled:FILE, sounds:DIR, texts:FILE, synthetic. options null: all 0.
 */
QN_API qn_status qn_data_open(const char *specification, const qn_data_options *options,
                              qn_data_source *source);
QN_API void qn_data_close(qn_data_source *source);

/* The format that a bare path is recognised as: "idx", "cifar10", "cifar100" or "images" for a
 * folder, by its contents; "csv", "text" or "squad" for a file, by its extension; null: none. */
QN_API const char *qn_data_kind_of(const char *path);

/* Samples in the caller's memory or from a function, for qn_data_open_samples. */
typedef struct qn_samples {
    size_t size;              /* QN_OPTIONS_INIT(qn_samples) */
    const char *name;         /* for messages and checkpoints; null: "memory" */
    int64_t n[QN_SPLITS];     /* samples by split; training samples are not needed to evaluate or
                             predict */
    const void *x[QN_SPLITS]; /* (n,) + sample by split, contiguous, of dtype; unused if read is
                                 given */
    const void *y[QN_SPLITS]; /* (n) int32_t classes, or (n, n_targets) float; null: unknown, all
                                 0 */
    qn_shape sample;          /* (H, W, C) or (C) */
    bool is_nchw;             /* x is (n, C, H, W) instead */
    qn_dtype dtype;           /* QN_U8 or QN_F32 */
    int n_classes;            /* 0: derived from y; required with read */
    int n_targets;            /* 0: classes */
    void *user;
    /* Like qn_data_source.read; null: x and y are given. */
    qn_status (*read)(void *user, qn_split split, int64_t index, void *x, void *y);
} qn_samples;

/* Opens samples as qn_data_open opens files: labels and floats are validated (except those of
 * read), options.holdout and options.validation hold samples out, bytes get mean and deviation
 * of the training samples, and the same samples give the same bits as from a file. Memory and
 * user must outlive the source; names, shapes and the struct itself need not. options null: all
 * 0. QN_ERROR_FORMAT names the row of a negative class or a number that is not finite. */
QN_API qn_status qn_data_open_samples(const qn_samples *samples, const qn_data_options *options,
                                      qn_data_source *source);

/* ---- loader ---- */

/* A prepared batch. Valid until the next call of next. */
typedef struct qn_batch {
    const float *x;      /* (batch,) + preparation.sample */
    const void *y;       /* (batch) int32_t, or (batch, n_targets) float */
    int64_t n_valid;     /* number of samples; the rest is padding (x 0, class -1) */
    int64_t epoch;       /* from 0 */
    int64_t position;    /* batch of that epoch, from 0 */
    const float *weight; /* (batch) of samples, 0 of padding; null: the source has none */
} qn_batch;

typedef struct qn_loader_options {
    size_t size; /* QN_OPTIONS_INIT(qn_loader_options) */
    const qn_allocator *allocator;
    qn_split split;
    int64_t batch;
    uint64_t seed;
    bool shuffle;  /* a new order every epoch, by seed */
    bool crop;     /* augment: shift by up to 1/8 of the size, zero padding (after preparation) */
    bool flip;     /* augment: mirror left and right, half of the time */
    bool pad_last; /* true: the last partial batch is padded; false: it is dropped */
    bool wrap;     /* batches continue with samples of the next epoch; not with pad_last */
    int64_t first; /* first batch, counted over all epochs, for resuming */
    int64_t n_batches; /* number of batches; < 0: unlimited */
    int n_prefetched;  /* batches made ahead by a separate thread; 0: none, no thread */
    int64_t stride;    /* from each batch to the next that is given, as ranks share them; 0: 1 */
} qn_loader_options;

typedef struct qn_loader qn_loader;

/* Creates a loader for a source, which must stay open (the struct itself is copied). The samples
 * of a batch, their order and their augmentation depend only on the seed and the number of the
 * batch. */
QN_API qn_status qn_loader_create(const qn_data_source *source, const qn_preparation *preparation,
                                  const qn_loader_options *options, qn_loader **loader);
QN_API void qn_loader_destroy(qn_loader *loader);

/* The next batch; batch->x is null at the end. A failure to read is returned for the batch that
 * it concerns, and for every call after it. */
QN_API qn_status qn_loader_next(qn_loader *loader, qn_batch *batch);

/* Batches in an epoch. */
QN_API int64_t qn_loader_epoch_batches(const qn_loader *loader);

/* Returns to the first batch (options.first). */
QN_API qn_status qn_loader_rewind(qn_loader *loader);

/* A stream of batches, as the training loop reads it. */
typedef struct qn_batches {
    void *self;
    qn_status (*next)(void *self, qn_batch *batch); /* batch->x null: the end */
    qn_status (*rewind)(void *self);                /* to the first batch again */
} qn_batches;

/* The loader as a stream; the caller keeps owning the loader. */
QN_API qn_batches qn_loader_batches(qn_loader *loader);

/* Total nanoseconds that qn_loader_next has waited for data. */
QN_API int64_t qn_loader_wait_ns(const qn_loader *loader);

/* An image in memory: rows from top to bottom, pixels from left to right, contiguous. */
typedef struct qn_image {
    const uint8_t *pixels; /* (height, width, channels), of three channels red, green, blue */
    int64_t height, width;
    int channels; /* 3, or 1: grey */
} qn_image;

/* Prepares an image of any size like the samples of a data set: x gets preparation->sample
 * floats. */
QN_API qn_status qn_image_prepare_pixels(const qn_allocator *allocator, const qn_image *image,
                                         const qn_preparation *preparation, float *x);

/* Reads an image file (PNG, JPEG, BMP; WebP, GIF, TIFF, HEIC and AVIF if libwebp, giflib,
 * libtiff and libheif are installed),
 * turns it upright by its EXIF orientation, and prepares it: x gets preparation->sample floats. */
QN_API qn_status qn_image_prepare(const qn_allocator *allocator, const char *path,
                                  const qn_preparation *preparation, float *x);

#ifdef __cplusplus
}
#endif
#endif
