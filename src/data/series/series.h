/* Samples that are made series of bytes (T, 1, C) when a data set is opened, and stay in memory:
 * what sounds and texts have in common. Classes are in the order of their names. */
#ifndef QN_DATA_SERIES_H
#define QN_DATA_SERIES_H

#include "data/source.h"

typedef struct qn_series_source {
    qn_source_base base;
    qn_shape sample;
    size_t n, n_classes;
    uint8_t *bytes; /* (n, sample) */
    int32_t *class; /* (n) */
    char **names;   /* (n_classes), in the arena */
    size_t byte_capacity, class_capacity, name_capacity;
} qn_series_source;

/* Adds a sample of a class by its name; *bytes is where it is to be written. */
qn_status qn_series_add(qn_series_source *series, const char *class, uint8_t **bytes);

/* All samples are there: numbers classes in order and fills the source. */
qn_status qn_series_finish(qn_series_source *series, qn_data_source *source);

void qn_series_release(qn_source_base *base);

#endif
