/* What all data sets share: their row in the list of formats, memory that lives until they are
 * closed, how they are divided and the statistics of the training set. A new format is one
 * file and one row in source.c. */
#ifndef QN_DATA_SOURCE_H
#define QN_DATA_SOURCE_H

#include "base/memory.h"
#include "base/rng.h"
#include "data/facts.h"
#include "quern/data.h"
#include "tensor/tensor.h"

typedef struct qn_data_format qn_data_format;

/* Where a sample lies that is a file of its own: root/name, in the source's memory. */
typedef struct qn_sample_file {
    const char *root, *name;
    const char *folder; /* the first part of name that is its class; null: the class is none of its
                           folders, or not the first */
} qn_sample_file;

/* First member of every source of this floor. */
typedef struct qn_source_base {
    const qn_data_format *format;
    qn_data_options options;   /* the allocator is never null */
    qn_arena arena;            /* names, lists and statistics, until close */
    const char *argument;      /* what followed the colon, in arena */
    const qn_samples *samples; /* instead of an argument, while it is opened (samples.c) */
    bool needs_no_training;    /* there may be no training samples */
    bool wants_statistics;     /* mean and deviation of the training set, per channel or column */
    qn_data_facts facts;       /* what is understood; the format fills it while it opens */
    const bool *are_marks;     /* (C) features that are 0 or 1 and stay so; null: none */
    double holdout_part;       /* that is held out for a test where options say nothing */
    /* Instead of reading a sample to see its content and class: a number that equal samples share,
     * and the class. For samples that must be on one side together, a number that they share. */
    qn_status (*look)(struct qn_source_base *base, int64_t index, uint64_t *content,
                      int32_t *class);
    /* What samples share that must be on one side together, in the plural ("values of person"); the
     * content that look gives tells them apart. Null: each is of its own. */
    const char *units;
    /* The unit of a content, as the user knows it; null: it has no name. May be null. */
    const char *(*name_unit)(const struct qn_source_base *base, uint64_t content);
    /* The rows of the data that make up a sample, where they are several; may be null. */
    qn_status (*rows_of)(struct qn_source_base *base, int64_t index, int64_t *first, int64_t *n);
    /* The file that a sample is; false: it is none. May be null. */
    bool (*file_of)(const struct qn_source_base *base, qn_split split, int64_t index,
                    struct qn_sample_file *file);
    /* Once it is divided: what follows from the training samples alone. May be null. */
    qn_status (*divided)(struct qn_source_base *base, const qn_data_source *source);
    struct qn_division *division; /* into training, test and validation; null: none (split) */
} qn_source_base;

struct qn_data_format {
    const char *name;  /* what the specification starts with */
    const char *usage; /* what follows the colon; null: nothing */
    size_t self_bytes; /* of the structure that begins with qn_source_base */
    /* Opens; fills source but for self, name and close. All samples but those of a test set of its
     * own are training samples, until they are divided (split/divide.h). On failure, release is
     * called. */
    qn_status (*open)(qn_source_base *base, qn_data_source *source);
    void (*release)(qn_source_base *base); /* closes files; may be null */
    bool has_groups;                       /* it heeds options.group */
    bool has_labels;                       /* its samples may have several labels */
    bool has_windows;                      /* and options.window, with those that go with it */
};

/* Opens a source of a format. specification: its name; given->argument or samples: what it is of.
 */
qn_status qn_source_open(const qn_data_format *format, const qn_source_base *given,
                         const char *specification, const qn_data_options *options,
                         qn_data_source *source);

/* The rows of its data that make up sample `index` of a split: one, where nothing else is known.
 */
qn_status qn_source_rows_of(const qn_data_source *source, qn_split split, int64_t index,
                            int64_t *first, int64_t *n);

/* The format's own number of a sample, and the split that it comes from there: of samples that were
 * held out, QN_TRAIN. */
void qn_source_find_sample(const qn_data_source *source, qn_split *split, int64_t *index);

/* The file that sample `index` of a split is; false: samples are no files. */
bool qn_source_file_of(const qn_data_source *source, qn_split split, int64_t index,
                       qn_sample_file *file);

/* The group that options ask for; null: none. */
const char *qn_source_group(const qn_source_base *base);

/* Tells the user's log, if there is one (level 0 notice, 1 warning). */
void qn_data_tell(const qn_source_base *base, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Measures mean and deviation over the training samples, in the source's arena, and puts them into
 * source->preparation: one for each channel or column. */
qn_status qn_statistics_measure(qn_source_base *base, qn_data_source *source);

/* Likewise of numeric targets that have to be scaled; of others nothing is kept. */
qn_status qn_targets_measure(qn_source_base *base, qn_data_source *source);

/* The split that a name says, whatever its case: train, test, val and their longer forms; false: it
 * says none. */
bool qn_split_of_name(const char *name, qn_split *split);

#endif
