/* Labels a stream of samples (rows of numbers) when examples exist for only some of the classes.
 * Each sample is labelled immediately: as a known class, or as a new one that was found in the
 * stream, is distinguished from other new ones and can be named later. Known classes are tracked
 * as they move. All memory is allocated on creation; equal samples in equal order give equal
 * labels, bit for bit, also if the labeller was saved and loaded in between. */
#ifndef QUERN_LABEL_H
#define QUERN_LABEL_H

#include "quern/data.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    QN_LABEL_MAX_FEATURES = 128,
    QN_LABEL_MAX_VALUES = 49152, /* of a sample that is given to a network */
    QN_LABEL_MAX_KNOWN = 1000,   /* known classes of rows */
    QN_LABEL_MAX_PICTURED = 200, /* known classes of samples that are given to a network */
    QN_LABEL_MAX_NEW = 64,       /* new classes that are kept; the least recently seen one is
                                 dropped */
    QN_LABEL_NAME = 64,          /* bytes of a name with its closing zero */
    QN_LABEL_UNSURE = -1,        /* new, but not of a class found so far */
};

typedef struct qn_labeller qn_labeller;

/* The labelled samples: at least 2, all numbers finite. Copied. */
typedef struct qn_label_options {
    size_t size;                   /* QN_OPTIONS_INIT(qn_label_options) */
    const qn_allocator *allocator; /* null: the heap */
    int n_features;
    int n_classes;
    const char *const *names; /* (n_classes); null: "0", "1", ... */
    int64_t n_samples;
    const float *x;       /* (n_samples, n_features) */
    const int32_t *label; /* (n_samples), 0 to n_classes - 1 */
    uint64_t seed;
    /* Of a sample, (H, W, C): pictures, or series (T, 1, C), are labelled by a network that is
     * trained here; n_features is the product, which may be up to QN_LABEL_MAX_VALUES. Rank 0: rows
     * of numbers, without a network. */
    qn_shape sample;
    int n_threads; /* of the network; 0: the processors available. Labels do not depend on it */
    /* (n_features) which columns of rows are of texts: their numbers in x are those of the texts,
     * here and in qn_labeller_add; -1 is a text that is not listed. Null: all are numbers. */
    const qn_data_column *columns;
} qn_label_options;

QN_API qn_status qn_labeller_create(const qn_label_options *options, qn_labeller **labeller);
QN_API void qn_labeller_destroy(qn_labeller *labeller);

/* Upper bounds on the cost of labelling. */
typedef struct qn_label_cost {
    size_t bytes;         /* memory of the labeller */
    double mean_flops;    /* per sample, including deferred work */
    double largest_flops; /* of one call */
} qn_label_cost;

QN_API qn_label_cost qn_labeller_get_cost(const qn_labeller *labeller);

typedef struct qn_label_answer {
    int64_t label;    /* below n_classes: known; above: new; or QN_LABEL_UNSURE */
    float confidence; /* probability of the label by the labeller's model */
    float is_new;     /* probability of belonging to no known class */
} qn_label_answer;

/* Labels a sample (n_features) and learns from it. A number that is not finite is
 * QN_ERROR_ARGUMENT and changes nothing. */
QN_API qn_status qn_labeller_add(qn_labeller *labeller, const float *x, qn_label_answer *answer);

/* Does a piece of learning that is due, a few milliseconds; *is_left: more is. Labellers with a
 * network learn much at times: what is left undone, the samples that follow have to do, so call it
 * while nothing else is to be done. Labels do not depend on it. */
QN_API qn_status qn_labeller_work(qn_labeller *labeller, bool *is_left);

/* Labels one of the last qn_labeller_kept samples again with current knowledge: the one `age`
 * samples before the last. x (n_features, may be null) receives the sample. */
QN_API qn_status qn_labeller_revise(const qn_labeller *labeller, int64_t age, float *x,
                                    qn_label_answer *answer);
QN_API int64_t qn_labeller_kept(const qn_labeller *labeller);

/* Samples added so far. */
QN_API int64_t qn_labeller_samples(const qn_labeller *labeller);
QN_API int qn_labeller_features(const qn_labeller *labeller);

