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

/* Whether a file says that it is a labeller's of this version. */
qn_status qn_labeller_check_format(const qn_safetensors *file, const char *path,
                                   const char *version);

/* Counts of the records, QN_LABEL_RECORD_COUNTS each, and taking them back after checks. */
void qn_labeller_put_records(const qn_labeller *labeller, double *counts);
bool qn_labeller_take_records(qn_labeller *labeller, const double *counts);

/* Names of the classes as pairs, in order of their keys; returns how many. keys (records). */
size_t qn_labeller_put_names(const qn_labeller *labeller, qn_safetensors_pair *pairs,
                             char (*keys)[QN_LABEL_KEY]);

/* Takes names and source back. */
bool qn_labeller_take_texts(qn_labeller *labeller, const qn_safetensors *file);

#endif
