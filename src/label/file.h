/* Parts of a labeller's file that those with a network share with others (file.c). */
#ifndef QN_LABEL_FILE_H
#define QN_LABEL_FILE_H

#include "format/safetensors.h"
#include "label/labeller.h"

#define QN_LABEL_FORMAT "quern labeller"

enum {
    QN_LABEL_RECORD_COUNTS = 4, /* of a class: serial, members, first, last */
    QN_LABEL_KEY = 24           /* bytes of a name's key */
};

#define QN_LABEL_LARGEST_COUNT 9007199254740992.0 /* that a double holds exactly */

/* A tensor of a file. */
qn_safetensor qn_label_tensor(const char *name, qn_dtype dtype, qn_shape shape, const void *data);

/* What a read works on. */
typedef struct qn_label_reading {
    const qn_allocator *allocator;
    const char *path;
    qn_file *from;
    qn_safetensors file;
    double *counts; /* (n_counts) */
    size_t n_counts;
    qn_labeller *labeller;
} qn_label_reading;

/* The error of a file that is no labeller's. */
qn_status qn_label_refuse(const qn_label_reading *reading, const char *what);

/* Whether a file says that it is a labeller's of this version. */
qn_status qn_label_check_format(const qn_label_reading *reading, const char *version);

/* Reads a tensor that must have this type and size. */
qn_status qn_label_read_tensor(const qn_label_reading *reading, const char *name, qn_dtype dtype,
                               size_t bytes, void *to);

/* Reads the counts, n_least or more, and has room for n_added behind them. */
qn_status qn_label_read_counts(qn_label_reading *reading, size_t n_least, size_t n_added);

bool qn_label_is_count(double value, double least, double most);
bool qn_label_are_moderate(const float *x, size_t n); /* finite, and 1e30 at most */

/* Counts of the records, QN_LABEL_RECORD_COUNTS each, and taking them back after checks. */
void qn_labeller_put_records(const qn_labeller *labeller, double *counts);
bool qn_labeller_take_records(qn_labeller *labeller, const double *counts);

/* Names of the classes as pairs, in order of their keys; returns how many. keys (records). */
size_t qn_labeller_put_names(const qn_labeller *labeller, qn_safetensors_pair *pairs,
                             char (*keys)[QN_LABEL_KEY]);

/* Takes names and source back. */
bool qn_labeller_take_texts(qn_labeller *labeller, const qn_safetensors *file);

/* ---- files of labellers with a network (network/net_file.c) ---- */

/* The tensor that tells them, and what it is. */
#define QN_NET_FILE_MARK "samples.x"

/* Writes one, whole or not at all; and makes the labeller of a file that has been opened, after
 * checks. Where that fails, what was made is destroyed by whoever asked. */
qn_status qn_net_save(const qn_labeller *labeller, const char *path);
qn_status qn_net_read(qn_label_reading *reading);

#endif
