/* Shared parts of the actions of quern label. */
#ifndef QN_CLI_LABEL_LABEL_H
#define QN_CLI_LABEL_LABEL_H

#include "cli/options.h"
#include "quern/data.h"
#include "quern/label.h"
#include "report/document.h"

/* The labelled samples in memory. */
typedef struct label_samples {
    float *x;       /* (n, n_features) */
    int32_t *label; /* (n) */
    int64_t n;
    int n_features;
    qn_shape sample; /* for a network; rank 0: rows of numbers */
} label_samples;

/* Opens --known as the options say, texts as their numbers. */
qn_status label_open_known(const arguments *a, qn_data_source *source);

/* Reads all samples of a data set of rows, without gaps: rows that have some are left out or filled
 * in, as the options say, which is told. What it holds is released by deinit, also on failure. */
qn_status label_samples_read(const arguments *a, const qn_data_source *source, label_samples *set);
void label_samples_deinit(label_samples *set);

/* Whether a data set has samples that need a network: pictures or series. */
bool label_has_pictures(const qn_data_source *source);

/* They are read one after another; the source stays the caller's. */
typedef struct label_pictures {
    qn_data_source source;
    qn_shape sample; /* as they come out */
    uint64_t seed;
    bool is_shuffled;
    qn_split split;
    int64_t n_split; /* samples left of the split */
    qn_loader *loader;
    qn_batch batch;
    int64_t at, n_left; /* of the batch */
} label_pictures;

/* Begins with the first. pictures: seed and is_shuffled are set, all else is 0. sample: the shape
 * that they get; rank 0: one is chosen. */
qn_status label_pictures_open(label_pictures *pictures, const qn_data_source *source,
                              qn_shape sample);
void label_pictures_close(label_pictures *pictures);

/* The next one, with its class; *x null: there is none. */
qn_status label_pictures_next(label_pictures *pictures, const float **x, int32_t *label);

/* Reads all of them, or as many, drawn by seed, as a labeller keeps; released by
 * label_samples_deinit. */
qn_status label_pictures_read(const qn_data_source *source, uint64_t seed, label_samples *set);

/* Lines of labels as CSV: their header, and a sample's. */
enum { LABEL_LINE = 2 * QN_LABEL_NAME + 64 };
extern const char label_header[];
const char *label_print_line(const qn_labeller *labeller, int64_t sample,
                             const qn_label_answer *answer, char line[LABEL_LINE]);

/* Saves a labeller that was corrected; the file as it was stays as FILE.before, for undo. */
qn_status label_save_correction(const qn_labeller *labeller, const char *path);

/* The actions with a file of their own; each returns the exit status. */
int label_stream(const arguments *a, qn_labeller *labeller);
int label_show(const arguments *a, const qn_labeller *labeller);
int label_ask(const arguments *a, qn_labeller *labeller);
int label_tell(const arguments *a, qn_labeller *labeller);
int label_undo(const arguments *a, const qn_labeller *labeller);
int label_export(const arguments *a, const qn_labeller *labeller);
int label_bench(const arguments *a);

/* QN_ERROR_ARGUMENT where an option is given that says how rows are read; why: there are none. */
qn_status label_refuse_reading(const arguments *a, const char *why);

/* The benchmark of a data set of pictures or series, which has been opened. */
int label_arriving(const arguments *a, const qn_data_source *source);

/* Adds a table with the surest samples of each class, if they are pictures. */
qn_status label_add_typical(qn_document *document, const qn_labeller *labeller);

/* Adds a table of what is asked, with pictures if there are some. */
qn_status label_add_questions(qn_document *document, const qn_labeller *labeller,
                              const qn_label_question *questions, int n);

#endif
