/* Drip training: a model pretrained on part of a data set continues to learn from a few new images
 * each day, and is tested on the same samples each day (the study's twelfth observation). */
#ifndef QN_STUDY_DRIP_H
#define QN_STUDY_DRIP_H

#include "study/cell.h"

typedef struct qn_drip_options {
    const qn_allocator *allocator;
    const qn_log *log;
    const qn_model *model; /* a classifier */
    const char *data;      /* as --data names it */
    int64_t batch;         /* of the days: a divisor of QN_DRIP_IMAGES */
    int64_t n_pretraining; /* images before the first day; fewer where the data has not as many */
    int64_t n_epochs;      /* over them */
    int64_t n_test;        /* test images; likewise */
    int n_threads;
    const char *weights; /* file of the weights after pre-training: read where it is there, else
                            made, so that all batch sizes begin from the same */
} qn_drip_options;

/* drip borrows the options' texts. */
qn_status qn_drip_run(const qn_drip_options *options, qn_drip *drip);

#endif