/* Whether column i of rows is of texts; the number of a text in it (-1: like all that is not told
 * apart); the text of a number, or "". */
QN_API bool qn_labeller_has_texts(const qn_labeller *labeller, int i);
QN_API int32_t qn_labeller_number_of(const qn_labeller *labeller, int i, const char *text);
QN_API const char *qn_labeller_text_of(const qn_labeller *labeller, int i, int32_t number);

/* The shape of a sample if a network labels it; else rank 0. */
QN_API qn_shape qn_labeller_sample(const qn_labeller *labeller);

typedef struct qn_label_class {
    int64_t label;
    const char *name;    /* "shirt", "new-1", or what it was named */
    bool is_known;       /* was among the labelled samples */
    int64_t n_members;   /* samples labelled so */
    int64_t first, last; /* indices of the first and last sample with this label; -1: none */
    double share;        /* of the last samples, by the model; among known classes of rows, as
                            among the labelled samples */
    double moved;        /* distance of its centre from the start, in deviations of the labelled
                            samples */
} qn_label_class;

/* The known classes, then the new ones in the order of their labels. */
QN_API int qn_labeller_class_count(const qn_labeller *labeller);
QN_API qn_label_class qn_labeller_class_at(const qn_labeller *labeller, int index);

/* The name of a label, "new" for QN_LABEL_UNSURE and for a class that is no longer kept. */
QN_API const char *qn_labeller_name_of(const qn_labeller *labeller, int64_t label);

/* Renames a class; classes with the same name are merged in all output. */
QN_API qn_status qn_labeller_rename(qn_labeller *labeller, const char *name, const char *to);

/* Looks once more at all samples that are kept and labels them by all that is known by now, for
 * training on them (labelled:FILE); *n_changed receives how many labels changed. Where a network
 * labels and new classes came one after another; of rows, under drift, and before 700 samples
 * nothing changes. It takes as long as a lesson. If it fails, nothing is changed. */
QN_API qn_status qn_labeller_review(qn_labeller *labeller, int64_t *n_changed);

/* A sample that is worth asking for. Of rows: one of a found class that has no name yet. */
typedef struct qn_label_question {
    int64_t label;     /* by now */
    int64_t n_members; /* samples that are kept and of its class, or like it */
    int64_t age;       /* of the sample, for qn_labeller_revise and qn_labeller_tell */
} qn_label_question;

/* The samples most worth asking for, at most `most` of them (QN_LABEL_MAX_NEW is enough for all),
 * those first whose answers say most; *n receives how many. */
QN_API qn_status qn_labeller_ask(const qn_labeller *labeller, int most,
                                 qn_label_question *questions, int *n);

/* Answers: the samples with these ages (n), which qn_labeller_revise has, are of the classes with
 * these names. Of rows, the found class of a sample gets the name; it may have none yet. Where a
 * network labels, a name that no class has is that of a new one, or of the sample's found class if
 * that has none yet, and all samples that are kept are labelled anew by the answers: give all of
 * them at once. A sample that came during a lesson that is under way cannot be told. If there is no
 * room for a new class (QN_LABEL_MAX_NEW have samples), nothing is told: QN_ERROR_ARGUMENT. */
QN_API qn_status qn_labeller_tell(qn_labeller *labeller, int n, const int64_t *ages,
                                  const char *const *names);

/* Position in a stream, saved with the labeller: for its caller. */
typedef struct qn_label_place {
    char source[256]; /* name of the stream; "": none */
    int64_t n_rows;   /* labelled rows */
    int64_t n_bytes;  /* bytes of labels written */
} qn_label_place;

QN_API qn_label_place qn_labeller_get_place(const qn_labeller *labeller);
QN_API void qn_labeller_set_place(qn_labeller *labeller, const qn_label_place *place);

/* Writes it as a safetensors file, whole or not at all, and reads it. */
QN_API qn_status qn_labeller_save(const qn_labeller *labeller, const char *path);
QN_API qn_status qn_labeller_load(const qn_allocator *allocator, const char *path,
                                  qn_labeller **labeller);

#ifdef __cplusplus
}
#endif
#endif
