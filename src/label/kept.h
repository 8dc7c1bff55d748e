/* The rows that a labeller holds, with their labels, as the data set labelled:FILE reads them from
 * its file (data/labelled.c): labelled samples that are examples, and those of the window whose
 * class is known or was found. They follow from all else, so loading passes over them. */
#ifndef QN_LABEL_KEPT_H
#define QN_LABEL_KEPT_H

#include "label/labeller.h"

typedef struct qn_kept_rows {
    int n, d;
    float *x;          /* (n, d) features */
    int32_t *class_of; /* (n) places of records */
    float *confidence; /* (n) */
} qn_kept_rows;

/* Those of now, in memory of the arena; while a stream is under way (where.source) there are none.
 */
qn_status qn_kept_rows_get(const qn_labeller *labeller, qn_arena *arena, qn_kept_rows *rows);

#endif
