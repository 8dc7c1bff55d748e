/* Samples that are pictures, small, for pages. */
#ifndef QN_CLI_LOOK_THUMBNAIL_H
#define QN_CLI_LOOK_THUMBNAIL_H

#include "data/prepare.h"
#include "quern/data.h"

typedef struct thumbnail {
    const qn_data_source *source;
    qn_shape shape; /* (H, W, C) as samples come */
    int64_t h, w;   /* on the page */
    void *x;
    float *y;        /* targets of the one that was read last */
    uint8_t *pixels; /* (h, w, C) */
    float *row;      /* (w, C) */
    qn_resizer resizer;
} thumbnail;

/* Whether samples are pictures of bytes, grey or in colours. */
bool thumbnail_can(const qn_data_source *source);

/* side: pixels of the longer side at most. What fails leaves it to close. */
qn_status thumbnail_open(thumbnail *t, const qn_data_source *source, int64_t side);
void thumbnail_close(thumbnail *t);

/* Reads a sample: y; and makes it small: pixels. */
qn_status thumbnail_read(thumbnail *t, qn_split split, int64_t index);
void thumbnail_make(thumbnail *t);

#endif
